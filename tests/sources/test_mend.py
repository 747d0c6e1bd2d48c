"""Times that cannot be true: dropped, kept as points or clipped, always counted, never summed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stepscope
from stepscope.model import words
from stepscope.model.info import RankInfo
from tests.sources.make import BASE, device, gpu_trace, host, write

Parts = dict[str, int]


def explain(path: Path, *extra: dict[str, Any], start: int = BASE, **changed: Any) -> tuple[RankInfo, Parts, list[str]]:
    """A one-step trace with more events, or with `gemm` changed: its rank, parts and gaps."""
    document = gpu_trace(0, 1, steps=1, start=start)
    for event in document["traceEvents"]:
        if event["name"] == "gemm":
            event.update(changed)
            for key in [k for k, v in changed.items() if v is ...]:
                del event[key]
    document["traceEvents"] += extra
    with stepscope.read(write(path / "rank0.json", document)) as run:
        result = stepscope.breakdown(run)
        return run.info.ranks[0], result.steps[0].parts_ns, [g.why for g in run.info.gaps]


def test_sound_times_touch_nothing(tmp_path: Path) -> None:
    info, parts, gaps = explain(tmp_path)
    assert (info.repaired, info.dropped, info.clipped, gaps) == (0, 0, 0, [])
    assert parts["forward"] == 100_000


@pytest.mark.parametrize("ts", [0, None, "soon", 10**25, BASE - 10**12])
def test_an_event_without_a_usable_stamp_is_dropped_and_the_window_stays(tmp_path: Path, ts: Any) -> None:
    info, _, gaps = explain(tmp_path, device("lost", 99, ts, 3))
    assert info.dropped == 1
    assert info.windows == [info.windows[0]]
    assert info.windows[0][1] - info.windows[0][0] == 1_000_000
    assert "without a usable time stamp" in gaps[0]


def test_a_trace_whose_clock_starts_at_zero_keeps_its_first_event(tmp_path: Path) -> None:
    info, parts, _ = explain(tmp_path, start=0)
    assert (info.dropped, parts["forward"]) == (0, 100_000)


@pytest.mark.parametrize("dur", [..., None, -5, "nan"])
def test_an_unknown_duration_is_a_point_in_no_sum(tmp_path: Path, dur: Any) -> None:
    info, parts, gaps = explain(tmp_path, dur=dur)
    assert (info.dropped, parts["forward"]) == (1, 0)
    assert "absent or negative" in gaps[0]


@pytest.mark.parametrize("dur", [10**6, 2**32, 10**18])
def test_an_overflowed_kernel_is_cut_at_the_next_start_on_its_stream(tmp_path: Path, dur: int) -> None:
    info, parts, gaps = explain(tmp_path, dur=dur)
    assert info.clipped == 1
    assert parts["forward"] == 150_000  # from 180 to the next kernel of stream 7 at 330
    assert sum(parts.values()) == 1_000_000
    assert "overflowed" in gaps[0]


def test_an_overflowed_host_span_ends_with_the_window(tmp_path: Path) -> None:
    end = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": BASE + 1010}
    info, parts, _ = explain(tmp_path, host("aten::stuck", BASE + 990, 10**14), end)
    assert info.clipped == 1
    assert info.windows[0][1] - info.windows[0][0] == 1_010_000
    assert sum(parts.values()) == 1_000_000


def test_overlaps_of_a_few_microseconds_and_graph_kernels_are_left_alone(tmp_path: Path) -> None:
    near = device("close", 98, BASE + 275, 40)  # gemm ends at 280
    graph = [device(f"branch{i}", 77, BASE + 700 + i, 100, stream=30) for i in range(3)]
    info, parts, _ = explain(tmp_path, near, *graph)
    assert info.clipped == 0
    assert parts["forward"] == 100_000


def test_flags_say_which_span_was_touched(tmp_path: Path) -> None:
    document = gpu_trace(0, 1, steps=1)
    document["traceEvents"] += [device("endless", 97, BASE + 685, 10**9, stream=9), device("next", 96, BASE + 700, 5, stream=9)]
    document["traceEvents"] += [device("pointless", 95, BASE + 720, -1, stream=9)]
    with stepscope.read(write(tmp_path / "a.json", document)) as run:
        spans = run.tables(0).spans
        flag = {name: f for name, f in zip(spans["name"], spans["flags"], strict=True) if f}
        assert flag == {"endless": words.CLIPPED, "pointless": words.NO_DURATION}


@pytest.mark.parametrize("window_end", [True, False])
@pytest.mark.parametrize("seconds", [200, 5_000, 80_000])
def test_a_duration_far_beyond_the_window_is_cut_at_a_stream_end_too(tmp_path: Path, seconds: int, window_end: bool) -> None:
    document = gpu_trace(0, 1, steps=20)
    for event in document["traceEvents"]:
        if event["name"] == "adam_kernel":
            last = event
    last["dur"] = seconds * 1e6
    if window_end:
        stop = {"ph": "i", "name": "Record Window End", "ts": BASE + 21_000, "pid": "Spans", "tid": 0}
        document["traceEvents"].append(stop)
    with stepscope.read(write(tmp_path / "rank0.json", document)) as run:
        assert run.info.ranks[0].clipped == 1
        assert sum(s.duration_ns for s in stepscope.breakdown(run).steps) < 10**9
        assert max(end for _, end in run.info.ranks[0].windows) - min(start for start, _ in run.info.ranks[0].windows) < 10**9
