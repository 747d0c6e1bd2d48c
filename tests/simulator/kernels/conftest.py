"""A GPU, a stack and shapes that one can calculate with in the head."""

from __future__ import annotations

import msgspec
import pytest

from stepscope.catalog.efficiency import Efficiency
from stepscope.catalog.gpu import Gpu, load_gpu
from stepscope.catalog.model import load_model
from stepscope.catalog.stack import Stack, load_stack
from stepscope.model.shape import Shape


@pytest.fixture
def gpu() -> Gpu:
    """H100."""
    return load_gpu("h100-sxm")


@pytest.fixture
def stack() -> Stack:
    """The default stack, every factor 1."""
    base = load_stack()
    return msgspec.structs.replace(base, elementwise=msgspec.structs.replace(base.elementwise, factor=1.0))


@pytest.fixture
def plain() -> Efficiency:
    """Every share 1, nothing lost on tiles' depth, no time between kernels."""
    precisions = ("bf16", "fp16", "tf32", "fp32", "fp8", "fp8-rowwise")
    kernels = ("unfused", "triton-flash", "flash2", "flash3", "sdpa", "cudnn")
    return Efficiency(
        gemm=dict.fromkeys(precisions, 1.0),
        attention=dict.fromkeys(kernels, 1.0),
        attention_backward=1.0,
        memory=1.0,
        ramp_k=0,
        kernel_ns=0,
        gap_ns=0,
        tile=(128, 256),
    )


@pytest.fixture
def llama() -> Shape:
    """Llama 3 8B."""
    shape = load_model("llama3-8b").shape
    assert shape is not None
    return shape


@pytest.fixture
def gpt() -> Shape:
    """MPT 1B."""
    shape = load_model("mpt-1b").shape
    assert shape is not None
    return shape
