"""A cluster built by hand, small enough to draw: two sockets, four GPUs and four NICs a node, rates that tell links apart.

cpu0 - pcie0 - gpu0 gpu1 nic0 nic1        cpu1 - pcie1 - gpu2 gpu3 nic2 nic3
"""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from stepscope.model.cluster import Cluster, GpuAt
from stepscope.model.errors import UsageMistake
from stepscope.model.fabric import Fabric
from stepscope.model.link import Latencies, Link, bottleneck, latency_ns
from stepscope.model.node import GpuSlot, NicSlot, Node, PcieSwitch, ScaleUp
from stepscope.model.place import Place
from stepscope.model.storage import Mount

NODE = Node(
    sockets=2,
    switches=(PcieSwitch(socket=0, numa=0), PcieSwitch(socket=1, numa=1)),
    gpus=tuple(GpuSlot(pcie=i // 2, nics=(i,)) for i in range(4)),
    nics=tuple(NicSlot(pcie=i // 2, rail=i, name=f"mlx5_{i}") for i in range(4)),
    scale_up=ScaleUp(kind="switch", bytes_per_s=400e9),
    latencies=Latencies(scale_up_ns=1, pcie_ns=10, socket_ns=100, cable_ns=1_000, spine_ns=10_000),
    pcie_bytes_per_s=60e9,
    nic_pcie_bytes_per_s=55e9,
    socket_bytes_per_s=20e9,
    nic_bytes_per_s=50e9,
)
RAILS = Fabric(kind="rail-optimised", nodes_per_leaf=2, rails=4, spines=2, spine_bytes_per_s=100e9)
TREE = Fabric(kind="fat-tree", nodes_per_leaf=2, rails=4, spines=2, spine_bytes_per_s=400e9)
LOCAL = Mount(path="/scratch", kind="nvme", read_bytes_per_s=5e9, write_bytes_per_s=2e9, latency_ns=90)
MOUNT = Mount(
    path="/data",
    kind="nfs",
    read_bytes_per_s=3e9,
    write_bytes_per_s=1e9,
    latency_ns=500,
    total_read_bytes_per_s=8e9,
    total_write_bytes_per_s=4e9,
)
CLUSTER = Cluster(name="toy", nodes=4, node=NODE, fabric=RAILS, mounts=(MOUNT, LOCAL))


def way(path: list[Link]) -> str:
    return " ".join([path[0].src, *(link.dst for link in path)])


def test_inside_a_node_nvlink_alone() -> None:
    path = CLUSTER.path((1, 0), (1, 3))

    assert way(path) == "node1/gpu0 node1/nvswitch node1/gpu3"
    assert (bottleneck(path), latency_ns(path)) == (400e9, 2)
    assert CLUSTER.path((1, 0), (1, 0)) == []


def test_same_rail_one_leaf() -> None:
    path = CLUSTER.path((0, 3), (1, 3))

    assert way(path) == "node0/gpu3 node0/pcie1 node0/nic3 leaf3 node1/nic3 node1/pcie1 node1/gpu3"
    assert [link.capacity_bytes_per_s / 1e9 for link in path] == [60, 55, 50, 50, 55, 60]
    assert latency_ns(path) == 4 * 10 + 2 * 1_000
    assert [link.layer for link in path] == ["L8", "L8", "L7", "L7", "L8", "L8"]


def test_across_rails_over_a_spine() -> None:
    path = CLUSTER.path((0, 3), (1, 0))

    assert way(path) == "node0/gpu3 node0/pcie1 node0/nic3 leaf3 spine1 leaf0 node1/nic0 node1/pcie0 node1/gpu0"
    assert latency_ns(path) == 4 * 10 + 2 * 1_000 + 2 * 10_000


def test_same_rail_of_another_pod_over_a_spine() -> None:
    assert way(CLUSTER.path((0, 3), (2, 3))) == (
        "node0/gpu3 node0/pcie1 node0/nic3 leaf3 spine0 leaf7 node2/nic3 node2/pcie1 node2/gpu3"
    )


def test_a_fat_tree_needs_no_spine_below_one_leaf() -> None:
    tree = msgspec.structs.replace(CLUSTER, fabric=TREE)

    assert "leaf0 node1/nic0" in way(tree.path((0, 3), (1, 0)))
    assert "leaf0 spine1 leaf1" in way(tree.path((0, 3), (2, 3)))
    assert (RAILS.leaves(4), RAILS.leaves(5), TREE.leaves(4)) == (8, 12, 2)


def test_the_wrong_nic_crosses_the_socket_link() -> None:
    path = CLUSTER.path((0, 0), (1, 0), nic=2)

    assert way(path).startswith("node0/gpu0 node0/pcie0 node0/cpu0 node0/cpu1 node0/pcie1 node0/nic2 leaf2 ")
    assert bottleneck(path) == 20e9
    assert way(CLUSTER.path((0, 0), (1, 0), peer_nic=3)).endswith(
        " node1/nic3 node1/pcie1 node1/cpu1 node1/cpu0 node1/pcie0 node1/gpu0"
    )


@pytest.mark.parametrize("gpu", range(4))
def test_a_nic_in_the_wrong_slot_crosses_it_with_every_byte(gpu: int) -> None:
    sick = CLUSTER.with_node(1, CLUSTER.wiring(1).with_nic_across(gpu))

    for there in (sick.path((0, gpu), (1, gpu)), sick.path((1, gpu), (0, gpu))):
        assert Counter(link.kind for link in there)["socket"] == 1
        assert bottleneck(there) == 20e9
    others = [(node, g) for node in range(4) for g in range(4) if (node, g) != (1, gpu)]
    assert all(sick.path(a, b) == CLUSTER.path(a, b) for a in others for b in others)


def test_one_socket_has_no_other_to_cross_to() -> None:
    single = msgspec.structs.replace(NODE, sockets=1, switches=(PcieSwitch(socket=0, numa=0), PcieSwitch(socket=0, numa=0)))

    assert single.with_nic_across(0) == single


def test_without_gpudirect_bytes_pass_the_host() -> None:
    assert way(CLUSTER.path((0, 0), (1, 0), through_host=True)) == (
        "node0/gpu0 node0/pcie0 node0/cpu0 node0/pcie0 node0/nic0 leaf0 node1/nic0 node1/pcie0 node1/cpu0 node1/pcie0 node1/gpu0"
    )
    assert way(CLUSTER.path((0, 0), (0, 2), through_host=True)) == (
        "node0/gpu0 node0/pcie0 node0/cpu0 node0/cpu1 node0/pcie1 node0/gpu2"
    )
    assert way(NODE.to_host("node0", 2)) == "node0/gpu2 node0/pcie1 node0/cpu1"


def test_all_links_once_each_way() -> None:
    links = list(CLUSTER.links())
    per_node = 4 + 4 + 4 + 2 + 1 + 4  # GPU to NVSwitch, to PCIe, NIC to PCIe, uplinks, socket, cables

    assert len(links) == len({link.name for link in links}) == 2 * (4 * per_node + 8 * 2)
    assert sum(link.capacity_bytes_per_s for link in links if link.kind == "cable") == 2 * 4 * 4 * 50e9


def test_a_permutation_of_nodes_spreads_over_the_spines() -> None:
    big = msgspec.structs.replace(CLUSTER, nodes=8, fabric=msgspec.structs.replace(RAILS, nodes_per_leaf=4))
    tops = Counter(link.dst for node in range(4) for link in big.path((node, 0), (node + 4, 0)) if link.dst.startswith("spine"))

    assert tops == {"spine0": 2, "spine1": 2}


def test_ports_and_what_hangs_on_an_end() -> None:
    tree = msgspec.structs.replace(CLUSTER, fabric=TREE)

    assert [CLUSTER.port(node, 3) for node in range(3)] == ["leaf3/port0", "leaf3/port1", "leaf7/port0"]
    assert [tree.port(1, nic) for nic in range(4)] == [f"leaf0/port{4 + nic}" for nic in range(4)]
    assert [link.name for link in CLUSTER.links_at("leaf3/port1")] == ["node1/nic3>leaf3", "leaf3>node1/nic3"]
    assert {link.dst for link in CLUSTER.links_at("node1/gpu3") if link.src == "node1/gpu3"} == {"node1/nvswitch", "node1/pcie1"}
    assert len(CLUSTER.links_at("leaf3")) == 2 * (2 + 2)
    assert CLUSTER.links_at("leaf99") == []


def test_a_weak_link_is_met_wherever_it_is_crossed() -> None:
    cable = next(link for link in CLUSTER.links() if link.name == "node0/nic1>leaf1")
    sick = CLUSTER.with_links(msgspec.structs.replace(cable, capacity_bytes_per_s=12.5e9))

    assert bottleneck(sick.path((0, 1), (1, 1))) == 12.5e9
    assert bottleneck(sick.path((1, 1), (0, 1))) == 50e9
    assert [link for link in sick.links() if link.capacity_bytes_per_s == 12.5e9] == [sick.odd_links["node0/nic1>leaf1"]]
    assert CLUSTER.odd_links == {}


def test_storage() -> None:
    read, write = CLUSTER.storage_path(2, MOUNT), CLUSTER.storage_path(2, MOUNT, write=True)

    assert way(read) == "storage:/data node2/storage:/data node2"
    assert way(write) == "node2 node2/storage:/data storage:/data"
    assert [link.capacity_bytes_per_s for link in read] == [8e9, 3e9]
    assert [link.capacity_bytes_per_s for link in write] == [1e9, 4e9]
    assert [(link.capacity_bytes_per_s, link.latency_ns, link.layer) for link in CLUSTER.storage_path(0, LOCAL)] == [
        (5e9, 90, "S")
    ]
    assert (MOUNT.shared, LOCAL.shared) == (True, False)


def test_ranks_and_places() -> None:
    assert CLUSTER.world_size == 16
    assert CLUSTER.at(7) == GpuAt(1, 3)
    assert CLUSTER.place(7) == Place("node1", 3, "nic3")


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: CLUSTER.at(16), "rank 16: toy with 4 nodes has ranks 0 to 15"),
        (lambda: CLUSTER.path((0, 0), (4, 0)), "node4/gpu0: there is no such GPU; toy has node0 to node3 with gpu0 to gpu3"),
        (lambda: CLUSTER.path((0, -1), (1, 0)), "node0/gpu-1: there is no such GPU; toy has node0 to node3 with gpu0 to gpu3"),
        (lambda: CLUSTER.path((0, 0), (1, 0), nic=4), "node0/nic4: there is no such NIC; toy has 4 NICs a node"),
    ],
)
def test_what_is_not_there(call: object, line: str) -> None:
    assert callable(call)
    with pytest.raises(UsageMistake) as caught:
        call()
    assert str(caught.value) == line
