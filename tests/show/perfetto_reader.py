"""Perfetto traces read back, written from the format's description alone: wire format, interned names, stacks, flows.

It does what Perfetto's trace processor does with them: packets in order of time (those of one time in order of the file), a
stack per track, an arrow from a flow's last slice to its next. Source: https://perfetto.dev/docs/reference/synthetic-track-event
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Fields = dict[int, list[Any]]

BEGIN, END, POINT = 1, 2, 3


@dataclass
class Drawn:
    """A slice (or a point) as a viewer shows it."""

    process: str
    lane: str
    track: int
    name: str
    category: str
    start: int
    end: int
    depth: int
    arguments: dict[str, Any]
    arrives_from: list[Drawn] = field(default_factory=list, repr=False)


@dataclass
class Trace:
    processes: dict[str, int]  # name to pid, in order of the file
    lanes: dict[str, list[str]]  # of each process, in the order that the descriptors ask for
    slices: list[Drawn]
    clocks: list[tuple[int, int]]

    def of(self, process: str, lane: str) -> list[Drawn]:
        return [s for s in self.slices if s.process == process and s.lane == lane]

    def arrows(self) -> list[tuple[Drawn, Drawn]]:
        return [(source, target) for target in self.slices for source in target.arrives_from]


def read(data: bytes) -> Trace:
    """The trace; AssertionError for what no viewer could make sense of."""
    names: dict[int, dict[str, dict[int, str]]] = {}
    tracks: dict[int, Fields] = {}
    events: list[tuple[int, int, Fields]] = []
    clocks: list[tuple[int, int]] = []
    for number, value in _pairs(data):
        assert number == 1
        packet = _fields(value)
        sequence = packet[10][0]
        if 12 in packet:
            assert packet[13] == [3]
            names[sequence] = _interned(_fields(packet[12][0]))
        elif 60 in packet:
            descriptor = _fields(packet[60][0])
            assert descriptor[1][0] not in tracks
            tracks[descriptor[1][0]] = descriptor
        elif 6 in packet:
            clocks = [(c[1][0], c[2][0]) for c in map(_fields, _fields(packet[6][0])[1])]
        else:
            events.append((packet[8][0], sequence, _fields(packet[11][0])))
    processes = {u: _fields(t[3][0]) for u, t in tracks.items() if 3 in t}
    return Trace(
        {p[6][0].decode(): p[1][0] for p in processes.values()},
        {p[6][0].decode(): _lanes(u, tracks) for u, p in processes.items()},
        _replay(events, names, tracks, processes),
        clocks,
    )


def _lanes(process: int, tracks: dict[int, Fields]) -> list[str]:
    assert tracks[process][11] == [3]  # explicit order
    own = sorted((t[12][0], t[2][0].decode()) for t in tracks.values() if t.get(5) == [process])
    return list(dict.fromkeys(name for _, name in own))


def _replay(events: list[Any], names: dict[int, Any], tracks: dict[int, Fields], processes: dict[int, Fields]) -> list[Drawn]:
    stacks: dict[int, list[Drawn]] = defaultdict(list)
    flows: dict[int, Drawn] = {}
    drawn: list[Drawn] = []
    for time, sequence, event in sorted(events, key=lambda e: e[0]):  # stable
        track, known = event[11][0], names[sequence]
        stack = stacks[track]
        if event[9] == [END]:
            stack.pop().end = time
            continue
        arguments = {}
        for annotation in map(_fields, event.get(4, [])):
            value = annotation[3][0] if 3 in annotation else known["values"][annotation[17][0]]
            arguments[known["arguments"][annotation[1][0]]] = value
        process = processes[tracks[track][5][0]][6][0].decode()
        lane = tracks[track][2][0].decode()
        name, category = known["names"][event[10][0]], known["categories"][event[3][0]]
        new = Drawn(process, lane, track, name, category, time, time, len(stack), arguments)
        for flow in event.get(48, []):
            new.arrives_from.append(flows.pop(flow))
        for flow in event.get(47, []):
            assert flow not in flows
            flows[flow] = new
        drawn.append(new)
        if event[9] == [BEGIN]:
            stack.append(new)
        else:
            assert event[9] == [POINT]
    assert not any(stacks.values())
    assert not flows
    return drawn


def _interned(data: Fields) -> dict[str, dict[int, str]]:
    kinds = {"categories": 1, "names": 2, "arguments": 3, "values": 29}
    return {k: {e[1][0]: e[2][0].decode() for e in map(_fields, data.get(n, []))} for k, n in kinds.items()}


def _fields(data: bytes) -> Fields:
    found: Fields = defaultdict(list)
    for number, value in _pairs(data):
        found[number].append(value)
    return found


def _pairs(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value: Any
            value, at = _varint(data, at)
        elif kind == 1:
            value, at = int.from_bytes(data[at : at + 8], "little"), at + 8
        else:
            assert kind == 2
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
        assert at <= len(data)
        yield tag >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            assert shift <= 70
            return value, at
