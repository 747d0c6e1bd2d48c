"""What is alive when? The live tensors of one stage at each moment of a step at which memory may peak, as terms. Bytes.

the loss                     all activations kept, the logits and their gradients
backward of the last layer   all activations, one layer's backward, its unit, the next one gathered, the head's gradients reduced
backward of the layer before the same with a unit less of activations, while the gradients of a whole unit are reduced
backward of the first layer  one layer's activations, all sharded gradients, its unit, embedding and whatever shares its unit
the optimizer step           all states, temporaries of the update
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepscope.model.memory import Term
from stepscope.planner.setting import Setting
from stepscope.planner.states import exact, state

LOSS: Final = "the loss"
LAST: Final = "backward of the last layer"
BEFORE: Final = "backward of the layer before the last"
FIRST: Final = "backward of the first layer"
UPDATE: Final = "the optimizer step"
RESTING: Final = "between steps"


def moments_of(s: Setting) -> dict[str, list[Term]]:
    """Terms by moment; the moment of the loss only where the head lies on this stage."""
    names = [LAST, FIRST, UPDATE]
    if s.gathered and s.stage.layers > s.pieces.unit_layers:
        names.insert(1, BEFORE)
    if s.stage.head:
        names.insert(0, LOSS)
    return {name: _terms(s, name) for name in names}


def resting(s: Setting) -> list[Term]:
    """Live between steps: states, and buffers that are never given back."""
    return [*_states(s, RESTING), *_kept_buffers(s), *_staging(s)]


def unit_at(s: Setting, moment: str) -> str | None:
    """The largest unit at work at that moment."""
    if moment == LOSS:
        return "root (embedding, last norm, output)" if s.pieces.root else "output"
    if moment == FIRST and s.pieces.root:
        return "root (embedding, last norm, output)"
    if moment in (LAST, BEFORE, FIRST):
        last = {LAST: s.stage.layers - 1, BEFORE: max(s.stage.layers - 2, 0), FIRST: 0}[moment]
        return f"layer {last} of stage {s.stage.index}" if s.plan.pp > 1 else f"layer {last}"
    return None


def _terms(s: Setting, moment: str) -> list[Term]:
    found = [*_states(s, moment), *_kept_buffers(s), *_workspace(s)]
    if moment == UPDATE:
        return [*found, *_staging(s), *_temporaries(s)]
    found += [*_copies(s), *_activations(s, moment)]
    if moment == LOSS:
        found += _head(s)
    else:
        found += _layer_backward(s)
    return [*found, *(_units(s, moment) if s.gathered else ())]


def _states(s: Setting, moment: str) -> Iterator[Term]:
    recipe, many = s.recipe, s.pieces.parameters
    held = [
        state("weights", recipe.weights, many, s.spread),
        state("gradients", recipe.gradients, _with_gradients(s, moment), s.spread),
        state("moments", recipe.moments, many, s.spread),
        state("master weights", recipe.master, many, s.spread),
    ]
    yield from (term for term in held if term is not None)
    if s.unreduced and moment != RESTING:
        words = f"{s.reduced} B x {many:,} parameters, whole until the last micro-batch"
        yield exact("accumulated gradients", s.reduced * many, words)


def _with_gradients(s: Setting, moment: str) -> int:
    """Parameters whose reduced (or only) gradients exist then; frameworks with buffers of their own never give them back."""
    many = s.pieces.parameters
    accumulated = s.plan.ga > 1 and not s.unreduced
    buffers = s.recipe.gradients.over == "none" and (s.recipe.bucket_bytes or s.stack.framework.kind in ("megatron", "zero1"))
    if buffers or moment in (FIRST, UPDATE) or (accumulated and moment in (LOSS, LAST, BEFORE)):
        return many
    return {LAST: s.pieces.head, BEFORE: s.pieces.head + s.pieces.unit}.get(moment, 0)


def _kept_buffers(s: Setting) -> Iterator[Term]:
    """Buffers that live as long as the job."""
    recipe, many = s.recipe, s.pieces.parameters
    if recipe.bucket_bytes and s.spread.data > 1:
        yield exact("DDP buckets", recipe.bucket_bytes * many, f"{recipe.bucket_bytes:g} B x {many:,} parameters")
    if s.habits.gather_buffer and s.plan.tp > 1:
        elements = s.tokens * s.shape.hidden
        yield exact("tensor-parallel buffers", 2 * s.width * elements, f"2 buffers x {s.width} B x {elements:,} elements")


def _staging(s: Setting) -> Iterator[Term]:
    """Updated weights as they were gathered, from the update to the next forward."""
    recipe, many = s.recipe, s.pieces.parameters
    if recipe.staging_bytes:
        each = recipe.staging_bytes + recipe.staging_sharded_bytes / s.spread.data
        words = f"({recipe.staging_bytes:g} + {recipe.staging_sharded_bytes:g} / {s.spread.data}) B x {many:,} parameters"
        yield exact("gathered weights", each * many, words)


def _workspace(s: Setting) -> Iterator[Term]:
    table = s.costs.workspace
    hopper = s.gpu.arch in ("sm_90", "sm_100", "sm_103")
    size = table.hopper_bytes if hopper else table.other_bytes
    yield Term(term="workspaces", bytes=size, low=size // 2, high=2 * size, formula=f"cuBLAS and cuBLASLt on {s.gpu.arch}")


def _copies(s: Setting) -> Iterator[Term]:
    if s.recipe.autocast_bytes:
        many = s.pieces.layers + s.pieces.head
        yield exact(
            "autocast copies", s.recipe.autocast_bytes * many, f"{s.recipe.autocast_bytes:g} B x {many:,} weights, until backward"
        )


def _activations(s: Setting, moment: str) -> Iterator[Term]:
    stage = s.stage
    batches = stage.in_flight - (moment == FIRST)
    per = s.tokens * s.saved.kept
    size = per * stage.layers * batches
    words = f"{s.tokens:,} tokens x {stage.layers} layers x {s.saved.kept:,.0f} B"
    if stage.in_flight > 1:
        words += f" x {batches} micro-batches"
    if moment == BEFORE:
        size -= per * s.pieces.unit_layers
        words += " less one unit"
    if moment == FIRST:
        size += per * max(s.pieces.unit_layers, 1)
        words += " of later micro-batches, and one unit" if batches else ""
        words = words if batches else f"{s.tokens:,} tokens x {s.saved.kept:,.0f} B of the unit that is left"
    yield _ranged(s, "activations", size, f"{words} ({s.saved.formula})")


def _layer_backward(s: Setting) -> Iterator[Term]:
    """What backward of one layer forms again, and the gradients in flight."""
    many = _formed_again(s)
    if s.saved.again:
        yield _ranged(
            s, "recomputed layer", s.tokens * s.saved.again * many, f"{s.tokens:,} tokens x {s.saved.again:,.0f} B formed again"
        )
    alive = s.costs.gradient_tensors.mlp
    per = alive * s.width * s.shape.ffn / s.plan.tp + s.width * s.shape.hidden / s.plan.tp
    yield _ranged(s, "gradients in flight", s.tokens * per, f"{s.tokens:,} tokens x ({alive} of the MLP, 1 of the hidden width)")


def _head(s: Setting) -> Iterator[Term]:
    logit, tp = s.logit, s.plan.tp
    logits = s.tokens * -(-s.shape.vocab // tp)
    scale = s.width / 2 if s.width > 2 else 1  # fp32 logits take their place once more, not a factor on everything
    each = logit.bytes if scale == 1 else max(logit.bytes, 3 * s.width)
    yield Term(
        term="loss head",
        bytes=round(each * logits),
        low=round(min(logit.low, each) * logits),
        high=round(max(logit.high, each) * logits),
        formula=f"{each:g} B ({s.loss}) x {logits:,} logits",
    )
    from stepscope.planner.activations import NORM_EXTRA

    wide = s.shape.hidden * s.tokens
    whole = 1 if s.habits.keeps_gathered else 1 / tp
    per = (s.width + NORM_EXTRA[s.habits.norm]) / tp + s.width * whole
    yield _ranged(s, "last norm", wide * per, f"{s.tokens:,} tokens x {s.shape.hidden:,} x {per:.3g} B")


def _units(s: Setting, moment: str) -> Iterator[Term]:
    """What a sharding framework gathers, and the gradients that are not reduced yet."""
    p, g, r = s.pieces, s.gathered, s.reduced
    ends = p.embedding + p.head if p.root else p.head
    whole = not s.plan.reshard
    kept = p.parameters if whole else 0
    if moment == LOSS:
        now = p.parameters if whole else ends
        yield exact(
            "unsharded units",
            g * now,
            f"{g} B x {now:,} parameters ({'all kept' if whole else 'output and what shares its unit'})",
        )
        if s.plan.reshard > 1:
            yield from _resharded(s)
        return
    root = p.embedding + p.head if p.root else 0
    end = root if p.root else p.embedding
    if whole:
        yield exact("unsharded units", g * kept, f"{g} B x {kept:,} parameters, all kept")
    else:
        yield exact("unsharded units", g * p.unit, f"{g} B x {p.unit:,} parameters of the unit at work")
        if root:
            yield exact("root unit", g * root, f"{g} B x {root:,} parameters, held from forward to the end of backward")
        if moment in (LAST, BEFORE) and s.stage.layers > p.unit_layers and s.plan.prefetch:
            ahead = max(s.plan.prefetch, 1)
            yield exact("prefetched units", g * p.unit * ahead, f"{g} B x {p.unit:,} parameters x {ahead}")
        elif moment == FIRST and end and not root:
            yield exact("prefetched units", g * end, f"{g} B x {end:,} parameters of the embedding")
        if s.plan.reshard > 1:
            yield from _resharded(s)
    fresh = max(p.unit, end) if moment == FIRST else p.unit
    freed = 0 if moment == FIRST else _freed(s, moment)
    words = f"{g} B x {fresh:,} parameters of the unit at work"
    words += ", beyond the activations that they take the place of" if freed else ""
    yield exact("unsharded gradients", max(g * fresh - freed, 0), words)
    if s.spread.shards > 1:
        before = {LAST: 0 if p.root else p.head, BEFORE: p.unit}.get(moment, max(p.unit, end))
        yield exact("reduce-scatter input", r * before, f"{r} B x {before:,} parameters of the unit before")


def _freed(s: Setting, moment: str) -> int:
    """Activations of one unit, which go while its gradients come."""
    many = s.pieces.unit_layers
    left = s.stage.layers - (many if moment == BEFORE else 0)
    return round(s.tokens * (s.saved.kept * min(many, left) + s.saved.again * _formed_again(s)))


def _formed_again(s: Setting) -> float:
    """Layers whose activations backward forms at once."""
    return max(s.pieces.unit_layers, 1) if s.plan.ac == "full" else 1


def _resharded(s: Setting) -> Iterator[Term]:
    many = s.pieces.layers
    yield exact("resharded weights", s.gathered * many / s.plan.reshard, f"{s.gathered} B x {many:,} / {s.plan.reshard} ranks")


def _temporaries(s: Setting) -> Iterator[Term]:
    """Of the update: a tensor as large as the weights with foreach, one tensor in a loop, none fused."""
    how = s.stack.optimizer.implementation
    held = s.recipe.master or s.recipe.weights
    many = -(-s.pieces.parameters // s.spread.of(held))
    if how == "fused":
        return
    if how == "for-loop":
        shape = s.shape
        many = min(many, max(shape.vocab * shape.hidden, shape.hidden * shape.ffn) // s.plan.tp // s.spread.of(held))
    yield exact("optimizer temporaries", held.bytes * many, f"{held.bytes:g} B x {many:,} parameters ({how})")


def _ranged(s: Setting, term: str, size: float, formula: str) -> Term:
    spread = s.costs.spread
    return Term(term=term, bytes=round(size), low=round(size * spread.low), high=round(size * spread.high), formula=formula)
