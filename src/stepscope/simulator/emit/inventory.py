"""What every tool of a simulated job agrees on: the wall clock, hosts, processes, process groups, versions.

A run's times count from its own origin, those of the tools from 1970 (ns). Nothing here says how the job fares.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from stepscope.simulator.costs import axes
from stepscope.simulator.job import Job
from stepscope.simulator.joining import Joining

WALL_NS: Final = 1_795_515_292_000_000_000  # 24 November 2026, 10:14:52 UTC: when the run's clock shows 0
TORCH: Final = "2.13.0"
NCCL: Final = "2.30.7"
CUDA: Final = "13.0"
DRIVER: Final = "580.105.08"
FIRST_PID: Final = 41_000
PIDS_APART: Final = 64  # between two ranks of a node: threads have the ids between


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """A process group as torch numbers them: 0 is the world, then those of each axis. `key` is the group in the run's tables."""

    key: str
    axis: str
    name: str
    ranks: tuple[int, ...]

    @property
    def description(self) -> str:
        """What torch calls it."""
        return "default_pg" if self.axis == "world" else f"mesh_{self.axis}"


def process_groups(job: Job) -> tuple[ProcessGroup, ...]:
    """All groups of the job; every rank knows the names of all of them, as every rank creates them."""
    found = [ProcessGroup("world:0", "world", "0", tuple(range(job.ranks)))]
    for axis, (size, stride) in axes(job.mesh, job.workload.plan).items():
        if axis == "world" or size == 1:
            continue
        group_of = Joining(size, stride, job.ranks).group_of() if size < job.ranks else None
        for number in range(job.ranks // size):
            ranks = range(job.ranks) if group_of is None else (group_of == number).nonzero()[0].tolist()
            found.append(ProcessGroup(f"{axis}:{number}", axis, str(len(found)), tuple(ranks)))
    return tuple(found)


def local(job: Job, rank: int) -> int:
    """The rank's number on its node, which is its CUDA device."""
    return job.cluster.at(rank).gpu


def pid(job: Job, rank: int) -> int:
    """The process of a rank on its node."""
    return FIRST_PID + PIDS_APART * local(job, rank)


def listed(ranks: tuple[int, ...]) -> str:
    """Ranks as torch prints them in a trace: at most 30."""
    if len(ranks) <= 30:
        return "[" + ", ".join(map(str, ranks)) + "]"
    return "[" + ", ".join(map(str, ranks[:29])) + f", ..., {ranks[-1]}]"


def bus_id(job: Job, node: int, gpu: int) -> str:
    """A PCI address for the slot that a GPU sits in: switches of a socket are 16 buses apart, sockets 128."""
    wiring = job.cluster.wiring(node)
    slot = wiring.gpus[gpu].pcie
    before = sum(1 for other in wiring.gpus[:gpu] if other.pcie == slot)
    return f"00000000:{bus_of(job, node, slot) + 1 + before:02X}:00.0"


def nic_bus_id(job: Job, node: int, nic: int) -> str:
    """The PCI address of a NIC, as sysfs writes it."""
    wiring = job.cluster.wiring(node)
    slot = wiring.nics[nic].pcie
    before = sum(1 for other in wiring.nics[:nic] if other.pcie == slot)
    return f"0000:{bus_of(job, node, slot) + 8 + before:02x}:00.0"


def bus_of(job: Job, node: int, slot: int) -> int:
    """The first bus below a PCIe switch."""
    switches = job.cluster.wiring(node).switches
    socket = switches[slot].socket
    return 0x10 + 0x80 * (socket % 2) + 0x10 * sum(1 for other in switches[:slot] if other.socket == socket) % 0x70


def gpu_uuid(job: Job, node: int, gpu: int) -> str:
    """What the driver calls a GPU: any fixed name of its own."""
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_URL, f'{job.cluster.name} node{node}/gpu{gpu}')}"
