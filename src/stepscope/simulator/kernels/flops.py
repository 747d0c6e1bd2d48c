"""How many FLOPs does a token cost to train, by the conventions that people quote MFU in?

Forward and backward, what is recomputed excluded. They differ in attention (all pairs, or the causal half) and in whether the
token table counts; two figures of one run can be 1.36x apart at 32k tokens.
"""

from __future__ import annotations

from typing import Final, Literal

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
