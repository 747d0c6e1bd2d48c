"""Puts what holds up a host into a program: pauses, and moments in which it waits for the device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stepscope.simulator.conditions import Delay
from stepscope.simulator.program import Op, Program
from stepscope.simulator.work import Costs


def with_delays(program: Program, delays: tuple[Delay, ...]) -> Program:
    """The same program with each delay before the operations it names, spread over them where it comes several times."""
    if not delays:
        return program
    before: dict[int, list[tuple[int, Delay]]] = {}
    for number, delay in enumerate(delays):
        places = [k for k, op in enumerate(program.ops) if op.name == delay.before and op.micro == delay.micro]
        for chosen in spread(len(places), delay.times):
            before.setdefault(places[chosen], []).append((number, delay))
    made = Program()
    moved: list[int] = []
    for k, op in enumerate(program.ops):
        for number, delay in before.get(k, ()):
            device = [j for j in range(k) if program.ops[j].kind == "compute"]
            if delay.drains and device:
                waits = Op("sync", delay.name, f"drain {number}", unit=op.unit, pass_=op.pass_, after=(moved[device[-1]],),
                           micro=op.micro)  # fmt: skip
                made.add(waits)
            made.add(Op("host", delay.name, f"delay {number}", unit=op.unit, pass_=op.pass_, micro=op.micro))
        moved.append(len(made.ops))
        made.add(op)
    return _renumbered(made, moved, program)


def spread(count: int, wanted: int) -> list[int]:
    """`wanted` of `count` places, evenly spread, in order; those of a smaller number are among those of a larger one."""
    bits = max(count - 1, 1).bit_length()
    order = sorted(range(count), key=lambda k: int(f"{k:0{bits}b}"[::-1], 2))
    return sorted(order[:wanted])


def _renumbered(made: Program, moved: list[int], program: Program) -> Program:
    """Operations that name others by place, after the others have moved."""
    for k, op in enumerate(program.ops):
        made.ops[moved[k]] = replace(
            op,
            after=tuple(moved[j] for j in op.after),
            after_start=tuple(moved[j] for j in op.after_start),
            beside=tuple(moved[j] for j in op.beside),
            contends=tuple(moved[j] for j in op.contends),
        )
    return made


def delay_costs(costs: Costs, delays: tuple[Delay, ...]) -> None:
    """How long each of them takes."""
    for number, delay in enumerate(delays):
        costs.duration[f"delay {number}"] = delay.ns
        if np.ndim(delay.ns):
            costs.only[f"drain {number}"] = np.asarray(delay.ns) > 0
