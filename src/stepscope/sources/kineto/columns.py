"""Batches of events to columns: the only place that touches events one by one, and only in comprehensions.

Rows are complete ('X') events. Metadata rows name threads and devices, instants carry memory samples; both leave by
side doors. Rare arguments (collectives, shapes of communication) are taken only from rows that have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np
import polars as pl

from stepscope.sources.kineto import stamps
from stepscope.sources.kineto.document import Batch
from stepscope.sources.kineto.event import ABSENT, STAMPS, AnyEvent, Args, Event, Instant, Meta, OldInstant, Value
from stepscope.sources.kineto.vendors import CATEGORY

KIND_CODE: Final = {kind: code for code, kind in enumerate(dict.fromkeys(CATEGORY.values()))}
KINDS: Final = tuple(KIND_CODE)
UNKNOWN: Final = len(KINDS)
_CODE: Final = {category: KIND_CODE[kind] for category, kind in CATEGORY.items()}
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
Kinds = np.ndarray[tuple[int], np.dtype[np.uint8]]
_SIDE_DOORS: Final = frozenset((Meta, Instant, OldInstant))
MAX_ID: Final = (1 << 64) - 1
ABSENT_ID: Final = int(np.iinfo(np.int64).min)

# Only rows of these kinds carry the arguments; of the others they are not even asked for.
_ARGUMENTS_OF: Final = (
    (("correlation",), ("runtime", "kernel", "memcpy", "memset", "sync")),
    (("stream", "device"), ("kernel", "memcpy", "memset", "sync", "overlay")),
    (("bytes",), ("memcpy", "memset")),
    (("external_id",), ("op", "annotation", "runtime", "kernel", "memcpy", "memset")),
    (("sequence", "forward_thread", "flops"), ("op",)),
)
_CARRIERS: Final = tuple(
    (names, np.array([*(kind in kinds for kind in KINDS), True], dtype=np.bool_)) for names, kinds in _ARGUMENTS_OF
)
_ARGUMENTS: Final = tuple(name for names, _ in _ARGUMENTS_OF for name in names)
# Operators whose tensor sizes are read: those of a collective, and matrix products. All others are skipped.
PRODUCT: Final = r"^aten::(?:mm|addmm|bmm|baddbmm|_scaled_mm|_grouped_mm|_int_mm)$"
_WITH_SHAPES: Final = rf"^(?:c10d::|_c10d_functional::|record_param_comms|(?:nccl|gloo|rccl|hccl|ucc|mpi|xccl):)|{PRODUCT}"


@dataclass(slots=True)
class Shape:
    """Sizes of one communication call as the trace gives them: raw JSON of dims and types."""

    dims: bytes
    types: bytes


@dataclass(slots=True)
class Columns:
    """Grows by `add`; `frame` gives all rows. Times are ns on the file's clock, before `baseTimeNanoseconds`."""

    frames: list[pl.DataFrame] = field(default_factory=list)
    height: int = 0
    threads: dict[tuple[Value, Value], str] = field(default_factory=dict)
    labels: dict[Value, str] = field(default_factory=dict)
    process_texts: dict[str, int] = field(default_factory=dict)
    window_end: int | None = None
    oversized: int = 0  # numbers beyond 64 bits
    merged: bool = False  # rows say of which rank they are
    memory: list[tuple[int, Value, Value]] = field(default_factory=list)
    collectives: dict[int, Args] = field(default_factory=dict)
    shapes: dict[int, Shape] = field(default_factory=dict)
    syncs: dict[int, Args] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    unknown_categories: set[str] = field(default_factory=set)
    own_ranks: set[int] = field(default_factory=set)
    total: int = 0

    def add(self, batch: Batch) -> None:
        """Takes one batch of events."""
        events = batch.events
        self.total += len(events)
        rows = [e for e in events if type(e) is Event]
        if len(rows) < len(events):
            self._others(events)
        if not rows:
            return
        written = _written(batch)
        args = [e.args for e in rows]
        kinds = self._kinds(rows)
        names = _texts([e.name for e in rows])
        self._rare(names, kinds, args)
        columns: dict[str, pl.Series | Ints] = {
            "name": names,
            "pid": self._processes([e.pid for e in rows]),
            "tid": self._ints([e.tid for e in rows]),
            "start": stamps.to_ns([e.ts for e in rows], lambda: written("ts")),
            "lasted": stamps.to_ns([e.dur for e in rows], lambda: written("dur")),
        }
        for arguments, carries in _CARRIERS:
            own = np.flatnonzero(carries[kinds])
            given = [args[i] for i in own.tolist()]
            for name in arguments:
                columns[name] = self._scattered(len(rows), own, _values(given, name))
        if batch.raw is None or self.frames == [] or self.merged:
            ranks = self._ints([a.rank for a in args])
            self.merged = self.merged or ranks.null_count() < len(ranks)
        else:
            ranks = pl.Series([None], dtype=pl.Int64).new_from_index(0, len(rows))
        mended = np.array([e.mended for e in rows]) if batch.raw is None else np.zeros(len(rows), dtype=np.bool_)
        self.frames.append(pl.DataFrame({"kind": kinds, **columns, "rank": ranks, "mended": mended}))
        self.height += len(rows)

    def frame(self) -> pl.DataFrame | None:
        """All rows in the file's order; None where there are none."""
        if not self.frames:
            return None
        whole = pl.concat(self.frames, rechunk=True)
        self.frames = []
        return whole.with_columns(pl.when(pl.col(c) != ABSENT_ID).then(c).alias(c) for c in _ARGUMENTS)

    def _ints(self, values: Sequence[Value]) -> pl.Series:
        """Int64, null where absent or not a whole number; ids of 64 bits keep their bits, longer ones are left out."""
        try:
            return pl.Series(values, dtype=pl.Int64)
        except (TypeError, OverflowError, pl.exceptions.PolarsError):
            cache = {v: _int(v) for v in set(values)}
            self.oversized += sum(isinstance(v, int) and abs(v) > MAX_ID for v in values)
            return pl.Series([cache[v] for v in values], dtype=pl.Int64)

    def _scattered(self, height: int, rows: Ints, values: list[Value]) -> Ints:
        """A column of that height with the values at their rows, ABSENT_ID elsewhere."""
        column = np.full(height, ABSENT_ID, dtype=np.int64)
        if len(rows):
            column[rows] = self._ints(values).fill_null(ABSENT_ID).to_numpy()
        return column

    def _processes(self, pids: Sequence[Value]) -> pl.Series:
        """Process ids; one that is a text (`Spans`, `rank3_pid77`) gets a negative number and keeps its text."""
        if isinstance(pids[0], int) and pids.count(pids[0]) == len(pids):
            return (
                pl.Series([pids[0]], dtype=pl.Int64).new_from_index(0, len(pids)) if abs(pids[0]) < 1 << 62 else self._ints(pids)
            )
        try:
            return pl.Series(pids, dtype=pl.Int64)
        except (TypeError, OverflowError, pl.exceptions.PolarsError):
            pass
        code: dict[Value, int | None] = {}
        for pid in set(pids):
            code[pid] = _int(pid)
            if code[pid] is None and isinstance(pid, str):
                code[pid] = self.process_texts.setdefault(pid, -2 - len(self.process_texts))
        return pl.Series([code[pid] for pid in pids], dtype=pl.Int64)

    def _kinds(self, rows: list[Event]) -> Kinds:
        categories = [e.cat for e in rows]
        known = {c: _CODE.get(c.lower(), UNKNOWN) if c else UNKNOWN for c in set(categories)}
        self.unknown_categories.update(c for c, code in known.items() if code == UNKNOWN and c)
        return np.array([known[c] for c in categories], dtype=np.uint8)

    def _rare(self, names: pl.Series, kinds: Kinds, args: list[Args]) -> None:
        base = self.height
        for at in [i for i, a in enumerate(args) if a.collective is not None]:
            self.collectives[base + at] = args[at]
            rank = args[at].own_rank
            if isinstance(rank, int) and 0 <= rank < 1 << 24:
                self.own_ranks.add(rank)
        for at in np.flatnonzero(kinds == KIND_CODE["sync"]).tolist():
            if args[at].wait_on_stream is not None:
                self.syncs[base + at] = args[at]
        for at in names.str.contains(_WITH_SHAPES).arg_true().to_list():
            dims = bytes(args[at].dims) or bytes(args[at].dims_old)
            if dims:
                self.shapes[base + at] = Shape(dims, bytes(args[at].types) or b"[]")
        ids = [a.comms_id for a in args if a.comms_id is not None]
        self.oversized += sum(isinstance(i, int) and i > MAX_ID for i in ids)
        if "shapes" not in self.seen and any(a.dims is not ABSENT or a.dims_old is not ABSENT for a in args):
            self.seen.add("shapes")
        if "call_stacks" not in self.seen and any(a.stack is not ABSENT for a in args):
            self.seen.add("call_stacks")

    def _others(self, events: list[AnyEvent]) -> None:
        aside = [e for e in events if type(e) in _SIDE_DOORS]
        for meta in [e for e in aside if isinstance(e, Meta)]:
            if meta.name == "thread_name" and meta.args.name is not None:
                self.threads[meta.pid, meta.tid] = str(meta.args.name)
            elif meta.name == "process_labels" and meta.args.labels is not None:
                self.labels[meta.pid] = str(meta.args.labels)
            elif meta.name == "process_name" and meta.args.name is not None:
                self.labels.setdefault(meta.pid, str(meta.args.name))
        instants = [e for e in aside if isinstance(e, Instant)]
        for event in [e for e in instants if e.name == "Record Window End"]:
            end = int(stamps.to_ns([event.ts], lambda: None)[0])
            self.window_end = None if end == stamps.NOT_A_TIME else end
        samples = [e for e in instants if e.args.size is not None]
        if samples:
            times = stamps.to_ns([e.ts for e in samples], lambda: None)
            self.memory += [(int(t), e.args.total, e.args.device) for t, e in zip(times, samples, strict=True)]


class _written:
    def __init__(self, batch: Batch) -> None:
        self.raw = batch.raw
        self.rows: list[tuple[bytes, bytes]] | None = None

    def __call__(self, key: str) -> list[bytes] | None:
        if self.raw is None:
            return None
        if self.rows is None:
            try:
                self.rows = [(bytes(s.ts), bytes(s.dur)) for s in STAMPS.decode(self.raw) if s.ph == "X"]
            except msgspec.MsgspecError:
                return None
        return [row[0] if key == "ts" else row[1] for row in self.rows]


def _texts(values: Sequence[Value]) -> pl.Series:
    try:
        return pl.Series(values, dtype=pl.String)
    except (TypeError, pl.exceptions.PolarsError):
        return pl.Series(["" if v is None else str(v) for v in values], dtype=pl.String)


def _values(args: list[Args], name: str) -> list[Value]:
    """One argument of each row. Profilers before 2022 wrote External id in lower case on device and runtime rows."""
    values: list[Value] = list(map(attrgetter(name), args))
    if name == "external_id" and None in values:
        return [a.external_id_old if v is None else v for v, a in zip(values, args, strict=True)]
    return values


def _int(value: Value) -> int | None:
    if isinstance(value, str):
        text = value.strip().removeprefix("stream ")
        try:
            value = int(text, 16 if text.lower().startswith("0x") else 10) if len(text) < 40 else None
        except ValueError:
            return None
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    if value is None or not -(1 << 63) <= value < 1 << 64:
        return None
    return value - (1 << 64) if value >= 1 << 63 else value
