"""Recorded traces: figures that others have measured on them, and what must hold of any."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from stepscope.analysis.doctor import examine

MEASURED_US = {
    0: (1034, 5798, 5537),
    1: (1246, 11336, 11056),
    2: (1068, 3492, 3217),
    3: (1240, 9774, 9450),
    4: (1126, 6587, 6550),
    5: (1041, 6251, 6211),
    6: (1051, 3558, 3289),
    7: (1059, 1746, 1580),
}
"""dlrm-8rank-v100, per rank: compute, communication, exposed communication. The trace's own times are whole us."""


def test_compute_communication_and_exposed_of_eight_ranks(shared: Path) -> None:
    rows = stepscope.breakdown(stepscope.read(shared / "traces" / "dlrm-8rank-v100")).communication
    assert {r.rank: (r.compute_ns, r.total_ns, r.exposed_ns) for r in rows} == {
        rank: tuple(1000 * us for us in figures) for rank, figures in MEASURED_US.items()
    }


@pytest.mark.parametrize("job", ["gloo-fsdp2-2rank", "resnet50-loader-0workers", "hta-2of128", "mi300x-resnet-rccl"])
def test_parts_of_real_jobs_sum_to_their_steps(shared: Path, job: str) -> None:
    result = stepscope.breakdown(stepscope.read(shared / "traces" / job))
    assert result.steps
    for step in result.steps:
        assert sum(step.parts_ns.values()) == step.duration_ns
        assert min(step.parts_ns.values()) >= 0
        assert step.parts_ns["forward"] + step.parts_ns["backward"] + step.parts_ns["other_compute"] > 0


def test_more_loader_workers_take_the_waiting_for_batches_away(shared: Path) -> None:
    def waited(workers: int) -> float:
        used = [
            s
            for s in stepscope.breakdown(stepscope.read(shared / "traces" / f"resnet50-loader-{workers}workers")).steps
            if s.complete
        ]
        return sum(s.parts_ns["input_wait"] for s in used) / sum(s.duration_ns for s in used)

    assert waited(0) > 0.3 > 0.05 > waited(4)


def test_gathers_of_gloo_fsdp_are_found_per_unit_and_waited_for(shared: Path) -> None:
    units = stepscope.breakdown(stepscope.read(shared / "traces" / "gloo-fsdp2-2rank")).units
    forward = {u.unit: u for u in units if u.pass_ == "forward"}
    assert {"layers.0", "layers.5"} <= set(forward)
    for unit in units:
        assert unit.blocked_ns is not None
        assert 0 <= unit.hidden_ns <= unit.gather_ns
        assert 0 <= unit.blocked_ns <= unit.gather_ns - unit.hidden_ns


def test_a_trace_without_collective_metadata_says_which_questions_stay_open(shared: Path) -> None:
    result = examine(stepscope.read(shared / "traces" / "dlrm-8rank-v100"))
    (found,) = [q for q in result.cannot if q.question == "Which operation, group and size has each communication kernel?"]
    assert found.missing == "collectives without name, size and group"
    assert "Which rank came last to each collective?" in result.can  # matched by order
    assert "How much communication was exposed, and how much hidden behind compute?" in result.can
