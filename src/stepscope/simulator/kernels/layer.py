"""Which operations does one transformer layer run, forward, backward, and again under activation checkpointing?

The order is that of the launches. Collectives of tensor parallelism are not here: they are the program's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from stepscope.simulator.kernels import names
from stepscope.simulator.kernels.operation import Kind, Operation, passes, product
from stepscope.simulator.kernels.work import Work

ATTENTION_BACKWARD: Final = 2.5
"""Products of flash attention's backward to those of its forward: five to two, scores are computed again."""


def forward(work: Work) -> list[Operation]:
    """Norm, attention, residual, norm, MLP, residual."""
    shape, tokens = work.shape, work.tokens
    operations = [*norm(work), *_reordered(work)]
    operations += _products(work, _qkv(work))
    if shape.positions == "rope":
        operations.append(_elementwise(work, "rope", 0, tokens * (work.query + work.key)))
    operations += _attention(work)
    operations += _products(work, [("wo", shape.hidden, work.query)])
    operations += _reordered(work)
    operations.append(_elementwise(work, "residual", 0, tokens * shape.hidden / work.tp))
    operations += [*norm(work), *_reordered(work)]
    up = [("w1", work.ffn, shape.hidden)]
    if shape.activation == "swiglu":
        up.append(("w3", work.ffn, shape.hidden))
    operations += _products(work, up)
    operations.append(_elementwise(work, _activation(work), 0, tokens * work.ffn))
    operations += _products(work, [("w2", shape.hidden, work.ffn)])
    operations += _reordered(work)
    operations.append(_elementwise(work, "residual", 0, tokens * shape.hidden / work.tp))
    return operations


def backward(work: Work) -> list[Operation]:
    """The gradients of forward in reverse: two products for each of its own."""
    shape, tokens = work.shape, work.tokens
    operations = [*_reordered(work), *_gradients(work, [("w2", shape.hidden, work.ffn)])]
    operations.append(_elementwise(work, _activation(work), 1, tokens * work.ffn))
    up = [("w1", work.ffn, shape.hidden)]
    if shape.activation == "swiglu":
        up.insert(0, ("w3", work.ffn, shape.hidden))
    operations += _gradients(work, up)
    operations += [*_reordered(work), *norm(work, backward=True)]
    operations.append(_elementwise(work, "residual", 1, tokens * shape.hidden / work.tp))
    operations += [*_reordered(work), *_gradients(work, [("wo", shape.hidden, work.query)])]
    operations += _attention(work, backward=True)
    if shape.positions == "rope":
        operations.append(_elementwise(work, "rope", 1, tokens * (work.query + work.key)))
    operations += _gradients(work, list(reversed(_qkv(work))))
    operations += [*_reordered(work), *norm(work, backward=True)]
    operations.append(_elementwise(work, "residual", 1, tokens * shape.hidden / work.tp))
    operations += accumulated(work, shape.layer_matmul_parameters() / work.tp)
    return operations


def _reordered(work: Work) -> list[Operation]:
    """The copy around a tensor-parallel collective: DTensor shards the second dimension, collectives the first; Megatron's
    layout has the sequence first and needs none."""
    if work.tp == 1 or work.stack.framework.kind not in ("fsdp1", "fsdp2", "ddp"):
        return []
    kernel = "void at::native::(anonymous namespace)::CatArrayBatchedCopy_aligned16_contig"
    return [passes("aten::cat", kernel, "copy", work.tokens * work.shape.hidden, 2 * work.width)]


def accumulated(work: Work, weights: float) -> list[Operation]:
    """The gradient of so many weights added to what earlier micro-batches left, where the stack keeps a wider copy."""
    per = work.stack.optimizer.accumulate_bytes_per_parameter
    if not per:
        return []
    return [passes("aten::add_", names.POINTWISE.format("CUDAFunctor_add<float>"), "elementwise", weights, per)]


def repeated(work: Work, ac: str) -> list[Operation]:
    """What backward runs again before the gradients under that activation checkpointing: nothing, a part, or all of forward."""
    if ac == "none":
        return []
    operations = forward(work)
    if ac == "selective":
        operations = _selected(work, operations)
    elif work.stack.checkpointing.early_stop:
        # the last product and the residual after it are needed by no gradient
        last = max(i for i, op in enumerate(operations) if op.kind == "gemm")
        operations = operations[:last]
    return [op.again() for op in operations]


def _selected(work: Work, operations: list[Operation]) -> list[Operation]:
    if work.stack.checkpointing.selective == "attention":
        return [op for op in operations if op.kind == "attention" or op.name in _UNFUSED]
    kept: list[Operation] = []
    products = 0
    for op in operations:
        if op.kind == "gemm" and op.name not in _UNFUSED:
            products += 1
            if products % 2:  # every second product is saved
                kept.append(op)
        elif op.kind != "attention":
            kept.append(op)
    while kept and kept[-1].kind == "elementwise":  # what follows the last product needs no repetition
        kept.pop()
    return kept


_UNFUSED: Final = ("aten::baddbmm", "aten::bmm", "aten::_softmax", "aten::_softmax_backward_data")


def _qkv(work: Work) -> list[tuple[str, int, int]]:
    hidden = work.shape.hidden
    if work.stack.fused_qkv:
        return [("wqkv", work.query + 2 * work.key, hidden)]
    return [("wq", work.query, hidden), ("wk", work.key, hidden), ("wv", work.key, hidden)]


def _activation(work: Work) -> str:
    return "swiglu" if work.shape.activation == "swiglu" else "gelu"


def _products(work: Work, matrices: list[tuple[str, int, int]]) -> Iterator[Operation]:
    """tokens x in times in x out for each matrix; in fp8 the input is cast once and each weight too."""
    tokens = work.tokens
    if work.fp8:
        yield _cast(work, tokens * matrices[0][2] + sum(out * into for _, out, into in matrices))
    for _, out, into in matrices:
        yield _gemm(work, tokens, out, into)


def _gradients(work: Work, matrices: list[tuple[str, int, int]]) -> Iterator[Operation]:
    """Of the input (tokens x out times out x in) and of the weight (out x tokens times tokens x in) for each matrix."""
    tokens = work.tokens
    for _, out, into in matrices:
        if work.fp8:
            yield _cast(work, tokens * out)
        yield _gemm(work, tokens, into, out)
        yield _gemm(work, out, into, tokens)


def _gemm(work: Work, rows: int, columns: int, depth: int) -> Operation:
    name = "aten::_scaled_mm" if work.fp8 else "aten::addmm" if work.shape.bias else "aten::mm"
    return product(
        rows,
        columns,
        depth,
        name=name,
        kernel=names.gemm(work.arch, work.linear),
        precision=work.linear,
        width=1 if work.fp8 else work.width,
        out=work.width,
    )


def _cast(work: Work, elements: int) -> Operation:
    kernel = names.REDUCED.format("_to_copy_abs_amax_clamp_mul_0")
    return passes("torchao::scale_and_cast", kernel, "copy", elements, work.stack.fp8.cast_bytes, kernels=2)


def norm(work: Work, backward: bool = False) -> Iterator[Operation]:
    """One norm over this rank's tokens, as many kernels as the stack's bytes say."""
    elements = work.tokens * work.shape.hidden / work.tp
    per = work.moved(work.stack.elementwise.norm[backward]) * work.stack.elementwise.factor
    rms = work.shape.norm == "rmsnorm"
    op = f"aten::_fused_rms_norm{'_backward' * backward}" if rms else f"aten::native_layer_norm{'_backward' * backward}"
    kernel = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
    if backward:
        kernel = "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float>"
    if work.stack.elementwise.mode == "compiled":
        kernel = names.REDUCED.format("_to_copy_add_mean_mul_pow_rsqrt_0")
    yield passes(op, kernel, "norm", elements, per, kernels=_kernels(work, per, 2 if backward else 1))


def _elementwise(work: Work, what: str, way: int, elements: float) -> Operation:
    per = getattr(work.stack.elementwise, what)[way] * work.stack.elementwise.factor
    op, body = _POINTWISE[what][way]
    kernel = names.POINTWISE.format(body)
    if work.stack.elementwise.mode == "compiled":
        kernel = names.FUSED.format(f"{op.removeprefix('aten::')}_1")
    return passes(op, kernel, "elementwise", elements, work.moved(per), kernels=_kernels(work, per, 1))


_POINTWISE: Final = {
    "residual": (("aten::add", "CUDAFunctor_add<c10::BFloat16>"), ("aten::add_", "CUDAFunctor_add<c10::BFloat16>")),
    "gelu": (("aten::gelu", "GeluCUDAKernelImpl"), ("aten::gelu_backward", "GeluBackwardCUDAKernelImpl")),
    "swiglu": (("aten::silu", "silu_kernel"), ("aten::silu_backward", "silu_backward_kernel")),
    "rope": (("aten::view_as_complex", "MulFunctor<c10::complex<float>>"), ("aten::mul", "MulFunctor<c10::complex<float>>")),
}


def _kernels(work: Work, per_element: float, least: int) -> int:
    """Kernels behind one entry: left to itself, an operator reads and writes about 6 bytes an element in each."""
    return least if work.stack.elementwise.mode == "compiled" else max(least, round(per_element / 6))


def _attention(work: Work, backward: bool = False) -> list[Operation]:
    if work.stack.attention.kernel == "unfused":
        return _unfused(work, backward)
    op, kernel, op_back, kernel_back = names.attention(work.stack.attention.kernel)
    moved = work.width * work.tokens * 2 * (work.query + work.key)
    flops = work.attention_flops
    return [
        Operation(
            name=op_back if backward else op,
            kernel=kernel_back if backward else kernel,
            kind="attention",
            flops=round(flops * ATTENTION_BACKWARD) if backward else flops,
            bytes=2 * moved if backward else moved,
            precision=work.plain,
            backward=backward,
        )
    ]


def _unfused(work: Work, backward: bool) -> list[Operation]:
    """Scores written out: a product, the softmax's passes over them, a product; backward two products on either side."""
    heads, seq, dim = work.batch * work.shape.heads // work.tp, work.seq, work.shape.head_dim
    rows = seq // work.cp
    table = work.stack.attention
    per = work.moved(table.backward_score_bytes if backward else table.forward_score_bytes)
    kind: Kind = "elementwise"
    soft = passes(
        "aten::_softmax_backward_data" if backward else "aten::_softmax",
        "void scaled_upper_triang_masked_softmax_warp_" + ("backward" if backward else "forward"),
        kind,
        work.scores,
        per,
        kernels=4 if backward else 3,
    )
    product_of = names.gemm(work.arch, work.plain)
    flops = 2 * heads * rows * seq * dim
    first = Operation(
        name="aten::baddbmm",
        kernel=product_of,
        kind="gemm",
        flops=flops,
        bytes=work.width * heads * (rows * dim + seq * dim),
        gemm=(rows, seq, dim),
        batch=heads,
        precision=work.plain,
    )
    second = replace(first, name="aten::bmm", gemm=(rows, dim, seq))
    if not backward:
        return [first, soft, second]
    return [replace(second, gemm=(rows, seq, dim)), second, soft, second, second]
