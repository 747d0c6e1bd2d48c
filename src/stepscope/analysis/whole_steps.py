"""Which steps do statistics count? Whole ones: a step number with all its ranks, each of them recorded from start to end.

A step of one rank alone says little about the next rank's: all wait for the slowest, so the ranks of a step are one draw.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.model.breakdown import Breakdown, StepParts
from stepscope.model.words import COMM_PARTS, PARTS

Times = NDArray[np.int64]
OWN = tuple(place for place, part in enumerate(PARTS) if part not in COMM_PARTS)


@dataclass(frozen=True, slots=True)
class WholeSteps:
    """`parts_ns[step, rank, part]`, axes in the order of `steps`, `ranks` and PARTS.

    `left_out` rank-steps are recorded but cut, or miss on another rank. `only_cut`: there is no complete step, these are cut.
    `by_order`: the ranks' step numbers have nothing in common, so the n-th of one stands with the n-th of the other.
    """

    steps: tuple[int, ...]
    ranks: tuple[int, ...]
    parts_ns: Times
    left_out: int = 0
    only_cut: bool = False
    by_order: bool = False

    @property
    def per_step(self) -> Times:
        """Sums over the ranks of each step: [step, part]."""
        return np.asarray(self.parts_ns.sum(axis=1), dtype=np.int64)

    def own_of(self, rank: int) -> Times:
        """That rank's own time in each step: what is no communication."""
        return np.asarray(self.parts_ns[:, self.ranks.index(rank), OWN].sum(axis=1), dtype=np.int64)


def whole_steps(result: Breakdown) -> WholeSteps | None:
    """The whole steps of a breakdown; None where it has no step at all."""
    complete = [s for s in result.steps if s.complete]
    used = complete or list(result.steps)
    if not used:
        return None
    by_rank: dict[int, list[StepParts]] = defaultdict(list)
    for step in used:
        by_rank[step.rank].append(step)
    ranks = tuple(sorted(by_rank))
    common = sorted(set.intersection(*({s.step for s in steps} for steps in by_rank.values())))
    if common:
        numbered = {rank: {s.step: s for s in steps} for rank, steps in by_rank.items()}
        rows = [[numbered[rank][number] for rank in ranks] for number in common]
    else:
        ordered = [sorted(by_rank[rank], key=lambda s: s.step) for rank in ranks]
        rows = [list(row) for row in zip(*ordered, strict=False)]
    times = [[[s.parts_ns.get(part) or 0 for part in PARTS] for s in row] for row in rows]
    return WholeSteps(
        steps=tuple(row[0].step for row in rows),
        ranks=ranks,
        parts_ns=np.array(times, dtype=np.int64),
        left_out=len(result.steps) - len(rows) * len(ranks),
        only_cut=not complete,
        by_order=not common,
    )
