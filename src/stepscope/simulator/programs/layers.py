"""The kernels of a unit's layers in one pass: one operation, or with tensor parallelism the pieces between its collectives.

With sequence parallelism each half of a layer (attention, MLP) gathers the sequence before and scatters the sum after it, in
forward and in backward; all of that is in line (facts of Megatron-LM's sequence parallelism, Korthikanti et al. 2022). What
activation checkpointing repeats has its collectives again: all of a layer's forward, or its gathers where sums are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stepscope.simulator.program import TENSOR, Comm, Op, Program
from stepscope.simulator.programs.units import Unit

TP = Comm("tp", "tp")


@dataclass(frozen=True, slots=True)
class Placed:
    """The first and the last operation of what was appended, and all computations among them."""

    first: int
    last: int
    computes: tuple[int, ...]


def layers(
    program: Program,
    unit: Unit,
    pass_: Literal["forward", "backward"],
    *,
    after: tuple[int, ...],
    beside: tuple[int, ...],
    tp_bytes: int,
    micro: int,
    ac: str = "none",
) -> Placed:
    """Appends the computation of a unit. `tp_bytes` is one tensor-parallel collective, 0 without tensor parallelism. `ac` is the
    plan's activation checkpointing, for backward."""
    name = f"layer.{pass_}"
    if not tp_bytes:
        op = Op("compute", name, f"{name}@{unit.layers:g}", unit.name, pass_, after=after, beside=beside, micro=micro)
        k = program.add(op)
        return Placed(k, k, (k,))
    halves = ("attention", "mlp") if pass_ == "forward" else ("mlp", "attention")
    many = max(round(unit.layers), 1)
    share = unit.layers / many
    placed: list[int] = []
    computes: list[int] = []
    again = {"full": ("all_gather", "reduce_scatter"), "selective": ("all_gather",)}.get(ac, ()) if pass_ == "backward" else ()
    for _ in range(many):
        for half in halves:
            for kind in (*again, "all_gather"):
                repeated = Op(
                    "collective", kind, f"{kind}:tp:{tp_bytes}", unit.name, pass_, TENSOR, TP, tp_bytes,
                    after=after, contends=beside, micro=micro,
                )  # fmt: skip
                placed.append(program.add(repeated))
                after = (placed[-1],)
            key = f"{half}.{pass_}@{share:g}"
            computes.append(
                program.add(
                    Op("compute", f"{half}.{pass_}", key, unit.name, pass_, after=(placed[-1],), beside=beside, micro=micro)
                )
            )
            scatter = Op(
                "collective", "reduce_scatter", f"reduce_scatter:tp:{tp_bytes}", unit.name, pass_, TENSOR, TP, tp_bytes,
                after=(computes[-1],), contends=beside, micro=micro,
            )  # fmt: skip
            placed.append(program.add(scatter))
            after = (placed[-1],)
    return Placed(placed[0], placed[-1], tuple(computes))
