"""How long is a step by the simulator? One rank stands for all of a healthy job. Pipelines, context parallelism and
asynchronous tensor parallelism are stretched by the closed estimate, since the engine knows none of them yet."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
from step_estimate import step_s as estimate_s
from training_rows import Setup

from stepscope.catalog.efficiency import Efficiency, efficiency_of
from stepscope.catalog.gpu import load_gpu
from stepscope.catalog.stack import Stack
from stepscope.catalog.system import load_system
from stepscope.model.workload import Workload
from stepscope.simulator.conditions import Conditions
from stepscope.simulator.job import Job, job_on
from stepscope.simulator.nccl.settings import NcclSettings
from stepscope.simulator.predict import predict
from stepscope.simulator.simulation import Simulation, step_ns


def step_s(setup: Setup, stack: Stack, efficiency: Efficiency | None = None) -> float:
    """Seconds of one step."""
    plan = setup.plan
    if setup.alternate:
        halves = (replace(setup, alternate=False, plan=msgspec.structs.replace(plan, ac=ac)) for ac in ("none", "full"))
        return sum(step_s(half, stack, efficiency) for half in halves) / 2
    if setup.pp > 1 or plan.cp > 1:
        plain = _plain(setup)
        return step_s(plain, stack, efficiency) * estimate_s(setup, stack, efficiency) / estimate_s(plain, stack, efficiency)
    if setup.async_tp:
        in_line = replace(setup, async_tp=False)
        return step_s(in_line, stack, efficiency) * estimate_s(setup, stack, efficiency) / estimate_s(in_line, stack, efficiency)
    job = job_of(setup, stack, efficiency)
    if setup.slow_gpu < 1:
        step = list(Simulation(lambda _: job).steps(1))[-1]
        return float(step_ns(step).max()) / 1e9
    return predict(job).step_ns / 1e9


def job_of(setup: Setup, stack: Stack, efficiency: Efficiency | None = None) -> Job:
    """The configuration as a job of the simulator."""
    system = load_system(setup.system)
    job = job_on(system, Workload(model="row", shape=setup.shape, plan=setup.plan), stack)
    gpu = load_gpu(setup.gpu)
    clock = np.ones(job.ranks)
    clock[0] = setup.slow_gpu
    return replace(
        job,
        gpu=gpu,
        efficiency=efficiency or efficiency_of(gpu),
        nccl=NcclSettings(algorithm=setup.algorithm, network="socket" if setup.socket else "auto"),
        conditions=Conditions(clock=clock) if setup.slow_gpu < 1 else job.conditions,
    )


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
