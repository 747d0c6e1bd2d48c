"""What does the launcher tell the ranks while they run, and how far are they? Words in memory that all processes share.

The pages are made before the ranks are forked, so ranks, their loaders' workers and the relay see the same ones. One writer for
each word; 8 bytes are stored at once.
"""

from __future__ import annotations

import mmap
from typing import Final

import numpy as np

HEAP: Final = 1_500_000  # objects that a collection has to look at
NEVER: Final = 1 << 60  # a step that no job reaches


class Words:
    """`step` is what each rank is in (-1: before the first); the others are what it is told."""

    def __init__(self, ranks: int) -> None:
        self._pages = mmap.mmap(-1, mmap.PAGESIZE)
        every = np.frombuffer(self._pages, dtype=np.int64)
        self._one = every[:8]
        self.step, self.collect, self.read_ms, self.hang_at, self.differ_at = (
            every[8 + at * ranks : 8 + (at + 1) * ranks] for at in range(5)
        )
        self.step[:] = -1
        self.hang_at[:] = self.differ_at[:] = NEVER
        self._one[0] = NEVER

    @property
    def stop_at(self) -> int:
        """The step that no rank begins any more."""
        return int(self._one[0])

    @stop_at.setter
    def stop_at(self, step: int) -> None:
        self._one[0] = step

    @property
    def delay_us(self) -> int:
        """How long the relay holds a packet."""
        return int(self._one[1])

    @delay_us.setter
    def delay_us(self, value: int) -> None:
        self._one[1] = value
