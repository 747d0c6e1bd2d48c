"""A Table as lines of a given width: columns as wide as their cells, long names clipped, records where columns do not fit."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from stepscope.model.table import Cell, Column, Table
from stepscope.show import safe, units

GAP = "  "
NARROWEST_NAME = 16  # no word of the closed vocabularies is longer


def text(value: Cell) -> str:
    """A cell as safe text: None is `-`, floats have three significant digits."""
    if value is None:
        return units.UNKNOWN
    if isinstance(value, float):
        return units.figure(value)
    return safe.terminal(str(value))


def lay_out(table: Table, columns: int) -> tuple[str, list[str]]:
    """The heading line and the row lines, each at most `columns` wide where the figures allow it. No heading for records."""
    for left in range(sum(c.spare for c in table.columns) + 1):
        kept = _without_spare(table.columns, left)
        head, rows = _fitted(table, kept, columns)
        if head:
            return head, rows
    return head, rows


def _without_spare(columns: Sequence[Column], many: int) -> list[int]:
    """Places of the columns without the first so many that are spare."""
    spare = [i for i, column in enumerate(columns) if column.spare][:many]
    return [i for i in range(len(columns)) if i not in spare]


def _fitted(table: Table, kept: Sequence[int], columns: int) -> tuple[str, list[str]]:
    chosen = [table.columns[i] for i in kept]
    rows = [[text(row[i]) for i in kept] for row in table.rows]
    head = [safe.terminal(c.name) for c in chosen]
    widths = [max(map(safe.width, column)) for column in zip(head, *rows, strict=True)]
    for i in sorted(range(len(widths)), key=lambda i: -widths[i]):
        over = sum(widths) + len(GAP) * (len(widths) - 1) - columns
        if over > 0 and not chosen[i].right:
            widths[i] = max(widths[i] - over, min(widths[i], max(NARROWEST_NAME, safe.width(head[i]))))
    if sum(widths) + len(GAP) * (len(widths) - 1) > columns:
        return "", _records(head, rows)
    right = [c.right for c in chosen]
    return _line(head, widths, right), [line for row in rows for line in _lines(row, widths, right, chosen[-1].wraps)]


def _lines(cells: list[str], widths: list[int], right: list[bool], wraps: bool) -> Iterator[str]:
    """The line of a row, and those on which its last cell goes on."""
    if not wraps or safe.width(cells[-1]) <= widths[-1]:
        yield _line(cells, widths, right)
        return
    for i, piece in enumerate(textwrap.wrap(cells[-1], widths[-1])):
        before = cells[:-1] if i == 0 else [""] * (len(cells) - 1)
        yield _line([*before, piece], widths, right)


def _line(cells: list[str], widths: list[int], right: list[bool]) -> str:
    placed = []
    for cell, columns, to_right in zip(cells, widths, right, strict=True):
        shown = safe.clip(cell, columns)
        pad = " " * (columns - safe.width(shown))
        placed.append(pad + shown if to_right else shown + pad)
    return GAP.join(placed).rstrip()


def _records(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = []
    for first, *rest in rows:
        lines.append(f"{head[0]} {first}".strip())
        lines += [f"  {name}: {cell}" for name, cell in zip(head[1:], rest, strict=True) if cell != units.UNKNOWN]
    return lines
