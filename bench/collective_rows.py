"""What was run, behind one published row of a collective: which cluster, groups and settings, read from the row's own words?

A row that does not name its GPU, the rate of its NICs, or a cause that the model has, is not mapped, and says why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from stepscope.catalog.gpu import Gpu, load_gpu
from stepscope.model.cluster import Cluster
from stepscope.model.fabric import Fabric
from stepscope.model.link import Latencies
from stepscope.model.node import GpuSlot, NicSlot, Node, PcieSwitch, ScaleUp
from stepscope.simulator.nccl.groups import Groups
from stepscope.simulator.nccl.settings import NcclSettings
from stepscope.simulator.nccl.transport import NetworkKind, Transport

SATURATED: Final = 4 << 30
"""Bytes taken where a row gives the rate of a whole sweep: assumed, all such rows speak of 1 GiB and more."""

GPUS: Final = (
    ("GB200", "b200-sxm"), ("B200", "b200-sxm"), ("GH200", "h200-sxm"), ("H200", "h200-sxm"), ("H100", "h100-sxm"),
    ("A100", "a100-sxm-80gb"), ("V100", "v100-sxm2-32gb"), ("L40S", "l40s"), ("MI300X", "mi300x"),
)  # fmt: skip
OPS: Final = {"alltoall": "all_to_all", "sendrecv": "send_recv"}
SOCKET_GBPS: Final = {"v100-sxm2-32gb": 10, "a100-sxm-80gb": 16}
"""What crosses a socket link: the host of the catalog's system with that GPU, 22 where nothing else is known."""

UNKNOWN_CAUSES: Final = ("unresolved", "undiagnosed", "bad node", "topology file", "odd node count", "ACC_OUT_READ")
NOT_MODELLED: Final = ("SPLIT_DATA", "proxy threads", "tuner plugin", "cuMem")


@dataclass(frozen=True, slots=True)
class Setup:
    """A row as the model takes it; `klass` is nvlink, rdma, efa, tcpx, tcpxo or socket, `key` joins faulted to healthy rows."""

    op: str
    nbytes: int
    groups: Groups
    cluster: Cluster
    gpu: Gpu
    settings: NcclSettings
    transport: Transport
    klass: str
    faulted: bool
    key: tuple[object, ...]


def setup(row: dict[str, Any]) -> Setup | str:
    """The set-up of a row, or why it has none."""
    fabric, fault, algo = row["fabric"] or "", row["fault"] or "", row["algo"] or ""
    words = f"{fabric} {fault}"
    socket = bool(re.search(r"socket|IPoIB", words, re.I))
    name = next((gpu for word, gpu in GPUS if word in row["gpu"]), "a100-sxm-80gb" if socket else None)
    if name is None or "w/o NVLink" in row["gpu"]:
        return "the GPU is not one of the catalog"
    if any(word in fault for word in UNKNOWN_CAUSES) or "degradation with node count" in fault:
        return "the cause of its slowness is not known"
    if any(word in fault for word in NOT_MODELLED):
        return "the model has no such setting"
    if "ambiguous unit" in (row["notes"] or ""):
        return "its unit is ambiguous"
    domain = 72 if "NVL72" in fabric else None
    nodes = row["nranks"] // domain if domain else row["nodes"]
    nics = _nics(fabric, row["gpu"], row["nranks"] // nodes)
    if nodes > 1 and nics is None and not socket:
        return "the rate of its NICs is not named"
    if "GPUDirect RDMA off" in fault and "GH200" in row["gpu"]:
        return "the coherent link between Grace and Hopper is not modelled"
    per = domain or (1 if "GH200" in row["gpu"] else 8)
    cluster = _cluster(name, nodes, per, nics or (8, 200.0), "GH200" in row["gpu"])
    groups = Groups.of([[n * per + g for n in range(nodes) for g in range(row["nranks"] // nodes)]], cluster.world_size)
    if row["nranks"] == cluster.world_size:
        groups = Groups.regular(cluster.world_size, row["nranks"])
    kind = _kind(fabric)
    op = OPS.get(row["op"], row["op"])
    nbytes = row["bytes"] or SATURATED
    return Setup(
        op,
        nbytes,
        groups,
        cluster,
        load_gpu(name),
        _settings(fabric, fault, algo, socket),
        Transport(kind=kind, processor="amd" if name.startswith("a100") else "intel"),
        "nvlink" if nodes == 1 else "socket" if socket else Transport(kind=kind).ramp_class,
        bool(fault),
        (row["source"].split()[0], op, nbytes, row["nranks"], row["nodes"], name),
    )


def measured_us(row: dict[str, Any]) -> float | None:
    """Microseconds that the row measured, from its time or else its bandwidth; None where rounding has eaten it."""
    if row["time_us"]:
        return float(row["time_us"])
    nbytes, n = row["bytes"] or SATURATED, row["nranks"]
    factor = {"all_reduce": 2 * (n - 1) / n, "sendrecv": 1.0}.get(row["op"], (n - 1) / n)
    if row["busbw_GBps"] and row["busbw_GBps"] >= 0.5:
        return nbytes * factor / (row["busbw_GBps"] * 1e3)
    if row["algbw_GBps"] and row["algbw_GBps"] >= 0.5:
        return nbytes / (row["algbw_GBps"] * 1e3)
    return None


def _nics(fabric: str, gpu: str, per_node: int) -> tuple[int, float] | None:
    """NICs a node and Gbit/s of each."""
    each = re.search(r"(\d+)G/GPU", fabric)
    if each:
        return per_node, float(each[1])
    two = re.search(r"(\d+)x dual-port (\d+)G", fabric)
    if two:
        return int(two[1]), 2 * float(two[2])
    found = re.search(r"(\d+)x ?(\d+) ?G", fabric)
    if found:
        return int(found[1]), float(found[2])
    return (8, 400.0) if "NDv5" in gpu else None


def _kind(fabric: str) -> NetworkKind:
    words: tuple[tuple[str, NetworkKind], ...] = (("EFA", "efa"), ("TCPXO", "tcpxo"), ("TCPX", "tcpx"), ("RoCE", "roce"))
    return next((kind for word, kind in words if word in fabric), "infiniband")


def _settings(fabric: str, fault: str, algo: str, socket: bool) -> NcclSettings:
    one = re.search(r"(\d+) of \d+x", fabric) or re.search(r"only (\d+) of \d+ rails", fault)
    forced = re.search(r"(LL128|LL) forced", fault)
    sharp = "SHARP" in algo or "CollNet" in algo
    return NcclSettings(
        algorithm="collnet" if sharp else "ring" if algo.startswith("Ring") else None,
        protocol=None if forced is None else "LL" if forced[1] == "LL" else "LL128",
        nics=int(one[1]) if one else None,
        nvls="NVLS disabled" not in fault and "NVLS off" not in f"{fault} {algo}",
        gpudirect="GPUDirect RDMA off" not in fault,
        redirected="ACS" in fault,
        network="socket" if socket else "auto",
    )


@lru_cache(maxsize=64)
def _cluster(name: str, nodes: int, per: int, nics: tuple[int, float], coherent: bool) -> Cluster:
    """So many nodes with these GPUs and NICs, one leaf a rail.

    NIC i hangs beside the GPU it serves, half of either on each socket. `coherent`: a Grace host.
    """
    gpu, (many, gbit) = load_gpu(name), nics
    port = gpu.scale_up
    count = max(per, many)
    serves = [i * per // many if many < per else i % per for i in range(many)]
    group = max(1, per // many) if many < per else 1
    mine = [tuple(n for n in range(many) if serves[n] // group == g // group) for g in range(per)]
    rate = 49.0 if gbit == 400 else 24.57 if gbit == 200 else gbit / 8  # as the catalog's systems have measured them
    node = Node(
        sockets=2 if per > 1 else 1,
        switches=tuple(PcieSwitch(socket=int(g >= per / 2 and per > 1), numa=int(g >= per / 2)) for g in range(per)),
        gpus=tuple(GpuSlot(pcie=g // group * group, nics=mine[g]) for g in range(per)),
        nics=tuple(NicSlot(pcie=serves[n], rail=n, name=f"nic{n}") for n in range(many)),
        scale_up=ScaleUp(kind="switch" if port else "none", bytes_per_s=port.gbps * 1e9 if port else 0.0),
        latencies=Latencies(scale_up_ns=300, pcie_ns=250, socket_ns=100, cable_ns=850, spine_ns=400),
        pcie_bytes_per_s=450e9 if coherent else gpu.pcie.payload_gbps * 1e9,  # NVLink-C2C, NVIDIA's datasheet
        nic_pcie_bytes_per_s=gpu.pcie.payload_gbps * 1e9,
        socket_bytes_per_s=SOCKET_GBPS.get(name, 22) * 1e9,
        nic_bytes_per_s=rate * 1e9,
    )
    fabric = Fabric(kind="rail-optimised", nodes_per_leaf=32, rails=count, spines=16, spine_bytes_per_s=100e9)
    return Cluster(name=name, nodes=nodes, node=node, fabric=fabric)
