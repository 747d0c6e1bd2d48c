"""Who is missing, who is late, and at which operation? Said by the rings of the ranks' flight recorders together.

A collective is stuck where some rank joined it and no ring has seen it end; members without it are missing. A rank that is
missing somewhere and waits nowhere itself is the one to look at first: the others wait for it, or for one that does. Late is
judged by a rank's own time: from when the collective before could end (its last member's arrival) to when this one was
enqueued, beyond the median of the members. So who was held up by a late rank is not late. Times are the hosts' enqueue times
as they were written: clocks of several hosts are compared as they are, and a GPU that lags behind its host is not seen.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

from stepscope.model.dump import Dump, Dumps, Held, Late, Mismatch, Standing, Stuck

DEFAULT: Final = ("0", "default_pg")  # torch's own name of the group of all ranks
# An own delay counts where it is far outside what enqueueing itself varies by: so many medians of all delays, and a
# millisecond, below which a scheduler's slice or a page fault explains it.
FAR: Final = 10
LEAST_NS: Final = 1_000_000
AHEAD: Final = 1  # collectives by which the watchdogs of two ranks, which look ten times a second, may differ by chance
SIZED: Final = (
    "all_reduce",
    "allreduce",
    "_all_gather_base",
    "all_gather",
    "_reduce_scatter_base",
    "reduce_scatter",
    "broadcast",
)

Key = tuple[str, str, tuple[int, ...]]
"""A process group: name, description, and its ranks where a dump describes them; one name may stand for several groups."""


@dataclass(frozen=True, slots=True)
class _Rings:
    """Of every rank the dump that says most, its collectives by group and number, and who belongs to which group."""

    dumps: Mapping[int, Dump]
    calls: Mapping[Key, Mapping[int, Mapping[int, Held]]]  # group -> number -> rank -> entry
    members: Mapping[Key, tuple[int, ...]]

    @classmethod
    def of(cls, found: Dumps) -> _Rings:
        dumps: dict[int, Dump] = {}
        for dump in found.dumps:
            if dump.rank is not None and (dump.rank not in dumps or _says(dump) > _says(dumps[dump.rank])):
                dumps[dump.rank] = dump
        calls: dict[Key, dict[int, dict[int, Held]]] = defaultdict(lambda: defaultdict(dict))
        seen: dict[Key, set[int]] = defaultdict(set)
        for rank, dump in dumps.items():
            for held in dump.held:
                key = _key(dump, held)
                seen[key].add(rank)
                if held.sequence is not None:
                    calls[key][held.sequence][rank] = held
        everyone = {*dumps, *(rank for gap in found.gaps if gap.what == "ranks without a dump" for rank in gap.ranks)}
        members = {}
        for key, ranks in seen.items():
            known = set(key[2]) or (everyone if key[:2] == DEFAULT else ranks)
            members[key] = tuple(sorted(known | ranks))
        return cls(dumps, calls, members)


def standing(found: Dumps) -> Standing:
    """What the dumps of a job say together."""
    rings = _Rings.of(found)
    stuck = tuple(sorted(_stuck(rings), key=lambda s: (s.since_ns is None, s.since_ns or 0, s.group, s.sequence)))
    waiting = {rank for rank, dump in rings.dumps.items() if any(not held.finished for held in dump.held)}
    missing = Counter(rank for one in stuck for rank in one.missing)
    first = {rank for rank in missing if rank not in waiting}
    if not missing:
        first = {rank for one in stuck if one.ended for rank in one.joined if rank not in one.ended}
    return Standing(stuck, tuple(sorted(first)), tuple(_mismatches(rings)), tuple(_late(rings)))


def _says(dump: Dump) -> tuple[int, int]:
    """A dump in which something is unfinished says more than a later one of the same rank, any more than an empty one."""
    return sum(not held.finished for held in dump.held), len(dump.held)


def _key(dump: Dump, held: Held) -> Key:
    ranks = dump.members.get(held.group, ())
    if not ranks and (held.group, held.description) == DEFAULT:
        ranks = dump.members.get("", ())  # as gloo describes it
    return held.group, held.description, ranks


def _stuck(rings: _Rings) -> Iterator[Stuck]:
    """Of each group the first collective that nobody has seen end."""
    for key, by_number in rings.calls.items():
        members = rings.members[key]
        for number in sorted(by_number):
            here = by_number[number]
            if any(held.finished for held in here.values()) and len(here) == len(members):
                continue  # it ended for one, so it ends for all
            if all(held.finished for held in here.values()):
                continue
            later = {rank for n, ranks in by_number.items() if n > number for rank in ranks}
            joined = tuple(sorted({*here, *later}))
            held = min(here.values(), key=lambda h: h.created_ns or 0)
            times = [h.created_ns for h in here.values() if h.created_ns]
            missing = tuple(rank for rank in members if rank not in joined)
            ended = tuple(rank for rank in joined if rank not in here and _least(by_number, rank, number) > number + AHEAD)
            since = min(times) if times else None
            yield Stuck(key[0], key[1], number, held.operation, held.shape, joined, missing, since, ended)
            break


def _least(by_number: Mapping[int, Mapping[int, Held]], rank: int, above: int) -> int:
    """The lowest number above that one which the rank's ring still holds."""
    return min((n for n, ranks in by_number.items() if n > above and rank in ranks), default=above)


def _mismatches(rings: _Rings) -> Iterator[Mismatch]:
    """The first number of each group under which ranks call different operations, or one of different size."""
    for key, by_number in rings.calls.items():
        for number in sorted(by_number):
            calls: dict[str, list[int]] = defaultdict(list)
            for rank, held in sorted(by_number[number].items()):
                calls[f"{held.operation} {held.shape}".strip() if held.operation in SIZED else held.operation].append(rank)
            if len(calls) > 1 and _differs(by_number[number].values()):
                yield Mismatch(key[0], key[1], number, tuple((call, tuple(ranks)) for call, ranks in calls.items()))
                break


def _differs(held: object) -> bool:
    entries = list(held)  # type: ignore[call-overload]
    names = {entry.operation for entry in entries}
    if len(names) > 1:
        return True
    return names.pop() in SIZED and len({entry.shape for entry in entries}) > 1


def _late(rings: _Rings) -> list[Late]:
    """Ranks whose own delays stand out, the worst first."""
    own = _own_delays(rings)
    excess: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for (key, number), delays in own.items():
        if len(delays) < 2:
            continue
        for rank, delay in delays.items():
            others = median(d for r, d in delays.items() if r != rank)
            held = rings.calls[key][number][rank]
            excess[rank].append((round(delay - others), f"{held.operation} {number} of group {_named(key)}"))
    usual = median([abs(ns) for found in excess.values() for ns, _ in found] or [0])
    late = []
    for rank, found in excess.items():
        far = [(ns, at) for ns, at in found if ns > max(FAR * usual, LEAST_NS)]
        if far:
            most, at = max(far)
            late.append(Late(rank, len(far), round(sum(ns for ns, _ in far) / len(far)), most, at))
    return sorted(late, key=lambda one: -one.mean_ns * one.collectives)


def _own_delays(rings: _Rings) -> dict[tuple[Key, int], dict[int, int]]:
    """ns from when a rank's collective before could end to when it enqueued this one; by collective and rank."""
    found: dict[tuple[Key, int], dict[int, int]] = defaultdict(dict)
    arrived = {
        (key, number): max((h.created_ns for h in ranks.values() if h.created_ns), default=None)
        for key, by_number in rings.calls.items()
        for number, ranks in by_number.items()
    }
    for rank, dump in rings.dumps.items():
        before: int | None = None
        for held in dump.held:
            if held.created_ns is None or held.sequence is None:
                before = None
                continue
            at = (_key(dump, held), held.sequence)
            if before is not None:
                found[at][rank] = max(held.created_ns - before, 0)
            last = arrived[at]
            before = max(held.created_ns, last) if last is not None else held.created_ns
    return found


def _named(key: Key) -> str:
    return f"{key[0]} ({key[1]})" if key[1] else key[0]
