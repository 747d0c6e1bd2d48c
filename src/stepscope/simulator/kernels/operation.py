"""What does one GPU operation have to do? FLOPs, bytes of device memory, and the name a profiler would show.

Counts are of one rank, exact for matrix products and attention, and by the stack's bytes per element for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["gemm", "attention", "norm", "elementwise", "loss", "optimizer", "copy"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `gemm` is (rows, columns, depth); `precision` that of its product; `kernels` how many it launches."""

    name: str
    kernel: str
    kind: Kind
    flops: int = 0
    bytes: int = 0
    gemm: tuple[int, int, int] | None = None
    batch: int = 1
    precision: str = "bf16"
    backward: bool = False
    recompute: bool = False
    kernels: int = 1

    def again(self) -> Operation:
        """The same, run a second time inside backward under activation checkpointing."""
        return replace(self, recompute=True)


def product(rows: int, columns: int, depth: int, *, name: str, kernel: str, precision: str, width: int, out: int) -> Operation:
    """rows x depth times depth x columns: operands of `width` bytes an element are read once, `out` bytes an element written."""
    return Operation(
        name=name,
        kernel=kernel,
        kind="gemm",
        flops=2 * rows * columns * depth,
        bytes=width * (rows * depth + depth * columns) + out * rows * columns,
        gemm=(rows, columns, depth),
        precision=precision,
    )


def passes(name: str, kernel: str, kind: Kind, elements: float, per_element: float, kernels: int = 1) -> Operation:
    """An operation that only moves bytes."""
    return Operation(name=name, kernel=kernel, kind=kind, bytes=round(elements * per_element), kernels=kernels)
