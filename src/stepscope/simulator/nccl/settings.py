"""What would NCCL_* variables and the platform force on the collectives? By default nothing.

`*_on` names the nodes that a setting holds for, () = all of them. `*_fraction` says what of the healthy rate is left (of NICs, of
NVLink); None takes the rates that were measured. Nothing in here says why a setting is as it is.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Algorithm = Literal["ring", "tree", "nvls", "nvlstree", "collnet", "pat", "p2p"]
Protocol = Literal["LL", "LL128", "Simple"]


class NcclSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`channels` at most, `nics` a node at most; `redirected`: NIC and GPU meet at the root complex (ACS, IOMMU)."""

    algorithm: Literal["ring", "tree", "nvls", "nvlstree", "collnet"] | None = None
    protocol: Protocol | None = None
    channels: int | None = None
    nics: int | None = None
    nics_on: tuple[int, ...] = ()
    p2p: bool = True
    p2p_on: tuple[int, ...] = ()
    p2p_fraction: float | None = None
    nvls: bool = True
    pxn: bool = True
    gpudirect: bool = True
    gpudirect_on: tuple[int, ...] = ()
    gpudirect_nics: tuple[tuple[int, int], ...] = ()
    gpudirect_fraction: float | None = None
    redirected: bool = False
    redirected_on: tuple[int, ...] = ()
    redirected_fraction: float | None = None
    network: Literal["auto", "socket"] = "auto"
    socket_fraction: float | None = None

    def nics_at(self, node: int) -> int | None:
        """NICs that the node may use, None for all."""
        return self.nics if not self.nics_on or node in self.nics_on else None

    def p2p_off(self, node: int) -> bool:
        """GPUs of the node reach each other only through host memory."""
        return not self.p2p and (not self.p2p_on or node in self.p2p_on)

    def gpudirect_off(self, node: int, nic: int) -> bool:
        """That NIC cannot read GPU memory; `gpudirect_nics` are (node, NIC) that cannot where others of their node can."""
        if (node, nic) in self.gpudirect_nics:
            return True
        return not self.gpudirect and (not self.gpudirect_on or node in self.gpudirect_on)

    def redirected_at(self, node: int) -> bool:
        """DMA of the node climbs to the root complex."""
        return self.redirected and (not self.redirected_on or node in self.redirected_on)

    @property
    def odd_nodes(self) -> frozenset[int]:
        """Nodes that are set otherwise than the rest."""
        nics = (node for node, _ in self.gpudirect_nics)
        return frozenset((*self.nics_on, *self.p2p_on, *self.gpudirect_on, *nics, *self.redirected_on))
