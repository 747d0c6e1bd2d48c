"""Steps whose time can be written down: one GPU, communication all hidden, all exposed, DDP's last bucket, one weak rail."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from stepscope.model.plan import parse_plan
from stepscope.simulator.costs import collective_ns
from stepscope.simulator.job import Job
from stepscope.simulator.joining import Joining
from stepscope.simulator.nccl.groups import Groups
from stepscope.simulator.nccl.model import Collectives
from stepscope.simulator.predict import predict
from stepscope.simulator.simulation import Step, step_ns
from tests.simulator.jobs import job, steps

NS = 1.0  # rounding


def quiet(one: Job) -> Job:
    """The same job with a host that costs nothing and compute that nothing slows: what is left is arithmetic."""
    stack = msgspec.structs.replace(
        one.stack,
        host=msgspec.structs.replace(one.stack.host, launch_us=0.0, step_us=0.0),
        overlap=msgspec.structs.replace(one.stack.overlap, slowdown=0.0),
    )
    gpu = msgspec.structs.replace(one.gpu, launch=None)
    loader = msgspec.structs.replace(one.workload.loader, cpu_us=0)
    workload = msgspec.structs.replace(one.workload, loader=loader)
    return replace(one, stack=stack, gpu=gpu, workload=workload)


def last(one: Job) -> Step:
    return steps(one, 1)[-1]


def duration(step: Step, k: int) -> float:
    return float(np.max(step.prepared.work.codes[k].duration))


def total(step: Step, *names: str) -> float:
    ops = step.prepared.work.program.ops
    return sum(duration(step, k) for k, op in enumerate(ops) if op.name in names and op.kind in ("compute", "copy"))


COMPUTE = (
    "batch to device", "embedding.forward", "layer.forward", "head.forward", "head.backward", "layer.backward",
    "embedding.backward", "gradient norm", "clip", "optimizer",
)  # fmt: skip


def test_a_single_gpu_does_its_kernels_and_nothing_else() -> None:
    step = last(quiet(job("fsdp=1,seq=2048", model="gpt-1.3b")))
    assert step_ns(step)[0] == pytest.approx(total(step, *COMPUTE), abs=NS)


def test_fully_hidden_fsdp_adds_what_nothing_is_beside() -> None:
    """First gather (the root), the last two reductions, and the scalar of the norm; everything else is beside compute."""
    one = quiet(job("fsdp=16,seq=8192"))
    step = last(one)
    ops, codes = step.prepared.work.program.ops, step.prepared.work.codes
    gathers = [k for k, op in enumerate(ops) if op.name == "all_gather" and op.unit == "root"]
    root = duration(step, gathers[0]) + float(codes[gathers[0]].lead_ns)
    norm = next(duration(step, k) for k, op in enumerate(ops) if op.name == "all_reduce")
    scatter = {op.unit: k for k, op in enumerate(ops) if op.name == "reduce_scatter"}
    embedding = next(duration(step, k) for k, op in enumerate(ops) if op.name == "embedding.backward")
    first, rest = scatter["layers.0"], scatter["root"]
    tail = max(float(codes[first].lead_ns) + duration(step, first) - embedding, 0) + duration(step, rest)
    tail += float(codes[rest].lead_ns)
    short = max(duration(step, gathers[0] + 2) if ops[gathers[0] + 2].name == "all_gather" else 0, 0)
    embed = next(duration(step, k) for k, op in enumerate(ops) if op.name == "embedding.forward")
    lead = next(float(codes[k].lead_ns) for k, op in enumerate(ops) if op.name == "all_gather" and op.unit == "layers.0")
    uncovered = max(short + lead - embed, 0)
    assert step_ns(step)[0] == pytest.approx(total(step, *COMPUTE) + root + uncovered + tail + norm, rel=1e-4)


def test_without_prefetch_every_gather_stands_in_line() -> None:
    one = quiet(job("fsdp=16,seq=2048,prefetch=off"))
    step = last(one)
    ops, codes = step.prepared.work.program.ops, step.prepared.work.codes
    gathers = sum(duration(step, k) + float(codes[k].lead_ns) for k, op in enumerate(ops) if op.name == "all_gather")
    assert step_ns(step)[0] >= total(step, *COMPUTE) + gathers - NS
    exposed = predict(one).exposed_ns
    assert exposed >= sum(duration(step, k) for k, op in enumerate(ops) if op.name == "all_gather") - NS


def test_of_ddp_the_last_buckets_alone_are_exposed_when_backward_is_long() -> None:
    one = quiet(job("ddp=8,mbs=8,seq=2048", model="gpt-125m"))
    step = last(one)
    ops = step.prepared.work.program.ops
    buckets = [k for k, op in enumerate(ops) if op.name == "all_reduce" and op.comm is not None and op.comm.axis == "ddp"]
    table, rest = buckets[-2:]  # the token table's gradient comes last: some full buckets while it is made, then what is left
    embedding = next(duration(step, k) for k, op in enumerate(ops) if op.name == "embedding.backward")
    many, each = ops[table].count, duration(step, table)
    begun = max(ops[table].ready * embedding, each)  # the last bucket of the layers is under way for one bucket's time
    behind = max(begun + many * each, embedding + each) - embedding + duration(step, rest)
    assert step_ns(step)[0] == pytest.approx(total(step, *COMPUTE) + behind, rel=1e-6)


def test_one_weak_rail_slows_the_ring_to_itself() -> None:
    """A ring's channels are equally loaded: with one cable at a fifth, all-gather takes as long as that cable needs."""
    one = job("fsdp=16,seq=2048")
    cable = next(link for link in one.cluster.links_at("node1/nic3") if link.src == "node1/nic3")
    weak = [
        msgspec.structs.replace(link, capacity_bytes_per_s=link.capacity_bytes_per_s / 5)
        for link in one.cluster.links_at("node1/nic3")
        if link.kind == "cable"
    ]
    nbytes = 1 << 34
    sick = Collectives(one.cluster.with_links(*weak), one.gpu, one.nccl, one.ranks, one.transport)
    took = sick.time("all_gather", nbytes, Groups.regular(16, 16)).ns[0]
    alone = 15 / 16 * nbytes / 8 / (cable.capacity_bytes_per_s / 5) * 1e9
    assert alone <= took <= 1.2 * alone  # a transport carries less than the wire


def test_a_ring_all_gather_on_an_idle_fabric() -> None:
    """(n-1)/n of the bytes at the ring's bus bandwidth, with the latency and the ramp on top: never below, and near it."""
    one = job("fsdp=16,seq=2048")
    nbytes = 1 << 34
    healthy = Collectives(one.cluster, one.gpu, one.nccl, one.ranks, one.transport).time(
        "all_gather", nbytes, Groups.regular(16, 16)
    )
    floor = 15 / 16 * nbytes / 360e9 * 1e9  # 8 x 45 GB/s, what NCCL's search finds on this machine
    assert floor <= healthy.ns[0] <= 1.1 * floor


def test_accumulation_beyond_what_is_simulated_goes_on_as_it_went() -> None:
    eight = predict(job("fsdp=16,seq=2048,ga=8"))
    whole = steps(job("fsdp=16,seq=2048,ga=8"), 1)[-1]
    assert eight.step_ns == pytest.approx(step_ns(whole)[0], rel=1e-3)


@pytest.mark.parametrize(
    "plan", ["fsdp=16,seq=2048", "hsdp=2x8,seq=2048", "ddp=16,seq=1024", "zero1=16,seq=1024", "fsdp=8,tp=2,seq=2048"]
)
def test_one_rank_stands_for_all_of_a_healthy_job(plan: str) -> None:
    one = job(plan, model="gpt-1.3b")
    every = step_ns(steps(one, 1)[-1])
    assert np.ptp(every) < NS
    assert step_ns(steps(one, 1, width=1)[-1])[0] == pytest.approx(every[0], rel=1e-9)


def test_collectives_of_one_rank_take_no_time() -> None:
    one = job("hsdp=8x1,seq=2048", model="gpt-125m")
    step = last(one)
    op = next(op for op in step.prepared.work.program.ops if op.name == "all_gather")
    assert collective_ns(one, op, step.prepared.collectives, {"fsdp": Joining(1, 1, 8)}) == 0


@pytest.mark.parametrize(("key", "values"), [("mbs", (1, 2, 4)), ("seq", (1024, 2048, 4096)), ("ga", (1, 2, 5))])
def test_more_work_never_takes_less_time(key: str, values: tuple[int, ...]) -> None:
    took = [predict(job(f"fsdp=16,{'seq=2048,' if key != 'seq' else ''}{key}={value}")).step_ns for value in values]
    assert took == sorted(took)


def test_the_parts_of_a_prediction_sum_to_the_step() -> None:
    for plan in ("fsdp=16,seq=2048", "ddp=8,seq=1024", "fsdp=16,ga=6,seq=2048"):
        found = predict(job(plan, model="gpt-1.3b"))
        assert sum(found.parts_ns.values()) == found.step_ns
        assert min(found.parts_ns.values()) >= 0


def test_full_checkpointing_costs_about_a_forward() -> None:
    plain, full = (predict(job(f"fsdp=16,seq=8192,ac={ac}")) for ac in ("none", "full"))
    more = full.parts_ns["backward"] - plain.parts_ns["backward"]
    assert 0.6 * plain.parts_ns["forward"] < more < plain.parts_ns["forward"]  # the last product of a layer is not repeated


def test_parse_plan_is_what_jobs_are_made_of() -> None:
    assert job("fsdp=16,seq=2048").workload.plan == parse_plan("fsdp=16,seq=2048")
