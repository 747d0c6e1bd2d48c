"""How is a cluster built: which machine, how it is wired inside, what joins the machines, and where its files lie?

The pairing of GPUs, PCIe switches, NICs and rails is written out, since that is what gets mis-wired. `_gbps` is 1e9 bytes a
second each way, `_gbit` a vendor's bit rate. What is not known is None.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta

from stepscope.catalog import document
from stepscope.catalog.bounds import Bytes, Count, Index, Name, Nanoseconds, Rate, Text
from stepscope.catalog.document import Sourced
from stepscope.catalog.gpu import Gpu, load_gpu
from stepscope.catalog.wiring import contradiction
from stepscope.model.cluster import Cluster
from stepscope.model.errors import BadInput, UsageMistake
from stepscope.model.fabric import Fabric
from stepscope.model.link import Latencies
from stepscope.model.node import GpuSlot, NicSlot, Node, PcieSwitch, ScaleUp
from stepscope.model.storage import Mount

MAX_NODES: Final = 16_384


class Size(Sourced, frozen=True, kw_only=True):
    """Nodes when the caller names no number."""

    nodes: Annotated[int, Meta(ge=1, le=MAX_NODES)]


class Host(Sourced, frozen=True, kw_only=True):
    """Sockets and what joins them: `socket_gbps` is what a GPU and a NIC on two sockets get, each way."""

    sockets: Count
    socket_gbps: Rate
    cpu: Text | None = None
    cores: Count | None = None
    memory_bytes: Bytes | None = None
    memory_gbps: Rate | None = None


class Network(Sourced, frozen=True, kw_only=True):
    """The NICs for the job: line rate, what RDMA was measured to carry (`payload_gbps`, else the line rate), and their slot."""

    kind: Literal["infiniband", "roce", "efa", "tcpx", "tcpxo", "ethernet"]
    gbit: Rate
    payload_gbps: Rate | None = None
    pcie_gbps: Rate | None = None
    gpudirect: bool = True


class FrontEnd(Sourced, frozen=True, kw_only=True):
    """The other network, where NCCL lands when it finds no RDMA device."""

    gbit: Rate


class NodeScaleUp(Sourced, frozen=True, kw_only=True):
    """NVLink or xGMI in the node: over a switch, as a mesh of (GPU, GPU, links), or none. Rates are the GPU's."""

    kind: Literal["switch", "mesh", "none"]
    bundles: tuple[tuple[Index, Index, Count], ...] = ()


class Wiring(Sourced, frozen=True, kw_only=True):
    """The node's slots by position: PCIe switches, then GPUs and NICs on them, and which NIC is meant for which GPU."""

    switches: tuple[PcieSwitch, ...]
    gpus: tuple[GpuSlot, ...]
    nics: tuple[NicSlot, ...]


class SystemFabric(Sourced, frozen=True, kw_only=True):
    """Leaf and spine: `spine_gbit` is what joins one leaf to one spine, all its cables together."""

    kind: Literal["rail-optimised", "fat-tree"]
    nodes_per_leaf: Count
    spines: Index = 0
    spine_gbit: Rate | None = None


class SystemLatency(Sourced, frozen=True, kw_only=True):
    """ns for the first byte over one link of each kind."""

    scale_up_ns: Nanoseconds
    pcie_ns: Nanoseconds
    socket_ns: Nanoseconds
    cable_ns: Nanoseconds
    spine_ns: Nanoseconds


class Storage(Sourced, frozen=True, kw_only=True):
    """A file system: rates of one node, and of all nodes together where they share it; `over` the job's NICs or a network of its
    own."""

    path: Annotated[str, Meta(min_length=1, max_length=120, pattern=r"^/[A-Za-z0-9._/-]*$")]
    kind: Literal["nvme", "lustre", "nfs", "object"]
    read_gbps: Rate
    write_gbps: Rate
    latency_ns: Nanoseconds
    total_read_gbps: Rate | None = None
    total_write_gbps: Rate | None = None
    over: Literal["own", "rails"] = "own"


class System(Sourced, frozen=True, kw_only=True):
    """A cluster of the catalog, or of a user's file. `gpu` is a name of the catalog or a table like the files of gpus/."""

    name: Name
    title: Text
    gpu: Name | Gpu
    size: Size
    host: Host
    network: Network
    front_end: FrontEnd | None = None
    scale_up: NodeScaleUp
    wiring: Wiring
    fabric: SystemFabric
    latency: SystemLatency
    storage: tuple[Storage, ...] = ()

    @property
    def the_gpu(self) -> Gpu:
        """The GPU in every slot."""
        return self.gpu if isinstance(self.gpu, Gpu) else load_gpu(self.gpu)

    @property
    def gpus_per_node(self) -> int:
        return len(self.wiring.gpus)

    def nodes_for(self, ranks: int) -> int:
        """Nodes that so many ranks fill; UsageMistake where the last one would be part empty (one node may be)."""
        per = self.gpus_per_node
        if ranks < 1 or (ranks > per and ranks % per):
            raise UsageMistake(f"{ranks} ranks: {self.name} has {per} GPUs a node; take a multiple of {per}, or fewer than {per}")
        return -(-ranks // per)

    def cluster(self, nodes: int | None = None) -> Cluster:
        """So many nodes of it (the file's number by default) as links. UsageMistake for a number that it cannot have."""
        many = self.size.nodes if nodes is None else nodes
        if not 1 <= many <= MAX_NODES:
            raise UsageMistake(f"{many} nodes: {self.name} can have 1 to {MAX_NODES}")
        if many > self.fabric.nodes_per_leaf and not self.fabric.spines:
            room = self.fabric.nodes_per_leaf
            raise UsageMistake(f"{many} nodes: {self.name} has no spine and room for {room} on a leaf; take at most {room}")
        return Cluster(name=self.name, nodes=many, node=self._node(), fabric=self._fabric(), mounts=self._mounts())

    def _node(self) -> Node:
        gpu, net = self.the_gpu, self.network
        port = gpu.scale_up
        each = 0.0 if port is None else port.gbps * 1e9 / (1 if self.scale_up.kind == "switch" else port.links)
        slot = gpu.pcie.payload_gbps * 1e9
        return Node(
            sockets=self.host.sockets,
            switches=self.wiring.switches,
            gpus=self.wiring.gpus,
            nics=self.wiring.nics,
            scale_up=ScaleUp(kind=self.scale_up.kind, bytes_per_s=each, bundles=self.scale_up.bundles),
            latencies=Latencies(**{key: getattr(self.latency, key) for key in Latencies.__struct_fields__}),
            pcie_bytes_per_s=slot,
            nic_pcie_bytes_per_s=slot if net.pcie_gbps is None else net.pcie_gbps * 1e9,
            socket_bytes_per_s=self.host.socket_gbps * 1e9,
            nic_bytes_per_s=net.gbit * 1e9 / 8 if net.payload_gbps is None else net.payload_gbps * 1e9,
        )

    def _fabric(self) -> Fabric:
        return Fabric(
            kind=self.fabric.kind,
            nodes_per_leaf=self.fabric.nodes_per_leaf,
            rails=1 + max((nic.rail for nic in self.wiring.nics), default=0),
            spines=self.fabric.spines,
            spine_bytes_per_s=(self.fabric.spine_gbit or 0.0) * 1e9 / 8,
        )

    def _mounts(self) -> tuple[Mount, ...]:
        return tuple(
            Mount(
                path=s.path,
                kind=s.kind,
                read_bytes_per_s=s.read_gbps * 1e9,
                write_bytes_per_s=s.write_gbps * 1e9,
                latency_ns=s.latency_ns,
                total_read_bytes_per_s=None if s.total_read_gbps is None else s.total_read_gbps * 1e9,
                total_write_bytes_per_s=None if s.total_write_gbps is None else s.total_write_gbps * 1e9,
                over=s.over,
            )
            for s in self.storage
        )


def system_names() -> tuple[str, ...]:
    """Systems of the catalog, sorted."""
    return document.names("systems")


def load_system(wanted: str | Path) -> System:
    """A system by name, or from a user's TOML file by path. UsageMistake for an unknown name, BadInput for a bad file."""
    where, system = document.load(wanted, "systems", "system", System)
    if isinstance(system.gpu, str) and ("/" in system.gpu or system.gpu.endswith(".toml")):
        raise BadInput(f"{where}: gpu: {system.gpu} is a path; give a name of the catalog, or the GPU's tables under gpu")
    try:
        gpu = system.the_gpu
    except UsageMistake as error:
        raise BadInput(f"{where}: gpu: {error}") from None
    wrong = contradiction(system, gpu)
    if wrong:
        raise BadInput(f"{where}: {wrong}")
    return system
