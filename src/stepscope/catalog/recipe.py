"""How many bytes does a parameter's state take, in which dtype, and over which ranks is it spread? Recipes by name.

Bytes a parameter. `over` none: every rank holds all of it; shards: the ranks that FSDP shards over; data: all data ranks.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from msgspec import Meta

from stepscope.catalog import document
from stepscope.catalog.document import Sourced
from stepscope.model.errors import UsageMistake

PerParameter = Annotated[float, Meta(ge=0, le=64)]
Over = Literal["none", "shards", "data"]


class Held(Sourced, frozen=True, kw_only=True):
    """One state of a parameter."""

    bytes: PerParameter
    dtype: Literal["fp32", "bf16", "fp16", "int8"]
    over: Over


class Recipe(Sourced, frozen=True, kw_only=True):
    """Weights, gradients, moments, fp32 master weights (None: the weights are the master).

    `gathered`: units are gathered before use (also where weights lie over shards). `autocast_bytes` of 16-bit copies while a
    step runs, `bucket_bytes` of DDP's buckets where there is more than one data rank, `staging_*` left held by the gather of
    updated weights, whole and per data rank.
    """

    title: str
    weights: Held
    gradients: Held
    moments: Held
    master: Held | None = None
    gathered: bool = False
    autocast_bytes: PerParameter = 0
    bucket_bytes: PerParameter = 0
    staging_bytes: PerParameter = 0
    staging_sharded_bytes: PerParameter = 0


@cache
def recipes() -> dict[str, Recipe]:
    """All of the catalog, by name."""
    return document.decode(document.shipped("recipes.toml"), dict[str, Recipe], "recipes.toml")


def load_recipe(name: str) -> Recipe:
    """A recipe by name. UsageMistake for an unknown one, with the nearest."""
    known = recipes()
    if name not in known:
        raise UsageMistake(document.unknown(name, "recipe", tuple(known)))
    return known[name]
