"""What does a step, a token or a batch cost, and how does that differ between two runs?

A run with another batch is compared per token: its steps are longer because they do more. Means are exact fractions of ns
over whole steps and all their ranks; numbers of tokens and batches are those of one step, all ranks together.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from stepscope.analysis.significance import Bounds, Floats, bounds, clear
from stepscope.analysis.whole_steps import WholeSteps
from stepscope.model.compare import Delta
from stepscope.model.run import Run
from stepscope.model.words import PARTS

TOKENS: Final = "tokens_per_step"
BATCHES: Final = "batches_per_step"

Pair = tuple[int | None, int | None]


def recorded(run: Run, key: str) -> int | None:
    """A positive whole number from the run's description; anything else there is no number."""
    value = run.info.workload.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def deltas(base: WholeSteps, run: WholeSteps, per: tuple[int, int] = (1, 1)) -> list[Delta]:
    """`step`, then every part, each side divided by its `per`."""
    middle = [means(side, by) for side, by in zip((base, run), per, strict=True)]
    tables = [_with_step(side) / (len(side.ranks) * by) for side, by in zip((base, run), per, strict=True)]
    found = bounds(*tables)
    marks: Sequence[bool | None] = [None] * (len(PARTS) + 1)
    if found:
        marks = clear(found, (len(base.steps), len(run.steps)), float(middle[0][0])).tolist()
    return [
        Delta(part, one, two, *_at(found, place), mark)
        for place, (part, one, two, mark) in enumerate(zip(("step", *PARTS), *middle, marks, strict=True))
    ]


def means(side: WholeSteps, per: int = 1) -> list[Fraction]:
    """Exact means over steps and ranks, in ns: the step, then every part; each divided by `per`."""
    totals = [int(total) for total in side.parts_ns.sum(axis=(0, 1))]
    count = len(side.steps) * len(side.ranks) * per
    return [Fraction(total, count) for total in (sum(totals), *totals)]


def _with_step(side: WholeSteps) -> Floats:
    parts = side.per_step
    return np.column_stack([parts.sum(axis=1), parts]).astype(np.float64)


def _at(found: Bounds | None, place: int) -> tuple[float | None, float | None]:
    return (float(found.low[place]), float(found.high[place])) if found else (None, None)


def deltas_per(base: WholeSteps, run: WholeSteps, counts: Pair) -> tuple[Delta, ...] | None:
    """The same for each token or batch that a step handles; None where one side's number is not known."""
    one, two = counts
    return None if one is None or two is None else tuple(deltas(base, run, (one, two)))
