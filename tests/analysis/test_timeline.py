"""Timelines against an owner looked up instant by instant."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepscope.analysis.timeline import Timeline, overlay

Spans = list[tuple[int, int, int]]
SPANS = st.lists(st.tuples(st.integers(-15, 15), st.integers(-15, 15), st.integers(0, 3)), max_size=12)


def columns(spans: Spans) -> tuple[list[int], list[int], list[int]]:
    return [s[0] for s in spans], [s[1] for s in spans], [s[2] for s in spans]


def owners(timeline: Timeline) -> dict[int, int]:
    """The label of each instant; fails where an instant has two."""
    found: dict[int, int] = {}
    for start, end, label in zip(timeline.starts.tolist(), timeline.ends.tolist(), timeline.labels.tolist(), strict=True):
        for t in range(start, end):
            assert t not in found
            found[t] = label
    return found


def running(spans: Spans, t: int) -> Spans:
    return [s for s in spans if s[0] <= t < s[1]]


def test_earliest_keeps_the_first_until_it_ends() -> None:
    got = Timeline.earliest([0, 4, 8, 20], [10, 6, 15, 22], [1, 2, 3, 0])
    assert owners(got) == {**dict.fromkeys(range(10), 1), **dict.fromkeys(range(10, 15), 3), 20: 0, 21: 0}


def test_innermost_returns_to_the_caller_and_lets_a_span_stick_out() -> None:
    got = Timeline.innermost([0, 2, 3, 8], [10, 6, 4, 12], [0, 1, 2, 3])
    assert owners(got) == {0: 0, 1: 0, 2: 1, 3: 2, 4: 1, 5: 1, 6: 0, 7: 0, 8: 3, 9: 3, 10: 3, 11: 3}


@given(SPANS)
def test_earliest_owner(spans: Spans) -> None:
    expected = {}
    for t in range(-15, 15):
        live = running(spans, t)
        # a span that began later gets only what the earlier ones left of its time, from the first of them on
        if live:
            expected[t] = min(live)[2]
    assert owners(Timeline.earliest(*columns(spans))) == expected


@given(SPANS)
def test_innermost_owner(spans: Spans) -> None:
    expected = {t: max(live, key=lambda s: (s[0], -s[1], -s[2]))[2] for t in range(-15, 15) if (live := running(spans, t))}
    assert owners(Timeline.innermost(*columns(spans))) == expected


@given(SPANS, SPANS, SPANS)
def test_overlay_takes_the_first_level_that_has_a_label(a: Spans, b: Spans, c: Spans) -> None:
    levels = [Timeline.earliest(*columns(spans)) for spans in (a, b, c)]
    expected = {}
    for level in reversed(levels):
        expected.update(owners(level))
    assert owners(overlay(*levels)) == expected


@given(SPANS, st.integers(-20, 20), st.integers(-20, 20))
def test_totals_of_a_window(spans: Spans, start: int, end: int) -> None:
    timeline = Timeline.earliest(*columns(spans))
    inside = [label for t, label in owners(timeline).items() if start <= t < end]
    assert timeline.clip(start, end).totals_ns(4).tolist() == [inside.count(label) for label in range(4)]


@given(SPANS, st.sets(st.integers(0, 3)))
def test_instants_of_some_labels(spans: Spans, labels: set[int]) -> None:
    timeline = Timeline.earliest(*columns(spans))
    assert timeline.instants(labels).total_ns == sum(label in labels for label in owners(timeline).values())
    assert timeline.instants().total_ns == len(owners(timeline))
