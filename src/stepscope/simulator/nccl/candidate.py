"""What NCCL looks at before it chooses, and what it may choose: values only.

`nbytes` is nccl-tests' size: what an all-gather gathers, what goes into a reduce-scatter, the buffer of an all-reduce, what one
rank sends in an all-to-all, a send or a broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from stepscope.catalog.nccl import Generation
from stepscope.simulator.nccl.settings import Algorithm, Protocol

Op = Literal["all_gather", "reduce_scatter", "all_reduce", "broadcast", "all_to_all", "send_recv"]
PROTOCOLS: Final[tuple[Protocol, ...]] = ("LL", "LL128", "Simple")
SIMPLE: Final = 2
"""Where Simple stands among PROTOCOLS."""
NVLS_HEADS: Final = 8
"""Channels of an NVLSTree at most: a rack of 72 GPUs still reaches the network by eight (nccl-model of 8 x 45; GB200 racks)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What NCCL looks at: `ranks` over `nodes`, `per_node` GPUs, `nics` used a node at `nic_gbps`, and what joins the GPUs."""

    ranks: int
    nodes: int
    per_node: int
    nics: int
    nic_gbps: float
    scale_up: Literal["switch", "mesh", "none"]
    scale_up_gbps: float | None
    generation: Generation
    processor: Literal["intel", "amd", "other"]
    socket: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """One pair that NCCL may take: latency in ns, rate in bytes of `nbytes` a second (nccl-tests' algbw)."""

    algorithm: Algorithm
    protocol: Protocol
    channels: int
    latency_ns: float
    bytes_per_s: float


def steps(op: Op, ranks: int) -> float:
    """Bytes that each ring edge carries, as a multiple of nbytes."""
    n = ranks
    return {
        "all_gather": (n - 1) / n,
        "reduce_scatter": (n - 1) / n,
        "all_reduce": 2 * (n - 1) / n,
        "broadcast": 1.0,
        "all_to_all": (n - 1) / n,
        "send_recv": 1.0,
    }[op]


def bus_factor(op: Op, ranks: int) -> float:
    """busbw = algbw times this, the convention of nccl-tests."""
    return steps(op, ranks)
