"""Parts of a GPU rank: drawn cases with literal times in ns."""

from __future__ import annotations

from typing import Any

from stepscope.analysis.breakdown import breakdown
from stepscope.model.breakdown import Breakdown, UnitGather
from stepscope.model.words import NO_DURATION
from tests.analysis.build import OTHER, Rank, parts, run_of

FORWARD: dict[str, Any] = {"pass": "forward"}


def gpu(length: int = 100) -> Rank:
    rank = Rank(device_kind="cuda")
    rank.step(0, length)
    rank.windows.append((0, length))
    return rank


def only_step(result: Breakdown) -> dict[str, int]:
    (step,) = result.steps
    assert sum(step.parts_ns.values()) == step.duration_ns
    return step.parts_ns


def test_two_streams_the_earliest_started_kernel_owns_the_overlap() -> None:
    rank = gpu()
    rank.device(0, 60, "forward", stream=7)
    rank.device(40, 100, "backward", stream=8)
    assert only_step(breakdown(run_of(rank))) == parts(forward=60, backward=40)


def test_a_kernel_without_a_phase_is_other_compute_and_hides_communication_and_copies() -> None:
    rank = gpu()
    rank.device(0, 50)
    rank.device(40, 80, kind="collective", stream=9)
    rank.device(70, 100, kind="memcpy", stream=11)
    assert only_step(breakdown(run_of(rank))) == parts(other_compute=50, comm_unsplit=30, copy=20)


def test_a_collective_with_a_known_transfer_waits_first() -> None:
    rank = gpu()
    rank.device(0, 30, "forward")
    kernel = rank.device(10, 100, kind="collective", stream=9)
    row = rank.collective(10, 100, span=kernel, stream=9)
    assert only_step(breakdown(run_of(rank), {0: {row: 25}})) == parts(forward=30, comm_wait=45, comm_transfer=25)
    assert only_step(breakdown(run_of(rank), {0: {row: 90}})) == parts(forward=30, comm_transfer=70)
    assert only_step(breakdown(run_of(rank))) == parts(forward=30, comm_unsplit=70)


def test_of_two_collectives_only_the_one_with_peers_is_split() -> None:
    rank = gpu()
    first = rank.device(0, 50, kind="collective", stream=9)
    second = rank.device(50, 100, kind="collective", stream=9)
    row = rank.collective(0, 50, span=first, stream=9)
    rank.collective(50, 100, span=second, stream=9)
    assert only_step(breakdown(run_of(rank), {0: {row: 20}})) == parts(comm_wait=30, comm_transfer=20, comm_unsplit=50)


def test_copies_keep_the_part_that_the_attribution_gives_them() -> None:
    rank = gpu(60)
    rank.device(0, 10, "input_wait", kind="memcpy")
    rank.device(10, 30, "checkpoint", kind="memcpy")
    rank.device(30, 60, kind="memset")
    assert only_step(breakdown(run_of(rank))) == parts(input_wait=10, checkpoint=20, copy=30)


def test_a_gap_is_host_bound_until_its_launch_returns_then_idle() -> None:
    rank = gpu()
    rank.device(0, 20, "forward")
    launch = rank.host(25, 45, kind="runtime", name="cudaLaunchKernel")
    rank.device(70, 100, "forward", launch=launch)
    assert only_step(breakdown(run_of(rank))) == parts(forward=50, host_bound=25, idle=25)


def test_a_launch_that_returned_before_the_gap_leaves_it_idle() -> None:
    rank = gpu()
    launch = rank.host(5, 10, kind="runtime")
    rank.device(0, 20, "forward")
    rank.device(70, 100, "forward", launch=launch)
    assert only_step(breakdown(run_of(rank))) == parts(forward=50, idle=50)


def test_of_two_kernels_that_end_a_gap_together_the_first_launched_counts() -> None:
    rank = gpu()
    rank.device(60, 100, "forward", stream=7, launch=rank.host(40, 50, kind="runtime"))
    rank.device(60, 100, "forward", stream=8, launch=rank.host(20, 30, kind="runtime"))
    assert only_step(breakdown(run_of(rank))) == parts(host_bound=30, idle=30, forward=40)


def test_a_gap_without_a_known_launch_is_idle_and_one_that_nothing_ends_is_host_bound() -> None:
    rank = gpu()
    rank.device(10, 60, "forward")
    assert only_step(breakdown(run_of(rank))) == parts(forward=50, idle=10, host_bound=40)


def test_the_launch_that_ends_a_gap_may_lie_in_the_next_step() -> None:
    rank = gpu(50)
    rank.step(50, 100)
    rank.device(0, 20, "forward")
    rank.device(80, 100, "forward", launch=rank.host(60, 70, kind="runtime"))
    result = breakdown(run_of(rank))
    assert [s.parts_ns for s in result.steps] == [parts(forward=20, host_bound=30), parts(forward=20, host_bound=20, idle=10)]


def test_without_device_work_the_host_in_the_loader_or_a_save_comes_first() -> None:
    rank = gpu()
    rank.device(0, 20, "forward")
    rank.host(10, 40, "input_wait", kind="annotation")
    rank.host(35, 60, "checkpoint", kind="annotation")
    rank.host(60, 70, "input_wait", kind="annotation", thread=OTHER)
    rank.device(80, 100, "forward", launch=rank.host(70, 75, kind="runtime"))
    assert only_step(breakdown(run_of(rank))) == parts(forward=40, input_wait=20, checkpoint=20, host_bound=15, idle=5)


def test_spans_without_a_duration_own_nothing() -> None:
    rank = gpu()
    rank.device(0, 100, "backward", flags=NO_DURATION)
    rank.device(0, 60, "forward")
    rank.device(70, 70, "forward")
    assert only_step(breakdown(run_of(rank))) == parts(forward=60, host_bound=40)


def test_device_work_that_lags_into_the_next_step_counts_there() -> None:
    rank = gpu(50)
    rank.step(50, 100)
    rank.device(30, 80, "backward")
    result = breakdown(run_of(rank))
    assert [s.parts_ns["backward"] for s in result.steps] == [20, 30]


def test_communication_over_the_window() -> None:
    rank = gpu()
    rank.step(100, 120)
    rank.windows[:] = [(0, 120)]
    rank.device(0, 40, "forward", stream=7)
    rank.device(20, 60, "forward", stream=8)
    rank.device(50, 90, kind="collective", stream=9)
    rank.device(80, 110, kind="collective", stream=10)
    rank.device(0, 5, kind="memcpy")
    (row,) = breakdown(run_of(rank)).communication
    assert (row.window_ns, row.compute_ns, row.total_ns, row.exposed_ns, row.hidden_ns) == (120, 60, 60, 50, 10)


def test_the_naive_sum_counts_outermost_spans_of_all_threads_and_all_device_work() -> None:
    rank = gpu()
    rank.host(0, 100, name="ProfilerStep#3", kind="annotation")
    rank.host(0, 100, name="train.py(1): main", kind="python")
    rank.host(10, 50, "forward")
    rank.host(20, 40, "forward", name="inner")
    rank.host(30, 35, kind="runtime")
    rank.host(60, 160, "backward", thread=OTHER)
    rank.device(0, 60, "forward")
    rank.device(40, 70, "forward", stream=8)
    (step,) = breakdown(run_of(rank)).steps
    assert step.naive_ns == 40 + 40 + 60 + 30


def test_a_gather_blocks_compute_only_while_the_next_kernel_is_launched() -> None:
    rank = gpu()
    rank.device(0, 20, "forward")
    gather = rank.device(10, 60, kind="collective", stream=9)
    rank.collective(10, 60, span=gather, stream=9, op="all_gather", unit="layers.1", **FORWARD)
    rank.device(65, 100, "forward", launch=rank.host(30, 40, kind="runtime"))
    assert breakdown(run_of(rank)).units == (UnitGather("layers.1", "forward", gather_ns=50, hidden_ns=10, blocked_ns=20),)


def test_without_launches_nobody_knows_what_a_gather_blocked() -> None:
    rank = gpu()
    gather = rank.device(10, 60, kind="collective", stream=9)
    rank.collective(10, 60, span=gather, stream=9, op="all_gather", unit="root", **FORWARD)
    rank.device(65, 100, "forward")
    assert breakdown(run_of(rank)).units == (UnitGather("root", "forward", gather_ns=50, hidden_ns=0, blocked_ns=None),)


def test_units_are_means_over_ranks_and_complete_steps_in_their_order() -> None:
    ranks = []
    for number, length in ((0, 10), (1, 21)):
        rank = Rank(rank=number, device_kind="cuda")
        for step in (0, 1, 2):
            start = 100 * step
            rank.step(start, start + 100, complete=step < 2)
            rank.device(start, start + 100, "forward")
            for unit in ("layers.10", "layers.2"):
                gather = rank.device(start, start + length * (step + 1), kind="collective", stream=9)
                more: dict[str, Any] = {"op": "all_gather", "unit": unit, "pass": "forward", "step": step}
                rank.collective(start, start + length * (step + 1), span=gather, stream=9, **more)
        ranks.append(rank)
    units = breakdown(run_of(*ranks)).units
    assert [(u.unit, u.gather_ns, u.hidden_ns) for u in units] == [("layers.2", 23, 23), ("layers.10", 23, 23)]
