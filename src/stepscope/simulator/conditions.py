"""How do the ranks of a job depart from healthy ones? Factors and delays, each for all ranks or as an array [ranks].

What is wrong with links lies in the cluster, what NCCL is forced to in its settings, what is issued in plan and stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stepscope.catalog.efficiency import Efficiency
from stepscope.catalog.stack import Stack
from stepscope.simulator.sensors import Sensors

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

    `drains`: it waits for the device first, as a synchronisation does; a rank on which `ns` is 0 does neither. `name` is what a
    profiler would show.
    """

    before: str
    ns: PerRank
    name: str
    times: int = 1
    drains: bool = False
    micro: int = 0


@dataclass(frozen=True)
class Stall:
    """A NIC whose link is down for `ns` while one collective of the step is on it, `at` of all that use it (0 to 1)."""

    node: int
    nic: int
    ns: float
    at: float


@dataclass(frozen=True)
class Conditions:
    """`clock` and `hbm` are fractions of the healthy GPU's; `load` multiplies what a rank computes; `host_pace` what its host
    thread takes, `launch_us` what one launch costs. `fetch` multiplies a batch's making, `read` its reading, `batch_delay_ns`
    comes on top of the first one of a step; `copy_fraction` is the rate of the batch's copy, `slot` that of the GPU's PCIe slot;
    where `pageable`, the copy holds the host. `save_ns` comes on top of a save, `stall` is a link that goes down. `late_gathers`
    is the share of the units that are gathered when they are needed, `eager_syncs` that of the micro-batches but the last that
    exchange gradients all the same. `sensed` changes no time: it is what instruments see besides.
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
    slot: PerRank = 1.0
    pageable: PerRank | bool = False
    save_ns: PerRank = 0.0
    stall: Stall | None = None
    late_gathers: float = 0.0
    eager_syncs: float = 0.0
    offloaded: PerRank = 0.0
    blends: tuple[Blend, ...] = ()
    delays: tuple[Delay, ...] = field(default=())
    sensed: Sensors = field(default_factory=Sensors)
