"""What `compare` finds: which parts of the step grew from a base to a run, by how much, how surely, and on which ranks.

Times are ns. Means are exact fractions, so that the deltas of the parts sum to the step's delta; bounds are floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from stepscope.model.table import Cell, Column, Table
from stepscope.model.throughput import Throughput

if TYPE_CHECKING:
    import polars as pl

NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which the workloads differ: `text` in plain words. Only a `decisive` one makes them two workloads."""

    kind: str
    text: str
    decisive: bool

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Delta:
    """A mean in the base and in the run (per step, token or batch), and the bounds (95 %) of its change.

    `part` is a word of PARTS or `step`. `significant` and the bounds are None where one side has fewer than two steps.
    """

    part: str
    base_ns: Fraction
    run_ns: Fraction
    low_ns: float | None = None
    high_ns: float | None = None
    significant: bool | None = None

    @property
    def delta_ns(self) -> Fraction:
        return self.run_ns - self.base_ns

    @property
    def growth(self) -> float | None:
        """The change as a share of the base; None where the base is 0."""
        return float(self.delta_ns / self.base_ns) if self.base_ns else None


@dataclass(frozen=True, slots=True)
class RankDelta:
    """One rank that both have: means of its step and of its own time (the step without communication that stopped it).

    `own_parts` holds what each part of its own time grew by. `clear`: the own time changed by more than its steps vary;
    None where there are too few steps to say.
    """

    rank: int
    base_ns: Fraction
    run_ns: Fraction
    own_base_ns: Fraction
    own_run_ns: Fraction
    own_parts: dict[str, Fraction]
    clear: bool | None = None

    @property
    def delta_ns(self) -> Fraction:
        return self.run_ns - self.base_ns

    @property
    def own_delta_ns(self) -> Fraction:
        return self.own_run_ns - self.own_base_ns


@dataclass(frozen=True, slots=True)
class Signal:
    """One figure to lay beside a phase, mean per rank and step unless its name says otherwise; None: not recorded."""

    signal: str
    base: float | None
    run: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class PhaseSignals:
    """The signals of one phase, always the same ones, in the same order."""

    phase: str
    inspect: tuple[Signal, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The whole answer. `parts` has every word of PARTS in order; their deltas sum to that of `step` exactly.

    `per_token` and `per_batch` hold `step` and the parts divided by what a step handles, None where that is not known.
    `warnings` are what no figure shows: a step that never ended, a few steps that took far longer than the others.
    `step_numbers` and `tokens` are those of base and run; `differences` are the workloads' and may be harmless.
    """

    step: Delta
    parts: tuple[Delta, ...]
    ranks: tuple[RankDelta, ...]
    same_workload: bool = True
    differences: tuple[Difference, ...] = ()
    per_token: tuple[Delta, ...] | None = None
    per_batch: tuple[Delta, ...] | None = None
    phases: tuple[PhaseSignals, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    step_numbers: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    tokens: tuple[int | None, int | None] = field(default=(None, None))
    places: Mapping[int, str] = field(default_factory=dict)  # of the run's ranks whose node is known
    throughput: tuple[Throughput, Throughput] | None = None  # of base and run; None where neither says how many tokens it handles

    @property
    def base_step_ns(self) -> Fraction:
        return self.step.base_ns

    @property
    def run_step_ns(self) -> Fraction:
        return self.step.run_ns

    @property
    def step_delta_ns(self) -> Fraction:
        return self.step.delta_ns

    def frame(self) -> pl.DataFrame:
        """One row per part and one for `step`: part, base_ns, run_ns, delta_ns, low_ns, high_ns (float), significant."""
        import polars as pl

        names = ("base_ns", "run_ns", "delta_ns", "low_ns", "high_ns")
        rows = [
            (d.part, float(d.base_ns), float(d.run_ns), float(d.delta_ns), d.low_ns, d.high_ns, d.significant)
            for d in (*self.parts, self.step)
        ]
        return pl.DataFrame(
            rows, schema={"part": pl.String, **dict.fromkeys(names, pl.Float64), "significant": pl.Boolean}, orient="row"
        )

    def table(self) -> Table:
        """The parts that either has, what grew most first, then the step, in ms."""
        order = sorted((d for d in self.parts if d.base_ns or d.run_ns), key=lambda d: -d.delta_ns)
        words = {True: "yes", False: "no", None: None}
        rows: list[tuple[Cell, ...]] = [
            (d.part, _ms(d.base_ns), _ms(d.run_ns), _ms(d.delta_ns), _ms(d.low_ns), _ms(d.high_ns), words[d.significant])
            for d in (*order, self.step)
        ]
        names = ("base ms", "run ms", "change ms", "low ms", "high ms")
        columns = (Column("part"), *(Column(name, right=True) for name in names), Column("significant"))
        notes = (*(() if self.same_workload else ("not the same workload",)), *self.notes)
        return Table("Mean per rank and step", columns, tuple(rows), notes)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _ms(ns: Fraction | float | None) -> float | None:
    return None if ns is None else round(float(ns) / NS_PER_MS, 3)
