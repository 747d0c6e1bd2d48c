"""What does not fit gets a smaller batch or more shards, and pays in communication: the walk there, each step with its price."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import msgspec

from stepscope.model.errors import UsageMistake
from stepscope.model.memory import Walk
from stepscope.model.plan import CHECKPOINTING, MAX_RANKS, Plan
from stepscope.model.workload import Workload
from stepscope.planner.cost import Cost
from stepscope.planner.predict import Planner

WORTH: Final = 0.05
"""Share of a plan's bytes that twice as many shards must save, or more of them are no help."""


def walk(planner: Planner, workload: Workload, cost: Cost) -> list[Walk]:
    """Plans from the given one to the first that fits, or to the last that the system can have: micro-batches are halved, then
    ranks doubled as long as that helps, then activations checkpointed. Bytes saved and ns lost against the plan that was asked
    for, at the same tokens for each GPU."""
    found: list[Walk] = []
    first = planner(workload).total_bytes
    plans = _plans(workload.plan)
    plan, why = next(plans)
    while True:
        new = msgspec.structs.replace(workload, plan=plan)
        try:
            memory = planner(new)
        except UsageMistake:
            break
        step = cost.step(new)
        found.append(
            Walk(
                plan=plan.text(),
                ranks=plan.world_size,
                why=why,
                total_bytes=memory.total_bytes,
                saved_bytes=first - memory.total_bytes,
                fits=memory.fits,
                step_ns=None if step is None else step.step_ns,
                lost_ns=cost.lost_ns(workload, new),
                exposed_ns=None if step is None else step.exposed_ns,
            )
        )
        if memory.fits:
            break
        helped = len(found) < 2 or found[-1].total_bytes < (1 - WORTH) * found[-2].total_bytes
        try:
            plan, why = plans.send(helped)
        except StopIteration:
            break
    return found


def _plans(plan: Plan) -> Generator[tuple[Plan, str], bool, None]:
    """One plan after the other; it is told whether the last helped."""
    yield plan, "as asked for"
    while plan.mbs > 1:
        # more micro-batches must not keep whole gradients, or the walk would go the wrong way
        sync = "every" if plan.strategy in ("fsdp", "hsdp") else plan.sync
        plan = msgspec.structs.replace(plan, mbs=plan.mbs // 2, ga=plan.ga * 2, sync=sync)
        yield plan, "half the micro-batch, twice the accumulation"
    if plan.ga > 1 and plan.sync == "last" and plan.sharded:
        plan = msgspec.structs.replace(plan, sync="every")
        yield plan, "gradients reduced every micro-batch"
    if plan.strategy in ("ddp", "zero1"):
        plan = msgspec.structs.replace(plan, strategy="fsdp", shard=plan.replicate, replicate=1)
        yield plan, "sharded instead of copied"
    helped = True
    while helped and plan.world_size * 2 <= MAX_RANKS:
        plan = msgspec.structs.replace(plan, shard=2 * plan.shard)
        helped = yield plan, "twice the shards"
    for ac in CHECKPOINTING[CHECKPOINTING.index(plan.ac) + 1 :]:
        plan = msgspec.structs.replace(plan, ac=ac)
        yield plan, f"{ac} checkpointing"
