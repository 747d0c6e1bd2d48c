"""Which instants does a set of spans cover? Sets of half-open int64 intervals [start, end), in ns.

A set is two sorted arrays of disjoint intervals that do not touch. Everything is exact in integers; an interval that is
empty or reversed covers nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


def whole_numbers(values: object) -> IntArray:
    """Any sequence of ints as an int64 array."""
    return np.asarray(values, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """A set of instants. `starts` and `ends` have one entry per interval; make one with `of`, which merges any spans."""

    starts: IntArray
    ends: IntArray

    @classmethod
    def of(cls, starts: object, ends: object) -> Intervals:
        """The union of spans in any order, overlapping or not."""
        first, last = whole_numbers(starts), whole_numbers(ends)
        real = last > first
        first, last = first[real], last[real]
        if not len(first):
            return cls.empty()
        order = np.argsort(first, kind="stable")
        first, reach = first[order], np.maximum.accumulate(last[order])
        opens = np.flatnonzero(np.append(True, first[1:] > reach[:-1]))
        return cls(first[opens], reach[np.append(opens[1:], len(first)) - 1])

    @classmethod
    def empty(cls) -> Intervals:
        """No instant at all."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def total_ns(self) -> int:
        """How many ns it covers."""
        return int((self.ends - self.starts).sum())

    def __or__(self, other: Intervals) -> Intervals:
        return Intervals.of(np.concatenate([self.starts, other.starts]), np.concatenate([self.ends, other.ends]))

    def __and__(self, other: Intervals) -> Intervals:
        first = np.searchsorted(other.ends, self.starts, side="right")  # of `other`, the first that ends inside or after
        count = np.searchsorted(other.starts, self.ends, side="left") - first
        mine = np.repeat(np.arange(len(self)), count)
        theirs = np.arange(len(mine)) - np.repeat(np.cumsum(count) - count, count) + first[mine]
        return Intervals(np.maximum(self.starts[mine], other.starts[theirs]), np.minimum(self.ends[mine], other.ends[theirs]))

    def __sub__(self, other: Intervals) -> Intervals:
        if not len(self):
            return self
        return self & other.gaps(int(self.starts[0]), int(self.ends[-1]))

    def gaps(self, start_ns: int, end_ns: int) -> Intervals:
        """What of [start_ns, end_ns) it does not cover."""
        inside = self.clip(start_ns, end_ns)
        starts, ends = np.append(start_ns, inside.ends), np.append(inside.starts, end_ns)
        real = ends > starts
        return Intervals(starts[real], ends[real])

    def clip(self, start_ns: int, end_ns: int) -> Intervals:
        """What of it lies in [start_ns, end_ns)."""
        if end_ns <= start_ns:
            return Intervals.empty()
        first = int(np.searchsorted(self.ends, start_ns, side="right"))
        last = int(np.searchsorted(self.starts, end_ns, side="left"))
        return Intervals(np.maximum(self.starts[first:last], start_ns), np.minimum(self.ends[first:last], end_ns))

    def covered_ns(self, starts: object, ends: object) -> IntArray:
        """Of each span [start, end): how many ns of it lie in the set; 0 for an empty or reversed span."""
        first, last = whole_numbers(starts), whole_numbers(ends)
        return self._before(np.maximum(first, last)) - self._before(first)

    def _before(self, times: IntArray) -> IntArray:
        """How many ns it covers before each time."""
        begun = np.searchsorted(self.starts, times, side="right")
        sums = np.append(0, np.cumsum(self.ends - self.starts))
        last_end = np.append(np.iinfo(np.int64).min, self.ends)[begun]
        unfinished = np.where(last_end > times, last_end - np.minimum(times, last_end), 0)
        return whole_numbers(sums[begun] - unfinished)
