"""When does each kernel of a computation run, and when was it launched? The engine knows a unit's start and end; this fills
it in.

Kernels keep their order and their proportions. Each waits for its launch; what the unit took beyond that (noise, collectives
beside it) stretches all of them alike, so that the last one ends when the engine says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Kernels of one kind of computation: healthy ns [K], in order, and the names a profiler shows.

    `op` is the framework's operator, `kernel` the device's. `gemm` [K, 3] is rows, columns, depth (0: no product). `recompute`
    marks what checkpointing runs again.
    """

    ns: Array
    op: tuple[str, ...]
    kernel: tuple[str, ...]
    flops: NDArray[np.int64]
    bytes: NDArray[np.int64]
    gemm: NDArray[np.int64]
    recompute: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.op)


def placed(pattern: Pattern, start: Array, end: Array, issue: Array, issued: Array, latency_ns: float) -> tuple[Array, Array]:
    """Start and end of each kernel, [K, ...] for `start` and `end` of any shape; issued between `issue` and `issued`."""
    count = len(pattern)
    begun, ended = np.empty((count, *start.shape)), np.empty((count, *start.shape))
    at = start
    for j in range(count):
        launched = issue + (issued - issue) * ((j + 1) / (count + 1)) + latency_ns
        begun[j] = np.maximum(at, launched) if j else start
        ended[j] = begun[j] + pattern.ns[j]
        at = ended[j]
    whole = np.maximum(at - start, 1.0)
    stretch = (end - start) / whole
    begun = start + (begun - start) * stretch
    ended = start + (ended - start) * stretch
    return begun, ended


def joined(patterns: list[Pattern]) -> Pattern:
    """Several after one another."""
    if len(patterns) == 1:
        return patterns[0]
    return Pattern(
        np.concatenate([p.ns for p in patterns]),
        tuple(name for p in patterns for name in p.op),
        tuple(name for p in patterns for name in p.kernel),
        np.concatenate([p.flops for p in patterns]),
        np.concatenate([p.bytes for p in patterns]),
        np.concatenate([p.gemm for p in patterns]),
        np.concatenate([p.recompute for p in patterns]),
    )
