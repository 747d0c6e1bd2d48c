"""Deltas are exact, marks are rare where nothing grew and there where something did, and real pairs say what they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stepscope
from bench.compare_level import Case, measure
from stepscope.analysis.compare import compare_steps
from stepscope.analysis.whole_steps import whole_steps
from stepscope.model.breakdown import Breakdown, StepParts
from stepscope.model.errors import BadInput
from stepscope.model.words import COMM_PARTS, PARTS
from stepscope.show import compare_json
from tests.show.build import MS, step

SPREAD = {"input_wait": 1.0, "forward": 2.0, "backward": 3.0, "comm_wait": 3.0, "optimizer": 0.5, "host_bound": 2.0}
MEAN = {"input_wait": 4.0, "forward": 30.0, "backward": 60.0, "comm_wait": 20.0, "optimizer": 5.0, "host_bound": 10.0}


def healthy(steps: int, ranks: int = 2, seed: int = 0) -> Breakdown:
    """A job whose step is 129 ms and whose parts vary by SPREAD ms between steps, all ranks alike up to a tenth of that."""
    draw = np.random.default_rng(seed)
    rows = []
    for k in range(steps):
        common = {part: draw.normal(MEAN[part], SPREAD[part]) for part in MEAN}
        rows += [step(r, k, **{p: max(0, v + draw.normal(0, SPREAD[p] / 10)) for p, v in common.items()}) for r in range(ranks)]
    return Breakdown(tuple(rows), ())


times = st.integers(min_value=0, max_value=10**12)
rank_steps = st.lists(st.lists(times, min_size=len(PARTS), max_size=len(PARTS)), min_size=1, max_size=12)


def job(rows: Sequence[Sequence[int]], ranks: int) -> Breakdown:
    """One row per rank-step, dealt to the ranks in turn."""
    steps = [StepParts(i % ranks, i // ranks, sum(r), dict(zip(PARTS, r, strict=True)), 0) for i, r in enumerate(rows)]
    return Breakdown(tuple(steps), ())


@settings(deadline=None)  # no test measures time
@given(rank_steps, rank_steps, st.integers(1, 3), st.integers(1, 3), st.integers(1, 10**7), st.integers(1, 10**7))
def test_deltas_of_the_parts_sum_to_the_steps(
    one: list[list[int]], two: list[list[int]], ranks_one: int, ranks_two: int, tokens_one: int, tokens_two: int
) -> None:
    found = compare_steps(job(one, ranks_one), job(two, ranks_two), tokens=(tokens_one, tokens_two))
    assert sum((d.delta_ns for d in found.parts), Fraction(0)) == found.step_delta_ns
    assert sum((d.base_ns for d in found.parts), Fraction(0)) == found.base_step_ns
    assert found.per_token is not None
    assert sum((d.delta_ns for d in found.per_token[1:]), Fraction(0)) == found.per_token[0].delta_ns
    doc = compare_json.document(found)
    assert abs(sum(p["delta_s"] for p in doc["parts"]) - doc["step_delta_s"]) < 1e-9
    for rank in found.ranks:
        communication = rank.delta_ns - rank.own_delta_ns
        assert rank.own_delta_ns == sum(rank.own_parts.values(), Fraction(0))
        assert set(rank.own_parts) | set(COMM_PARTS) == set(PARTS)
        assert isinstance(communication, Fraction)


@settings(deadline=None)  # no test measures time
@given(rank_steps, rank_steps)
def test_exchanged_sides_reverse_everything(one: list[list[int]], two: list[list[int]]) -> None:
    there, back = compare_steps(job(one, 1), job(two, 1)), compare_steps(job(two, 1), job(one, 1))
    assert [d.delta_ns for d in there.parts] == [-d.delta_ns for d in back.parts]
    for d, b in zip(there.parts, back.parts, strict=True):
        assert (d.low_ns is None) == (len(one) < 2 or len(two) < 2)
        if d.low_ns is not None and b.high_ns is not None:
            assert d.low_ns == -b.high_ns


@settings(deadline=None)  # no test measures time
@given(rank_steps, st.integers(1, 3))
def test_a_run_against_itself_changed_in_nothing(rows: list[list[int]], ranks: int) -> None:
    found = compare_steps(job(rows, ranks), job(rows, ranks))
    assert found.step_delta_ns == 0
    assert not any(d.significant for d in (*found.parts, found.step))


def test_one_step_has_no_bounds_and_says_so() -> None:
    found = compare_steps(Breakdown((step(0, 0, forward=10),), ()), healthy(5))
    assert {d.low_ns for d in found.parts} | {d.high_ns for d in found.parts} == {None}
    assert {d.significant for d in (*found.parts, found.step)} == {None}
    assert found.ranks[0].clear is None
    assert found.notes == ("the base has one whole step: without a second one no change has bounds",)
    assert "the base and the run have one whole step" in compare_steps(healthy(1), healthy(1)).notes[0]


def test_only_steps_whole_on_every_rank_count() -> None:
    rows = [step(r, k, forward=10) for r in range(2) for k in range(3)]
    rows[0] = step(0, 0, forward=900, complete=False)
    found = compare_steps(Breakdown(tuple(rows), ()), healthy(3))
    assert found.step_numbers[0] == (1, 2)
    assert found.base_step_ns == 10 * MS
    assert "the base: 2 rank-steps are left out, cut or not recorded on every rank" in found.notes


def test_ranks_with_other_step_numbers_are_put_in_order() -> None:
    whole = whole_steps(Breakdown((step(0, 1, forward=1), step(0, 2, forward=3), step(1, 8, forward=5)), ()))
    assert whole is not None
    assert whole.by_order
    assert whole.per_step.sum(axis=1).tolist() == [6 * MS]


def test_cut_steps_stand_in_only_where_there_is_no_other() -> None:
    found = compare_steps(Breakdown((step(0, 0, forward=10, complete=False),), ()), healthy(3))
    assert "the base has no complete step; cut ones stand in for it" in found.notes


def test_nothing_recorded_is_bad_input() -> None:
    with pytest.raises(BadInput, match="the run: no step was recorded"):
        compare_steps(healthy(3), Breakdown((), ()))


def test_splitting_communication_on_one_side_alone_is_told() -> None:
    unsplit = Breakdown(tuple(step(0, k, forward=10, comm_unsplit=5) for k in range(3)), ())
    split = Breakdown(tuple(step(0, k, forward=10, comm_wait=2, comm_transfer=3) for k in range(3)), ())
    assert "read the three parts as one" in compare_steps(unsplit, split).notes[-1]


def test_the_frame_and_the_table() -> None:
    found = compare_steps(healthy(4), healthy(6, seed=1))
    frame = found.frame()
    assert frame["part"].to_list() == [*PARTS, "step"]
    assert frame.columns == ["part", "base_ns", "run_ns", "delta_ns", "low_ns", "high_ns", "significant"]
    assert found.table().rows[-1][0] == "step"
    assert "<table>" in found._repr_html_()


@pytest.mark.parametrize("steps", [6, 10, 20])
def test_halves_of_a_healthy_job_are_rarely_told_apart_and_a_tenth_of_the_step_nearly_always(steps: int) -> None:
    cases = [measure("drawn", healthy(steps, seed=seed), splits=20, share=0.1) for seed in range(5)]
    level = np.mean([case.level for case in cases])
    assert level <= 0.03
    assert np.mean([case.any for case in cases]) <= 0.15
    power = {part: np.mean([_power(case, part) for case in cases]) for part in MEAN}
    assert min(power.values()) >= 0.9, power


def _power(case: Case, part: str) -> float:
    return next(p.power for p in case.parts if p.part == part)


@pytest.mark.parametrize("folder", ["healthy", "slow-rank"])
def test_level_and_power_on_the_recorded_job(folder: str, demo_dir: Path) -> None:
    case = measure(folder, stepscope.breakdown(stepscope.read(demo_dir / folder)), splits=40, share=0.1)
    assert case.steps == (5, 5)
    assert case.level <= 0.05
    quiet = [p for p in case.parts if p.spread < 0.03]  # a tenth of the step is over three of their standard deviations
    assert len(quiet) >= 5
    assert min(p.power for p in quiet) >= 0.9


def test_the_slow_ranks_own_work_grew_and_nobody_elses(demo_dir: Path) -> None:
    found = stepscope.compare(stepscope.read(demo_dir / "healthy"), stepscope.read(demo_dir / "slow-rank"))
    assert found.same_workload
    assert [r.rank for r in found.ranks if r.clear] == [2]
    (slow,) = [r for r in found.ranks if r.clear]
    assert slow.own_delta_ns > Fraction(9, 10) * found.step_delta_ns
    grown = {d.part for d in found.parts if d.significant and d.delta_ns > 0}
    assert grown == {"forward", "backward", "comm_wait", "comm_transfer"}


def test_fewer_loader_workers_grow_the_waiting_for_input_and_nothing_else(shared: Path) -> None:
    base, run = (stepscope.read(shared / "traces" / f"resnet50-loader-{n}workers") for n in (4, 0))
    found = stepscope.compare(base, run)
    assert found.same_workload
    by_part = {d.part: d for d in found.parts}
    assert round(float(by_part["input_wait"].delta_ns) / MS) == 57
    assert round(float(found.step_delta_ns) / MS) == 35
    assert [d.part for d in found.parts if d.significant] == ["input_wait"]
    assert max(found.parts, key=lambda d: d.delta_ns).part == "input_wait"


def test_per_batch_needs_both_numbers() -> None:
    assert compare_steps(healthy(3), healthy(3), batches=(4, None)).per_batch is None
    half = compare_steps(healthy(3), healthy(3), batches=(1, 2)).per_batch
    assert half is not None
    assert half[0].run_ns * 2 == half[0].base_ns


def test_ranks_only_one_side_has_are_left_out() -> None:
    found = compare_steps(healthy(3, ranks=3), replace(healthy(3, ranks=2)))
    assert [r.rank for r in found.ranks] == [0, 1]
