"""Which groups of an axis lie alike, so that one of them speaks for all, and which nodes of it have to be looked at?

Nodes are alike but the odd ones, so a world of any size is a few kinds of groups. Taken as alike: which nodes of a pod a group
has, and which spines its ways use (a fabric whose spines are narrower than its rails is met at the border of a pod).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.model.cluster import Cluster
from stepscope.simulator.nccl.groups import Groups, Ints, Member, member
from stepscope.simulator.nccl.settings import NcclSettings


@dataclass(frozen=True, slots=True)
class Kinds:
    """Groups that lie alike are one kind: a member of each, which nodes to look at, and the kind of every group."""

    members: tuple[Member, ...]
    looked_at: tuple[tuple[int, ...], ...]
    kind: Ints


def kinds_of(groups: Groups, cluster: Cluster, odd: frozenset[int]) -> Kinds:
    """Regular groups on healthy nodes differ by their GPUs and by whether they leave their pod; those on odd ones one by one."""
    per, count = cluster.gpus_per_node, groups.count
    if groups.listed:
        members = tuple(member(groups, g, per) for g in range(count))
        return Kinds(members, tuple(tuple(range(len(m.nodes))) for m in members), np.arange(count))
    index = np.arange(count, dtype=np.int64)
    span = groups.size * groups.stride
    start = index // groups.stride * span + index % groups.stride
    pod = cluster.fabric.nodes_per_leaf
    crosses = start // per // pod != (start + span - groups.stride) // per // pod
    alike = start % per if span <= per or groups.stride % per == 0 or (per % groups.stride == 0 and span % per == 0) else index
    key = alike * 2 + crosses
    if odd:
        nodes = np.fromiter(odd, np.int64)
        ranks = (nodes[:, None] * per + np.arange(per)).ravel()
        sick = groups.groups_of(ranks)
        key[sick] = key.max() + 1 + np.arange(len(sick))
    _, first, kind = np.unique(key, return_index=True, return_inverse=True)
    members = tuple(member(groups, int(g), per) for g in first)
    return Kinds(members, tuple(_looked_at(m, odd, pod) for m in members), kind.astype(np.int64))


def _looked_at(one: Member, odd: frozenset[int], pod: int) -> tuple[int, ...]:
    """Positions of the nodes that may differ: the ends, the middle, those beside a pod's border, those that are odd."""
    n = len(one.nodes)
    if n <= 4:
        return tuple(range(n))
    wanted = {0, 1, n // 2, n - 2, n - 1}
    borders = np.flatnonzero(np.diff(one.nodes // pod))
    wanted.update(borders[:2].tolist(), (borders[:2] + 1).tolist())
    if odd:
        wanted.update(np.flatnonzero(np.isin(one.nodes, np.fromiter(odd, np.int64))).tolist())
    return tuple(sorted(wanted))


def odd_nodes(cluster: Cluster, settings: NcclSettings) -> frozenset[int]:
    """Nodes that are wired or set otherwise, or whose leaf has an odd link."""
    found = {*cluster.odd_nodes, *settings.odd_nodes}
    fabric = cluster.fabric
    for link in cluster.odd_links.values():
        if link.kind == "storage":
            continue
        for end in (link.src, link.dst):
            if end.startswith("node"):
                found.add(int(end.removeprefix("node").split("/")[0]))
            elif end.startswith("leaf") and link.kind == "spine":
                pod = int(end.removeprefix("leaf")) // (fabric.rails if fabric.kind == "rail-optimised" else 1)
                found.update(range(pod * fabric.nodes_per_leaf, min((pod + 1) * fabric.nodes_per_leaf, cluster.nodes)))
    return frozenset(found)
