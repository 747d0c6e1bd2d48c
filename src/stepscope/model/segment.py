"""What one rank of a live job leaves on disk while it runs: frames, appended one after the other, readable at any moment.

A segment (`segments/rank-3.0.4711.0001.seg` of a run folder) is MAGIC and then frames: length and CRC-32 of what follows, both
little-endian u32, then MessagePack. A length of 0, a wrong checksum or a frame that does not decode ends it: what a killed
process was writing is never taken for more than it is. Every segment stands alone: it begins with a Head and repeats names
and groups. Times are ns of the writer's monotonic clock; `Head` says what the wall clock showed beside it. -1 is "not recorded".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

MAGIC: Final = b"SSLIVE1\n"
HEADER: Final = struct.Struct("<II")
FOLDER: Final = "segments"
STALLS: Final = "stalls"
MAX_FRAME: Final = 64 << 20  # far above what a recorder appends at once
MAX_SEGMENT: Final = 4 << 30
UNKNOWN: Final = -1
METRICS: Final = "metrics"  # a Lost: Prometheus cannot ask this rank
DAMAGE: Final = "damage"  # a Lost that a reader makes, where a segment is not as it was written

# First number of a row, and what follows it:
SPAN: Final = 0  # what, thread, start, end, name
COLLECTIVE: Final = 1  # thread, arrive, issued, wait start, wait end, group, sequence, op, dtype, bytes, unit, pass, end is exact
STEP: Final = 2  # number, start, end, tokens, peak bytes on the device; a later row of the same number replaces an earlier one
DEVICE: Final = 3  # what, start, end, name: a window between two events of the device's stream, on the host's clock

# The second number of a SPAN or DEVICE row
INPUT, FORWARD, BACKWARD, OPTIMIZER, CHECKPOINT, GARBAGE, COMMUNICATION = range(7)


class Head(msgspec.Struct, tag="H", array_like=True, frozen=True):
    """Who writes. `boot` tells machines apart, `attempt` is the restart under torchelastic, `part` the number of the segment."""

    rank: int
    world: int
    local_rank: int
    host: str
    boot: str
    pid: int
    attempt: int
    part: int
    monotonic_ns: int
    wall_ns: int
    main_thread: int
    device: str
    device_name: str
    versions: dict[str, str]


class Name(msgspec.Struct, tag="N", array_like=True, frozen=True):
    """A word that rows refer to by its number."""

    number: int
    text: str


class GroupIs(msgspec.Struct, tag="G", array_like=True, frozen=True):
    """A process group: number in this segment, name, what torch says it is for, its ranks."""

    number: int
    name: str
    description: str
    ranks: list[int]


class Rows(msgspec.Struct, tag="R", array_like=True, frozen=True):
    """Rows of whole numbers, laid out as above."""

    rows: list[list[int]]


class Sample(msgspec.Struct, tag="S", array_like=True, frozen=True):
    """Signals at one time: (scope, metric, unit, value), the first three as numbers of names."""

    time_ns: int
    values: list[tuple[int, int, int, float]]


class Lost(msgspec.Struct, tag="L", array_like=True, frozen=True):
    """What could not be kept, why, and how many rows."""

    what: str
    why: str
    rows: int


class Stalled(msgspec.Struct, tag="T", array_like=True, frozen=True):
    """No progress since `since_ns`: files written beside the segments, collectives that were under way as text."""

    time_ns: int
    since_ns: int
    files: list[str]
    pending: list[str]


class End(msgspec.Struct, tag="E", array_like=True, frozen=True):
    """The recorder was closed in an orderly way."""

    time_ns: int


Frame = Head | Name | GroupIs | Rows | Sample | Lost | Stalled | End
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Frame)


def framed(frame: Frame) -> bytes:
    """The frame as it stands in a segment."""
    body = _ENCODER.encode(frame)
    return HEADER.pack(len(body), zlib.crc32(body)) + body


def frames(path: Path) -> Iterator[Frame]:
    """The frames of one segment up to its end; nothing where it is no segment. OSError passes.

    Where a frame is not as it was written (a changed byte, a cut file) the last one is a Lost of DAMAGE.
    """
    if path.stat().st_size > MAX_SEGMENT:
        return
    data = memoryview(path.read_bytes())
    if bytes(data[: len(MAGIC)]) != MAGIC:
        return
    at = len(MAGIC)
    while at + HEADER.size <= len(data):
        length, checksum = HEADER.unpack_from(data, at)
        at += HEADER.size
        body = data[at : at + length]
        if length == 0 and checksum == 0:  # blocks that were not written yet
            return
        if not 0 < length <= MAX_FRAME or len(body) < length:
            break
        if zlib.crc32(body) != checksum:
            if not bytes(data[at + length :]).strip(b"\0"):  # the last one: its writer was killed over it
                return
            break
        try:
            yield _DECODER.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            break
        at += length
    else:
        if not bytes(data[at:]).strip(b"\0"):
            return
    yield Lost(DAMAGE, f"{path.name} is damaged from byte {min(at, len(data))} on: what followed is lost", 0)


def is_live(folder: Path) -> bool:
    """Is this the folder of a live job, or what one left, not yet made into tables?"""
    return (folder / FOLDER).is_dir() and not (folder / "run.json").exists()
