"""One rank's tables as int64 arrays: what the rules of this folder compute on.

Times in ns, words as their place in the vocabulary (`PART["copy"]`), `NONE` where a word or an id is not recorded. Tables
may come from a stranger: an id that points to no row counts as not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stepscope.analysis.intervals import IntArray, whole_numbers
from stepscope.model import words
from stepscope.model.spans import RankTables

Mask = NDArray[np.bool_]

NONE: Final = -1
PART: Final = {word: code for code, word in enumerate(words.PARTS)}
KIND: Final = {word: code for code, word in enumerate(words.KINDS)}
UNKNOWN_TIME: Final = int(np.iinfo(np.int64).max)
NO_THREAD: Final = int(np.iinfo(np.int64).min)

Transfers = Mapping[int, Mapping[int, int]]
"""Of each rank, of each of its collectives (row of its table): the transfer in ns. What is absent is unknown."""


@dataclass(frozen=True)
class SpanColumns:
    """One entry per span. `owns`: it has a duration, so that it can own time."""

    start: IntArray
    end: IntArray
    kind: IntArray
    part: IntArray
    thread: IntArray
    parent: IntArray
    owns: Mask
    launched: IntArray  # end of the call that launched this device span; UNKNOWN_TIME where no launch is recorded

    @classmethod
    def of(cls, tables: RankTables) -> SpanColumns:
        """The columns of one rank's spans with the end of each one's launch."""
        spans, rows = tables.spans, tables.spans.height
        start, end = _times(spans["start_ns"]), _times(spans["end_ns"])
        flagged = (spans["flags"].fill_null(0).to_numpy() & words.NO_DURATION) != 0
        known = (spans["start_ns"].is_not_null() & spans["end_ns"].is_not_null()).to_numpy()
        parent = whole_numbers(spans["parent"].fill_null(NONE).to_numpy())
        return cls(
            start=start,
            end=end,
            kind=_codes(spans["kind"], words.KINDS),
            part=_codes(tables.attribution["part"], words.PARTS),
            thread=whole_numbers(spans["thread"].fill_null(NO_THREAD).to_numpy()),
            parent=np.where((parent >= 0) & (parent < rows), parent, NONE),
            owns=known & ~flagged & (end > start),
            launched=_launched(tables.edges, end),
        )

    def __len__(self) -> int:
        return len(self.start)

    def is_kind(self, *kinds: str) -> Mask:
        """Which spans are of one of these kinds and own time."""
        return self.owns & np.isin(self.kind, [KIND[kind] for kind in kinds])

    @cached_property
    def is_host(self) -> Mask:
        """Which spans of a host thread own time."""
        return self.is_kind(*words.HOST_KINDS)

    @cached_property
    def is_device_work(self) -> Mask:
        """Which spans are work of the device."""
        return self.is_kind(*words.DEVICE_WORK)

    def training_thread(self, main_thread: int | None) -> int:
        """The thread that runs the loop: `main_thread`, or the one with the most spans that count for a part."""
        if main_thread is not None:
            return main_thread
        threads, counts = np.unique(self.thread[self.is_host & (self.part != NONE)], return_counts=True)
        return int(threads[np.argmax(counts)]) if len(threads) else NO_THREAD


@dataclass(frozen=True, slots=True)
class CollectiveColumns:
    """One entry per collective of the rank, in order of arrival; `row` is its row in the rank's table.

    One whose end is not recorded ends where it arrives: its call counts, its flight does not.
    """

    row: IntArray
    arrive: IntArray
    end: IntArray
    span: IntArray
    transfer: IntArray  # NONE where the split into wait and transfer is unknown
    on_device: Mask

    @classmethod
    def of(cls, tables: RankTables, transfers: Transfers) -> CollectiveColumns:
        """The columns of one rank's collectives with what is known of their transfers."""
        table = tables.collectives.with_row_index("row").filter(pl.col("arrive_ns").is_not_null() | pl.col("span").is_not_null())
        known = transfers.get(tables.info.rank, {})
        transfer = whole_numbers([known.get(collective, NONE) for collective in table["id"].to_list()])
        flew = (table["end_ns"] >= table["arrive_ns"]).fill_null(False).to_numpy()
        transfer = np.where(flew, transfer, NONE)
        arrive = _times(table["arrive_ns"])
        end = np.where(flew, _times(table["end_ns"]), arrive)
        span = whole_numbers(table["span"].fill_null(NONE).to_numpy())
        order = np.lexsort((transfer, end, arrive))
        return cls(
            row=whole_numbers(table["row"].to_numpy())[order],
            arrive=arrive[order],
            end=end[order],
            span=np.where((span >= 0) & (span < tables.spans.height), span, NONE)[order],
            transfer=transfer[order],
            on_device=table["stream"].is_not_null().to_numpy()[order],
        )

    def __len__(self) -> int:
        return len(self.row)

    @property
    def cut(self) -> IntArray:
        """When the waiting ends and the transfer begins; UNKNOWN_TIME where the split is unknown."""
        return np.where(self.transfer == NONE, UNKNOWN_TIME, self.end - self.transfer)


def _times(column: pl.Series) -> IntArray:
    return whole_numbers(column.fill_null(0).to_numpy())


def _codes(column: pl.Series, vocabulary: tuple[str, ...]) -> IntArray:
    physical = column.cast(pl.Enum(vocabulary)).to_physical().cast(pl.Int64)
    return whole_numbers(physical.fill_null(NONE).to_numpy())


def _launched(edges: pl.DataFrame, end: IntArray) -> IntArray:
    """Of each span the end of the call that launched it, the earliest where several are recorded."""
    rows = len(end)
    inside = (pl.col("source").is_between(0, rows - 1)) & (pl.col("target").is_between(0, rows - 1))
    launches = edges.filter((pl.col("kind") == "launch") & inside)
    launched = np.full(rows, UNKNOWN_TIME, dtype=np.int64)
    source, target = whole_numbers(launches["source"].to_numpy()), whole_numbers(launches["target"].to_numpy())
    np.minimum.at(launched, target, end[source])
    return launched
