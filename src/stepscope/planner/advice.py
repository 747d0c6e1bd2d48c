"""What would make it fit? One change at a time, each with the bytes it saves and what it costs in step time.

Those that suffice alone come first, the cheapest of them before the others; then the rest by what they save.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from stepscope.model.errors import UsageMistake
from stepscope.model.memory import Advice, MemoryPlan
from stepscope.model.plan import MAX_COUNT, MAX_RANKS, Plan
from stepscope.model.workload import Workload
from stepscope.planner.cost import Cost, largest
from stepscope.planner.outside import process_groups
from stepscope.planner.predict import Planner
from stepscope.planner.setting import Choice

SMALL_HEADS: Final = ("chunked", "fused-linear")
NEVER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class _Try:
    """A change of the plan, or of what stands beside it."""

    change: str
    why: str
    plan: Plan
    choice: Choice | None = None


def advise(planner: Planner, workload: Workload, cost: Cost) -> list[Advice]:
    """Changes that save memory, in the order in which to try them."""
    now = planner(workload)
    found = [a for a in (*(_advice(planner, workload, now, t, cost) for t in _tries(planner, workload, now)),) if a is not None]
    found += _without_a_plan(planner, workload, now, cost)
    saving = [a for a in found if a.saves_bytes > 0]
    return sorted(saving, key=lambda a: (not a.fits, NEVER if a.step_cost_ns is None else a.step_cost_ns, -a.saves_bytes)
                  if a.fits else (True, -a.saves_bytes, 0))  # fmt: skip


def largest_micro_batch(planner: Planner, workload: Workload) -> int:
    """The largest micro-batch that fits with everything else as planned, 0 where not even one sequence does."""

    def fits(mbs: int) -> bool:
        return planner(_with(workload, mbs=mbs)).fits

    return largest(fits, MAX_COUNT)


def _advice(planner: Planner, workload: Workload, now: MemoryPlan, tried: _Try, cost: Cost) -> Advice | None:
    new = msgspec.structs.replace(workload, plan=tried.plan)
    try:
        other = planner if tried.choice is None else Planner(planner.system, planner.stack, tried.choice)
        then = other(new)
    except UsageMistake:
        return None
    lost = cost.lost_ns(workload, new) if tried.choice is None else _beside_ns(tried.choice, planner, workload)
    return Advice(
        change=tried.change,
        plan=tried.plan.text() if tried.choice is None else None,
        saves_bytes=now.total_bytes - then.total_bytes,
        step_cost_ns=lost,
        fits=then.fits,
        why=tried.why,
    )


def _tries(planner: Planner, workload: Workload, now: MemoryPlan) -> Iterator[_Try]:
    plan = workload.plan

    def changed(**values: Any) -> Plan:
        return msgspec.structs.replace(plan, **values)

    if plan.mbs > 1:
        most = largest_micro_batch(planner, workload)
        target = most if 0 < most < plan.mbs else plan.mbs // 2
        ga = -(-plan.mbs * plan.ga // target)
        yield _Try(f"mbs={target},ga={ga}", "fewer tokens at once; weights are gathered and gradients reduced more often",
                   changed(mbs=target, ga=ga, sync="every" if plan.sharded else plan.sync))  # fmt: skip
    if plan.ac == "none":
        yield _Try("ac=selective", "backward forms part of the activations again", changed(ac="selective"))
    if plan.ac != "full":
        yield _Try("ac=full", "backward forms all activations again from each layer's input", changed(ac="full"))
    if plan.sync == "last" and plan.ga > 1 and plan.sharded:
        yield _Try("sync=every", "gradients are reduced every micro-batch instead of kept whole", changed(sync="every"))
    if not plan.reshard and plan.sharded:
        yield _Try("reshard=true", "weights are gathered again for backward", changed(reshard=1))
    if plan.strategy in ("ddp", "zero1") and plan.replicate > 1:
        yield _Try(
            f"fsdp={plan.replicate}",
            "every state is spread over the data ranks",
            changed(strategy="fsdp", shard=plan.replicate, replicate=1),
        )
    if plan.strategy == "hsdp" and plan.replicate > 1:
        yield _Try(f"fsdp={plan.data_ranks}", "shards over all data ranks instead of copies; one process group fewer",
                   changed(strategy="fsdp", shard=plan.data_ranks, replicate=1))  # fmt: skip
    if plan.strategy in ("fsdp", "hsdp") and plan.world_size * 2 <= MAX_RANKS:
        yield _Try(f"{plan.strategy}={2 * plan.shard}" if plan.strategy == "fsdp" else f"hsdp={plan.replicate}x{2 * plan.shard}",
                   "twice the ranks, half of each state on each", changed(shard=2 * plan.shard))  # fmt: skip
    if plan.tp == 1:
        yield from _tensor(workload, changed)
    if plan.optimizer == "adamw":
        yield _Try("optimizer=adam8bit", "moments of one byte each; the update's result changes", changed(optimizer="adam8bit"))
    if now.loss not in SMALL_HEADS:
        yield _Try("--loss chunked", "logits of an eighth of the tokens at a time, formed again in backward", plan,
                   replace(planner.choice, loss="chunked"))  # fmt: skip
    if not planner.choice.expandable:
        yield _Try("--expandable", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True leaves fewer blocks unused", plan,
                   replace(planner.choice, expandable=True))  # fmt: skip


def _tensor(workload: Workload, changed: Any) -> Iterator[_Try]:
    plan, shape = workload.plan, workload.shape
    for tp in (2, 4, 8):
        shards = plan.shard if plan.strategy in ("fsdp", "hsdp") else plan.replicate
        if shards % tp or shape.heads % tp or shape.ffn % tp:
            continue
        field = "shard" if plan.strategy in ("fsdp", "hsdp") else "replicate"
        size = f"{plan.replicate}x{shards // tp}" if plan.strategy == "hsdp" else f"{shards // tp}"
        yield _Try(
            f"{plan.strategy}={size},tp={tp}",
            "the same ranks split each layer's products; its collectives are exposed",
            changed(tp=tp, **{field: shards // tp}),
        )


def _beside_ns(choice: Choice, planner: Planner, workload: Workload) -> int | None:
    """Cost of a change that no plan says: the output product once more for a chunked head, nothing for the allocator."""
    if choice.loss == planner.choice.loss:
        return 0
    gpu, plan, shape = planner.system.the_gpu, workload.plan, workload.shape
    rate = gpu.matmul_flops("bf16") or gpu.peak_flops("bf16") or gpu.peak_flops("fp16")
    if rate is None:
        return None
    tokens = plan.mbs * plan.ga * workload.seq / plan.cp
    return round(2 * tokens * shape.hidden * shape.vocab / plan.tp / rate * 1e9)


def _without_a_plan(planner: Planner, workload: Workload, now: MemoryPlan, cost: Cost) -> Iterator[Advice]:
    """Changes that a plan has no word for: states in host memory, and connections shared by process groups."""
    states = now.bytes_of("moments") + now.bytes_of("master weights")
    moved = 2 * (now.bytes_of("gradients") or states // 2)
    rate = planner.system.the_gpu.pcie.payload_gbps * 1e9
    yield Advice(
        change="offload the optimizer to host memory",
        plan=None,
        saves_bytes=states,
        step_cost_ns=round(moved / rate * 1e9),
        fits=now.total_bytes - states <= now.capacity_bytes,
        why="moments and master weights leave the GPU; cost: gradients out, weights in over PCIe, without the host's update",
    )
    groups = process_groups(workload.plan)
    if len(groups) > 1:
        saved = now.bytes_of("NCCL") * (len(groups) - 1) // len(groups)
        yield Advice(
            change="fewer process groups, or ncclCommSplit with splitShare",
            plan=None,
            saves_bytes=saved,
            step_cost_ns=0,
            fits=now.total_bytes - saved <= now.capacity_bytes,
            why=f"{', '.join(groups)} share one set of connections",
        )


def _with(workload: Workload, **values: Any) -> Workload:
    return msgspec.structs.replace(workload, plan=msgspec.structs.replace(workload.plan, **values))
