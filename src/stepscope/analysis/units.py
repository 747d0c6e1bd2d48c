"""Which FSDP unit's gather was hidden, and which held compute back? Per unit and pass, mean per step and rank, in ns.

A step with several gathers of one unit (accumulation) counts their sum. Only complete steps count, unless a rank has none;
collectives outside the steps never do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import polars as pl

from stepscope.analysis.account import Account
from stepscope.analysis.intervals import whole_numbers
from stepscope.model import words
from stepscope.model.breakdown import UnitGather
from stepscope.model.spans import RankTables

Key = tuple[str, str | None]


@dataclass(slots=True)
class Gathers:
    """Sums so far: of each unit and pass the rank-steps seen, gathered and hidden ns, blocked ns (None: unknown)."""

    sums: dict[Key, tuple[int, int, int, int | None]] = field(default_factory=dict)

    def add(self, tables: RankTables, account: Account) -> None:
        """Counts the gathers of one rank."""
        steps = [s.step for s in tables.info.steps if s.complete] or [s.step for s in tables.info.steps]
        gathers = (
            tables.collectives.with_row_index("row")
            .filter((pl.col("op") == "all_gather") & pl.col("unit").is_not_null() & pl.col("step").is_in(steps))
            .filter(pl.col("arrive_ns").is_not_null() & (pl.col("end_ns") >= pl.col("arrive_ns")))
        )
        if gathers.is_empty():
            return
        start, end = whole_numbers(gathers["arrive_ns"].to_numpy()), whole_numbers(gathers["end_ns"].to_numpy())
        blocked = account.blocked_ns(whole_numbers(gathers["row"].to_numpy()), start, end)
        figures = gathers.select(
            "unit",
            "pass",
            "step",
            pl.Series("gather", end - start),
            pl.Series("hidden", account.compute.covered_ns(start, end)),
            pl.Series("blocked", blocked if blocked is not None else [None] * len(start), dtype=pl.Int64),
        )
        sums = figures.group_by("unit", "pass").agg(
            pl.col("step").n_unique(),
            pl.col("gather", "hidden").sum(),
            pl.when(blocked is not None).then(pl.col("blocked").sum()),
        )
        for unit, pass_, *more in sums.iter_rows():
            self._count((unit, pass_), *more)

    def _count(self, key: Key, steps: int, gather: int, hidden: int, blocked: int | None) -> None:
        before = self.sums.get(key, (0, 0, 0, 0))
        known = None if blocked is None or before[3] is None else before[3] + blocked
        self.sums[key] = (before[0] + steps, before[1] + gather, before[2] + hidden, known)

    def means(self) -> tuple[UnitGather, ...]:
        """Forward before backward, units in the order of their numbers."""
        return tuple(
            UnitGather(
                unit=unit,
                pass_=pass_,
                gather_ns=_mean(gather, steps),
                hidden_ns=_mean(hidden, steps),
                blocked_ns=None if blocked is None else _mean(blocked, steps),
            )
            for (unit, pass_), (steps, gather, hidden, blocked) in sorted(self.sums.items(), key=lambda item: _order(item[0]))
        )


def _mean(total: int, count: int) -> int:
    """Rounded to the nearest ns, half up."""
    return (2 * total + count) // (2 * count)


def _order(key: Key) -> tuple[int, list[tuple[int, str]]]:
    unit, pass_ = key
    return (words.PASSES.index(pass_) if pass_ in words.PASSES else len(words.PASSES)), unit_order(unit)


def unit_order(unit: str) -> list[tuple[int, str]]:
    """Sorts units by their numbers: `layers.2` before `layers.10`."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", unit)]
