"""What `breakdown` finds: parts of every rank's step, communication, collectives, units. Times are integer ns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING

from stepscope.model.info import Gap, Group
from stepscope.model.table import Column, Table
from stepscope.model.words import PARTS

if TYPE_CHECKING:
    import polars as pl

NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class StepParts:
    """One step of one rank. `parts_ns` has every word of PARTS and sums to `duration_ns` exactly.

    `naive_ns` is the sum of the profiler's durations in the step (top-level host spans and device work), overlap counted
    as often as it occurs. `complete` is False for a step that the window cut.
    """

    rank: int
    step: int
    duration_ns: int
    parts_ns: dict[str, int]
    naive_ns: int
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Communication:
    """Unions over one rank's whole recorded window: exposed + hidden = total; exposed is not covered by compute."""

    rank: int
    window_ns: int
    compute_ns: int
    total_ns: int
    exposed_ns: int
    hidden_ns: int


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective over its ranks. A None is unknown; with a missing rank `wait_ns` is a lower bound, `last_rank` None.

    `busbw_bytes_per_s` follows nccl-tests; `wait_ns` is the mean over ranks; `skew_ns` is last arrival - first arrival.
    """

    id: int
    step: int | None
    group: str | None
    op: str
    bytes: int | None
    n_ranks: int
    wait_ns: int | None
    transfer_ns: int | None
    busbw_bytes_per_s: float | None
    last_rank: int | None
    skew_ns: int | None


@dataclass(frozen=True, slots=True)
class UnitGather:
    """Gathers of one FSDP unit in one pass, mean per step and rank: how long, how much hidden, how long compute stood.

    `blocked_ns` is None where launches are not recorded: the gather cannot be told from a host that came late.
    """

    unit: str
    pass_: str | None
    gather_ns: int
    hidden_ns: int
    blocked_ns: int | None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The whole answer. `gaps` are the run's own and those found while attributing."""

    steps: tuple[StepParts, ...]
    communication: tuple[Communication, ...]
    groups: tuple[Group, ...] = ()
    collectives: tuple[Collective, ...] = ()
    units: tuple[UnitGather, ...] = ()
    gaps: tuple[Gap, ...] = field(default=())
    places: Mapping[int, str] = field(default_factory=dict)  # of the ranks whose node is known, `node1/gpu3`

    def frame(self) -> pl.DataFrame:
        """One row per rank and step: rank, step, duration_ns, each part as `PART_ns`, naive_ns (all int64), complete."""
        import polars as pl

        columns = ("rank", "step", "duration_ns", *(f"{part}_ns" for part in PARTS), "naive_ns")
        rows = [
            (s.rank, s.step, s.duration_ns, *(s.parts_ns[part] for part in PARTS), s.naive_ns, s.complete) for s in self.steps
        ]
        return pl.DataFrame(rows, schema={**dict.fromkeys(columns, pl.Int64), "complete": pl.Boolean}, orient="row")

    def table(self) -> Table:
        """The parts over complete steps and ranks (all steps where none is complete): means, which add up, in ms.

        Median and p95 stand beside them; they do not add up.
        """
        used = [s for s in self.steps if s.complete] or list(self.steps)
        columns = [Column("part"), *(Column(name, right=True) for name in ("mean ms", "share %", "median ms", "p95 ms"))]
        if not used:
            return Table("Where the step went", tuple(columns), (), ("no step was recorded",))
        whole = fmean(s.duration_ns for s in used)
        rows = [_row(part, [s.parts_ns[part] for s in used], whole) for part in PARTS]
        rows.append(_row("step", [s.duration_ns for s in used], whole))
        cut = len(self.steps) - len(used)
        notes = (f"{len(used)} rank-steps, {cut} cut ones left out" if cut else f"{len(used)} rank-steps",)
        return Table("Where the step went", tuple(columns), tuple(rows), notes)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _row(name: str, values_ns: list[int], whole_ns: float) -> tuple[str, float, float, float, float]:
    mean = fmean(values_ns)
    share = 100 * mean / whole_ns if whole_ns else 0.0
    p95 = quantiles(values_ns, n=20, method="inclusive")[-1] if len(values_ns) > 1 else values_ns[0]
    return (name, _ms(mean), round(share, 1), _ms(median(values_ns)), _ms(p95))


def _ms(ns: float) -> float:
    return round(ns / NS_PER_MS, 3)
