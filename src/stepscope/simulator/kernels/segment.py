"""How long do the kernels of one unit take in one pass, at any clock and memory bandwidth?

Times are ns as floats. The two limits of a kernel are kept apart, since a slow clock stretches one and slow memory the other:
duration = max(flop_ns / clock, byte_ns / hbm) + fixed_ns, with clock and hbm as fractions of the healthy GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Fraction = float | Floats
UnitKind = Literal["embedding", "layer", "head", "optimizer"]
Pass = Literal["forward", "backward"]


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Kernels in the order of their launch, K of them. `gemm` is rows, columns, depth (0 where it is no product).

    `recompute` marks what activation checkpointing runs a second time. `launches` counts what the host issues, hooks included,
    in `host_ns`. `kernels` is how many real kernels one entry stands for.
    """

    unit_kind: UnitKind
    pass_: Pass | None
    op: tuple[str, ...]
    kernel: tuple[str, ...]
    kind: tuple[str, ...]
    flops: Ints
    bytes: Ints
    gemm: Ints
    recompute: npt.NDArray[np.bool_]
    kernels: Ints
    flop_ns: Floats
    byte_ns: Floats
    fixed_ns: Floats
    launches: int
    host_ns: float

    def ns(self, clock: Fraction = 1.0, hbm: Fraction = 1.0) -> Floats:
        """Time of each kernel: [K], or [R, K] for fractions of shape [R] or [R, 1]."""
        return np.maximum(self.flop_ns / _column(clock), self.byte_ns / _column(hbm)) + self.fixed_ns

    def total_ns(self, clock: Fraction = 1.0, hbm: Fraction = 1.0) -> Floats:
        """Sum over the kernels: a 0-d array, or [R] for fractions of shape [R]. Distinct pairs are computed once."""
        if np.ndim(clock) == np.ndim(hbm) == 0:
            return np.asarray(self.ns(clock, hbm).sum())
        clocks, hbms = np.broadcast_arrays(np.ravel(clock), np.ravel(hbm))
        pairs, which = np.unique(np.stack((clocks, hbms), axis=1), axis=0, return_inverse=True)
        totals: Floats = self.ns(pairs[:, 0], pairs[:, 1]).sum(axis=1)
        return totals[which.ravel()]

    def part(self, kinds: Iterable[str], recompute: bool | None = None) -> float:
        """Healthy time of the kernels of those kinds, of the repeated ones alone (or the others alone) where asked."""
        wanted = np.isin(np.array(self.kind), list(kinds))
        if recompute is not None:
            wanted &= self.recompute == recompute
        return float(self.ns()[wanted].sum())


def _column(value: Fraction) -> Fraction:
    array = np.asarray(value, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array
