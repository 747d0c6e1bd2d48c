"""What takes memory besides the states, and what do programs keep? Constants with their sources, and habits by stack.

Bytes, bytes per logit or element, and shares. Habits are of software: which tensors it saves and how it wraps and cuts a model.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from msgspec import Meta

from stepscope.catalog import document
from stepscope.catalog.bounds import Bytes
from stepscope.catalog.document import Sourced
from stepscope.model.errors import UsageMistake

Share = Annotated[float, Meta(ge=0, le=2)]
PerLogit = Annotated[float, Meta(ge=0, le=64)]
Norm = Literal["fused", "half", "composite"]


class Context(Sourced, frozen=True, kw_only=True):
    """The driver's own: the context and the kernels that are loaded."""

    bytes: Bytes
    low: Bytes
    high: Bytes


class NcclMemory(Sourced, frozen=True, kw_only=True):
    """Buffers of one process group on one rank."""

    group_bytes: Bytes
    group_low: Bytes
    group_high: Bytes


class Workspace(Sourced, frozen=True, kw_only=True):
    """Of the matrix-product libraries, allocated by torch."""

    hopper_bytes: Bytes
    other_bytes: Bytes


class Allocator(Sourced, frozen=True, kw_only=True):
    """What is reserved beyond the live tensors, as a share of them: where collectives allocate on streams of their own (FSDP,
    tensor parallelism), where all lies on one stream, and with expandable_segments."""

    share: Share
    single_stream_share: Share
    low: Share
    high: Share
    expandable_share: Share


class Spread(Sourced, frozen=True, kw_only=True):
    """How far activations may lie from what is counted."""

    low: Share
    high: Share


class GradientTensors(Sourced, frozen=True, kw_only=True):
    """Gradients of an MLP's width that are alive at once."""

    mlp: Annotated[int, Meta(ge=0, le=8)]


class Logit(Sourced, frozen=True, kw_only=True):
    """Peak bytes per logit of a loss head, 16-bit logits included."""

    bytes: PerLogit
    low: PerLogit
    high: PerLogit


class Habits(Sourced, frozen=True, kw_only=True):
    """`loss` names the loss head, `loss_tp` that under tensor parallelism. `norm` half and composite keep 4 and 6 bytes an
    element beyond a fused one. `repeats_kv`: KV heads are copied out to all heads. `keeps_gathered`: what tensor parallelism
    gathers is saved whole. `ends_apart`: embedding and head are units of their own. `stages`: how a pipeline is cut."""

    loss: str
    loss_tp: str
    norm: Norm
    stages: Literal["even", "ends", "cost"]
    repeats_kv: bool = False
    keeps_gathered: bool = False
    ends_apart: bool = False
    dropout: bool = False
    gather_buffer: bool = False


class Footprint(Sourced, frozen=True, kw_only=True):
    """Everything of footprint.toml."""

    context: Context
    nccl: NcclMemory
    workspace: Workspace
    allocator: Allocator
    spread: Spread
    gradient_tensors: GradientTensors
    logits: dict[str, Logit]
    habits: dict[str, Habits]

    def habits_of(self, stack: str) -> Habits:
        """Of that stack, else what is assumed of any."""
        return self.habits.get(stack, self.habits["any"])

    def logit(self, loss: str) -> Logit:
        """That loss head. UsageMistake for an unknown one."""
        if loss not in self.logits:
            raise UsageMistake(document.unknown(loss, "loss head", tuple(self.logits)))
        return self.logits[loss]


@cache
def footprint() -> Footprint:
    """The catalog's."""
    return document.decode(document.shipped("footprint.toml"), Footprint, "footprint.toml")
