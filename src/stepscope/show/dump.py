"""Flight-recorder dumps as a screen: which ranks left one, what is in it, how far each process group came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from stepscope.model.dump import Dump, Dumps
from stepscope.model.table import Cell, Column, Table
from stepscope.show import units
from stepscope.show.gaps import gap_lines
from stepscope.show.terminal import Block, Paragraph

ALL: Final = 64
MOST: Final = 12
GROUPS: Final = 3


def shown(held: Dumps, name: str) -> Iterator[Block]:
    """The whole screen."""
    versions = ", ".join(sorted({d.version for d in held.dumps if d.version})) or "not named"
    entries = sum(d.entries for d in held.dumps)
    lead = f"{units.count(len(held.dumps), 'flight-recorder dump')}, version {versions}"
    yield Paragraph(f"{name}: {lead}, {units.count(entries, 'entry', 'entries')}", "bold")
    yield table(held)
    if entries:
        yield _operations(held)
    yield from gap_lines(held.gaps)


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
        "gaps": [{"what": g.what, "ranks": list(g.ranks), "why": g.why} for g in held.gaps],
    }


def _row(d: Dump) -> tuple[Cell, ...]:
    groups = [f"{g}: {_end(e)}/{_end(c)}" for g, (e, c) in d.groups.items()]
    said = ", ".join(groups[:GROUPS]) + (f", and {len(groups) - GROUPS} more" if len(groups) > GROUPS else "")
    return (d.rank, d.form, f"{d.entries:,}", said or None, d.file)


def _end(value: int | None) -> str:
    return "?" if value is None else "none" if value < 0 else str(value)
