"""What `--fault` says: causes, places, strengths and steps, and one line for each thing that cannot be."""

from __future__ import annotations

import pytest

from stepscope.model.errors import UsageMistake
from stepscope.simulator.faults.fault import Fault, parse_fault
from stepscope.simulator.faults.schedule import Schedule
from stepscope.simulator.faults.where import Where
from tests.simulator.jobs import job

JOB = job("fsdp=16,seq=2048")


def test_all_of_it() -> None:
    found = parse_fault("interconnect.nic_cross_socket@node1/gpu3,crossing=1,steps=2-5")
    assert found == Fault("interconnect.nic_cross_socket", Where("gpu", node=1, gpu=3), 1.0, 2, 5)
    assert str(found) == "interconnect.nic_cross_socket@node1/gpu3,crossing=1,steps=2-5"


def test_what_is_left_out_is_the_catalogs() -> None:
    assert parse_fault("app.small_batch") == Fault("app.small_batch", Where("job"), 0.25)
    assert parse_fault("gpu.thermal_throttle@rank 11").where == Where("rank", rank=11)


@pytest.mark.parametrize(
    ("text", "first", "last"), [("2-5", 2, 5), ("3", 3, 3), ("4-", 4, None)]
)  # fmt: skip
def test_steps(text: str, first: int, last: int | None) -> None:
    found = parse_fault(f"app.gc_pause@job,steps={text}")
    assert (found.first_step, found.last_step) == (first, last)
    assert [found.active(step) for step in (first - 1, first, last or first, (last or 99) + 1)] == [
        False,
        True,
        True,
        last is None,
    ]


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("storage.slow_mount@node1:/data", "mount", "node1:/data"),
        ("storage.slow_all@/scratch", "mount", "/scratch"),
        ("fabric.link_flap@leaf3/port1", "port", "leaf3/port1"),
        ("fabric.rail_down@rail3", "rail", "rail3"),
        ("gpu.thermal_throttle@rank11", "gpu", "node1/gpu3"),
        ("app.rank0_work@node0/gpu0", "rank", "rank 0"),
        ("transport.retransmits@node1/gpu3", "nic", "node1/nic3"),
        ("transport.retransmits@rank11", "nic", "node1/nic3"),
        ("fabric.pause_storm@leaf3/port1", "nic", "node1/nic3"),
    ],
)
def test_places_are_the_jobs_and_near_kinds_are_taken(text: str, kind: str, words: str) -> None:
    where = parse_fault(text, JOB).where
    assert (where.kind, str(where)) == (kind, words)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu.thermal_throtle@node1/gpu3", "gpu.thermal_throtle: no such cause; did you mean gpu.thermal_throttle?"),
        ("thermal_throttle@node1/gpu3", "thermal_throttle: no such cause; did you mean gpu.thermal_throttle?"),
        ("nccl.slow", "nccl.slow: no such cause; did you mean nccl.forced_algorithm or nccl.low_protocol or nccl.few_nics?"),
        ("xyz@job", "xyz: no such cause; they are named FAMILY.NAME, with the families storage, app, framework, parallel, "
         "kernels, nccl, transport, fabric, interconnect, gpu, hang"),
        ("gpu.thermal_throttle", "gpu.thermal_throttle: no place is given; write gpu.thermal_throttle@PLACE, "
         "for example gpu.thermal_throttle@node1/gpu3"),
        ("gpu.thermal_throttle@gpu3", "fault: 'gpu3' is no place; write one of job, node1, node1/gpu3"),
        ("gpu.power_cap@node5/gpu3", "gpu.power_cap@node5/gpu3: there is no such node; hgx-h100 has node0 to node1"),
        ("gpu.power_cap@node1/gpu9", "gpu.power_cap@node1/gpu9: there is no such GPU; a node of hgx-h100 has gpu0 to gpu7"),
        ("fabric.link_flap@node0/nic8", "fabric.link_flap@node0/nic8: there is no such NIC; a node of hgx-h100 has nic0 to nic7"),
        ("app.rank0_work@rank16", "app.rank0_work@rank 16: there is no such rank; the job has rank 0 to rank 15"),
        ("fabric.pause_storm@leaf8", "fabric.pause_storm@leaf8: there is no such leaf switch; hgx-h100 has leaf0 to leaf7"),
        ("fabric.link_flap@leaf3/port2", "fabric.link_flap@leaf3/port2: no NIC is plugged in there; "
         "give a port in use, for example leaf0/port0"),
        ("fabric.rail_down@rail8", "fabric.rail_down@rail8: there is no such rail; hgx-h100 has rail0 to rail7"),
        ("storage.slow_all@/home", "storage.slow_all@/home: hgx-h100 mounts no such file system; known: /data, /scratch"),
        ("gpu.thermal_throttle@job", "gpu.thermal_throttle@job: it cannot sit there; give a GPU"),
        ("gpu.hbm_degraded@node1/gpu3,fraction=2", "gpu.hbm_degraded: fraction=2: give a number from 0.1 to 0.97"),
        ("gpu.hbm_degraded@node1/gpu3,clock=1", "gpu.hbm_degraded: 'clock=1' is no setting of it; known: fraction, steps"),
        ("nccl.few_nics@job,nics=1.5", "nccl.few_nics: nics=1.5: give a whole number (NICs)"),
        ("app.gc_pause@job,steps=5-2", "app.gc_pause: steps=5-2: the last step comes before the first; give 2-5"),
        ("app.gc_pause@job,steps=x", "app.gc_pause: steps=x: give A-B, A- or A, counted from 0"),
        ("app.gc_pause@job,steps=1,steps=2", "app.gc_pause: steps is given twice; keep one"),
        ("hang.host_stalled@rank5,steps=3", "hang.host_stalled: it stops the job in one step; write at_step=3 instead of steps"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_in_one_line(text: str, said: str) -> None:
    with pytest.raises(UsageMistake) as error:
        parse_fault(text, JOB)
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("plan", "text", "said"),
    [
        ("fsdp=16", "storage.checkpoint_stall@job", "this job saves nothing; give it a checkpoint, --checkpoint every=N"),
        ("fsdp=16", "storage.slow_mount@/data", "one node's mount is slow; say whose, for example node0:/data"),
        ("fsdp=16", "app.accumulation_syncs_every_microbatch@job", "this plan accumulates nothing; give it ga=2 or more"),
        ("ddp=16", "framework.no_prefetch@job", "ddp=16 gathers no units; take a plan with fsdp or hsdp"),
        ("fsdp=16", "parallel.tp_across_nodes@job", "this plan has no tensor parallelism; give it tp=2 or more"),
        ("fsdp=2,tp=8", "parallel.tp_across_nodes@job,span=3", "span=3: groups of tp=8 on 2 nodes can span 2"),
        ("fsdp=8", "framework.shard_across_slow_fabric@job", "the job runs on one node; take a plan over several"),
        ("fsdp=16,precision=fp32", "kernels.wrong_precision@job", "this plan computes in fp32 anyway; give it precision=bf16"),
        ("fsdp=16", "fabric.rail_down@rail3,rails=8", "no rail is left of 8, so nothing would run; take fewer"),
        ("fsdp=4", "gpu.power_cap@node0/gpu6", "no rank runs there; the job has rank 0 to rank 3"),
    ],
)
def test_what_this_job_cannot_have_is_said_before_anything_runs(plan: str, text: str, said: str) -> None:
    with pytest.raises(UsageMistake) as error:
        Schedule(job(plan), [parse_fault(text)])
    assert str(error.value).endswith(said)
