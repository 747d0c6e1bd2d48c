"""Which shapes does a model have, and how many parameters follow from them?

Counts are exact, biases and norms included. Not described: mixtures of experts, and how a framework pads or splits weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from stepscope.catalog import document
from stepscope.catalog.bounds import Count, Name, Text
from stepscope.catalog.document import Sourced
from stepscope.model.errors import BadInput


class Published(Sourced, frozen=True, kw_only=True):
    """How many parameters the authors say it has (at the file's context)."""

    count: Annotated[int, Meta(ge=1, le=10**14)]


class Shape(Sourced, frozen=True, kw_only=True):
    """A dense transformer. `ffn` is the width between the MLP's matrices, `context` the longest sequence it was trained for.

    `attention` is mha (a KV head per head), gqa (fewer) or mqa (one). `bias` adds one to every matrix and norm, `qkv_bias` to
    the query, key and value matrices alone. `positions` learned is a table of `context` rows.
    """

    layers: Count
    hidden: Count
    heads: Count
    kv_heads: Count
    ffn: Count
    vocab: Count
    context: Count
    tied_embeddings: bool
    activation: Literal["gelu", "relu", "swiglu"]
    norm: Literal["layernorm", "rmsnorm"]
    attention: Literal["mha", "gqa", "mqa"]
    positions: Literal["learned", "rope", "alibi"]
    bias: bool = False
    qkv_bias: bool = False
    head_dim_given: Annotated[int, Meta(ge=1, le=65536)] | None = None

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.head_dim_given or self.hidden // self.heads

    def layer_matmul_parameters(self) -> int:
        """Weights of the matrices of one layer: attention and MLP."""
        wide, narrow = self.heads * self.head_dim, self.kv_heads * self.head_dim
        mlp = (3 if self.activation == "swiglu" else 2) * self.hidden * self.ffn
        return self.hidden * (2 * wide + 2 * narrow) + mlp

    def layer_parameters(self) -> int:
        """All parameters of one layer, two norms included."""
        wide, narrow = self.heads * self.head_dim, self.kv_heads * self.head_dim
        qkv = wide + 2 * narrow if self.bias or self.qkv_bias else 0
        rest = (2 * self.hidden + self.ffn * (2 if self.activation == "swiglu" else 1)) if self.bias else 0
        return self.layer_matmul_parameters() + qkv + rest + 2 * self.norm_parameters()

    def norm_parameters(self) -> int:
        """Parameters of one norm."""
        return self.hidden * (2 if self.bias else 1)

    def embedding_parameters(self, context: int | None = None) -> int:
        """Token table, and the table of learned positions for that context (the file's by default)."""
        return self.vocab * self.hidden + (self.hidden * (context or self.context) if self.positions == "learned" else 0)

    def head_parameters(self) -> int:
        """The output matrix, 0 where it is the token table itself."""
        return 0 if self.tied_embeddings else self.vocab * self.hidden

    def parameters(self, context: int | None = None) -> int:
        """All of them, each once."""
        ends = self.embedding_parameters(context) + self.head_parameters() + self.norm_parameters()
        return self.layers * self.layer_parameters() + ends

    def matmul_parameters(self) -> int:
        """Weights that every token is multiplied with: the layers' matrices and the output matrix, tied or not."""
        return self.layers * self.layer_matmul_parameters() + self.vocab * self.hidden


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
