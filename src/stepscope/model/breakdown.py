"""What `breakdown` finds: parts of every rank's step, communication, collectives, units. Times are integer ns."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepscope.model.run import Gap, Group


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
    """Gathers of one FSDP unit in one pass, mean per step and rank: how long, how much hidden, how long compute stood."""

    unit: str
    pass_: str | None
    gather_ns: int
    hidden_ns: int
    blocked_ns: int


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The whole answer. `gaps` are the run's own and those found while attributing."""

    steps: tuple[StepParts, ...]
    communication: tuple[Communication, ...]
    groups: tuple[Group, ...] = ()
    collectives: tuple[Collective, ...] = ()
    units: tuple[UnitGather, ...] = ()
    gaps: tuple[Gap, ...] = field(default=())
