"""How many FLOPs does a token cost to train, by the conventions that people quote MFU in?

Forward and backward, what is recomputed excluded. They differ in attention (all pairs, or the causal half) and in whether the
token table counts; two figures of one run can be 1.36x apart at 32k tokens.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from stepscope.model.shape import Shape

Convention = Literal["palm", "torchtitan", "megatron", "llm-foundry"]
CONVENTIONS: Final[tuple[Convention, ...]] = ("palm", "torchtitan", "megatron", "llm-foundry")


def attention_flops(shape: Shape, seq: int, causal: bool) -> int:
    """Of a token, all layers, forward and backward: 12 L a d s, half of it under the causal mask."""
    whole = 12 * shape.layers * shape.heads * shape.head_dim * seq
    return whole // 2 if causal else whole


def model_flops(shape: Shape, seq: int, convention: Convention) -> int:
    """Of a token in a sequence of that length.

    palm: 6 N without the token tables, all pairs (appendix B of arXiv 2204.02311). torchtitan: 6 (N - token table), all pairs.
    megatron: its products and logits, causal pairs. llm-foundry: 6 N with the tables, all pairs.
    """
    if convention == "megatron":
        return 6 * shape.matmul_parameters() + attention_flops(shape, seq, causal=True)
    counted = shape.parameters(seq)
    if convention == "palm":
        counted -= shape.embedding_parameters(seq)
    elif convention == "torchtitan":
        counted -= shape.vocab * shape.hidden
    return 6 * counted + attention_flops(shape, seq, causal=False)


class FlopsPerToken(msgspec.Struct, frozen=True, kw_only=True):
    """What a run keeps of its model, so that any convention can be applied later; numbers of one token, forward and backward.

    `products` are those of all matrices with the logits, `attention` of all pairs (causal: half of it), `parameters` all of them,
    of which `tables` are token and position tables and `token_table` the first of the two. `repeated` is the share of a forward
    that activation checkpointing runs again. `peak` is the GPU's dense peak for the precision, FLOP/s, None if unknown.
    """

    products: int
    attention: int
    parameters: int
    tables: int
    token_table: int
    repeated: float
    peak: float | None

    def model_flops(self, convention: Convention) -> int:
        """Without what is repeated."""
        if convention == "megatron":
            return self.products + self.attention // 2
        counted = self.parameters
        if convention == "palm":
            counted -= self.tables
        elif convention == "torchtitan":
            counted -= self.token_table
        return 6 * counted + self.attention

    def hardware_flops(self, convention: Convention) -> float:
        """With what is repeated: a forward is a third of the whole. What flash attention's backward repeats is not counted."""
        return self.model_flops(convention) * (1 + self.repeated / 3)


REPEATED: Final = {"none": 0.0, "selective": 0.5, "full": 1.0}
"""Share of a forward that checkpointing runs again: selective drops every second product (torchtitan's per-op rule)."""


def flops_per_token(shape: Shape, seq: int, checkpointing: str, peak: float | None) -> FlopsPerToken:
    """The components of a model trained on sequences of that length."""
    return FlopsPerToken(
        products=6 * shape.matmul_parameters(),
        attention=attention_flops(shape, seq, causal=False),
        parameters=shape.parameters(seq),
        tables=shape.embedding_parameters(seq),
        token_table=shape.vocab * shape.hidden,
        repeated=REPEATED[checkpointing],
        peak=peak,
    )
