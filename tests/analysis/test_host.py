"""Parts of a CPU-only rank: drawn cases with literal times in ns."""

from __future__ import annotations

from typing import Any

from stepscope.analysis.breakdown import breakdown
from stepscope.model.breakdown import UnitGather
from tests.analysis.build import LOOP, OTHER, Rank, parts, run_of
from tests.analysis.test_device import only_step


def cpu(length: int = 100) -> Rank:
    rank = Rank()
    rank.step(0, length)
    rank.windows.append((0, length))
    return rank


def test_the_innermost_of_loader_save_and_operators_counts() -> None:
    rank = cpu()
    rank.host(0, 30, "input_wait", kind="annotation")
    rank.host(40, 90, "forward")
    rank.host(50, 70, "backward")
    rank.host(55, 60, "other_compute")
    rank.host(80, 85, "checkpoint", kind="annotation")
    expected = parts(input_wait=30, forward=25, backward=15, other_compute=5, checkpoint=5, host_bound=20)
    assert only_step(breakdown(run_of(rank))) == expected


def test_annotations_python_frames_and_other_threads_cover_nothing() -> None:
    rank = cpu()
    rank.host(0, 100, kind="annotation", name="ProfilerStep#1")
    rank.host(0, 100, kind="python")
    rank.host(0, 50, "backward", thread=OTHER)
    rank.host(50, 60, "forward")
    assert only_step(breakdown(run_of(rank))) == parts(forward=10, host_bound=90)


def test_an_asynchronous_gather_hides_until_the_thread_stands_and_the_worker_ends() -> None:
    rank = cpu()
    call = rank.host(10, 20, "forward", name="c10d::allgather_")
    rank.host(12, 15, "forward", name="aten::empty")
    rank.collective(10, 70, span=call)
    rank.host(20, 50, "forward")
    rank.host(80, 100, "forward")
    run = run_of(rank)
    assert only_step(breakdown(run)) == parts(host_bound=10 + 10, comm_unsplit=10 + 20, forward=30 + 20)
    assert only_step(breakdown(run, {0: {0: 15}})) == parts(host_bound=20, comm_wait=10 + 5, comm_transfer=15, forward=50)
    (row,) = breakdown(run).communication
    assert (row.compute_ns, row.total_ns, row.hidden_ns, row.exposed_ns) == (50, 60, 30, 30)


def test_standing_in_a_hook_under_autograd_is_communication_and_not_backward() -> None:
    rank = cpu()
    rank.host(0, 90, "backward", name="autograd::engine::evaluate_function: AddBackward0")
    rank.host(5, 85, kind="annotation", name="FSDP::post_backward_reduce (layers.0)")
    rank.host(6, 10, "backward", name="fsdp::chunk_cat")
    rank.collective(12, 60, span=rank.host(12, 15, name="c10d::_reduce_scatter_base_"))
    rank.host(70, 80, "backward", name="aten::copy_")
    run = run_of(rank)
    assert only_step(breakdown(run)) == parts(backward=12 + 30, comm_unsplit=48, host_bound=10)
    (row,) = breakdown(run).communication
    assert (row.total_ns, row.hidden_ns, row.exposed_ns) == (48, 0, 48)


def test_an_operator_around_the_call_stands_and_one_beside_it_works() -> None:
    rank = cpu()
    rank.host(0, 50, "backward", name="MyFunctionBackward")
    rank.collective(10, 40, span=rank.host(10, 15, name="c10d::allreduce_"))
    rank.collective(52, 80, span=rank.host(52, 55, name="c10d::allreduce_"))
    rank.host(60, 100, "optimizer", name="aten::mul_")
    assert only_step(breakdown(run_of(rank))) == parts(backward=20, comm_unsplit=30 + 3, optimizer=40, host_bound=2 + 5)


def test_a_stretch_in_which_no_collective_ends_is_the_hosts() -> None:
    rank = cpu()
    call = rank.host(0, 10, name="c10d::allreduce_")
    rank.collective(0, 95, span=call)
    rank.host(10, 20, "forward")
    rank.host(50, 60, "forward")
    rank.host(90, 100, "forward")
    assert only_step(breakdown(run_of(rank))) == parts(comm_unsplit=10, forward=30, host_bound=60)


def test_two_collectives_in_one_stretch_are_waited_for_in_turn() -> None:
    rank = cpu()
    rank.collective(0, 40, span=rank.host(0, 5, name="c10d::allreduce_"))
    rank.collective(5, 60, span=rank.host(5, 10, name="c10d::allreduce_"))
    rank.host(80, 100, "optimizer")
    got = only_step(breakdown(run_of(rank), {0: {0: 10, 1: 60}}))
    assert got == parts(comm_wait=5 + 20, comm_transfer=5 + 10 + 20, host_bound=20, optimizer=20)


def test_a_call_from_another_thread_is_communication_only_where_the_loop_stands() -> None:
    rank = cpu()
    rank.collective(10, 60, span=rank.host(10, 20, name="c10d::allreduce_", thread=OTHER))
    rank.host(0, 40, "backward")
    assert only_step(breakdown(run_of(rank))) == parts(backward=40, comm_unsplit=20, host_bound=40)


def test_a_call_whose_collectives_end_is_not_recorded_counts_for_itself() -> None:
    rank = cpu()
    rank.collective(10, 10, span=rank.host(10, 20, name="c10d::allreduce_"))
    rank.collectives[0]["end_ns"] = None
    rank.host(60, 100, "forward")
    result = breakdown(run_of(rank), {0: {0: 5}})
    assert only_step(result) == parts(comm_unsplit=10, forward=40, host_bound=50)
    assert result.communication[0].total_ns == 0


def test_communication_hidden_behind_the_loader_is_exposed() -> None:
    rank = cpu()
    rank.collective(0, 60, span=rank.host(0, 10, name="c10d::allreduce_"))
    rank.host(10, 40, "input_wait", kind="annotation")
    rank.host(40, 100, "forward")
    (row,) = breakdown(run_of(rank)).communication
    assert (row.compute_ns, row.total_ns, row.hidden_ns, row.exposed_ns) == (60, 60, 20, 40)


def test_a_units_gather_blocks_for_as_long_as_the_loop_waits_for_it() -> None:
    rank = cpu()
    more: dict[str, Any] = {"op": "all_gather", "unit": "root", "pass": "backward"}
    rank.collective(0, 50, span=rank.host(0, 10, name="c10d::allgather_"), **more)
    rank.host(10, 30, "backward")
    rank.host(55, 100, "backward")
    assert breakdown(run_of(rank)).units == (UnitGather("root", "backward", gather_ns=50, hidden_ns=20, blocked_ns=20),)


def test_the_training_thread_is_the_busiest_where_the_reader_does_not_name_it() -> None:
    rank = cpu()
    rank.main_thread = None
    rank.host(0, 10, "forward", thread=LOOP)
    rank.host(20, 40, "forward", thread=LOOP)
    rank.host(0, 100, "backward", thread=OTHER)
    assert only_step(breakdown(run_of(rank))) == parts(forward=30, host_bound=70)


def test_a_gpu_rank_without_device_work_is_broken_down_by_its_host() -> None:
    rank = cpu()
    rank.device_kind = "cuda"
    rank.host(0, 60, "forward")
    assert only_step(breakdown(run_of(rank))) == parts(forward=60, host_bound=40)
