"""The words of --plan, and the mesh they lay over the ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.model.errors import UsageMistake
from stepscope.model.mesh import Axis, mesh_of
from stepscope.model.plan import IMPLICIT, Plan, parse_plan

SIZES = st.sampled_from([1, 2, 3, 4, 8])


def test_the_reference() -> None:
    assert parse_plan("fsdp=16,mbs=1,seq=8192") == Plan(shard=16, mbs=1, seq=8192)


@pytest.mark.parametrize(
    ("text", "world"),
    [("fsdp=8,tp=2", 16), ("hsdp=2x8", 16), ("ddp=8", 8), ("zero1=64", 64), ("tp=8", 8), ("fsdp=4,pp=2", 8)],
)
def test_the_world_is_the_product_of_the_axes(text: str, world: int) -> None:
    assert parse_plan(text).world_size == world
    assert mesh_of(parse_plan(text)).world_size == world


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("fsdp=8,prefetch=off", "prefetch", 0),
        ("fsdp=8,prefetch=2", "prefetch", 2),
        ("fsdp=8", "prefetch", IMPLICIT),
        ("fsdp=8,reshard=false", "reshard", 0),
        ("fsdp=8,reshard=4", "reshard", 4),
        ("fsdp=8,separate_rs=yes", "separate_rs", True),
        ("fsdp=8,AC=Full", "ac", "full"),
        ("fsdp=8,unit=4", "layers_per_unit", 4),
    ],
)
def test_each_word(text: str, field: str, value: object) -> None:
    assert getattr(parse_plan(text), field) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "says nothing of the ranks; begin with fsdp=N"),
        ("mbs=2", "says nothing of the ranks"),
        ("fsdp", "'fsdp' is not KEY=VALUE"),
        ("fsdp=0", "fsdp=0: give a whole number from 1"),
        ("fsdp=-8", "fsdp=-8: give a whole number"),
        ("fsdp=8,fsdp=8", "fsdp is given twice"),
        ("fsdp=8,ddp=2", "both fsdp and ddp are given"),
        ("fsdp=8,mbz=2", "no such key 'mbz'; did you mean mbs?"),
        ("hsdp=16", "give REPLICATExSHARD, for example hsdp=2x8"),
        ("fsdp=8,ac=some", "ac=some: give one of none, selective, full"),
        ("fsdp=8,reshard=3", "reshard=3 does not divide fsdp=8"),
        ("hsdp=2x8,reshard=2", "reshard=2: hsdp keeps all of a unit or nothing"),
        ("ddp=8,reshard=2", "reshard=2: ddp keeps all of a unit or nothing"),
        ("fsdp=9999999", "ranks; at most"),
    ],
)
def test_what_cannot_be_is_one_line(text: str, words: str) -> None:
    with pytest.raises(UsageMistake) as caught:
        parse_plan(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@given(SIZES, SIZES, SIZES, SIZES, SIZES, st.sampled_from(["fsdp", "hsdp", "ddp", "zero1"]))
def test_text_and_back(replicate: int, shard: int, tp: int, ga: int, unit: int, strategy: str) -> None:
    replicated = strategy in ("ddp", "zero1")
    plan = Plan(
        strategy=strategy,  # type: ignore[arg-type]  # one of the four
        replicate=replicate if strategy != "fsdp" else 1,
        shard=1 if replicated else shard,
        tp=tp,
        ga=ga,
        layers_per_unit=unit,
    )
    assert parse_plan(plan.text()) == plan


@given(SIZES, SIZES, SIZES, SIZES)
def test_groups_of_every_axis_partition_the_ranks(pp: int, replicate: int, shard: int, tp: int) -> None:
    mesh = mesh_of(Plan(strategy="hsdp", replicate=replicate, shard=shard, tp=tp, pp=pp))
    for axis in mesh.axes:
        groups = mesh.groups(axis.name)
        assert groups.shape == (mesh.world_size // axis.size, axis.size)
        assert sorted(groups.ravel().tolist()) == list(range(mesh.world_size))
        for group in groups:
            others = [{k: v for k, v in mesh.coordinates(int(rank)).items() if k != axis.name} for rank in group]
            assert all(other == others[0] for other in others)


@given(SIZES, SIZES, SIZES)
def test_rank_and_coordinates_are_inverse(replicate: int, shard: int, tp: int) -> None:
    mesh = mesh_of(Plan(strategy="hsdp", replicate=replicate, shard=shard, tp=tp))
    for rank in range(mesh.world_size):
        assert mesh.rank(mesh.coordinates(rank)) == rank


def test_tensor_parallel_ranks_are_neighbours_and_shards_keep_to_a_rail() -> None:
    mesh = mesh_of(parse_plan("fsdp=2,tp=8"))
    assert mesh.axes == (Axis("fsdp", 2, 8), Axis("tp", 8, 1))
    assert np.array_equal(mesh.groups("tp")[0], np.arange(8))
    assert mesh.groups("fsdp")[3].tolist() == [3, 11]
