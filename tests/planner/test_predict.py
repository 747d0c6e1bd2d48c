"""Memory plans: figures that were measured elsewhere, closed forms, and properties that hold for every plan."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.catalog.recipe import recipes
from stepscope.model.errors import UsageMistake
from stepscope.model.memory import GIB, MemoryPlan
from stepscope.model.shape import Shape
from stepscope.planner.setting import Choice
from tests.planner.jobs import SMALL, planned, untied

SHARDED = ("weights", "gradients", "moments", "master weights")
PARAMETERS = 8_030_261_248


def tensors(plan: MemoryPlan) -> float:
    """GiB of live tensors, without workspaces, which no CPU has."""
    return (plan.allocated_bytes - plan.bytes_of("workspaces")) / GIB


@pytest.mark.parametrize(
    ("plan", "measured", "shape"),
    [
        ("fsdp=8,seq=4096", 47.22, None),
        ("fsdp=16,seq=4096", 41.61, None),
        ("fsdp=128,seq=4096", 36.70, None),
        ("fsdp=16,seq=4096,ac=full", 14.59, None),
        ("fsdp=16,seq=4096", 26.17, untied("llama3.2-3b")),
    ],
)
def test_peaks_that_fsdp_mem_tracker_saw_on_cpu(plan: str, measured: float, shape: Shape | None) -> None:
    """Llama 3, one sequence, AdamW, fp32 shards, 16-bit compute: torch 2.13 with a fake process group."""
    found = planned(plan, shape=shape)
    assert found.peak_at == "the loss"
    assert tensors(found) == pytest.approx(measured, rel=0.015)


@pytest.mark.parametrize(("shards", "each"), [(8, 12), (64, 12)])
def test_sharded_states_are_exact(shards: int, each: int) -> None:
    found = planned(f"fsdp={shards},seq=2048")
    assert found.bytes_of("weights") + found.bytes_of("moments") == -(-PARAMETERS // shards) * each


@pytest.mark.parametrize(
    ("recipe", "plan", "stack", "bytes_per_parameter"),
    [
        ("fsdp2-mixed", "fsdp=8", "torch-eager", 16 / 8),
        ("pure-bf16", "fsdp=8", "torch-eager", 8 / 8),
        ("ddp-autocast", "ddp=8", "torch-eager", 16),
        ("megatron", "ddp=8", "megatron", 18),
        ("megatron-distopt", "zero1=8", "megatron", 6 + 12 / 8),
        ("zero1", "zero1=8", "torch-eager", 4 + 12 / 8),
        ("zero2", "zero1=8", "torch-eager", 2 + 14 / 8),
        ("zero3", "zero1=8", "torch-eager", 16 / 8),
        ("sgd", "fsdp=8", "torch-eager", 12 / 8),
        ("muon", "fsdp=8", "torch-eager", 12 / 8),
        ("adam8bit", "fsdp=8", "torch-eager", 10.0039 / 8),
    ],
)
def test_recipes_come_to_the_published_bytes_a_parameter(recipe: str, plan: str, stack: str, bytes_per_parameter: float) -> None:
    """At the update, when every state is alive; a model whose states alone outweigh its activations."""
    found = planned(f"{plan},seq=1,mbs=1", stack=stack, choice=Choice(recipe=recipe), shape=untied("llama3-8b"))
    terms = {t.term: t.bytes for t in found.terms}
    whole = recipes()[recipe].gradients
    assert found.recipe == recipe
    states = sum(terms.get(name, 0) for name in SHARDED if name != "gradients")
    states += round(PARAMETERS * whole.bytes / {"none": 1, "shards": 8, "data": 8}[whole.over])
    assert states / PARAMETERS == pytest.approx(bytes_per_parameter, rel=1e-6)


def test_textbook_layers_of_gpt_keep_34_bytes_and_the_scores() -> None:
    """Korthikanti et al. 2022: s b h (34 + 5 a s / h) without parallelism; 2 more for statistics of norms in fp32."""
    shape = Shape(
        layers=2, hidden=1024, heads=16, kv_heads=16, ffn=4096, vocab=1024, context=2048, tied_embeddings=True, activation="gelu",
        norm="layernorm", attention="mha", positions="learned", bias=True,
    )  # fmt: skip
    found = planned("ddp=1,seq=2048", stack="megatron-2022", shape=shape)
    each = found.bytes_of("activations") / 2 / 2048 / 1024
    assert each == pytest.approx(34 - 1 + 5 * 16 * 2048 / 1024, rel=0.02)  # the dropout after the scores is theirs


@pytest.mark.parametrize(("kv_heads", "times_hidden"), [(8, 12 + 4 / 4 + 28), (32, 12 + 4 + 28)])
def test_llama_layers_keep_what_the_closed_form_says(kv_heads: int, times_hidden: float) -> None:
    """e (12 + 4 kv / a + 8 f / h) + 4 a s b, fused norms and flash attention; f = 3.5 h."""
    shape = Shape(
        layers=4, hidden=4096, heads=32, kv_heads=kv_heads, ffn=14336, vocab=1024, context=4096, tied_embeddings=False,
        activation="swiglu", norm="rmsnorm", attention="gqa" if kv_heads < 32 else "mha", positions="rope",
    )  # fmt: skip
    found = planned("ddp=1,seq=4096", stack="megatron", shape=shape)
    extra = 4 * 32 + 8 + 2 * (4096 + kv_heads * 128)  # log-sum-exp, norms' statistics, and the unrotated part of the one product
    assert found.bytes_of("activations") == pytest.approx(4 * 4096 * (times_hidden * 4096 + extra), rel=1e-6)


def test_selective_checkpointing_keeps_every_second_product() -> None:
    """15.5 e for f = 3.5 h and a quarter of the heads for keys."""
    found = planned("fsdp=8,seq=8192,ac=selective", stack="torchtitan")
    assert found.bytes_of("activations") == pytest.approx(32 * 8192 * (15.5 * 4096 + 4 * 32), rel=1e-6)
    assert planned("fsdp=8,seq=8192,ac=full").bytes_of("activations") == 32 * 8192 * 2 * 4096


@pytest.mark.parametrize(("loss", "each"), [("eager", 14), ("hf", 16), ("bf16", 6)])
def test_the_loss_head_by_implementation(loss: str, each: float) -> None:
    found = planned("fsdp=8,seq=8192", choice=Choice(loss=loss))
    assert found.peak_at == "the loss"
    assert found.bytes_of("loss head") == round(each * 8192 * 128_256)


def test_a_chunked_head_moves_the_peak_into_backward() -> None:
    found = planned("fsdp=8,seq=8192,ac=full", choice=Choice(loss="chunked"))
    assert found.peak_at != "the loss"
    assert found.total_bytes < planned("fsdp=8,seq=8192,ac=full").total_bytes


def test_ddp_with_autocast_holds_copies_and_buckets() -> None:
    found = planned("ddp=8,seq=8192", stack="torch-eager", shape=SMALL)
    many = found.parameters
    assert found.bytes_of("DDP buckets") == 4 * many
    assert 0 < found.bytes_of("autocast copies") <= 2 * many


def test_gradients_that_are_not_reduced_are_whole() -> None:
    late, early = planned("fsdp=64,seq=2048,ga=4"), planned("fsdp=64,seq=2048,ga=4,sync=every")
    assert late.bytes_of("accumulated gradients") == 4 * PARAMETERS
    assert early.bytes_of("accumulated gradients") == 0


def test_kept_units_cost_the_whole_model() -> None:
    assert planned("fsdp=64,seq=2048,reshard=false").bytes_of("unsharded units") == 2 * PARAMETERS


def test_where_nothing_is_computed_the_update_is_the_peak() -> None:
    found = planned("ddp=8,seq=1,mbs=1", stack="torch-eager")
    assert found.peak_at == "the optimizer step"
    assert found.bytes_of("optimizer temporaries") == 4 * PARAMETERS


def test_the_first_stage_holds_as_many_micro_batches_as_there_are_stages() -> None:
    found = planned("fsdp=2,pp=4,ga=8,seq=2048,ac=full,reshard=false", stack="torchtitan")
    assert found.stage == 0
    assert "micro-batches" in next(t.formula for t in found.terms if t.term == "activations")


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ("fsdp=8,tp=3", "tp=3 does not divide the 32 heads"),
        ("fsdp=8,ep=2", "ep=2: llama3-8b is dense"),
        ("fsdp=2,pp=64", "pp=64: llama3-8b has 32 layers"),
        ("fsdp=2,tp=2,seq=4095", "does not divide seq=4095"),
        ("fsdp=2,unit=64", "unit=64: llama3-8b has 32 layers"),
    ],
)
def test_plans_that_cannot_be_name_the_number(plan: str, words: str) -> None:
    with pytest.raises(UsageMistake, match=words) as caught:
        planned(plan)
    assert "\n" not in str(caught.value)


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(UsageMistake, match="did you mean eager"):
        planned("fsdp=8", choice=Choice(loss="eagre"))
    with pytest.raises(UsageMistake, match="did you mean megatron"):
        planned("fsdp=8", choice=Choice(recipe="megatrn"))


STACKS = st.sampled_from(("torchtitan", "torchtitan-compile", "torch-eager", "megatron", "nanotron", "hf-fsdp1"))
CHECKPOINTING = st.sampled_from(("none", "selective", "full"))


@settings(max_examples=60, deadline=None)
@given(stack=STACKS, ac=CHECKPOINTING, mbs=st.integers(1, 16), shard=st.sampled_from((1, 2, 8, 64)), tp=st.sampled_from((1, 2)),
       ga=st.sampled_from((1, 4)), unit=st.sampled_from((1, 3)), strategy=st.sampled_from(("fsdp", "ddp", "zero1")))  # fmt: skip
def test_terms_sum_and_bounds_hold_and_micro_batches_only_add(
    stack: str, ac: str, mbs: int, shard: int, tp: int, ga: int, unit: int, strategy: str
) -> None:
    words = f"{strategy}={shard},tp={tp},seq=512,ac={ac},ga={ga},unit={unit}"
    one = planned(f"{words},mbs={mbs}", stack=stack, shape=SMALL)
    more = planned(f"{words},mbs={mbs + 1}", stack=stack, shape=SMALL)
    assert sum(t.bytes for t in one.terms) == one.total_bytes == one.reserved_bytes + sum(
        t.bytes for t in one.terms if t.place == "outside"
    )  # fmt: skip
    assert all(0 <= t.low <= t.bytes <= t.high for t in one.terms)
    assert one.allocated_bytes == max(m.allocated_bytes for m in one.moments)
    assert one.resting_bytes <= one.allocated_bytes
    assert more.total_bytes >= one.total_bytes


@settings(max_examples=60, deadline=None)
@given(stack=STACKS, ac=CHECKPOINTING, shard=st.sampled_from((2, 4, 8, 32)), mbs=st.integers(1, 8))
def test_more_shards_never_need_more_of_what_is_sharded(stack: str, ac: str, shard: int, mbs: int) -> None:
    one, more = (planned(f"fsdp={n},seq=512,ac={ac},mbs={mbs}", stack=stack, shape=SMALL) for n in (shard, 2 * shard))
    for term in SHARDED:
        if term in {t.term for t in one.terms}:
            assert more.bytes_of(term) <= one.bytes_of(term) or more.peak_at != one.peak_at
    assert more.total_bytes <= one.total_bytes
