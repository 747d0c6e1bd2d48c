"""A program with its times filled in: what the engine runs. Durations are ns, a number for all ranks or an array [ranks]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from stepscope.simulator.joining import Joining
from stepscope.simulator.program import Op, Program

Array = NDArray[np.float64]
Duration = Array | float

KINDS: Final = {"compute": 0, "collective": 1, "sync": 2, "host": 3, "input": 4, "copy": 5, "save": 6}


class Batches(Protocol):
    """Where batches come from."""

    def take(self, asked: Array) -> Array:
        """When each rank holds its next batch, ns, having asked for it at `asked`."""


@dataclass(frozen=True, slots=True)
class Code:
    """One operation as the engine reads it. `kind` is by KINDS; `first` picks one rank's jitter for its whole group.

    `background` is the share of its links that a checkpoint's upload takes while it is under way, half at most.
    `only` are the ranks [ranks] on which a wait for the device, or a copy that holds the host, does so; None: all.
    """

    kind: int
    stream: int
    after: tuple[int, ...]
    after_start: tuple[int, ...]
    beside: tuple[int, ...]
    contends: tuple[tuple[int, float], ...]
    duration: Duration
    host_ns: float = 0.0
    tail_ns: Duration = 0.0
    lead_ns: Duration = 0.0
    comm: str = ""
    joining: Joining | None = None
    first: NDArray[np.int64] | int = 0
    count: int = 1
    ready: float = 1.0
    flush: bool = True
    holds_host: bool = False
    hidden_ns: Duration = 0.0
    background: float = 0.0
    only: NDArray[np.bool_] | None = None


@dataclass(slots=True)
class Costs:
    """What each key of a program takes: ns on the device, ns to issue, ns of the last kernel, and of a save's upload.

    `shares` is the share of a link that collectives of two communicators contend for, by their names.
    """

    duration: dict[str, Duration] = field(default_factory=dict)
    host_ns: dict[str, float] = field(default_factory=dict)
    tail_ns: dict[str, Duration] = field(default_factory=dict)
    hidden_ns: dict[str, Duration] = field(default_factory=dict)
    shares: dict[tuple[str, str], float] = field(default_factory=dict)
    holds_host: frozenset[str] = frozenset()
    only: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    background: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Work:
    """A program ready to run over a vector of ranks. `host_pace` multiplies what the host takes to issue."""

    program: Program
    codes: list[Code]
    batches: Batches
    host_pace: Duration = 1.0
    launch_latency_ns: float = 0.0
    overlap_slowdown: float = 0.0


def fill(program: Program, costs: Costs, joinings: dict[str, Joining]) -> list[Code]:
    """The program's operations with their times; KeyError for a key that `costs` does not know."""
    firsts = {name: joining.first() for name, joining in joinings.items()}
    return [_code(program, op, costs, joinings, firsts) for op in program.ops]


def _code(
    program: Program, op: Op, costs: Costs, joinings: dict[str, Joining], firsts: dict[str, NDArray[np.int64] | int]
) -> Code:
    comm = op.comm
    contends = []
    for w in op.contends:
        other = program.ops[w].comm
        share = costs.shares.get((comm.name, other.name), 0.0) if comm and other else 0.0
        if share:
            contends.append((w, share))
    return Code(
        kind=KINDS[op.kind],
        stream=op.stream,
        after=op.after,
        after_start=op.after_start,
        beside=op.beside,
        contends=tuple(contends),
        duration=costs.duration.get(op.work, 0.0) if op.kind in ("sync", "input") else costs.duration[op.work],
        host_ns=costs.host_ns.get(op.work, 0.0),
        tail_ns=costs.tail_ns.get(op.work, 0.0),
        lead_ns=costs.duration[op.lead] if op.lead else 0.0,
        comm=comm.name if comm else "",
        joining=joinings[comm.axis] if comm else None,
        first=firsts[comm.axis] if comm else 0,
        count=op.count,
        ready=op.ready,
        flush=bool(op.after),
        holds_host=op.work in costs.holds_host,
        hidden_ns=costs.hidden_ns.get(op.work, 0.0),
        background=costs.background.get(comm.axis, 0.0) if comm else 0.0,
        only=costs.only.get(op.work),
    )
