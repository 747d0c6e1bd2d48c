"""The timeline for Perfetto, read back: processes, lanes, nesting, one clock, waits, arrows, the same bytes every time."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stepscope
from stepscope.model.info import Clock, HostClock
from stepscope.model.place import Place
from stepscope.model.run import Run
from stepscope.model.words import NO_DURATION, PARTS
from stepscope.show import perfetto
from stepscope.show.perfetto import nesting, packets, protobuf
from tests.analysis.build import LOOP, OTHER, Rank, run_of
from tests.show import perfetto_reader
from tests.show.perfetto_reader import Drawn, Trace

ORIGIN = 1_700_000_000_000_000_000
AHEAD = 10_000  # ns that node2's clock shows more


def gpu_rank(rank: int, arrive: int, ahead: int = 0) -> Rank:
    """One step of 1000 ns: an operator in another, a kernel, an all-reduce that this rank joins at `arrive`."""
    made = Rank(rank, "cuda", windows=[(ahead, 1000 + ahead)])
    made.step(ahead, 1000 + ahead)
    made.host(10 + ahead, 90 + ahead, "forward", name="aten::linear")
    launch = made.host(20 + ahead, 30 + ahead, name="cudaLaunchKernel", kind="runtime")
    made.device(100 + ahead, 300 + ahead, "forward", launch=launch)
    kernel = made.device(arrive + ahead, 700 + ahead, kind="collective", stream=20)
    made.collective(arrive + ahead, 700 + ahead, span=kernel, stream=20, bytes=4096, match=5, expected=2, group="0", seq=17)
    return made


def job() -> Run:
    """Two ranks on two nodes; rank 1 comes last, on a clock that is ahead."""
    clock = Clock(True, 0, hosts={"node1": HostClock(), "node2": HostClock(AHEAD)})
    run = run_of(gpu_rank(0, 300), gpu_rank(1, 500, AHEAD), clock=clock, origin_ns=ORIGIN)
    for info, node in zip(run.info.ranks, ("node1", "node2"), strict=True):
        info.host, info.place = node, Place(node, 3)
    return run


def written(run: Run, packed: bool = False, ranks: Collection[int] | None = None, steps: Collection[int] | None = None) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.pftrace")
        perfetto.write(run, path, packed=packed, ranks=ranks, steps=steps)
        return path.read_bytes()


def trace_of(run: Run, **only: Any) -> Trace:
    return perfetto_reader.read(written(run, **only))


def times(slices: list[Drawn], origin: int = ORIGIN) -> list[tuple[str, int, int]]:
    return [(s.name, s.start - origin, s.end - origin) for s in slices]


ZERO = "rank 0 (node1/gpu3)"
ONE = "rank 1 (node2/gpu3)"


def test_a_process_per_rank_with_its_lanes_in_order() -> None:
    trace = trace_of(job())
    assert trace.processes == {ZERO: packets.FIRST_PROCESS, ONE: packets.FIRST_PROCESS + 1}
    common = ["training thread", "stream 7 compute", "stream 20 communication"]
    assert trace.lanes == {ZERO: ["steps and parts", "waits", *common], ONE: ["steps and parts", *common]}
    assert trace.clocks == [(6, ORIGIN), (1, ORIGIN)]


def test_what_was_recorded_stands_on_one_clock() -> None:
    trace = trace_of(job())
    for process in (ZERO, ONE):
        host = trace.of(process, "training thread")
        assert times(host) == [("aten::linear", 10, 90), ("cudaLaunchKernel", 20, 30)]
        assert [(s.depth, s.category) for s in host] == [(0, "op"), (1, "runtime")]
        assert times(trace.of(process, "stream 7 compute")) == [("kernel", 100, 300)]
    assert times(trace.of(ZERO, "stream 20 communication")) == [("collective", 300, 700)]
    assert times(trace.of(ONE, "stream 20 communication")) == [("collective", 500, 700)]


def test_the_step_and_its_parts() -> None:
    step, *parts = trace_of(job()).of(ZERO, "steps and parts")
    assert times([step]) == [("step 0", 0, 1000)]
    assert times(parts) == [
        ("host_bound", 0, 30),
        ("idle", 30, 100),
        ("forward", 100, 300),
        ("comm_wait", 300, 500),
        ("comm_transfer", 500, 700),
        ("host_bound", 700, 1000),
    ]
    assert {(s.depth, s.category) for s in parts} == {(1, "part")}


def test_waits_name_the_rank_and_arrows_lead_to_it() -> None:
    trace = trace_of(job())
    (wait,) = trace.of(ZERO, "waits")
    assert times([wait]) == [("wait for rank 1", 300, 500)]
    assert wait.arguments == {"bytes": 4096, "collective": 5, "group": "0", "operation": "all_reduce", "ranks": 2, "sequence": 17}
    ((source, target),) = trace.arrows()
    assert (source.process, target.process) == (ZERO, ONE)
    assert source.name == target.name == "collective"
    assert source.arguments["collective"] == target.arguments["collective"] == 5


def test_nobody_is_named_and_no_arrow_drawn_between_clocks_that_cannot_be_compared() -> None:
    run = job()
    run.info.clock = Clock(False, None, hosts={"node1": HostClock(component=0), "node2": HostClock(component=1)})
    trace = trace_of(run)
    assert trace.arrows() == []
    assert [s.name for s in trace.slices if s.category == "wait"] == ["wait"]  # the transfer needs no clocks


def test_an_absent_rank_leaves_the_communication_unsplit() -> None:
    trace = trace_of(run_of(gpu_rank(0, 300), world_size=2))
    assert "waits" not in trace.lanes["rank 0"]
    assert "comm_unsplit" in {s.name for s in trace.of("rank 0", "steps and parts")}


def test_arrows_of_many_ranks_end_at_the_last() -> None:
    late = {0: 300, 1: 420, 2: 310, 3: 420, 4: 305}
    ranks = [gpu_rank(rank, arrive) for rank, arrive in late.items()]
    for made in ranks:
        made.collectives[0]["expected"] = 5
    hosts = {f"rank {r}": HostClock() for r in late}
    trace = trace_of(run_of(*ranks, clock=Clock(True, 0, hosts=hosts)))
    arrows = [(s.process, t.process) for s, t in trace.arrows()]
    assert sorted(arrows) == [(f"rank {r}", "rank 3") for r in (0, 2, 4)]  # rank 1 came at the same time


def test_a_cpu_rank_waits_where_its_thread_stands() -> None:
    made = Rank(windows=[(0, 100)])
    made.step(0, 100)
    call = made.host(10, 20, name="c10d::allreduce_")
    made.collective(10, 60, span=call, match=0, expected=2)
    made.host(60, 90, "forward", name="aten::mm")
    trace = trace_of(run_of(made, world_size=2))
    assert times(trace.of("rank 0", "waits"), 0) == [("wait", 20, 60)]


def test_overlapping_slices_go_to_a_track_beside() -> None:
    made = Rank(device_kind="cuda", windows=[(0, 100)])
    made.step(0, 100)
    for start, end in ((0, 10), (5, 15), (12, 20), (14, 18)):
        made.device(start, end)
    drawn = trace_of(run_of(made)).of("rank 0", "stream 7 compute")
    assert sorted((s.start, s.end) for s in drawn) == [(0, 10), (5, 15), (12, 20), (14, 18)]
    assert len({s.track for s in drawn}) == 2


def test_points_and_what_finds_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "MOST_TRACKS", 2)
    made = Rank(windows=[(0, 100)])
    made.step(0, 100)
    made.host(5, 5, name="empty")
    made.host(7, 3, name="backwards")
    made.host(8, 50, name="without", flags=NO_DURATION)
    for start in (10, 11, 12):
        made.host(start, start + 20, name="long")
    drawn = trace_of(run_of(made)).of("rank 0", "training thread")
    assert {(s.name, s.start, s.end) for s in drawn if s.name != "long"} == {
        ("empty", 5, 5),
        ("backwards", 7, 7),
        ("without", 8, 8),
    }
    assert {(s.start, s.end, s.arguments.get("duration_ns")) for s in drawn if s.name == "long"} == {
        (10, 30, None),
        (11, 31, None),
        (12, 12, 20),
    }


def test_lanes_of_other_threads_and_streams() -> None:
    made = Rank(device_kind="cuda", windows=[(0, 100)])
    made.step(0, 100)
    made.host(0, 10, "forward", name="main")
    made.host(0, 50, "backward", name="autograd", thread=OTHER)
    for stream, kind in ((24, "kernel"), (7, "kernel"), (9, "memcpy"), (9, "memset"), (7, "sync"), (7, "overlay")):
        made.device(20 + stream, 22 + stream, kind=kind, stream=stream)
    lanes = trace_of(run_of(made)).lanes["rank 0"]
    streams = ["stream 7 compute", "stream 24 compute", "stream 9 copies", "stream 7 synchronization"]
    assert lanes == ["steps and parts", "training thread", *streams, f"thread {OTHER}"]
    assert LOOP != OTHER


def test_only_some_steps_and_ranks() -> None:
    made = []
    for rank in range(12):
        one = Rank(rank, windows=[(0, 300)])
        for step in range(3):
            one.step(100 * step, 100 * step + 100, complete=step < 2)
            one.host(100 * step, 100 * step + 50, "forward", name=f"op of {step}")
            one.spans[-1]["step"] = step
        made.append(one)
    trace = trace_of(run_of(*made), ranks=[2, 10], steps=[1, 2])
    assert list(trace.processes) == ["rank 02", "rank 10"]  # zeros: they sort by name
    assert {s.name for s in trace.slices if s.category in ("step", "op")} == {"step 1", "step 2 (cut)", "op of 1", "op of 2"}
    assert sum(s.end - s.start for s in trace.of("rank 02", "steps and parts") if s.category == "part") == 200


def test_names_from_strangers_are_harmless() -> None:
    made = Rank(windows=[(0, 100)])
    made.step(0, 100)
    for name in ("a\x1b]0;title\x07b\n\u202ec", "\x00", "\ud800x", "n" * 5000, "<b>&\u00e4\u4e2d"):
        made.host(1, 2, name=name.encode("utf-8", "replace").decode())
    run = run_of(made)
    run.info.ranks[0].host = "evil\x1b[2J\u202ehost"
    trace = trace_of(run)
    assert list(trace.processes) == ["rank 0 (evilhost)"]
    names = Counter(s.name for s in trace.of("rank 0 (evilhost)", "training thread"))
    assert names == Counter(["ab c", "?", "?x", "n" * packets.MOST_NAME, "<b>&\u00e4\u4e2d"])


def test_times_beyond_any_clock_stay_in_the_file() -> None:
    made = Rank(windows=[(0, 10)])
    made.step(0, 10)
    made.host(-(1 << 62) - 5, (1 << 62) + 5, name="endless")
    made.host(3, 4, name="real")
    for origin in (0, ORIGIN, 1 << 62):
        trace = trace_of(run_of(made, origin_ns=origin))
        assert {s.name for s in trace.slices} >= {"endless", "real"}
        assert all(0 <= s.start <= s.end < 1 << 63 for s in trace.slices)


def test_a_simulated_rank_says_so() -> None:
    assert list(trace_of(run_of(gpu_rank(0, 300), origin="simulated")).processes) == ["rank 0 (simulated)"]


def test_the_same_run_gives_the_same_bytes() -> None:
    assert written(job()) == written(job())
    packed = written(job(), packed=True)
    assert packed == written(job(), packed=True)
    assert gzip.decompress(packed) == written(job())
    assert packed[3:8] == bytes(5)  # no name, no date


slices = st.lists(st.tuples(st.integers(0, 60), st.integers(-2, 30), st.sampled_from(("op", "annotation"))), max_size=40)


@settings(max_examples=150, deadline=None)
@given(slices)
def test_whatever_overlaps_every_slice_is_read_back(recorded: list[tuple[int, int, str]]) -> None:
    made = Rank(windows=[(0, 100)])
    made.step(0, 100)
    for place, (start, length, kind) in enumerate(recorded):
        made.host(start, start + length, name=f"{place}", kind=kind)
    drawn = trace_of(run_of(made)).of("rank 0", "training thread")
    found = {int(s.name): s for s in drawn}
    assert len(found) == len(drawn) == len(recorded)
    for place, (start, length, kind) in enumerate(recorded):
        one = found[place]
        given_end = start + max(length, 0)
        assert (one.start, one.category) == (start, kind)
        assert one.end == given_end or one.arguments["duration_ns"] == length
    for one in drawn:
        if one.end > one.start:
            assert (
                sum(o.start <= one.start and one.end <= o.end and o.track == one.track for o in drawn if o.end > o.start)
                > one.depth
            )


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=20), st.integers(1, 5000))
def test_many_messages_at_once_are_the_messages_one_by_one(values: list[int], number: int) -> None:
    array = np.array(values, dtype=np.int64)
    rows = protobuf.messages(number, protobuf.integers(8, array), protobuf.fixed64s(47, np.stack([array, array], axis=1)))
    for row, value in zip(rows, values, strict=True):
        ((found, inner),) = perfetto_reader._pairs(row.tobytes())
        assert found == number
        assert list(perfetto_reader._pairs(inner)) == [(8, value), (47, value), (47, value)]
        one = protobuf.message(number, protobuf.integer(8, value), protobuf.text(2, "ä"))
        assert list(perfetto_reader._pairs(dict(perfetto_reader._pairs(one))[number])) == [(8, value), (2, "ä".encode())]


def test_chunks_make_no_difference(demo_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stepscope.read(demo_dir / "slow-rank") as run:
        whole = written(run, ranks=[2], steps=[5])
        monkeypatch.setattr(packets, "CHUNK", 1000)
        assert perfetto_reader.read(written(run, ranks=[2], steps=[5])).slices == perfetto_reader.read(whole).slices


def test_a_real_recording(demo_dir: Path) -> None:
    with stepscope.read(demo_dir / "slow-rank") as run:
        data = written(run)
        spans = {t.info.rank: t.spans for t in run}
        result = stepscope.breakdown(run)
    trace = perfetto_reader.read(data)
    for rank, (process, lanes) in enumerate(trace.lanes.items()):
        assert process.startswith(f"rank {rank}")
        assert lanes[:3] == ["steps and parts", "waits", "training thread"]
        recorded = [s for s in trace.slices if s.process == process and s.category not in ("step", "part", "wait")]
        assert len(recorded) == spans[rank].filter(spans[rank]["kind"] != "overlay").height
        totals = Counter[str]()
        for part in trace.of(process, "steps and parts"):
            totals[part.name] += part.end - part.start
        for part_name in PARTS:
            assert totals[part_name] == sum(s.parts_ns[part_name] for s in result.steps if s.rank == rank)
    known = [c for c in result.collectives if c.last_rank is not None]
    targets = Counter((t.arguments["collective"], t.process.split()[1]) for _, t in trace.arrows())
    assert len(known) > 50
    for collective in known:
        assert targets[collective.id, str(collective.last_rank)] == collective.n_ranks - 1
    named = {s.name for s in trace.slices if s.category == "wait"}
    assert named <= {"wait", *(f"wait for rank {r}" for r in range(4))}


def test_perfettos_own_definitions_read_it(demo_dir: Path) -> None:
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the package perfetto is absent")
    unknown = pytest.importorskip("google.protobuf.unknown_fields").UnknownFieldSet
    trace = protos.Trace()
    with stepscope.read(demo_dir / "slow-rank") as run:
        data = written(run, steps=[5])
        trace.ParseFromString(data)
    ours = perfetto_reader.read(data)
    kinds = Counter(p.track_event.type for p in trace.packet if p.HasField("track_event"))
    assert kinds[1] + kinds[3] == len(ours.slices)
    assert kinds[1] == kinds[2]
    for packet in trace.packet:
        assert len(unknown(packet)) == 0
        for inside in ("track_event", "track_descriptor", "interned_data"):
            assert len(unknown(getattr(packet, inside))) == 0
