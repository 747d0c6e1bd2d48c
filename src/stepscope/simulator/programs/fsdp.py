"""What FSDP issues in a step: gathers ahead of use, reductions behind it. FSDP2 as in torch 2.13's `torch.distributed.fsdp`.

A unit's gather is issued by the host right after the kernels of the unit before it, and its copy-in waits until that unit's
parameters are copied out: so it runs beside that unit's kernels (implicit prefetch). In backward the next gather is issued
before a unit's kernels. One reduce-scatter is in flight: the kernels after the next unit's wait for it (FSDP2). Gathers and
reductions of one group share a communicator and run in the order in which the host issued them, unless they are kept apart.
FSDP1 lets reductions queue, and its host waits until at most two gathered units are unused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from stepscope.model.plan import IMPLICIT, Plan
from stepscope.simulator.program import GATHER, REDUCE, REPLICATE, Comm, Op, Program
from stepscope.simulator.programs import frame
from stepscope.simulator.programs.layers import layers
from stepscope.simulator.programs.units import Unit, Units

FSDP1_GATHERS: Final = (
    2  # limit_all_gathers of torch 2.13's FSDP1 keeps two inflight (_FreeEventQueue._max_num_inflight_all_gathers)
)

SHARD = Comm("fsdp", "fsdp")
SHARD_REDUCE = Comm("fsdp", "fsdp reduce")
REPLICAS = Comm("replicate", "replicate")
NARROW = Comm("reshard", "reshard")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of one parameter when gathered and when reduced, and of one tensor-parallel collective (0: none)."""

    gather: int
    reduce: int
    tp: int = 0


@dataclass(slots=True)
class _Fsdp:
    plan: Plan
    units: Units
    sizes: Sizes
    version: Literal["fsdp1", "fsdp2"]
    program: Program = field(default_factory=Program)
    reduced: list[int] = field(default_factory=list)  # the last operation on each unit's gradients
    scatters: list[int] = field(default_factory=list)
    late: frozenset[int] = frozenset()

    def gather(self, unit: Unit, pass_: Literal["forward", "backward"], micro: int, after: tuple[int, ...] = (),
               after_start: tuple[int, ...] = ()) -> int:  # fmt: skip
        """The gather of a unit; the place of nothing to gather is that of what it would have waited for."""
        narrow = pass_ == "backward" and self.plan.reshard > 1
        comm = NARROW if narrow else SHARD
        nbytes = unit.parameters * self.sizes.gather
        contends: tuple[int, ...] = tuple(self.scatters[-1:]) if self.plan.separate_rs else ()
        if self.plan.strategy == "hsdp":
            contends += tuple(self.reduced[-1:])
        return self.program.add(
            Op("collective", "all_gather", f"all_gather:{comm.axis}:{nbytes}", unit.name, pass_, GATHER, comm, nbytes,
               after=after, after_start=after_start, contends=contends, lead=f"copy in@{nbytes}", micro=micro)
        )  # fmt: skip

    def reduce(self, unit: Unit, after: int, micro: int, beside: int | None) -> None:
        """The reduction of a unit's gradients, over the replicas too where there are some."""
        nbytes = unit.parameters * self.sizes.reduce
        comm = SHARD_REDUCE if self.plan.separate_rs else SHARD
        contends: tuple[int, ...] = (beside,) if self.plan.separate_rs and beside is not None else ()
        if self.plan.strategy == "hsdp":
            contends += tuple(self.reduced[-1:])
        k = self.program.add(
            Op("collective", "reduce_scatter", f"reduce_scatter:fsdp:{nbytes}", unit.name, "backward", REDUCE, comm, nbytes,
               after=(after,), contends=contends, lead=f"copy in@{nbytes}", micro=micro)
        )  # fmt: skip
        self.scatters.append(k)
        if self.plan.strategy == "hsdp" and self.plan.replicate > 1:
            shard = -(-nbytes // self.plan.shard)
            k = self.program.add(
                Op("collective", "all_reduce", f"all_reduce:replicate:{shard}", unit.name, "backward", REPLICATE, REPLICAS, shard,
                   after=(k,), contends=(beside,) if beside is not None else (), micro=micro)
            )  # fmt: skip
        self.reduced.append(k)

    def forward(self, micro: int) -> int:
        """Forward of a micro-batch; the place of its last computation."""
        program, units, plan = self.program, self.units.layers, self.plan
        root = self.gather(self.units.root, "forward", micro)
        compute = program.add(
            Op("compute", "embedding.forward", "embedding.forward", "root", "forward", after=(root,), micro=micro)
        )
        ahead: dict[int, int] = {}
        ends: list[int] = [compute]
        for i, unit in enumerate(units):
            if i not in ahead:
                ahead[i] = self._forward_gather(i, ends, micro)
            in_line = bool(self.sizes.tp)
            following = self._prefetch(i, ahead, ends, micro, in_line)
            placed = layers(program, unit, "forward", after=(ahead[i],), beside=following, tp_bytes=self.sizes.tp, micro=micro)
            ends.append(placed.last if in_line else placed.first)
            if not in_line and plan.prefetch == IMPLICIT and i + 1 < len(units) and i + 1 not in self.late:
                ahead[i + 1] = self._forward_gather(i + 1, ends, micro)
                program.amend(placed.first, (ahead[i + 1],))
        return program.add(Op("compute", "head.forward", "head.forward", "root", "forward", micro=micro))

    def _forward_gather(self, i: int, ends: list[int], micro: int) -> int:
        """The gather of the i-th unit, when the computation before it begins (or ends, without prefetch)."""
        if self.version == "fsdp1" and i >= FSDP1_GATHERS:
            self.program.add(Op("sync", "rate limit", "sync", after=(ends[i - FSDP1_GATHERS + 1],), micro=micro))
        before = ends[-1]
        if self.plan.prefetch == 0 or i in self.late:
            return self.gather(self.units.layers[i], "forward", micro, after=(before,))
        return self.gather(self.units.layers[i], "forward", micro, after_start=(before,))

    def _prefetch(self, i: int, ahead: dict[int, int], ends: list[int], micro: int, in_line: bool) -> tuple[int, ...]:
        """Gathers issued before the kernels of the i-th unit: those asked for, or the next one beside in-line kernels."""
        depth = self.plan.prefetch if self.plan.prefetch > 0 else int(in_line and self.plan.prefetch == IMPLICIT)
        following = [j for j in range(i + 1, min(i + 1 + depth, len(self.units.layers))) if j not in self.late]
        for j in following:
            if j not in ahead:
                waits = {"after": (ends[-1], ahead[i])} if in_line else {"after_start": (ends[-1],)}
                ahead[j] = self.gather(self.units.layers[j], "forward", micro, **waits)
        return tuple(ahead[j] for j in following)

    def backward(self, micro: int, sync: bool) -> None:
        """Backward of a micro-batch, with the reduction of gradients if `sync`."""
        program, plan, units = self.program, self.plan, self.units.layers
        eager = plan.prefetch != 0 and plan.reshard > 0
        last = len(units) - 1
        gathers: dict[int, int] = {}
        head = program.add(Op("compute", "head.backward", "head.backward", "root", "backward", micro=micro))
        if eager and last not in self.late:
            gathers[last] = self.gather(units[last], "backward", micro, after_start=(head,))
            program.amend(head, (gathers[last],))
        before = head
        for i in range(last, -1, -1):
            if plan.reshard and i not in gathers:
                gathers[i] = self.gather(units[i], "backward", micro, after=(before,))
            if eager and i and i - 1 not in self.late:
                gathers[i - 1] = self.gather(units[i - 1], "backward", micro, after=(before, gathers[i]))
            after = ((gathers[i],) if i in gathers else ()) + self._stall()
            beside = tuple(self.scatters[-self._queued() :]) + ((gathers[i - 1],) if i - 1 in gathers else ())
            placed = layers(
                program, units[i], "backward", after=after, beside=beside, tp_bytes=self.sizes.tp, micro=micro, ac=plan.ac
            )
            before = placed.last
            if sync:
                self.reduce(units[i], placed.last, micro, gathers.get(i - 1))
        beside = tuple(self.scatters[-self._queued() :]) if sync else ()
        end = program.add(Op("compute", "embedding.backward", "embedding.backward", "root", "backward", after=self._stall(),
                             beside=beside, micro=micro))  # fmt: skip
        if sync:
            self.reduce(self.units.root, end, micro, None)

    def _stall(self) -> tuple[int, ...]:
        """The reduction that the next kernels wait for: FSDP2 lets one be in flight beside the newest."""
        return (self.scatters[-2],) if self.version == "fsdp2" and len(self.scatters) > 1 else ()

    def _queued(self) -> int:
        """Reductions that may be in flight beside a computation."""
        return 1 if self.version == "fsdp2" else 3


def fsdp(plan: Plan, units: Units, sizes: Sizes, version: Literal["fsdp1", "fsdp2"] = "fsdp2", save: bool = False, *,
         late: frozenset[int] = frozenset(), eager: frozenset[int] = frozenset()) -> Program:  # fmt: skip
    """The program of one step of FSDP or HSDP. `late` units are gathered when they are needed, `eager` micro-batches exchange
    gradients though they are not the last."""
    made = _Fsdp(plan, units, sizes, version, late=late)
    for micro in range(plan.ga):
        frame.batch(made.program, micro)
        made.forward(micro)
        made.backward(micro, sync=plan.sync == "every" or micro == plan.ga - 1 or micro in eager)
    norms = [SHARD] + ([Comm("tp", "tp")] if plan.tp > 1 else [])
    done = frame.update(made.program, tuple(made.scatters[-2:] + made.reduced[-2:]), tuple(norms), plan.ga - 1)
    frame.close(made.program, done, save)
    return made.program
