"""Arrows between the ranks of a collective: from each rank that came before to the one that came last.

They are drawn between ranks whose clocks can be compared, in the order of the common clock. That the last one is *called*
late is another matter (`analysis.arrivals`).
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from stepscope.model.info import host_of
from stepscope.model.run import Run

SCHEMA = {"id": pl.Int64, "leaves": pl.Int64, "first": pl.Int64, "arrives": pl.Int64}


def arrows(run: Run, ranks: Collection[int], steps: Collection[int] | None) -> dict[int, pl.DataFrame]:
    """Per rank, for collectives by their row `id`: the arrow that leaves (0: none), the first that arrives, how many do.

    The arrows that arrive at a collective have the numbers `first`, `first` + 1 and so on.
    """
    rows = run.collectives().filter(
        pl.col("rank").is_in(list(ranks))
        & pl.all_horizontal(pl.col("match", "span", "arrive_ns").is_not_null())
        & (pl.lit(True) if steps is None else pl.col("step").is_in(list(steps)).fill_null(False))
    )
    clock = run.info.clock
    by_rank = rows.partition_by("rank", as_dict=True, maintain_order=True)
    parts = []
    for info in run.info.ranks:
        own = by_rank.get((info.rank,))
        if own is None:
            continue
        host = clock.hosts.get(host_of(info))
        parts.append(
            own.select(
                "rank",
                "id",
                "match",
                arrive=pl.Series(clock.to_common(host_of(info), own["arrive_ns"].to_numpy())),
                component=pl.lit(host.component if host else -1 - info.rank, dtype=pl.Int64),
            )
        )
    if not parts:
        return {}
    table = pl.concat(parts).sort("match", "component", "arrive", "rank", "id")
    one = ("match", "component")
    is_last = pl.int_range(pl.len()).over(one) == pl.len().over(one) - 1
    table = table.with_columns(is_last=is_last, before=pl.col("arrive") < pl.col("arrive").max().over(one))
    table = table.with_columns(leaves=pl.when("before").then(pl.col("before").cum_sum()).otherwise(0).cast(pl.Int64))
    table = table.with_columns(
        first=pl.when("is_last").then(pl.col("leaves").filter(pl.col("leaves") > 0).min().over(one)),
        arrives=pl.when("is_last").then(pl.col("before").sum().over(one)).otherwise(0).cast(pl.Int64),
    ).with_columns(pl.col("first").fill_null(0))
    found = table.select("rank", *SCHEMA).partition_by("rank", as_dict=True, include_key=False)
    return {int(rank): part for (rank,), part in found.items()}
