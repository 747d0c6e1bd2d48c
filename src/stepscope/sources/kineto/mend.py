"""Times that cannot be true, put right or put aside before anything is summed.

A stamp of 0 would stretch the window to 1970, an overflowed duration would swallow its stream, a negative one would
subtract. Nothing is lost silently: every row touched is counted and, where it stays, flagged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from stepscope.model import words
from stepscope.sources.kineto.stamps import NOT_A_TIME, Ns

DAY_NS: Final = 86_400_000_000_000  # no profiler window lasts a day: buffers fill within minutes
NEAR_ZERO_NS: Final = 60_000_000_000  # a clock whose other stamps begin within a minute of 0 really starts there
# Ends and starts on one stream are stamped apart and overlap by up to a few µs without harm (rounding to µs, programmatic
# dependent launch); a longer overlap on an in-order stream is an overflowed duration.
STREAM_SLACK_NS: Final = 10_000
# Device work launched before the profiler stopped ends within seconds of it; what is said to end a minute later overflowed.
DEVICE_SLACK_NS: Final = 60_000_000_000
# A duration that is many times the stretch in which everything began, and over a minute, is none of a real event.
BEYOND_SPAN: Final = 10
MANY: Final = 100  # events from which that stretch says something


Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(slots=True)
class Mended:
    """All rows with columns start_ns, end_ns, flags; which of them to keep; and what was done.

    `dropped` counts the rows that no sum takes; of them `lost` are gone, the others stay as points.
    """

    frame: pl.DataFrame
    keep: Bools
    dropped: int = 0
    lost: int = 0
    clipped: int = 0
    findings: list[str] = field(default_factory=list)


def mend(frame: pl.DataFrame, window_end: int | None) -> Mended:
    """Rows (columns `start`, `lasted`, `kind`, `device`, `stream`, `correlation`, `mended`) with sound times."""
    start, lasted = frame["start"].to_numpy(), frame["lasted"].to_numpy()
    mended = Mended(frame, np.ones(frame.height, dtype=np.bool_))
    keep = start != NOT_A_TIME
    work = keep & (start > 0)
    if work.any():
        middle = int(np.median(start[work]))
        keep &= np.abs(start - middle) < DAY_NS
        if int(start[keep & (start > 0)].min(initial=NEAR_ZERO_NS)) >= NEAR_ZERO_NS:
            keep &= start > 0
    lost = int((~keep).sum())
    if lost:
        mended.dropped += lost
        mended.lost = lost
        mended.findings.append(f"{lost} events without a usable time stamp (0, absent or a day away) were dropped")
    unknown = (lasted == NOT_A_TIME) | (lasted < 0)
    overflow = ~unknown & (lasted > _longest(start[keep]))
    points = int((unknown & keep).sum())
    if points:
        mended.dropped += points
        mended.findings.append(f"{points} events whose duration is absent or negative are kept as points and counted in no sum")
    end = np.where(unknown | overflow, start, start + np.where(unknown | overflow, 0, lasted))
    horizon = window_end if window_end is not None and keep.any() and window_end >= int(start[keep].max()) else None
    if horizon is None and keep.any():
        horizon = int(max(end[keep].max(), start[keep].max()))
    if horizon is not None:
        end = np.where(overflow, horizon, end)
    flags = np.where(unknown, words.NO_DURATION, 0).astype(np.uint8)
    flags |= np.where(frame["mended"].to_numpy(), words.REPAIRED, 0).astype(np.uint8)
    clipped = _clip_streams(frame, start, end, keep)
    if horizon is not None:
        host = _is_kind(frame, words.HOST_KINDS)
        clipped |= keep & overflow
        late = keep & (end > horizon + np.where(host, STREAM_SLACK_NS, DEVICE_SLACK_NS))
        end = np.where(late, horizon, end)
        clipped |= late
    mended.clipped = int(clipped.sum())
    if mended.clipped:
        mended.findings.append(
            f"{mended.clipped} overflowed durations were cut at the next start on their stream or at the window's end"
        )
    flags |= np.where(clipped, words.CLIPPED, 0).astype(np.uint8)
    columns = {"start_ns": start, "end_ns": np.maximum(end, start), "flags": flags}
    mended.frame = frame.with_columns(**{k: pl.Series(v) for k, v in columns.items()})
    mended.keep = keep
    return mended


def _longest(starts: Ns) -> int:
    """The longest duration that a real event can have among events that began at these times."""
    if len(starts) < MANY:
        return DAY_NS
    return min(DAY_NS, max(BEYOND_SPAN * int(starts.max() - starts.min()), DEVICE_SLACK_NS))


def _is_kind(frame: pl.DataFrame, kinds: tuple[str, ...]) -> Bools:
    """Rows of these kinds, told by code: a string for each row would cost more than all the rest."""
    wanted = np.array([kind in kinds for kind in words.KINDS], dtype=np.bool_)
    rows: Bools = wanted[frame["kind"].to_physical().to_numpy()]
    return rows


def _clip_streams(frame: pl.DataFrame, start: Ns, end: Ns, keep: Bools) -> Bools:
    """Cuts, in place, durations that run into the next slice of their in-order stream; which rows were cut.

    Kernels of one launch (a graph) may run side by side on what the profiler calls one stream: they are left alone.
    """
    clipped = np.zeros(len(start), dtype=bool)
    rows = np.flatnonzero(keep & _is_kind(frame, words.DEVICE_WORK) & (end > start))
    if not len(rows):
        return clipped
    # Where the arguments do not name them, a device row's thread is its stream and its process the device.
    stream = frame.select(pl.coalesce("stream", "tid").fill_null(-1)).to_series().to_numpy()[rows]
    device = frame.select(pl.coalesce("device", "pid").fill_null(-1)).to_series().to_numpy()[rows]
    correlation = frame["correlation"].fill_null(-1).to_numpy()[rows]
    order = np.lexsort((start[rows], stream, device))
    rows, stream, device, correlation = rows[order], stream[order], device[order], correlation[order]
    same = (
        (stream[1:] == stream[:-1])
        & (device[1:] == device[:-1])
        & ((correlation[1:] != correlation[:-1]) | (correlation[1:] <= 0))
    )
    over = same & (end[rows[:-1]] > start[rows[1:]] + STREAM_SLACK_NS)
    cut = rows[:-1][over]
    end[cut] = np.maximum(start[rows[1:]][over], start[cut])
    clipped[cut] = True
    return clipped
