"""Where rows go: a file mapped into memory, so that what was stored survives the process and no store waits for the disk.

A training thread only copies bytes into pages that are there already. Files are made, filled with blocks and closed by the
recorder's own thread (`prepare`), which has the next one ready before this one is full. A disk that is full, a folder that
cannot be written: `append` says False, and the journal counts what was lost. Files are 0600.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stepscope.model.segment import HEADER, MAGIC

PART_BYTES: Final = 1 << 20  # one file of a rank: large enough for some 200 steps, small against --keep
SPARE: Final = HEADER.size  # zeros that end the frames


@dataclass(slots=True)
class _Part:
    path: Path
    file: int
    pages: mmap.mmap
    used: int


class SegmentWriter:
    """Appends frames to the segments of one rank and removes the oldest beyond `keep` bytes. Only `prepare` touches the disk."""

    def __init__(self, folder: Path, stem: str, keep: int, head: Callable[[int], bytes]) -> None:
        self.folder, self.stem, self.keep, self._head = folder, stem, keep, head
        self.error: str | None = None
        self.written = 0
        self._current: _Part | None = None
        self._next: _Part | None = None
        self._done: deque[_Part] = deque()
        self._kept: deque[tuple[Path, int]] = deque()
        self._count = 0

    def append(self, data: bytes) -> bool:
        """Copies whole frames in; False where there is no room for them yet."""
        part = self._current
        if part is None or part.used + len(data) + SPARE > len(part.pages):
            part = self._turn(len(data))
            if part is None:
                return False
        # The length comes last: a process killed in between leaves a zero there, and the frames end before it.
        at = part.used
        part.pages[at + 4 : at + len(data)] = data[4:]
        part.pages[at : at + 4] = data[:4]
        part.used = at + len(data)
        self.written += len(data)
        return True

    @property
    def wants(self) -> bool:
        """Should the recorder's thread prepare?"""
        return self._next is None or bool(self._done)

    def prepare(self, least: int = 0) -> bool:
        """Makes the next file ready, closes those that are full, removes the oldest. False where the disk refuses."""
        while self._done:
            self._close(self._done.popleft())
        self._trim()
        if self._next is not None:
            return True
        try:
            self._next = self._make(max(PART_BYTES, 2 * least))
        except OSError as error:
            self.error = error.strerror or str(error)
            return False
        self.error = None
        return True

    def close(self) -> None:
        """Cuts the files to what was written; a file without frames goes."""
        for part in (self._current, self._next):
            if part is not None:
                self._close(part)
        self._current = self._next = None
        while self._done:
            self._close(self._done.popleft())

    def abandon(self) -> None:
        """After a fork: the pages belong to the parent, the child lets go of them without a word."""
        self._current = self._next = None
        self._done.clear()

    def _turn(self, size: int) -> _Part | None:
        ready = self._next
        if ready is None or ready.used + size + SPARE > len(ready.pages):
            return None
        if self._current is not None:
            self._done.append(self._current)
        self._current, self._next = ready, None
        head = self._head(self._count)
        if ready.used + len(head) + size + SPARE > len(ready.pages):
            return None
        ready.pages[ready.used : ready.used + len(head)] = head
        ready.used += len(head)
        return ready

    def _make(self, size: int) -> _Part:
        self._count += 1
        path = self.folder / f"{self.stem}.{self._count:04d}.seg"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, size)  # a page without a block behind it would kill the process that stores into it
            pages = mmap.mmap(file, size)
        except (OSError, ValueError):
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        pages[: len(MAGIC)] = MAGIC
        for at in range(0, size, mmap.PAGESIZE):
            pages[at] = pages[at]  # the page is there before a training thread stores into it
        return _Part(path, file, pages, len(MAGIC))

    def _close(self, part: _Part) -> None:
        try:
            part.pages.close()
            if part.used <= len(MAGIC):
                part.path.unlink(missing_ok=True)
            else:
                os.ftruncate(part.file, part.used)
                self._kept.append((part.path, part.used))
            os.close(part.file)
        except (OSError, BufferError):
            pass  # the frames are in the file; only its tail of zeros stays

    def _trim(self) -> None:
        while len(self._kept) > 1 and sum(size for _, size in self._kept) > self.keep:
            path, _ = self._kept.popleft()
            path.unlink(missing_ok=True)
