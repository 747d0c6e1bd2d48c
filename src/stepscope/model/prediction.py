"""What is expected of a step before it has run: who makes predictions, and what they say. Times in ns, for the slowest rank."""

from __future__ import annotations

from typing import Protocol

import msgspec

from stepscope.model.cluster import Cluster
from stepscope.model.memory import MemoryPlan
from stepscope.model.workload import Workload


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a workload on a cluster. `parts_ns` has every word of PARTS and sums to `step_ns`.

    `exposed_ns` is communication that no compute hides. `mfu` is by convention (palm, torchtitan, megatron, llm-foundry), None
    where the GPU has no peak for the precision. `memory_bytes` of the worst rank against `capacity_bytes`, None where nobody was
    asked for it.
    """

    step_ns: int
    parts_ns: dict[str, int]
    exposed_ns: int
    tokens: int
    tokens_per_s_per_gpu: float
    mfu: dict[str, float | None]
    memory_bytes: int | None
    capacity_bytes: int

    @property
    def fits(self) -> bool | None:
        """Whether the memory suffices, None where it is not known."""
        return None if self.memory_bytes is None else self.memory_bytes <= self.capacity_bytes


class PredictStep(Protocol):
    """Whoever can say how long a step of that workload takes on that cluster."""

    def __call__(self, workload: Workload, cluster: Cluster) -> Prediction:
        """The step as it should be."""


class PredictMemory(Protocol):
    """Whoever can say how much memory the fullest rank of that workload needs on that cluster."""

    def __call__(self, workload: Workload, cluster: Cluster) -> MemoryPlan:
        """The fullest rank at its fullest moment."""
