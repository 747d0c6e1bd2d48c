"""One metric of many scopes over the steps of a run, and its samples. Times in ns of the run's clock."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stepscope.catalog.telemetry import telemetry
from stepscope.model.metrics import BY_WORD
from stepscope.simulator.simulation import Step

Array = NDArray[np.float64]
STANDING_NS: Final = 30_000_000_000  # of a job that stands, so much is sampled; the rest would be the same


@dataclass(frozen=True, slots=True)
class Clockwork:
    """`bounds` [steps + 1] is when the steps begin and the last one ends; `times` [samples] when exporters look."""

    bounds: NDArray[np.int64]
    times: NDArray[np.int64]

    @classmethod
    def of(cls, steps: Sequence[Step], standing: bool = False) -> Clockwork:
        """Every full second of the run, and its steps' starts and ends. `standing`: the last step never ends."""
        first = [float(step.times.host_start.min()) for step in steps]
        last = steps[-1].times
        end = first[-1] + STANDING_NS if standing else max(float(last.host_end.max()), float(last.end.max()))
        bounds = np.maximum.accumulate(np.rint(np.array([*first, end])).astype(np.int64))
        every = round(telemetry().sampling.interval_s * 1e9)
        ticks = np.arange(-(-bounds[0] // every) * every, bounds[-1] + 1, every)
        return cls(bounds, np.unique(np.concatenate([bounds, ticks])))

    @property
    def seconds(self) -> Array:
        """Of each step, [steps]."""
        return np.maximum(np.diff(self.bounds), 1) / 1e9


@dataclass(frozen=True, slots=True)
class Series:
    """`values` [scopes, steps]: a gauge's mean in the step, or by how much a counter grows in it. `before` [scopes] is what the
    counter shows at the start."""

    metric: str
    scopes: tuple[str, ...]
    values: Array
    before: Array | None = None


def grown(metric: str, scopes: Sequence[str], values: Array, most_before: float = 0.0) -> Series:
    """A counter that has counted before: since each host's start, to some value below `most_before`."""
    shares = np.array([zlib.crc32(f"{metric} {scope}".encode()) / 2**32 for scope in scopes])
    return Series(metric, tuple(scopes), values, np.floor(shares * most_before))


def wobble(metric: str, scopes: Sequence[str], steps: int, spread: float) -> Array:
    """How far the readings of one instrument are from each other, [scopes, steps]: always the same for the same scopes."""
    rows = [np.random.default_rng(zlib.crc32(f"{metric} {scope}".encode())).standard_normal(steps) for scope in scopes]
    found: Array = np.array(rows).reshape(len(scopes), steps) * spread
    return found


def sampled(series: Series, clock: Clockwork) -> pl.DataFrame:
    """The samples of a series as rows of SIGNALS."""
    metric = BY_WORD[series.metric]
    count, samples = len(series.scopes), len(clock.times)
    if metric.kind == "counter":
        before = np.zeros(count) if series.before is None else series.before
        total = before[:, None] + np.concatenate([np.zeros((count, 1)), np.cumsum(series.values, axis=1)], axis=1)
        rows = np.array([np.interp(clock.times, clock.bounds, line) for line in total]).reshape(count, samples)
        values = rows if metric.unit == "s" else np.floor(rows)
    else:
        at = np.clip(np.searchsorted(clock.bounds, clock.times, side="left") - 1, 0, series.values.shape[1] - 1)
        values = series.values[:, at]
    scopes = pl.Series(series.scopes, dtype=pl.String).gather(np.repeat(np.arange(count), samples))
    return pl.DataFrame({"time_ns": np.tile(clock.times, count), "scope": scopes, "value": values.ravel()}).with_columns(
        metric=pl.lit(metric.metric), unit=pl.lit(metric.unit), source=pl.lit(metric.exported)
    )
