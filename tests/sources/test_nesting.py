"""Which span lies in which: against a stack walked one span at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.sources.kineto.nesting import nest


def nested(spans: list[tuple[int, int, int]]) -> list[int]:
    """Parents of (start, end, thread) rows given in order of (start, longest first)."""
    start, end, thread = (np.array(column, dtype=np.int64) for column in zip(*spans, strict=True))
    return nest(start, end, thread, np.ones(len(spans), dtype=bool)).parent.tolist()


def test_children_neighbours_and_threads() -> None:
    spans = [(0, 100, 1), (0, 40, 1), (5, 90, 2), (10, 20, 1), (20, 30, 1), (50, 60, 1)]
    assert nested(spans) == [-1, 0, -1, 1, 1, 0]


def test_a_point_hangs_on_the_innermost_span_around_it() -> None:
    assert nested([(0, 100, 1), (10, 20, 1), (15, 15, 1), (20, 20, 1), (100, 100, 1)]) == [-1, 0, 1, 0, 0]


def test_spans_that_cross_hang_on_no_span_that_has_ended() -> None:
    assert nested([(0, 10, 1), (5, 15, 1), (12, 14, 1)])[2] in (1, -1)


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Properly nested spans on one thread, in row order."""
    spans: list[tuple[int, int, int]] = []

    def fill(low: int, high: int, depth: int) -> None:
        at = low
        while at < high and draw(st.booleans()):
            start = draw(st.integers(at, high - 1))
            end = draw(st.integers(start + 1, high))
            spans.append((start, end, 1))
            if depth < 4:
                fill(start, end, depth + 1)
            at = end

    fill(0, 60, 0)
    return sorted(spans, key=lambda s: (s[0], -s[1]))


@given(trees())
def test_nested_spans_have_the_parents_a_stack_gives(spans: list[tuple[int, int, int]]) -> None:
    if not spans:
        return
    stack: list[int] = []
    expected = []
    for row, (start, _, _) in enumerate(spans):
        while stack and spans[stack[-1]][1] <= start:
            stack.pop()
        expected.append(stack[-1] if stack else -1)
        stack.append(row)
    assert nested(spans) == expected
