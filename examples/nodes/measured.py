"""What did the recorder see in each window of steps? Parts and lateness of each rank, and what the counters did.

Times in ms. A rank's lateness in a step is how much later than the first rank it joined the step's collectives, all added up;
the ranks of this job share one clock. Growth is against the healthy windows before and after, both taken together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nodes.window import HEALTHY, Window
from stepscope.analysis.breakdown import breakdown
from stepscope.analysis.compare import compare_steps
from stepscope.model.words import PARTS

if TYPE_CHECKING:
    from stepscope.model.breakdown import Breakdown
    from stepscope.model.compare import Comparison
    from stepscope.model.run import Run

Floats = NDArray[np.float64]
MS: Final = 1e6
CPU: Final = "process_cpu"


class Measured:
    """A recorded job and its windows."""

    def __init__(self, run: Run, windows: Sequence[Window]) -> None:
        self.windows = list(windows)
        self.ranks = run.ranks
        self.found: Breakdown = breakdown(run)
        self._origin = run.info.origin_ns
        self._signals = run.signals()
        self._steps = {
            (s.rank, s.step): [s.duration_ns / MS, *(s.parts_ns[part] / MS for part in PARTS)] for s in self.found.steps
        }
        self._late = _lateness(run.collectives(), len(self.ranks))

    def steps(self, window: Window) -> list[int]:
        """Its steps that every rank has."""
        return [s for s in range(window.first, window.last + 1) if all((r, s) in self._steps for r in self.ranks)]

    def parts(self, window: Window) -> Floats:
        """[rank, step, 1 + part]: the step's length first."""
        return np.array([[self._steps[rank, step] for step in self.steps(window)] for rank in self.ranks])

    def lateness(self, window: Window) -> Floats:
        """[rank, step]."""
        return np.array([[self._late.get((rank, step), 0.0) for step in self.steps(window)] for rank in self.ranks])

    def part(self, window: Window, names: Sequence[str]) -> Floats:
        """[rank, step] of these parts together."""
        return self.parts(window)[:, :, [1 + PARTS.index(name) for name in names]].sum(axis=2)

    def rate(self, window: Window, metric: str) -> dict[str, float]:
        """By how much a counter grew in a second of the window, by scope; its samples come once a second."""
        rows = self._signals.filter(pl.col("metric") == metric)
        edges = np.array([window.began_ns, window.ended_ns]) - self._origin
        found = {}
        for (scope,), part in rows.partition_by("scope", as_dict=True).items():
            own = part.sort("time_ns")
            low, high = np.interp(edges, own["time_ns"].to_numpy(), own["value"].to_numpy())
            found[str(scope)] = float((high - low) / (edges[1] - edges[0]) * 1e9)
        return found

    def around(self, window: Window) -> list[Window]:
        """The healthy windows it is measured against: the last before it and the first after it."""
        at = self.windows.index(window)
        alike = [(n, w) for n, w in enumerate(self.windows) if (w.name, w.path) == (HEALTHY, window.path)]
        return [w for n, w in alike if n < at][-1:] + [w for n, w in alike if n > at][:1]

    def healthy_pairs(self) -> list[tuple[Window, Window]]:
        """Each healthy window and the next one: what differs between them no fault did."""
        healthy = [w for w in self.windows if w.name == HEALTHY]
        return [(one, two) for one, two in pairwise(healthy) if one.path == two.path]

    def compare(self, window: Window) -> Comparison:
        """What `stepscope compare` says of the window against the healthy ones around it."""
        base = {step for w in self.around(window) for step in self.steps(w)}
        return compare_steps(self._only(base), self._only(set(self.steps(window))))

    def _only(self, steps: set[int]) -> Breakdown:
        return replace(self.found, steps=tuple(s for s in self.found.steps if s.step in steps))


def _lateness(collectives: pl.DataFrame, ranks: int) -> dict[tuple[int, int], float]:
    """Of collectives that all ranks joined: each rank's arrival after the first one's, summed over its step."""
    if not collectives.height:
        return {}
    joined = collectives.drop_nulls(["match", "arrive_ns", "step"]).with_columns(
        present=pl.col("rank").n_unique().over("match"), late=pl.col("arrive_ns") - pl.col("arrive_ns").min().over("match")
    )
    table = joined.filter(pl.col("present") == ranks).group_by("rank", "step").agg(pl.col("late").sum())
    return {(rank, step): late / MS for rank, step, late in table.iter_rows()}
