"""Slices to begins and ends on tracks, where every slice lies wholly inside the one around it or beside it.

A track of a viewer is a stack: an end closes what was begun last. Spans that overlap without one holding the other (two
kernels of one stream, damaged times) therefore go to tracks of their own beside the first.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
Track = tuple[IntArray, NDArray[np.bool_]]
"""Rows in the order of their events, and whether the event is the row's end. Every row is there twice."""

MOST_TRACKS: Final = 16  # beyond that the overlap is damage, and nobody would look at it


def tracks(start: IntArray, end: IntArray) -> tuple[list[Track], IntArray]:
    """Tracks that hold the slices (all end after their start), and the rows for which there was no room."""
    order = np.lexsort((np.arange(len(start)), -end, start))
    whole = _events(start, end, order)
    if whole is not None:
        return ([whole] if len(order) else []), order[:0]
    place = _places(start[order].tolist(), end[order].tolist())
    found = [_events(start, end, order[place == track]) for track in range(int(place.max()) + 1)]
    return [track for track in found if track is not None and len(track[0])], order[place < 0]


def _events(start: IntArray, end: IntArray, order: IntArray) -> Track | None:
    """Begins and ends of the rows, which are in order of start and then longest first; None where they do not nest."""
    count = len(order)
    number = np.arange(count)
    times = np.concatenate([start[order], end[order]])
    begins = np.repeat([1, 0], count)  # at one time what ends goes before what begins
    at = np.lexsort((np.concatenate([number, -number]), begins, times))
    depth = np.empty(2 * count, dtype=np.int64)
    depth[at] = np.cumsum(2 * begins[at] - 1)
    if (depth[:count] != depth[count:] + 1).any():
        return None
    return np.tile(order, 2)[at], begins[at] == 0


def _places(starts: list[int], ends: list[int]) -> NDArray[np.int64]:
    """For each slice the first track on which it nests, -1 where there is none."""
    stacks: list[list[int]] = []
    place = np.full(len(starts), -1, dtype=np.int64)
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for track in range(MOST_TRACKS):
            if track == len(stacks):
                stacks.append([])
            stack = stacks[track]
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or stack[-1] >= end:
                stack.append(end)
                place[row] = track
                break
    return place
