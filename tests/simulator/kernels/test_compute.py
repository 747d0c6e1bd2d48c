"""What the kernels of a step add up to, against counts that one knows."""

from __future__ import annotations

import msgspec
import pytest

from stepscope.catalog.efficiency import Efficiency
from stepscope.catalog.gpu import Gpu
from stepscope.catalog.stack import Stack, load_stack
from stepscope.model.errors import UsageMistake
from stepscope.model.shape import Shape
from stepscope.simulator.kernels.compute import StepKernels, step_kernels
from stepscope.simulator.kernels.segment import Segment

SEQ = 8192


def made(shape: Shape, gpu: Gpu, stack: Stack, **changes: object) -> StepKernels:
    words: dict[str, object] = {"micro_batch": 1, "seq": SEQ, "gpu": gpu, "stack": stack, "parameters": 10**9}
    return step_kernels(shape, **(words | changes))  # type: ignore[arg-type]


def flops(segment: Segment, *kinds: str) -> int:
    return int(sum(f for f, kind in zip(segment.flops, segment.kind, strict=True) if not kinds or kind in kinds))


def moved(segment: Segment, kind: str) -> int:
    return int(sum(b for b, k in zip(segment.bytes, segment.kind, strict=True) if k == kind))


def test_products_of_a_token_are_two_flops_a_weight_forward_and_four_backward(llama: Shape, gpu: Gpu, stack: Stack) -> None:
    k = made(llama, gpu, stack)
    forward = llama.layers * flops(k.layer_forward, "gemm") + flops(k.head_forward, "gemm")
    backward = llama.layers * flops(k.layer_backward, "gemm") + flops(k.head_backward, "gemm")

    assert forward == 2 * llama.matmul_parameters() * SEQ
    assert backward == 2 * forward


def test_llama_8b_costs_51_gflops_a_token_at_8k(llama: Shape, gpu: Gpu, stack: Stack) -> None:
    # 6 x 7.50e9 and the causal half of 12 x 32 x 4096 x 8192
    assert made(llama, gpu, stack).model_flops["megatron"] == pytest.approx(45.0e9 + 6.44e9, rel=0.002)
    assert made(llama, gpu, stack).model_flops["torchtitan"] == pytest.approx(45.0e9 + 12.88e9, rel=0.002)


def test_attention_counts_the_causal_half(llama: Shape, gpu: Gpu, stack: Stack) -> None:
    k = made(llama, gpu, stack)

    assert flops(k.layer_forward, "attention") == 2 * SEQ * SEQ * 4096
    assert flops(k.layer_backward, "attention") == 2.5 * flops(k.layer_forward, "attention")


def test_full_checkpointing_is_one_more_forward(llama: Shape, gpu: Gpu, stack: Stack) -> None:
    whole = msgspec.structs.replace(stack, checkpointing=msgspec.structs.replace(stack.checkpointing, early_stop=False))
    none, full = made(llama, gpu, whole), made(llama, gpu, whole, ac="full")
    more = full.layer_backward.total_ns() - none.layer_backward.total_ns()

    assert more == pytest.approx(float(none.layer_forward.total_ns()))
    assert full.layer_backward.op[: len(none.layer_forward.op)] == none.layer_forward.op
    assert full.layer_backward.recompute.sum() == len(none.layer_forward.op)


def test_early_stop_saves_the_last_product(llama: Shape, gpu: Gpu, stack: Stack) -> None:
    early = msgspec.structs.replace(stack, checkpointing=msgspec.structs.replace(stack.checkpointing, early_stop=True))
    k = made(llama, gpu, early, ac="full")
    repeated = sum(int(f) for f, again in zip(k.layer_backward.flops, k.layer_backward.recompute, strict=True) if again)

    assert repeated == flops(k.layer_forward) - 2 * SEQ * llama.ffn * llama.hidden


def test_selective_lies_between_none_and_full(llama: Shape, gpu: Gpu, stack: Stack) -> None:
    none, some, full = (float(made(llama, gpu, stack, ac=ac).layer_backward.total_ns()) for ac in ("none", "selective", "full"))

    assert none < some < full


def test_selective_of_megatron_repeats_attention_alone(gpt: Shape, gpu: Gpu) -> None:
    segment = made(gpt, gpu, load_stack("megatron"), ac="selective").layer_backward

    assert {kind for kind, again in zip(segment.kind, segment.recompute, strict=True) if again} == {"attention"}


def test_a_fused_adam_moves_28_bytes_a_parameter(llama: Shape, gpu: Gpu, plain: Efficiency) -> None:
    k = made(llama, gpu, load_stack("torchtitan"), efficiency=plain)

    assert moved(k.optimizer, "optimizer") == 28 * 10**9
    assert k.optimizer.total_ns() == pytest.approx(28e9 / 3350e9 * 1e9)


def test_foreach_and_for_loop_move_more_and_launch_more(llama: Shape, gpu: Gpu, stack: Stack) -> None:
    fused, foreach = made(llama, gpu, load_stack("torchtitan")).optimizer, made(llama, gpu, load_stack("torch-eager")).optimizer
    loop = msgspec.structs.replace(stack.optimizer, implementation="for-loop", kernels_per_tensor=14.0)
    each = made(llama, gpu, msgspec.structs.replace(stack, optimizer=loop), tensors=291).optimizer

    assert foreach.total_ns() > 2 * fused.total_ns()
    assert each.launches == 14 * 291


def test_eager_moves_more_than_compiled(llama: Shape, gpu: Gpu) -> None:
    eager, compiled = (made(llama, gpu, load_stack(name)).layer_forward for name in ("torch-eager", "torch-compile"))

    assert moved(eager, "elementwise") > 1.5 * moved(compiled, "elementwise")
    assert eager.launches > compiled.launches


def test_unfused_attention_writes_its_scores(gpt: Shape, gpu: Gpu) -> None:
    unfused = made(gpt, gpu, load_stack("megatron-2022")).layer_forward
    scores = SEQ * SEQ * gpt.heads
    per = load_stack("megatron-2022").attention.forward_score_bytes

    assert unfused.bytes[unfused.op.index("aten::_softmax")] == scores * per
    assert unfused.total_ns() > 2 * made(gpt, gpu, load_stack("megatron")).layer_forward.total_ns()


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_tensor_parallelism_divides_the_products(llama: Shape, gpu: Gpu, stack: Stack, tp: int) -> None:
    one, many = made(llama, gpu, stack), made(llama, gpu, stack, tp=tp)

    assert flops(many.layer_forward) * tp == flops(one.layer_forward)
    assert flops(many.layer_backward) * tp == flops(one.layer_backward)
    assert moved(many.layer_forward, "norm") * tp == moved(one.layer_forward, "norm")
    # narrower products, and copies around the collectives
    assert many.layer_forward.total_ns() * tp > one.layer_forward.total_ns()


def test_context_parallelism_divides_tokens_but_not_what_they_attend_to(llama: Shape, gpu: Gpu, stack: Stack) -> None:
    one, two = made(llama, gpu, stack), made(llama, gpu, stack, cp=2)

    assert two.tokens == one.tokens // 2
    assert flops(two.layer_forward) * 2 == flops(one.layer_forward)


def test_fp8_is_faster_and_rowwise_is_not(llama: Shape, gpu: Gpu) -> None:
    stack = load_stack("torchtitan-compile")
    plain, tensor, row = (made(llama, gpu, stack, precision=p).micro_batch_ns(32) for p in ("bf16", "fp8", "fp8-rowwise"))

    assert tensor < plain
    assert tensor < row


def test_fp8_leaves_the_output_product_alone(llama: Shape, gpu: Gpu, stack: Stack) -> None:
    plain, narrow = made(llama, gpu, stack), made(llama, gpu, stack, precision="fp8")

    assert narrow.head_forward.total_ns() == pytest.approx(float(plain.head_forward.total_ns()))
    assert "aten::_scaled_mm" in narrow.layer_forward.op


def test_tp_that_does_not_divide(llama: Shape, gpu: Gpu, stack: Stack) -> None:
    with pytest.raises(UsageMistake, match="tp=5: heads 32 do not divide by it; take a divisor of 32"):
        made(llama, gpu, stack, tp=5)


def test_the_host_pays_for_each_launch(llama: Shape, gpu: Gpu, stack: Stack) -> None:
    segment = made(llama, gpu, stack).layer_forward

    assert segment.launches == int(segment.kernels.sum()) + stack.host.hooks_per_layer
    assert segment.host_ns == pytest.approx(segment.launches * stack.host.launch_us * 1e3)
