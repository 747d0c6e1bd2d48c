"""The breakdown as a whole: against the definition instant by instant, and what must hold of every run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analysis.breakdown import breakdown
from stepscope.model import store
from stepscope.model.info import Gap, Group, RunInfo
from stepscope.model.run import load
from stepscope.model.words import DEVICE_WORK, NO_DURATION, PARTS
from tests.analysis.build import LOOP, OTHER, Rank, parts, run_of
from tests.analysis.reference import parts_of

END = 40
TIMES = st.tuples(st.integers(-3, END + 3), st.integers(0, 12)).map(lambda t: (t[0], t[0] + t[1]))
HOST_PARTS = (None, "input_wait", "checkpoint", "forward", "backward", "optimizer")


@st.composite
def ranks(draw: st.DrawFn) -> tuple[Rank, dict[int, int]]:
    """A rank of one to three steps with anything in it, and the transfers known of its collectives."""
    rank = Rank(rank=draw(st.integers(0, 3)), device_kind=draw(st.sampled_from(("cpu", "cuda"))))
    edges = sorted(draw(st.sets(st.integers(1, END - 1), max_size=2)) | {0, END})
    for start, end in pairwise(edges):
        rank.step(start, end)
    rank.windows.append((-5, END + 20))
    hosts = []
    for start, end in draw(st.lists(TIMES, max_size=8)):
        flags = draw(st.sampled_from((0, 0, 0, NO_DURATION)))
        thread, part = draw(st.sampled_from((LOOP, LOOP, OTHER))), draw(st.sampled_from(HOST_PARTS))
        hosts.append(rank.host(start, end, part, thread=thread, flags=flags))
    if rank.device_kind == "cuda":
        for start, end in draw(st.lists(TIMES, max_size=8)):
            kind = draw(st.sampled_from(DEVICE_WORK))
            part = draw(st.sampled_from((None, "copy") if kind in ("memcpy", "memset") else (None, "forward", "backward")))
            launch = draw(st.none() | st.sampled_from(hosts)) if hosts else None
            span = rank.device(start, end, part, kind=kind, launch=launch)
            if kind == "collective" and end > start and draw(st.booleans()):
                rank.collective(start, end, span=span, stream=7)
    else:
        for start, end in draw(st.lists(TIMES, max_size=4)):
            rank.collective(start, end, span=draw(st.none() | st.sampled_from(hosts)) if hosts else None)
    known = draw(st.sets(st.integers(0, max(len(rank.collectives) - 1, 0)))) if rank.collectives else set()
    return rank, {row: draw(st.integers(0, 15)) for row in sorted(known)}


@st.composite
def tidy(draw: st.DrawFn) -> tuple[Rank, dict[int, int]]:
    """The same without ties: no two spans or collectives begin together, so that every rule has one answer."""
    rank, transfers = draw(ranks())
    begun: set[int] = set()
    keep = []
    for place, span in enumerate(rank.spans):
        if span["start_ns"] not in begun:
            begun.add(span["start_ns"])
            keep.append(place)
    new = {old: place for place, old in enumerate(keep)}
    rank.spans = [rank.spans[old] for old in keep]
    rank.edges = [
        {**e, "source": new[e["source"]], "target": new[e["target"]]}
        for e in rank.edges
        if e["source"] in new and e["target"] in new
    ]
    seen: set[tuple[str, Any]] = set()
    collectives: list[dict[str, Any]] = []
    known: dict[int, int] = {}
    for row, c in enumerate(rank.collectives):
        marks = {("span", c["span"]), ("end", c["end_ns"]), ("arrive", c["arrive_ns"])} - {("span", None)}
        if seen & marks or (c["span"] is not None and c["span"] not in new):
            continue
        seen |= marks
        if row in transfers:
            known[len(collectives)] = transfers[row]
        collectives.append({**c, "span": new.get(c["span"])})
    rank.collectives = collectives
    return rank, known


@settings(max_examples=300, deadline=None)
@given(tidy())
def test_parts_are_those_of_the_definition(drawn: tuple[Rank, dict[int, int]]) -> None:
    rank, transfers = drawn
    result = breakdown(run_of(rank), {rank.rank: transfers})
    for step, found in zip(rank.steps, result.steps, strict=True):
        assert found.parts_ns == parts(**parts_of(rank, step.start_ns, step.end_ns, transfers))


@settings(deadline=None)
@given(ranks())
def test_parts_sum_to_the_step_and_none_is_negative(drawn: tuple[Rank, dict[int, int]]) -> None:
    rank, transfers = drawn
    for step in breakdown(run_of(rank), {rank.rank: transfers}).steps:
        assert tuple(step.parts_ns) == PARTS
        assert sum(step.parts_ns.values()) == step.duration_ns
        assert min(step.parts_ns.values()) >= 0


@settings(deadline=None)
@given(ranks())
def test_exposed_and_hidden_sum_to_the_communication(drawn: tuple[Rank, dict[int, int]]) -> None:
    (row,) = breakdown(run_of(drawn[0])).communication
    assert row.exposed_ns + row.hidden_ns == row.total_ns <= row.window_ns
    assert row.hidden_ns <= row.compute_ns <= row.window_ns


@settings(deadline=None)
@given(ranks(), st.integers(-(2**40), 2**60))
def test_a_later_clock_changes_nothing(drawn: tuple[Rank, dict[int, int]], shift: int) -> None:
    rank, transfers = drawn
    known = {rank.rank: transfers}
    assert breakdown(run_of(rank.tables(shift=shift)), known) == breakdown(run_of(rank), known)


@settings(deadline=None)
@given(ranks(), st.randoms())
def test_the_order_of_rows_changes_no_part(drawn: tuple[Rank, dict[int, int]], random: Random) -> None:
    rank, _ = drawn
    order = list(range(len(rank.spans)))
    random.shuffle(order)
    shuffled, written = breakdown(run_of(rank.tables(order))), breakdown(run_of(rank))
    assert [s.parts_ns for s in shuffled.steps] == [s.parts_ns for s in written.steps]
    assert shuffled.communication == written.communication


@settings(deadline=None)
@given(ranks(), ranks())
def test_the_order_of_ranks_only_orders_the_rows(a: tuple[Rank, dict[int, int]], b: tuple[Rank, dict[int, int]]) -> None:
    a[0].rank, b[0].rank = 0, 1
    there, back = breakdown(run_of(a[0], b[0])), breakdown(run_of(b[0], a[0]))
    assert sorted(there.steps, key=lambda s: (s.rank, s.step)) == sorted(back.steps, key=lambda s: (s.rank, s.step))
    assert sorted(there.communication, key=lambda c: c.rank) == sorted(back.communication, key=lambda c: c.rank)
    assert there.units == back.units


@settings(deadline=None)
@given(ranks())
def test_the_naive_sum_is_never_below_the_union_of_what_it_adds(drawn: tuple[Rank, dict[int, int]]) -> None:
    rank, _ = drawn
    work = [s for s in rank.spans if s["kind"] in DEVICE_WORK and not s["flags"] & NO_DURATION]
    for step in breakdown(run_of(rank)).steps:
        window = range(rank.steps[step.step].start_ns, rank.steps[step.step].end_ns)
        assert step.naive_ns >= sum(any(s["start_ns"] <= t < s["end_ns"] for s in work) for t in window)


def test_without_markers_there_is_one_step_the_whole_window() -> None:
    rank = Rank()
    rank.windows += [(10, 40), (60, 100)]
    rank.host(10, 30, "forward")
    (step,) = breakdown(run_of(rank)).steps
    assert (step.step, step.duration_ns, step.parts_ns) == (0, 90, parts(forward=20, host_bound=70))


def test_a_rank_that_recorded_nothing_has_no_steps() -> None:
    result = breakdown(run_of(Rank()))
    assert result.steps == ()
    assert result.communication[0].window_ns == 0


def test_groups_and_gaps_are_the_runs_own_and_unmatched_collectives_stand_alone() -> None:
    rank = Rank()
    rank.step(0, 50)
    rank.collective(0, 10, step=0, op="all_gather", bytes=64, group="1", group_size=4)
    group, gap = Group("1", "fsdp", (0, 1, 2, 3)), Gap("ranks", (1, 2, 3), "no file")
    result = breakdown(run_of(rank, groups=[group], gaps=[gap]))
    assert (result.groups, result.gaps) == ((group,), (gap,))
    (entry,) = result.collectives
    assert (entry.id, entry.step, entry.group, entry.op, entry.bytes, entry.n_ranks) == (0, 0, "1", "all_gather", 64, 4)
    assert (entry.wait_ns, entry.transfer_ns, entry.last_rank) == (None, None, None)


def test_a_run_on_disk_gives_the_same_answer(tmp_path: Path) -> None:
    rank = Rank(device_kind="cuda")
    rank.step(0, 100)
    rank.windows.append((0, 100))
    kernel = rank.device(40, 80, kind="collective", stream=9, launch=rank.host(0, 10, kind="runtime"))
    rank.collective(40, 80, span=kernel, stream=9)
    tables = rank.tables()
    store.save_rank(tmp_path, tables)
    store.save_info(tmp_path, RunInfo(ranks=[tables.info], world_size=1), collectives=tables.collectives)
    assert breakdown(load(tmp_path)) == breakdown(run_of(tables))


def test_ids_that_point_nowhere_are_not_followed() -> None:
    rank = Rank(device_kind="cuda")
    rank.step(0, 100)
    rank.device(40, 80, kind="collective", stream=9)
    rank.collective(40, 80, span=99, stream=9)
    tables = rank.tables()
    tables.spans = tables.spans.with_columns(pl.lit(7, dtype=pl.Int64).alias("parent"))
    tables.edges = pl.concat(
        [tables.edges, pl.DataFrame({"source": [0, -4], "target": [12, 0], "kind": ["launch"] * 2}, schema=tables.edges.schema)]
    )
    (step,) = breakdown(run_of(tables)).steps
    assert step.parts_ns == parts(comm_unsplit=40, idle=40, host_bound=20)


def test_frame_and_table_of_the_result() -> None:
    rank = Rank()
    rank.step(0, 1_000_000)
    rank.step(1_000_000, 4_000_000)
    rank.step(4_000_000, 4_000_010, complete=False)
    rank.host(0, 3_000_000, "forward")
    result = breakdown(run_of(rank))
    frame = result.frame()
    assert frame.columns == ["rank", "step", "duration_ns", *(f"{part}_ns" for part in PARTS), "naive_ns", "complete"]
    assert frame["forward_ns"].to_list() == [1_000_000, 2_000_000, 0]
    rows = {row[0]: row[1:] for row in result.table().rows}
    assert rows["forward"] == (1.5, 75.0, 1.5, 1.95)
    assert rows["step"] == (2.0, 100.0, 2.0, 2.9)
    assert result.table().notes == ("2 rank-steps, 1 cut ones left out",)
    assert "<table>" in result._repr_html_()
