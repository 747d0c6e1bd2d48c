"""Flight-recorder dumps as a screen: which ranks left one, what is in it, how far each process group came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from stepscope.analysis.dumps import standing
from stepscope.model.dump import Dump, Dumps, Standing, Stuck
from stepscope.model.table import Cell, Column, Table
from stepscope.show import units
from stepscope.show.gaps import gap_lines
from stepscope.show.terminal import Block, Paragraph

ALL: Final = 64
MOST: Final = 12
GROUPS: Final = 3
STUCK: Final = 8


def shown(held: Dumps, name: str) -> Iterator[Block]:
    """The whole screen."""
    versions = ", ".join(sorted({d.version for d in held.dumps if d.version})) or "not named"
    entries = sum(d.entries for d in held.dumps)
    lead = f"{units.count(len(held.dumps), 'flight-recorder dump')}, version {versions}"
    yield Paragraph(f"{name}: {lead}, {units.count(entries, 'entry', 'entries')}", "bold")
    yield from _standing(standing(held))
    yield table(held)
    if entries:
        yield _operations(held)
    yield from gap_lines(held.gaps)


def _standing(found: Standing) -> Iterator[Block]:
    """Who is missing or behind, who called something else, who is late: lines, and a table of what has not ended."""
    for one in found.mismatched:
        calls = "; ".join(f"{_ranks(ranks)} {call}" for call, ranks in one.calls)
        yield Paragraph(f"Mismatch at number {one.sequence} of group {_group(one.group, one.description)}: {calls}.", "bold")
    if found.first:
        missing = any(set(found.first) & set(one.missing) for one in found.stuck)
        why = "missing where others wait, and waiting for nobody" if missing else "behind where others of the group are long past"
        yield Paragraph(f"Look at {_ranks(found.first)} first: {why}.", "bold")
    elif found.stuck:
        yield Paragraph("Collectives stand, and every rank that left a dump is in one: the first of them below.", "bold")
    for late in found.late[:GROUPS]:
        yield Paragraph(
            f"Rank {late.rank} came late of its own to {units.count(late.collectives, 'collective')}, by "
            f"{units.duration(late.mean_ns)} on average and {units.duration(late.most_ns)} at most ({late.at})."
        )
    if found.stuck:
        yield _stuck(found.stuck)


def _stuck(stuck: tuple[Stuck, ...]) -> Table:
    """A row per group whose collective has not ended, the first to be joined on top."""
    names = ("since s", "operation", "number", "group", "joined", "missing", "ended on", "sizes")
    first = min((one.since_ns for one in stuck if one.since_ns is not None), default=0)
    rows = tuple(
        (
            None if one.since_ns is None else f"+{(one.since_ns - first) / 1e9:.3f}", one.operation, one.sequence,
            _group(one.group, one.description), _numbers(one.joined), _numbers(one.missing), _numbers(one.ended), one.shape,
        )
        for one in stuck[:STUCK]
    )  # fmt: skip
    left = len(stuck) - STUCK
    notes = (f"{left:,} more: see --format json",) if left > 0 else ()
    return Table("Not ended", tuple(Column(n, right=n in ("since s", "number")) for n in names), rows, notes)


def _group(name: str, description: str) -> str:
    return f"{name} ({description})" if description else name


def _ranks(ranks: tuple[int, ...]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {_numbers(ranks)}"


def _numbers(ranks: tuple[int, ...]) -> str | None:
    """`0-3, 7`; None for nobody."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs) or None


def table(held: Dumps) -> Table:
    """A row per dump: of each process group the last collective enqueued and the last completed."""
    names = ("rank", "form", "entries", "groups: enqueued/completed", "file")
    left = len(held.dumps) - ALL
    notes = (f"{left:,} more dumps: see --format json",) if left > 0 else ()
    columns = tuple(Column(n, right=n in ("rank", "entries")) for n in names)
    return Table("Dumps", columns, tuple(_row(d) for d in held.dumps[:ALL]), notes)


def _operations(held: Dumps) -> Table:
    """What the rings hold, all ranks together."""
    operations: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for d in held.dumps:
        operations.update(d.operations)
        states.update(d.states)
    rows = tuple((op, f"{n:,}") for op, n in operations.most_common(MOST))
    said = ", ".join(f"{n:,} {state}" for state, n in states.most_common())
    notes = (f"states: {said}",) if said else ()
    return Table("Operations in the rings", (Column("operation"), Column("entries", right=True)), rows, notes)


def document(held: Dumps) -> dict[str, Any]:
    """`show/1` of dumps."""
    found = standing(held)
    return {
        "schema": "show/1",
        "kind": "flight_recorder",
        "ranks": [d.rank for d in held.dumps if d.rank is not None],
        "missing_ranks": [r for g in held.gaps if g.what == "ranks without a dump" for r in g.ranks],
        "dumps": [
            {
                "file": d.file,
                "rank": d.rank,
                "form": d.form,
                "version": d.version,
                "library": d.library,
                "entries": d.entries,
                "wrapped": d.wrapped,
                "operations": dict(d.operations),
                "states": dict(d.states),
                "groups": {g: {"last_enqueued": e, "last_completed": c} for g, (e, c) in d.groups.items()},
            }
            for d in held.dumps
        ],
        "first": list(found.first),
        "stuck": [
            {
                "group": s.group,
                "description": s.description,
                "number": s.sequence,
                "operation": s.operation,
                "sizes": s.shape,
                "joined": list(s.joined),
                "missing": list(s.missing),
                "ended": list(s.ended),
                "since_unix_ns": s.since_ns,
            }
            for s in found.stuck
        ],
        "mismatched": [
            {
                "group": m.group,
                "description": m.description,
                "number": m.sequence,
                "calls": [{"call": call, "ranks": list(ranks)} for call, ranks in m.calls],
            }
            for m in found.mismatched
        ],
        "late": [
            {"rank": o.rank, "collectives": o.collectives, "mean_s": o.mean_ns / 1e9, "most_s": o.most_ns / 1e9, "at": o.at}
            for o in found.late
        ],
        "gaps": [{"what": g.what, "ranks": list(g.ranks), "why": g.why} for g in held.gaps],
    }


def _row(d: Dump) -> tuple[Cell, ...]:
    groups = [f"{g}: {_end(e)}/{_end(c)}" for g, (e, c) in d.groups.items()]
    said = ", ".join(groups[:GROUPS]) + (f", and {len(groups) - GROUPS} more" if len(groups) > GROUPS else "")
    return (d.rank, d.form, f"{d.entries:,}", said or None, d.file)


def _end(value: int | None) -> str:
    return "?" if value is None else "none" if value < 0 else str(value)
