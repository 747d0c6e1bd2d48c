"""Which kernels does one rank run in a step, unit by unit, and how long does each take on its GPU under its software?

    step_kernels(shape, micro_batch=1, seq=8192, gpu=load_gpu("h100-sxm"), stack=load_stack("torchtitan-compile"),
                 parameters=shape.parameters() // 16)

Times are ns of a healthy GPU that is left to itself; `Segment.total_ns` takes clocks and bandwidths, and the slow-down by
collectives is the engine's, from `slowdown`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.catalog.efficiency import Efficiency, efficiency_of
from stepscope.catalog.gpu import Gpu
from stepscope.catalog.stack import Stack
from stepscope.model.flops import CONVENTIONS, model_flops
from stepscope.model.shape import Shape
from stepscope.simulator.kernels import ends, layer
from stepscope.simulator.kernels.operation import Operation
from stepscope.simulator.kernels.roofline import segment
from stepscope.simulator.kernels.segment import Pass, Segment, UnitKind
from stepscope.simulator.kernels.work import Work


@dataclass(frozen=True, slots=True)
class StepKernels:
    """Segments of one micro-batch (layers are alike, so one stands for all) and of the update.

    `layer_backward` includes what activation checkpointing repeats. `tokens` of the micro-batch on this rank. `model_flops` of a
    token by convention. `slowdown`: by which share of the overlapped time compute grows.
    """

    embedding_forward: Segment
    layer_forward: Segment
    layer_backward: Segment
    head_forward: Segment
    head_backward: Segment
    embedding_backward: Segment
    optimizer: Segment
    clip: Segment
    tokens: int
    model_flops: dict[str, int]
    slowdown: float
    step_host_ns: float

    def micro_batch_ns(self, layers: int) -> float:
        """Forward and backward of a healthy rank with that many layers, nothing overlapped."""
        once = (self.embedding_forward, self.head_forward, self.head_backward, self.embedding_backward)
        each = (self.layer_forward, self.layer_backward)
        return float(sum(s.total_ns() for s in once) + layers * sum(s.total_ns() for s in each))


def step_kernels(
    shape: Shape,
    *,
    micro_batch: int,
    seq: int,
    gpu: Gpu,
    stack: Stack,
    parameters: int,
    tensors: int | None = None,
    tp: int = 1,
    cp: int = 1,
    ac: str = "none",
    precision: str = "bf16",
    efficiency: Efficiency | None = None,
) -> StepKernels:
    """Kernels of `micro_batch` sequences of `seq` tokens on one rank, whose optimizer holds `parameters` in `tensors` tensors.

    `ac` is none, selective or full; `precision` a word of `--plan`. UsageMistake where the GPU has no units for the precision or
    `tp` does not divide the model.
    """
    work = Work(shape=shape, stack=stack, arch=gpu.arch, batch=micro_batch, seq=seq, tp=tp, cp=cp, precision=precision)
    shares = efficiency or efficiency_of(gpu)
    many = tensors if tensors is not None else shape.layers * (9 if shape.activation == "swiglu" else 8) + 3

    def timed(unit: UnitKind, pass_: Pass | None, operations: list[Operation], hooks: int = 0) -> Segment:
        return segment(unit, pass_, operations, gpu, shares, stack, hooks)

    hooks = stack.host.hooks_per_layer
    return StepKernels(
        embedding_forward=timed("embedding", "forward", ends.embedding_forward(work)),
        layer_forward=timed("layer", "forward", layer.forward(work), hooks),
        layer_backward=timed("layer", "backward", [*layer.repeated(work, ac), *layer.backward(work)], hooks),
        head_forward=timed("head", "forward", ends.head_forward(work)),
        head_backward=timed("head", "backward", ends.head_backward(work)),
        embedding_backward=timed("embedding", "backward", ends.embedding_backward(work)),
        optimizer=timed("optimizer", None, ends.update(work, parameters, many)),
        clip=timed("optimizer", None, ends.clip(work, parameters, many)),
        tokens=work.tokens,
        model_flops={name: model_flops(shape, seq, name) for name in CONVENTIONS},
        slowdown=stack.overlap.slowdown,
        step_host_ns=stack.host.step_us * 1e3,
    )
