"""What is simulated: a workload on a cluster with its software. A fault is another job, for as long as it lasts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from stepscope.catalog.efficiency import Efficiency, efficiency_of
from stepscope.catalog.gpu import Gpu
from stepscope.catalog.stack import Stack
from stepscope.catalog.system import System
from stepscope.model.cluster import Cluster
from stepscope.model.errors import UsageMistake
from stepscope.model.mesh import Mesh, mesh_of
from stepscope.model.prediction import PredictMemory
from stepscope.model.workload import Workload
from stepscope.simulator.conditions import Conditions
from stepscope.simulator.nccl.settings import NcclSettings
from stepscope.simulator.nccl.transport import Transport

MOST_UNITS: Final = 1 << 14  # a step of so many takes seconds, and no real model is cut finer


@dataclass(frozen=True)
class Job:
    """One job. `conditions` is how its ranks depart from healthy ones, `nccl` what its environment forces, `layout` a mesh whose
    ranks lie otherwise than the plan's. `memory` says what a rank of it needs (None: nobody asks)."""

    workload: Workload
    cluster: Cluster
    gpu: Gpu
    stack: Stack
    efficiency: Efficiency
    transport: Transport
    nccl: NcclSettings = field(default_factory=NcclSettings)
    conditions: Conditions = field(default_factory=Conditions)
    memory: PredictMemory | None = None
    layout: Mesh | None = None

    @property
    def ranks(self) -> int:
        """Ranks in all."""
        return self.workload.plan.world_size

    @property
    def mesh(self) -> Mesh:
        """How the ranks share state: as the plan lays them, or as `layout` says."""
        return mesh_of(self.workload.plan) if self.layout is None else self.layout


def job_on(system: System, workload: Workload, stack: Stack, memory: PredictMemory | None = None) -> Job:
    """A healthy job on as many nodes of a system as its ranks fill. UsageMistake for a plan that model or system cannot have."""
    check(workload)
    nodes = system.nodes_for(workload.plan.world_size)
    gpu = system.the_gpu
    return Job(workload, system.cluster(nodes), gpu, stack, efficiency_of(gpu), Transport.of(system), memory=memory)


def check(workload: Workload) -> None:
    """UsageMistake, naming the number, for a plan that its model cannot have."""
    plan, shape, name = workload.plan, workload.shape, workload.model
    for key in ("pp", "cp"):
        if getattr(plan, key) > 1:
            raise UsageMistake(f"plan: {key}={getattr(plan, key)}: the simulator knows no {key} yet; leave it out")
    if plan.ep > 1:
        raise UsageMistake(f"plan: ep={plan.ep}: {name} is dense and has no experts; leave ep out")
    for noun, size in (("heads", shape.heads), ("ffn", shape.ffn)):
        if size % plan.tp:
            raise UsageMistake(f"plan: tp={plan.tp} does not divide the {size} {noun} of {name}; take a divisor of {size}")
    if workload.seq % plan.tp:
        raise UsageMistake(f"plan: tp={plan.tp} does not divide seq={workload.seq}; take a multiple of {plan.tp}")
    if plan.split * shape.layers > MOST_UNITS:
        raise UsageMistake(f"plan: split={plan.split}: {name} would have {plan.split * shape.layers} units, at most {MOST_UNITS} "
                           f"are simulated; take at most split={MOST_UNITS // shape.layers or 1}")  # fmt: skip
    if plan.layers_per_unit > shape.layers:
        raise UsageMistake(f"plan: unit={plan.layers_per_unit}: {name} has {shape.layers} layers; take at most those")
