"""Faults of storage: a slow mount, a slow file system, cold caches, checkpoints that stop everybody.

`slowdown` multiplies the reading of a batch; writes are left as they are. A file system that the loader does not read from may
be as slow as it likes.
"""

from __future__ import annotations

from typing import Final

from stepscope.catalog.faults import fault_numbers
from stepscope.simulator.faults import change
from stepscope.simulator.faults.effect import Effect, Now, once_in
from stepscope.simulator.faults.fault import Fault
from stepscope.simulator.faults.ranks import there
from stepscope.simulator.job import Job
from stepscope.simulator.loader import mount_at
from stepscope.simulator.saving import save_ns


def _slow_mount(job: Job, fault: Fault, now: Now) -> Job:
    if fault.where.node is None:
        raise change.refused(fault, f"one node's mount is slow; say whose, for example node0:{fault.where.path}")
    return _reads(job, fault)


def _slow_all(job: Job, fault: Fault, now: Now) -> Job:
    if fault.where.node is not None:
        raise change.refused(fault, f"all nodes are slow; give {fault.where.path}, or take storage.slow_mount")
    return _reads(job, fault)


def _reads(job: Job, fault: Fault) -> Job:
    return change.times(job, read=there(job, fault.where, fault.amount)) if _read_from(job, fault) else job


def _cold_cache(job: Job, fault: Fault, now: Now) -> Job:
    if not _read_from(job, fault):
        return job
    more = there(job, fault.where, fault.amount * 1e6, 0.0)
    return change.conditions(job, batch_delay_ns=job.conditions.batch_delay_ns + more)


def _checkpoint_stall(job: Job, fault: Fault, now: Now) -> Job:
    """A save takes so long in all; one that takes longer anyway is left alone."""
    workload = job.workload
    if not workload.checkpoint.every:
        raise change.refused(fault, "this job saves nothing; give it a checkpoint, --checkpoint every=N")
    held, _ = save_ns(workload, job.cluster, workload.shape.parameters())
    more = there(job, fault.where, max(fault.amount * 1e9 - held, 0.0), 0.0)
    return change.conditions(job, save_ns=job.conditions.save_ns + more)


def _read_from(job: Job, fault: Fault) -> bool:
    """Whether the loader reads from the file system that the fault names (any, where it names none)."""
    return fault.where.path in (None, mount_at(job.cluster, job.workload.loader.path).path)


EFFECTS: Final = {
    "storage.slow_mount": Effect(_slow_mount),
    "storage.slow_all": Effect(_slow_all),
    "storage.cold_cache": Effect(_cold_cache, once_in(fault_numbers().cold_cache.every)),
    "storage.checkpoint_stall": Effect(_checkpoint_stall),
}
