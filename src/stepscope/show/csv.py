"""Tables as CSV (RFC 4180, LF): a heading line, then raw values. Unknown is an empty cell; no text cell can act as a formula."""

from __future__ import annotations

import csv
from io import StringIO

from stepscope.model.breakdown import Breakdown
from stepscope.model.table import Cell, Column, Table
from stepscope.model.words import PARTS
from stepscope.show import safe
from stepscope.show.json import seconds


def table(shown: Table) -> str:
    """The columns and rows of any table; title and notes are left out."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(safe.csv_cell(c.name) for c in shown.columns)
    writer.writerows([_cell(v) for v in row] for row in shown.rows)
    return out.getvalue()


def breakdown(result: Breakdown) -> str:
    """One row per rank and step: rank, step, complete, duration_s, naive_s, then each part in seconds as `PART_s`."""
    names = ("rank", "step", "complete", "duration_s", "naive_s", *(f"{part}_s" for part in PARTS))
    rows = tuple(
        (
            s.rank,
            s.step,
            str(s.complete).lower(),
            seconds(s.duration_ns),
            seconds(s.naive_ns),
            *(seconds(s.parts_ns.get(p)) for p in PARTS),
        )
        for s in result.steps
    )
    return table(Table("", tuple(Column(n) for n in names), rows))


def _cell(value: Cell) -> str | int | float:
    if value is None:
        return ""
    return safe.csv_cell(value) if isinstance(value, str) else value
