"""Links of a cluster at part of their rate: what faults of fabric and interconnect are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from stepscope.model.cluster import Cluster
from stepscope.model.link import Link
from stepscope.model.node import Node


def at_share(cluster: Cluster, links: Iterable[Link], share: float) -> Cluster:
    """The same cluster with these links carrying that share of what they carry now."""
    slower = (msgspec.structs.replace(link, capacity_bytes_per_s=link.capacity_bytes_per_s * share) for link in links)
    return cluster.with_links(*slower)


def inside(cluster: Cluster, node: int, end: str) -> list[Link]:
    """Links with that end in one node, both directions, without the cables."""
    found = [link for link in cluster.wiring(node).links(f"node{node}") if end in (link.src, link.dst)]
    both = [*found, *(msgspec.structs.replace(link, src=link.dst, dst=link.src) for link in found)]
    return [cluster.odd_links.get(link.name, link) for link in both]


def cable(cluster: Cluster, node: int, nic: int) -> list[Link]:
    """The cable of a NIC, both directions."""
    return cluster.cables(node, nic)


def all_cables(cluster: Cluster, share: float, spines: bool) -> Cluster:
    """Every cable (and every link of a spine, if asked) at that share; what was odd stays so much odder."""
    fabric = msgspec.structs.replace(
        cluster.fabric,
        cables_carry=cluster.fabric.cables_carry * share,
        spine_bytes_per_s=cluster.fabric.spine_bytes_per_s * (share if spines else 1.0),
    )
    kinds = ("cable", "spine") if spines else ("cable",)
    odd = [link for link in cluster.odd_links.values() if link.kind in kinds]
    return at_share(msgspec.structs.replace(cluster, fabric=fabric), odd, share)


def every_node(cluster: Cluster, change: Callable[[Node], Node]) -> Cluster:
    """The same cluster with all its nodes changed, odd ones too."""
    odd = {number: change(wiring) for number, wiring in cluster.odd_nodes.items()}
    return msgspec.structs.replace(cluster, node=change(cluster.node), odd_nodes=odd)
