"""Sets of intervals against sets of instants."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepscope.analysis.intervals import Intervals

Spans = list[tuple[int, int]]
SPANS = st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), max_size=12)


def made(spans: Spans) -> Intervals:
    return Intervals.of([s for s, _ in spans], [e for _, e in spans])


def instants(spans: Spans) -> set[int]:
    return {t for start, end in spans for t in range(start, end)}


def pairs(intervals: Intervals) -> Spans:
    return list(zip(intervals.starts.tolist(), intervals.ends.tolist(), strict=True))


def test_of_merges_what_overlaps_or_touches_and_drops_what_is_empty() -> None:
    assert pairs(made([(5, 9), (0, 3), (3, 4), (6, 7), (8, 8), (20, 10)])) == [(0, 4), (5, 9)]


@given(SPANS)
def test_of_covers_the_same_instants(spans: Spans) -> None:
    got = made(spans)
    assert instants(pairs(got)) == instants(spans)
    assert all(a[1] < b[0] for a, b in zip(pairs(got), pairs(got)[1:], strict=False))
    assert got.total_ns == len(instants(spans))


@given(SPANS, SPANS)
def test_union_intersection_and_difference(a: Spans, b: Spans) -> None:
    assert instants(pairs(made(a) | made(b))) == instants(a) | instants(b)
    assert instants(pairs(made(a) & made(b))) == instants(a) & instants(b)
    assert instants(pairs(made(a) - made(b))) == instants(a) - instants(b)
    assert (made(a) & made(b)).total_ns + (made(a) - made(b)).total_ns == made(a).total_ns


@given(SPANS, st.integers(-25, 25), st.integers(-25, 25))
def test_clip_and_gaps_share_the_window(spans: Spans, start: int, end: int) -> None:
    window = set(range(start, end))
    assert instants(pairs(made(spans).clip(start, end))) == instants(spans) & window
    assert instants(pairs(made(spans).gaps(start, end))) == window - instants(spans)


@given(SPANS, SPANS)
def test_covered_ns_of_each_span(spans: Spans, asked: Spans) -> None:
    got = made(spans).covered_ns([s for s, _ in asked], [e for _, e in asked])
    assert got.tolist() == [len(instants(spans) & set(range(start, end))) for start, end in asked]


def test_far_times_stay_exact() -> None:
    far = 1_700_000_000_000_000_000
    got = Intervals.of([far, far + 3], [far + 2, far + 2**53 + 1])
    assert got.total_ns == 2**53
    assert got.covered_ns([far - 1], [far + 4]).tolist() == [3]
