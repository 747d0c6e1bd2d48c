"""What does a layer keep for backward? Bytes per token of one rank, by tensor, under none, selective and full checkpointing.

Counts the tensors that autograd saves, each storage once (Korthikanti et al. 2022 for GPT; the same by operation for Llama).
Tensor parallelism comes with sequence parallelism. Not counted: mixtures of experts, since shapes are dense.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stepscope.catalog.footprint import Habits
from stepscope.catalog.stack import Stack
from stepscope.model.plan import Plan
from stepscope.model.shape import Shape

WIDE: Final = {"fp32": 4, "tf32": 4}
NORM_EXTRA: Final = {"fused": 0.0, "half": 4.0, "composite": 6.0}
SCORE_BYTES: Final = 5  # softmax 2, dropout mask 1, dropped 2; of which softmax alone without dropout
SOFTMAX_BYTES: Final = 2
LSE_BYTES: Final = 4
STATISTIC_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Saved:
    """Bytes per token of a layer: kept from forward to backward, formed again in backward, and all that one layer's backward
    reads. `formula` in words."""

    kept: float
    again: float
    whole: float
    formula: str


def width(plan: Plan) -> int:
    """Bytes of an activation."""
    return WIDE.get(plan.precision, 2)


def layer(shape: Shape, plan: Plan, stack: Stack, habits: Habits, seq: int) -> Saved:
    """What one layer saves per token of the rank's own sequence share (before tensor parallelism)."""
    tensors = _tensors(shape, plan, stack, habits, seq)
    whole = sum(tensors.values())
    if plan.ac == "none":
        return Saved(whole, 0.0, whole, _words(tensors))
    kept = {"layer input": tensors["layer input"]}
    if plan.ac == "selective":
        kept = _selected(tensors, shape, plan, stack)
    total = sum(kept.values())
    return Saved(total, whole - min(total, whole), whole, _words(kept))


def _tensors(shape: Shape, plan: Plan, stack: Stack, habits: Habits, seq: int) -> dict[str, float]:
    w, tp = width(plan), plan.tp
    hidden = shape.hidden
    fused = stack.elementwise.mode == "compiled" and stack.framework.kind in ("fsdp1", "fsdp2", "ddp")  # repeats elementwise work
    gathered = hidden * (1 if habits.keeps_gathered else 1 / tp)
    query, key, heads = _heads(shape, tp)
    found = {"layer input": w * hidden / tp}
    found["norms"] = 2 * (
        NORM_EXTRA[habits.norm] * hidden / tp * (w == 2) + STATISTIC_BYTES * (1 if shape.norm == "rmsnorm" else 2)
    )
    found["attention input"] = 0.0 if fused else w * gathered
    repeated = habits.repeats_kv and stack.attention.kernel != "unfused"
    found["query"] = w * query
    found["key, value"] = 2 * w * (query if repeated else key)
    if stack.fused_qkv and shape.positions == "rope" and not fused:
        found["unrotated query, key"] = w * (query + key)  # the value is a view of the one product, which stays
    found["attention output"] = w * query
    if stack.attention.kernel == "unfused":
        found["scores"] = (SCORE_BYTES if habits.dropout else SOFTMAX_BYTES) * w / 2 * heads * seq
    else:
        found["log-sum-exp"] = LSE_BYTES * heads
    found["residual"] = w * hidden / tp
    found["MLP input"] = 0.0 if fused else w * gathered
    each = w * shape.ffn / tp
    gated = shape.activation == "swiglu"
    found["MLP"] = each * ((2 if gated else 1) if fused else (4 if gated else 2))
    if habits.dropout:
        found["dropout masks"] = 2 * hidden / tp
    return found


def _selected(tensors: dict[str, float], shape: Shape, plan: Plan, stack: Stack) -> dict[str, float]:
    """Attention alone dropped (Megatron), or every second product with all elementwise work (torchtitan)."""
    if stack.checkpointing.selective == "attention":
        return {name: size for name, size in tensors.items() if name != "scores"}
    w, tp = width(plan), plan.tp
    query, key, _ = _heads(shape, tp)
    outputs = [query + 2 * key] if stack.fused_qkv else [query, key, key]
    outputs += [shape.hidden / tp, *[shape.ffn / tp] * (2 if shape.activation == "swiglu" else 1), shape.hidden / tp]
    if stack.elementwise.mode == "compiled":
        outputs[-1] = 0.0  # no gradient reads the last product's output, and the compiler sees it
    kept = {"layer input": tensors["layer input"], "every second product": w * sum(outputs[::2])}
    kept |= {name: tensors[name] for name in ("attention output", "log-sum-exp") if name in tensors}
    return kept


def _heads(shape: Shape, tp: int) -> tuple[float, float, float]:
    """Width of this rank's queries and keys, and its heads; where there are fewer KV heads than ranks, each keeps one."""
    return shape.heads * shape.head_dim / tp, max(shape.kv_heads / tp, 1) * shape.head_dim, shape.heads / tp


def _words(tensors: dict[str, float]) -> str:
    return " + ".join(f"{name} {size:,.0f}" for name, size in tensors.items() if size)
