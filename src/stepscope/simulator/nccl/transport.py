"""By which network do nodes talk, and what does the host processor add? What a Cluster does not say and NCCL goes by."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from stepscope.catalog.nccl import RampClass
from stepscope.catalog.system import System

NetworkKind = Literal["infiniband", "roce", "efa", "tcpx", "tcpxo", "ethernet"]
_CLASS: Final[dict[NetworkKind, RampClass]] = {
    "infiniband": "rdma",
    "roce": "rdma",
    "efa": "efa",
    "tcpx": "tcpx",
    "tcpxo": "tcpxo",
    "ethernet": "socket",
}


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """`front_end_bytes_per_s` is where TCP goes when RDMA is not found (None: over the job's own NICs)."""

    kind: NetworkKind = "infiniband"
    processor: Literal["intel", "amd", "other"] = "intel"
    front_end_bytes_per_s: float | None = None

    @classmethod
    def of(cls, system: System) -> Transport:
        """As the system's file says."""
        cpu = (system.host.cpu or "intel").lower()
        return cls(
            kind=system.network.kind,
            processor="intel" if "intel" in cpu else "amd" if "amd" in cpu or "epyc" in cpu else "other",
            front_end_bytes_per_s=None if system.front_end is None else system.front_end.gbit * 1e9 / 8,
        )

    @property
    def ramp_class(self) -> RampClass:
        """The class of ramp between nodes."""
        return _CLASS[self.kind]
