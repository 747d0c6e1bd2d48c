"""Which host span lies inside which: the innermost enclosing span of the same thread, without a loop over events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Nesting:
    """`parent` is a row number or -1, `depth` 1 for a top span, 0 for a row that is not on a host thread."""

    parent: Ints
    depth: Ints


def nest(start: Ints, end: Ints, thread: Ints, host: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Nesting:
    """Nesting of rows sorted by (start, longest first). Spans that overlap without nesting hang on the one begun first."""
    parent = np.full(len(start), -1, dtype=np.int64)
    depth = np.zeros(len(start), dtype=np.int64)
    rows = np.flatnonzero(host)
    order = np.argsort(thread[rows], kind="stable")
    rows = rows[order]
    cuts = np.flatnonzero(np.diff(thread[rows])) + 1
    for own in np.split(rows, cuts):
        if len(own):
            _nest_thread(start, end, own, parent, depth)
    return Nesting(parent, depth)


def _nest_thread(start: Ints, end: Ints, rows: Ints, parent: Ints, depth: Ints) -> None:
    solid = rows[end[rows] > start[rows]]
    points = rows[end[rows] <= start[rows]]
    n = len(solid)
    if n == 0:
        depth[points] = 1
        return
    time = np.concatenate([end[solid], start[solid]])
    opens = np.concatenate([np.zeros(n, dtype=np.int8), np.ones(n, dtype=np.int8)])
    # At one instant closings come first, so that neighbours do not nest; opening ties keep the row order (longest first).
    order = np.lexsort((np.concatenate([np.arange(n), np.arange(n)]), opens, time))
    span = np.concatenate([solid, solid])[order]
    opened = opens[order] == 1
    level = np.cumsum(np.where(opened, 1, -1))
    place = np.flatnonzero(opened)
    depth[span[place]] = level[place]
    at_level = level[place]
    for d in range(2, int(at_level.max()) + 1):
        mine = place[at_level == d]
        above = place[at_level == d - 1]
        if not len(mine):
            break
        parent[span[mine]] = span[above[np.searchsorted(above, mine) - 1]]
    _climb(start, end, solid, parent)
    top = np.where(opened, span, parent[span])
    moments = time[order]
    inside = top[np.searchsorted(moments, start[points], side="right") - 1]
    before = np.searchsorted(moments, start[points], side="left") - 1
    touching = np.where(before >= 0, top[before], -1)
    first = np.searchsorted(moments, start[points], side="right") > 0
    inside = np.where(first, inside, -1)
    parent[points] = np.where(inside >= 0, inside, touching)
    depth[points] = np.where(parent[points] >= 0, depth[parent[points]], 0) + 1


def _climb(start: Ints, end: Ints, rows: Ints, parent: Ints) -> None:
    """A parent that ended before the child began (spans that cross) is replaced by its own parent."""
    wrong = rows[(parent[rows] >= 0) & (end[parent[rows]] <= start[rows])]
    while len(wrong):
        parent[wrong] = parent[parent[wrong]]
        wrong = wrong[(parent[wrong] >= 0) & (end[parent[wrong]] <= start[wrong])]
