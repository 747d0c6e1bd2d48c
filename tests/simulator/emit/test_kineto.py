"""Emitted traces: what the profiler would have written, read back to the very same numbers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import stepscope
from stepscope.analysis.attribution import RULES
from stepscope.model.breakdown import Breakdown
from stepscope.simulator.emit.inventory import listed, process_groups
from stepscope.simulator.emit.kineto import write_trace
from stepscope.simulator.simulation import Step
from stepscope.simulator.spans.run import write_run
from stepscope.simulator.spans.tables import Tables
from tests.simulator.emit.build import a_job, some_steps


def both(steps: list[Step], folder: Path, skew_ns: int = 0) -> tuple[Breakdown, Breakdown]:
    """The breakdown of the run itself, and of the traces it leaves. `skew_ns` puts the clock of the second node ahead."""
    run, traces = folder / "a.run", folder / "traces"
    run.mkdir()
    traces.mkdir()
    write_run(run, steps, nominal=steps[0].prepared.job, rules=RULES)
    job = steps[0].prepared.job
    groups = process_groups(job)
    for tables in Tables(steps).of(range(job.ranks)):
        ahead = skew_ns if tables.info.host == "node1" else 0
        write_trace(traces / f"rank-{tables.info.rank}.pt.trace.json.gz", tables, job, groups, ahead)
    keys = {group.name: group.key for group in groups}
    with stepscope.read(run) as one, stepscope.read(traces) as two:
        first, second = stepscope.breakdown(one), stepscope.breakdown(two)
        assert not two.info.gaps
    return first, _renamed(second, keys)


def _renamed(found: Breakdown, keys: dict[str, str]) -> Breakdown:
    from dataclasses import replace

    return replace(found, collectives=tuple(replace(c, group=keys[c.group]) for c in found.collectives))  # type: ignore[index]


def collectives(found: Breakdown) -> list[Any]:
    return sorted(
        (c.step, c.group, c.op, c.bytes, c.n_ranks, c.wait_ns, c.transfer_ns, c.last_rank, c.skew_ns) for c in found.collectives
    )


@pytest.mark.parametrize(
    ("plan", "slow"),
    [
        ("fsdp=16,seq=2048", 11),
        ("hsdp=2x8,seq=2048", None),
        ("ddp=8,seq=2048", 3),
        ("fsdp=4,tp=2,seq=2048", None),
        ("fsdp=8,ga=2,seq=2048", 0),
        ("fsdp=8,ac=full,seq=2048", None),
        ("zero1=8,seq=2048,ac=full", None),
    ],
)
def test_the_traces_tell_the_run(plan: str, slow: int | None, tmp_path: Path) -> None:
    run, traces = both(some_steps(a_job(plan, slow_rank=slow)), tmp_path)

    assert traces.steps == run.steps
    assert traces.communication == run.communication
    assert traces.units == run.units
    assert collectives(traces) == collectives(run)
    used = {c.group for c in run.collectives}
    by_name = {g.key: g.ranks for g in process_groups(a_job(plan))}
    assert {g.group: g.ranks for g in run.groups if g.group in used}.items() <= by_name.items()
    assert set(by_name.values()) == {g.ranks for g in traces.groups}


def test_clocks_of_two_hosts_are_put_together(tmp_path: Path) -> None:
    run, traces = both(some_steps(a_job("fsdp=16,seq=2048", slow_rank=11)), tmp_path, skew_ns=3_000_000)

    assert [s.parts_ns for s in traces.steps] == [s.parts_ns for s in run.steps]
    assert {c.last_rank for c in traces.collectives if c.skew_ns and c.skew_ns > 1_000_000} == {
        c.last_rank for c in run.collectives if c.skew_ns and c.skew_ns > 1_000_000
    }


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    from stepscope.simulator.emit.kineto import trace

    steps = some_steps(a_job("fsdp=16,seq=2048"))
    job = steps[0].prepared.job
    found: dict[str, Any] = json.loads(trace(next(iter(Tables(steps).of([11]))), job, process_groups(job)))
    return found


def test_the_head_says_who_wrote_it(document: dict[str, Any]) -> None:
    info = document["distributedInfo"]

    assert (document["schemaVersion"], document["host_name"]) == (1, "node1")
    assert (info["backend"], info["rank"], info["world_size"], info["pg_count"]) == ("nccl", 11, 16, 2)
    assert [(g["pg_name"], g["pg_desc"], len(g["ranks"])) for g in info["pg_config"]] == [
        ("0", "default_pg", 16),
        ("1", "mesh_fsdp", 16),
    ]
    device = document["deviceProperties"][3]
    assert (device["name"], device["numSms"], device["totalGlobalMem"]) == ("NVIDIA H100 80GB HBM3", 132, 85_520_809_984)


def test_each_event_is_as_torch_writes_it(document: dict[str, Any]) -> None:
    events = [e for e in document["traceEvents"] if e["ph"] == "X"]
    gather = next(e for e in events if e["name"].startswith("ncclDevKernel_AllGather"))
    launch = next(e for e in events if e["cat"] == "cuda_runtime" and e["args"]["correlation"] == gather["args"]["correlation"])
    call = next(e for e in events if e["name"] == "nccl:_all_gather_base")
    product = next(e for e in events if e["name"] == "aten::mm")

    assert {e["cat"] for e in events} == {"cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy"}
    assert (gather["pid"], gather["tid"], gather["args"]["device"], gather["args"]["stream"]) == (3, 24, 3, 24)
    args = gather["args"]
    assert (args["Collective name"], args["dtype"], args["Group size"]) == ("_allgather_base", "BFloat16", 16)
    assert args["Out msg nelems"] == 16 * args["In msg nelems"]
    assert (args["Process Group Description"], args["Process Group Ranks"]) == ("mesh_fsdp", listed(tuple(range(16))))
    assert args["External id"] == launch["args"]["External id"] == call["args"]["External id"]
    assert launch["ts"] < gather["ts"]
    assert product["args"]["Input Dims"] == [[2048, 2048], [2048, 2048]]
    assert product["args"]["Input type"] == ["c10::BFloat16", "c10::BFloat16"]


def test_long_lists_of_ranks_are_cut_as_torch_cuts_them() -> None:
    assert listed(tuple(range(64))) == "[" + ", ".join(map(str, range(29))) + ", ..., 63]"


def test_the_same_steps_give_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        steps = some_steps(a_job("ddp=8,seq=2048"))
        job = steps[0].prepared.job
        write_trace(tmp_path / name, next(iter(Tables(steps).of([2]))), job, process_groups(job))
        written.append((tmp_path / name).read_bytes())

    assert written[0] == written[1]
    assert gzip.decompress(written[0]).startswith(b'{"schemaVersion":1')
