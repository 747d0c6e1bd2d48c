"""Batches of events to columns: the only place that touches events one by one, and only in comprehensions.

Rows are complete ('X') events. Metadata rows name threads and devices, instants carry memory samples; both leave by
side doors. Rare arguments (collectives, shapes of communication) are taken only from rows that have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
import polars as pl

from stepscope.sources.kineto import stamps
from stepscope.sources.kineto.document import Batch
from stepscope.sources.kineto.event import NO_ARGS, STAMPS, Args, Event, Value
from stepscope.sources.kineto.vendors import CATEGORY

KIND_CODE: Final = {kind: code for code, kind in enumerate(dict.fromkeys(CATEGORY.values()))}
KINDS: Final = tuple(KIND_CODE)
UNKNOWN: Final = len(KINDS)
_CODE: Final = {category: KIND_CODE[kind] for category, kind in CATEGORY.items()}
_SIDE_DOORS: Final = ("M", "i", "I")  # flows (s, f) only repeat what ids say
# Calls whose tensor sizes are a collective's: the shapes of all other operators are skipped.
_WITH_SHAPES: Final = r"^(?:c10d::|_c10d_functional::|record_param_comms|(?:nccl|gloo|rccl|hccl|ucc|mpi|xccl):)"


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
    memory: list[tuple[int, Value, Value, Value]] = field(default_factory=list)
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
        rows = [e for e in events if e.ph == "X"]
        if len(rows) < len(events):
            self._others([e for e in events if e.ph in _SIDE_DOORS])
        if not rows:
            return
        written = _written(batch)
        start = stamps.to_ns([e.ts for e in rows], lambda: written("ts"))
        lasted = stamps.to_ns([e.dur for e in rows], lambda: written("dur"))
        args = [e.args for e in rows]
        kinds = self._kinds(rows)
        names = _texts([e.name for e in rows])
        self._rare(names, args)
        frame = pl.DataFrame(
            {
                "kind": kinds,
                "name": names,
                "pid": self._processes([e.pid for e in rows]),
                "tid": _ints([e.tid for e in rows]),
                "start": start,
                "lasted": lasted,
                "correlation": _ints([a.correlation for a in args]),
                "stream": _ints([a.stream for a in args]),
                "device": _ints([a.device for a in args]),
                "external_id": self._external([a.external_id for a in args], args),
                "sequence": _ints([a.sequence for a in args]),
                "forward_thread": _ints([a.forward_thread for a in args]),
                "bytes": _ints([a.bytes for a in args]),
                "flops": _ints([a.flops for a in args]),
                "rank": _ints([a.rank for a in args]),
                "mended": pl.Series([e.mended for e in rows], dtype=pl.Boolean),
            }
        )
        self.frames.append(frame)
        self.height += frame.height

    def frame(self) -> pl.DataFrame | None:
        """All rows in the file's order; None where there are none."""
        return pl.concat(self.frames, rechunk=True) if self.frames else None

    def _external(self, values: list[Value], args: list[Args]) -> pl.Series:
        """External ids; profilers before 2022 wrote them in lower case on device and runtime rows."""
        if values.count(None) and any(a.external_id_old is not None for a in args):
            values = [a.external_id_old if v is None else v for v, a in zip(values, args, strict=True)]
        return _ints(values)

    def _processes(self, pids: Sequence[Value]) -> pl.Series:
        """Process ids; one that is a text (`Spans`, `rank3_pid77`) gets a negative number and keeps its text."""
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

    def _kinds(self, rows: list[Event]) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        categories = [e.cat for e in rows]
        known = {c: _CODE.get(c.lower(), UNKNOWN) if c else UNKNOWN for c in set(categories)}
        self.unknown_categories.update(c for c, code in known.items() if code == UNKNOWN and c)
        return np.array([known[c] for c in categories], dtype=np.uint8)

    def _rare(self, names: pl.Series, args: list[Args]) -> None:
        base = self.height
        for at in [i for i, a in enumerate(args) if a.collective is not None or a.group is not None]:
            self.collectives[base + at] = args[at]
            rank = args[at].own_rank
            if isinstance(rank, int) and 0 <= rank < 1 << 24:
                self.own_ranks.add(rank)
        for at in [i for i, a in enumerate(args) if a.wait_on_stream is not None]:
            self.syncs[base + at] = args[at]
        for at in names.str.contains(_WITH_SHAPES).arg_true().to_list():
            dims = bytes(args[at].dims) or bytes(args[at].dims_old)
            if dims:
                self.shapes[base + at] = Shape(dims, bytes(args[at].types) or b"[]")
        if "shapes" not in self.seen and any(bytes(a.dims) or bytes(a.dims_old) for a in args):
            self.seen.add("shapes")
        if "call_stacks" not in self.seen and any(bytes(a.stack) for a in args):
            self.seen.add("call_stacks")

    def _others(self, events: list[Event]) -> None:
        for event in [e for e in events if e.ph == "M" and e.args is not NO_ARGS]:
            if event.name == "thread_name" and event.args.name is not None:
                self.threads[event.pid, event.tid] = str(event.args.name)
            elif event.name == "process_labels" and event.args.labels is not None:
                self.labels[event.pid] = str(event.args.labels)
            elif event.name == "process_name" and event.args.name is not None:
                self.labels.setdefault(event.pid, str(event.args.name))
        for event in [e for e in events if e.name == "Record Window End"]:
            end = int(stamps.to_ns([event.ts], lambda: None)[0])
            self.window_end = None if end == stamps.NOT_A_TIME else end
        samples = [e for e in events if e.ph in ("i", "I") and e.args.memory_bytes is not None]
        if samples:
            times = stamps.to_ns([e.ts for e in samples], lambda: None)
            self.memory += [
                (int(t), e.args.memory_bytes, e.args.memory_total, e.args.memory_device)
                for t, e in zip(times, samples, strict=True)
            ]


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


def _ints(values: Sequence[Value]) -> pl.Series:
    """Int64, null where absent or not a whole number; ids of 64 bits keep their bits."""
    try:
        return pl.Series(values, dtype=pl.Int64)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        cache = {v: _int(v) for v in set(values)}
        return pl.Series([cache[v] for v in values], dtype=pl.Int64)


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
