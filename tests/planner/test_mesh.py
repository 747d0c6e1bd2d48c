"""Who talks to whom: groups, links, bytes and warnings of plans that one can check by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.catalog.model import load_model
from stepscope.catalog.system import load_system
from stepscope.model.cluster import Cluster
from stepscope.model.errors import UsageMistake
from stepscope.model.exchange import AxisExchange, MeshView
from stepscope.model.mesh import ORDERS, mesh_of
from stepscope.model.plan import Plan, parse_plan
from stepscope.planner.links import links
from stepscope.planner.mesh import groups_of, mesh_view

SIZES = st.sampled_from([1, 2, 3, 4])


def cluster(ranks: int, name: str = "hgx-h100") -> Cluster:
    system = load_system(name)
    return system.cluster(system.nodes_for(ranks))


def view(plan: str, system: str = "hgx-h100", model: str = "llama3-8b") -> MeshView:
    parsed = parse_plan(plan)
    return mesh_view(parsed, shape=load_model(model).shape, cluster=cluster(parsed.world_size, system))


def axis(found: MeshView, name: str) -> AxisExchange:
    return next(a for a in found.axes if a.axis == name)


def test_tensor_parallel_in_the_node_and_shards_on_one_rail() -> None:
    found = view("fsdp=2,tp=8")
    assert (0, 8) in axis(found, "fsdp").groups
    assert tuple(range(8)) in axis(found, "tp").groups
    assert axis(found, "fsdp").links == ("same rail",)
    assert axis(found, "tp").links == ("NVLink",)
    assert found.warnings == ()
    assert found.seats[11].node == "node1"
    assert (found.seats[11].gpu, found.seats[11].nic, found.seats[11].rail) == (3, "mlx5_3", 3)


def test_bytes_of_a_step() -> None:
    shape = load_model("llama3-8b").shape
    assert shape is not None
    parameters = shape.parameters()
    assert axis(view("fsdp=16"), "fsdp").bytes_per_step == parameters * (2 + 2 + 4)  # two gathers in bf16, one reduction in fp32
    assert axis(view("fsdp=16,reshard=false"), "fsdp").bytes_per_step == parameters * (2 + 4)
    assert axis(view("fsdp=16,ga=4"), "fsdp").bytes_per_step == parameters * (4 * 4 + 4)
    assert axis(view("fsdp=16,ga=4,sync=every"), "fsdp").bytes_per_step == parameters * 4 * (4 + 4)
    assert axis(view("ddp=16"), "ddp").bytes_per_step == parameters * 4
    assert axis(view("hsdp=2x8"), "replicate").bytes_per_step == -(-parameters // 8) * 4
    assert axis(view("tp=8,seq=2048,mbs=2"), "tp").bytes_per_step == 8 * 32 * 2 * 2048 * 4096 * 2


def test_replicas_hold_identical_parameters() -> None:
    assert view("hsdp=2x8").replicas == tuple((i, i + 8) for i in range(8))
    assert view("fsdp=16").replicas == ()
    assert view("ddp=8").replicas == (tuple(range(8)),)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("tp=16", "tp=16: its groups span 2 nodes of 8 GPUs"),
        ("hsdp=2x16,tp=1", None),
        ("fsdp=2,tp=8", None),
    ],
)
def test_an_axis_laid_over_the_slow_tier_is_warned_of(plan: str, said: str | None) -> None:
    found = view(plan).warnings
    assert (found == ()) if said is None else any(said in warning for warning in found)


def test_without_nvlink_it_is_pcie_and_the_sockets() -> None:
    found = links(cluster(8, "l40s-pcie"), range(8))
    assert found[0] == "PCIe"
    assert "across sockets" in found


def test_orders_differ_where_pipelines_lie() -> None:
    plan = Plan(strategy="ddp", replicate=2, pp=2, tp=2)
    strides = {order: {a.name: a.stride for a in mesh_of(plan, order).axes} for order in ORDERS}
    assert strides["torchtitan"] == strides["megatron"] == {"pp": 4, "ddp": 2, "tp": 1}
    assert strides["megatron-tp-pp-dp"] == {"ddp": 4, "pp": 2, "tp": 1}


def test_experts_lie_over_the_same_ranks() -> None:
    found = mesh_view(Plan(shard=8, tp=2, ep=4))
    assert axis(found, "ep").groups[0] == (0, 1, 2, 3)
    assert axis(found, "efsdp").size == 4
    with pytest.raises(UsageMistake, match="ep=3 does not divide fsdp x cp x tp = 8"):
        mesh_view(Plan(shard=8, ep=3))


@given(SIZES, SIZES, SIZES, SIZES, SIZES, st.sampled_from(ORDERS))
def test_groups_of_every_axis_partition_the_ranks(pp: int, replicate: int, shard: int, cp: int, tp: int, order: str) -> None:
    plan = Plan(strategy="hsdp", replicate=replicate, shard=shard, pp=pp, cp=cp, tp=tp)
    mesh = mesh_of(plan, order)  # type: ignore[arg-type]  # one of ORDERS
    for one in mesh.axes:
        groups = groups_of(one, mesh.world_size)
        assert sorted(rank for group in groups for rank in group) == list(range(mesh.world_size))
        assert all(len(group) == one.size for group in groups)
        assert [list(g) for g in groups] == mesh.groups(one.name).tolist()


def test_a_mesh_too_large_to_list_is_refused() -> None:
    with pytest.raises(UsageMistake, match="a mesh of at most"):
        mesh_view(Plan(shard=1 << 18))
