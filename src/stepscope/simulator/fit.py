"""What does not fit gets a smaller micro-batch, or more shards: the walk to a plan that fits, and what each step costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from stepscope.catalog.system import System
from stepscope.model.errors import UsageMistake
from stepscope.model.plan import MAX_RANKS, Plan
from stepscope.model.simulated import Change
from stepscope.simulator.job import Job, job_on
from stepscope.simulator.predict import predict


def walk(job: Job, system: System) -> list[Change]:
    """Plans from the given one to the first that fits; the micro-batch is halved first, then ranks are doubled.

    UsageMistake where none fits: even one sequence a rank over all ranks that the system can have is too much.
    """
    found: list[Change] = []
    for plan, why in _plans(job.workload.plan):
        workload = msgspec.structs.replace(job.workload, plan=plan)
        try:
            tried = job_on(system, workload, job.stack, job.memory)
        except UsageMistake:
            break
        result = predict(replace(tried, nccl=job.nccl))
        found.append(Change(plan.text(), plan.world_size, why, result))
        if result.fits:
            return found
    need = (found[-1].prediction.memory_bytes or 0) / 2**30
    raise UsageMistake(
        f"{job.workload.model}: does not fit on {system.name} even with {found[-1].plan} ({need:.0f} GiB a rank); "
        "shorten seq, checkpoint activations (ac=full), or add tp"
    )


def _plans(plan: Plan) -> Iterator[tuple[Plan, str]]:
    yield plan, "as asked for"
    while plan.mbs > 1:
        plan = msgspec.structs.replace(plan, mbs=plan.mbs // 2, ga=plan.ga * 2)
        yield plan, "half the micro-batch, twice the accumulation"
    if plan.ga > 1 and plan.sync == "last" and plan.sharded:
        plan = msgspec.structs.replace(plan, sync="every")
        yield plan, "gradients reduced every micro-batch"
    while plan.world_size * 2 <= MAX_RANKS:
        sharded = plan.strategy in ("fsdp", "hsdp")
        plan = msgspec.structs.replace(
            plan,
            strategy="fsdp" if not sharded else plan.strategy,
            replicate=1 if not sharded else plan.replicate,
            shard=2 * plan.shard if sharded else plan.replicate,
        )
        yield plan, "twice the shards" if sharded else "sharded instead of copied"
