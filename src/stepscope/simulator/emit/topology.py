"""`nvidia-smi topo -m` and `nvlink -s` of a node: how each GPU reaches every other and every NIC, and which NVLinks are up.

Cells are separated by tabs as the tool prints them: NV# over NVLink, PIX below one PCIe switch, NODE within a socket, SYS across
sockets. Host bridges inside a socket are not modelled, so PXB and PHB do not occur.
"""

from __future__ import annotations

from typing import Final

from stepscope.catalog.gpu import Gpu
from stepscope.catalog.telemetry import board_of, telemetry
from stepscope.model.node import Node
from stepscope.simulator.emit.inventory import gpu_uuid
from stepscope.simulator.job import Job
from stepscope.simulator.signals.gpus import links_up

LEGEND: Final = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""
UNDERLINED: Final = "\x1b[4m{}\x1b[0m"


def topology(node: Node, gpu: Gpu) -> str:
    """The matrix, the legend and the names of the NICs."""
    gpus, nics = len(node.gpus), len(node.nics)
    heads = [f"GPU{i}" for i in range(gpus)] + [f"NIC{i}" for i in range(nics)]
    lines = ["\t" + UNDERLINED.format("\t".join((*heads, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID")))]
    for a in range(gpus + nics):
        cells = [" X " if a == b else _way(node, gpu, a, b) for b in range(gpus + nics)]
        tail = [_cores(node, a), str(node.numa_of_gpu(a)), "", "N/A"] if a < gpus else ["", "", ""]
        lines.append("\t".join([heads[a], *cells, *tail]))
    named = "".join(f"  NIC{i}: {slot.name}\n" for i, slot in enumerate(node.nics))
    return "\n".join(lines) + "\n" + LEGEND + (f"\nNIC Legend:\n\n{named}\n" if named else "\n")


def nvlink_status(job: Job, node: int) -> str:
    """`nvidia-smi nvlink -s`: each link of each GPU with its rate, or inactive; empty where GPUs have none."""
    port = job.gpu.scale_up
    if port is None or port.kind != "nvlink" or job.cluster.wiring(node).scale_up.kind == "none":
        return ""
    lines = []
    for gpu in range(job.cluster.gpus_per_node):
        lines.append(f"GPU {gpu}: {board_of(job.gpu).product} (UUID: {gpu_uuid(job, node, gpu)})")
        up = links_up(job, node, gpu)
        each = port.gbps / port.links
        lines += [f"\t Link {i}: {f'{each:.3f} GB/s' if i < up else '<inactive>'}" for i in range(port.links)]
    return "\n".join(lines) + "\n"


def _way(node: Node, gpu: Gpu, a: int, b: int) -> str:
    """How two devices reach each other; NICs are numbered after the GPUs."""
    gpus = len(node.gpus)
    if a < gpus and b < gpus:
        links = _links(node, gpu, a, b)
        if links:
            return f"NV{links}"
    one, two = (node.switches[node.gpus[i].pcie if i < gpus else node.nics[i - gpus].pcie] for i in (a, b))
    slots = [node.gpus[i].pcie if i < gpus else node.nics[i - gpus].pcie for i in (a, b)]
    if slots[0] == slots[1]:
        return "PIX"
    return "SYS" if one.numa != two.numa or one.socket != two.socket else "NODE"


def _links(node: Node, gpu: Gpu, a: int, b: int) -> int:
    if node.scale_up.kind == "switch":
        return 0 if gpu.scale_up is None else gpu.scale_up.links
    return node.scale_up.between(a, b) if node.scale_up.kind == "mesh" else 0


def _cores(node: Node, gpu: int) -> str:
    """Cores of the GPU's NUMA node and their second threads, as Linux numbers them."""
    numas = len({switch.numa for switch in node.switches})
    numas = max(numas, node.sockets)
    cores = telemetry().host.cores
    each, at = cores // numas, sorted({*range(node.sockets), *(s.numa for s in node.switches)}).index(node.numa_of_gpu(gpu))
    return f"{at * each}-{(at + 1) * each - 1},{cores + at * each}-{cores + (at + 1) * each - 1}"
