"""A mesh as a screen: a line per axis, and a picture of which ranks exchange with which, a letter for each group."""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_letters
from typing import Final

from stepscope.model.exchange import AxisExchange, MeshView, Seat
from stepscope.model.table import Cell, Column, Table
from stepscope.show import units
from stepscope.show.terminal import Block, Paragraph

MOST_ROWS: Final = 16  # nodes of a picture; the others are alike
WIDTH: Final = 16  # ranks of a row where the nodes are not known


def blocks(view: MeshView) -> Iterator[Block]:
    """The whole screen."""
    yield Paragraph(view.title, "bold")
    for warning in view.warnings:
        yield Paragraph(f"warning: {warning}", "warn", indent=2)
    yield axes(view)
    yield pictures(view)
    if view.replicas:
        some = "; ".join(units.rank_list(r) for r in view.replicas[:3])
        more = f"; and {len(view.replicas) - 3} more sets" if len(view.replicas) > 3 else ""
        yield Paragraph(f"Identical parameters on: {some}{more}.", indent=2)
    for note in view.notes:
        yield Paragraph(note, "dim", indent=2)


def axes(view: MeshView) -> Table:
    """What each axis exchanges."""
    names = ("axis", "size", "groups", "exchange", "bytes a step", "hidden", "crosses")
    columns = tuple(Column(name, name in ("size", "groups", "bytes a step"), name in ("groups", "hidden")) for name in names)
    notes = tuple(f"{axis.axis or 'unnamed'}: {axis.holds}; {axis.when}" for axis in view.axes)
    return Table("Who exchanges what", columns, tuple(_axis(axis) for axis in view.axes), notes)


def _axis(axis: AxisExchange) -> tuple[Cell, ...]:
    hidden = {True: "mostly", False: "no", None: None}[axis.hidden]
    size = None if axis.bytes_per_step is None else units.size(axis.bytes_per_step)
    return (axis.axis or "unnamed", axis.size, len(axis.groups), axis.op, size, hidden, ", ".join(axis.links) or None)


def pictures(view: MeshView) -> Table:
    """For each axis the group of every rank as a letter, a row per node (or per 16 ranks); equal letters exchange."""
    rows = _rows(view.seats)
    names = [axis.axis or f"group {i}" for i, axis in enumerate(view.axes)]
    letters = [_letters(axis) for axis in view.axes]
    shown = rows[:MOST_ROWS]
    cells = tuple((label, *("".join(own.get(seat.rank, "-") for seat in seats) for own in letters)) for label, seats in shown)
    left = len(rows) - len(shown)
    notes = (f"and {left} more rows, laid alike",) if left else ()
    return Table("Ranks with the same letter exchange along that axis", (Column("ranks"), *map(Column, names)), cells, notes)


def _rows(seats: tuple[Seat, ...]) -> list[tuple[str, list[Seat]]]:
    found: dict[str, list[Seat]] = {}
    for seat in seats:
        key = f"node {seat.rank // WIDTH}" if seat.node is None else seat.node
        found.setdefault(key, []).append(seat)
    return [
        (f"{units.rank_list([s.rank for s in row])}" + (f" {name}" if row[0].node is not None else ""), row)
        for name, row in found.items()
    ]


def _letters(axis: AxisExchange) -> dict[int, str]:
    return {rank: ascii_letters[i % len(ascii_letters)] for i, group in enumerate(axis.groups) for rank in group}
