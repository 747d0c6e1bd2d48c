"""A lane of slices as a table: its columns, and what all ranks' lanes need to be drawn."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from stepscope.analysis.columns import Transfers
from stepscope.model.spans import Schema

SLICES: Final[Schema] = {
    "start": pl.Int64,
    "end": pl.Int64,  # not after `start` for a point in time
    "name": pl.String,
    "category": pl.String,
    "phase": pl.String,
    "unit": pl.String,
    "pass": pl.String,
    "operation": pl.String,
    "group": pl.String,
    "dtype": pl.String,
    "bytes": pl.Int64,
    "flops": pl.Int64,
    "collective": pl.Int64,
    "sequence": pl.Int64,
    "ranks": pl.Int64,
    "recompute": pl.Int64,  # 1 or null
    "duration_ns": pl.Int64,  # of a slice that could only be drawn as a point
    "leaves": pl.Int64,  # arrows, as in `arrows`
    "first": pl.Int64,
    "arrives": pl.Int64,
}
TEXTS: Final = ("phase", "unit", "pass", "operation", "group", "dtype")
NUMBERS: Final = ("bytes", "flops", "collective", "sequence", "ranks", "recompute", "duration_ns")
"""Columns that become arguments of a slice where they are not null."""

COLLECTIVE: Final = {
    "operation": pl.col("op"),
    "collective": pl.col("match"),
    "sequence": pl.col("seq"),
    "ranks": pl.col("expected"),
}
"""Columns of a collective under the names that a slice gives them."""


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """A named lane and its slices (by SLICES), in any order."""

    name: str
    slices: pl.DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """What all ranks' lanes need: transfers and last ranks of collectives, arrows of each rank, the steps wanted."""

    transfers: Transfers
    last: Mapping[int, int]  # collective (its number across ranks) to the rank that is called last
    arrows: Mapping[int, pl.DataFrame]
    steps: Collection[int] | None = None

    def in_steps(self) -> pl.Expr:
        """Which rows are of the steps wanted."""
        return pl.lit(True) if self.steps is None else pl.col("step").is_in(list(self.steps)).fill_null(False)
