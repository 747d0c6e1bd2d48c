"""Stacks and efficiencies of the catalog: each complete, sourced and sensible; a user's own by path."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stepscope.catalog.document import shipped
from stepscope.catalog.efficiency import ANY, efficiencies, efficiency_of
from stepscope.catalog.gpu import Dtype, gpu_names, load_gpu
from stepscope.catalog.stack import DEFAULT_STACK, load_stack, stack_names
from stepscope.model.errors import BadInput, UsageMistake

KINDS = ("published:", "measured:", "derived:", "assumed:")
TABLES = ("framework", "attention", "elementwise", "loss", "optimizer", "checkpointing", "host", "overlap", "fp8")


@pytest.mark.parametrize("name", stack_names())
def test_a_stack_is_named_like_its_file_and_says_where_its_numbers_come_from(name: str) -> None:
    stack = load_stack(name)

    assert stack.name == name
    assert all(getattr(stack, table).source.startswith(KINDS) for table in TABLES)


@pytest.mark.parametrize("name", stack_names())
def test_scores_are_moved_only_where_attention_writes_them(name: str) -> None:
    attention = load_stack(name).attention

    assert (attention.forward_score_bytes > 0) == (attention.kernel == "unfused")


def test_the_default_is_there() -> None:
    assert load_stack().name == DEFAULT_STACK


def test_an_unknown_stack_names_the_nearest() -> None:
    with pytest.raises(UsageMistake, match="torchtitn: no such stack; did you mean torchtitan"):
        load_stack("torchtitn")


def test_a_users_own_stack(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(shipped("stacks/torch-eager.toml").replace('name = "torch-eager"', 'name = "mine"'))

    assert load_stack(path).name == "mine"


def test_a_misspelt_key_of_a_users_stack_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(shipped("stacks/torch-eager.toml").replace("launch_us", "lanch_us"))

    with pytest.raises(BadInput, match=r"host\.lanch_us: no such key; rename it to launch_us"):
        load_stack(path)


@pytest.mark.parametrize("name", efficiencies())
def test_efficiencies_cover_every_precision_and_kernel(name: str) -> None:
    table = efficiencies()[name]

    assert set(table.gemm) == {"bf16", "fp16", "tf32", "fp32", "fp8", "fp8-rowwise"}
    assert set(table.attention) == {"unfused", "triton-flash", "flash2", "flash3", "sdpa", "cudnn"}
    assert table.source.startswith(KINDS)
    assert table.gemm["fp8-rowwise"] < table.gemm["fp8"]


@pytest.mark.parametrize("name", gpu_names())
def test_every_gpu_has_one(name: str) -> None:
    assert efficiency_of(load_gpu(name)) in efficiencies().values()


def test_a_gpu_that_nobody_calibrated_gets_its_architectures() -> None:
    known = load_gpu("h100-sxm")

    assert efficiency_of(msgspec.structs.replace(known, name="h100-mine")) == efficiencies()["sm_90"]
    assert efficiency_of(msgspec.structs.replace(known, name="x", arch="sm_999")) == efficiencies()[ANY]


MEASURED = [(g, d) for g in gpu_names() for d in ("bf16", "fp8") if load_gpu(g).matmul_flops(d)]  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "dtype"), MEASURED)
def test_no_product_is_faster_than_the_best_that_was_measured(name: str, dtype: Dtype) -> None:
    gpu = load_gpu(name)
    best, peak = gpu.matmul_flops(dtype), gpu.peak_flops(dtype)

    assert best is not None
    assert peak is not None
    assert efficiency_of(gpu).gemm[dtype] * peak < best
