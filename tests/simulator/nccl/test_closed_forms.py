"""Times added up by hand: idle rings, one weak link, one NIC across the socket, fewer rails, TCP, no GPUDirect."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from stepscope.catalog.nccl import nccl_tables
from stepscope.model.errors import UsageMistake
from stepscope.simulator.nccl.groups import Groups
from tests.simulator.nccl.build import GIB, WORLD, busbw, fill_ns, model, system, weaker


def test_an_idle_ring_of_sixteen_by_hand() -> None:
    timing = model(algorithm="ring", protocol="Simple").time("all_gather", GIB, WORLD)

    latency = (8.4 + 14 * 3.4 + 1 * 14) * 1e3
    transfer = GIB * (15 / 16) / 360
    assert timing.latency_ns[0] == pytest.approx(latency)
    assert timing.ns[0] == pytest.approx(latency + math.sqrt(fill_ns() * transfer) + transfer)
    assert (timing.algorithm, timing.protocol, timing.bottleneck) == ("ring", "Simple", (None,))


def test_the_healthy_pair_and_one_nic_across_the_socket() -> None:
    cluster = system().cluster(2)
    for node, gpu in ((1, 3), (0, 5)):
        sick = model(cluster.with_node(node, cluster.wiring(node).with_nic_across(gpu)))
        for op in ("all_gather", "reduce_scatter"):
            healthy = busbw(model(cluster), op)
            assert 350 < healthy <= 360
            assert busbw(sick, op) == pytest.approx(8 * 22, rel=0.03)
            assert "cpu" in str(sick.time(op, 64 * GIB, WORLD).bottleneck[0])


@pytest.mark.parametrize("times", [0.5, 0.25, 0.1])
def test_a_weak_cable_holds_all_eight_rings(times: float) -> None:
    sick = model(weaker(system().cluster(2), "node1/nic3>leaf3", times))

    timing = sick.time("all_gather", 64 * GIB, WORLD)
    assert busbw(sick) == pytest.approx(8 * 49 * times, rel=0.01)
    assert timing.bottleneck == ("node1/nic3>leaf3",)


def test_a_weak_nvlink_holds_the_ring_of_its_node() -> None:
    sick = model(weaker(system().cluster(2), "node0/gpu2>node0/nvswitch", 0.5))

    assert busbw(sick) == pytest.approx(450 * 0.824 / 2, rel=0.01)
    inside = sick.time("all_gather", 64 * GIB, Groups.regular(16, 8))
    assert inside.busbw_bytes_per_s[0] == pytest.approx(450e9 * 0.824 / 2, rel=0.01)
    assert inside.busbw_bytes_per_s[1] == pytest.approx(360e9, rel=0.02)
    assert inside.bottleneck[inside.kind[1]] is None


@pytest.mark.parametrize(("nics", "rate"), [(1, 48), (2, 96), (4, 192), (7, 336), (8, 360)])
def test_fewer_rails(nics: int, rate: float) -> None:
    assert busbw(model(nics=nics)) == pytest.approx(rate, rel=0.015)


def test_few_nics_on_one_node_hold_all() -> None:
    assert busbw(model(nics=2, nics_on=(1,))) == pytest.approx(2 * 49, rel=0.01)


def test_a_weak_link_holds_tree_and_nvlstree_too() -> None:
    """A pair of nodes sends each byte over one NIC once each way: one NIC at 12.25 GB/s of eight gives 98 GB/s."""
    sick = weaker(system().cluster(2), "node1/nic3>leaf3", 0.25)

    for algorithm in ("nvlstree", "tree"):
        timing = model(sick, algorithm=algorithm).time("all_reduce", 64 * GIB, WORLD)
        assert timing.algorithm == algorithm
        assert 64 * GIB / timing.ns[0] == pytest.approx(8 * 12.25, rel=0.01)
        assert timing.bottleneck == ("node1/nic3>leaf3",)


def test_one_rank_a_node_uses_its_own_rail_alone() -> None:
    timing = model(algorithm="ring").time("all_reduce", 64 * GIB, Groups.regular(16, 2, 8))

    assert timing.busbw_bytes_per_s.tolist() == pytest.approx([48e9] * 8, rel=0.01)
    assert timing.nic_bytes == 64 * GIB
    assert timing.scale_up_bytes == 0


def test_a_sick_rail_slows_only_the_groups_on_it() -> None:
    cluster = system().cluster(4)
    sick = model(weaker(cluster, "node2/nic5>leaf5", 0.2))

    rate = sick.time("all_gather", 64 * GIB, Groups.regular(32, 4, 8)).busbw_bytes_per_s / 1e9
    assert np.argmin(rate) == 5
    assert rate[5] == pytest.approx(0.2 * 49, rel=0.01)
    assert np.delete(rate, 5).tolist() == pytest.approx([rate[0]] * 7)


def test_tcp_and_no_gpudirect_and_redirected_at_the_rates_measured() -> None:
    usable, ramp = nccl_tables().usable, nccl_tables().ramp["socket"]

    assert busbw(model(network="socket"), "all_reduce") == pytest.approx(ramp.node_gbps, rel=0.01)
    assert busbw(model(gpudirect=False)) == pytest.approx(8 * usable.no_gpudirect_gbps, rel=0.01)
    assert busbw(model(gpudirect=False, gpudirect_on=(1,))) == pytest.approx(8 * usable.no_gpudirect_gbps, rel=0.01)
    assert busbw(model(gpudirect_nics=((0, 2),), gpudirect_fraction=0.5)) == pytest.approx(8 * 24.5, rel=0.01)
    assert busbw(model(redirected=True)) == pytest.approx(8 * usable.redirected_gbps, rel=0.01)


def test_without_peer_to_peer_the_node_goes_through_its_host() -> None:
    inside = Groups.regular(8, 8)
    cluster = system().cluster(1)

    assert busbw(model(cluster, p2p=False), groups=inside) < 0.11 * busbw(model(cluster), groups=inside)
    assert busbw(model(cluster, p2p=False, p2p_fraction=0.05), groups=inside) == pytest.approx(0.05 * 450 * 0.824, rel=0.02)


def test_forced_settings_are_taken() -> None:
    forced = model(algorithm="tree", protocol="LL").time("all_reduce", GIB, WORLD)
    assert (forced.algorithm, forced.protocol) == ("tree", "LL")
    assert model(algorithm="tree").time("all_gather", GIB, WORLD).algorithm == "ring"
    assert model(nvls=False).time("all_reduce", GIB, WORLD).algorithm != "nvlstree"
    assert model(algorithm="collnet").time("all_reduce", GIB, WORLD).algorithm == "collnet"
    few = model(channels=4).time("all_gather", 64 * GIB, WORLD)
    assert few.channels == 4
    assert few.busbw_bytes_per_s[0] == pytest.approx(90e9, rel=0.01)


def test_what_nccl_was_seen_to_take() -> None:
    """8 H200: rings with LL to 1 MiB, NVLS from 2 MiB (NCCL 2.27.7, stas00/ml-engineering); NVLSTree on two nodes of H100."""
    inside, cluster = Groups.regular(8, 8), system("hgx-h200").cluster(1)
    h200 = model(cluster, "hgx-h200")

    assert [h200.time("all_reduce", n, inside).protocol for n in (1 << 17, 1 << 19, 1 << 20)] == ["LL"] * 3
    assert [h200.time("all_reduce", n, inside).algorithm for n in (1 << 22, 1 << 30)] == ["nvls"] * 2
    assert h200.time("all_gather", 1 << 30, inside).algorithm == "ring"
    assert model().time("all_reduce", GIB, WORLD).algorithm == "nvlstree"


def test_nothing_to_do() -> None:
    assert model().time("all_gather", 0, WORLD).ns.tolist() == [0.0]
    assert model().time("all_gather", GIB, Groups.regular(16, 1)).ns.tolist() == [0.0] * 16


@pytest.mark.parametrize(
    ("op", "nbytes", "groups", "says"),
    [
        ("all_gatherv", 8, WORLD, "all_gatherv: no such collective; known: all_gather"),
        ("all_gather", -1, WORLD, "all_gather of -1 bytes: give 0 bytes or more"),
        ("all_gather", 8, Groups.regular(32, 32), "groups over 32 ranks: hgx-h100 with 2 nodes has 16 GPUs; take more nodes"),
    ],
)
def test_mistakes_in_one_line(op: str, nbytes: int, groups: Groups, says: str) -> None:
    with pytest.raises(UsageMistake, match=says):
        model().time(op, nbytes, groups)


def test_systems_of_the_catalog_all_answer() -> None:
    for name in ("dgx-1v", "dgx-2", "dgx-a100", "p4d", "p5", "a3-mega", "nd-mi300x-v5", "l40s-pcie", "hgx-b200"):
        cluster = system(name).cluster(2)
        found = model(cluster, name)
        for op in ("all_gather", "all_reduce", "broadcast", "all_to_all", "send_recv"):
            timing = found.time(op, GIB, Groups.regular(cluster.world_size, cluster.world_size))
            assert 1e9 < timing.busbw_bytes_per_s[0] < 1e12, (name, op)


def test_a_mesh_keeps_to_its_wires() -> None:
    """DGX-1V: six NVLinks a GPU, 25 GB/s each; rings over all of them carry no more than they are."""
    cluster = system("dgx-1v").cluster(1)
    found = model(cluster, "dgx-1v")
    load = found.link_bytes("all_gather", 8 * GIB, Groups.regular(8, 8))

    assert all("pcie" not in name for name in load)
    assert busbw(found, groups=Groups.regular(8, 8)) <= 150 * 0.824 + 1
    assert msgspec.json.encode(load)


def test_groups_of_one_axis_share_what_they_meet_on() -> None:
    """p4d: two GPUs on a 100G card, so eight rings of a rank a node get half a card each; TCP is one port for all eight."""
    replicate = Groups.regular(16, 2, 8)
    cluster = system("p4d").cluster(2)

    assert busbw(model(cluster, "p4d"), "send_recv", groups=replicate) == pytest.approx(12.5 / 2, rel=0.01)
    alone = Groups.of([[0, 8]], 16)
    assert busbw(model(cluster, "p4d"), "send_recv", groups=alone) == pytest.approx(12, rel=0.05)
    node = nccl_tables().ramp["socket"].node_gbps or 0
    assert busbw(model(network="socket"), "send_recv", groups=replicate) == pytest.approx(node / 8, rel=0.01)
    assert busbw(model(network="socket"), "send_recv", groups=alone) == pytest.approx(node, rel=0.01)
