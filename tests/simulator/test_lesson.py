"""The lesson: a collective ends with its slowest member. One NIC on the wrong socket holds back all sixteen ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from stepscope.model.workload import Loader
from stepscope.simulator.faults.fault import parse_fault
from stepscope.simulator.faults.schedule import Schedule
from stepscope.simulator.job import Job
from stepscope.simulator.simulation import Simulation, Step, step_ns
from tests.simulator.jobs import job, steps

PLACES: Final = ((1, 3), (0, 5))
SEQUENCES: Final = (1024, 2048, 4096, 8192, 16384)


def across(one: Job, node: int, gpu: int) -> Job:
    """The job with that GPU's NIC on the other socket."""
    return replace(one, cluster=one.cluster.with_node(node, one.cluster.node.with_nic_across(gpu)))


def hidden_share(step: Step, rank: int = 0) -> float:
    """Share of the gathers of all units but the root during which this rank computes."""
    ops, times = step.prepared.work.program.ops, step.times
    busy = [(times.start[k, rank], times.end[k, rank]) for k, op in enumerate(ops) if op.kind == "compute"]
    whole = hidden = 0.0
    for k, op in enumerate(ops):
        if op.name == "all_gather" and op.unit != "root":
            a, b = times.start[k, rank], times.end[k, rank]
            whole += b - a
            hidden += sum(max(0.0, min(b, end) - max(a, start)) for start, end in busy)
    return hidden / whole


def test_a_healthy_reference_hides_its_gathers() -> None:
    assert hidden_share(steps(job("fsdp=16,mbs=1,seq=8192"))[-1]) >= 0.95


def test_without_prefetch_they_are_exposed() -> None:
    assert hidden_share(steps(job("fsdp=16,mbs=1,seq=8192,prefetch=off"))[-1]) < 0.05


@pytest.mark.parametrize(("node", "gpu"), PLACES)
def test_one_nic_on_the_wrong_socket_slows_all_ranks_alike(node: int, gpu: int) -> None:
    healthy = job("fsdp=16,mbs=1,seq=2048")
    base, sick = (step_ns(steps(one)[-1]) for one in (healthy, across(healthy, node, gpu)))
    assert (sick / base >= 1.3).all()
    assert np.ptp(sick) < 0.05 * sick.max()


@pytest.mark.parametrize(("node", "gpu"), PLACES)
def test_the_slow_down_falls_towards_one_as_the_work_grows(node: int, gpu: int) -> None:
    slower = []
    for seq in SEQUENCES:
        healthy = job(f"fsdp=16,mbs=1,seq={seq}")
        base, sick = (float(step_ns(steps(one)[-1]).max()) for one in (healthy, across(healthy, node, gpu)))
        slower.append(sick / base)
    assert slower == sorted(slower, reverse=True)
    assert slower[-1] < 1.1
    assert slower[0] > 1.3


def test_at_8192_tokens_they_stay_mostly_hidden() -> None:
    assert hidden_share(steps(across(job("fsdp=16,mbs=1,seq=8192"), 1, 3))[-1]) > 0.9


def weak(fault: str, loader: Loader | None = None, plan: str = "fsdp=16,mbs=1,seq=2048") -> tuple[np.ndarray, np.ndarray]:
    """Steps of each rank, healthy and with the fault, [steps, ranks] ns."""
    healthy = job(plan, loader=loader)
    schedule = Schedule(healthy, (parse_fault(fault),))
    sick = list(Simulation(schedule).steps(6))
    return np.array([step_ns(s) for s in steps(healthy, 6)]), np.array([step_ns(s) for s in sick])


def test_a_flapping_link_holds_back_all_ranks_in_the_steps_that_it_hits() -> None:
    base, sick = weak("fabric.link_flap@node1/nic3,down_ms=300")
    hit = sick.max(axis=1) > 1.3 * base.max(axis=1)
    assert hit.any()
    assert (np.ptp(sick[hit], axis=1) < 0.05 * sick[hit].max(axis=1)).all()
    assert np.allclose(sick[~hit], base[~hit], rtol=0.02)


def test_one_nodes_slow_mount_holds_back_the_other_nodes_ranks_too() -> None:
    base, sick = weak("storage.slow_mount@node1,slowdown=8", Loader(workers=1, bytes_per_token=200_000))
    later = sick[2:] / base[2:]
    assert (later > 1.3).all()
    assert (np.ptp(sick[2:], axis=1) < 0.05 * sick[2:].max(axis=1)).all()


def test_a_throttled_gpu_holds_back_all_ranks() -> None:
    base, sick = weak("gpu.thermal_throttle@node1/gpu3,clock_fraction=0.5")
    assert (sick > 1.2 * base).all()
    assert (np.ptp(sick, axis=1) < 0.05 * sick.max(axis=1)).all()
