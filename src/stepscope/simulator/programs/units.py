"""Which pieces of a model are gathered, computed and reduced together? Parameters are numbers, not bytes."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.model.plan import Plan
from stepscope.model.shape import Shape

ROOT = "root"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of `layers` transformer layers (a fraction where one layer is split): its parameters on one tensor-parallel rank."""

    name: str
    parameters: int
    layers: float


@dataclass(frozen=True, slots=True)
class Units:
    """The root unit (embedding, last norm, head) and the others in the order of forward."""

    root: Unit
    layers: tuple[Unit, ...]

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.root.parameters + sum(unit.parameters for unit in self.layers)


def units_of(shape: Shape, plan: Plan) -> Units:
    """The units that a plan wraps: `layers_per_unit` layers each, or every layer in `split` pieces."""
    layer = -(-shape.layer_parameters() // plan.tp)
    root = -(-(shape.parameters() - shape.layers * shape.layer_parameters()) // plan.tp)
    found: list[Unit] = []
    if plan.split > 1:
        for i in range(shape.layers):
            found += [Unit(f"layers.{i}.{j}", layer // plan.split, 1 / plan.split) for j in range(plan.split)]
    else:
        for first in range(0, shape.layers, plan.layers_per_unit):
            many = min(plan.layers_per_unit, shape.layers - first)
            name = f"layers.{first}" if many == 1 else f"layers.{first}-{first + many - 1}"
            found.append(Unit(name, layer * many, many))
    return Units(Unit(ROOT, root, 0), tuple(found))
