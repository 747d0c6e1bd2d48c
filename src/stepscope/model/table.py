"""A small table as a value: what every result hands to whoever draws it.

Cells are str, int, float or None (drawn as `-`). It knows no colours and no widths of a screen.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; numbers are set right. What is `spare` is left out first where a screen is too narrow.

    A last column that `wraps` holds sentences: on a narrow screen they go on below, where names give way in their middle.
    """

    name: str
    right: bool = False
    spare: bool = False
    wraps: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Title, columns and rows; `notes` stand under it, a line each."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        cells = [[c.name for c in self.columns], *([_text(v) for v in row] for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        lines = [
            "  ".join(v.rjust(w) if c.right else v.ljust(w) for v, w, c in zip(row, widths, self.columns, strict=True)).rstrip()
            for row in cells
        ]
        return "\n".join([self.title, *lines, *self.notes])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(c.name)}</th>" for c in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(_text(v))}</td>" for v in row) + "</tr>" for row in self.rows)
        notes = "".join(f"<p>{html.escape(n)}</p>" for n in self.notes)
        caption = f"<caption>{html.escape(self.title)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def _text(value: Cell) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)
