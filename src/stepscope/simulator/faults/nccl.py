"""Faults of the collectives library: what NCCL_* variables left over from experiments force, and NICs or peers it cannot see."""

from __future__ import annotations

from typing import Final

from stepscope.simulator.faults import change
from stepscope.simulator.faults.effect import Effect, Now
from stepscope.simulator.faults.fault import Fault
from stepscope.simulator.job import Job


def _forced_algorithm(job: Job, fault: Fault, now: Now) -> Job:
    return change.nccl(job, algorithm=fault.strength)


def _low_protocol(job: Job, fault: Fault, now: Now) -> Job:
    return change.nccl(job, protocol=fault.strength)


def _few_nics(job: Job, fault: Fault, now: Now) -> Job:
    return change.nccl(job, nics=int(fault.amount), nics_on=_nodes(fault))


def _few_channels(job: Job, fault: Fault, now: Now) -> Job:
    return change.nccl(job, channels=int(fault.amount))


def _p2p_off(job: Job, fault: Fault, now: Now) -> Job:
    if job.cluster.node.scale_up.kind == "none":
        raise change.refused(fault, f"GPUs of {job.cluster.name} have no NVLink to lose; take a system that has it")
    return change.nccl(job, p2p=False, p2p_on=_nodes(fault), p2p_fraction=fault.amount)


def _nodes(fault: Fault) -> tuple[int, ...]:
    return () if fault.where.kind == "job" else (fault.where.node or 0,)


EFFECTS: Final = {
    "nccl.forced_algorithm": Effect(_forced_algorithm),
    "nccl.low_protocol": Effect(_low_protocol),
    "nccl.few_nics": Effect(_few_nics),
    "nccl.few_channels": Effect(_few_channels),
    "nccl.p2p_off": Effect(_p2p_off),
}
