"""What do the ranks of each axis exchange in one step, when, and does compute hide it? Sizes as nccl-tests counts them, bytes.

Counts as the frameworks issue them: FSDP2 and HSDP of torch 2.13, DDP, ZeRO-1, sequence parallel with tensor parallel
(Korthikanti et al. 2022), 1F1B pipelines, ring attention, and the two all-to-alls of a layer of experts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stepscope.model.plan import Plan
from stepscope.model.shape import Shape

REDUCED: Final = {"fp32": 4, "bf16": 2}
WIDE: Final = ("fp32", "tf32")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One axis: operations, what is divided or shared, when, whether hidden, and its bytes of a step (None: no model)."""

    op: str
    holds: str
    when: str
    hidden: bool | None
    nbytes: int | None


def exchange(axis: str, plan: Plan, shape: Shape | None) -> Exchange:
    """What that axis exchanges under the plan. KeyError for an axis that no plan has."""
    op, holds, when, hidden, count = _AXES[axis]
    if axis == "fsdp" and not plan.reshard:
        op, when = "all-gather, reduce-scatter", "gathers before each unit's forward, reductions after its backward"
    return Exchange(op, holds, when, hidden, None if shape is None else count(plan, shape))


def _width(plan: Plan) -> int:
    return 4 if plan.precision in WIDE else 2


def _parameters(plan: Plan, shape: Shape) -> int:
    """Of one rank's layers before the data axis divides them."""
    return -(-shape.parameters() // (plan.tp * plan.pp))


def _syncs(plan: Plan) -> int:
    return plan.ga if plan.sync == "every" else 1


def _activations(plan: Plan, shape: Shape) -> int:
    """The hidden state of one micro-batch on a rank's share of the sequence."""
    return plan.mbs * plan.sequence(shape.context) // plan.cp * shape.hidden * _width(plan)


def _fsdp(plan: Plan, shape: Shape) -> int:
    held = _parameters(plan, shape)
    gathers = plan.ga * (2 if plan.reshard else 1)
    return held * (gathers * _width(plan) + _syncs(plan) * REDUCED[plan.reduce])


def _replicate(plan: Plan, shape: Shape) -> int:
    return -(-_parameters(plan, shape) // plan.shard) * REDUCED[plan.reduce] * _syncs(plan)


def _ddp(plan: Plan, shape: Shape) -> int:
    return _parameters(plan, shape) * REDUCED[plan.reduce] * _syncs(plan)


def _zero1(plan: Plan, shape: Shape) -> int:
    return _parameters(plan, shape) * (REDUCED[plan.reduce] * _syncs(plan) + _width(plan))


def _tp(plan: Plan, shape: Shape) -> int:
    layers = -(-shape.layers // plan.pp)
    return 8 * layers * plan.ga * _activations(plan, shape)


def _pp(plan: Plan, shape: Shape) -> int:
    return 2 * plan.ga * (plan.pp - 1) * _activations(plan, shape) // plan.tp


def _cp(plan: Plan, shape: Shape) -> int:
    layers = -(-shape.layers // plan.pp)
    block = 2 * _activations(plan, shape) * shape.kv_heads // shape.heads
    return 3 * layers * plan.ga * (plan.cp - 1) * block


def _ep(plan: Plan, shape: Shape) -> int:
    layers = -(-shape.layers // plan.pp)
    return 4 * layers * plan.ga * _activations(plan, shape)


_AXES: Final[dict[str, tuple[str, str, str, bool | None, Callable[[Plan, Shape], int]]]] = {
    "fsdp": (
        "all-gather, reduce-scatter",
        "each rank holds a shard of parameters, gradients and states",
        "gathers before each unit's forward and backward, reductions after its backward",
        True,
        _fsdp,
    ),
    "replicate": (
        "all-reduce",
        "ranks hold the same shard",
        "each unit's gradients after their reduce-scatter",
        True,
        _replicate,
    ),
    "ddp": ("all-reduce", "every rank holds everything", "gradients in buckets during backward", True, _ddp),
    "zero1": (
        "reduce-scatter, all-gather",
        "every rank holds parameters and gradients, and a shard of the states",
        "gradients during backward, parameters after the update",
        None,
        _zero1,
    ),
    "tp": (
        "all-gather, reduce-scatter",
        "each rank holds a slice of every matrix; batch, loss and random numbers are the same",
        "twice in each layer's forward and backward, in line with compute",
        False,
        _tp,
    ),
    "cp": (
        "send-recv of keys and values",
        "same parameters and sample, another slice of the sequence",
        "ring steps beside attention",
        None,
        _cp,
    ),
    "pp": (
        "send-recv of activations",
        "each rank holds some of the layers",
        "at the stages' borders, every micro-batch",
        None,
        _pp,
    ),
    "ep": ("all-to-all", "each rank holds some of the experts", "twice in each layer's forward and backward", False, _ep),
    "efsdp": (
        "all-gather, reduce-scatter",
        "each rank holds a shard of its experts",
        "as for fsdp, with the experts' parameters",
        True,
        _fsdp,
    ),
}
