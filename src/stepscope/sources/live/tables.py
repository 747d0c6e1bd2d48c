"""The tables of one rank from what its recorder noted: spans named as a profiler names them, so that one set of rules reads both.

Loader, forward, backward, optimizer and saves are ranges of the training thread; a collective is the call in which the thread
stood, inside a range that names its FSDP unit. Windows between events of a device's stream are kernels of that phase, with the
launch that began them; what the device did inside such a window is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stepscope.model import segment
from stepscope.model.info import Gap, Group, RankInfo
from stepscope.model.segment import CHECKPOINT, COLLECTIVE, COMMUNICATION, DEVICE, GARBAGE, INPUT, SPAN, STEP
from stepscope.model.spans import ATTRIBUTION, COLLECTIVES, EDGES, SIGNALS, SPANS, RankTables, conform, empty
from stepscope.model.words import LANES, PASSES
from stepscope.sources.kineto.nesting import nest
from stepscope.sources.live.segments import Process

Ints = NDArray[np.int64]
MARKS: Final = (("^checkpoint: ", "checkpoint"),)
STREAM: Final = 7  # of the device's work; the number means nothing


@dataclass(slots=True)
class RankRead:
    """A rank's tables (attribution still empty), its groups and what is missing."""

    tables: RankTables
    groups: list[Group]
    gaps: list[Gap]


@dataclass(frozen=True, slots=True)
class Placed:
    """A process, what is added to its times to be on the run's clock (ns), and to its step numbers."""

    process: Process
    shift: int
    first_step: int


def rank_tables(rank: int, own: Sequence[Placed]) -> RankRead:
    """All processes of one rank, one after the other."""
    pieces = [_Piece(placed, own[0].process.head.main_thread) for placed in own]
    spans = pl.concat([piece.spans() for piece in pieces]).sort(
        "start_ns", "end_ns", descending=[False, True], maintain_order=True
    )
    spans = spans.with_columns(id=pl.int_range(pl.len(), dtype=pl.Int64), flags=pl.lit(0, dtype=pl.UInt8))
    host = (spans["lane"] == "host").to_numpy()
    start, end = spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy()
    parent = nest(start, end, spans["thread"].fill_null(0).to_numpy(), host).parent
    spans = spans.with_columns(parent=pl.when(pl.Series(parent) >= 0).then(pl.Series(parent)))
    collectives = _numbered(pl.concat([piece.collectives() for piece in pieces]), spans, rank)
    owner = np.full(spans.height, -1, dtype=np.int64)
    owner[collectives["span"].to_numpy()] = collectives["id"].to_numpy()
    spans = spans.with_columns(collective_id=pl.when(pl.Series(owner) >= 0).then(pl.Series(owner)))
    head = own[0].process.head
    info = RankInfo(
        rank=rank,
        identified_by="recorder",
        files=[name for placed in own for name in placed.process.files],
        host=head.host,
        device=head.device if any(len(p.process.rows[DEVICE]) for p in own) else "cpu",
        device_name=head.device_name or None,
        main_thread=head.main_thread,
        windows=[piece.window() for piece in pieces],
        events=sum(len(rows) for placed in own for rows in placed.process.rows.values()),
        dropped=sum(placed.process.dropped for placed in own),
        recorded=_recorded(spans, collectives),
        versions=head.versions,
    )
    signals = pl.concat([piece.signals() for piece in pieces])
    launches = _launches(spans)
    tables = RankTables(info, conform(spans, SPANS), launches, empty(ATTRIBUTION), conform(collectives, COLLECTIVES), signals)
    groups = {g.name: Group(g.name, _axis(g.description), tuple(g.ranks)) for p in own for g in p.process.groups.values()}
    return RankRead(tables, list(groups.values()), _gaps(rank, own))


class _Piece:
    """The rows of one process as frames on the run's clock. `key` links a collective to its span."""

    def __init__(self, placed: Placed, main_thread: int) -> None:
        self.main_thread = main_thread  # of the rank's first process: the loop's thread is one, whatever restarts it
        self.process, self.shift, self.first_step = placed.process, placed.shift, placed.first_step
        self.collective_rows = _latest(self.process.rows[COLLECTIVE], (6, 7))

    def spans(self) -> pl.DataFrame:
        """Host ranges, calls with their units, step markers, device windows; unsorted, without ids."""
        found = [self._steps(), self._ranges(), self._units(), self._calls(), self._windows()]  # of equal ones the outer first
        columns = ("thread", "lane", "stream", "start_ns", "end_ns", "kind", "name", "bytes", "key")
        return pl.concat([frame.select(_typed(frame, columns)) for frame in found])

    def _ranges(self) -> pl.DataFrame:
        rows = self.process.rows[SPAN]
        kind = np.where(np.isin(rows[:, 1], (INPUT, CHECKPOINT)), "annotation", np.where(rows[:, 1] == GARBAGE, "python", "op"))
        return self._frame(rows[:, 2], rows[:, 3], rows[:, 4], kind, [self.process.name(n) for n in rows[:, 5].tolist()])

    def _calls(self) -> pl.DataFrame:
        rows = self.collective_rows
        start, end = self._standing()
        names = [f"c10d::{self.process.name(n)}" for n in rows[:, 8].tolist()]
        frame = self._frame(rows[:, 1], start, end, np.full(len(rows), "op"), names)
        size = pl.Series(rows[:, 10])
        return frame.with_columns(bytes=pl.when(size >= 0).then(size), key=pl.Series(self._keys(), dtype=pl.String))

    def _units(self) -> pl.DataFrame:
        rows, (start, end) = self.collective_rows, self._standing()
        named = np.flatnonzero(rows[:, 11] >= 0)
        names = [f"FSDP::{self.process.name(rows[i, 8])} ({self.process.name(rows[i, 11])})" for i in named]
        return self._frame(rows[named, 1], start[named], end[named], np.full(len(named), "annotation"), names)

    def _steps(self) -> pl.DataFrame:
        rows = self.step_rows()
        names = [f"ProfilerStep#{number + self.first_step}" for number in rows[:, 1].tolist()]
        thread = np.full(len(rows), self.process.head.main_thread)
        return self._frame(thread, rows[:, 2], rows[:, 3], np.full(len(rows), "annotation"), names)

    def _windows(self) -> pl.DataFrame:
        rows = self.process.rows[DEVICE]
        kind = np.where(rows[:, 1] == COMMUNICATION, "collective", "kernel")
        frame = self._frame(
            np.zeros(len(rows), dtype=np.int64), rows[:, 2], rows[:, 3], kind, [self.process.name(n) for n in rows[:, 4].tolist()]
        )
        return frame.with_columns(lane=pl.lit("device"), thread=pl.lit(None, dtype=pl.Int64), stream=pl.lit(STREAM))

    def step_rows(self) -> Ints:
        """Steps in order of time, of each number the last that was told."""
        rows = _latest(self.process.rows[STEP], (1,))
        return rows[np.argsort(rows[:, 2], kind="stable")]

    def _standing(self) -> tuple[Ints, Ints]:
        """When the thread stood in each collective: its wait, or the whole call; of one without an end the issue alone."""
        rows = self.collective_rows
        waited = rows[:, 4] >= 0
        return np.where(waited, rows[:, 4], rows[:, 2]), np.where(waited, rows[:, 5], rows[:, 3])

    def _keys(self) -> list[str]:
        at = f"{self.process.head.attempt}.{self.process.head.pid}"
        return [f"{at}.{group}.{sequence}" for group, sequence in self.collective_rows[:, 6:8].tolist()]

    def collectives(self) -> pl.DataFrame:
        """By COLLECTIVES, in order of arrival, with `key` for the span; sequence numbers of a restart are told apart."""
        rows = self.collective_rows
        name = self.process.name
        attempt = self.process.head.attempt
        groups = {n: g.name + (f" (restart {attempt})" if attempt else "") for n, g in self.process.groups.items()}
        sizes = {n: len(g.ranks) or None for n, g in self.process.groups.items()}
        end = np.where(rows[:, 5] < 0, -1, np.where(rows[:, 13] == 1, rows[:, 5], np.maximum(rows[:, 4], rows[:, 3])))
        frame = pl.DataFrame(
            {
                "group": pl.Series([groups.get(g) for g in rows[:, 6].tolist()], dtype=pl.String),
                "seq": rows[:, 7],
                "op": pl.Series([name(n) for n in rows[:, 8].tolist()], dtype=pl.String),
                "dtype": pl.Series([name(n) or None for n in rows[:, 9].tolist()], dtype=pl.String),
                "bytes": rows[:, 10],
                "group_size": pl.Series([sizes.get(g) for g in rows[:, 6].tolist()], dtype=pl.Int64),
                "arrive_ns": rows[:, 2] + self.shift,
                "end_ns": np.where(end < 0, -1, end + self.shift),
                "pass": pl.Series([PASSES[p] if p in (0, 1) else None for p in rows[:, 12].tolist()], dtype=pl.Enum(PASSES)),
                "key": pl.Series(self._keys(), dtype=pl.String),
                "ended": end >= 0,
            }
        )
        return frame.with_columns(
            bytes=pl.when(pl.col("bytes") >= 0).then("bytes"), end_ns=pl.when(pl.col("ended")).then("end_ns")
        ).sort("arrive_ns", maintain_order=True)

    def signals(self) -> pl.DataFrame:
        """Samples by SIGNALS. What is the rank's own stands under `rank N`, the machine's under its name."""
        head, name = self.process.head, self.process.name
        scopes = {"rank": f"rank {head.rank}", "host": head.host, "gpu": f"{head.host}/gpu{head.local_rank}"}
        rows: list[tuple[Any, ...]] = []
        for sample in self.process.samples:
            for scope, metric, unit, value in sample.values:
                of = scopes.get(name(scope), f"{head.host}/{name(scope).partition(':')[2]}")
                rows.append((sample.time_ns + self.shift, of, name(metric), value, name(unit), "recorder"))
        steps = self.step_rows()
        peak = steps[steps[:, 5] >= 0]
        rows += [
            (t + self.shift, scopes["rank"], "memory_allocated", float(v), "bytes", "recorder")
            for t, v in peak[:, (3, 5)].tolist()
        ]
        return pl.DataFrame(rows, schema=SIGNALS, orient="row")

    def window(self) -> tuple[int, int]:
        """From the first to the last thing noted."""
        times = [
            rows[:, c]
            for kind, c in ((SPAN, 3), (SPAN, 4), (COLLECTIVE, 2), (STEP, 2), (STEP, 3))
            if len(rows := self.process.rows[kind])
        ]
        known = np.concatenate(times) if times else np.array([self.process.head.monotonic_ns])
        return int(known.min()) + self.shift, int(known.max()) + self.shift

    def _frame(self, thread: Ints, start: Ints, end: Ints, kind: Any, names: list[str]) -> pl.DataFrame:
        return pl.DataFrame(
            {
                "thread": np.where(thread == self.process.head.main_thread, self.main_thread, thread),
                "start_ns": start + self.shift,
                "end_ns": np.maximum(end, start) + self.shift,
                "kind": pl.Series(kind, dtype=pl.String),
                "name": pl.Series(names, dtype=pl.String),
                "lane": pl.Series([LANES[0]] * len(start), dtype=pl.String),
            }
        )


def _typed(frame: pl.DataFrame, columns: Sequence[str]) -> list[pl.Expr]:
    types = {**SPANS, "key": pl.String}
    return [(pl.col(c) if c in frame.columns else pl.lit(None)).cast(types[c]).alias(c) for c in columns]


def _latest(rows: Ints, keys: tuple[int, ...]) -> Ints:
    """Of the rows with the same keys the last that was written."""
    if not len(rows):
        return rows
    order = np.arange(len(rows))[::-1]
    _, first = np.unique(rows[order][:, keys], axis=0, return_index=True)
    return rows[np.sort(order[first])]


def _numbered(frame: pl.DataFrame, spans: pl.DataFrame, rank: int) -> pl.DataFrame:
    """Ids, and the row of each one's span."""
    place = spans.filter(pl.col("key").is_not_null()).select("key", span="id")
    frame = frame.join(place, on="key", how="left", maintain_order="left").with_columns(
        id=pl.int_range(pl.len(), dtype=pl.Int64), rank=pl.lit(rank, dtype=pl.Int64)
    )
    return frame.with_columns(call=pl.col("span"))


def _launches(spans: pl.DataFrame) -> pl.DataFrame:
    """A device window was begun by the host range of the same name that began last before it."""
    windows = spans.filter(pl.col("lane") == "device").select("id", "name", "start_ns")
    if not windows.height:
        return empty(EDGES)
    hosts = spans.filter(pl.col("lane") == "host").select("name", "start_ns", source="id").sort("start_ns")
    joined = windows.sort("start_ns").join_asof(hosts, on="start_ns", by="name", strategy="backward").drop_nulls("source")
    return conform(joined.select("source", target="id").with_columns(kind=pl.lit("launch")), EDGES)


def _recorded(spans: pl.DataFrame, collectives: pl.DataFrame) -> dict[str, bool]:
    names = spans["name"].unique()
    return {
        "device_kernels": bool((spans["lane"] == "device").any()), "launches": False, "correlation": False, "operators": True,
        "sequence_numbers": False, "evaluate_function": bool((names == "## backward ##").any()),
        "forward_ranges": bool(names.str.contains(r"forward").any()), "module_frames": False, "python_stacks": False,
        "shapes": False, "memory": False, "flops": False, "step_markers": bool(names.str.starts_with("ProfilerStep#").any()),
        "loader": bool(names.str.starts_with("enumerate(DataLoader)#").any()),
        "optimizer_ranges": bool(names.str.starts_with("Optimizer.step#").any()), "saves": True,
        "collectives": collectives.height > 0, "collective_metadata": True, "collective_sequence": True, "group_ranks": True,
        "units": bool(names.str.starts_with("FSDP::").any()), "warmup": True, "complete_window": True, "stream_sync": False,
    }  # fmt: skip


def _axis(description: str) -> str | None:
    """`mesh_dp_shard` is the mesh's axis dp_shard; other descriptions of torch name none."""
    return description.removeprefix("mesh_") if description.startswith("mesh_") else None


def _gaps(rank: int, own: Sequence[Placed]) -> list[Gap]:
    gaps = []
    for placed in own:
        process = placed.process
        gaps += [Gap(what, (rank,), why) for what, why in dict.fromkeys(_losses(process))]
        if process.first_part > 1:
            gaps.append(Gap("older steps removed", (rank,), "the rank's segments were larger than --keep: the newest were kept"))
        if not process.ended and not process.damaged:
            gaps.append(Gap("recording without an end", (rank,), "the process is still running, or was killed"))
        for stall in process.stalls:
            waited = (stall.time_ns - stall.since_ns) / 1e9
            under = f"; under way: {stall.pending[0]}" if stall.pending else ""
            gaps.append(
                Gap("stall", (rank,), f"no progress for {waited:.0f} s{under}; see {', '.join(stall.files)} in {segment.STALLS}/")
            )
        if process.dropped:
            gaps.append(Gap("damaged rows", (rank,), "rows that no recorder writes were left out"))
    if len(own) > 1:
        gaps.append(
            Gap("restarts", (rank,), f"{len(own)} processes of this rank, one after the other; what was between them is lost")
        )
    bounded = any((p.process.rows[COLLECTIVE][:, 13] == 0).any() for p in own)
    if bounded:
        gaps.append(
            Gap("ends of some collectives", (rank,), "they were done before anybody waited for them: their end is an upper bound")
        )
    if (unseen := _unseen(own)) is not None:
        gaps.append(unseen)
    if any(len(p.process.rows[DEVICE]) for p in own):
        why = "events stand around whole phases and waits: kernels, gaps between them and the transfers are not told apart"
        gaps.append(Gap("what the device did inside a phase", (rank,), why))
    if any("DistributedDataParallel.forward" in p.process.names.values() for p in own):
        why = "torch issues them itself: of a backward's all-reduces only what the thread stood for is recorded, as one"
        gaps.append(Gap("DDP's buckets", (rank,), why))
    return gaps


def _losses(process: Process) -> Iterator[tuple[str, str]]:
    """What could not be kept, each kind as a gap's words."""
    for loss in process.lost:
        match loss.what:
            case segment.DAMAGE:
                yield "damaged segment", loss.why
            case segment.METRICS:
                yield "metrics not served", loss.why
            case _ if loss.rows > 0:
                yield "rows not written", f"{loss.why}; what was noted then is lost"


def _unseen(own: Sequence[Placed]) -> Gap | None:
    """Collectives that torch counted and no hook saw: issued by C++, as DDP's buckets and compiled graphs are."""
    issued = seen = 0
    for placed in own:
        name = placed.process.name
        last: dict[str, float] = {}
        for sample in placed.process.samples:
            last.update({name(metric): value for scope, metric, _, value in sample.values if name(scope) == "rank"})
        if "collectives_issued" in last:
            issued, seen = issued + round(last["collectives_issued"]), seen + round(last["collectives_seen"])
    if issued <= seen:
        return None
    return Gap(
        "collectives not seen",
        (own[0].process.head.rank,),
        f"{issued - seen} of {issued} were issued by torch itself, where no hook is",
    )
