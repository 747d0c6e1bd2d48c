"""How far is planned memory from published memory, and does the planner know what runs out? Fitted rows apart, beside peers.

    python bench/memory.py --ground-truth DIR [--peer-python PYTHON] [--rows] [--format text|json]

Three quantities: `reserved` (published peaks: the most that torch took), `resting` (live between steps), and outcomes (ran out of
memory, or not; rows that failed otherwise decide nothing). Bytes; errors in percent of the measured. `--peer-python` is an
interpreter with llm-analysis (PyPI 0.2.2). DeepSpeed's and Megatron's formulas are written out here. Rows are mapped by their own
fields: any folder with files of the same keys will do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

import memory_rows
from accuracy import WHOLE, quantile
from training_rows import Setup

from stepscope.catalog.gpu import load_gpu
from stepscope.catalog.stack import load_stack
from stepscope.model.errors import StepscopeError
from stepscope.model.memory import MemoryPlan
from stepscope.model.workload import Workload
from stepscope.planner.predict import predict
from stepscope.planner.setting import Choice

PEER: Final = Path(__file__).with_name("peer_llm_memory.py")
PEERS: Final = ("llm_analysis", "deepspeed", "megatron")


@dataclass(frozen=True, slots=True)
class Row:
    """One published figure (bytes) with the planned one, or an outcome with the planned one."""

    id: str
    source: str
    klass: str
    quantity: str
    fitted: bool
    pp: int | None
    measured: float | None
    predicted: float | None = None
    error_pct: float | None = None
    oom: bool | None = None
    oom_predicted: bool | None = None
    low: float | None = None
    high: float | None = None
    peak_at: str | None = None
    unmapped: str | None = None
    llm_analysis: float | None = None
    deepspeed: float | None = None
    megatron: float | None = None
    capacity: float | None = None


def rows(folder: Path) -> list[Row]:
    """Every figure and outcome of the folder."""
    return [_row(row) for row in memory_rows.read(folder)]


def plan_of(row: memory_rows.Row) -> MemoryPlan:
    """The plan's memory."""
    assert row.setup is not None
    setup = row.setup
    workload = Workload(model="row", shape=setup.shape, plan=setup.plan)
    return predict(workload, load_gpu(setup.gpu), load_stack(setup.stack), Choice(loss=row.loss))


def _row(row: memory_rows.Row) -> Row:
    pp = None if row.setup is None else row.setup.pp
    found = Row(row.id, row.source, row.klass, row.quantity, row.fitted, pp, row.measured, oom=row.oom, unmapped=row.why or None)
    if row.setup is None:
        return found
    try:
        plan = plan_of(row)
    except StepscopeError as error:
        return replace(found, unmapped=str(error))
    deepspeed, megatron = deepspeed_bytes(row.setup), megatron_bytes(row.setup)
    found = replace(found, deepspeed=deepspeed, megatron=megatron, peak_at=plan.peak_at, capacity=plan.capacity_bytes)
    if row.quantity == "outcome":
        return replace(found, oom_predicted=not plan.fits)
    value = plan.resting_bytes if row.quantity == "resting" else plan.reserved_bytes
    assert row.measured is not None
    torch = [t for t in plan.terms if t.place != "outside"]
    low, high = sum(t.low for t in torch), sum(t.high for t in torch)
    bounds = (None, None) if row.quantity == "resting" else (low, high)
    return replace(found, predicted=value, error_pct=100 * (value / row.measured - 1), low=bounds[0], high=bounds[1])


def _states(setup: Setup) -> tuple[float, float]:
    """Parameters of the first stage on one tensor-parallel rank, and data ranks."""
    shape, plan = setup.shape, setup.plan
    first = shape.layers / setup.pp * shape.layer_parameters() + shape.embedding_parameters()
    first += shape.head_parameters() if setup.pp == 1 else 0
    return first / plan.tp, plan.data_ranks * plan.cp


def deepspeed_bytes(setup: Setup) -> float:
    """estimate_zero2/3_model_states_mem_needs of DeepSpeed: states alone (18 bytes a parameter, by stage)."""
    many, data = _states(setup)
    if setup.plan.strategy in ("fsdp", "hsdp"):
        shards = setup.plan.shard * setup.plan.cp
        return 4 * setup.shape.vocab * setup.shape.hidden / setup.plan.tp + 18 * many / shards
    return 2 * many + 16 * many / (data if setup.plan.strategy == "zero1" else 1)


def megatron_bytes(setup: Setup) -> float:
    """theoretical_memory_usage.py of Megatron-LM: 18 or 6 + 12 / d bytes a parameter, and the activations of its formula."""
    many, data = _states(setup)
    shape, plan = setup.shape, setup.plan
    each = 18 if plan.strategy == "ddp" else 6 + 12 / data
    tokens = plan.mbs * plan.sequence(shape.context) / plan.cp
    layer = tokens * shape.hidden * (18 + 4 * (shape.ffn * (1.5 if shape.activation == "swiglu" else 1)) / shape.hidden) / plan.tp
    flight = min(plan.ga, setup.pp)
    activations = layer * shape.layers / setup.pp * flight + 8 * tokens * flight + tokens * shape.hidden * flight
    if setup.pp == 1:
        activations += tokens * 4 * (shape.hidden + shape.vocab) / plan.tp
    return each * many + activations


def beside_peer(found: list[Row], folder: Path, python: str) -> list[Row]:
    """The rows with llm-analysis's bytes."""
    setups = [row.setup for row in memory_rows.read(folder)]
    asked = [i for i, setup in enumerate(setups) if setup is not None and found[i].unmapped is None]
    plain = json.dumps([_numbers(setups[i]) for i in asked])  # type: ignore[arg-type]  # None is left out above
    answer = subprocess.run([python, str(PEER)], input=plain, capture_output=True, text=True, check=True)
    filled = list(found)
    for i, value in zip(asked, json.loads(answer.stdout.splitlines()[-1]), strict=True):
        filled[i] = replace(found[i], llm_analysis=value)
    return filled


def _numbers(setup: Setup) -> dict[str, Any]:
    shape, plan = setup.shape, setup.plan
    return {
        "layers": shape.layers, "heads": shape.heads, "kv_heads": shape.kv_heads, "hidden": shape.hidden, "ffn": shape.ffn,
        "vocab": shape.vocab, "seq": plan.sequence(shape.context), "gated": shape.activation == "swiglu", "mbs": plan.mbs,
        "ga": plan.ga, "tp": plan.tp, "pp": setup.pp, "data": plan.data_ranks, "ac": plan.ac, "strategy": plan.strategy,
    }  # fmt: skip


def summaries(found: Iterable[Row]) -> list[dict[str, Any]]:
    """One entry per source, class and fitted or not; percentiles a second time with what is not mapped as 100 % off."""
    groups: dict[tuple[str, str, bool], list[Row]] = {}
    for row in found:
        if row.quantity != "outcome":
            groups.setdefault((row.source, row.klass, row.fitted), []).append(row)
    return [_summary(*key, group) for key, group in sorted(groups.items())]


def _summary(source: str, klass: str, fitted: bool, group: list[Row]) -> dict[str, Any]:
    errors = [row.error_pct for row in group if row.error_pct is not None]
    sizes = [abs(error) for error in errors]
    whole = sizes + [WHOLE] * (len(group) - len(sizes))
    inside = [r.low <= r.measured <= r.high for r in group if r.low is not None and r.high is not None and r.measured is not None]
    summary = {
        "source": source, "class": klass, "fitted": fitted, "n": len(group), "mapped": len(sizes),
        "median_abs_pct": quantile(sizes, 0.5), "p90_abs_pct": quantile(sizes, 0.9),
        "bias_pct": statistics.fmean(errors) if errors else None,
        "with_unmapped": {"median_abs_pct": quantile(whole, 0.5), "p90_abs_pct": quantile(whole, 0.9)},
        "inside_bounds": sum(inside) / len(inside) if inside else None,
    }  # fmt: skip
    for peer in PEERS:
        off = [100 * abs(getattr(r, peer) / r.measured - 1) for r in group if getattr(r, peer) is not None and r.measured]
        summary[f"{peer}_median_pct"] = quantile(off, 0.5)
    return summary


def outcomes(found: Iterable[Row]) -> list[dict[str, Any]]:
    """Ran out or not: right, and the recall of both, per source and with or without a pipeline; peers where they say bytes."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        if row.quantity == "outcome" and row.oom_predicted is not None:
            groups.setdefault((row.source, "1" if row.pp == 1 else ">1"), []).append(row)
    return [{"source": source, "pp": pp, **_outcome(group)} for (source, pp), group in sorted(groups.items())]


def _outcome(group: list[Row]) -> dict[str, Any]:
    result = _recalls([(bool(r.oom), bool(r.oom_predicted)) for r in group])
    for peer in PEERS:
        said = [(bool(r.oom), getattr(r, peer) > r.capacity) for r in group if getattr(r, peer) is not None and r.capacity]
        result[peer] = _recalls(said) if said else None
    return result


def _recalls(pairs: list[tuple[bool, bool]]) -> dict[str, Any]:
    out = [said for truth, said in pairs if truth]
    fits = [not said for truth, said in pairs if not truth]
    return {
        "n": len(pairs),
        "right": (sum(out) + sum(fits)) / len(pairs) if pairs else None,
        "recall_oom": sum(out) / len(out) if out else None,
        "recall_fits": sum(fits) / len(fits) if fits else None,
    }


def document(found: list[Row]) -> dict[str, Any]:
    """bench.memory/1."""
    measured = [asdict(r) for r in found if r.unmapped is None and r.quantity != "outcome"]
    unmapped = {r.id: {"id": r.id, "source": r.source, "why": r.unmapped} for r in found if r.unmapped}
    return {
        "schema": "bench.memory/1",
        "rows": measured,
        "unmapped": list(unmapped.values()),
        "sources": summaries(found),
        "oom": outcomes(found),
        "mapped_share": 1 - len(unmapped) / max(len({r.id for r in found}), 1),
    }


def main() -> int:
    """Print the table, or everything as JSON."""
    parser = argparse.ArgumentParser(description="How far planned memory is from published memory.")
    parser.add_argument("--ground-truth", type=Path, required=True, metavar="DIR")
    parser.add_argument("--peer-python", metavar="PYTHON", help="an interpreter with llm-analysis 0.2.2")
    parser.add_argument("--rows", action="store_true", help="every row of torchtitan and of other small sources, too")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    if not options.ground_truth.is_dir():
        parser.error(f"{options.ground_truth}: no such folder")
    found = rows(options.ground_truth)
    if options.peer_python:
        found = beside_peer(found, options.ground_truth, options.peer_python)
    if options.format == "json":
        print(json.dumps(document(found)))
        return 0
    _print(found, options.rows)
    return 0


def _print(found: list[Row], each: bool) -> None:
    many = Counter(row.source for row in found)
    if each:
        for r in (r for r in found if r.quantity != "outcome" and many[r.source] < 100):
            error = "-" if r.error_pct is None else f"{r.error_pct:+.1f} %"
            print(f"{r.id:18s} {r.klass:28s} {(r.measured or 0) / 2**30:7.2f} GiB {error:>9s} {'fitted' if r.fitted else '':7s}"
                  f"{r.peak_at or r.unmapped or ''}")  # fmt: skip
    print(f"{'source':28s} {'class':28s} {'':9s} {'n':>5s} {'mapped':>6s} {'median':>7s} {'p90':>7s} {'bias':>7s} "
          f"{'in range':>8s}  {'llm-analysis':>12s} {'DeepSpeed':>9s} {'Megatron':>9s}")  # fmt: skip
    for s in summaries(found):
        peers = [_pct(s[f"{peer}_median_pct"]) for peer in PEERS]
        inside = "-" if s["inside_bounds"] is None else f"{100 * s['inside_bounds']:.0f} %"
        print(
            f"{s['source'][:28]:28s} {s['class']:28s} {'fitted' if s['fitted'] else 'untouched':9s} {s['n']:5d} {s['mapped']:6d} "
            f"{_pct(s['median_abs_pct'])} {_pct(s['p90_abs_pct'])} {_pct(s['bias_pct'])} {inside:>8s}  "
            f"{peers[0]:>12s} {peers[1]:>9s} {peers[2]:>9s}"
        )
    print(f"\n{'ran out of memory':28s} {'pp':>3s} {'n':>5s} {'right':>7s} {'of out':>7s} {'of fits':>7s}   right by peers")
    for o in outcomes(found):
        peers = ", ".join(f"{peer} {_share(o[peer]['right'])} of {o[peer]['n']}" for peer in PEERS if o[peer])
        print(
            f"{o['source'][:28]:28s} {o['pp']:>3s} {o['n']:5d} {_share(o['right'])} {_share(o['recall_oom'])} "
            f"{_share(o['recall_fits'])}   {peers}"
        )
    reasons = Counter(r.unmapped for r in found if r.unmapped and r.quantity != "resting")
    print(f"\n{100 * document(found)['mapped_share']:.1f} % of rows are mapped")
    for why, number in reasons.most_common():
        print(f"  {number:5d}  {why}")


def _pct(value: float | None) -> str:
    return f"{'-' if value is None else f'{value:.1f}':>7s}"


def _share(value: float | None) -> str:
    return f"{'-' if value is None else f'{100 * value:.1f} %':>7s}"


if __name__ == "__main__":
    sys.exit(main())
