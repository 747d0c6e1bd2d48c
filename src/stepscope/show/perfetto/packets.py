"""Lanes to Perfetto's trace packets: one process per rank, a track per lane, slices as begins and ends, arrows as flows.

The packets of a lane are one sequence, whose names are written once and referred to by number. Field numbers are those of
protos/perfetto/trace/ of the Perfetto project: trace_packet.proto, track_event/track_event.proto, track_descriptor.proto,
process_descriptor.proto, debug_annotation.proto, interned_data/interned_data.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Final

import numpy as np
import polars as pl

from stepscope.show import safe
from stepscope.show.perfetto.nesting import Track, tracks
from stepscope.show.perfetto.protobuf import IntArray, Rows, fixed64s, integer, integers, message, messages, repeated, text
from stepscope.show.perfetto.slices import NUMBERS, TEXTS, Lane

CHUNK: Final = 1 << 17  # events encoded at once: some 30 MB
MOST_NAME: Final = 2_000  # characters; C++ writes kernels' names of many thousand
FIRST_PROCESS: Final = 1_000_000  # number of rank 0's process: no number of an operating system, and not taken for a rank

BEGIN, END, POINT = 1, 2, 3  # TrackEvent.Type
_STARTS: Final = 3  # sequence_flags: this packet clears what was known, and needs what it brings
_NEEDS: Final = 2  # sequence_flags: refers to names
_EXPLICIT: Final = 3  # TrackDescriptor.child_ordering: by sibling_order_rank
_BOOTTIME, _REALTIME = 6, 1  # builtin_clock.proto

ARGUMENTS: Final = (*TEXTS, *NUMBERS)  # numbered from 1
DURATION: Final = ARGUMENTS.index("duration_ns") + 1
ARRIVES: Final = len(ARGUMENTS) + 2  # in a shape, the place above the bits


class TraceWriter:
    """Writes a trace rank by rank. `origin_ns`: the file's times are ns since 1970 (None: since a zero of their own)."""

    def __init__(self, file: IO[bytes], origin_ns: int | None) -> None:
        self._file = file
        self._sequence = 1  # of packets; the first one has the clocks
        self._track = 0
        if origin_ns is not None:
            clocks = (message(1, integer(1, clock), integer(2, origin_ns)) for clock in (_BOOTTIME, _REALTIME))
            self._write(message(6, *clocks, integer(2, _BOOTTIME)))

    def rank(self, rank: int, name: str, lanes: Iterable[Lane]) -> int:
        """Writes one rank's lanes, in their order; returns how many slices those are."""
        self._sequence += 1
        process = message(3, integer(1, FIRST_PROCESS + rank), integer(3, rank), text(6, safe.terminal(name)))
        parent = self._describe(process, integer(11, _EXPLICIT))
        count = 0
        for order, lane in enumerate(lanes):
            self._sequence += 1
            events = self._events(lane.slices)
            for rows, ends in events.tracks():
                track = self._describe(integer(5, parent), text(2, safe.terminal(lane.name)), integer(12, order))
                for at in range(0, len(rows), CHUNK):
                    self._file.write(events.encode(rows[at : at + CHUNK], ends[at : at + CHUNK], track))
            count += lane.slices.height
        return count

    def _events(self, slices: pl.DataFrame) -> Events:
        """The slices with numbers in place of names, which are written."""
        names, kinds = Numbering(slices["name"]), Numbering(slices["category"])
        values = Numbering(*(slices[column] for column in TEXTS))
        interned = [
            *(message(1, entry) for entry in kinds.entries()),
            *(message(2, entry) for entry in names.entries()),
            *(message(3, integer(1, i), text(2, column)) for i, column in enumerate(ARGUMENTS, 1)),
            *(message(29, entry) for entry in values.entries()),
        ]
        self._write(message(12, *interned), integer(13, _STARTS))
        return Events.of(slices, self._sequence, names, kinds, values)

    def _describe(self, *fields: bytes) -> int:
        """Writes a new track and returns its number."""
        self._track += 1
        self._write(message(60, integer(1, self._track), *fields))
        return self._track

    def _write(self, *fields: bytes) -> None:
        self._file.write(message(1, integer(10, self._sequence), *fields))


class Numbering:
    """Numbers from 1 for the texts of some columns, in order of the text."""

    def __init__(self, *columns: pl.Series) -> None:
        self.texts = pl.concat([column.unique() for column in columns]).drop_nulls().unique().sort()
        self._kind = pl.Enum(self.texts)

    def of(self, column: pl.Series) -> IntArray:
        """The number of each text, 0 for null."""
        return column.cast(self._kind).to_physical().cast(pl.Int64).fill_null(-1).to_numpy() + 1

    def entries(self) -> Iterator[bytes]:
        """Number and text, harmless, as the fields of a message."""
        for number, value in enumerate(self.texts.to_list(), 1):
            yield integer(1, number) + text(2, safe.terminal(value[:MOST_NAME]) or "?")


@dataclass(slots=True, eq=False)
class Events:
    """The slices of one lane as arrays. `shape` says which fields a slice has: equal shapes are encoded together."""

    sequence: int
    start: IntArray
    end: IntArray
    name: IntArray
    kind: IntArray
    arguments: dict[int, IntArray]  # by number, those that any slice has; -1 where a slice has none
    leaves: IntArray
    first: IntArray
    arrives: IntArray
    shape: IntArray

    @classmethod
    def of(cls, slices: pl.DataFrame, sequence: int, names: Numbering, kinds: Numbering, values: Numbering) -> Events:
        def numbers(column: str, absent: int = 0) -> IntArray:
            return slices[column].fill_null(absent).to_numpy().copy()

        arguments = {}
        for number, column in enumerate(ARGUMENTS, 1):
            if slices[column].null_count() < slices.height:
                codes = values.of(slices[column]) if column in TEXTS else numbers(column, -1)
                arguments[number] = np.where(codes > 0, codes, -1) if column in TEXTS else np.maximum(codes, -1)
        found = cls(
            sequence=sequence,
            start=numbers("start"),
            end=numbers("end"),
            name=names.of(slices["name"]),
            kind=kinds.of(slices["category"]),
            arguments=arguments,
            leaves=numbers("leaves"),
            first=numbers("first"),
            arrives=numbers("arrives"),
            shape=numbers("start"),
        )
        found._shapes()
        return found

    def tracks(self) -> Iterator[Track]:
        """The events of each track; points, and slices for which no track has room, stand on the first."""
        long = np.flatnonzero(self.end > self.start)
        found, left = tracks(self.start[long], self.end[long])
        points = np.sort(np.append(np.flatnonzero(self.end <= self.start), long[left]))
        if len(left):
            lengths = np.full(len(self.start), -1, dtype=np.int64)
            lengths[long[left]] = (self.end - self.start)[long[left]]
            self.arguments[DURATION] = lengths
            self.end[long[left]] = self.start[long[left]]
            self._shapes()
        first, *others = found or [(long[:0], np.zeros(0, dtype=bool))]
        yield np.append(long[first[0]], points), np.append(first[1], np.zeros(len(points), dtype=bool))
        yield from ((long[rows], ends) for rows, ends in others)

    def encode(self, rows: IntArray, ends: np.ndarray, track: int) -> bytes:
        """The packets of these events, in their order."""
        shape = np.where(ends, -1, self.shape[rows])
        kinds, group = np.unique(shape, return_inverse=True)
        encoded = [self._encode(rows[group == i], int(kind), track) for i, kind in enumerate(kinds)]
        length = np.array([e.shape[1] for e in encoded], dtype=np.int64)[group]
        at = np.cumsum(length) - length
        out = np.empty(int(length.sum()), dtype=np.uint8)
        for i, part in enumerate(encoded):
            out[at[group == i][:, None] + np.arange(part.shape[1])] = part
        return out.tobytes()

    def _encode(self, rows: IntArray, shape: int, track: int) -> Rows:
        """Events of one shape; -1 is an end."""
        count = len(rows)
        whose = integer(10, self.sequence)
        if shape < 0:
            event = message(11, integer(9, END), integer(11, track))
            return messages(1, integers(8, self.end[rows]), repeated(whose + event, count))
        kind = POINT if shape & 1 else BEGIN
        fields = [
            repeated(integer(9, kind) + integer(11, track), count),
            integers(10, self.name[rows]),
            integers(3, self.kind[rows]),
        ]
        if shape & 2:
            fields.append(fixed64s(47, self.leaves[rows][:, None]))
        for number, column in self.arguments.items():
            if shape >> number & 2:
                value = integers(17 if number <= len(TEXTS) else 3, column[rows])
                fields.append(messages(4, repeated(integer(1, number), count), value))
        if arrives := shape >> ARRIVES:
            fields.append(fixed64s(48, self.first[rows][:, None] + np.arange(arrives)))
        return messages(1, integers(8, self.start[rows]), repeated(whose + integer(13, _NEEDS), count), messages(11, *fields))

    def _shapes(self) -> None:
        """Bits: a point, an arrow leaves, each argument; above them the number of arrows that arrive."""
        shape = (self.end <= self.start).astype(np.int64) | (self.leaves > 0).astype(np.int64) << 1
        for number, column in self.arguments.items():
            shape |= (column >= 0).astype(np.int64) << (number + 1)
        self.shape = shape | self.arrives << ARRIVES
