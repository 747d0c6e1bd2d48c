"""From a trace file to the parts of its step, by closed form: every number below follows from the drawing in `make`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stepscope
from stepscope.model.breakdown import Breakdown
from stepscope.model.words import PARTS
from tests.sources.make import BASE, COMM, COMPUTE, ENGINE, MAIN, device, gpu_trace, host, launch, write

Json = dict[str, Any]


def explain(folder: Path, *documents: Json, marks: tuple[tuple[str, str], ...] = ()) -> Breakdown:
    """The breakdown of one trace file per document."""
    for rank, document in enumerate(documents):
        write(folder / f"rank{rank}.json", document)
    with stepscope.read(folder, marks=marks) as run:
        return stepscope.breakdown(run)


def us(result: Breakdown, step: int = 0) -> dict[str, float]:
    """Parts of a step in µs, those that are 0 left out."""
    return {part: ns / 1000 for part, ns in result.steps[step].parts_ns.items() if ns}


def test_one_step_of_a_gpu_rank(tmp_path: Path) -> None:
    result = explain(tmp_path, gpu_trace(0, 1, steps=1))
    assert us(result) == {
        # 0-130 no device work: loader 10-110, else host-bound until the copy's launch returns at 130
        # 130-170 the batch's copy
        "input_wait": 100 + 40,
        # 0-10, 110-130; 280-325 until gemm_backward's launch returns; 630-670 until adam's; 730-1000 nothing follows
        "host_bound": 10 + 20 + 45 + 40 + 270,
        # 170-180 gemm launched at 170 already; 325-330; 670-680
        "idle": 10 + 5 + 10,
        "forward": 100,
        "backward": 200,
        "comm_transfer": 100,  # 480-630, of which 480-530 is hidden behind gemm_backward; alone in its group: no wait
        "optimizer": 50,
    }
    (communication,) = result.communication
    assert (communication.compute_ns, communication.total_ns) == (350_000, 150_000)
    assert (communication.exposed_ns, communication.hidden_ns) == (100_000, 50_000)
    assert result.steps[0].duration_ns == 1_000_000
    assert result.steps[0].naive_ns > 1_000_000


def test_the_last_step_ends_with_its_marker_and_others_with_the_next(tmp_path: Path) -> None:
    document = gpu_trace(0, 1, steps=3)
    for event in document["traceEvents"]:
        if event["name"].startswith("ProfilerStep#"):
            event["dur"] = 900
    result = explain(tmp_path, document)
    assert [(s.step, s.duration_ns) for s in result.steps] == [(1, 1_000_000), (2, 1_000_000), (3, 900_000)]


def test_two_streams_the_earliest_started_kernel_owns_the_instant(tmp_path: Path) -> None:
    document = gpu_trace(0, 1, steps=1)
    own = host("Optimizer.step#Muon.step", BASE + 200, 20, "user_annotation")
    document["traceEvents"] += [own, launch(90, BASE + 205), device("muon", 90, BASE + 230, 120, stream=9)]
    parts = us(explain(tmp_path, document))
    assert parts["forward"] == 100  # gemm 180-280 began first
    assert parts["optimizer"] == 50 + 70  # muon owns 280-350 only
    assert parts["backward"] == 200 - 20  # gemm_backward 330-530 owns from 350


def test_collectives_without_their_peers_stay_unsplit(tmp_path: Path) -> None:
    parts = us(explain(tmp_path, gpu_trace(0, 8, steps=1)))
    assert parts["comm_unsplit"] == 100
    assert "comm_wait" not in parts
    assert "comm_transfer" not in parts


def test_with_both_ranks_the_wait_is_told_from_the_transfer(tmp_path: Path) -> None:
    late = gpu_trace(1, 2, steps=1)
    for event in late["traceEvents"]:
        if event["name"].startswith("ncclDevKernel"):
            event["ts"] += 80
            event["dur"] -= 80
    result = explain(tmp_path, gpu_trace(0, 2, steps=1), late)
    # own durations 150 and 70 µs: transfer 70, rank 0 waits 480-560, of which 480-530 is behind its backward kernel
    assert [us(result, 0)[p] for p in ("comm_wait", "comm_transfer")] == [30, 70]
    assert (us(result, 1).get("comm_wait", 0), us(result, 1)["comm_transfer"]) == (0, 70)


def test_copies_of_the_batch_are_input_and_others_are_copies(tmp_path: Path) -> None:
    document = gpu_trace(0, 1, steps=1)
    document["traceEvents"] += [
        host("aten::item", BASE + 740, 40), launch(90, BASE + 745, 30, name="cudaMemcpyAsync"),
        device("Memcpy DtoH (Device -> Pageable)", 90, BASE + 750, 20, cat="gpu_memcpy"),
        host("aten::full", BASE + 175, 8), launch(91, BASE + 177, name="cudaMemcpyAsync"),
        device("Memcpy HtoD (Pageable -> Device)", 91, BASE + 290, 10, cat="gpu_memcpy"),
    ]  # fmt: skip
    parts = us(explain(tmp_path, document))
    assert parts["copy"] == 20 + 10  # the loss to the host; a constant copied in the middle of forward
    assert parts["input_wait"] == 140


def test_a_save_is_found_by_its_python_frame_or_by_a_mark(tmp_path: Path) -> None:
    for name, frame, marks in (
        ("frame", host("torch/serialization.py(950): save", BASE + 740, 200, "python_function"), ()),
        ("mark", host("save my model", BASE + 740, 200, "user_annotation"), (("save my", "checkpoint"),)),
    ):
        document = gpu_trace(0, 1, steps=1)
        document["traceEvents"] += [
            frame, host("aten::copy_", BASE + 750, 30), launch(90, BASE + 755, name="cudaMemcpyAsync"),
            device("Memcpy DtoH (Device -> Pageable)", 90, BASE + 760, 20, cat="gpu_memcpy"),
        ]  # fmt: skip
        parts = us(explain(tmp_path / name, document, marks=marks))
        assert parts["checkpoint"] == 200
        assert "copy" not in parts
        assert parts["host_bound"] == 385 - 200


def test_a_nested_loader_and_marks_for_phases_of_ones_own(tmp_path: Path) -> None:
    document = gpu_trace(0, 1, steps=1)
    document["traceEvents"] += [
        host("my_batch_fn", BASE + 740, 100, "user_annotation"),
        host("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", BASE + 750, 50, "user_annotation"),
    ]
    assert us(explain(tmp_path / "a", document))["input_wait"] == 140 + 50
    assert us(explain(tmp_path / "b", document, marks=((r"my_batch", "input"),)))["input_wait"] == 140 + 100


def test_recomputation_in_backward_is_backward_with_a_flag(tmp_path: Path) -> None:
    document = gpu_trace(0, 1, steps=1)
    document["traceEvents"] += [
        host("nn.Module: Block_0", BASE + 340, 40, "python_function", ENGINE),
        host("aten::gelu", BASE + 345, 10, tid=ENGINE),
        launch(90, BASE + 348, tid=ENGINE), device("gelu_again", 90, BASE + 540, 30),
    ]  # fmt: skip
    write(tmp_path / "rank0.json", document)
    with stepscope.read(tmp_path) as run:
        tables = run.tables(0)
        row = tables.spans["name"].to_list().index("gelu_again")
        assert tables.attribution.select("phase", "recompute").row(row) == ("backward", True)
        row = tables.spans["name"].to_list().index("gemm_backward")
        assert tables.attribution.select("phase", "recompute").row(row) == ("backward", False)


def test_old_traces_are_told_apart_by_order_and_say_so(tmp_path: Path) -> None:
    document = gpu_trace(0, 1, steps=1)
    document["traceEvents"] = [
        {**e, "args": {k: v for k, v in e["args"].items() if k not in ("Sequence number", "Fwd thread id")}}
        for e in document["traceEvents"]
        if not e["name"].startswith(("autograd::engine", "DistributedDataParallel"))
    ]
    write(tmp_path / "rank0.json", document)
    with stepscope.read(tmp_path) as run:
        assert "phase by order" in {g.what for g in run.info.gaps}
        parts = us(stepscope.breakdown(run))
    assert (parts["forward"], parts["backward"], parts["optimizer"]) == (100, 200, 50)


def cpu_trace() -> Json:
    """Two steps of a CPU rank with an asynchronous gloo gather: call 200-210, worker 205-400, thread stands 250-420."""
    note, events = "user_annotation", []
    for k in (0, 1):
        at = BASE + 1000 * k
        events += [
            host(f"ProfilerStep#{k}", at, 1000, note),
            host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 0, 50, note),
            host("aten::stack", at + 10, 20),
            host("FSDP::pre_forward (layers.0)", at + 100, 330, note),
            host("FSDP::all_gather (layers.0)", at + 190, 230, note),
            host("c10d::_allgather_base_", at + 200, 10, **{"Input Dims": [[100], [50]], "Input type": ["float", "float"]}),
            host("aten::empty", at + 202, 3),
            host("gloo:all_gather", at + 205, 195, note, tid=7, **{"Input Dims": [[50]], "Input type": ["float"]}),
            host("aten::cat", at + 210, 40),
            host("aten::copy_", at + 420, 10),
            host("aten::mm", at + 440, 100, **{"Sequence number": k}),
            host("FSDP::post_forward (layers.0)", at + 560, 5, note),
            host("autograd::engine::evaluate_function: MmBackward0", at + 600, 200, **{"Sequence number": k}),
            host("Optimizer.step#AdamW.step", at + 850, 100, note),
            host("aten::add_", at + 860, 50),
        ]
    return {"distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 2}, "traceEvents": events}


def test_a_cpu_rank_counts_its_training_thread_alone(tmp_path: Path) -> None:
    result = explain(tmp_path, cpu_trace())
    expected = {
        "input_wait": 50,
        # cat 210-250 and copy_ 420-430 lie between pre_ and post_forward, mm is linked by its number
        "forward": 40 + 10 + 100,
        "comm_unsplit": 10 + 150,  # the call, and standing from 250 to the worker's end at 400
        "backward": 200,
        "optimizer": 50,
        # 50-200, 400-420 waking up, 430-440, 540-600, 800-860, 910-1000
        "host_bound": 150 + 20 + 10 + 60 + 60 + 90,
    }
    assert [us(result, 0), us(result, 1)] == [expected, expected]
    (units,) = result.units
    assert (units.unit, units.pass_, units.gather_ns, units.hidden_ns, units.blocked_ns) == (
        "layers.0",
        "forward",
        200_000,
        40_000,
        150_000,
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_runs_the_parts_are_exclusive_and_sum_to_the_step(tmp_path: Path, data: st.DataObject) -> None:
    document = gpu_trace(0, 1, steps=2)
    names = st.sampled_from(["gemm", "ncclDevKernel_AllGather", "Memcpy DtoD", "elementwise"])
    for i in range(data.draw(st.integers(0, 12))):
        name, at, dur = data.draw(names), data.draw(st.integers(0, 1900)), data.draw(st.integers(0, 400))
        stream = data.draw(st.sampled_from([COMPUTE, COMM, 33]))
        cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        document["traceEvents"] += [launch(500 + i, BASE + max(0, at - 9), tid=data.draw(st.sampled_from([MAIN, ENGINE])))]
        document["traceEvents"] += [device(name, 500 + i, BASE + at, dur, stream, cat)]
    result = explain(tmp_path, document)
    for step in result.steps:
        assert set(step.parts_ns) == set(PARTS)
        assert min(step.parts_ns.values()) >= 0
        assert sum(step.parts_ns.values()) == step.duration_ns
    shifted = {**document, "traceEvents": [{**e, "ts": e["ts"] + 7_000_001} for e in document["traceEvents"]]}
    again = explain(tmp_path, shifted)
    assert again.steps == result.steps
    assert again.communication == result.communication


@pytest.mark.parametrize("vendor", ["cuda", "hip"])
def test_vendors_are_told_by_their_runtime(tmp_path: Path, vendor: str) -> None:
    document = gpu_trace(0, 1, steps=1)
    for event in document["traceEvents"]:
        event["name"] = event["name"].replace("cuda", vendor)
    write(tmp_path / "rank0.json", document)
    with stepscope.read(tmp_path) as run:
        assert run.info.ranks[0].device == vendor
