"""What is known of one collective in all its groups, and how its time grows with its bytes? ns and bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.simulator.nccl.candidate import Candidate
from stepscope.simulator.nccl.groups import Ints

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """Of every group, [n_groups]: `ns`, of that `latency_ns` which no bandwidth changes, `busbw_bytes_per_s`.

    `kind` [n_groups] says which of the distinct groups each is; `bottleneck` names for each kind the link or place that holds it
    back, None where it is NCCL itself. Bytes are what a rank's NVLink and one NIC send, the most loaded of the first kind.
    """

    ns: Floats
    latency_ns: Floats
    busbw_bytes_per_s: Floats
    algorithm: str
    protocol: str
    channels: int
    kind: Ints
    bottleneck: tuple[str | None, ...]
    scale_up_bytes: float
    nic_bytes: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """From `start` bytes on NCCL takes this: ns a byte of every kind of groups, what holds each back, a floor under its time.

    The floor is what the stretches before came to at their ends, so that more bytes never take less time.
    """

    start: float
    taken: Candidate
    ns_per_byte: Floats
    held: tuple[str | None, ...]
    floor: Floats
    fixed_ns: float
    fill_ns: float
    scale_up: float
    nic: float

    def ns(self, nbytes: float) -> Floats:
        """Time of every kind, [kinds]."""
        transfer = self.ns_per_byte * nbytes
        found: Floats = np.maximum(self.fixed_ns + np.sqrt(self.fill_ns * transfer) + transfer, self.floor)
        return found
