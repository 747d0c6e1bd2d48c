"""Faults of a GPU: clocks, memory bandwidth, and an allocator that frees and asks again.

A power limit lowers the clock by a power law whose exponent follows a published step (catalog/faults.toml); a cube root, the law
of a chip without static power, would be milder than what is reported.
"""

from __future__ import annotations

from typing import Final

from stepscope.catalog.faults import fault_numbers
from stepscope.catalog.telemetry import telemetry
from stepscope.simulator.conditions import Delay
from stepscope.simulator.faults import change, sense
from stepscope.simulator.faults.effect import Effect, Now
from stepscope.simulator.faults.fault import Fault
from stepscope.simulator.faults.ranks import there
from stepscope.simulator.job import Job


def _thermal_throttle(job: Job, fault: Fault, now: Now) -> Job:
    return change.times(job, clock=there(job, fault.where, fault.amount))


def _power_cap(job: Job, fault: Fault, now: Now) -> Job:
    clock = fault.amount ** fault_numbers().power_cap.exponent
    return sense.gpus(change.times(job, clock=there(job, fault.where, clock)), fault.where, power_cap=fault.amount)


def _hbm_degraded(job: Job, fault: Fault, now: Now) -> Job:
    slower = change.times(job, hbm=there(job, fault.where, fault.amount))
    return sense.gpus(slower, fault.where, memory_errors_per_s=telemetry().errors.memory_per_s)


def _allocator_thrash(job: Job, fault: Fault, now: Now) -> Job:
    """cudaFree waits for the device; then the host frees and asks again. It happens where memory peaks, in backward."""
    retries = fault_numbers().allocator_thrash.retries
    each = there(job, fault.where, fault.amount * 1e6 / retries, 0.0)
    last = job.workload.plan.ga - 1
    return change.delayed(job, Delay(change.first_kernels(job, "backward"), each, "cudaFree", retries, drains=True, micro=last))


EFFECTS: Final = {
    "gpu.thermal_throttle": Effect(_thermal_throttle),
    "gpu.power_cap": Effect(_power_cap),
    "gpu.hbm_degraded": Effect(_hbm_degraded),
    "gpu.allocator_thrash": Effect(_allocator_thrash),
}
