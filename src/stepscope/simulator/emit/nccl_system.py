"""What NCCL sees of a node before it chooses: sockets, switches, GPUs and NICs with the speeds it takes them for, its variables.

A port counts with the rate it trained at, a slot with its generation's; what a link really carries is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepscope.simulator.emit.inventory import bus_id
from stepscope.simulator.job import Job
from stepscope.simulator.nccl.settings import NcclSettings
from stepscope.simulator.signals.ports import port_state, trained_gbit
from stepscope.simulator.signals.traffic import is_socket

SLOT_GBPS: Final = {3: 12.0, 4: 24.0, 5: 48.0, 6: 96.0}  # sixteen lanes by PCIe generation, NVIDIA/nccl src/graph/topo.h
HOPS: Final = {"PIX": 2, "PHB": 4, "SYS": 5}
UNDER: Final = " " * 14  # by which the tree is moved in below a switch


def seen(job: Job, node: int, gpu: int) -> Iterator[str]:
    """The tree of the node, and the way from one GPU to its NICs."""
    wiring, port = job.cluster.wiring(node), job.gpu.scale_up
    slot = SLOT_GBPS.get(job.gpu.pcie.generation, 12.0) * job.gpu.pcie.lanes / 16
    total = 0.0 if port is None or wiring.scale_up.kind == "none" else (port.nccl_link_gbps or 0.0) * port.links
    yield f"=== System : maxBw {max(total, slot):.1f} totalBw {max(total, slot):.1f} ==="
    for socket in range(wiring.sockets):
        yield f"CPU/{socket} (1/{'1/2' if job.transport.processor == 'intel' else '2/1'})"
        for place, switch in enumerate(wiring.switches):
            if switch.socket == socket:
                yield f"+ PCI[{slot:.1f}] - PCI/{place:x}"
                yield from _below(job, node, place, slot, total)
    yield "=========================================="
    for nic in wiring.gpus[gpu].nics:
        way = _way(job, node, gpu, nic)
        yield f"GPU/{short_bus(job, node, gpu)} :NET/{nic} ({HOPS[way]}/{slot:.1f}/{way})"


def _below(job: Job, node: int, place: int, slot: float, total: float) -> Iterator[str]:
    """GPUs and NICs on one switch."""
    wiring = job.cluster.wiring(node)
    for g, own in enumerate(wiring.gpus):
        if own.pcie == place:
            yield f"{UNDER}+ PCI[{slot:.1f}] - GPU/{short_bus(job, node, g)} ({g})"
            if total and wiring.scale_up.kind == "switch":
                yield f"{UNDER}{UNDER}+ NVL[{total:.1f}] - NVS/0"
    for n, card in enumerate(wiring.nics):
        state = port_state(job, node, n)
        if card.pcie == place and state.up and not is_socket(job):
            speed = trained_gbit(job, state) / 8
            yield f"{UNDER}+ PCI[{slot:.1f}] - NIC/{n}"
            yield f"{UNDER}{UNDER}+ NET[{speed:.1f}] - NET/{n} (0/0/{speed:.1f})"


def _way(job: Job, node: int, gpu: int, nic: int) -> str:
    wiring = job.cluster.wiring(node)
    a, b = wiring.gpus[gpu].pcie, wiring.nics[nic].pcie
    if a == b:
        return "PIX"
    return "PHB" if wiring.switches[a].socket == wiring.switches[b].socket else "SYS"


def short_bus(job: Job, node: int, gpu: int) -> str:
    """`1b000`: bus and device as NCCL prints them."""
    return f"{int(bus_id(job, node, gpu).split(':')[1], 16):x}000"


def environment(settings: NcclSettings, node: int, job: Job) -> dict[str, str]:
    """The variables that force what is forced: those that a job's environment would hold."""
    found: dict[str, str] = {}
    if settings.algorithm is not None:
        found["NCCL_ALGO"] = {"nvls": "NVLS", "nvlstree": "NVLSTree"}.get(settings.algorithm, settings.algorithm.capitalize())
    if settings.protocol is not None:
        found["NCCL_PROTO"] = settings.protocol
    if settings.channels is not None:
        found["NCCL_MAX_NCHANNELS"] = str(settings.channels)
    nics = settings.nics_at(node)
    if nics is not None:
        found["NCCL_IB_HCA"] = ",".join(slot.name for slot in job.cluster.wiring(node).nics[:nics])
    if settings.p2p_off(node):
        found["NCCL_P2P_DISABLE"] = "1"
    if not settings.nvls:
        found["NCCL_NVLS_ENABLE"] = "0"
    if not settings.pxn:
        found["NCCL_PXN_DISABLE"] = "1"
    return found
