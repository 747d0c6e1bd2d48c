"""What do the bytes of a group cross, and which axis lies over a tier that is too slow for it?

Inside a node NVLink (or PCIe, across sockets where the two hang on different ones). Between nodes a group uses the NICs of its
GPUs: one rail each where it has the same GPUs on every node, as NCCL's rings do; across rails otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepscope.model.cluster import Cluster
from stepscope.model.exchange import AxisExchange

IN_LINE: Final = ("tp", "ep")
"""Axes whose exchange stands in line with compute, so that a slow link is paid in full."""


def links(cluster: Cluster, ranks: Sequence[int]) -> tuple[str, ...]:
    """What the bytes of one group of ranks cross, the nearest first; () for a group of one."""
    if len(ranks) < 2:
        return ()
    seats: dict[int, list[int]] = {}
    for rank in ranks:
        node, gpu = cluster.at(rank)
        seats.setdefault(node, []).append(gpu)
    found: list[str] = []
    if any(len(gpus) > 1 for gpus in seats.values()):
        found += _inside(cluster, seats)
    if len(seats) > 1:
        found += _between(cluster, seats)
    return tuple(dict.fromkeys(found))


def _inside(cluster: Cluster, seats: dict[int, list[int]]) -> list[str]:
    found = []
    for node, gpus in seats.items():
        wiring = cluster.wiring(node)
        if wiring.scale_up.kind != "none":
            found.append("NVLink")
        else:
            found.append("PCIe")
            if len({wiring.socket_of_gpu(gpu) for gpu in gpus}) > 1:
                found.append("across sockets")
    return found


def _between(cluster: Cluster, seats: dict[int, list[int]]) -> list[str]:
    rails: dict[int, frozenset[int]] = {}
    crossing = False
    for node, gpus in seats.items():
        wiring = cluster.wiring(node)
        nics = [(gpu, wiring.nic_of_gpu(gpu)) for gpu in gpus]
        rails[node] = frozenset(wiring.nics[nic].rail for _, nic in nics if nic is not None)
        crossing |= any(nic is not None and wiring.socket_of_nic(nic) != wiring.socket_of_gpu(gpu) for gpu, nic in nics)
    same = len(set(rails.values())) == 1 and bool(next(iter(rails.values())))
    return ["same rail" if same else "across rails", *(["across sockets"] if crossing else [])]


def warnings(cluster: Cluster, axes: Sequence[AxisExchange]) -> list[str]:
    """Axes that lie over a slower tier than they need to, in words."""
    found = []
    per = cluster.gpus_per_node
    across = {axis.axis: any(len({rank // per for rank in group}) > 1 for group in axis.groups[:1]) for axis in axes}
    for axis in axes:
        if axis.axis in IN_LINE and across[axis.axis]:
            nodes = len({rank // per for rank in axis.groups[0]})
            found.append(
                f"{axis.axis}={axis.size}: its groups span {nodes} nodes of {per} GPUs, and what it exchanges is in line with "
                f"compute: keep {axis.axis} at {per} or below, or make it the fastest axis"
            )
    if across.get("fsdp") and "replicate" in across and not across["replicate"]:
        found.append(
            "fsdp crosses nodes while replicate stays inside: gathers move more bytes than the replicas' all-reduce; make the "
            "shard group fit a node (hsdp=NODESxGPUS)"
        )
    for axis in axes:
        if "across rails" in axis.links:
            found.append(f"{axis.axis}: its groups cross rails, so their traffic climbs to the spine; give each group one rail")
        if "across sockets" in axis.links:
            found.append(f"{axis.axis}: bytes cross the link between sockets; check which NIC or GPU hangs on which socket")
    return found
