"""How much is there to simulate? What this machine cannot hold is refused before any of it is made. Bytes.

An estimate from the plan alone: operations of a step times ranks times what the engine keeps of each. What a Run's spans take on
top is not in it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from stepscope.model.errors import UsageMistake
from stepscope.simulator.job import Job
from stepscope.simulator.programs.units import units_of

MOST_OPERATIONS: Final = 1 << 18
"""Of one step. The engine's Python loop takes some 10 us for each, so six steps of so many are about a minute."""

BYTES_EACH: Final = 4 * 8  # of an operation on one rank the engine keeps four times (engine.StepTimes), float64
BYTES_UNDER_WAY: Final = 2 * BYTES_EACH + 2 * 4  # the last step until the next one stands, and factors of noise
ROOM_SHARE: Final = 0.8  # of the free memory: the rest is for interpreter, figures and others
FALLBACK_BYTES: Final = 8 << 30  # where the machine does not say what is free

_FREE: Final = Path("/proc/meminfo")
_GROUP: Final = Path("/sys/fs/cgroup")


def operations(job: Job) -> int:
    """Operations of one step, a little more than there will be."""
    plan = job.workload.plan
    each = 2 * 8 * max(plan.layers_per_unit, 1) + 4 if plan.tp > 1 else 6
    return plan.ga * (len(units_of(job.workload.shape, plan).layers) * each + 12) + 12


def refuse_too_much(job: Job, kept: int) -> None:
    """UsageMistake, with how much it would be, for a job of which so many steps would not fit in this machine's memory."""
    many, ranks = operations(job), job.ranks
    if many > MOST_OPERATIONS:
        plan = job.workload.plan
        raise UsageMistake(f"plan: ga={plan.ga} and {len(units_of(job.workload.shape, plan).layers)} units are about {many:,} "
                           f"operations a step, at most {MOST_OPERATIONS:,} are simulated; give a smaller ga")  # fmt: skip
    need = many * ranks * (BYTES_EACH * (kept - 1) + BYTES_UNDER_WAY)
    room = free_bytes()
    if need > ROOM_SHARE * room:
        fewer = "fewer steps, or leave -o and --emit away" if kept > 1 else "a smaller ga or coarser units"
        raise UsageMistake(f"plan: {ranks:,} ranks with about {many:,} operations a step need {need / 2**30:.1f} GiB of memory, "
                           f"{room / 2**30:.1f} GiB are free here; take fewer ranks, {fewer}")  # fmt: skip


def free_bytes() -> int:
    """Memory that this process may still take: what the machine has free, less where a container allows less."""
    found = FALLBACK_BYTES
    with suppress(OSError, ValueError, IndexError):
        line = next(line for line in _FREE.read_text().splitlines() if line.startswith("MemAvailable:"))
        found = int(line.split()[1]) << 10
    with suppress(OSError, ValueError):
        limit = int((_GROUP / "memory.max").read_text())
        found = min(found, max(limit - int((_GROUP / "memory.current").read_text()), 0) + _reclaimable())
    return found


def _reclaimable() -> int:
    """Page cache that the container is charged for and gives back when asked."""
    for line in (_GROUP / "memory.stat").read_text().splitlines():
        if line.startswith("inactive_file "):
            return int(line.split()[1])
    return 0
