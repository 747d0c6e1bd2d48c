"""The machine a job runs on, as links: which wires do the bytes between two GPUs cross, and what does each of them carry?

Nodes are alike except those in `odd_nodes`; links are as the node and the fabric say except those in `odd_links`. So a healthy
cluster of 2,000 nodes is a few numbers, and a sick one differs from it in the one place that is sick.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from stepscope.model.errors import UsageMistake
from stepscope.model.fabric import Fabric
from stepscope.model.link import Link
from stepscope.model.node import Node
from stepscope.model.place import Place
from stepscope.model.storage import Mount


class GpuAt(NamedTuple):
    """A GPU of the cluster: its node and its number there, both from 0."""

    node: int
    gpu: int


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """`nodes` machines like `node`, joined by `fabric`; rank r runs on node r // GPUs a node, GPU r % GPUs a node."""

    name: str
    nodes: int
    node: Node
    fabric: Fabric
    mounts: tuple[Mount, ...] = ()
    odd_nodes: dict[int, Node] = {}
    odd_links: dict[str, Link] = {}

    @property
    def gpus_per_node(self) -> int:
        return len(self.node.gpus)

    @property
    def world_size(self) -> int:
        """GPUs in all."""
        return self.nodes * self.gpus_per_node

    def at(self, rank: int) -> GpuAt:
        """The GPU of a rank; UsageMistake where there is none."""
        if not 0 <= rank < self.world_size:
            raise UsageMistake(f"rank {rank}: {self.name} with {self.nodes} nodes has ranks 0 to {self.world_size - 1}")
        return GpuAt(*divmod(rank, self.gpus_per_node))

    def place(self, rank: int) -> Place:
        """Node, GPU and NIC of a rank, as the inventory says them."""
        node, gpu = self.at(rank)
        nic = self.wiring(node).nic_of_gpu(gpu)
        return Place(f"node{node}", gpu, None if nic is None else f"nic{nic}")

    def wiring(self, node: int) -> Node:
        """How that node is wired."""
        return self.odd_nodes.get(node, self.node)

    def path(
        self,
        a: GpuAt | tuple[int, int],
        b: GpuAt | tuple[int, int],
        nic: int | None = None,
        peer_nic: int | None = None,
        through_host: bool = False,
    ) -> list[Link]:
        """Links from GPU a to GPU b, in order; [] for a = b.

        Inside a node NVLink or xGMI, else PCIe. Across: GPU, PCIe switch, NIC, leaf, (spine, leaf,) NIC, PCIe switch, GPU, over
        the socket link wherever GPU and NIC sit on different sockets. `nic` is the NIC used on a's node (its own by default),
        `peer_nic` that on b's (b's own on the same rail, else b's first). `through_host` is the way without GPUDirect, or
        inside a node without peer-to-peer. UsageMistake where a GPU or NIC is not there.
        """
        (node_a, gpu_a), (node_b, gpu_b) = self._gpu(a), self._gpu(b)
        if node_a == node_b:
            return self._odd(self.wiring(node_a).between_gpus(f"node{node_a}", gpu_a, gpu_b, through_host))
        left, right = self.wiring(node_a), self.wiring(node_b)
        out = self._nic(node_a, gpu_a, nic, None)
        into = self._nic(node_b, gpu_b, peer_nic, left.nics[out].rail)
        inbound = right.gpu_to_nic(f"node{node_b}", gpu_b, into, through_host)
        return self._odd(
            [
                *left.gpu_to_nic(f"node{node_a}", gpu_a, out, through_host),
                *self.between_nics((node_a, out), (node_b, into)),
                *(mirror(link) for link in reversed(inbound)),
            ]
        )

    def between_nics(self, a: tuple[int, int], b: tuple[int, int]) -> list[Link]:
        """Links from NIC a to NIC b, each (node, NIC): one leaf on the same rail of one pod, else leaf, spine, leaf."""
        (node_a, nic_a), (node_b, nic_b) = a, b
        rail_a, rail_b = self.wiring(node_a).nics[nic_a].rail, self.wiring(node_b).nics[nic_b].rail
        leaf_a, leaf_b = self.fabric.leaf(node_a, rail_a), self.fabric.leaf(node_b, rail_b)
        middle = []
        if leaf_a != leaf_b:
            if not self.fabric.spines:
                raise UsageMistake(f"{self.name}: no spine joins leaf{leaf_a} and leaf{leaf_b}; give the fabric spines")
            top = f"spine{self.fabric.spine(node_b, rail_b)}"
            middle = [self._spine(f"leaf{leaf_a}", top), self._spine(top, f"leaf{leaf_b}")]
        ends = self._cable(node_a, nic_a), mirror(self._cable(node_b, nic_b))
        return self._odd([ends[0], *middle, ends[1]])

    def storage_path(self, node: int, mount: Mount, write: bool = False) -> list[Link]:
        """Links from the file system to a node, or back to write: the servers' own rate where it is shared, then the node's."""
        own = mount.write_bytes_per_s if write else mount.read_bytes_per_s
        total = mount.total_write_bytes_per_s if write else mount.total_read_bytes_per_s
        client = f"node{node}/storage:{mount.path}"
        path = [Link(client, f"node{node}", "storage", own, mount.latency_ns)]
        if total is not None:
            path.insert(0, Link(f"storage:{mount.path}", client, "storage", total, 0))
        return self._odd([mirror(link) for link in reversed(path)] if write else path)

    def links(self) -> Iterator[Link]:
        """Every link of nodes and fabric, both directions (storage aside)."""
        for node in range(self.nodes):
            wiring = self.wiring(node)
            for link in (*wiring.links(f"node{node}"), *(self._cable(node, nic) for nic in range(len(wiring.nics)))):
                yield from self._odd([link, mirror(link)])
        for leaf in range(self.fabric.leaves(self.nodes)):
            for spine in range(self.fabric.spines):
                link = self._spine(f"leaf{leaf}", f"spine{spine}")
                yield from self._odd([link, mirror(link)])

    def links_at(self, end: str) -> list[Link]:
        """Every link, both directions, with that end: `node1/gpu3`, `node1/nic3`, `leaf2`, or a port, `leaf2/port7`."""
        if "/port" in end:
            return [link for link in self.links() if link.kind == "cable" and self._port(link) == end]
        return [link for link in self.links() if end in (link.src, link.dst)]

    def cables(self, node: int, nic: int) -> list[Link]:
        """The cable of a NIC, out of it and into it."""
        link = self._cable(node, nic)
        return self._odd([link, mirror(link)])

    def port(self, node: int, nic: int) -> str:
        """The leaf's port that a NIC is plugged into, `leaf2/port7`."""
        slots = self.wiring(node).nics
        leaf = self.fabric.leaf(node, slots[nic].rail)
        shared = [i for i, slot in enumerate(slots) if self.fabric.leaf(node, slot.rail) == leaf]
        return f"leaf{leaf}/port{node % self.fabric.nodes_per_leaf * len(shared) + shared.index(nic)}"

    def with_node(self, node: int, wiring: Node) -> Cluster:
        """The same cluster with one node wired otherwise."""
        return msgspec.structs.replace(self, odd_nodes={**self.odd_nodes, node: wiring})

    def with_links(self, *links: Link) -> Cluster:
        """The same cluster with these links in place of those with their names."""
        return msgspec.structs.replace(self, odd_links={**self.odd_links, **{link.name: link for link in links}})

    def _odd(self, links: list[Link]) -> list[Link]:
        return [self.odd_links.get(link.name, link) for link in links] if self.odd_links else links

    def _gpu(self, at: GpuAt | tuple[int, int]) -> GpuAt:
        node, gpu = at
        if not (0 <= node < self.nodes and 0 <= gpu < self.gpus_per_node):
            has = f"node0 to node{self.nodes - 1} with gpu0 to gpu{self.gpus_per_node - 1}"
            raise UsageMistake(f"node{node}/gpu{gpu}: there is no such GPU; {self.name} has {has}")
        return GpuAt(node, gpu)

    def _nic(self, node: int, gpu: int, wanted: int | None, rail: int | None) -> int:
        wiring = self.wiring(node)
        nic = wiring.nic_of_gpu(gpu, rail) if wanted is None else wanted
        if nic is None or not 0 <= nic < len(wiring.nics):
            what = (
                f"node{node}/gpu{gpu}: no NIC is paired with it" if nic is None else f"node{node}/nic{nic}: there is no such NIC"
            )
            raise UsageMistake(f"{what}; {self.name} has {len(wiring.nics)} NICs a node")
        return nic

    def _cable(self, node: int, nic: int) -> Link:
        wiring = self.wiring(node)
        leaf = f"leaf{self.fabric.leaf(node, wiring.nics[nic].rail)}"
        rate = wiring.nic_bytes_per_s * self.fabric.cables_carry
        return Link(f"node{node}/nic{nic}", leaf, "cable", rate, wiring.latencies.cable_ns)

    def _spine(self, src: str, dst: str) -> Link:
        return Link(src, dst, "spine", self.fabric.spine_bytes_per_s, self.node.latencies.spine_ns)

    def _port(self, cable: Link) -> str:
        end = cable.src if cable.src.startswith("node") else cable.dst
        node, nic = end.removeprefix("node").split("/nic")
        return self.port(int(node), int(nic))


def mirror(link: Link) -> Link:
    """The other direction of the same wire."""
    return msgspec.structs.replace(link, src=link.dst, dst=link.src)
