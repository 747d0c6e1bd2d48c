"""A Breakdown over ranks and steps: means, medians, p95 and the extreme ranks of every part. Times are ns, as floats.

Means add up to the mean step; medians and p95 do not and only stand beside them. Cut steps count only where there is no other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from stepscope.model.breakdown import Breakdown, StepParts
from stepscope.model.words import COMM_PARTS, PARTS


@dataclass(frozen=True, slots=True)
class Average:
    """One part (or the whole step) over all rank-steps. `least_rank` and `most_rank` go by each rank's own mean."""

    mean: float
    median: float
    p95: float
    least: float
    least_rank: int
    most: float
    most_rank: int


@dataclass(frozen=True, slots=True)
class Averages:
    """`parts` has a None where no step knows the part; `own` and `communication` are each rank's mean per step.

    Own time is the step without the communication that stopped it. `cut` counts rank-steps left out as incomplete.
    """

    steps: int
    rank_steps: int
    cut: int
    only_cut: bool
    step: Average
    parts: dict[str, Average | None]
    naive: float
    own: dict[int, float]
    communication: dict[int, float]


def averages(result: Breakdown) -> Averages | None:
    """None where the result has no step at all."""
    complete = [s for s in result.steps if s.complete]
    used = complete or list(result.steps)
    if not used:
        return None
    step = _average([(s.rank, s.duration_ns) for s in used])
    assert step is not None
    communication = _by_rank([(s.rank, communication_ns(s)) for s in used])
    durations = _by_rank([(s.rank, s.duration_ns) for s in used])
    return Averages(
        steps=len({s.step for s in used}),
        rank_steps=len(used),
        cut=len(result.steps) - len(used),
        only_cut=not complete,
        step=step,
        parts={part: _average([(s.rank, s.parts_ns.get(part)) for s in used]) for part in PARTS},
        naive=fmean(s.naive_ns for s in used),
        own={rank: durations[rank] - communication[rank] for rank in durations},
        communication=communication,
    )


def communication_ns(step: StepParts) -> int:
    """Communication that compute did not hide, in one step of one rank."""
    return sum(step.parts_ns.get(part) or 0 for part in COMM_PARTS)


def percentile(values: Sequence[float], share: float) -> float:
    """Linear between the two nearest ranks, as numpy's default; `values` not empty."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _average(values: Sequence[tuple[int, int | None]]) -> Average | None:
    known = [(rank, v) for rank, v in values if v is not None]
    if not known:
        return None
    ranks = _by_rank(known)
    least = min(ranks, key=lambda r: (ranks[r], r))
    most = max(ranks, key=lambda r: (ranks[r], -r))
    plain = [v for _, v in known]
    return Average(fmean(plain), median(plain), percentile(plain, 0.95), ranks[least], least, ranks[most], most)


def _by_rank(values: Sequence[tuple[int, int]]) -> dict[int, float]:
    groups: dict[int, list[int]] = defaultdict(list)
    for rank, value in values:
        groups[rank].append(value)
    return {rank: fmean(group) for rank, group in sorted(groups.items())}
