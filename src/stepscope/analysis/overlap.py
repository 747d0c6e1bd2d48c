"""What did overlap hide, and what does adding up durations make of it? Interval statistics, exact in ns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscope.analysis.columns import NONE, SpanColumns
from stepscope.analysis.intervals import IntArray, Intervals, whole_numbers
from stepscope.model.breakdown import Communication
from stepscope.model.info import Step

Window = tuple[int, int]


def hidden(communication: Intervals, compute: Intervals) -> Intervals:
    """The communication behind which this rank computes."""
    return communication & compute


def exposed(communication: Intervals, compute: Intervals) -> Intervals:
    """The communication that nothing hides."""
    return communication - compute


def communication(rank: int, windows: Sequence[Window], compute: Intervals, comm: Intervals) -> Communication:
    """Unions over the recorded windows of one rank. Without a window: over all that is recorded."""
    recorded = Intervals.of([start for start, _ in windows], [end for _, end in windows])
    if not windows:
        everything = compute | comm
        recorded = Intervals.of(everything.starts[:1], everything.ends[-1:])
    compute, comm = compute & recorded, comm & recorded
    return Communication(
        rank=rank,
        window_ns=recorded.total_ns,
        compute_ns=compute.total_ns,
        total_ns=comm.total_ns,
        exposed_ns=exposed(comm, compute).total_ns,
        hidden_ns=hidden(comm, compute).total_ns,
    )


def naive_ns(spans: SpanColumns, is_marker: object, steps: Sequence[Step]) -> IntArray:
    """Of each step the sum of the profiler's durations in it: outermost host spans of every thread and all device work.

    `is_marker` (bool per span) names the step markers; they and python frames neither count nor hide what is in them.
    """
    counted = spans.is_kind("op", "annotation", "runtime") & ~np.asarray(is_marker, dtype=bool)
    summed = (counted & (_outer(spans.parent, counted) == NONE)) | spans.is_device_work
    starts, ends = np.sort(spans.start[summed]), np.sort(spans.end[summed])
    first, last = whole_numbers([step.start_ns for step in steps]), whole_numbers([step.end_ns for step in steps])
    return whole_numbers(_summed_before(starts, ends, last) - _summed_before(starts, ends, first))


def _outer(parent: IntArray, counted: object) -> IntArray:
    """Of each span the nearest span around it that counts, NONE where there is none. Halves the chains that lead there."""
    passes = np.append(~np.asarray(counted, dtype=bool), False)  # the last entry stands for NONE
    chain = np.append(parent, NONE)
    for _ in range(len(parent).bit_length() + 1):  # enough for any chain; parents in a ring end here too
        hop = passes[chain] & (chain != NONE)
        if not hop.any():
            break
        chain = np.where(hop, chain[chain], chain)
    return chain[:-1]


def _summed_before(starts: IntArray, ends: IntArray, times: IntArray) -> IntArray:
    """How many ns of all spans together lie before each time: ns begun less ns not yet run."""
    return _since(starts, times) - _since(ends, times)


def _since(marks: IntArray, times: IntArray) -> IntArray:
    """The sum, over all marks before each time, of the ns since then (modulo 2^64, so that differences are exact)."""
    before = np.searchsorted(marks, times)
    return whole_numbers(before * times - np.append(0, np.cumsum(marks))[before])
