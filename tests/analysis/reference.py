"""The definition of the parts, instant by instant: slow, without arrays, to hold the analysis against."""

from __future__ import annotations

from collections import Counter
from typing import Any

from stepscope.model.words import DEVICE_WORK, HOST_KINDS, NO_DURATION
from tests.analysis.build import Rank

Span = dict[str, Any]


def parts_of(rank: Rank, start: int, end: int, transfers: dict[int, int]) -> dict[str, int]:
    """Parts of [start, end) of that rank."""
    whole = min(s.start_ns for s in rank.steps), max(s.end_ns for s in rank.steps)
    owner = _device_part if rank.device_kind != "cpu" and any(_works(s) for s in rank.spans) else _host_part
    return dict(Counter(owner(rank, t, whole, transfers) for t in range(start, end)))


def _owns(span: Span) -> bool:
    return not span["flags"] & NO_DURATION and span["end_ns"] > span["start_ns"]


def _works(span: Span) -> bool:
    return span["kind"] in DEVICE_WORK and _owns(span)


def _at(span: Span, t: int) -> bool:
    return _owns(span) and span["start_ns"] <= t < span["end_ns"]


def _first(spans: list[Span]) -> list[Span]:
    return sorted(spans, key=lambda s: (s["start_ns"], s["end_ns"]))


def _share(t: int, end: int, transfer: int | None) -> str:
    return "comm_unsplit" if transfer is None else "comm_wait" if t < end - transfer else "comm_transfer"


def _device_part(rank: Rank, t: int, whole: tuple[int, int], transfers: dict[int, int]) -> str:
    live = [(s, place) for place, s in enumerate(rank.spans) if _at(s, t)]
    kernels = _first([s for s, _ in live if s["kind"] == "kernel"])
    if kernels:
        return str(kernels[0]["part"] or "other_compute")
    talking = sorted((s["start_ns"], s["end_ns"], place) for s, place in live if s["kind"] == "collective")
    if talking:
        _, end, place = talking[0]
        known = {c["span"]: transfers.get(row) for row, c in enumerate(rank.collectives)}
        return _share(t, end, known.get(place))
    moving = _first([s for s, _ in live if s["kind"] in ("memcpy", "memset")])
    if moving:
        return str(moving[0]["part"] or "copy")
    loop = [s for s, _ in live if s["kind"] in HOST_KINDS and s["thread"] == rank.main_thread]
    for part in ("input_wait", "checkpoint"):
        if any(s["part"] == part for s in loop):
            return part
    following = [(s["start_ns"], place) for place, s in enumerate(rank.spans) if _works(s) and s["start_ns"] > t]
    if not following:
        return "host_bound"
    soonest = {place for start, place in following if start == min(following)[0]}
    returned = [rank.spans[e["source"]]["end_ns"] for e in rank.edges if e["target"] in soonest]
    return "host_bound" if returned and t < min(returned) else "idle"


def _host_part(rank: Rank, t: int, whole: tuple[int, int], transfers: dict[int, int]) -> str:
    loop = [s for s in rank.spans if s["kind"] in HOST_KINDS and s["thread"] == rank.main_thread]
    gloo = [(row, c) for row, c in enumerate(rank.collectives) if c["stream"] is None]
    calls = [
        (rank.spans[c["span"]]["start_ns"], -rank.spans[c["span"]]["end_ns"], -c["arrive_ns"], row, c)
        for row, c in gloo
        if c["span"] is not None and rank.spans[c["span"]] in loop and _at(rank.spans[c["span"]], t)
    ]
    if calls:
        *_, row, c = max(calls, key=lambda x: x[:4])
        return _share(t, c["end_ns"], transfers.get(row))
    working = [s for s in loop if s["part"] and _at(s, t)]
    owned = str(max(working, key=lambda s: (s["start_ns"], -s["end_ns"]))["part"]) if working else "host_bound"
    around: list[Span] = []
    for _, c in gloo:
        row = c["span"]
        while row is not None and (row := rank.parent(row)) is not None:
            around.append(rank.spans[row])

    def works(span: Span) -> bool:
        operator = span["kind"] == "op" and span["part"] and not any(span is s for s in around)
        return bool(operator or span["part"] == "input_wait")

    def busy(moment: int) -> bool:
        in_call = any(
            _at(rank.spans[c["span"]], moment) for _, c in gloo if c["span"] is not None and rank.spans[c["span"]] in loop
        )
        stack = [s for s in loop if _at(s, moment) and (s["kind"] in ("op", "annotation") or s["part"] == "input_wait")]
        bottom = max(((s["start_ns"], -s["end_ns"], not works(s)) for s in stack), default=(0, 0, True))
        return in_call or not bottom[2]

    if busy(t):
        return owned
    first = last = t
    while first > whole[0] and not busy(first - 1):
        first -= 1
    while last < whole[1] and not busy(last):
        last += 1
    waited = [
        (max(first, c["arrive_ns"]), c["end_ns"], c["arrive_ns"], row)
        for row, c in gloo
        if c["arrive_ns"] < c["end_ns"] and first < c["end_ns"] <= last and c["arrive_ns"] <= t < c["end_ns"]
    ]
    if not waited:
        return owned
    _, end, _, row = min(waited)
    return _share(t, end, transfers.get(row))
