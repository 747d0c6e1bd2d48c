"""Faults over steps: windows, pauses that come now and then, several at once, and the seed."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.simulator.faults.fault import parse_fault
from stepscope.simulator.faults.schedule import Schedule
from stepscope.simulator.job import Job
from tests.simulator.faults.cases import per_step, run
from tests.simulator.jobs import job

JOB = job("fsdp=16,seq=2048")
THROTTLE = "gpu.thermal_throttle@node1/gpu3"
LINK = "fabric.link_degraded@node0/nic2"


def schedule(*faults: str, seed: int = 1, one: Job = JOB) -> Schedule:
    return Schedule(one, [parse_fault(text) for text in faults], seed)


def test_without_faults_it_is_the_healthy_job() -> None:
    found = schedule()
    assert found(0) is JOB and found(7) is JOB


def test_a_window_holds() -> None:
    found = per_step(run(JOB, f"{THROTTLE},steps=2-3", count=6))
    healthy = per_step(run(JOB, count=1))[0]
    assert found[[0, 1, 5]] == pytest.approx(healthy, rel=1e-6)
    assert (found[2:4] > 1.2 * healthy).all()


def test_equal_faults_are_the_same_job() -> None:
    found = schedule(f"{THROTTLE},steps=1-2", f"{LINK},steps=2-3")
    jobs = [found(step) for step in range(5)]
    assert jobs[0] is JOB and jobs[4] is JOB
    assert len({id(j) for j in jobs}) == 4
    assert found(1) is jobs[1] and found(2) is jobs[2]
    assert [len(found.active(step)) for step in range(5)] == [0, 1, 2, 1, 0]


@pytest.mark.parametrize(
    "text",
    ["storage.cold_cache@job", "app.gc_pause@rank5", "kernels.recompiling@job", "fabric.link_flap@node1/nic3"],
)
def test_pauses_come_in_one_step_of_four(text: str) -> None:
    found = schedule(text)
    hit = [bool(found.active(step)) for step in range(40)]
    assert [sum(hit[k : k + 4]) for k in range(0, 40, 4)] == [1] * 10
    assert len({tuple(hit[k : k + 4]) for k in range(0, 40, 4)}) > 1  # not always the same of the four
    assert [bool(schedule(text).active(step)) for step in range(40)] == hit
    assert [bool(schedule(text, seed=2).active(step)) for step in range(40)] != hit


def test_collections_of_all_ranks_come_one_after_the_other() -> None:
    found = schedule("app.gc_pause@job")
    late = [np.flatnonzero(np.asarray(found(step).conditions.delays[0].ns)) for step in range(4)]
    assert sorted(np.concatenate(late).tolist()) == list(range(16))


def test_the_heavy_rank_changes_from_step_to_step() -> None:
    found = schedule("app.token_imbalance@job")
    heavy = [int(np.argmax(np.asarray(found(step).conditions.load))) for step in range(12)]
    assert len(set(heavy)) > 4
    load = np.asarray(schedule("app.token_imbalance@rank3")(2).conditions.load)
    assert np.flatnonzero(load > 1).tolist() == [3]


def test_congestion_varies_around_its_mean() -> None:
    found = schedule("fabric.congestion@job,fraction=0.5")
    left = np.array([found(step).cluster.fabric.cables_carry for step in range(400)])
    assert left.mean() == pytest.approx(0.5, rel=0.05)
    assert np.ptp(left) > 0.2


def test_several_at_once_are_at_least_as_slow_as_each() -> None:
    alone = [per_step(run(JOB, text, count=1))[0] for text in (THROTTLE, LINK, "app.rank0_work@rank0")]
    both = per_step(run(JOB, THROTTLE, LINK, "app.rank0_work@rank0", count=1))[0]
    assert both >= max(alone)
    assert both > 1.1 * max(alone[0], alone[2])


def test_the_same_link_twice_is_twice_as_weak() -> None:
    found = schedule("fabric.link_degraded@node0/nic2,fraction=0.5", "fabric.pause_storm@node0/nic2,paused=0.5")(0)
    assert found.cluster.cables(0, 2)[0].capacity_bytes_per_s == pytest.approx(JOB.cluster.node.nic_bytes_per_s / 4)


def test_a_link_that_was_odd_before_stays_as_much_odder_under_congestion() -> None:
    found = schedule("fabric.link_degraded@node0/nic2,fraction=0.5", "fabric.congestion@job")(0).cluster
    ratio = found.cables(0, 2)[0].capacity_bytes_per_s / found.cables(0, 3)[0].capacity_bytes_per_s
    assert ratio == pytest.approx(0.5)


def test_a_wiring_fault_goes_first_whatever_the_order() -> None:
    a, b = "interconnect.nic_cross_socket@node1/gpu3", "interconnect.pcie_downtrained@node1/nic3"
    assert schedule(a, b)(0).cluster == schedule(b, a)(0).cluster


def test_the_same_seed_gives_the_same_steps() -> None:
    faults = ("app.gc_pause@job", "fabric.congestion@job", "fabric.link_flap@node1/nic3")
    first, again, other = (per_step(run(JOB, *faults, seed=seed, count=6)) for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()
