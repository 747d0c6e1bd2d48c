"""How far are predicted steps and collectives from published ones? Fitted rows apart from untouched ones, beside a peer.

    python bench/accuracy.py --ground-truth DIR [--anchor ROW]... [--peer-python PYTHON] [--format text|json]

`rows`: every published row with what was measured and predicted (s; us for collectives), the error in percent, and whether its
numbers were among those fitted. `unmapped`: rows without a prediction, and why. `sources`: median, 90th percentile and bias; a
second time (`with_unmapped`) with every row that is not mapped counted as 100 % off. `--peer-python` is an interpreter with
llm-analysis (PyPI 0.2.2): the same training rows, at its own efficiency and at 0.5. Rows are mapped by their own fields: any
folder with files of the same keys will do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

import accuracy_collectives
import accuracy_training
import training_rows
from training_rows import Setup

PEER: Final = Path(__file__).with_name("peer_llm_analysis.py")
WHOLE: Final = 100.0  # error in percent that a row counts with that is not mapped


@dataclass(frozen=True, slots=True)
class Row:
    """One published row. `klass` is what is averaged together within a source."""

    id: str
    source: str
    klass: str
    fitted: bool
    measured: float
    unit: str
    predicted: float | None = None
    error_pct: float | None = None
    slowdown_measured: float | None = None
    slowdown_predicted: float | None = None
    unmapped: str | None = None
    peer_pct: float | None = None
    peer_half_pct: float | None = None


def training(folder: Path, anchors: Iterable[str]) -> list[Row]:
    """The training rows."""
    return [
        Row(r.id, r.source, r.klass, r.fitted, r.measured, "s", r.predicted, r.error_pct, r.slowdown_measured,
            r.slowdown_predicted, r.unmapped)
        for r in accuracy_training.rows(folder, anchors=tuple(anchors))
    ]  # fmt: skip


def collectives(folder: Path) -> list[Row]:
    """The rows of nccl-tests."""
    if not (folder / "collectives.json").is_file():
        return []
    found = []
    for r in accuracy_collectives.rows(folder):
        size = "1 MiB and more" if r.nbytes >= accuracy_collectives.MIB else "below 1 MiB"
        health = "faulted" if r.faulted else "healthy"
        klass = f"{r.klass or 'unknown network'}, {health}, {size}"
        found.append(
            Row(r.id, r.source, klass, r.fitted, r.measured or 0.0, "us", r.predicted, r.error_pct, r.slowdown_measured,
                r.slowdown_predicted, r.unmapped or (None if r.measured else "no time is given"))
        )  # fmt: skip
    return found


def beside_peer(rows: list[Row], folder: Path, python: str) -> list[Row]:
    """The training rows with the peer's error, at its own efficiency and at 0.5."""
    from dataclasses import replace

    setups = {row.id: row.setup for row in training_rows.read(folder) if row.setup is not None}
    asked = [row.id for row in rows if row.unit == "s" and row.id in setups and row.predicted is not None]
    plain = json.dumps([_numbers(setups[i]) for i in asked])
    errors: dict[str, list[float | None]] = {i: [] for i in asked}
    measured = {row.id: row.measured for row in rows}
    for efficiency in ("default", "0.5"):
        answer = subprocess.run([python, str(PEER), efficiency], input=plain, capture_output=True, text=True, check=True)
        for i, seconds in zip(asked, json.loads(answer.stdout.splitlines()[-1]), strict=True):
            errors[i].append(None if seconds is None else 100 * (seconds / measured[i] - 1))
    return [replace(r, peer_pct=errors[r.id][0], peer_half_pct=errors[r.id][1]) if r.id in errors else r for r in rows]


def _numbers(setup: Setup) -> dict[str, Any]:
    shape, plan = setup.shape, setup.plan
    return {
        "layers": shape.layers, "heads": shape.heads, "kv_heads": shape.kv_heads, "hidden": shape.hidden, "ffn": shape.ffn,
        "vocab": shape.vocab, "seq": plan.sequence(shape.context), "gated": shape.activation == "swiglu", "gpu": setup.gpu,
        "mbs": plan.mbs, "ga": plan.ga, "tp": plan.tp, "pp": setup.pp, "data": plan.data_ranks, "ac": plan.ac,
        "strategy": plan.strategy,
    }  # fmt: skip


def summaries(rows: list[Row]) -> list[dict[str, Any]]:
    """One entry per source and class, fitted and untouched apart, and one per class over all sources."""
    groups: dict[tuple[str, str, bool], list[Row]] = {}
    for row in rows:
        short = row.source.split(" @ ")[0][:60]
        for source in (short, "all sources"):
            groups.setdefault((source, row.klass, row.fitted), []).append(row)
    return [
        _summary(*key, found) for key, found in sorted(groups.items(), key=lambda g: (g[0][0] == "all sources", *map(str, g[0])))
    ]


def _summary(source: str, klass: str, fitted: bool, rows: list[Row]) -> dict[str, Any]:
    errors = [row.error_pct for row in rows if row.error_pct is not None]
    sizes = [abs(e) for e in errors]
    whole = sizes + [WHOLE] * (len(rows) - len(sizes))
    slow = [
        100 * abs(r.slowdown_predicted / r.slowdown_measured - 1) for r in rows if r.slowdown_measured and r.slowdown_predicted
    ]
    peer = [abs(r.peer_pct) for r in rows if r.peer_pct is not None]
    half = [abs(r.peer_half_pct) for r in rows if r.peer_half_pct is not None]
    return {
        "source": source,
        "class": klass,
        "fitted": fitted,
        "n": len(rows),
        "mapped": len(sizes),
        "median_abs_pct": quantile(sizes, 0.5),
        "p90_abs_pct": quantile(sizes, 0.9),
        "bias_pct": statistics.fmean(errors) if errors else None,
        "with_unmapped": {"median_abs_pct": quantile(whole, 0.5), "p90_abs_pct": quantile(whole, 0.9)},
        "slowdowns": len(slow),
        "slowdown_median_pct": quantile(slow, 0.5),
        "slowdown_worst_pct": max(slow, default=None),
        "peer_median_pct": quantile(peer, 0.5),
        "peer_half_median_pct": quantile(half, 0.5),
    }


def quantile(values: list[float], share: float) -> float | None:
    """Linear between the two nearest; None for no values."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def main() -> int:
    """Print the table, or everything as JSON."""
    parser = argparse.ArgumentParser(description="How far predicted steps and collectives are from published ones.")
    parser.add_argument("--ground-truth", type=Path, required=True, metavar="DIR")
    parser.add_argument("--anchor", action="append", default=[], metavar="ROW", help="id of a row that calibrates its stack")
    parser.add_argument("--peer-python", metavar="PYTHON", help="an interpreter with llm-analysis 0.2.2")
    parser.add_argument("--only", choices=("training", "collectives"))
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    if not options.ground_truth.is_dir():
        parser.error(f"{options.ground_truth}: no such folder")
    rows = [] if options.only == "collectives" else training(options.ground_truth, options.anchor)
    rows += [] if options.only == "training" else collectives(options.ground_truth)
    if options.peer_python:
        rows = beside_peer(rows, options.ground_truth, options.peer_python)
    found = summaries(rows)
    unmapped = [{"id": row.id, "source": row.source, "why": row.unmapped} for row in rows if row.unmapped]
    if options.format == "json":
        document = {"schema": "bench.accuracy/1", "rows": [asdict(r) for r in rows if not r.unmapped], "unmapped": unmapped}
        print(json.dumps({**document, "sources": found}, indent=1))
        return 0
    _print(found)
    reasons: dict[str, int] = {}
    for row in unmapped:
        reasons[str(row["why"])] = reasons.get(str(row["why"]), 0) + 1
    print(f"\n{len(unmapped)} of {len(rows)} rows are not mapped:")
    for why, many in sorted(reasons.items(), key=lambda r: -r[1]):
        print(f"  {many:5}  {why}")
    return 0


def _print(found: list[dict[str, Any]]) -> None:
    head = f"{'source':44} {'class':34} {'':9} {'n':>5} {'mapped':>6} {'median':>7} {'p90':>7} {'bias':>7}"
    print(f"{head}  {'slow-down':>15}  {'peer':>6} {'at 0.5':>6}")
    for s in found:
        slow = f"{s['slowdowns']}: {_pct(s['slowdown_median_pct'])} / {_pct(s['slowdown_worst_pct'])}" if s["slowdowns"] else ""
        figures = f"{_pct(s['median_abs_pct']):>7} {_pct(s['p90_abs_pct']):>7} {_pct(s['bias_pct']):>7}"
        peer = f"{_pct(s['peer_median_pct']):>6} {_pct(s['peer_half_median_pct']):>6}"
        which = "fitted" if s["fitted"] else "untouched"
        print(f"{s['source'][:44]:44} {s['class'][:34]:34} {which:9} {s['n']:5} {s['mapped']:6} {figures}  {slow:>15}  {peer}")


def _pct(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


if __name__ == "__main__":
    sys.exit(main())
