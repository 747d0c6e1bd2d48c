"""What DDP and ZeRO-1 issue: parameters everywhere, gradients exchanged bucket by bucket behind backward.

DDP fills buckets of 25 MiB (the first one 1 MiB) in the order in which gradients come (torch.nn.parallel.DistributedDataParallel,
bucket_cap_mb and dist._DEFAULT_FIRST_BUCKET_BYTES of torch 2.13); each is reduced when its last gradient is there, one after the
other. ZeRO-1 scatters the reduced gradients, updates its shard and gathers the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stepscope.model.plan import Plan
from stepscope.simulator.program import GATHER, REDUCE, Comm, Op, Program
from stepscope.simulator.programs import frame
from stepscope.simulator.programs.fsdp import Sizes
from stepscope.simulator.programs.layers import layers
from stepscope.simulator.programs.units import Unit, Units

BUCKET_BYTES: Final = 25 << 20
FIRST_BUCKET_BYTES: Final = 1 << 20
QUEUED: Final = 4  # earlier buckets that may be in flight beside a unit's kernels


class _Buckets:
    """Gradients as they come, in buckets; `take` says how many are full after a unit and when the first of them was."""

    def __init__(self) -> None:
        self.open = 0
        self.first = True

    def take(self, nbytes: int) -> tuple[int, float]:
        """Full buckets after so many more bytes, and the share of the unit's kernels after which the first one was full."""
        room = (FIRST_BUCKET_BYTES if self.first else BUCKET_BYTES) - self.open
        if nbytes < room:
            self.open += nbytes
            return 0, 1.0
        full = 1 + (nbytes - room) // BUCKET_BYTES
        self.open = (nbytes - room) % BUCKET_BYTES
        self.first = False
        return full, room / nbytes


def ddp(plan: Plan, units: Units, sizes: Sizes, *, overlap: bool = True, save: bool = False,
        eager: frozenset[int] = frozenset()) -> Program:  # fmt: skip
    """One step of DDP, or of ZeRO-1. Without `overlap` all gradients are exchanged at once after backward. `eager` are
    micro-batches that exchange gradients though not the last."""
    program = Program()
    comm = Comm(plan.strategy, plan.strategy)
    op_name = "reduce_scatter" if plan.strategy == "zero1" else "all_reduce"
    sent: list[int] = []
    for micro in range(plan.ga):
        frame.batch(program, micro)
        _forward(program, units, sizes, micro)
        sync = plan.data_ranks > 1 and (plan.sync == "every" or micro == plan.ga - 1 or micro in eager)
        buckets = _Buckets()
        _backward(program, units, sizes, _Exchange(program, comm, op_name, micro, sync and overlap, buckets, sent), plan.ac)
        if sync and not overlap:
            nbytes = units.parameters * sizes.reduce
            key = f"{op_name}:{comm.axis}:{nbytes}"
            last = (len(program.ops) - 1,)
            sent.append(
                program.add(Op("collective", op_name, key, "root", "backward", REDUCE, comm, nbytes, after=last, micro=micro))
            )
    norms: tuple[Comm, ...] = (comm,) if plan.strategy == "zero1" and plan.data_ranks > 1 else ()
    if plan.tp > 1:
        norms += (Comm("tp", "tp"),)
    done = frame.update(program, tuple(sent[-1:]), norms, plan.ga - 1)
    if plan.strategy == "zero1" and plan.data_ranks > 1:
        nbytes = units.parameters * sizes.gather
        key = f"all_gather:{comm.axis}:{nbytes}"
        done = program.add(Op("collective", "all_gather", key, "root", "forward", GATHER, comm, nbytes, after=(done,)))
    frame.close(program, done, save)
    return program


def _forward(program: Program, units: Units, sizes: Sizes, micro: int) -> None:
    program.add(Op("compute", "embedding.forward", "embedding.forward", "root", "forward", micro=micro))
    for unit in units.layers:
        layers(program, unit, "forward", after=(), beside=(), tp_bytes=sizes.tp, micro=micro)
    program.add(Op("compute", "head.forward", "head.forward", "root", "forward", micro=micro))


@dataclass(slots=True)
class _Exchange:
    """The exchange of one micro-batch's gradients; `on` is False where none takes place."""

    program: Program
    comm: Comm
    name: str
    micro: int
    on: bool
    buckets: _Buckets
    sent: list[int]

    def gradients(self, unit: Unit, nbytes: int, after: int) -> None:
        """Gradients of a unit whose last kernels are `after`: the buckets that they fill are sent."""
        full, ready = self.buckets.take(nbytes)
        if self.on and full:
            self._send(unit.name, BUCKET_BYTES, after, full, ready)

    def rest(self, after: int) -> None:
        """The last bucket, filled or not."""
        if self.on and self.buckets.open:
            self._send("root", self.buckets.open, after, 1, 1.0)

    def in_flight(self) -> tuple[int, ...]:
        """What may be under way beside the next kernels."""
        return tuple(self.sent[-QUEUED:]) if self.on else ()

    def _send(self, unit: str, nbytes: int, after: int, count: int, ready: float) -> None:
        key = f"{self.name}:{self.comm.axis}:{nbytes}"
        op = Op(
            "collective", self.name, key, unit, "backward", REDUCE, self.comm, nbytes, (after,), count=count, ready=ready,
            micro=self.micro,
        )  # fmt: skip
        self.sent.append(self.program.add(op))


def _backward(program: Program, units: Units, sizes: Sizes, exchange: _Exchange, ac: str) -> None:
    micro = exchange.micro
    program.add(Op("compute", "head.backward", "head.backward", "root", "backward", micro=micro))
    for unit in reversed(units.layers):
        beside = exchange.in_flight()
        placed = layers(program, unit, "backward", after=(), beside=beside, tp_bytes=sizes.tp, micro=micro, ac=ac)
        exchange.gradients(unit, unit.parameters * sizes.reduce, placed.last)
    op = Op("compute", "embedding.backward", "embedding.backward", "root", "backward", beside=exchange.in_flight(), micro=micro)
    last = program.add(op)
    exchange.gradients(units.root, units.root.parameters * sizes.reduce, last)
    exchange.rest(last)
