"""How does a training program use a GPU: which kernels it picks, what it fuses, and what its host thread costs?

A stack is software, kept apart from the hardware: bytes per element are of 2-byte activations (wider ones scale), times are
microseconds or ns as the names say. Not described: which units are wrapped and which collectives they need; that is the plan's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta

from stepscope.catalog import document
from stepscope.catalog.bounds import Name, Text
from stepscope.catalog.document import Sourced

DEFAULT_STACK: Final = "torch-compile"

Framework = Literal["fsdp1", "fsdp2", "ddp", "zero1", "megatron"]
AttentionKernel = Literal["unfused", "triton-flash", "flash2", "flash3", "sdpa", "cudnn"]
PerElement = Annotated[float, Meta(ge=0, le=1000)]
Ratio = Annotated[float, Meta(gt=0, le=10)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Microseconds = Annotated[float, Meta(ge=0, le=1e5)]
Calls = Annotated[int, Meta(ge=0, le=100_000)]


class FrameworkTable(Sourced, frozen=True, kw_only=True):
    """Who shards and reduces, and in which precision gradients are added up over ranks."""

    kind: Framework
    reduce: Literal["fp32", "bf16"] = "fp32"
    prefetch_forward: bool = True


class Attention(Sourced, frozen=True, kw_only=True):
    """The kernel; `score_bytes` moved per score and pass where the scores are written out (unfused), forward and backward."""

    kernel: AttentionKernel
    forward_score_bytes: PerElement = 0
    backward_score_bytes: PerElement = 0


class Elementwise(Sourced, frozen=True, kw_only=True):
    """Bytes moved per element of what a layer does between its matrix products, one pass; `factor` scales them all.

    Elements: norm and residual of the hidden width, rope of the heads it turns, activation of the MLP's width (gate included).
    """

    mode: Literal["eager", "compiled"]
    norm: tuple[PerElement, PerElement]
    residual: tuple[PerElement, PerElement]
    rope: tuple[PerElement, PerElement]
    gelu: tuple[PerElement, PerElement]
    swiglu: tuple[PerElement, PerElement]
    factor: Ratio = 1.0


class Loss(Sourced, frozen=True, kw_only=True):
    """Bytes moved per logit of the cross-entropy, forward and backward."""

    head: Literal["eager", "fused", "chunked"]
    forward_bytes: PerElement
    backward_bytes: PerElement


class Optimizer(Sourced, frozen=True, kw_only=True):
    """Bytes moved per parameter of this rank; `kernels_per_tensor` as launched."""

    implementation: Literal["for-loop", "foreach", "fused"]
    bytes_per_parameter: PerElement
    kernels_per_tensor: Annotated[float, Meta(ge=0, le=100)]
    clip_bytes_per_parameter: PerElement = 0
    accumulate_bytes_per_parameter: PerElement = 0


class Checkpointing(Sourced, frozen=True, kw_only=True):
    """What backward does again: `early_stop` ends a whole layer's repetition before its last product; `selective` names what
    is dropped (every second product with all elementwise work, or attention alone)."""

    early_stop: bool = False
    selective: Literal["alternate-products", "attention"] = "alternate-products"


class Host(Sourced, frozen=True, kw_only=True):
    """The host thread: microseconds per launched operation, and operations per layer that are no kernels of the layer (hooks)."""

    launch_us: Microseconds
    hooks_per_layer: Calls = 0
    step_us: Microseconds = 0


class Overlap(Sourced, frozen=True, kw_only=True):
    """Compute under way while a collective holds multiprocessors: `slowdown` is the share of that time by which it grows."""

    slowdown: Fraction


class Fp8(Sourced, frozen=True, kw_only=True):
    """Bytes moved per element of a product's operand to scale and cast it."""

    cast_bytes: PerElement


class Stack(Sourced, frozen=True, kw_only=True):
    """A software stack of the catalog, or of a user's file. `compute_factor` stretches all kernels and
    launches: one measured step sets it."""

    name: Name
    title: Text
    framework: FrameworkTable
    attention: Attention
    fused_qkv: bool = False
    elementwise: Elementwise
    loss: Loss
    optimizer: Optimizer
    checkpointing: Checkpointing
    host: Host
    overlap: Overlap
    fp8: Fp8
    compute_factor: Ratio = 1.0


def stack_names() -> tuple[str, ...]:
    """Stacks of the catalog, sorted."""
    return document.names("stacks")


def load_stack(wanted: str | Path = DEFAULT_STACK) -> Stack:
    """A stack by name, or from a user's TOML file by path. UsageMistake for an unknown name, BadInput for a bad file."""
    return document.load(wanted, "stacks", "stack", Stack)[1]
