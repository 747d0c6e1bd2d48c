"""Did a mean change by more than its steps vary? Bounds of the change, and which of several changes at once are real.

The unit is the whole step with all its ranks. Recordings hold few (3 to 10), and resampling so few promises bounds that miss
far more often than they say. So below MANY_STEPS on a side the bounds are Student's, and from there on the studentised
bootstrap's, which resamples whole steps and follows skew (a checkpoint every tenth step).

- The standard error adds both sides' variances, never pooled. Degrees of freedom are n + m - 2 while neither side has more
  than 1.5 times the other's steps (there the t test is known to hold its level though variances differ), else Welch's.
- Steps that drift or come in spells say less than as many independent ones: a lag-1 correlation that is itself clear widens
  the bounds by (1 + r) / (1 - r).
- Several parts are looked at at once, and of three steps one in twenty looks steadier than it is. So `clear` wants more than
  0 outside a part's own bounds: a change of SHAKY of the step over the root of the steps per side (one standard error of
  steps that vary by SHAKY; 5.8 % of the step at 3 steps, 3.2 % at 10), never less than FLOOR. On recorded and drawn jobs that
  did not change this marks 0 to 2 % of the parts, any part in 0 to 12 % of the comparisons (`bench/compare_level.py`).

Not known from one recording per side: how much a job varies from one start to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.student import quantile

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

LEVEL: Final = 0.95
FLOOR: Final = 0.01  # of the base's step: a change that never matters
SHAKY: Final = 0.1  # of the base's step: how much a part is taken to vary until there are steps that say otherwise
FEWEST_STEPS: Final = 2
MANY_STEPS: Final = 20
UNEVEN: Final = 1.5  # how many times the other's steps one side may have before variances must be told apart
FEWEST_FOR_DRIFT: Final = 5
CLEAR_DRIFT: Final = 1.645  # standard errors: 5 % of independent sequences look as correlated
MOST_DRIFT: Final = 0.9
DRAWS: Final = 4999
SEED: Final = 20


@dataclass(frozen=True, slots=True)
class Bounds:
    """Per column, the bounds of its change at LEVEL."""

    low: Floats
    high: Floats


def bounds(base: Floats, run: Floats) -> Bounds | None:
    """Of each column's mean, `run` less `base` (rows are steps). None where a side has fewer than FEWEST_STEPS.

    Exchanged sides give the negated bounds. The same input always gives the same bounds.
    """
    if min(len(base), len(run)) < FEWEST_STEPS:
        return None
    if base.tolist() > run.tolist():  # one order for both, so that the draws are the same
        mirror = bounds(run, base)
        return mirror and Bounds(-mirror.high, -mirror.low)
    delta = run.mean(axis=0) - base.mean(axis=0)
    error, freedom = _error(base, run)
    if min(len(base), len(run)) >= MANY_STEPS:
        below, above = _resampled(base, run)
    else:
        above = np.array([quantile(LEVEL, f) for f in freedom])
        below = -above
    return Bounds(delta - above * error, delta - below * error)


def clear(found: Bounds, steps: tuple[int, int], whole: float) -> Mask:
    """Which columns changed. `steps` of base and run, `whole`: the base's step in the unit of the columns."""
    per_side = 2 / (1 / steps[0] + 1 / steps[1])
    floor = max(FLOOR, SHAKY / per_side**0.5) * whole
    middle = (found.low + found.high) / 2
    return np.asarray(((found.low > 0) | (found.high < 0)) & (np.abs(middle) >= floor), dtype=np.bool_)


def _error(base: Floats, run: Floats) -> tuple[Floats, list[float]]:
    """Standard error of the change of each mean, and its degrees of freedom."""
    sides = []
    for side in (base, run):
        fewer = len(side) / _drift(side)
        sides.append((side.var(axis=0, ddof=1) / fewer, np.maximum(fewer, FEWEST_STEPS) - 1))
    (one, free_one), (two, free_two) = sides
    both = one + two
    uneven = max(len(base), len(run)) > UNEVEN * min(len(base), len(run))
    if uneven:
        share = np.where(both > 0, one / np.where(both > 0, both, 1), 0.5)
        freedom = 1 / (share**2 / free_one + (1 - share) ** 2 / free_two)
    else:
        freedom = free_one + free_two
    return np.sqrt(both), [round(float(f), 6) for f in freedom]


def _drift(side: Floats) -> Floats:
    """How many times the variance of each mean grows because neighbouring steps are alike; 1 where that is not clear."""
    away = side - side.mean(axis=0)
    whole = (away**2).sum(axis=0)
    alike = (away[1:] * away[:-1]).sum(axis=0) / np.where(whole > 0, whole, 1)
    if len(side) < FEWEST_FOR_DRIFT:
        return np.ones_like(alike)
    alike = np.where(alike > CLEAR_DRIFT / np.sqrt(len(side)), np.minimum(alike, MOST_DRIFT), 0)
    return np.asarray((1 + alike) / (1 - alike), dtype=np.float64)


def _resampled(base: Floats, run: Floats) -> tuple[Floats, Floats]:
    """The studentised bootstrap: lower and upper quantile of t in resamples of whole steps."""
    draw = np.random.default_rng(SEED)
    moved, variance = np.zeros((DRAWS, base.shape[1])), np.zeros((DRAWS, base.shape[1]))
    for side, sign in ((base, -1), (run, 1)):
        away, n = side - side.mean(axis=0), len(side)
        times = draw.multinomial(n, np.full(n, 1 / n), size=DRAWS).astype(np.float64)
        mean = times @ away / n
        moved += sign * mean
        variance += np.maximum(times @ away**2 / n - mean**2, 0) / (n - 1)
    known = variance > 0  # a column that never varies has no error to multiply
    t = np.where(known, moved / np.sqrt(np.where(known, variance, 1)), 0)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(t, [tail, 1 - tail], axis=0)
    return low, high
