"""Per collective: who was waited for, how long, and how fast the data moved once all were there.

All ranks of an all-reduce, all-gather, reduce-scatter or barrier leave together, so the last to arrive spends the least
time in it: that is the transfer, and it needs no clocks; what others spend longer is waiting. A matched all-to-all or
send-recv kernel of a whole group counts the same. Who came last is told only on aligned clocks, with every rank present,
and only where the spread is over three times what the alignment leaves open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import polars as pl

from stepscope.analysis.columns import Transfers
from stepscope.analysis.matching import TOGETHER
from stepscope.model.breakdown import Collective
from stepscope.model.info import RunInfo, host_of
from stepscope.model.run import Run

WHOLE: Final = ("all_to_all", "send_recv")  # symmetric where every rank of the group has its kernel
LATE: Final = 3  # times the residual that a spread must pass before a rank is called late

# busbw = size / time * factor(ranks), the convention of nccl-tests (PERFORMANCE.md).
_FACTOR: Final[dict[str, Callable[[int], float]]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
}


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Collectives in order of first arrival, and of each rank's rows the transfer in ns where it is known."""

    collectives: tuple[Collective, ...]
    transfers: Transfers


def arrivals(run: Run) -> Arrivals:
    """Arrivals of all collectives of a run. A row that was not matched is a collective of its own."""
    frame = run.collectives().drop_nulls(["arrive_ns", "end_ns"])
    if not frame.height:
        return Arrivals((), {})
    rows = _on_common_clock(frame, run.info)
    table = _per_collective(rows)
    return Arrivals(tuple(_collective(row) for row in table.iter_rows(named=True)), _transfers(rows, table))


def transfers_of(run: Run, rank: int, matches: pl.Series) -> Transfers:
    """What `arrivals` finds of one rank's transfers, for these matches alone; a collective without a match has none."""
    frame = run.collectives().drop_nulls(["arrive_ns", "end_ns", "match"]).filter(pl.col("match").is_in(matches.implode()))
    if not frame.height:
        return {}
    rows = _on_common_clock(frame, run.info)
    return _transfers(rows.filter(pl.col("rank") == rank), _per_collective(rows))


def _on_common_clock(frame: pl.DataFrame, info: RunInfo) -> pl.DataFrame:
    """Rows with `own` duration, `arrive` on the common clock, `component` and `residual` of the rank's host."""
    clock = info.clock
    host = {rank.rank: host_of(rank) for rank in info.ranks}
    parts = []
    for (rank,), part in frame.partition_by("rank", as_dict=True, maintain_order=True).items():
        name = host.get(int(rank), "")
        own = clock.hosts.get(name)
        parts.append(
            part.with_columns(
                own=(pl.col("end_ns") - pl.col("arrive_ns")).clip(lower_bound=0),
                arrive=pl.Series(clock.to_common(name, part["arrive_ns"].to_numpy())),
                component=pl.lit(own.component if own else -1 - int(rank), dtype=pl.Int64),
                residual=pl.lit(own.residual_ns if own else 0, dtype=pl.Int64),
                host=pl.lit(name),
            )
        )
    rows = pl.concat(parts)
    lone = pl.int_range(pl.len(), dtype=pl.Int64) + (int(rows["match"].max() or 0) + 1 if rows["match"].max() is not None else 0)  # type: ignore[arg-type]
    return rows.with_columns(match=pl.col("match").fill_null(lone))


def _per_collective(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per collective with its figures; nulls where they cannot be known."""
    last = pl.col("rank").sort_by("arrive", "own", descending=[False, True]).last()
    table = rows.group_by("match", maintain_order=True).agg(
        pl.col("step").drop_nulls().first(),
        pl.col("group").drop_nulls().first(),
        pl.col("op").first(),
        pl.col("bytes").max(),
        present=pl.col("rank").n_unique(),
        expected=pl.coalesce("expected", "group_size").max(),
        least=pl.col("own").min(),
        mean=pl.col("own").mean(),
        spread=pl.col("arrive").max() - pl.col("arrive").min(),
        first=pl.col("arrive").min(),
        components=pl.col("component").n_unique(),
        hosts=pl.col("host").n_unique(),
        residual=pl.col("residual").max(),
        last=last,
    )
    whole = (pl.col("present") == pl.col("expected")).fill_null(False)
    symmetric = pl.col("op").is_in(TOGETHER) | (pl.col("op").is_in(WHOLE) & whole)
    known = pl.col("present") > 1
    comparable = (pl.col("components") == 1) & known
    open_ns = pl.when(pl.col("hosts") > 1).then("residual").otherwise(0)
    return table.with_columns(
        transfer=pl.when(whole & symmetric).then("least"),
        wait=pl.when(symmetric & (known | whole)).then((pl.col("mean") - pl.col("least")).round().cast(pl.Int64)),
        skew=pl.when(comparable).then("spread"),
        last=pl.when(comparable & whole & (pl.col("spread") > LATE * open_ns) & (pl.col("spread") > 0)).then("last"),
    ).sort("first", "match", maintain_order=True)


def _collective(row: dict[str, object]) -> Collective:
    transfer, size, ranks = row["transfer"], row["bytes"], row["expected"] or row["present"]
    factor = _FACTOR.get(str(row["op"]))
    bandwidth = None
    if isinstance(transfer, int) and transfer > 0 and isinstance(size, int) and isinstance(ranks, int) and factor and ranks > 1:
        bandwidth = size / (transfer * 1e-9) * factor(ranks)
    return Collective(
        id=row["match"],  # type: ignore[arg-type]
        step=row["step"],  # type: ignore[arg-type]
        group=row["group"],  # type: ignore[arg-type]
        op=str(row["op"]),
        bytes=size,  # type: ignore[arg-type]
        n_ranks=ranks,  # type: ignore[arg-type]
        wait_ns=row["wait"],  # type: ignore[arg-type]
        transfer_ns=transfer,  # type: ignore[arg-type]
        busbw_bytes_per_s=bandwidth,
        last_rank=row["last"],  # type: ignore[arg-type]
        skew_ns=row["skew"],  # type: ignore[arg-type]
    )


def _transfers(rows: pl.DataFrame, table: pl.DataFrame) -> dict[int, dict[int, int]]:
    known = rows.join(table.select("match", "transfer").drop_nulls("transfer"), on="match", how="inner")
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for rank, row, transfer in known.select("rank", "id", "transfer").iter_rows():
        found[rank][row] = transfer
    return dict(found)
