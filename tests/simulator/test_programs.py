"""What each framework issues: how many collectives of what size, in which order, on which communicator."""

from __future__ import annotations

from collections import Counter

import pytest

from stepscope.simulator.costs import program_of
from stepscope.simulator.program import Program
from stepscope.simulator.programs.units import units_of
from tests.simulator.jobs import job


def program(plan: str, model: str = "llama3-8b", stack: str = "torch-compile") -> Program:
    one = job(plan, model=model, stack=stack)
    return program_of(one, units_of(one.workload.shape, one.workload.plan), save=False)


def counts(made: Program) -> Counter[tuple[str, str | None]]:
    return Counter((op.name, op.pass_) for op in made.ops if op.kind == "collective" for _ in range(op.count))


def test_fsdp_gathers_each_unit_twice_and_reduces_it_once() -> None:
    found = counts(program("fsdp=16,seq=2048"))
    assert found["all_gather", "forward"] == 33  # 32 layers and the root
    assert found["all_gather", "backward"] == 32  # the root is kept
    assert found["reduce_scatter", "backward"] == 33


def test_bytes_are_those_of_the_parameters() -> None:
    one = job("fsdp=16,seq=2048")
    parameters = one.workload.shape.parameters()
    made = program("fsdp=16,seq=2048")
    gathered = sum(op.nbytes for op in made.ops if (op.name, op.pass_) == ("all_gather", "forward"))
    reduced = sum(op.nbytes for op in made.ops if op.name == "reduce_scatter")
    assert gathered == 2 * parameters
    assert reduced == 4 * parameters  # in fp32
    half = program("fsdp=16,seq=2048,reduce=bf16")
    assert sum(op.nbytes for op in half.ops if op.name == "reduce_scatter") == 2 * parameters


def test_kept_parameters_are_not_gathered_again() -> None:
    assert counts(program("fsdp=16,seq=2048,reshard=false"))["all_gather", "backward"] == 0


def test_re_sharding_over_fewer_gathers_over_fewer() -> None:
    made = program("fsdp=16,seq=2048,reshard=8")
    axes = {op.comm.axis for op in made.ops if op.comm is not None and (op.name, op.pass_) == ("all_gather", "backward")}
    assert axes == {"reshard"}


def test_accumulation_reduces_in_the_last_micro_batch_alone_or_in_every_one() -> None:
    last, every = (counts(program(f"fsdp=16,seq=2048,ga=3,sync={sync}")) for sync in ("last", "every"))
    assert last["all_gather", "forward"] == every["all_gather", "forward"] == 3 * 33
    assert last["reduce_scatter", "backward"] == 33
    assert every["reduce_scatter", "backward"] == 3 * 33


def test_gathers_and_reductions_share_a_communicator_unless_they_are_kept_apart() -> None:
    for separate, many in (("false", 1), ("true", 2)):
        made = program(f"fsdp=16,seq=2048,separate_rs={separate}")
        comms = {op.comm.name for op in made.ops if op.comm is not None and op.name in ("all_gather", "reduce_scatter")}
        assert len(comms) == many


def test_hsdp_reduces_each_shard_over_the_replicas() -> None:
    made = program("hsdp=2x8,seq=2048")
    shards = [op.nbytes for op in made.ops if op.comm is not None and op.comm.axis == "replicate"]
    scattered = [op.nbytes for op in made.ops if op.name == "reduce_scatter"]
    assert shards == [-(-n // 8) for n in scattered]


def test_ddp_fills_buckets_of_25_mib_the_first_of_one() -> None:
    made = program("ddp=8,seq=1024", model="gpt-125m")
    one = job("ddp=8,seq=1024", model="gpt-125m")
    sizes = [op.nbytes for op in made.ops if op.comm is not None and op.comm.axis == "ddp" for _ in range(op.count)]
    total = 4 * one.workload.shape.parameters()
    assert set(sizes[:-1]) == {25 << 20}
    assert 1 << 20 <= total - sum(sizes) + (25 << 20) <= 25 << 20 or abs(sum(sizes) - total) <= 25 << 20


def test_zero1_scatters_gradients_and_gathers_parameters_after_the_update() -> None:
    made = program("zero1=8,seq=1024", model="gpt-125m")
    names = [op.name for op in made.ops if op.kind in ("collective", "compute")]
    assert names[-1] == "all_gather"
    assert names.index("optimizer") < len(names) - 1
    assert "all_reduce" not in [op.name for op in made.ops if op.nbytes > 4]


def test_tensor_parallel_layers_gather_and_scatter_the_sequence_twice_each_way() -> None:
    made = program("fsdp=2,tp=8,seq=2048", model="gpt-1.3b")
    layers = job("fsdp=2,tp=8,seq=2048", model="gpt-1.3b").workload.shape.layers
    found = Counter((op.name, op.pass_) for op in made.ops if op.comm is not None and op.comm.axis == "tp" and op.unit)
    assert found["all_gather", "forward"] == found["reduce_scatter", "forward"] == 2 * layers
    assert found["all_gather", "backward"] >= 2 * layers


def test_fsdp1_holds_its_host_until_two_gathers_are_unused() -> None:
    made = program("fsdp=16,seq=2048", stack="hf-fsdp1")
    assert sum(op.name == "rate limit" for op in made.ops) >= 30
    assert not any(op.name == "rate limit" for op in program("fsdp=16,seq=2048").ops)


@pytest.mark.parametrize(("plan", "units"), [("unit=8", 4), ("split=4", 128), ("unit=5", 7)])
def test_units_may_be_coarser_or_finer_than_layers(plan: str, units: int) -> None:
    one = job(f"fsdp=16,seq=2048,{plan}")
    found = units_of(one.workload.shape, one.workload.plan)
    assert len(found.layers) == units
    assert sum(unit.layers for unit in found.layers) == pytest.approx(32)
    assert found.parameters == pytest.approx(one.workload.shape.parameters(), rel=1e-6)


@pytest.mark.parametrize(
    "plan", ["fsdp=16,seq=2048", "hsdp=2x8,ga=2,seq=2048", "fsdp=2,tp=8,seq=2048,ac=full", "ddp=16,seq=1024"]
)
def test_operations_name_earlier_ones_alone_but_for_what_runs_beside(plan: str) -> None:
    for k, op in enumerate(program(plan, model="gpt-1.3b").ops):
        assert all(j < k for j in (*op.after, *op.after_start, *op.contends))
        assert k not in op.beside
