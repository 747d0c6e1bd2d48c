"""The tables of one rank: spans, edges, attribution, collectives.

Shapes: one row per recorded span, in order of start; `id` is the row number. Times are int64 ns from the
run's own origin, bytes are int64. Null means "not recorded" and is never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from stepscope.model import words

if TYPE_CHECKING:
    from stepscope.model.info import Gap, RankInfo, RunInfo, Step

Schema = Mapping[str, pl.DataType | type[pl.DataType]]

SPANS: Final[Schema] = {
    "id": pl.Int64,
    "parent": pl.Int64,  # the innermost host span around it on the same thread
    "thread": pl.Int64,  # host thread; null on the device
    "lane": pl.Enum(words.LANES),
    "device": pl.Int64,
    "stream": pl.Int64,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "kind": pl.Enum(words.KINDS),
    "name": pl.String,
    "correlation": pl.Int64,  # ids above 2^63 are kept modulo 2^64
    "external_id": pl.Int64,
    "sequence": pl.Int64,  # autograd's forward/backward sequence number
    "forward_thread": pl.Int64,
    "bytes": pl.Int64,
    "flops": pl.Int64,
    "shape": pl.String,  # input sizes of a matrix product, JSON as recorded
    "collective_id": pl.Int64,  # row of this rank's collectives table
    "flags": pl.UInt8,  # words.CLIPPED | words.REPAIRED | words.NO_DURATION
}
"""What was recorded. Written once, never rewritten."""

EDGE_KINDS: Final = ("launch", "sync", "wait", "autograd", "call")
EDGES: Final[Schema] = {
    "source": pl.Int64,  # span id
    "target": pl.Int64,  # span id
    "kind": pl.Enum(EDGE_KINDS),
}
"""launch: runtime call (or operator) -> device span · sync: device span -> host call blocked on it ·
wait: device span -> stream that waits for it · autograd: forward op -> its backward · call: c10d call -> worker's event."""

ATTRIBUTION: Final[Schema] = {
    "id": pl.Int64,  # same rows and order as the spans
    "step": pl.Int64,  # null outside every step
    "phase": pl.Enum(words.PHASES),
    "unit": pl.String,  # FSDP unit (`layers.3`, `root`), DDP bucket
    "layer": pl.Enum(words.LAYERS),
    "pass": pl.Enum(words.PASSES),
    "recompute": pl.Boolean,  # a forward operator that runs again inside backward
    "part": pl.Enum(words.PARTS),  # what an instant owned by this span counts as; null: it never owns one
}
"""What the rules of `analysis.attribution` say of each span; derived again whenever a rule is better."""

COLLECTIVES: Final[Schema] = {
    "id": pl.Int64,  # row number within the rank
    "rank": pl.Int64,
    "group": pl.String,  # process group name; null where the trace does not say
    "seq": pl.Int64,  # sequence number within the group; null where the trace does not say
    "op": pl.String,  # all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send_recv, …, unknown
    "dtype": pl.String,
    "bytes": pl.Int64,  # size by the nccl-tests convention: the larger of the rank's input and output
    "group_size": pl.Int64,
    "stream": pl.Int64,  # device stream; null for a CPU backend
    "arrive_ns": pl.Int64,  # this rank joined: kernel start, or the host's c10d call
    "start_ns": pl.Int64,  # data began to move; null until it is matched with its peers
    "end_ns": pl.Int64,
    "span": pl.Int64,  # the kernel, or the c10d call
    "call": pl.Int64,  # host span that issued it
    "step": pl.Int64,
    "unit": pl.String,
    "pass": pl.Enum(words.PASSES),
    "match": pl.Int64,  # the collective itself: the same number on every rank that took part
    "expected": pl.Int64,  # ranks that take part in it; null where neither group nor world size is known
    "matched_by": pl.Enum(words.MATCHES),
}
"""One row per collective that this rank took part in."""

SIGNALS: Final[Schema] = {
    "time_ns": pl.Int64,
    "scope": pl.String,  # `rank 3`, `node1/gpu3`, `leaf2/port7`
    "metric": pl.String,
    "value": pl.Float64,
    "unit": pl.String,
    "source": pl.String,
}
"""Counters and samples beside the spans."""


@dataclass(slots=True)
class RankTables:
    """All that is known of one rank. Frames follow SPANS, EDGES, ATTRIBUTION, COLLECTIVES and SIGNALS."""

    info: RankInfo
    spans: pl.DataFrame
    edges: pl.DataFrame
    attribution: pl.DataFrame
    collectives: pl.DataFrame
    signals: pl.DataFrame = field(default_factory=lambda: empty(SIGNALS))


@dataclass(slots=True)
class Attributed:
    """What the rules say of one rank: a frame by ATTRIBUTION, the collectives with step, unit and pass, steps, gaps."""

    attribution: pl.DataFrame
    collectives: pl.DataFrame
    steps: list[Step]
    gaps: list[Gap]


Marks = Sequence[tuple[str, str]]
"""The user's own names for phases: (regular expression, word of PHASES)."""

Derive = Callable[[RankTables, Marks], Attributed]
"""The attribution of one rank: step, phase, unit, layer and part of every span."""


Match = Callable[[pl.DataFrame, "RunInfo"], pl.DataFrame]
"""The matching across ranks: COLLECTIVES of all ranks in, the same rows with `match`, `expected`, `matched_by` out."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a source is handed by its caller: it reads files and knows no rules of its own."""

    derive: Derive
    match: Match


def empty(schema: Schema) -> pl.DataFrame:
    """A table of that schema without rows."""
    return pl.DataFrame(schema=schema)


def enum_of(codes: np.ndarray[Any, Any], vocabulary: Sequence[str]) -> pl.Series:
    """Places in a vocabulary as a column of its words, without making a string of each; a place beyond it is null."""
    places = pl.Series(np.where((codes >= 0) & (codes < len(vocabulary)), codes, len(vocabulary)).astype(np.uint32))
    return pl.Series([*vocabulary, None], dtype=pl.Enum(vocabulary)).gather(places)


def conform(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """`frame` with exactly the schema's columns, in order, absent ones null."""
    have = set(frame.columns)
    return frame.select(
        (pl.col(name).cast(dtype) if name in have else pl.lit(None, dtype=dtype)).alias(name) for name, dtype in schema.items()
    )
