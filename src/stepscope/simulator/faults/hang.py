"""Where does a hang leave every rank? Who stopped at which operation of the step, and in which one each of the others waits.

Computed over the program of the step in which it happens, with the times of that step as it would have been: a hang only keeps
things from happening. A member that stopped keeps its group in their collective; who needs one of those waits in turn; hosts run
on until they have to look at the device. Of a dead rank everything stops at once. Times are ns, arrays [operations, ranks].
Not modelled: collectives that end wrongly instead of never, and what NCCL's watchdogs do after their timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepscope.model.errors import UsageMistake
from stepscope.simulator.costs import axes
from stepscope.simulator.engine import StepTimes
from stepscope.simulator.faults.effect import Draw
from stepscope.simulator.faults.fault import Fault
from stepscope.simulator.faults.ranks import ranks_at
from stepscope.simulator.program import STREAMS, Op
from stepscope.simulator.simulation import Step
from stepscope.simulator.stalls import ranks_on_nic

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
NOTHING: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Hang:
    """A job that stands. `place` is the operation at which it happened, by its number in the program; `culprits` the ranks at
    fault, `gone` [ranks] those whose process is no more; `called` what a culprit called at `place` instead of its peers'
    collective.

    `issued`, `started`, `ended` [operations, ranks]: whether the host got to the operation, whether the device began it, whether
    it ended. What is issued and not started is scheduled.
    """

    fault: Fault
    step: int
    place: int
    culprits: Ints
    gone: Bools
    called: Op | None
    issued: Bools
    started: Bools
    ended: Bools
    times: StepTimes

    @property
    def completed(self) -> Ints:
        """Of each rank the last operation that ended, NOTHING where none did."""
        return _last(self.ended)

    @property
    def current(self) -> Ints:
        """Of each rank the first operation that was issued and has not ended, NOTHING where all have."""
        pending = self.issued & ~self.ended
        return np.where(pending.any(axis=0), pending.argmax(axis=0), NOTHING)

    @property
    def begun(self) -> Bools:
        """Whether each rank's current operation has started on the device; it is scheduled otherwise."""
        current = self.current
        found: Bools = self.started[np.maximum(current, 0), np.arange(len(current))] & (current != NOTHING)
        return found

    @property
    def since_ns(self) -> NDArray[np.float64]:
        """When each rank got to its current operation: started it, or issued it where it has not started; nan without one."""
        current = self.current
        reached = np.where(self.started, self.times.start, self.times.issue)
        since = reached[np.maximum(current, 0), np.arange(len(current))]
        return np.asarray(np.where(current == NOTHING, np.nan, since), dtype=np.float64)

    @property
    def progress_ns(self) -> NDArray[np.float64]:
        """When each rank last ended an operation; the start of the step where it ended none."""
        found: NDArray[np.float64] = np.where(self.ended, self.times.end, self.times.host_start).max(axis=0)
        return found

    @property
    def host_at(self) -> Ints:
        """Of each rank the last operation that its host got to: the one it stands in, or before whose successor it stopped."""
        return _last(self.issued)


def _last(table: Bools) -> Ints:
    found = len(table) - 1 - table[::-1].argmax(axis=0)
    return np.where(table.any(axis=0), found, NOTHING)


def hang_at(fault: Fault, step: Step, draw: Draw) -> Hang:
    """The hang in that step, at a place drawn from the seed, such that nobody else gets through the step. UsageMistake where no
    collective could hold the others."""
    job = step.prepared.job
    ranks = ranks_at(job, fault.where)
    if fault.cause == "hang.transport_broken" and fault.where.kind == "nic":
        nic = fault.where.nic or 0
        gpus = [g for g, slot in enumerate(job.cluster.wiring(fault.where.node or 0).gpus) if nic in slot.nics]
        ranks = np.array([(fault.where.node or 0) * job.cluster.gpus_per_node + g for g in gpus])
    places = list(_places(fault, step, ranks))
    first = int(draw.of(int(fault.amount)).integers(max(len(places), 1)))
    for place in [*places[first::-1], *places[first + 1 :]]:
        found = _walk(fault, step, place, ranks)
        others = np.setdiff1d(np.arange(job.ranks), ranks)
        if not found.ended[-1, others].any():
            return found
    raise UsageMistake(f"{fault.cause}@{fault.where}: no collective of this plan joins it with all others; take another plan")


def _places(fault: Fault, step: Step, ranks: Ints) -> Iterator[int]:
    """Operations at which it may happen: computations, or collectives of several ranks that the culprit takes part in."""
    ops = step.prepared.work.program.ops
    sizes = axes(step.prepared.job.mesh, step.prepared.job.workload.plan)
    held = _on_wire(fault, step) if fault.cause == "hang.transport_broken" else {}
    for k, op in enumerate(ops):
        if fault.cause in ("hang.gpu_stalled", "hang.rank_died"):
            if op.kind == "compute" and op.pass_ is not None:
                yield k
        elif op.kind != "collective" or op.comm is None or sizes[op.comm.axis][0] == 1:
            continue
        elif fault.cause == "hang.transport_broken":
            if held[op.comm.axis].any():
                yield k
        elif fault.cause == "hang.host_stalled" or _other_call(ops, k) is not None:
            yield k


def _other_call(ops: list[Op], k: int) -> Op | None:
    """What a rank that skips collective k calls in its stead, as far as its peers can tell the two apart."""
    op = ops[k]
    following = next((o for o in ops[k + 1 :] if o.kind == "collective" and o.comm == op.comm), None)
    if following is None or (following.name, following.nbytes) == (op.name, op.nbytes):
        return None
    return following


def _on_wire(fault: Fault, step: Step) -> dict[str, Bools]:
    """By axis, the ranks [ranks] whose group uses the NIC (or any NIC of the node)."""
    job, where = step.prepared.job, fault.where
    node = where.node or 0
    nics = range(len(job.cluster.wiring(node).nics)) if where.nic is None else (where.nic,)
    found = {}
    for name, axis in axes(job.mesh, job.workload.plan).items():
        found[name] = np.logical_or.reduce([ranks_on_nic(job, axis, node, nic) for nic in nics])
    return found


def _walk(fault: Fault, step: Step, place: int, ranks: Ints) -> Hang:
    """Goes through the program and says of each operation on which ranks it is issued, starts and ends."""
    ops, codes, times = step.prepared.work.program.ops, step.prepared.work.codes, step.times
    shape = times.start.shape
    culprit = np.zeros(shape[1], dtype=bool)
    culprit[ranks] = True
    dead, may_end = _rule(fault, step, place, culprit)
    alive = np.ones(shape[1], dtype=bool)
    issued, started, ended = (np.zeros(shape, dtype=bool) for _ in range(3))
    streams = [np.ones(shape[1], dtype=bool) for _ in STREAMS]
    comms: dict[str, Bools] = {}
    stops_before = place if fault.cause == "hang.host_stalled" else len(ops)
    for k, (op, code) in enumerate(zip(ops, codes, strict=True)):
        if k == stops_before:
            alive = alive & ~culprit
        issued[k] = alive if dead is None else alive & ~(culprit & (times.issue[k] > dead))
        ready = issued[k].copy()
        on_device = op.kind in ("compute", "collective", "copy")
        if on_device:
            ready &= streams[op.stream]
        if op.kind != "sync":
            for d in op.after:
                ready &= ended[d]
            for d in op.after_start:
                ready &= started[d]
        if op.kind == "collective":
            ready &= comms.get(code.comm, ready)
        started[k] = ready if dead is None else ready & ~(culprit & (times.start[k] > dead))
        done = started[k] & may_end(k)
        if op.kind == "sync":
            for d in op.after:
                done &= ended[d] if code.only is None else ended[d] | ~code.only
        if code.joining is not None:
            absent = np.empty(shape[1])
            code.joining.last((~done).astype(float), absent)
            done &= absent == 0
        ended[k] = done
        if on_device:
            streams[op.stream] = streams[op.stream] & done
        if op.kind == "collective":
            comms[code.comm] = done
        if op.kind in ("sync", "save", "input", "host") or code.holds_host:
            alive = alive & done
    gone = culprit if dead is not None else np.zeros_like(culprit)
    called = _other_call(ops, place) if fault.cause == "hang.collective_mismatch" else None
    return Hang(fault, step.number, place, ranks, gone, called, issued, started, ended, times)


def _rule(fault: Fault, step: Step, place: int, culprit: Bools) -> tuple[float | None, Callable[[int], Bools]]:
    """When the culprit's process died (None: it lives), and on which ranks an operation may end that has begun."""
    times, everywhere = step.times, np.ones(len(culprit), dtype=bool)
    if fault.cause == "hang.rank_died":
        at = float((times.start[place] + times.end[place])[culprit].max() / 2)
        return at, lambda k: ~(culprit & (times.end[k] > at))
    if fault.cause == "hang.transport_broken":
        held = _on_wire(fault, step)
        ops = step.prepared.work.program.ops
        comm = ops[place].comm
        assert comm is not None
        at = float(times.begin[place][held[comm.axis]].min())

        def carried(k: int) -> Bools:
            comm = ops[k].comm
            if ops[k].kind != "collective" or comm is None:
                return everywhere
            found: Bools = ~(held[comm.axis] & (times.end[k] > at))
            return found

        return None, carried
    if fault.cause in ("hang.gpu_stalled", "hang.collective_mismatch"):
        return None, lambda k: ~culprit if k == place else everywhere
    return None, lambda k: everywhere


def sentence(hang: Hang, step: Step) -> str:
    """`step 10: rank 5's host stopped before all_gather of layers.3; 15 ranks wait`."""
    ops = step.prepared.work.program.ops
    op = ops[hang.place]
    who = f"rank {hang.culprits[0]}" if len(hang.culprits) == 1 else f"ranks {hang.culprits[0]} to {hang.culprits[-1]}"
    what = f"{op.name} of {op.unit}" if op.unit else op.name
    said = {
        "hang.host_stalled": f"{who}'s host stopped before {what}",
        "hang.gpu_stalled": f"{who}'s GPU stopped in {what}",
        "hang.rank_died": f"{who} died in {what}",
        "hang.collective_mismatch": f"{who} called {hang.called.name if hang.called else 'another collective'} instead of {what}",
        "hang.transport_broken": f"the network of {hang.fault.where} broke under {what}",
    }[hang.fault.cause]
    waiting = hang.current != NOTHING
    if hang.fault.cause in ("hang.gpu_stalled", "hang.rank_died"):
        waiting[hang.culprits] = False
    return f"step {hang.step}: {said}; {int(waiting.sum())} ranks wait"
