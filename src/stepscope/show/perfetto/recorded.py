"""What was recorded of one rank: a lane for each of its threads and device streams.

What is only drawn over the real work (kind `overlay`) is left out; records of synchronization get a lane beside their
stream's. A lane is made when its turn comes, so that memory holds one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from stepscope.analysis.intervals import IntArray
from stepscope.model import words
from stepscope.model.spans import RankTables, conform
from stepscope.show.perfetto.slices import COLLECTIVE, SLICES, Drawing, Lane

_ROLES: Final = {"kernel": "compute", "collective": "communication", "memcpy": "copies", "memset": "copies"}
_ORDER: Final = ("compute", "communication", "copies", "synchronization")


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """A lane to be: what it sorts by, its name, its rows among the spans."""

    order: tuple[int, ...]
    name: str
    rows: IntArray


def recorded(tables: RankTables, drawing: Drawing, main_thread: int) -> Iterator[Lane]:
    """The training thread, the device streams (compute, communication, copies), the other threads (busiest first)."""
    calls = _calls(tables, drawing)
    attributed = tables.attribution.select("phase", "unit", "pass", "recompute")
    for line in sorted(_lines(tables, drawing, main_thread), key=lambda line: line.order):
        own = pl.concat([tables.spans[line.rows], attributed[line.rows]], how="horizontal")
        own = own.join(calls, left_on="id", right_on="span", how="left", suffix="_moved", maintain_order="left")
        point = (pl.col("flags").fill_null(0) & words.NO_DURATION) != 0
        shown = own.with_columns(
            start="start_ns",
            end=pl.when(point).then("start_ns").otherwise(pl.col("end_ns").fill_null(pl.col("start_ns"))),
            name=pl.col("name").fill_null("?"),
            category="kind",
            bytes=pl.coalesce("bytes", "bytes_moved"),
            recompute=pl.when("recompute").then(1),
            **COLLECTIVE,
        )
        yield Lane(line.name, conform(shown, SLICES))


def _calls(tables: RankTables, drawing: Drawing) -> pl.DataFrame:
    """What is known of the collective that a span belongs to, with its arrows."""
    found = conform(tables.collectives, {**tables.collectives.schema, "leaves": pl.Int64, "first": pl.Int64, "arrives": pl.Int64})
    if tables.info.rank in drawing.arrows:
        found = tables.collectives.join(drawing.arrows[tables.info.rank], on="id", how="left")
    found = found.drop_nulls("span").unique("span", keep="first", maintain_order=True)
    return found.select("span", "op", "group", "dtype", "bytes", "seq", "match", "expected", "leaves", "first", "arrives")


def _lines(tables: RankTables, drawing: Drawing, main_thread: int) -> Iterator[_Line]:
    kind = pl.col("kind")
    spans = tables.spans.select(
        "lane", "device", "stream", "thread", kind,
        row=pl.int_range(pl.len(), dtype=pl.Int64),
        is_sync=kind == "sync",
        ns=(pl.col("end_ns") - pl.col("start_ns")).fill_null(0).clip(lower_bound=0),
        shown=pl.col("start_ns").is_not_null() & (kind != "overlay").fill_null(False),
        step=tables.attribution["step"],
    ).filter(pl.col("shown") & drawing.in_steps())  # fmt: skip
    devices = spans.filter(pl.col("lane") == "device")["device"].n_unique()
    parts = spans.partition_by("lane", "device", "stream", "thread", "is_sync", as_dict=True, maintain_order=True)
    for (lane, device, stream, thread, is_sync), part in parts.items():
        rows = part["row"].to_numpy()
        if lane == "device":
            role = "synchronization" if is_sync else _role(part)
            name = f"stream {'?' if stream is None else stream} {role}"
            order = (1, _ORDER.index(role), -1 if device is None else device, -1 if stream is None else stream)
            yield _Line(order, f"device {device} {name}" if devices > 1 else name, rows)
        elif thread == main_thread:
            yield _Line((0,), "training thread", rows)
        else:
            yield _Line((2, -len(rows), thread or 0), f"thread {'?' if thread is None else thread}", rows)


def _role(part: pl.DataFrame) -> str:
    """What a stream mostly does."""
    busy = part.group_by("kind").agg(pl.col("ns").sum(), spans=pl.len()).sort("ns", "spans", "kind")
    return _ROLES.get(busy["kind"].to_list()[-1], "compute")
