"""One stage of one plan with everything its terms depend on, worked out once."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.catalog.footprint import Footprint, Habits, Logit, footprint
from stepscope.catalog.gpu import Gpu
from stepscope.catalog.recipe import Recipe
from stepscope.catalog.stack import Stack
from stepscope.model.plan import Plan
from stepscope.model.shape import Shape
from stepscope.model.workload import Workload
from stepscope.planner import activations
from stepscope.planner.activations import Saved
from stepscope.planner.stage import Stage, stages_of
from stepscope.planner.states import Spread, recipe_name, recipe_of, spread_of
from stepscope.planner.units import Pieces, pieces_of

REDUCED = {"fp32": 4, "bf16": 2}


@dataclass(frozen=True)
class Setting:
    """A stage. `tokens` of one micro-batch on a rank before tensor parallelism cuts them; `gathered` bytes of a parameter that is
    gathered, 0 where none is; `reduced` those of a gradient when it is reduced."""

    workload: Workload
    gpu: Gpu
    stack: Stack
    habits: Habits
    recipe: Recipe
    recipe_name: str
    loss: str
    stage: Stage
    pieces: Pieces
    spread: Spread
    saved: Saved
    costs: Footprint
    expandable: bool = False

    @property
    def plan(self) -> Plan:
        return self.workload.plan

    @property
    def shape(self) -> Shape:
        return self.workload.shape

    @property
    def tokens(self) -> int:
        return self.plan.mbs * self.workload.seq // self.plan.cp

    @property
    def width(self) -> int:
        """Bytes of an activation."""
        return activations.width(self.plan)

    @property
    def gathered(self) -> int:
        sharded = self.plan.sharded or self.spread.shards > 1 or (self.recipe.gathered and self.spread.data > 1)
        mixed = self.recipe.weights.bytes > self.width  # a cast copy is made even where one rank holds everything
        return self.width if sharded or (mixed and self.plan.strategy in ("fsdp", "hsdp")) else 0

    @property
    def reduced(self) -> int:
        return REDUCED[self.plan.reduce]

    @property
    def logit(self) -> Logit:
        """Bytes per logit of the loss head."""
        return self.costs.logit(self.loss)

    @property
    def unreduced(self) -> bool:
        """Whether gradients of earlier micro-batches lie whole on every rank."""
        return bool(self.gathered) and self.plan.ga > 1 and self.plan.sync == "last"


@dataclass(frozen=True, slots=True)
class Choice:
    """What a user may set beside plan and stack; None: as the plan and the stack imply."""

    recipe: str | None = None
    loss: str | None = None
    expandable: bool = False


def settings_of(workload: Workload, gpu: Gpu, stack: Stack, choice: Choice) -> list[Setting]:
    """One setting per pipeline stage."""
    costs, plan, shape = footprint(), workload.plan, workload.shape
    habits = costs.habits_of(stack.name)
    name = recipe_name(plan, stack, choice.recipe)
    loss = choice.loss or loss_of(stack, plan)
    costs.logit(loss)
    saved = activations.layer(shape, plan, stack, habits, workload.seq)
    return [
        Setting(
            workload=workload,
            gpu=gpu,
            stack=stack,
            habits=habits,
            recipe=recipe_of(plan, name),
            recipe_name=name,
            loss=loss,
            stage=stage,
            pieces=pieces_of(shape, plan, stage, habits, shape.context),
            spread=spread_of(plan),
            saved=saved,
            costs=costs,
            expandable=choice.expandable,
        )
        for stage in stages_of(shape, plan, habits)
    ]


def loss_of(stack: Stack, plan: Plan) -> str:
    """The loss head that the software runs: by its habits, or as its file says where no habits are known."""
    habits = footprint().habits
    if stack.loss.head == "chunked":
        return "chunked"
    if stack.name in habits:
        known = habits[stack.name]
        return known.loss_tp if plan.tp > 1 else known.loss
    return "compiled" if stack.loss.head == "fused" else habits["any"].loss_tp if plan.tp > 1 else habits["any"].loss
