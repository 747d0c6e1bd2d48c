"""How far are predicted training steps from published ones: per source, fitted rows apart from untouched, slow-downs beside?

    python bench/accuracy_training.py --ground-truth DIR [--source WORD] [--anchor ROW] [--predictor engine|estimate]

`rows(folder)` for other benches; alone it prints a table, with `--format json` the same for a machine. Seconds; errors in percent
of the measured step (positive: predicted slower). `--anchor` stretches the kernels of that row's software stack until the row's
own step is met: what a user gets who measures one step.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

import msgspec
import step_engine
import step_estimate
import training_rows
from training_rows import Setup, is_fitted, is_plain

from stepscope.catalog.stack import Stack, load_stack
from stepscope.model.errors import StepscopeError

Predict = Callable[[Setup, Stack], float]
PREDICTORS: Final[dict[str, Predict]] = {"engine": step_engine.step_s, "estimate": step_estimate.step_s}
SMALL: Final = 32
"""Data-parallel rows of nanotron's sweep up to so many GPUs come from one healthy population; larger ones are mixed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One published step. `klass` is what is averaged together within a source. `unmapped` says why there is no prediction."""

    id: str
    source: str
    klass: str
    fitted: bool
    measured: float
    predicted: float | None = None
    error_pct: float | None = None
    anchored: bool = False
    slowdown_measured: float | None = None
    slowdown_predicted: float | None = None
    unmapped: str | None = None


def rows(ground_truth: Path, source: str = "", anchors: Iterable[str] = (), predictor: str = "engine") -> list[Row]:
    """Every training row of the files in a folder, predicted where it can be. `anchors`: ids of rows that calibrate a stack."""
    published = [row for row in training_rows.read(ground_truth) if source in row.source]
    predict = PREDICTORS[predictor]
    stacks = _anchored(published, set(anchors), predict)
    found, plain = [], {}
    for row in published:
        made = _row(row, stacks, predict)
        if row.id in anchors:
            made = replace(made, anchored=True)
        found.append(made)
        if row.setup is not None and is_plain(row.setup) and made.predicted is not None:
            plain.setdefault(row.group, made)
    return [_against(made, row, plain) for made, row in zip(found, published, strict=True)]


def _row(row: training_rows.Row, stacks: dict[tuple[str, str], Stack], predict: Predict) -> Row:
    base = Row(row.id, row.source, _class(row.setup), is_fitted(row), row.measured)
    if row.setup is None:
        return replace(base, unmapped=row.why)
    try:
        name = row.setup.stack
        seconds = predict(row.setup, stacks.get((row.page, name)) or stacks.get((row.source, name)) or load_stack(name))
    except StepscopeError as error:
        return replace(base, unmapped=str(error))
    return replace(base, predicted=seconds, error_pct=100 * (seconds / row.measured - 1))


def _class(setup: Setup | None) -> str:
    if setup is None:
        return "unmapped"
    plan = setup.plan
    if setup.stack == "nanotron" and setup.pp == plan.tp == 1:
        return f"data parallel, {'up to' if plan.world_size <= SMALL else 'over'} {SMALL} GPUs"
    parallel = "".join(f", {axis}" for axis, size in (("tp", plan.tp), ("pp", setup.pp), ("cp", plan.cp)) if size > 1)
    if setup.stack.startswith("torchtitan") and plan.cp == setup.pp == 1:
        parallel = ""
    return f"{'fp8' if plan.precision.startswith('fp8') else plan.precision}{parallel}"


def _against(made: Row, row: training_rows.Row, plain: dict[str, Row]) -> Row:
    base = plain.get(row.group)
    if base is None or row.setup is None or is_plain(row.setup) or made.predicted is None or base.predicted is None:
        return made
    return replace(made, slowdown_measured=made.measured / base.measured, slowdown_predicted=made.predicted / base.predicted)


def _anchored(published: list[training_rows.Row], ids: set[str], predict: Predict) -> dict[tuple[str, str], Stack]:
    """Stacks with the stretch that makes each anchor's own step right; it holds for the rows of its page, and for
    those of its file whose page has no anchor."""
    unknown = ids - {row.id for row in published}
    if unknown:
        raise SystemExit(f"--anchor: no row {', '.join(sorted(unknown))}; take ids of the ground truth")
    found = {}
    for row in published:
        if row.id in ids and row.setup is not None:
            stack = _stretched(row.setup, row.measured, predict)
            found[row.page, row.setup.stack] = stack
            found.setdefault((row.source, row.setup.stack), stack)
    return found


def _stretched(setup: Setup, measured: float, predict: Predict) -> Stack:
    base = load_stack(setup.stack)
    low, high = 0.1, 10.0
    for _ in range(30):
        middle = (low * high) ** 0.5
        if predict(setup, msgspec.structs.replace(base, compute_factor=middle)) < measured:
            low = middle
        else:
            high = middle
    return msgspec.structs.replace(base, compute_factor=(low * high) ** 0.5)


@dataclass(frozen=True, slots=True)
class Summary:
    """One line of the table; the `_all` percentiles count every unmapped row as 100 % off. `slow_*` of slow-downs."""

    source: str
    klass: str
    fitted: bool
    n: int
    mapped: int
    median_abs_pct: float | None
    p90_abs_pct: float | None
    bias_pct: float | None
    median_abs_pct_all: float | None
    p90_abs_pct_all: float | None
    slow_n: int
    slow_worst_pct: float | None


def summaries(found: list[Row]) -> Iterator[Summary]:
    """Per source and class, fitted apart from untouched; anchors are left out."""
    keys = sorted({(r.source, r.klass, r.fitted) for r in found if not r.anchored})
    for source, klass, fitted in keys:
        mine = [r for r in found if (r.source, r.klass, r.fitted) == (source, klass, fitted) and not r.anchored]
        errors = [r.error_pct for r in mine if r.error_pct is not None]
        absolute = sorted(abs(e) for e in errors)
        every = sorted(absolute + [100.0] * (len(mine) - len(absolute)))
        slow = [
            100 * abs(r.slowdown_predicted / r.slowdown_measured - 1)
            for r in mine
            if r.slowdown_predicted is not None and r.slowdown_measured is not None
        ]
        yield Summary(
            source=source,
            klass=klass,
            fitted=fitted,
            n=len(mine),
            mapped=len(errors),
            median_abs_pct=_quantile(absolute, 0.5),
            p90_abs_pct=_quantile(absolute, 0.9),
            bias_pct=statistics.fmean(errors) if errors else None,
            median_abs_pct_all=_quantile(every, 0.5),
            p90_abs_pct_all=_quantile(every, 0.9),
            slow_n=len(slow),
            slow_worst_pct=max(slow) if slow else None,
        )


def _quantile(ordered: list[float], share: float) -> float | None:
    """By linear interpolation, None of nothing."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _json(found: list[Row]) -> dict[str, Any]:
    return {
        "schema": "accuracy-training/1",
        "rows": [asdict(r) for r in found if r.unmapped is None],
        "unmapped": [{"id": r.id, "source": r.source, "why": r.unmapped} for r in found if r.unmapped is not None],
        "sources": [asdict(s) for s in summaries(found)],
    }


def _cell(value: float | None, width: int = 7) -> str:
    return f"{'-' if value is None else f'{value:.1f}':>{width}}"


def main() -> None:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ground-truth", type=Path, required=True)
    parser.add_argument("--source", default="", help="files whose name holds this word")
    parser.add_argument("--anchor", action="append", default=[], metavar="ROW")
    parser.add_argument("--predictor", choices=tuple(PREDICTORS), default="engine")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--rows", action="store_true", help="every row, too")
    options = parser.parse_args()
    found = rows(options.ground_truth, options.source, tuple(options.anchor), options.predictor)
    if options.format == "json":
        print(json.dumps(_json(found)))
        return
    if options.rows:
        for r in found:
            slow = (
                ""
                if r.slowdown_predicted is None
                else f"slow-down {r.slowdown_measured:.2f} predicted {r.slowdown_predicted:.2f}"
            )
            said = " ".join(filter(None, ("fitted" if r.fitted else "", slow, r.unmapped)))
            print(f"{r.id:18s} {r.measured:10.4f} s {_cell(r.error_pct)} % {said}")
    titles = f"{'n':>5s} {'mapped':>6s} {'median':>7s} {'p90':>7s} {'bias':>7s} {'slow':>5s} {'worst':>7s}"
    print(f"{'source':30s} {'class':32s} {'':10s} {titles}")
    for s in summaries(found):
        print(
            f"{s.source:30s} {s.klass:32s} {'fitted' if s.fitted else 'untouched':10s} {s.n:5d} {s.mapped:6d} "
            f"{_cell(s.median_abs_pct)} {_cell(s.p90_abs_pct)} {_cell(s.bias_pct)} {s.slow_n:5d} {_cell(s.slow_worst_pct)}"
        )


if __name__ == "__main__":
    main()
