"""What does a change of plan cost in step time? The difference of two predictions, at the same tokens for each GPU. ns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stepscope.catalog.system import System
from stepscope.model.errors import UsageMistake
from stepscope.model.prediction import Prediction, PredictStep
from stepscope.model.workload import Workload


@dataclass(frozen=True)
class Cost:
    """Steps of one system; `predict` None: nobody predicts, and no cost is known."""

    system: System
    predict: PredictStep | None

    def step(self, workload: Workload) -> Prediction | None:
        """The step of a workload, None where it cannot be predicted."""
        if self.predict is None:
            return None
        try:
            cluster = self.system.cluster(self.system.nodes_for(workload.plan.world_size))
            return self.predict(workload, cluster)
        except UsageMistake:
            return None

    def lost_ns(self, old: Workload, new: Workload) -> int | None:
        """ns that a step takes longer, when each GPU has as many tokens to do as before."""
        one, two = self.step(old), self.step(new)
        if one is None or two is None:
            return None
        share = (one.tokens / old.plan.world_size) / (two.tokens / new.plan.world_size)
        return round(two.step_ns * share) - one.step_ns


Search = Callable[[int], bool]


def largest(fits: Search, most: int) -> int:
    """The largest number from 1 to `most` for which `fits`, which holds for all smaller ones; 0 where it holds for none."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
