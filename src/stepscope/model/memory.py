"""What does one rank hold at its fullest moment, and what would make it fit? Results of the planner; bytes, ns.

Three totals: `allocated` are live tensors, `reserved` what torch's allocator took for them, `total` what nvidia-smi would show,
with the CUDA context and NCCL's buffers outside of torch.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.model.table import Column, Table

Place = Literal["tensor", "allocator", "outside"]
GIB = 1 << 30


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One term: `bytes` between `low` and `high`, how it was computed, and who holds it."""

    term: str
    bytes: int
    low: int
    high: int
    formula: str
    place: Place = "tensor"


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A moment of the step: live tensors of the fullest stage then, and the largest unit at work."""

    name: str
    allocated_bytes: int
    unit: str | None = None


class MemoryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The fullest rank at its fullest moment. `terms` sum to `total_bytes`; `stage` is its pipeline stage, from 0.

    `resting_bytes` are live between steps, after the update and before the next batch.
    """

    model: str
    plan: str
    system: str
    stack: str
    recipe: str
    loss: str
    ranks: int
    stage: int
    parameters: int
    terms: tuple[Term, ...]
    moments: tuple[Moment, ...]
    peak_at: str
    peak_unit: str | None
    resting_bytes: int
    capacity_bytes: int
    notes: tuple[str, ...] = ()

    @property
    def allocated_bytes(self) -> int:
        """Live tensors at the peak."""
        return sum(t.bytes for t in self.terms if t.place == "tensor")

    @property
    def reserved_bytes(self) -> int:
        """What torch's allocator has taken by then."""
        return sum(t.bytes for t in self.terms if t.place != "outside")

    @property
    def total_bytes(self) -> int:
        """What nvidia-smi would show."""
        return sum(t.bytes for t in self.terms)

    @property
    def low_bytes(self) -> int:
        return sum(t.low for t in self.terms)

    @property
    def high_bytes(self) -> int:
        return sum(t.high for t in self.terms)

    @property
    def headroom_bytes(self) -> int:
        """What is left; negative where it does not fit."""
        return self.capacity_bytes - self.total_bytes

    @property
    def fits(self) -> bool:
        return self.headroom_bytes >= 0

    def bytes_of(self, term: str) -> int:
        """Bytes of a term, 0 where it has none."""
        return sum(t.bytes for t in self.terms if t.term == term)

    def table(self) -> Table:
        """The terms, GiB."""
        rows = tuple(
            (t.term, round(t.bytes / GIB, 3), round(t.low / GIB, 3), round(t.high / GIB, 3), t.formula) for t in self.terms
        )
        names = ("term", "GiB", "low", "high", "formula")
        return Table(f"Memory at {self.peak_at}", tuple(Column(n, right=0 < i < 4) for i, n in enumerate(names)), rows)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One change: the plan with it, bytes saved, ns that a step takes longer per token of the old one (None: not predicted)."""

    change: str
    plan: str | None
    saves_bytes: int
    step_cost_ns: int | None
    fits: bool
    why: str


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the walk from a plan that does not fit to one that does; costs against the plan that was asked for."""

    plan: str
    ranks: int
    why: str
    total_bytes: int
    saved_bytes: int
    fits: bool
    step_ns: int | None
    lost_ns: int | None
    exposed_ns: int | None


class CheckpointPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a save costs. Bytes of the job, and of the fullest rank; ns. `stall_*` the time the step waits; `interval_ns` between
    saves by Young, `interval_available_ns` the one that keeps the job available longest; `lost_share` of time at the latter."""

    total_bytes: int
    rank_bytes: int
    write_ns: int | None
    stall_sync_ns: int | None
    stall_async_ns: int
    mtbf_ns: int
    interval_ns: int | None
    interval_available_ns: int | None
    interval_tolerable_ns: int | None
    lost_share: float | None
    notes: tuple[str, ...] = ()


class TableRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the textbook table: bytes a parameter and in all."""

    row: str
    bytes_per_parameter: float
    bytes: int


class Textbook(msgspec.Struct, frozen=True, kw_only=True):
    """Weights, gradients, moments and master weights of a model, the last row their total; what is additional."""

    model: str
    parameters: int
    rows: tuple[TableRow, ...]
    additional: tuple[str, ...]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A measured figure beside the planned one; None where the source does not tell."""

    what: str
    measured_bytes: int | None
    planned_bytes: int | None

    @property
    def error(self) -> float | None:
        """Planned over measured, less 1."""
        known = self.measured_bytes and self.planned_bytes is not None
        return self.planned_bytes / self.measured_bytes - 1 if known else None  # type: ignore[operator]  # both known
