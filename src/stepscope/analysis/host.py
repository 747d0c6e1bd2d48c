"""What is a CPU-only rank's time accounted to? The training thread alone; other threads never add.

At each instant, first match:

1. inside a collective's call on that thread: communication, whatever runs inside the call
2. standing for a collective: communication
3. the innermost span with a part of its own: loader `input_wait`, save `checkpoint`, operator its phase
4. the rest, waking up after the wait included: `host_bound`

No profiler records the waiting. It is a stretch in which no operator works at the bottom of the thread's stack, and in
which a collective that is in flight ends: from the stretch's start, or the collective's arrival, to the collective's end.
A collective that ends later than the stretch was not waited for in it. The bottom of the stack may be a range of the
framework or an operator around the collective's own call: FSDP's hooks wait inside `autograd::engine::evaluate_function`,
and that is not backward work.
"""

from __future__ import annotations

import numpy as np

from stepscope.analysis.account import Account, split
from stepscope.analysis.columns import NONE, PART, CollectiveColumns, Mask, SpanColumns
from stepscope.analysis.intervals import Intervals
from stepscope.analysis.timeline import Timeline, overlay

COMPUTE = tuple(PART[part] for part in ("forward", "backward", "optimizer", "other_compute"))


def account(spans: SpanColumns, collectives: CollectiveColumns, main_thread: int | None, start_ns: int, end_ns: int) -> Account:
    """The account of a rank without device work; its `parts` cover [start_ns, end_ns) without a hole."""
    thread = spans.training_thread(main_thread)
    mine = spans.is_host & (spans.thread == thread)
    counted = mine & (spans.part != NONE)
    work = Timeline.innermost(spans.start[counted], spans.end[counted], spans.part[counted])
    calls = calls_on(spans, collectives, thread)
    standing = (_working(spans, collectives, mine) | calls.instants()).gaps(start_ns, end_ns)
    waits = _waits(collectives, standing)
    background = Timeline.uniform(Intervals.empty().gaps(start_ns, end_ns), PART["host_bound"])
    cut = collectives.cut
    parts = overlay(split(calls, cut), split(waits, cut), work, background)
    flying = ~collectives.on_device
    return Account(
        parts=parts.clip(start_ns, end_ns),
        compute=work.instants(COMPUTE) - calls.instants() - waits.instants(),
        communication=Intervals.of(collectives.arrive[flying], collectives.end[flying]),
        waits=Timeline(waits.starts, waits.ends, collectives.row[waits.labels]),
    )


def calls_on(spans: SpanColumns, collectives: CollectiveColumns, thread: int) -> Timeline:
    """The calls of collectives on this thread, labelled with the collective's place."""
    places = np.flatnonzero(~collectives.on_device & (collectives.span != NONE))
    calls = collectives.span[places]
    here = (spans.is_host & (spans.thread == thread))[calls]
    places, calls = places[here], calls[here]
    return Timeline.innermost(spans.start[calls], spans.end[calls], places)


def _working(spans: SpanColumns, collectives: CollectiveColumns, mine: Mask) -> Intervals:
    """When the bottom of the thread's stack is an operator at work, or the loader."""
    loader = spans.part == PART["input_wait"]
    stack = mine & (spans.is_kind("op", "annotation") | loader)
    around = np.zeros(len(spans), dtype=bool)
    row = np.unique(collectives.span[collectives.span != NONE])
    while len(row := np.unique(spans.parent[row])) and row[-1] != NONE:
        row = row[(row != NONE) & ~around[row]]  # parents of a stranger's run may go round in circles
        around[row] = True
    works = spans.is_kind("op") & (spans.part != NONE) & ~around
    return Timeline.innermost(spans.start[stack], spans.end[stack], (works | loader)[stack]).instants([1])


def _waits(collectives: CollectiveColumns, uncovered: Intervals) -> Timeline:
    """The waiting, labelled with the collective's place; of several that end in one stretch the first to end comes first."""
    places = np.flatnonzero(~collectives.on_device)
    if not len(uncovered):
        places = places[:0]
    end = collectives.end[places]
    stretch = np.searchsorted(uncovered.starts, end, side="left") - 1  # the last that begins before the end
    within = (stretch >= 0) & (end <= np.append(uncovered.ends, 0)[stretch])
    places, end, stretch = places[within], end[within], stretch[within]
    start = np.maximum(uncovered.starts[stretch], collectives.arrive[places])
    return Timeline.earliest(start, end, places)
