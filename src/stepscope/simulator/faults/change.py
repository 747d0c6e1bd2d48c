"""A job with other conditions, another workload, or another plan: what faults are written with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from stepscope.model.errors import UsageMistake
from stepscope.model.workload import Workload
from stepscope.simulator.conditions import Delay, PerRank
from stepscope.simulator.faults.fault import Fault
from stepscope.simulator.job import Job


def conditions(job: Job, **values: Any) -> Job:
    """The same job with other values of its conditions."""
    return replace(job, conditions=replace(job.conditions, **values))


def times(job: Job, **factors: PerRank) -> Job:
    """The same job with conditions multiplied."""
    return conditions(job, **{name: getattr(job.conditions, name) * factor for name, factor in factors.items()})


def plan(job: Job, **values: Any) -> Job:
    """The same job with other words of its plan."""
    return workload(job, plan=msgspec.structs.replace(job.workload.plan, **values))


def workload(job: Job, **values: Any) -> Job:
    """The same job with other values of its workload."""
    changed: Workload = msgspec.structs.replace(job.workload, **values)
    return replace(job, workload=changed)


def nccl(job: Job, **values: Any) -> Job:
    """The same job with other settings of NCCL."""
    return replace(job, nccl=msgspec.structs.replace(job.nccl, **values))


def delayed(job: Job, *delays: Delay) -> Job:
    """The same job with its hosts held up as well."""
    return conditions(job, delays=(*job.conditions.delays, *delays))


def first_kernels(job: Job, pass_: str) -> str:
    """Name of the operation that opens a layer in a pass: the whole layer, with tensor parallelism the half that comes first."""
    half = "layer" if job.workload.plan.tp == 1 else "attention" if pass_ == "forward" else "mlp"
    return f"{half}.{pass_}"


def refused(fault: Fault, why: str) -> UsageMistake:
    """What to raise where the job cannot have that fault; the mend last."""
    return UsageMistake(f"{fault.cause}@{fault.where}: {why}")
