"""How long is a step by the simulator? One rank stands for all of a healthy job; pipelines and context parallelism are stretched
by the closed estimate, since the engine knows neither."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from step_estimate import step_s as estimate_s
from stepscope.catalog.efficiency import Efficiency
from stepscope.catalog.gpu import load_gpu
from stepscope.catalog.stack import Stack
from stepscope.catalog.system import load_system
from stepscope.model.workload import Workload
from stepscope.simulator.job import Job, job_on
from stepscope.simulator.simulation import Simulation, step_ns
from training_rows import Setup


def step_s(setup: Setup, stack: Stack, efficiency: Efficiency | None = None) -> float:
    """Seconds of one step."""
    plan = setup.plan
    if setup.alternate:
        halves = (replace(setup, alternate=False, plan=msgspec.structs.replace(plan, ac=ac)) for ac in ("none", "full"))
        return sum(step_s(half, stack, efficiency) for half in halves) / 2
    if setup.pp > 1 or plan.cp > 1:
        plain = _plain(setup)
        return step_s(plain, stack, efficiency) * estimate_s(setup, stack, efficiency) / estimate_s(plain, stack, efficiency)
    job = job_of(setup, stack, efficiency)
    step = next(iter(Simulation(lambda number: job, width=1).steps(1)))
    return float(step_ns(step).max()) / 1e9


def job_of(setup: Setup, stack: Stack, efficiency: Efficiency | None = None) -> Job:
    """The configuration as a job of the simulator."""
    system = load_system(setup.system)
    job = job_on(system, Workload(model="row", shape=setup.shape, plan=setup.plan), stack)
    gpu = load_gpu(setup.gpu)
    return replace(job, gpu=gpu, efficiency=efficiency or job.efficiency)


def _plain(setup: Setup) -> Setup:
    """The same without pipeline and context parallelism: their ranks see other batches, fewer layers, shorter sequences."""
    plan = setup.plan
    shard = plan.shard * plan.cp if plan.strategy == "fsdp" else plan.shard
    layers = max(1, setup.shape.layers // setup.pp)
    replicated = plan.replicate if plan.strategy == "fsdp" else plan.replicate * plan.cp
    return replace(
        setup,
        pp=1,
        virtual=1,
        shape=msgspec.structs.replace(setup.shape, layers=layers),
        plan=msgspec.structs.replace(plan, cp=1, shard=shard, replicate=replicated, seq=(plan.seq or 0) // plan.cp),
    )
