"""What lies between the nodes: leaf and spine switches, and which port a NIC is on.

Rail-optimised: NIC i of every node of a pod is on the pod's leaf i, so one rail never needs a spine inside a pod. Fat tree: all
NICs of a pod's nodes are on one leaf. The spine of a flow follows from the port it goes to, so that a permutation of nodes
spreads evenly, as destination-routed and adaptively routed fabrics do; hash collisions of ECMP are not modelled.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Fabric(msgspec.Struct, frozen=True, kw_only=True):
    """`nodes_per_leaf` nodes are a pod, with `rails` each; `spine_bytes_per_s` is one leaf to one spine; no spine: one pod.

    `cables_carry` is what of their rate the cables of NICs have left for this job.
    """

    kind: Literal["rail-optimised", "fat-tree"]
    nodes_per_leaf: int
    rails: int
    spines: int
    spine_bytes_per_s: float
    cables_carry: float = 1.0

    def leaves(self, nodes: int) -> int:
        """Leaf switches that so many nodes need."""
        pods = -(-nodes // self.nodes_per_leaf)
        return pods * (self.rails if self.kind == "rail-optimised" else 1)

    def leaf(self, node: int, rail: int) -> int:
        """The leaf that a node's NIC of that rail is plugged into."""
        pod = node // self.nodes_per_leaf
        return pod * self.rails + rail if self.kind == "rail-optimised" else pod

    def spine(self, node: int, rail: int) -> int:
        """The spine by which traffic to that node's NIC of that rail comes."""
        inside = node % self.nodes_per_leaf
        return (inside if self.kind == "rail-optimised" else inside * self.rails + rail) % self.spines
