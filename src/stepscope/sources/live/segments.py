"""The segments of one process, read as far as they are whole: rows as arrays, names, groups, signals, losses.

Times stay ns of the writer's monotonic clock; `Head` says how to move them. Segments come from strangers like any other file:
what refers to no name or group, or lies outside all times, is dropped and counted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepscope.model import segment
from stepscope.model.segment import FOLDER, End, GroupIs, Head, Lost, Name, Rows, Sample, Stalled, frames
from stepscope.model.store import MAX_TIME_NS, MAX_WORLD

_NAME: Final = re.compile(r"rank-(\d{1,8})\.(\d{1,6})\.(\d{1,10})\.(\d{4,9})\.seg")
WIDTHS: Final = {segment.SPAN: 6, segment.COLLECTIVE: 14, segment.STEP: 6, segment.DEVICE: 5}
Ints = NDArray[np.int64]


@dataclass(slots=True)
class Process:
    """One process of one rank. `rows` by kind, int64 [rows, width]; times on the writer's clock."""

    head: Head
    files: list[str]
    rows: dict[int, Ints] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    groups: dict[int, GroupIs] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    stalls: list[Stalled] = field(default_factory=list)
    ended: bool = False
    dropped: int = 0
    first_part: int = 1

    @property
    def damaged(self) -> bool:
        """Is a segment of it not as it was written?"""
        return any(loss.what == segment.DAMAGE for loss in self.lost)

    def name(self, number: int) -> str:
        """The word of that number; empty where it was not told."""
        return self.names.get(number, "")


def processes(folder: Path) -> list[Process]:
    """Every process that left readable segments, by rank, attempt and time."""
    files: dict[tuple[int, int, int], list[tuple[int, Path]]] = defaultdict(list)
    for path in sorted((folder / FOLDER).iterdir()):
        match = _NAME.fullmatch(path.name)
        if match and path.is_file() and not path.is_symlink():
            rank, attempt, pid, part = map(int, match.groups())
            files[rank, attempt, pid].append((part, path))
    found = [p for own in files.values() if (p := _process([path for _, path in sorted(own)])) is not None]
    return sorted(found, key=lambda p: (p.head.rank, p.head.attempt, p.head.wall_ns))


def _process(paths: Sequence[Path]) -> Process | None:
    process: Process | None = None
    rows: dict[int, list[list[int]]] = defaultdict(list)
    for path in paths:
        for frame in frames(path):
            if isinstance(frame, Head):
                if not 0 <= frame.rank < MAX_WORLD or not 0 < frame.world <= MAX_WORLD:
                    break
                if process is None:
                    process = Process(frame, [], first_part=frame.part)
            elif process is None:
                break
            elif isinstance(frame, Rows):
                for row in frame.rows:
                    if row and len(row) == WIDTHS.get(row[0]) and all(abs(value) < MAX_TIME_NS for value in row):
                        rows[row[0]].append(row)
                    else:
                        process.dropped += 1
            else:
                _other(process, frame)
        if process is not None:
            process.files.append(path.name)
    if process is not None:
        process.rows = {kind: np.array(rows[kind], dtype=np.int64).reshape(-1, width) for kind, width in WIDTHS.items()}
    return process


def _other(process: Process, frame: Name | GroupIs | Sample | Lost | Stalled | End) -> None:
    match frame:
        case Name():
            process.names[frame.number] = frame.text[:512]
        case GroupIs():
            process.groups[frame.number] = frame
        case Sample():
            process.samples.append(frame)
        case Lost():
            process.lost.append(frame)
        case Stalled():
            process.stalls.append(frame)
        case End():
            process.ended = True
