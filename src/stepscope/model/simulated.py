"""What `simulate` finds: the step of a simulated job, what would not fit, and how cost grows. Times in ns, sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepscope.model.breakdown import NS_PER_MS
from stepscope.model.prediction import Prediction
from stepscope.model.table import Column, Table
from stepscope.model.words import PARTS


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated job. `mean` over its steps and ranks (the step is that of the slowest rank), `steps_ns` one per step.

    `faults` as they were asked for, and `healthy` the same job without them (None: there are none). `stopped` is why the job did
    not end (a hang).
    """

    model: str
    system: str
    plan: str
    stack: str
    ranks: int
    nodes: int
    mean: Prediction
    steps_ns: tuple[int, ...]
    faults: tuple[str, ...] = ()
    healthy: Prediction | None = None
    stopped: str | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def slowdown(self) -> float | None:
        """How many times as long as the healthy job's a step takes."""
        return None if self.healthy is None or not self.healthy.step_ns else self.mean.step_ns / self.healthy.step_ns

    def table(self) -> Table:
        """The parts of the mean step."""
        whole = self.mean.step_ns or 1
        rows = [(p, round(self.mean.parts_ns[p] / NS_PER_MS, 3), round(100 * self.mean.parts_ns[p] / whole, 1)) for p in PARTS]
        rows.append(("step", round(self.mean.step_ns / NS_PER_MS, 3), 100.0))
        columns = (Column("part"), Column("mean ms", right=True), Column("share %", right=True))
        return Table("Where the simulated step goes", columns, tuple(rows))

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a walk from a plan that does not fit to one that does: the plan, what it takes, and why it was tried."""

    plan: str
    ranks: int
    why: str
    prediction: Prediction


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a sweep; `refused` is why there is no prediction, `healthy` the same job without the sweep's faults."""

    plan: str
    ranks: int | None
    prediction: Prediction | None
    refused: str | None = None
    healthy: Prediction | None = None

    @property
    def slowdown(self) -> float | None:
        """How many times as long as the healthy job's a step takes; None without faults."""
        known = self.prediction is not None and self.healthy is not None and self.healthy.step_ns
        return self.prediction.step_ns / self.healthy.step_ns if known else None  # type: ignore[union-attr]  # both known
