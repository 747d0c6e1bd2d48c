"""Which models does the catalog know: their shapes with a source, and what their authors say of the number of parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from stepscope.catalog import document
from stepscope.catalog.bounds import Name, Text
from stepscope.catalog.document import Sourced
from stepscope.model.errors import BadInput
from stepscope.model.shape import Shape


class Published(Sourced, frozen=True, kw_only=True):
    """How many parameters the authors say it has (at the file's context)."""

    count: Annotated[int, Meta(ge=1, le=10**14)]


class Model(Sourced, frozen=True, kw_only=True):
    """A model: with shapes, or only a number of parameters where nothing more is known (or wanted)."""

    name: Name
    title: Text
    family: Name
    published: Published | None = None
    shape: Shape | None = None

    @property
    def parameters(self) -> int:
        """From the shapes where there are any, else as published."""
        if self.shape is not None:
            return self.shape.parameters()
        return 0 if self.published is None else self.published.count


def model_names() -> tuple[str, ...]:
    """Models of the catalog, sorted."""
    return document.names("models")


def load_model(wanted: str | Path) -> Model:
    """A model by name, or from a user's TOML file by path. UsageMistake for an unknown name, BadInput for a bad file."""
    where, model = document.load(wanted, "models", "model", Model)
    if model.shape is None:
        if model.published is None:
            raise BadInput(f"{where}: neither shape nor published; give the shapes, or published.count")
        return model
    wrong = _contradiction(model.shape)
    if wrong:
        raise BadInput(f"{where}: shape.{wrong}")
    return model


def _contradiction(shape: Shape) -> str | None:
    if shape.heads % shape.kv_heads:
        return f"kv_heads: {shape.heads} heads do not divide among {shape.kv_heads}; give a divisor of heads"
    if shape.head_dim_given is None and shape.hidden % shape.heads:
        return f"heads: {shape.hidden} is not a multiple of {shape.heads}; mend hidden or heads, or give head_dim_given"
    kind = "mha" if shape.kv_heads == shape.heads else "mqa" if shape.kv_heads == 1 else "gqa"
    if shape.attention != kind:
        return f"attention: {shape.kv_heads} KV heads for {shape.heads} heads are {kind}, not {shape.attention}; mend one of them"
    return None
