"""What does a rank issue in one step, in which order, on which stream, and what must each operation wait for?

A program is the same on every rank: a list of operations in the order in which the host issues them. It holds no times; the
engine asks `Work` for those. Operations name earlier ones by their place in the list.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

Kind = Literal["compute", "collective", "sync", "host", "input", "copy", "save"]
"""Kernels of a unit; a collective; the host waits for the device; the host works; the host waits for a batch; a copy between
host and device; the host takes a checkpoint."""

COMPUTE: Final = 0
GATHER: Final = 1
REDUCE: Final = 2
REPLICATE: Final = 3
TENSOR: Final = 4
COPY: Final = 5
STREAMS: Final = ("compute", "gather", "reduce", "replicate", "tensor", "copy")
"""Streams of a rank's device. Two collectives of one communicator never run at once, whatever their streams."""


@dataclass(frozen=True, slots=True)
class Comm:
    """A communicator: the mesh axis whose groups it joins, and a name that tells two of one axis apart."""

    axis: str
    name: str


@dataclass(frozen=True, slots=True)
class Op:
    """One operation. `work` is the key of its duration.

    `after`: operations that must have ended; `after_start`: that must have begun (their outputs are copied out by then).
    `beside`: collectives that may be in flight while this computes, and slow it. `contends`: collectives of other
    communicators that may be in flight and share a link. `count` equal collectives in a row, of which the last cannot begin
    before `after` has ended while the others follow `ready`, a share of that operation. `micro`: the micro-batch.
    """

    kind: Kind
    name: str
    work: str
    unit: str = ""
    pass_: Literal["forward", "backward"] | None = None
    stream: int = COMPUTE
    comm: Comm | None = None
    nbytes: int = 0
    after: tuple[int, ...] = ()
    after_start: tuple[int, ...] = ()
    beside: tuple[int, ...] = ()
    contends: tuple[int, ...] = ()
    lead: str = ""
    count: int = 1
    ready: float = 1.0
    micro: int = 0


@dataclass(slots=True)
class Program:
    """Operations in host order."""

    ops: list[Op] = field(default_factory=list)

    def add(self, op: Op) -> int:
        """Appends an operation; its place."""
        self.ops.append(op)
        return len(self.ops) - 1

    def amend(self, place: int, beside: tuple[int, ...]) -> None:
        """Says of an earlier computation which later collectives may run beside it."""
        from dataclasses import replace

        self.ops[place] = replace(self.ops[place], beside=self.ops[place].beside + beside)

    def collectives(self) -> list[int]:
        """Places of the collectives."""
        return [k for k, op in enumerate(self.ops) if op.kind == "collective"]
