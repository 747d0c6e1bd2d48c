"""Which operations stand before and after the layers: the token table, the output product with the loss, and the update?"""

from __future__ import annotations

from typing import Final

from stepscope.simulator.kernels import names
from stepscope.simulator.kernels.layer import accumulated, norm
from stepscope.simulator.kernels.operation import Operation, passes, product
from stepscope.simulator.kernels.work import Work

CHUNK: Final = 10 << 20
"""Elements that one kernel of a foreach or fused optimizer takes at most, about: its argument list is bounded."""


def embedding_forward(work: Work) -> list[Operation]:
    """A row read and written for each token; a second table where positions are learned."""
    elements = work.tokens * work.shape.hidden / work.tp
    operations = [
        passes(
            "aten::embedding", "void at::native::(anonymous namespace)::indexSelectLargeIndex", "copy", elements, 2 * work.width
        )
    ]
    if work.shape.positions == "learned":
        operations.append(passes("aten::add", names.POINTWISE.format("CUDAFunctor_add"), "elementwise", elements, 3 * work.width))
    return operations


def embedding_backward(work: Work) -> list[Operation]:
    """The table's gradient set to zero, then a row added for each token."""
    table = work.vocab * work.shape.hidden
    rows = work.tokens * work.shape.hidden / work.tp
    return [
        passes("aten::zero_", names.POINTWISE.format("FillFunctor<c10::BFloat16>"), "elementwise", table, work.width),
        passes(
            "aten::embedding_dense_backward",
            "void at::native::(anonymous namespace)::embedding_backward_kernel",
            "copy",
            rows,
            3 * work.width,
            kernels=4,
        ),
    ]


def head_forward(work: Work) -> list[Operation]:
    """Last norm, output product, cross-entropy."""
    loss = work.stack.loss
    return [
        *norm(work),
        _output(work, work.tokens, work.vocab, work.shape.hidden),
        _loss(work, loss.forward_bytes, "aten::_log_softmax", "cunn_SoftMaxForward"),
    ]


def head_backward(work: Work) -> list[Operation]:
    """Gradient of the loss, of the output product twice, of the norm."""
    loss = work.stack.loss
    return [
        _loss(work, loss.backward_bytes, "aten::_log_softmax_backward_data", "cunn_SoftMaxBackward"),
        _output(work, work.tokens, work.shape.hidden, work.vocab),
        _output(work, work.vocab, work.shape.hidden, work.tokens),
        *norm(work, backward=True),
        *accumulated(work, work.vocab * work.shape.hidden),
    ]


def update(work: Work, parameters: int, tensors: int) -> list[Operation]:
    """The optimizer over this rank's parameters."""
    table = work.stack.optimizer
    op, kernel = {
        "for-loop": ("aten::addcdiv_", names.POINTWISE.format("addcdiv")),
        "foreach": (
            "aten::_foreach_addcdiv_",
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<PointwiseOpListFunctor>",
        ),
        "fused": (
            "aten::_fused_adamw_",
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>",
        ),
    }[table.implementation]
    launched = max(1, round(table.kernels_per_tensor * tensors), parameters // CHUNK)
    return [passes(op, kernel, "optimizer", parameters, table.bytes_per_parameter, kernels=launched)]


def clip(work: Work, parameters: int, tensors: int) -> list[Operation]:
    """Norm of this rank's gradients and their scaling; nothing where the stack does not clip."""
    per = work.stack.optimizer.clip_bytes_per_parameter
    if not per:
        return []
    kernel = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<LpNormFunctor>"
    launched = max(1, parameters // CHUNK, tensors // 50)
    return [passes("aten::_foreach_norm", kernel, "optimizer", parameters, per, kernels=launched)]


def _output(work: Work, rows: int, columns: int, depth: int) -> Operation:
    return product(
        rows,
        columns,
        depth,
        name="aten::mm",
        kernel=names.gemm(work.arch, work.plain),
        precision=work.plain,
        width=work.width,
        out=work.width,
    )


def _loss(work: Work, per_logit: float, op: str, kernel: str) -> Operation:
    fused = work.stack.loss.head == "fused"
    return passes(
        "fused_cross_entropy" if fused else op,
        names.REDUCED.format("_log_softmax_nll_loss_2") if fused else f"void at::native::(anonymous namespace)::{kernel}",
        "loss",
        work.tokens * work.vocab,
        per_logit,
        kernels=1 if fused else 3,
    )
