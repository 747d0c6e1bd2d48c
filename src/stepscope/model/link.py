"""What joins two parts of a cluster: one direction of one wire, with what it carries and how long it takes.

Capacities are bytes a second of payload, each way; latencies are ns for the first byte. An endpoint is named as on screens:
`node1/gpu3`, `node1/nic3`, `node1/nvswitch`, `node1/pcie2` (a PCIe switch), `node1/cpu0` (a socket), `leaf2`, `spine5`,
`storage:/data`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

LinkKind = Literal["scale_up", "pcie", "socket", "cable", "spine", "storage"]
"""NVLink or xGMI; PCIe; between the sockets; NIC to leaf switch; leaf to spine; node to file system."""

LAYER_OF_LINK: Final[dict[LinkKind, str]] = {
    "scale_up": "L8",
    "pcie": "L8",
    "socket": "L8",
    "cable": "L7",
    "spine": "L7",
    "storage": "S",
}


class Link(msgspec.Struct, frozen=True):
    """One direction of one wire, from `src` to `dst`: `capacity_bytes_per_s` and `latency_ns`."""

    src: str
    dst: str
    kind: LinkKind
    capacity_bytes_per_s: float
    latency_ns: int

    @property
    def name(self) -> str:
        """`node0/gpu3>node0/pcie1`; the other direction has the ends swapped."""
        return f"{self.src}>{self.dst}"

    @property
    def layer(self) -> str:
        """The layer whose weakness shows here: L8 inside a node, L7 in the fabric, S for storage."""
        return LAYER_OF_LINK[self.kind]


class Latencies(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one crossing of a link costs, in ns, switch at its far end included."""

    scale_up_ns: int
    pcie_ns: int
    socket_ns: int
    cable_ns: int
    spine_ns: int


def bottleneck(path: list[Link]) -> float:
    """Bytes a second that a path carries when nothing else uses it: its narrowest link. ValueError for an empty path."""
    return min(link.capacity_bytes_per_s for link in path)


def latency_ns(path: list[Link]) -> int:
    """ns until the first byte is across."""
    return sum(link.latency_ns for link in path)
