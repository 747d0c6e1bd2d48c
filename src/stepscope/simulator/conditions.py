"""How do the ranks of a job depart from healthy ones? Factors and delays, each for all ranks or as an array [ranks].

What is wrong with links lies in the cluster, what NCCL is forced to in its settings, what is issued in plan and stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stepscope.catalog.efficiency import Efficiency
from stepscope.catalog.stack import Stack

Array = NDArray[np.float64]
PerRank = Array | float


@dataclass(frozen=True)
class Blend:
    """Kernels as another software or precision runs them, on a `share` of the layers (or of the update)."""

    share: PerRank
    stack: Stack | None = None
    precision: str | None = None
    efficiency: Efficiency | None = None


@dataclass(frozen=True)
class Delay:
    """The host of a rank stands still for `ns` before the operation named `before` of micro-batch `micro`, `times` a step.

    `drains`: it waits for the device first, as a synchronisation does. `name` is what a profiler would show.
    """

    before: str
    ns: PerRank
    name: str
    times: int = 1
    drains: bool = False
    micro: int = 0


@dataclass(frozen=True)
class Conditions:
    """`clock` and `hbm` are fractions of the healthy GPU's; `load` multiplies what a rank computes; `host_pace` what its host
    thread takes, `launch_us` what one launch costs. `fetch` multiplies a batch's making, `read` its reading, `batch_delay_ns`
    comes on top; `copy_fraction` is the rate of the batch's copy, `pageable` holds the host meanwhile. `save_ns` comes on top of
    a save. `stall_ns` holds up one collective between nodes in a step, as a link that is down does.
    """

    clock: PerRank = 1.0
    hbm: PerRank = 1.0
    load: PerRank = 1.0
    host_pace: PerRank = 1.0
    launch_us: float | None = None
    fetch: PerRank = 1.0
    read: PerRank = 1.0
    batch_delay_ns: PerRank = 0.0
    copy_fraction: PerRank = 1.0
    pageable: bool = False
    save_ns: PerRank = 0.0
    stall_ns: float = 0.0
    offloaded: PerRank = 0.0
    blends: tuple[Blend, ...] = ()
    delays: tuple[Delay, ...] = field(default=())
