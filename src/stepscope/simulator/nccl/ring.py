"""In which order does a ring visit the GPUs of a node, and by which NIC does each channel leave and enter it?

On a switch any order does, so a channel starts at the GPU of its NIC. On a mesh the orders follow the wires: cycles through all
GPUs, widest first, each taken off what is left, which is how NCCL comes to several rings there. Not modelled: NCCL's search
itself; where GPU and NIC are paired oddly it may find another ring.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from stepscope.model.errors import UsageMistake
from stepscope.model.node import Node, ScaleUp


class Port(NamedTuple):
    """A NIC that a group uses on a node, and the GPU of the group that reads and writes it."""

    nic: int
    gpu: int


class Channel(NamedTuple):
    """A way through one node: GPUs in order, the first fed by `port`, the last one's bytes leaving by it; its share of all."""

    order: tuple[int, ...]
    port: Port | None
    share: float


@lru_cache(maxsize=4096)
def ports(node: Node, gpus: tuple[int, ...], most: int | None) -> tuple[Port, ...]:
    """NICs meant for these GPUs, each once, at most so many; a GPU without one borrows the nearest of its node."""
    found: dict[int, int] = {}
    for gpu in gpus:
        for nic in node.gpus[gpu].nics or (_nearest(node, gpu),):
            found.setdefault(nic, gpu)
    taken = [Port(nic, gpu) for nic, gpu in found.items()]
    return tuple(taken if most is None else taken[: max(1, most)])


def _nearest(node: Node, gpu: int) -> int:
    if not node.nics:
        raise UsageMistake("a job over several nodes: these nodes have no NICs; add them to the system's wiring")
    at, socket = node.gpus[gpu].pcie, node.socket_of_gpu(gpu)
    return min(range(len(node.nics)), key=lambda n: (node.nics[n].pcie != at, node.socket_of_nic(n) != socket, n))


@lru_cache(maxsize=4096)
def channels(node: Node, gpus: tuple[int, ...], most: int | None, alone: bool, wide: int) -> tuple[Channel, ...]:
    """Channels through a node, `wide` of them where it is one of several (NICs are taken in turn); shares sum to 1."""
    cycles = cycles_of(node.scale_up, gpus)
    if alone:
        total = sum(weight for _, weight in cycles)
        return tuple(Channel(order, None, weight / total) for order, weight in cycles)
    taken = ports(node, gpus, most)
    found = []
    for c in range(wide):
        port = taken[c % len(taken)]
        order = cycles[c % len(cycles)][0]
        at = order.index(port.gpu)
        order = order[at:] + order[:at]
        if node.scale_up.kind != "mesh":
            order = _last_beside(node, order, port)
        found.append(Channel(order, port, 1 / wide))
    return tuple(found)


def _last_beside(node: Node, order: tuple[int, ...], port: Port) -> tuple[int, ...]:
    """The same GPUs with one that shares the NIC's switch at the end, so that the ring leaves without a hop over NVLink."""
    slot = node.nics[port.nic].pcie
    beside = [gpu for gpu in order[1:] if node.gpus[gpu].pcie == slot]
    if not beside:
        return order
    return (*(gpu for gpu in order if gpu != beside[-1]), beside[-1])


@lru_cache(maxsize=1024)
def cycles_of(up: ScaleUp, gpus: tuple[int, ...]) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Rings through these GPUs with the links each may fill: (order, links). One of any order unless they are a mesh."""
    if up.kind != "mesh" or len(gpus) < 3:
        return ((gpus, 1),)
    left = {(a, b): n for x, y, n in up.bundles if x in gpus and y in gpus for a, b in ((x, y), (y, x))}
    found: list[tuple[tuple[int, ...], int]] = []
    for least in sorted(set(left.values()), reverse=True):
        while cycle := _cycle(left, gpus, least):
            edges = list(zip(cycle, (*cycle[1:], cycle[0]), strict=True))
            links = min(left[edge] for edge in edges)
            for edge in edges:
                left[edge] -= links
            found.append((cycle, links))
    return tuple(found) or ((gpus, 1),)


def _cycle(left: dict[tuple[int, int], int], gpus: tuple[int, ...], least: int) -> tuple[int, ...] | None:
    """A cycle through all GPUs over bundles of so many links, found by trying; the first in the order of numbers."""

    def further(path: tuple[int, ...]) -> tuple[int, ...] | None:
        if len(path) == len(gpus):
            return path if left.get((path[-1], path[0]), 0) >= least else None
        for gpu in gpus:
            if gpu not in path and left.get((path[-1], gpu), 0) >= least:
                whole = further((*path, gpu))
                if whole:
                    return whole
        return None

    return further((gpus[0],))
