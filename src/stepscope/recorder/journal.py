"""What has this rank noted and not yet written, who is it, and what did noting cost?

Hooks append rows (layouts of `model.segment`) to a list; `flush` copies them into the segment, at the end of every step and once
a second. Never waits: a flush that finds another one at work leaves the rows to the next. Times are ns of the monotonic clock,
costs ns of CPU time of the thread that paid them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from time import thread_time_ns
from typing import Final

from stepscope.model.segment import MAX_FRAME, End, Frame, GroupIs, Head, Lost, Name, Rows, Sample, Stalled, framed
from stepscope.recorder.segment import SegmentWriter

FLUSH_WAIT_S: Final = 0.002  # longest that a training thread waits for the other flusher, which copies some kB
MOST_ROWS: Final = 200_000  # noted and not written; beyond it they are counted and dropped
MOST_NAMES: Final = 20_000  # a job that makes up names without end stops being listened to
PAUSED: Final = [0, 0]  # ns and number of the pauses of Python's collector so far; one that falls into a hook is not its cost
SAMPLED: Final = 17  # of so many calls one is timed; issues and waits take turns, so the number is odd


class Journal:
    """Rows, names and groups of one rank. `who` is its head without the segment's number."""

    def __init__(self, folder: Path, stem: str, keep: int, who: Head) -> None:
        self.pid = os.getpid()
        self.who = who
        self.rows: list[Sequence[int]] = []
        self.calls = 0  # hooks that ran: progress, and what the cost is counted in
        self.hook_ns = 0  # of the calls that were timed
        self.timed = 0
        self.flush_ns = 0
        self.lost = 0
        self._names: dict[str, int] = {}
        self._groups: dict[str, GroupIs] = {}
        self._fresh: list[Frame] = []
        self._lock = threading.Lock()
        self._told_lost = 0
        self.segment = SegmentWriter(folder, stem, keep, self._beginning)

    def name(self, text: str) -> int:
        """The number of a word, a new one where it is new."""
        number = self._names.get(text)
        if number is None:
            if len(self._names) >= MOST_NAMES:
                return -1
            number = self._names[text] = len(self._names)
            self._fresh.append(Name(number, text))
        return number

    def group(self, name: str, description: str, ranks: Sequence[int]) -> int:
        """The number of a process group, told once."""
        known = self._groups.get(name)
        if known is None:
            known = self._groups[name] = GroupIs(len(self._groups), name, description, list(ranks))
            self._fresh.append(known)
        return known.number

    def flush(self, wait: bool = False) -> None:
        """Rows into the segment; from the training thread without waiting longer than FLUSH_WAIT_S."""
        if not self._lock.acquire(timeout=-1 if wait else FLUSH_WAIT_S):
            return
        began, paused = thread_time_ns(), PAUSED[0]
        try:
            rows, self.rows = self.rows, []
            self._append(rows)
        finally:
            self.flush_ns += max(thread_time_ns() - began - (PAUSED[0] - paused), 0)
            self._lock.release()

    def tell(self, *frames: Sample | Stalled | End | Lost) -> None:
        """Frames of the recorder's own thread."""
        with self._lock:
            if not self.segment.append(b"".join([*self._news(), *map(framed, frames)])):
                self.lost += 1

    def _append(self, rows: list[Sequence[int]]) -> None:
        if not rows and not self._fresh:
            return
        if len(rows) > MOST_ROWS:
            self.lost += len(rows) - MOST_ROWS
            rows = rows[:MOST_ROWS]
        body = framed(Rows(rows)) if rows else b""  # type: ignore[arg-type]  # lists and tuples look alike on disk
        if len(body) > MAX_FRAME or not self.segment.append(b"".join([*self._news(), body])):
            self.lost += len(rows)

    def _news(self) -> list[bytes]:
        """Names and groups that are new, and losses not yet told. What cannot be appended comes again with the next segment."""
        fresh, self._fresh = self._fresh, []
        found = [framed(frame) for frame in fresh]
        if self.lost > self._told_lost:
            why = self.segment.error or "the next file was not ready in time"
            found.append(framed(Lost("rows", why, self.lost - self._told_lost)))
            self._told_lost = self.lost
        return found

    def _beginning(self, part: int) -> bytes:
        """Every segment stands alone: who writes, and all names and groups so far."""
        w = self.who
        head = Head(
            w.rank, w.world, w.local_rank, w.host, w.boot, w.pid, w.attempt, part, w.monotonic_ns, w.wall_ns,
            w.main_thread, w.device, w.device_name, w.versions,
        )  # fmt: skip
        names = [framed(Name(number, text)) for text, number in self._names.items()]
        return b"".join([framed(head), *names, *map(framed, self._groups.values())])

    @property
    def cost_ns(self) -> int:
        """CPU time of the hooks so far: the calls that were timed stand for the others; flushes are all timed."""
        return self.flush_ns + (self.hook_ns * self.calls // self.timed if self.timed else 0)

    def close(self, now_ns: int) -> None:
        """Writes what is left and cuts the files."""
        self.flush(wait=True)
        self.tell(End(now_ns))
        with self._lock:
            self.segment.close()
