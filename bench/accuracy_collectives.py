"""How far are predicted collectives from published ones, fitted and untouched apart, and slow-downs under faults?

`rows(folder)` for other benches; alone it prints a table. us; errors in percent of the measured time, above 0 where the
prediction is slower. Reduce-scatter's accuracy is unknown: two rows, one of them on a platform known to be sick.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

from collective_rows import SATURATED, Setup, measured_us, setup

from stepscope.catalog.nccl import NcclTables
from stepscope.simulator.nccl.model import Collectives

FITTED: Final = (
    "8x H200 all_reduce_bench.py",
    "P6-B200 1 vs 4 nodes",
    "SHARP ramp B200, NCCL_NVLS_ENABLE=0",
    "nccl-tests/issues/309 2 nodes",
    "A3 High/Edge",
    "3.1 ipoib-nic-policy-gpu",
)
"""Words of the sources whose tables the parameters of catalog/nccl.toml were fitted to; every other source is untouched.

Fitted are the sick rows of nccl#2409, too: what a NIC gets past the root complex is a finding of that thread. Two rules were
shaped with untouched rows in sight: that NVLS of 72 GPUs is no faster than of eight, and that an NVLSTree has eight heads.
"""

MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """One published row. `unmapped` says why there is no prediction; `slowdown_*` where a healthy counterpart exists."""

    id: str
    source: str
    op: str
    nbytes: int
    klass: str | None
    faulted: bool
    fitted: bool
    measured: float | None
    predicted: float | None = None
    error_pct: float | None = None
    algorithm: str | None = None
    slowdown_measured: float | None = None
    slowdown_predicted: float | None = None
    unmapped: str | None = None


def rows(ground_truth: Path, tables: NcclTables | None = None) -> list[Row]:
    """Every row of collectives.json in that folder, predicted where it can be."""
    published = json.loads((ground_truth / "collectives.json").read_text())["rows"]
    found: list[Row] = []
    healthy: dict[tuple[object, ...], Row] = {}
    keys: list[tuple[object, ...] | None] = []
    models: dict[Any, Collectives] = {}
    for row in published:
        known = setup(row)
        measured = measured_us(row)
        done = _row(row, known, measured, models, tables)
        found.append(done)
        keys.append(known.key if isinstance(known, Setup) else None)
        if isinstance(known, Setup) and not known.faulted and done.predicted is not None:
            healthy[known.key] = done
    return [_against(row, healthy.get(key)) if key and row.faulted else row for row, key in zip(found, keys, strict=True)]


def _row(row: dict[str, Any], known: Setup | str, us: float | None, models: dict[Any, Collectives], t: NcclTables | None) -> Row:
    fitted = any(word in row["source"] for word in FITTED) or ("2409" in row["source"] and "ACS" in (row["fault"] or ""))
    if isinstance(known, str) or us is None:
        why = known if isinstance(known, str) else "its bandwidth is rounded away"
        return Row(
            row["id"], row["source"], row["op"], row["bytes"] or SATURATED, None, bool(row["fault"]), fitted, us, unmapped=why
        )
    key = (id(known.cluster), known.gpu.name, known.settings, known.transport)
    if key not in models:
        models[key] = Collectives(known.cluster, known.gpu, known.settings, transport=known.transport, tables=t)
    timing = models[key].time(known.op, known.nbytes, known.groups)
    got = float(timing.ns[0]) / 1e3
    error = (got / us - 1) * 100
    return Row(
        row["id"], row["source"], known.op, known.nbytes, known.klass, known.faulted, fitted,
        us, got, error, f"{timing.algorithm}/{timing.protocol}",
    )  # fmt: skip


def _against(row: Row, other: Row | None) -> Row:
    if other is None or row.predicted is None or row.measured is None or not other.predicted or not other.measured:
        return row
    values = asdict(row)
    values.update(slowdown_measured=row.measured / other.measured, slowdown_predicted=row.predicted / other.predicted)
    return Row(**values)


def summary(found: Iterable[Row]) -> dict[str, float | int | None]:
    """n, mapped, and median, 90th percentile and bias of the errors in percent."""
    every = list(found)
    errors = [r.error_pct for r in every if r.error_pct is not None]
    sizes = sorted(abs(e) for e in errors)
    return {
        "n": len(every),
        "mapped": len(errors),
        "median_abs_pct": statistics.median(sizes) if sizes else None,
        "p90_abs_pct": sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))] if sizes else None,
        "bias_pct": statistics.median(errors) if errors else None,
    }


def tables_of(found: list[Row]) -> dict[str, dict[str, dict[str, float | int | None]]]:
    """The summaries: by source, and by class of network for healthy rows of 1 MiB and more."""
    big = [r for r in found if not r.faulted and r.nbytes >= MIB]
    parts: dict[str, dict[str, dict[str, float | int | None]]] = {"healthy, 1 MiB and more": {}, "sources": {}}
    wired = [r for r in big if r.klass in ("nvlink", "rdma")]
    for fitted in (False, True):
        word = "fitted" if fitted else "untouched"
        parts["healthy, 1 MiB and more"][f"NVLink, IB, RoCE {word}"] = summary(r for r in wired if r.fitted == fitted)
        for klass in ("nvlink", "rdma", "tcpxo", "tcpx", "efa"):
            some = [r for r in big if r.klass == klass and r.fitted == fitted]
            if some:
                parts["healthy, 1 MiB and more"][f"  {klass} {word}"] = summary(some)
    for source in dict.fromkeys(r.source for r in found):
        some = [r for r in found if r.source == source]
        parts["sources"][f"{source}{' [fitted]' if some[0].fitted else ''}"] = summary(some)
    return parts


def main() -> None:
    """Print the tables, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ground-truth", type=Path, required=True)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--rows", action="store_true", help="print every row too")
    args = parser.parse_args()
    found = rows(args.ground_truth)
    if args.format == "json":
        print(json.dumps({"rows": [asdict(r) for r in found], **tables_of(found)}, indent=1))
        return
    for title, part in tables_of(found).items():
        print(f"\n{title:78} {'n':>4} {'mapped':>6} {'median':>7} {'p90':>7} {'bias':>7}")
        for name, s in part.items():
            errors = " ".join(_pct(s[key]) for key in ("median_abs_pct", "p90_abs_pct", "bias_pct"))
            print(f"{name[-78:]:78} {s['n']:4} {s['mapped']:6} {errors}")
    print("\nfaulted: slow-down measured, predicted, and how far off")
    for r in found:
        if r.slowdown_measured and r.slowdown_predicted and r.nbytes >= MIB:
            off = (r.slowdown_predicted / r.slowdown_measured - 1) * 100
            what = f"{r.id:10} {r.op:14} {r.nbytes / MIB:7.0f} MiB"
            print(f"  {what} {r.slowdown_measured:8.2f} {r.slowdown_predicted:8.2f} {off:7.1f} %  {r.source[-60:]}")
    for r in found if args.rows else ():
        times = f"{_us(r.measured)} {_us(r.predicted)} {_pct(r.error_pct)}"
        print(f"{r.id:10} {r.klass!s:7} {r.op:14} {r.nbytes / MIB:10.4f} {times} {r.algorithm!s:16} {r.unmapped or ''}")
    print("\nreduce-scatter: accuracy unknown, two rows")


def _pct(value: float | int | None) -> str:
    return f"{'-' if value is None else f'{value:.1f}':>7}"


def _us(value: float | None) -> str:
    return f"{'-' if value is None else f'{value:.1f}':>11}"


if __name__ == "__main__":
    main()
