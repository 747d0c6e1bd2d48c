"""Which shapes does a dense transformer have, and how many parameters follow from them? Exact, biases and norms included.

Not described: mixtures of experts, and how a framework pads or splits weights.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=1, le=1_000_000)]


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    source: str = "not given"

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
