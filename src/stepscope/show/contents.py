"""What a Run holds: its own description, and its collectives counted by operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.model.info import RunInfo
    from stepscope.model.run import Run


@dataclass(frozen=True, slots=True)
class OperationCount:
    """Calls of one operation on all ranks, their bytes (None where no call has a size), and how many ranks take part."""

    op: str
    calls: int
    bytes: int | None
    ranks: int


@dataclass(frozen=True, slots=True)
class Contents:
    """`collectives` with the most frequent operation first."""

    info: RunInfo
    collectives: tuple[OperationCount, ...]


def contents(run: Run) -> Contents:
    """Reads the collectives of one rank at a time; raises BadInput where a table is damaged."""
    import polars as pl

    counts: dict[str, list[int]] = {}
    for tables in run:
        sizes = pl.col("bytes")
        ops = tables.collectives.group_by(pl.col("op").fill_null("unknown")).agg(
            pl.len(), sizes.sum().alias("sum"), sizes.count().alias("sized")
        )
        for op, *figures in ops.iter_rows():
            count = counts.setdefault(op, [0, 0, 0, 0])
            counts[op] = [a + b for a, b in zip(count, (*figures, 1), strict=True)]
    rows = (OperationCount(op, calls, total if sized else None, ranks) for op, (calls, total, sized, ranks) in counts.items())
    return Contents(run.info, tuple(sorted(rows, key=lambda c: (-c.calls, c.op))))
