"""How long does a kernel take on a GPU that is left to itself? The slower of its arithmetic and its memory traffic.

Matrix products lose what their blocks leave empty: the edge of the last tile, the last wave over the multiprocessors, and the
start of a shallow product. Times are ns. Not modelled: power, caches (a small tensor may come from L2), and stream-K kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stepscope.catalog.efficiency import Efficiency
from stepscope.catalog.gpu import Dtype, Gpu
from stepscope.catalog.stack import Stack
from stepscope.model.errors import UsageMistake
from stepscope.simulator.kernels.operation import Operation
from stepscope.simulator.kernels.segment import Pass, Segment, UnitKind

UNITS_OF: Final[dict[str, Dtype]] = {
    "bf16": "bf16",
    "fp16": "fp16",
    "fp32": "fp32",
    "tf32": "tf32",
    "fp8": "fp8",
    "fp8-rowwise": "fp8",
}
"""Which of the GPU's units a precision of the plan runs on."""

MOST: Final = 1 << 62  # FLOPs or bytes of one operation: int64 holds no more


def peak(gpu: Gpu, precision: str) -> float:
    """FLOP/s of the GPU's units for that precision. UsageMistake where it has none."""
    found = gpu.peak_flops(UNITS_OF[precision])
    if found is None:
        have = [name for name, dtype in UNITS_OF.items() if gpu.peak_flops(dtype) is not None]
        raise UsageMistake(f"{gpu.name}: no units for precision {precision}; take one of {', '.join(have)}")
    return found


def gemm_fill(gemm: tuple[int, int, int], batch: int, units: int, efficiency: Efficiency, width: int = 2) -> float:
    """Share of the plateau that a product of that shape reaches, 0 to 1: tile edge, last wave, depth.

    A step in depth takes a fixed number of bytes, so narrow operands (`width` bytes) need more of it. Of the ways to lay the
    tile, and smaller tiles that fill better but re-read more, the library takes the best.
    """
    rows, columns, depth = gemm
    tall, wide = efficiency.tile
    best = 0.0
    # a smaller tile re-reads its operands more often, so it reaches less even when it fills the GPU better
    for high, broad, share in ((tall, wide, 1.0), (wide, tall, 1.0), (tall, wide // 2, 0.9), (tall // 2, wide // 2, 0.75)):
        blocks = -(-rows // high) * -(-columns // broad) * batch
        waves = -(-blocks // units)
        filled = rows * columns * batch / (waves * units * high * broad)
        best = max(best, share * filled)
    return best * depth * width / (depth * width + 2 * efficiency.ramp_k)


def segment(
    unit_kind: UnitKind,
    pass_: Pass | None,
    operations: Sequence[Operation],
    gpu: Gpu,
    efficiency: Efficiency,
    stack: Stack,
    hooks: int = 0,
) -> Segment:
    """The operations with their times on that GPU under that software."""
    for op in operations:
        if max(op.flops, op.bytes, *(op.gemm or (0,))) > MOST:
            most = max(op.flops, op.bytes)
            raise UsageMistake(
                f"plan: {op.name}: {most:.3g} FLOPs or bytes are more than can be counted; take a smaller mbs or seq"
            )
    bandwidth = gpu.memory_bytes_per_s * efficiency.memory
    flop_ns = np.array([_flop_ns(op, gpu, efficiency, stack) for op in operations])
    moved = np.array([op.bytes for op in operations], dtype=np.int64)
    kernels = np.array([op.kernels for op in operations], dtype=np.int64)
    least = efficiency.kernel_ns * kernels
    byte_ns = np.maximum(moved / bandwidth * 1e9, np.where(flop_ns < least, least, 0))
    launches = int(kernels.sum()) + hooks
    return Segment(
        unit_kind=unit_kind,
        pass_=pass_,
        op=tuple(op.name for op in operations),
        kernel=tuple(op.kernel for op in operations),
        kind=tuple(op.kind for op in operations),
        flops=np.array([op.flops for op in operations], dtype=np.int64),
        bytes=moved,
        gemm=np.array([op.gemm or (0, 0, 0) for op in operations], dtype=np.int64).reshape(-1, 3),
        recompute=np.array([op.recompute for op in operations], dtype=bool),
        kernels=kernels,
        flop_ns=flop_ns * stack.compute_factor,
        byte_ns=byte_ns * stack.compute_factor,
        fixed_ns=np.asarray(kernels * efficiency.gap_ns, dtype=np.float64),
        launches=launches,
        host_ns=launches * stack.host.launch_us * 1e3 * stack.compute_factor,
    )


def _flop_ns(op: Operation, gpu: Gpu, efficiency: Efficiency, stack: Stack) -> float:
    if not op.flops:
        return 0.0
    if op.kind == "attention":
        share = efficiency.attention[stack.attention.kernel] * (efficiency.attention_backward if op.backward else 1.0)
    else:
        assert op.gemm is not None
        share = efficiency.gemm[op.precision] * gemm_fill(
            op.gemm, op.batch, gpu.compute.units, efficiency, 1 if UNITS_OF[op.precision] == "fp8" else 2
        )
    return op.flops / (peak(gpu, op.precision) * share) * 1e9
