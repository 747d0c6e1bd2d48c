"""What owns each instant? Disjoint labelled intervals of int64 ns, and the three rules that build them.

`earliest`: of the spans that run, the one that started first. `innermost`: the one that started last. `overlay`: of
several timelines, the first that has a label. No instant has two labels, so sums over labels are exact.
Labels are whole numbers from 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from stepscope.analysis.intervals import IntArray, Intervals, whole_numbers


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Sorted disjoint intervals, each with a label; where there is none, nothing owns the time."""

    starts: IntArray
    ends: IntArray
    labels: IntArray

    @classmethod
    def of(cls, starts: object, ends: object, labels: object) -> Timeline:
        """Intervals that are disjoint already, in any order; empty ones are left out."""
        first, last, names = whole_numbers(starts), whole_numbers(ends), whole_numbers(labels)
        real = last > first
        first, last, names = first[real], last[real], names[real]
        order = np.argsort(first, kind="stable")
        return cls(first[order], last[order], names[order])

    @classmethod
    def uniform(cls, instants: Intervals, label: int) -> Timeline:
        """One label on all these instants."""
        return cls(instants.starts, instants.ends, np.full(len(instants), label, dtype=np.int64))

    @classmethod
    def earliest(cls, starts: object, ends: object, labels: object) -> Timeline:
        """Of the spans that run at an instant the one that started first; of those the first to end, then the least label."""
        first, last, names = whole_numbers(starts), whole_numbers(ends), whole_numbers(labels)
        order = np.lexsort((names, last, first))
        order = order[last[order] > first[order]]
        first, last, names = first[order], last[order], names[order]
        if not len(first):
            return cls(first, last, names)
        taken = np.maximum.accumulate(last)[:-1]  # until when the spans started before have the time
        first = np.append(first[:1], np.maximum(first[1:], taken))
        return cls.of(first, last, names)

    @classmethod
    def innermost(cls, starts: object, ends: object, labels: object) -> Timeline:
        """Of the spans that run at an instant the one that started last; of those the first to end, then the least label.

        On one thread that is the innermost call. A span that sticks out of the one around it keeps what sticks out.
        """
        first, last, names = whole_numbers(starts), whole_numbers(ends), whole_numbers(labels)
        order = np.lexsort((-names, -last, first))
        order = order[last[order] > first[order]]
        first, last, names = first[order], last[order], names[order]
        points = _points(first, last)
        top = _last_painted(np.searchsorted(points, first), np.searchsorted(points, last), max(len(points) - 1, 0))
        owned = np.flatnonzero(top >= 0)
        return cls(points[owned], points[owned + 1], names[top[owned]])

    def __len__(self) -> int:
        return len(self.starts)

    def clip(self, start_ns: int, end_ns: int) -> Timeline:
        """What of it lies in [start_ns, end_ns)."""
        first = int(np.searchsorted(self.ends, start_ns, side="right"))
        last = max(int(np.searchsorted(self.starts, end_ns, side="left")), first)
        starts, ends = np.maximum(self.starts[first:last], start_ns), np.minimum(self.ends[first:last], end_ns)
        return Timeline(starts, np.maximum(starts, ends), self.labels[first:last])

    def totals_ns(self, n_labels: int) -> IntArray:
        """How many ns each label from 0 to n_labels - 1 owns."""
        sums = np.zeros(n_labels, dtype=np.int64)
        np.add.at(sums, self.labels, self.ends - self.starts)
        return sums

    def instants(self, labels: Iterable[int] | None = None) -> Intervals:
        """The set of instants that these labels own; without an argument, all that are owned."""
        if labels is None:
            return Intervals.of(self.starts, self.ends)
        mine = np.isin(self.labels, list(labels))
        return Intervals.of(self.starts[mine], self.ends[mine])


def overlay(*levels: Timeline) -> Timeline:
    """At each instant the label of the first timeline that has one there."""
    points = _points(*(edge for level in levels for edge in (level.starts, level.ends)))
    labels = np.full(max(len(points) - 1, 0), -1, dtype=np.int64)
    for level in levels:
        if not len(level):
            continue
        at = np.searchsorted(level.starts, points[:-1], side="right") - 1
        owns = (labels < 0) & (at >= 0) & (level.ends[at] > points[:-1])
        labels[owns] = level.labels[at[owns]]
    owned = np.flatnonzero(labels >= 0)
    return Timeline(points[owned], points[owned + 1], labels[owned])


def _points(*edges: IntArray) -> IntArray:
    """All times, each once, ascending. Sorting is several times as fast as the hash table of np.unique."""
    points: IntArray = np.sort(np.concatenate(edges))
    return whole_numbers(points[np.append(True, points[1:] != points[:-1])[: len(points)]])


def _last_painted(left: IntArray, right: IntArray, cells: int) -> IntArray:
    """Spans painted one over the other on cells [left, right), in order: which one shows in each cell, -1 for none.

    A span is two overlapping blocks of the largest power of two that fits; blocks are painted from the largest size down,
    each size handing on to the next what shows. So the cost is cells x log2(longest span), whatever the nesting.
    """
    top = np.full(cells, -1, dtype=np.int64)
    if not len(left):
        return top
    size = np.frexp((right - left).astype(np.float64))[1] - 1  # floor of log2, exact below 2^53
    spans = np.arange(len(left))
    for power in range(int(size.max()), -1, -1):
        block = 1 << power
        mine = size == power
        np.maximum.at(top, left[mine], spans[mine])
        np.maximum.at(top, right[mine] - block, spans[mine])
        half = block >> 1
        if half:
            top[half:] = np.maximum(top[half:], top[:-half])
    return top
