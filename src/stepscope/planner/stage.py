"""Which layers lie on which pipeline stage, and how many micro-batches does a stage hold? One forward, one backward (1F1B)."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.catalog.footprint import Habits
from stepscope.model.plan import Plan
from stepscope.model.shape import Shape


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its layers, whether embedding and head lie on it, and micro-batches whose activations are alive at once."""

    index: int
    layers: int
    embedding: bool
    head: bool
    in_flight: int


def stages_of(shape: Shape, plan: Plan, habits: Habits) -> tuple[Stage, ...]:
    """The stages of a plan, first to last."""
    if plan.pp == 1:
        return (Stage(0, shape.layers, True, True, 1),)
    counts, head = _cut(shape, plan.pp, habits.stages)
    return tuple(Stage(i, n, i == 0, i == head, min(plan.ga, plan.pp - i)) for i, n in enumerate(counts))


def _cut(shape: Shape, pp: int, how: str) -> tuple[list[int], int]:
    """Layers of each stage, and the stage of the head."""
    if how == "cost":
        return _by_cost(shape, pp)
    extra = 2 if how == "ends" and shape.layers + 2 >= 2 * pp else 0  # each end counts as a layer
    whole = shape.layers + extra
    counts = [whole // pp + (i < whole % pp) for i in range(pp)]
    if extra:
        counts[0] -= 1
        counts[-1] -= 1
    return counts, pp - 1


def _by_cost(shape: Shape, pp: int) -> tuple[list[int], int]:
    """A stage ends with the block that passes its share of all weights multiplied with, output product included."""
    layer, head = shape.layer_matmul_parameters(), shape.vocab * shape.hidden
    whole = shape.layers * layer + head
    counts, stage, done = [0] * pp, 0, 0
    for _ in range(shape.layers):
        counts[stage] += 1
        done += layer
        stage += stage < pp - 1 and done * pp > whole * (stage + 1)
    return counts, stage
