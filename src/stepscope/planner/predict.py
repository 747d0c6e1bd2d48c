"""How much memory does a rank need, when, and for what? The fullest stage at its fullest moment, every byte with its formula.

Not modelled: mixtures of experts (shapes are dense), adapters, and what a program keeps beyond training (evaluation, EMA).
"""

from __future__ import annotations

from stepscope.catalog.gpu import Gpu
from stepscope.catalog.stack import Stack, load_stack
from stepscope.catalog.system import System
from stepscope.model.cluster import Cluster
from stepscope.model.memory import MemoryPlan, Moment, Term
from stepscope.model.workload import Workload
from stepscope.planner import moments as at
from stepscope.planner.check import check
from stepscope.planner.outside import around
from stepscope.planner.setting import Choice, Setting, settings_of

DENSE = "Mixtures of experts are not planned: the shapes are dense."


def predict(workload: Workload, gpu: Gpu, stack: Stack, choice: Choice | None = None, system: str = "") -> MemoryPlan:
    """Memory of the fullest rank of a workload on that GPU. UsageMistake for a plan that cannot be."""
    check(workload)
    plans = [_fullest(s, system) for s in settings_of(workload, gpu, stack, choice or Choice())]
    return max(plans, key=lambda p: p.total_bytes)


class Planner:
    """Implements `model.prediction.PredictMemory` for one system and one software stack."""

    def __init__(self, system: System, stack: Stack | None = None, choice: Choice | None = None) -> None:
        self.system, self.stack, self.choice = system, load_stack() if stack is None else stack, choice or Choice()

    def __call__(self, workload: Workload, cluster: Cluster | None = None) -> MemoryPlan:
        """The fullest rank of a workload; every cluster of a system has the same GPUs. UsageMistake for what cannot be."""
        if cluster is None:
            self.system.cluster(self.system.nodes_for(workload.plan.world_size))
        return predict(workload, self.system.the_gpu, self.stack, self.choice, self.system.name)


def _fullest(s: Setting, system: str) -> MemoryPlan:
    """One stage at its fullest moment."""
    found = at.moments_of(s)
    sizes = {name: _sum(terms) for name, terms in found.items()}
    peak = max(sizes, key=lambda name: sizes[name])
    resting = _sum(at.resting(s))
    moments = [Moment(name=name, allocated_bytes=size, unit=at.unit_at(s, name)) for name, size in sizes.items()]
    moments.append(Moment(name=at.RESTING, allocated_bytes=resting))
    workload = s.workload
    return MemoryPlan(
        model=workload.model,
        plan=s.plan.text(),
        system=system,
        stack=s.stack.name,
        recipe=s.recipe_name,
        loss=s.loss,
        ranks=s.plan.world_size,
        stage=s.stage.index,
        parameters=s.pieces.parameters,
        terms=(*_merged(found[peak]), *around(s, sizes[peak])),
        moments=tuple(moments),
        peak_at=peak,
        peak_unit=at.unit_at(s, peak),
        resting_bytes=resting,
        capacity_bytes=s.gpu.memory_bytes,
        notes=(DENSE,),
    )


def _sum(terms: list[Term]) -> int:
    return sum(term.bytes for term in terms)


def _merged(terms: list[Term]) -> list[Term]:
    return [term for term in terms if term.bytes]
