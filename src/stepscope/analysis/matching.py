"""Which rows of the ranks are one collective?

By group and sequence number where the trace has them. Else by order: members of a communicator issue the same sequence of
operations and sizes, of which each rank's window may miss the beginning, the end or, in sampled traces, some between.
Of several ways to lay two sequences over each other that fit equally well (steps repeat), the one whose ends coincide
best in time is taken.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

import numpy as np
import polars as pl

from stepscope.analysis.intervals import IntArray
from stepscope.model.info import Group, RunInfo

VARYING: Final = ("all_to_all", "send_recv", "unknown", "gather", "scatter")  # sizes differ between the ranks of one
MAX_SHIFT: Final = 512  # collectives that one window may begin earlier than another: several steps of a deep model
FITS: Final = 0.98  # share of the overlap that agrees when two windows hold the same sequence
STEADY: Final = 1.5  # shifts whose ends are nearly as steady as the steadiest are told apart by their overlap
STEADY_NS: Final = 2_000
TOGETHER: Final = ("all_reduce", "all_gather", "reduce_scatter", "barrier")
LEAST_TOGETHER: Final = 2  # pairs that end together from which the distance of two clocks is taken
SLACK_NS: Final = 200_000  # ranks leave one kernel within tens of µs (V100 and A100 traces); this leaves room
MAX_SIMILAR: Final = 4_000  # longest sequence compared with losses: the comparison is quadratic


@dataclass(slots=True)
class Lane:
    """One rank's sequence on one communicator: rows of the frame, in the order in which the rank issued them."""

    rank: int
    rows: IntArray
    signature: IntArray
    end: IntArray
    together: np.ndarray[tuple[int], np.dtype[np.bool_]]  # operations whose ranks leave together


def match_collectives(frame: pl.DataFrame, info: RunInfo) -> pl.DataFrame:
    """Rows by COLLECTIVES with `match`, `expected` and `matched_by` filled; order and other columns as given."""
    if not frame.height:
        return frame
    keys, expected = _communicators(frame, info)
    match = np.full(frame.height, -1, dtype=np.int64)
    by = np.full(frame.height, "alone", dtype=object)
    ranks = frame["rank"].to_numpy()
    seqs = frame["seq"].to_list()
    ops = frame["op"].to_list()
    lanes: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        lanes[key].append(row)
    count = 0
    for rows in lanes.values():
        if all(seqs[r] is not None for r in rows):
            count = _by_sequence(rows, ranks, seqs, ops, match, by, count)
        else:
            count = _by_order(frame, rows, ranks, match, by, count)
    order = _by_time(match, frame["arrive_ns"].to_numpy())
    return frame.with_columns(
        match=pl.Series(order[match], dtype=pl.Int64),
        expected=pl.Series(expected, dtype=pl.Int64),
        matched_by=pl.Series(by, dtype=pl.String).cast(frame.schema["matched_by"]),
    )


def _communicators(frame: pl.DataFrame, info: RunInfo) -> tuple[list[str], list[int | None]]:
    """A key per row that ranks of one communicator share, and how many ranks it has."""
    named: dict[str, list[Group]] = defaultdict(list)
    for group in info.groups:
        named[group.group].append(group)
    sets = {group.ranks for group in info.groups if group.ranks}
    only = info.groups[0] if len(sets) == 1 else None
    place = _stream_places(frame)
    keys: list[str] = []
    sizes: list[int | None] = []
    for rank, name, stream, size in frame.select("rank", "group", "stream", "group_size").iter_rows():
        mine = only if name is None else next((g for g in named.get(name, ()) if rank in g.ranks), None)
        if mine is not None:
            keys.append(f"group {mine.group} {mine.ranks[0]} {len(mine.ranks)}")
            sizes.append(len(mine.ranks))
        else:
            keys.append(f"group {name}" if name is not None else f"stream {place.get((rank, stream), 0)}")
            sizes.append(size or (info.world_size if len(sets) < 2 else None))  # of several groups nobody says which
    return keys, sizes


def _stream_places(frame: pl.DataFrame) -> dict[tuple[int, int | None], int]:
    """Streams have other numbers on other ranks: a rank's n-th communication stream is its n-th, by first use."""
    first = frame.group_by("rank", "stream").agg(pl.col("arrive_ns").min()).sort("rank", "arrive_ns", "stream")
    places: dict[tuple[int, int | None], int] = {}
    used: Counter[int] = Counter()
    for rank, stream, _ in first.iter_rows():
        places[rank, stream] = used[rank]
        used[rank] += 1
    return places


def _by_sequence(
    rows: Sequence[int], ranks: IntArray, seqs: list[int | None], ops: list[str], match: IntArray, by: np.ndarray, count: int
) -> int:  # fmt: skip
    """The same number and operation on one communicator is the same collective; repeats (coalesced ones) pair in order."""
    seen: Counter[tuple[int, int | None, str]] = Counter()
    found: dict[tuple[int | None, str, int], int] = {}
    for row in rows:
        again = (int(ranks[row]), seqs[row], ops[row])
        key = (seqs[row], ops[row], seen[again])
        seen[again] += 1
        if key not in found:
            found[key] = count
            count += 1
        match[row] = found[key]
        by[row] = "sequence"
    return count


def _by_order(frame: pl.DataFrame, rows: list[int], ranks: IntArray, match: IntArray, by: np.ndarray, count: int) -> int:
    lanes = _lanes(frame, rows, ranks)
    base = max(lanes, key=lambda lane: len(lane.rows))
    match[base.rows] = np.arange(count, count + len(base.rows))
    count += len(base.rows)
    for lane in lanes:
        if lane is base:
            continue
        mine, theirs, sure = _pair(lane, base)
        match[lane.rows[mine]] = match[base.rows[theirs]]
        by[lane.rows[mine]] = "order" if sure else "order_with_gaps"
        by[base.rows[theirs]] = np.where(by[base.rows[theirs]] == "order_with_gaps", "order_with_gaps", by[lane.rows[mine]])
        left = np.setdiff1d(np.arange(len(lane.rows)), mine)
        match[lane.rows[left]] = np.arange(count, count + len(left))
        count += len(left)
    return count


def _lanes(frame: pl.DataFrame, rows: list[int], ranks: IntArray) -> list[Lane]:
    part = frame[rows].select("op", "bytes", "dtype", "end_ns", "arrive_ns")
    size = pl.when(pl.col("op").is_in(VARYING)).then(pl.lit(-1)).otherwise(pl.col("bytes").fill_null(-2))
    names = part.select(s=pl.format("{} {}", "op", size))["s"]
    signature = names.cast(pl.Enum(names.unique())).to_physical().to_numpy().astype(np.int64)
    order = np.lexsort((part["arrive_ns"].to_numpy(), ranks[rows]))
    all_rows, end = np.array(rows, dtype=np.int64), part["end_ns"].to_numpy()
    together = part["op"].is_in(TOGETHER).to_numpy()
    own = ranks[rows][order]
    cuts = np.flatnonzero(np.diff(own)) + 1
    return [Lane(int(ranks[all_rows[o[0]]]), all_rows[o], signature[o], end[o], together[o]) for o in np.split(order, cuts)]


def _pair(lane: Lane, base: Lane) -> tuple[IntArray, IntArray, bool]:
    """Places in `lane` and in `base` that are the same collective, and whether the sequences agreed without losses.

    Steps repeat, so a shift by whole steps agrees as well. But only at the true one do the two ranks leave each collective
    together: there the distance of their ends is steady, whatever the clocks' offset and drift.
    """
    fitting: list[tuple[float, int, float, int]] = []
    n, m = len(lane.rows), len(base.rows)
    for shift in range(-min(MAX_SHIFT, n - 1), min(MAX_SHIFT, m - 1) + 1):
        low, high = max(0, -shift), min(n, m - shift)
        if 2 * (high - low) < min(n, m):
            continue
        if float((lane.signature[low:high] == base.signature[low + shift : high + shift]).mean()) < FITS:
            continue
        apart = lane.end[low:high] - base.end[low + shift : high + shift]
        unsteady = float(np.median(np.abs(np.diff(apart)))) if len(apart) > 1 else float("inf")
        fitting.append((unsteady, low - high, float(np.median(np.abs(apart))), shift))
    if not fitting:
        return (*_with_losses(lane, base), False)
    steadiest = min(f[0] for f in fitting)
    shift = min(f[1:] for f in fitting if f[0] <= STEADY * steadiest + STEADY_NS or len(fitting) == 1)[2]
    low, high = max(0, -shift), min(n, m - shift)
    mine = np.arange(low, high)
    mine = mine[lane.signature[mine] == base.signature[mine + shift]]
    return mine, mine + shift, True


def _with_losses(lane: Lane, base: Lane) -> tuple[IntArray, IntArray]:
    """Sequences that lost events: what is common in order tells how far the clocks are apart, then the ends decide."""
    none = np.zeros(0, dtype=np.int64)
    if len(lane.rows) > MAX_SIMILAR or len(base.rows) > MAX_SIMILAR:
        return none, none
    matcher = SequenceMatcher(None, lane.signature.tolist(), base.signature.tolist(), autojunk=False)
    pairs = [(b.a + k, b.b + k) for b in matcher.get_matching_blocks() for k in range(b.size)]
    pairs = [(a, b) for a, b in pairs if lane.together[a]]
    if len(pairs) < LEAST_TOGETHER:
        return none, none
    mine, theirs = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    apart = lane.end[mine] - base.end[theirs]
    middle = int(np.median(apart))
    slack = max(3 * int(np.median(np.abs(apart - middle))), SLACK_NS)
    order = np.argsort(base.end, kind="stable")
    wanted = lane.end - middle
    at = (
        np.clip(np.searchsorted(base.end[order], wanted), 1, len(order) - 1)
        if len(order) > 1
        else np.zeros(len(wanted), np.int64)
    )
    near = np.where(np.abs(base.end[order[at - 1]] - wanted) <= np.abs(base.end[order[at]] - wanted), order[at - 1], order[at])
    fits = (np.abs(base.end[near] - wanted) <= slack) & (base.signature[near] == lane.signature)
    mine = np.flatnonzero(fits)
    _, first = np.unique(near[mine], return_index=True)  # one of ours for each of theirs
    mine = mine[np.sort(first)]
    return mine, near[mine]


def _by_time(match: IntArray, arrive: IntArray) -> IntArray:
    """New numbers for the matches, in order of their first arrival."""
    first = np.full(int(match.max()) + 1, np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(first, match, arrive)
    numbers = np.empty(len(first), dtype=np.int64)
    numbers[np.argsort(first, kind="stable")] = np.arange(len(first))
    return numbers
