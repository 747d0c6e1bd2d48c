"""What holds whatever the world: bytes in are bytes out, a weaker link is never faster, more bytes never take less."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.model.link import Link
from stepscope.simulator.nccl.groups import Groups, member
from stepscope.simulator.nccl.model import OPS
from tests.simulator.nccl.build import GIB, WORLD, model, system, weaker

SYSTEMS = ("hgx-h100", "dgx-a100", "p4d", "p5", "dgx-1v", "nd-mi300x-v5", "l40s-pcie")
MESHES = ((16, 1), (8, 1), (4, 1), (2, 1), (4, 2), (2, 4), (4, 4), (2, 8), (8, 2))
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(
    name=st.sampled_from(SYSTEMS),
    mesh=st.sampled_from(MESHES),
    op=st.sampled_from([op for op in OPS if op != "broadcast"]),
    algorithm=st.sampled_from([None, "ring", "tree", "nvls"]),
    pxn=st.booleans(),
    odd=st.booleans(),
)
def test_bytes_in_are_bytes_out(name: str, mesh: tuple[int, int], op: str, algorithm: str | None, pxn: bool, odd: bool) -> None:
    cluster = system(name).cluster(2)
    if odd:
        cluster = cluster.with_node(1, cluster.wiring(1).with_nic_across(3))
    found = model(cluster, name, algorithm=algorithm, pxn=pxn)
    balance: defaultdict[str, float] = defaultdict(float)
    for link, nbytes in found.link_bytes(op, GIB, Groups.regular(16, *mesh)).items():
        out, into = link.split(">")
        balance[out] -= nbytes
        balance[into] += nbytes

    assert balance
    assert all(abs(net) < 1 for net in balance.values()), balance


def test_ring_edges_carry_what_rings_carry() -> None:
    load = model(algorithm="ring").link_bytes("all_gather", 16 * GIB, WORLD)

    cables = {name: n for name, n in load.items() if "leaf" in name}
    assert len(cables) == 2 * 2 * 8
    assert set(cables.values()) == {15 * GIB / 8}
    assert max(n for name, n in load.items() if "nvswitch" in name) == pytest.approx(15 * GIB)


@QUICK
@given(
    op=st.sampled_from(OPS),
    mesh=st.sampled_from(MESHES),
    exponent=st.floats(3, 36),
    times=st.floats(0.01, 0.99),
    pick=st.integers(0, 10**6),
)
def test_a_weaker_link_is_never_faster(op: str, mesh: tuple[int, int], exponent: float, times: float, pick: int) -> None:
    cluster = system().cluster(2)
    links: list[Link] = [link for link in cluster.links() if link.kind != "storage"]
    sick = weaker(cluster, links[pick % len(links)].name, times)
    groups, nbytes = Groups.regular(16, *mesh), int(2**exponent)

    before, after = (model(c).time(op, nbytes, groups) for c in (cluster, sick))
    assert np.all(after.ns >= before.ns - 1e-6)
    assert after.algorithm == before.algorithm


@QUICK
@given(
    name=st.sampled_from(SYSTEMS),
    op=st.sampled_from(OPS),
    mesh=st.sampled_from(MESHES),
    sizes=st.tuples(st.integers(1, 1 << 36), st.integers(1, 1 << 36)),
    odd=st.booleans(),
)
def test_more_bytes_never_take_less(name: str, op: str, mesh: tuple[int, int], sizes: tuple[int, int], odd: bool) -> None:
    cluster = system(name).cluster(2)
    if odd:
        cluster = weaker(cluster, next(iter(cluster.links())).name, 0.1)
    found, groups = model(cluster, name), Groups.regular(16, *mesh)
    less, more = sorted(sizes)

    assert np.all(found.time(op, less, groups).ns <= found.time(op, more, groups).ns + 1e-6)


@QUICK
@given(mesh=st.sampled_from(MESHES), op=st.sampled_from(OPS), nbytes=st.integers(1, 1 << 34))
def test_the_same_question_the_same_answer(mesh: tuple[int, int], op: str, nbytes: int) -> None:
    groups = Groups.regular(16, *mesh)
    listed = Groups.of(groups.table(), 16)

    first, again, spelt = (model().time(op, nbytes, g) for g in (groups, groups, listed))
    assert first.ns.tolist() == again.ns.tolist()
    assert first.ns.tolist() == pytest.approx(spelt.ns.tolist())


@QUICK
@given(mesh=st.sampled_from(MESHES), blocks=st.integers(1, 4))
def test_groups_agree_with_their_table(mesh: tuple[int, int], blocks: int) -> None:
    groups = Groups.regular(16 * blocks, *mesh)
    table = groups.table()

    assert sorted(table.ravel().tolist()) == list(range(16 * blocks))
    for g in range(groups.count):
        assert groups.ranks(g).tolist() == table[g].tolist()
        assert set(groups.group_of_ranks()[table[g]].tolist()) == {g}
        where = member(groups, g, 8)
        ranks = [int(n) * 8 + gpu for i, n in enumerate(where.nodes) for gpu in where.local(i)]
        assert sorted(ranks) == sorted(table[g].tolist())


@pytest.mark.parametrize("nodes", [2, 3, 40, 70])
@pytest.mark.parametrize("where", ["node1/nic3>leaf3", "leaf3>node1/nic3", "node0/gpu2>node0/nvswitch"])
def test_looking_at_few_nodes_finds_what_looking_at_all_would(nodes: int, where: str) -> None:
    sick = weaker(system().cluster(nodes), where, 0.3)
    groups = Groups.regular(8 * nodes, 8 * nodes)
    few, all_ = (model(sick).time("all_gather", GIB, g) for g in (groups, Groups.of(groups.table())))

    assert few.ns[0] == pytest.approx(all_.ns[0])
    assert few.bottleneck == all_.bottleneck == (where,)


def test_shares() -> None:
    found = model(system().cluster(4))
    shard, replicate, whole = Groups.regular(32, 8), Groups.regular(32, 4, 8), Groups.regular(32, 32)

    assert found.shares(shard, replicate) == 0
    assert found.shares(whole, whole) == 1
    assert 0 < found.shares(shard, whole) <= 1
    assert 0 < found.shares(replicate, whole) <= 1
    assert found.shares(replicate, replicate, "all_reduce", "all_gather") == 1
