"""The recurrences by hand: programs of a few operations on two ranks, with times one can add up in the head."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.simulator.engine import State, StepTimes, run_step
from stepscope.simulator.joining import Joining
from stepscope.simulator.program import GATHER, REDUCE, STREAMS, Comm, Op, Program
from stepscope.simulator.work import Costs, Duration, Work, fill

ALL = Comm("all", "all")
SECOND = Comm("all", "second")
RANKS = 2


class Ready:
    """A loader whose batches lie ready at a given time."""

    def __init__(self, at: list[float]) -> None:
        self.at = np.array(at)

    def take(self, asked: np.ndarray) -> np.ndarray:
        return np.maximum(asked, self.at)


def compute(work: str, **more: object) -> Op:
    return Op("compute", work, work, **more)  # type: ignore[arg-type]  # fields of Op


def collective(work: str, comm: Comm = ALL, stream: int = GATHER, **more: object) -> Op:
    return Op("collective", "all_gather", work, stream=stream, comm=comm, **more)  # type: ignore[arg-type]  # fields of Op


def run(
    ops: list[Op],
    durations: dict[str, Duration],
    *,
    host_ns: dict[str, float] | None = None,
    tail_ns: dict[str, Duration] | None = None,
    shares: dict[tuple[str, str], float] | None = None,
    slow: float = 0.0,
    latency: float = 0.0,
    ready: list[float] | None = None,
    pace: Duration = 1.0,
    joining: Joining | None = None,
) -> StepTimes:
    program = Program(ops)
    costs = Costs(durations, host_ns or {}, tail_ns or {}, {}, shares or {})
    axes = {"all": joining or Joining(RANKS, 1, RANKS)}
    work = Work(program, fill(program, costs, axes), Ready(ready or [0.0, 0.0]), pace, latency, slow)
    return run_step(work, State.fresh(RANKS, len(STREAMS)))


def per_rank(*values: float) -> np.ndarray:
    return np.array(values)


def test_computations_of_a_stream_follow_one_another() -> None:
    times = run([compute("a"), compute("b")], {"a": 10.0, "b": per_rank(5, 7)})
    assert times.start[1].tolist() == [10, 10]
    assert times.end[1].tolist() == [15, 17]


def test_a_collective_ends_with_its_last_member() -> None:
    times = run([compute("a"), collective("g", after=(0,))], {"a": per_rank(10, 30), "g": 4.0})
    assert times.start[1].tolist() == [10, 30]
    assert times.begin[1].tolist() == [30, 30]
    assert times.end[1].tolist() == [34, 34]


def test_groups_of_an_axis_wait_for_their_own_members_alone() -> None:
    alone = Joining(1, 1, RANKS)
    times = run([compute("a"), collective("g", after=(0,))], {"a": per_rank(10, 30), "g": 4.0}, joining=alone)
    assert times.end[1].tolist() == [14, 34]


def test_one_communicator_does_one_at_a_time() -> None:
    times = run([collective("g"), collective("h", stream=REDUCE)], {"g": 10.0, "h": 5.0})
    assert times.start[1].tolist() == [10, 10]
    assert times.end[1].tolist() == [15, 15]


def test_two_communicators_on_one_link_get_half_each_while_both_move() -> None:
    ops = [collective("g"), collective("h", comm=SECOND, stream=REDUCE, contends=(0,))]
    times = run(ops, {"g": 10.0, "h": 4.0}, shares={("second", "all"): 1.0})
    assert times.end[1].tolist() == [8, 8]  # 4 of work at half speed
    assert times.end[0].tolist() == [14, 14]  # 8 of time gave 4 of work, 6 are left


@given(st.floats(1, 100), st.floats(1, 100), st.floats(0, 100), st.floats(0, 1))
def test_sharing_never_speeds_up_and_moves_all_bytes(first: float, second: float, later: float, share: float) -> None:
    ops = [collective("g"), compute("a"), collective("h", comm=SECOND, stream=REDUCE, after=(1,), contends=(0,))]
    times = run(ops, {"g": first, "h": second, "a": later}, shares={("second", "all"): share})
    assert times.end[0, 0] >= first - 1e-9
    assert times.end[2, 0] >= later + second - 1e-9
    apart = max(times.end[0, 0], times.end[2, 0])
    assert apart <= max(first, later) + min(first, later) + second + 1e-6 or apart <= later + first + second + 1e-6


def test_compute_slows_while_a_collective_moves_beside_it() -> None:
    ops = [compute("a", beside=(1,)), collective("g")]
    times = run(ops, {"a": 10.0, "g": 4.0}, slow=0.5)
    assert times.end[0].tolist() == [12, 12]  # 4 at half speed do 2, the other 8 at full speed


def test_compute_inside_a_longer_collective_runs_slow_throughout() -> None:
    times = run([compute("a", beside=(1,)), collective("g")], {"a": 10.0, "g": 100.0}, slow=0.5)
    assert times.end[0].tolist() == [20, 20]


def test_what_two_collectives_cover_slows_once() -> None:
    ops = [compute("a", beside=(1, 2)), collective("g"), collective("h", comm=SECOND, stream=REDUCE)]
    times = run(ops, {"a": 10.0, "g": 4.0, "h": 4.0}, slow=0.5)
    assert times.end[0].tolist() == [12, 12]


def test_a_collective_before_the_computation_does_not_slow_it() -> None:
    ops = [collective("g"), compute("a", after=(0,), beside=(0,))]
    assert run(ops, {"a": 10.0, "g": 4.0}, slow=0.5).end[1].tolist() == [14, 14]


def test_nothing_starts_before_the_host_has_issued_it() -> None:
    times = run([compute("a"), compute("b")], {"a": 1.0, "b": 1.0}, host_ns={"a": 20.0, "b": 20.0}, latency=3.0)
    assert times.start[0].tolist() == [3, 3]
    assert times.start[1].tolist() == [23, 23]


def test_the_last_kernel_of_a_computation_follows_its_launch() -> None:
    times = run([compute("a")], {"a": 1.0}, host_ns={"a": 20.0}, tail_ns={"a": 0.5})
    assert times.end[0].tolist() == [20.5, 20.5]


def test_a_slow_host_issues_later() -> None:
    times = run([compute("a"), compute("b")], {"a": 1.0, "b": 1.0}, host_ns={"a": 20.0}, pace=per_rank(1, 2))
    assert times.start[1].tolist() == [20, 40]


def test_the_host_waits_for_the_device_and_for_a_batch() -> None:
    ops = [Op("input", "next batch", "input"), compute("a"), Op("sync", "loss", "sync", after=(1,))]
    times = run(ops, {"a": 10.0}, ready=[0, 7])
    assert times.end[0].tolist() == [0, 7]
    assert times.host_end.tolist() == [10, 17]


def test_equal_calls_in_a_row_end_one_call_after_the_last_gradient() -> None:
    ops = [compute("a"), collective("g", after=(0,), count=4, ready=0.25)]
    hidden = run(ops, {"a": 100.0, "g": 10.0})
    assert hidden.begin[1].tolist() == [25, 25]
    assert hidden.end[1].tolist() == [110, 110]  # the last bucket alone is exposed
    behind = run(ops, {"a": 100.0, "g": 30.0})
    assert behind.end[1].tolist() == [145, 145]  # 25 + 4 x 30


def test_a_save_holds_everybody_and_the_next_one_waits_for_its_upload() -> None:
    program = Program([Op("save", "checkpoint", "save", comm=ALL)])
    costs = Costs({"save": per_rank(5, 9)}, hidden_ns={"save": 100.0})
    work = Work(program, fill(program, costs, {"all": Joining(RANKS, 1, RANKS)}), Ready([0, 0]))
    state = State.fresh(RANKS, len(STREAMS))
    assert run_step(work, state).host_end.tolist() == [9, 9]
    assert run_step(work, state).host_end.tolist() == [118, 118]


def test_steps_go_on_where_the_last_one_left_off() -> None:
    program = Program([compute("a")])
    work = Work(program, fill(program, Costs({"a": 10.0}), {}), Ready([0, 0]))
    state = State.fresh(RANKS, len(STREAMS))
    ends = [run_step(work, state).end[0, 0] for _ in range(3)]
    assert [b - a for a, b in pairwise(ends)] == [10, 10]


@pytest.mark.parametrize(("size", "stride", "ranks"), [(2, 1, 8), (2, 4, 8), (8, 1, 8), (1, 1, 8), (4, 2, 8)])
def test_the_last_of_each_group(size: int, stride: int, ranks: int) -> None:
    joining = Joining(size, stride, ranks)
    values, out = np.random.default_rng(1).random(ranks), np.empty(ranks)
    joining.last(values, out)
    group = joining.group_of()
    want = [values[group == g].max() for g in group]
    assert out.tolist() == want


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.floats(0, 0.9))
def test_slower_compute_never_ends_anything_earlier(first: float, second: float, slow: float) -> None:
    ops = [compute("a", beside=(1,)), collective("g"), compute("b", after=(1,)), collective("h", after=(2,), stream=REDUCE)]
    durations: dict[str, Duration] = {"a": first, "b": second, "g": 50.0, "h": 5.0}
    base = run(ops, durations, slow=slow)
    heavy = run(ops, {**durations, "a": per_rank(first, first * 1.5)}, slow=slow)
    assert (heavy.end >= base.end - 1e-6).all()


def test_an_operation_may_name_only_earlier_ones() -> None:
    op = replace(compute("a"), after=(1,))
    with pytest.raises(IndexError):
        run([op], {"a": 1.0})
