"""The steps of one rank, from the profiler's markers. Step k runs to the start of the next, a window's last to its own end."""

from __future__ import annotations

import numpy as np
import polars as pl

from stepscope.analysis.rules import STEP, Codes
from stepscope.model.info import Gap, Step
from stepscope.model.spans import RankTables

# A step that lost more of its launches' kernels than this was cut by the profiler's window or buffer.
LOST_SHARE = 0.02


def find_steps(tables: RankTables) -> tuple[list[Step], list[Gap]]:
    """Steps in order of time. Without markers the whole window is one step, number 0, and that is a gap."""
    spans = tables.spans
    marks = spans.filter(pl.col("kind") == "annotation").filter(pl.col("name").str.starts_with("ProfilerStep#"))
    thread = tables.info.main_thread
    if thread is not None and (own := marks.filter(pl.col("thread") == thread)).height:
        marks = own
    rows = [
        (int(match.group(1)), start, end)
        for name, start, end in marks.select("name", "start_ns", "end_ns").sort("start_ns").iter_rows()
        if (match := STEP.match(name))
    ]
    if not rows:
        start = min((w[0] for w in tables.info.windows), default=0)
        end = max((w[1] for w in tables.info.windows), default=0)
        why = "no ProfilerStep markers: the whole window counts as one step (call prof.step() in the loop)"
        return [Step(0, start, end)], [Gap("no step markers", (), why)]
    bounds = _bounds(rows, tables.info.windows)
    complete = _complete(tables, [r[1] for r in rows], bounds)
    steps = [Step(number, start, end, whole) for (number, start, _), end, whole in zip(rows, bounds, complete, strict=True)]
    cut = [s.step for s in steps if not s.complete]
    gaps = (
        [Gap("cut steps", (), f"steps {', '.join(map(str, cut[:8]))} launched work whose device records are missing")]
        if cut
        else []
    )
    return steps, gaps


def _bounds(rows: list[tuple[int, int, int]], windows: list[tuple[int, int]]) -> list[int]:
    """Where each (number, start, own end) ends: at the next, at its own end where nothing was recorded between the two."""
    apart = sorted(windows)
    begins = np.array([begin for begin, _ in apart], dtype=np.int64)
    over = np.maximum.accumulate(np.array([end for _, end in apart], dtype=np.int64))
    at = np.searchsorted(begins, [start for _, start, _ in rows], side="right") - 1
    bounds = []
    for i, (_, start, end) in enumerate(rows):
        own_end = max(end, start)
        following = rows[i + 1][1] if i + 1 < len(rows) else own_end
        unrecorded = i + 1 < len(rows) and 0 <= at[i] < at[i + 1] and over[at[i]] < begins[at[i + 1]]
        bounds.append(min(own_end, following) if unrecorded else following)
    return bounds


def step_of(times: Codes, steps: list[Step]) -> pl.Series:
    """Step number at each time, null outside every step."""
    starts = np.array([s.start_ns for s in steps], dtype=np.int64)
    ends = np.array([s.end_ns for s in steps], dtype=np.int64)
    numbers = np.array([s.step for s in steps], dtype=np.int64)
    at = np.searchsorted(starts, times, side="right") - 1
    inside = (at >= 0) & (times < ends[np.maximum(at, 0)])
    series = pl.Series("step", numbers[np.maximum(at, 0)])
    return pl.select(pl.when(pl.Series(inside)).then(series).alias("step"))["step"]


def _complete(tables: RankTables, starts: list[int], ends: list[int]) -> list[bool]:
    """False for a step whose kernel launches lack their kernels."""
    runtime = tables.spans.filter(pl.col("kind") == "runtime")
    launches = runtime.filter(pl.col("name").str.contains("LaunchKernel|GraphLaunch"))
    answered = tables.edges.filter(pl.col("kind") == "launch")["source"].unique()
    if not launches.height or not len(answered):
        return [True] * len(starts)
    lost = launches.with_columns(lost=~pl.col("id").is_in(answered.implode()))
    times, flags = lost["start_ns"].to_numpy(), lost["lost"].to_numpy()
    whole = []
    for start, end in zip(starts, ends, strict=True):
        low, high = np.searchsorted(times, [start, end])
        whole.append(bool(flags[low:high].sum() <= LOST_SHARE * (high - low)))
    return whole
