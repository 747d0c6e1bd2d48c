"""What a viewer draws of one rank: lanes of slices, as tables.

Lanes, in order: steps and their exclusive parts · waits for other ranks · the training thread · device streams · other
threads (`recorded`). Times are ns on the common clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import polars as pl

from stepscope.analysis.account import Account
from stepscope.analysis.breakdown import account_for, steps_of
from stepscope.analysis.columns import SpanColumns
from stepscope.analysis.intervals import IntArray
from stepscope.model import words
from stepscope.model.spans import RankTables, conform, empty
from stepscope.show.perfetto.recorded import recorded
from stepscope.show.perfetto.slices import COLLECTIVE, SLICES, Drawing, Lane


def lanes(tables: RankTables, drawing: Drawing, common: Callable[[IntArray], IntArray]) -> Iterator[Lane]:
    """The lanes of one rank that hold something. `common` puts times on the common clock."""
    columns = SpanColumns.of(tables)
    account = account_for(tables, columns, drawing.transfers)
    thread = columns.training_thread(tables.info.main_thread)
    steps, waits = _steps(tables, account, drawing), _waits(tables, account, drawing)
    del columns, account  # of a large rank they are as large as its slices
    for lane in chain((Lane("steps and parts", steps), Lane("waits", waits)), recorded(tables, drawing, thread)):
        if lane.slices.height:
            times = (pl.Series(name, common(lane.slices[name].to_numpy())) for name in ("start", "end"))
            yield Lane(lane.name, lane.slices.with_columns(*times))


def _steps(tables: RankTables, account: Account, drawing: Drawing) -> pl.DataFrame:
    """Steps, and in each its parts."""
    found = [empty(SLICES)]
    for step in steps_of(tables.info):
        if drawing.steps is not None and step.step not in drawing.steps:
            continue
        own = account.parts.clip(step.start_ns, step.end_ns)
        new = np.append(True, (own.labels[1:] != own.labels[:-1]) | (own.starts[1:] != own.ends[:-1]))[: len(own)]
        last = np.append(new[1:], True)[: len(own)]
        name = f"step {step.step}" if step.complete else f"step {step.step} (cut)"
        parts = pl.DataFrame(
            {
                "start": np.append(step.start_ns, own.starts[new]),
                "end": np.append(step.end_ns, own.ends[last]),
                "name": [name, *(words.PARTS[label] for label in own.labels[new].tolist())],
                "category": ["step", *["part"] * int(new.sum())],
            }
        )
        found.append(conform(parts, SLICES))
    return pl.concat(found)


def _waits(tables: RankTables, account: Account, drawing: Drawing) -> pl.DataFrame:
    """For each collective the time from this rank's arrival to that of its last peer; where that is not known, how long the
    training thread of a CPU rank stood for it."""
    rank = tables.info.rank
    rows = tables.collectives.filter(drawing.in_steps())
    known = drawing.transfers.get(rank, {})
    own = rows.with_columns(transfer=pl.Series([known.get(i) for i in rows["id"].to_list()], dtype=pl.Int64))
    own = own.select(pl.all(), start="arrive_ns", end=pl.col("end_ns") - pl.col("transfer"))
    stood = empty(own.schema)
    if account.waits is not None:
        place = tables.collectives["id"].to_numpy()[account.waits.labels]
        times = pl.DataFrame({"id": place, "start": account.waits.starts, "end": account.waits.ends})
        stood = conform(own.filter(pl.col("transfer").is_null()).drop("start", "end").join(times, on="id"), own.schema)
    last = [drawing.last.get(match, rank) for match in own["match"].to_list()]
    names = pl.Series([f"wait for rank {late}" if late != rank else "wait" for late in last], dtype=pl.String)
    both = pl.concat([own.with_columns(name=names), stood.with_columns(name=pl.lit("wait"))])
    both = both.filter(pl.col("end") > pl.col("start")).sort("start", "end", "id")
    shown = both.with_columns(category=pl.lit("wait"), **COLLECTIVE)
    return conform(shown, SLICES)
