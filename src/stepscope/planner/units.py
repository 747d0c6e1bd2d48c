"""Which pieces of a model are gathered and reduced together, on one stage? Parameters are numbers of one tensor-parallel rank."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.catalog.footprint import Habits
from stepscope.model.plan import Plan
from stepscope.model.shape import Shape
from stepscope.planner.stage import Stage


@dataclass(frozen=True, slots=True)
class Pieces:
    """Parameters of a stage: of the largest unit of layers, of all its layers, of embedding and head. `root`: embedding and head
    (with the last norm) are one unit, since they share a table or nothing wraps them apart."""

    unit: int
    unit_layers: float
    layers: int
    embedding: int
    head: int
    root: bool

    @property
    def parameters(self) -> int:
        """All of them, each once."""
        return self.layers + self.embedding + self.head


def pieces_of(shape: Shape, plan: Plan, stage: Stage, habits: Habits, context: int) -> Pieces:
    """The pieces of a stage. A table that both ends share counts once on one stage, twice on two."""
    one = -(-shape.layer_parameters() // plan.tp)
    if plan.split > 1:
        unit, many = one // plan.split, 1 / plan.split
    else:
        many = min(plan.layers_per_unit, stage.layers)
        unit = one * int(many)
    table = shape.vocab * shape.hidden
    embedding = shape.embedding_parameters(context) if stage.embedding else 0
    head = shape.norm_parameters() if stage.head else 0
    if stage.head and (not shape.tied_embeddings or not stage.embedding):
        head += table
    both = stage.embedding and stage.head
    return Pieces(
        unit=unit,
        unit_layers=many,
        layers=one * stage.layers,
        embedding=-(-embedding // plan.tp),
        head=-(-head // plan.tp),
        root=both and (shape.tied_embeddings or not habits.ends_apart),
    )
