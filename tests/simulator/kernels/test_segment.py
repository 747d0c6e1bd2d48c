"""Sums over kernels for many ranks at once are exactly those of each rank alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.catalog.gpu import load_gpu
from stepscope.catalog.model import load_model
from stepscope.catalog.stack import load_stack
from stepscope.simulator.kernels.compute import StepKernels, step_kernels

SHAPE = load_model("llama3-8b").shape
assert SHAPE is not None


def made(**changes: object) -> StepKernels:
    assert SHAPE is not None
    words: dict[str, object] = {
        "micro_batch": 1,
        "seq": 8192,
        "gpu": load_gpu("h100-sxm"),
        "stack": load_stack(),
        "parameters": 10**9,
    }
    return step_kernels(SHAPE, **(words | changes))  # type: ignore[arg-type]


KERNELS = made()
FRACTIONS = st.lists(st.sampled_from((1.0, 0.9, 0.5, 0.3)), min_size=1, max_size=9)


@given(FRACTIONS)
@settings(max_examples=30)
def test_ranks_together_and_one_by_one(clocks: list[float]) -> None:
    segment = KERNELS.layer_backward
    together = segment.total_ns(np.array(clocks))

    assert together.shape == (len(clocks),)
    assert together == pytest.approx([float(segment.total_ns(clock)) for clock in clocks])
    assert segment.ns(np.array(clocks)).shape == (len(clocks), len(segment.op))


@given(st.floats(0.2, 1), st.floats(0.2, 1), st.floats(0.2, 1))
@settings(max_examples=30)
def test_slower_is_never_faster(clock: float, slower: float, hbm: float) -> None:
    for segment in (KERNELS.layer_forward, KERNELS.layer_backward, KERNELS.head_forward, KERNELS.optimizer):
        assert segment.total_ns(clock * slower, hbm) >= segment.total_ns(clock, hbm)
        assert segment.total_ns(clock, hbm * slower) >= segment.total_ns(clock, hbm)


@given(st.integers(1, 8), st.sampled_from((512, 1024, 4096, 8192)), st.sampled_from(("none", "selective", "full")))
@settings(max_examples=20, deadline=None)
def test_more_tokens_never_take_less(micro_batch: int, seq: int, ac: str) -> None:
    base = made(micro_batch=micro_batch, seq=seq, ac=ac).micro_batch_ns(32)

    assert made(micro_batch=micro_batch + 1, seq=seq, ac=ac).micro_batch_ns(32) >= base
    assert made(micro_batch=micro_batch, seq=2 * seq, ac=ac).micro_batch_ns(32) >= base


def test_attention_grows_with_the_square_of_the_sequence() -> None:
    one, four = made(seq=2048).layer_forward, made(seq=8192).layer_forward

    assert four.part(["attention"]) == pytest.approx(16 * one.part(["attention"]), rel=0.02)
    assert made(micro_batch=4, seq=2048).layer_forward.part(["attention"]) == pytest.approx(4 * one.part(["attention"]), rel=0.02)


def test_parts_add_up() -> None:
    segment = made(ac="full").layer_backward
    kinds = set(segment.kind)

    assert segment.part(kinds) == pytest.approx(float(segment.total_ns()))
    assert segment.part(kinds, recompute=True) + segment.part(kinds, recompute=False) == pytest.approx(float(segment.total_ns()))
