"""Faults of kernels: attention in pieces, a slower precision, a loop for an optimizer, launches, compilations, odd shapes."""

from __future__ import annotations

from typing import Final

import msgspec

from stepscope.catalog.efficiency import with_values
from stepscope.catalog.faults import fault_numbers
from stepscope.simulator.conditions import Blend, Delay
from stepscope.simulator.faults import change
from stepscope.simulator.faults.effect import Effect, Now, once_in
from stepscope.simulator.faults.fault import Fault
from stepscope.simulator.faults.ranks import there
from stepscope.simulator.job import Job


def _unfused_attention(job: Job, fault: Fault, now: Now) -> Job:
    table, was = fault_numbers().unfused_attention, job.stack.attention
    if was.kernel == "unfused":
        raise change.refused(fault, f"{job.stack.name} has no fused attention to lose; take another stack")
    attention = msgspec.structs.replace(
        was,
        kernel="unfused",
        forward_score_bytes=table.forward_score_bytes,
        backward_score_bytes=table.backward_score_bytes,
        source=table.source,
    )
    return _blended(job, Blend(fault.amount, stack=msgspec.structs.replace(job.stack, attention=attention)))


def _wrong_precision(job: Job, fault: Fault, now: Now) -> Job:
    """As where autocast is lost: everything of those layers is fp32 then, what lies between the products too."""
    if job.workload.plan.precision == "fp32":
        raise change.refused(fault, "this plan computes in fp32 anyway; give it precision=bf16")
    return _blended(job, Blend(there(job, fault.where, fault.amount, 0.0), precision="fp32"))


def _unfused_optimizer(job: Job, fault: Fault, now: Now) -> Job:
    table, was = fault_numbers().loop_optimizer, job.stack.optimizer
    optimizer = msgspec.structs.replace(
        was,
        implementation="for-loop",
        bytes_per_parameter=max(table.bytes_per_parameter, was.bytes_per_parameter),
        kernels_per_tensor=max(table.kernels_per_tensor, was.kernels_per_tensor),
        source=table.source,
    )
    stack = msgspec.structs.replace(job.stack, optimizer=optimizer)
    return _blended(job, Blend(there(job, fault.where, fault.amount, 0.0), stack=stack))


def _launch_bound(job: Job, fault: Fault, now: Now) -> Job:
    """A host as much slower as its launches are; one that is slower anyway is left alone."""
    pace = max(fault.amount / max(job.stack.host.launch_us, 1e-3), 1.0)
    return change.times(job, host_pace=there(job, fault.where, pace))


def _recompiling(job: Job, fault: Fault, now: Now) -> Job:
    ns = there(job, fault.where, fault.amount * 1e9, 0.0)
    return change.delayed(job, Delay(change.first_kernels(job, "forward"), ns, "torch._dynamo: compile"))


def _bad_shape(job: Job, fault: Fault, now: Now) -> Job:
    gemm = {precision: share * fault.amount for precision, share in job.efficiency.gemm.items()}
    return _blended(job, Blend(1.0, efficiency=with_values(job.efficiency, gemm=gemm)))


def _blended(job: Job, blend: Blend) -> Job:
    return change.conditions(job, blends=(*job.conditions.blends, blend))


EFFECTS: Final = {
    "kernels.unfused_attention": Effect(_unfused_attention),
    "kernels.wrong_precision": Effect(_wrong_precision),
    "kernels.unfused_optimizer": Effect(_unfused_optimizer),
    "kernels.launch_bound": Effect(_launch_bound),
    "kernels.recompiling": Effect(_recompiling, once_in(fault_numbers().recompiling.every)),
    "kernels.bad_shape": Effect(_bad_shape),
}
