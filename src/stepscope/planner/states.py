"""What do weights, gradients, moments and master weights take on one rank, and over how many is each spread? Bytes, exact."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.catalog.recipe import Held, Recipe, load_recipe
from stepscope.catalog.stack import Stack
from stepscope.model.memory import Term
from stepscope.model.plan import Plan

OPTIMIZERS = {"adam8bit": "adam8bit", "sgd": "sgd"}


@dataclass(frozen=True, slots=True)
class Spread:
    """Over how many ranks states lie: `shards` of FSDP, `data` ranks in all; context-parallel ranks count for both."""

    shards: int
    data: int

    def of(self, held: Held) -> int:
        """Ranks that one state is spread over."""
        return {"none": 1, "shards": self.shards, "data": self.data}[held.over]


def spread_of(plan: Plan) -> Spread:
    """How a plan spreads states."""
    shards = plan.shard * plan.cp if plan.strategy in ("fsdp", "hsdp") else 1
    return Spread(shards, plan.data_ranks * plan.cp)


def recipe_name(plan: Plan, stack: Stack, wanted: str | None) -> str:
    """The recipe that is asked for, else the one that strategy and software imply."""
    if wanted is not None:
        load_recipe(wanted)
        return wanted
    if plan.strategy in ("fsdp", "hsdp"):
        return OPTIMIZERS.get(plan.optimizer, "fsdp2-mixed")
    if stack.name == "nanotron":
        return "nanotron-zero1" if plan.strategy == "zero1" and plan.data_ranks > 1 else "nanotron-ddp"
    if stack.framework.kind == "megatron":
        return "megatron-distopt" if plan.strategy == "zero1" else "megatron"
    return "zero1" if plan.strategy == "zero1" else "ddp-autocast"


def recipe_of(plan: Plan, name: str) -> Recipe:
    """The recipe for a plan: with its optimizer's moments where it is not AdamW, without 16-bit copies in fp32."""
    from msgspec.structs import replace

    recipe = load_recipe(name)
    if plan.optimizer in OPTIMIZERS and name not in OPTIMIZERS.values():
        small = load_recipe(OPTIMIZERS[plan.optimizer]).moments
        recipe = replace(recipe, moments=replace(recipe.moments, bytes=small.bytes, dtype=small.dtype))
    return replace(recipe, autocast_bytes=0) if plan.precision in ("fp32", "tf32") else recipe


def state(term: str, held: Held | None, parameters: int, spread: Spread) -> Term | None:
    """One state as a term, exact; None where the recipe has none."""
    if held is None or not parameters:
        return None
    ranks = spread.of(held)
    each = -(-parameters // ranks)
    size = round(each * held.bytes)
    over = f" / {ranks} ranks" if ranks > 1 else ""
    return exact(term, size, f"{held.bytes:g} B ({held.dtype}) x {parameters:,} parameters{over}")


def exact(term: str, size: float, formula: str) -> Term:
    """A term without a range."""
    whole = round(size)
    return Term(term=term, bytes=whole, low=whole, high=whole, formula=formula)
