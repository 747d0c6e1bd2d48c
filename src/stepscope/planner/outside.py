"""What lies around the live tensors: what the allocator rounds and keeps, NCCL, the CUDA context. Bytes, with ranges."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.model.memory import Term
from stepscope.model.plan import Plan
from stepscope.planner.setting import Setting


def around(s: Setting, allocated: int) -> Iterator[Term]:
    """The terms that are no tensors, for so many live bytes."""
    table = s.costs.allocator
    streams = bool(s.gathered) or s.plan.tp > 1
    share = table.expandable_share if s.expandable else table.share if streams else table.single_stream_share
    yield Term(
        term="allocator",
        bytes=round(share * allocated),
        low=round(min(table.low, share) * allocated),
        high=round((share if s.expandable else table.high) * allocated),
        formula=f"{100 * share:.3g} % of {allocated:,} B: rounding and free blocks of other sizes",
        place="allocator",
    )
    groups = process_groups(s.plan)
    if groups:
        nccl, many = s.costs.nccl, len(groups)
        yield Term(
            term="NCCL",
            bytes=nccl.group_bytes * many,
            low=nccl.group_low * many,
            high=nccl.group_high * many,
            formula=f"{nccl.group_bytes:,} B x {many} process groups ({', '.join(groups)})",
            place="outside",
        )
    context = s.costs.context
    yield Term(
        term="CUDA context",
        bytes=context.bytes,
        low=context.low,
        high=context.high,
        formula="context and loaded kernels",
        place="outside",
    )


def process_groups(plan: Plan) -> list[str]:
    """Groups over which NCCL opens connections: each axis of several ranks."""
    data = {"fsdp": "fsdp", "hsdp": "fsdp"}.get(plan.strategy, plan.strategy)
    sizes = [(data, plan.shard * plan.cp if data == "fsdp" else plan.data_ranks * plan.cp)]
    if plan.strategy == "hsdp":
        sizes.append(("replicate", plan.replicate))
    sizes += [("cp", plan.cp), ("tp", plan.tp), ("pp", plan.pp)]
    return [name for name, size in sizes if size > 1]
