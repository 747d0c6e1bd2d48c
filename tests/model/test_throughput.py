"""FLOPs of a token by convention, from the components that a run keeps; tokens a second, MFU, HFU, weak scaling."""

from __future__ import annotations

import pytest

from stepscope.catalog.model import load_model
from stepscope.model.flops import CONVENTIONS, flops_per_token, model_flops
from stepscope.model.shape import Shape
from stepscope.model.throughput import Throughput, weak_scaling


def shape(name: str = "llama3-8b") -> Shape:
    found = load_model(name).shape
    assert found is not None
    return found


@pytest.mark.parametrize("model", ["llama3-8b", "mpt-7b", "qwen2.5-7b"])
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_components_give_every_convention(model: str, convention: str) -> None:
    kept = flops_per_token(shape(model), 4096, "none", None)
    assert kept.model_flops(convention) == model_flops(shape(model), 4096, convention)  # type: ignore[arg-type]  # one of them


def test_conventions_of_llama3_8b_at_8192_tokens() -> None:
    """6 N of its matrices is 45.0 GFLOP, attention over all pairs 12.9 (12 x 32 x 4096 x 8192): published arithmetic."""
    kept = flops_per_token(shape(), 8192, "none", None)
    assert kept.products == pytest.approx(45.0e9, rel=0.002)
    assert kept.attention == pytest.approx(12.9e9, rel=0.002)
    assert kept.model_flops("torchtitan") / kept.model_flops("megatron") == pytest.approx(1.13, abs=0.005)


def test_full_checkpointing_is_four_thirds() -> None:
    kept = flops_per_token(shape("mpt-7b"), 2048, "full", None)
    assert kept.hardware_flops("llm-foundry") == pytest.approx(kept.model_flops("llm-foundry") * 4 / 3)


def test_tokens_a_second_and_what_is_filled() -> None:
    found = Throughput(ranks=8, step_ns=5e8, slots=65_536, nonpad=49_152)
    assert found.tokens_per_s == 131_072
    assert found.tokens_per_s_per_gpu == 16_384
    assert found.filled == 0.75
    assert Throughput(ranks=8, step_ns=5e8).tokens_per_s is None


def test_weak_scaling_is_the_larger_job_against_the_smaller() -> None:
    small = Throughput(ranks=8, step_ns=1e9, slots=8_000)
    large = Throughput(ranks=64, step_ns=1e9, slots=57_600)
    assert weak_scaling(small, large) == weak_scaling(large, small) == pytest.approx(0.9)
    assert weak_scaling(small, small) is None
    assert weak_scaling(small, Throughput(ranks=64, step_ns=1e9)) is None
