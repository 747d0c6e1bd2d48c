"""Who is slow in their own work, who waits, and what of the cluster has changed: fault by fault."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from stepscope.model.workload import Checkpoint, Loader
from stepscope.simulator.faults.fault import parse_fault
from stepscope.simulator.faults.schedule import Schedule
from stepscope.simulator.faults.transport import goodput
from stepscope.simulator.job import Job
from stepscope.simulator.simulation import Step, step_ns
from tests.simulator.faults.cases import READS, per_step, run
from tests.simulator.jobs import job

JOB: Final = job("fsdp=16,seq=2048")
RANK: Final = 11  # node1/gpu3
NODE: Final = tuple(range(8, 16))


def sick(text: str, one: Job = JOB) -> Job:
    return Schedule(one, [parse_fault(text)], 1)(0)


def computed(step: Step) -> NDArray[np.float64]:
    """ns in which each rank computes."""
    times = step.times
    rows = [k for k, op in enumerate(step.prepared.work.program.ops) if op.kind == "compute"]
    found: NDArray[np.float64] = (times.end - times.start)[rows].sum(axis=0)
    return found


def moved(step: Step) -> NDArray[np.float64]:
    """ns in which each rank's collectives move, all members there."""
    rows = [k for k, op in enumerate(step.prepared.work.program.ops) if op.kind == "collective"]
    found: NDArray[np.float64] = (step.times.end - step.times.begin)[rows].sum(axis=0)
    return found


def waited(step: Step) -> NDArray[np.float64]:
    """ns in which each rank's collectives wait for their last member."""
    rows = [k for k, op in enumerate(step.prepared.work.program.ops) if op.kind == "collective"]
    found: NDArray[np.float64] = (step.times.begin - step.times.start)[rows].sum(axis=0)
    return found


def batches(step: Step) -> NDArray[np.float64]:
    """ns in which each rank's host waits for its batch."""
    rows = [k for k, op in enumerate(step.prepared.work.program.ops) if op.kind == "input"]
    found: NDArray[np.float64] = (step.times.end - step.times.start)[rows].sum(axis=0)
    return found


def odd(values: NDArray[np.float64], share: float = 0.01) -> list[int]:
    """Ranks whose value lies above the least one by more than that share."""
    return np.flatnonzero(values > values.min() * (1 + share)).tolist()


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("gpu.thermal_throttle@node1/gpu3", [RANK]),
        ("gpu.hbm_degraded@node1/gpu3", [RANK]),
        ("gpu.power_cap@node1", list(NODE)),
        ("app.token_imbalance@rank11", [RANK]),
        ("kernels.wrong_precision@rank11,share=0.5", [RANK]),
        ("framework.state_offloaded@rank11", [RANK]),
    ],
)
def test_the_slow_gpu_computes_longer_and_the_others_wait(text: str, ranks: list[int]) -> None:
    step = run(JOB, text, count=1)[0]
    assert odd(computed(step)) == ranks
    assert max(waited(step)[ranks]) < min(np.delete(waited(step), ranks))
    assert np.ptp(step_ns(step)) < 0.05 * step_ns(step).max()


@pytest.mark.parametrize(
    "text",
    [
        "interconnect.nic_cross_socket@node1/gpu3",
        "interconnect.pcie_downtrained@node1/nic3",
        "interconnect.nvlink_degraded@node1/gpu3",
        "interconnect.acs_on@node1",
        "fabric.link_degraded@node1/nic3",
        "fabric.rail_down@rail3,rails=4",
        "transport.retransmits@node1/nic3",
        "transport.tcp_fallback@node1",
        "nccl.few_nics@node1",
        "nccl.p2p_off@node1",
    ],
)
def test_one_bad_link_moves_the_bytes_of_all_ranks_slowly_and_nobody_computes_longer(text: str) -> None:
    healthy, step = run(JOB, count=1)[0], run(JOB, text, count=1)[0]
    assert (moved(step) > 1.2 * moved(healthy)).all()
    assert np.ptp(moved(step)) < 1e-6 * moved(step).max()
    assert odd(computed(step)) == []
    assert np.ptp(step_ns(step)) < 0.05 * step_ns(step).max()


def test_a_slow_mount_starves_its_own_node_and_holds_back_all() -> None:
    one = job("fsdp=16,seq=2048", loader=READS)
    steps = run(one, "storage.slow_mount@node1:/data")
    assert odd(sum(batches(step) for step in steps)) == list(NODE)
    assert per_step(steps).mean() > 3 * per_step(run(one)).mean()


def test_a_mount_that_nobody_reads_from_may_be_slow() -> None:
    one = job("fsdp=16,seq=2048", loader=READS)
    assert per_step(run(one, "storage.slow_mount@node1:/scratch")) == pytest.approx(per_step(run(one)))


def test_cold_caches_cost_what_they_say_once_in_the_step() -> None:
    one = job("fsdp=16,seq=2048,ga=4")
    longer = per_step(run(one, "storage.cold_cache@job,spike_ms=500")) - per_step(run(one))
    assert max(longer) == pytest.approx(500, rel=0.1)
    assert sorted(longer > 1) == [False, False, False, True]


def test_a_stalled_checkpoint_hits_the_steps_that_save() -> None:
    one = job("fsdp=16,seq=2048", checkpoint=Checkpoint(every=2))
    found = per_step(run(one, "storage.checkpoint_stall@job,stall_s=30"))
    assert found[[1, 3]] == pytest.approx(30_000, rel=0.05)
    assert (found[[0, 2]] < 1000).all()


@pytest.mark.parametrize("workers", [0, 2, 4])
@pytest.mark.parametrize("fraction", [0.5, 0.2])
def test_a_starved_loader_delivers_that_share_of_the_batches(workers: int, fraction: float) -> None:
    one = job("fsdp=16,seq=2048", loader=Loader(workers=workers))
    healthy = per_step(run(one, count=8)).mean()
    assert per_step(run(one, f"app.loader_starved@job,rate_fraction={fraction}", count=8)).mean() == pytest.approx(
        healthy / fraction, rel=0.03
    )


def test_work_on_one_rank_costs_all_what_it_takes() -> None:
    longer = per_step(run(JOB, "app.rank0_work@rank0,extra_ms=80", count=1)) - per_step(run(JOB, count=1))
    assert longer == pytest.approx([80], rel=0.02)


def test_a_flap_holds_one_collective_of_one_step() -> None:
    healthy, steps = run(JOB), run(JOB, "fabric.link_flap@node1/nic3,down_ms=500")
    longer = [moved(step)[0] - moved(base)[0] for step, base in zip(steps, healthy, strict=True)]
    assert sorted(round(ns / 1e6) for ns in longer) == [0, 0, 0, 500]


def test_a_flap_hits_only_collectives_on_that_link() -> None:
    one = job("hsdp=2x8,seq=2048")
    steps = run(one, "fabric.link_flap@node1/nic3,down_ms=500")
    found = {
        (op.comm.axis, rank)
        for step in steps
        for k, op in enumerate(step.prepared.work.program.ops)
        if op.comm
        for rank in np.flatnonzero(step.times.end[k] - step.times.begin[k] > 4e8).tolist()
    }
    assert found == {("replicate", 3), ("replicate", RANK)}


def test_a_rail_that_is_out_leaves_its_nics_empty() -> None:
    wiring = sick("fabric.rail_down@rail3,rails=2").cluster.node
    assert {nic for slot in wiring.gpus for nic in slot.nics} == {0, 1, 2, 5, 6, 7}
    assert wiring.socket_of_nic(wiring.gpus[3].nics[0]) == wiring.socket_of_gpu(3)


def test_partial_prefetch_is_between_none_and_all() -> None:
    found = [per_step(run(JOB, f"framework.no_prefetch@job,share={share}", count=1))[0] for share in (0.05, 0.5, 1.0)]
    off = per_step(run(job("fsdp=16,seq=2048,prefetch=off"), count=1))[0]
    assert found[0] < found[1] < found[2] == pytest.approx(off, rel=1e-9)


def test_syncing_every_micro_batch_is_what_the_plan_would_do() -> None:
    found = per_step(run(job("fsdp=16,seq=2048,ga=4"), "app.accumulation_syncs_every_microbatch@job", count=1))[0]
    assert found == pytest.approx(per_step(run(job("fsdp=16,seq=2048,ga=4,sync=every"), count=1))[0], rel=1e-9)


def test_tensor_parallel_groups_span_the_nodes_that_were_asked_for() -> None:
    laid = sick("parallel.tp_across_nodes@job,span=2", job("fsdp=8,tp=2,seq=2048")).mesh
    assert [{rank // 8 for rank in group} for group in laid.groups("tp").tolist()] == [{0, 1}] * 8
    assert sorted(laid.groups("fsdp").ravel().tolist()) == list(range(16))


def test_waits_for_the_device_stop_one_host_alone() -> None:
    one = job("fsdp=16,seq=512", "llama3.2-1b")
    step = run(one, "app.host_sync_point@rank11,per_step=8", count=1)[0]
    ops = step.prepared.work.program.ops
    rows = [k for k, op in enumerate(ops) if op.kind == "sync" and op.name == "aten::item"]
    held = (step.times.end - step.times.start)[rows].sum(axis=0)
    assert len(rows) == 8
    assert np.flatnonzero(held).tolist() == [RANK]


def test_go_back_n_collapses_at_a_percent_of_loss() -> None:
    assert goodput(0.0) == 1.0
    assert goodput(0.001) == pytest.approx(0.5, abs=0.01)
    assert goodput(0.01) < 0.1
    assert [goodput(p) for p in (1e-6, 1e-4, 1e-3, 1e-1)] == sorted((goodput(p) for p in (1e-6, 1e-4, 1e-3, 1e-1)), reverse=True)


def test_a_power_limit_costs_what_was_published() -> None:
    clock = np.asarray(sick("gpu.power_cap@node1/gpu3,cap_fraction=0.857").conditions.clock)
    assert clock[RANK] == pytest.approx(0.88, abs=0.005)
    assert np.delete(clock, RANK).tolist() == [1.0] * 15
