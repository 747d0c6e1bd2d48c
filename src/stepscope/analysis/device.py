"""What is a GPU rank's time accounted to? Each instant, first match:

1. a compute kernel runs: the part of the earliest-started one
2. a collective kernel runs: `comm_wait` until its transfer begins, then `comm_transfer`
3. a copy or a fill runs: `copy`, or what the attribution says of it
4. nothing runs: the host in the loader is `input_wait`, in a save `checkpoint`, else `host_bound` until the launch that
   ends the gap returns, and `idle` after it

The device work that ends a gap is the first to start after it. Where its launch is not recorded the gap is `idle`: nobody
can say that the host was late. Where none follows, the gap is `host_bound`: nothing more was launched.
"""

from __future__ import annotations

import numpy as np

from stepscope.analysis.account import Account, split
from stepscope.analysis.columns import NONE, PART, UNKNOWN_TIME, CollectiveColumns, Mask, SpanColumns
from stepscope.analysis.intervals import IntArray, Intervals
from stepscope.analysis.timeline import Timeline, overlay


def account(spans: SpanColumns, collectives: CollectiveColumns, main_thread: int | None, start_ns: int, end_ns: int) -> Account:
    """The account of a rank with device work; its `parts` cover [start_ns, end_ns) without a hole."""
    kernel, collective, moved = spans.is_kind("kernel"), spans.is_kind("collective"), spans.is_kind("memcpy", "memset")
    host = spans.is_host & (spans.thread == spans.training_thread(main_thread))
    compute = _instants(spans, kernel)
    idle = _instants(spans, spans.is_device_work).gaps(start_ns, end_ns)
    parts = overlay(
        _parts(spans, kernel, PART["other_compute"]),
        _communication(spans, collective, collectives),
        _parts(spans, moved, PART["copy"]),
        Timeline.uniform(_instants(spans, host & (spans.part == PART["input_wait"])) & idle, PART["input_wait"]),
        Timeline.uniform(_instants(spans, host & (spans.part == PART["checkpoint"])) & idle, PART["checkpoint"]),
        _waiting_for_launch(spans, idle),
    )
    return Account(
        parts=parts.clip(start_ns, end_ns),
        compute=compute,
        communication=_instants(spans, collective),
        held=_held_back(spans, kernel, compute),
    )


def _instants(spans: SpanColumns, chosen: Mask) -> Intervals:
    return Intervals.of(spans.start[chosen], spans.end[chosen])


def _parts(spans: SpanColumns, chosen: Mask, without: int) -> Timeline:
    """The earliest-started of the chosen spans, labelled with its part, or with `without` where it has none."""
    labels = np.where(spans.part == NONE, without, spans.part)
    return Timeline.earliest(spans.start[chosen], spans.end[chosen], labels[chosen])


def _communication(spans: SpanColumns, chosen: Mask, collectives: CollectiveColumns) -> Timeline:
    """The earliest-started collective kernel, split where its transfer is known."""
    cut = np.full(len(spans), UNKNOWN_TIME, dtype=np.int64)
    matched = collectives.on_device & (collectives.span != NONE)
    cut[collectives.span[matched]] = collectives.cut[matched]
    rows = np.flatnonzero(chosen)
    rows = rows[np.lexsort((cut[rows], spans.end[rows], spans.start[rows]))]
    return split(Timeline.earliest(spans.start[rows], spans.end[rows], np.arange(len(rows))), cut[rows])


def _waiting_for_launch(spans: SpanColumns, idle: Intervals) -> Timeline:
    """Each stretch without device work: `host_bound` until the launch that ends it returns, `idle` after that."""
    returned = _next_launch(spans, spans.is_device_work, idle.starts, unknown=-UNKNOWN_TIME)
    until = np.clip(returned, idle.starts, idle.ends)
    return Timeline.of(
        np.concatenate([idle.starts, until]),
        np.concatenate([until, idle.ends]),
        np.repeat([PART["host_bound"], PART["idle"]], len(idle)),
    )


def _held_back(spans: SpanColumns, kernel: Mask, compute: Intervals) -> Intervals | None:
    """When no kernel computed although the next one had been launched; None where no launch of a kernel is recorded."""
    if not (spans.launched[kernel] != UNKNOWN_TIME).any():
        return None
    returned = _next_launch(spans, kernel, compute.starts, unknown=UNKNOWN_TIME)
    idle_since = np.append(-UNKNOWN_TIME, compute.ends)[: len(compute)]
    return Intervals.of(np.maximum(idle_since, returned), compute.starts)


def _next_launch(spans: SpanColumns, chosen: Mask, times: IntArray, unknown: int) -> IntArray:
    """When the launch of the first chosen span that starts at or after each time returned, the earliest of several.

    `unknown` where that launch is not recorded, UNKNOWN_TIME where no such span follows.
    """
    order = np.argsort(spans.start[chosen], kind="stable")
    starts, launched = spans.start[chosen][order], spans.launched[chosen][order]
    at, first = np.unique(starts, return_index=True)
    returned = np.minimum.reduceat(launched, first) if len(first) else launched
    returned = np.where(returned == UNKNOWN_TIME, unknown, returned)
    return np.append(returned, UNKNOWN_TIME)[np.searchsorted(at, times, side="left")]
