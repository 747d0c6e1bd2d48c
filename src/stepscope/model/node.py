"""How is one machine wired: which GPU and NIC hang on which PCIe switch, and what carries bytes between any two of them?

Numbers are positions: GPU 3 is `gpus[3]`. Rates are bytes a second of payload, each way. Not modelled: which of several equal
lanes inside a switch a byte takes, and the memory of the host.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.model.link import Latencies, Link


class PcieSwitch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A PCIe switch (or a root port where there is none): the socket above it and that socket's NUMA node."""

    socket: int
    numa: int


class GpuSlot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a GPU sits: its PCIe switch, and the NICs that are meant for it, the first one used first."""

    pcie: int
    nics: tuple[int, ...] = ()


class NicSlot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a NIC sits: its PCIe switch, the rail its cable belongs to, and its name in the operating system."""

    pcie: int
    rail: int
    name: str


class ScaleUp(msgspec.Struct, frozen=True, kw_only=True):
    """What joins the GPUs of a node: a switch (`bytes_per_s` a GPU), a mesh (`bytes_per_s` a link) or nothing but PCIe.

    `bundles` of a mesh are (GPU, GPU, links between the two), each pair once.
    """

    kind: Literal["switch", "mesh", "none"]
    bytes_per_s: float = 0.0
    bundles: tuple[tuple[int, int, int], ...] = ()

    def between(self, a: int, b: int) -> int:
        """Links of the mesh straight between two GPUs."""
        return next((n for x, y, n in self.bundles if {x, y} == {a, b}), 0)


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One machine. `pcie_bytes_per_s` is a GPU's slot and a switch's uplink, `nic_pcie_bytes_per_s` a NIC's slot."""

    sockets: int
    switches: tuple[PcieSwitch, ...]
    gpus: tuple[GpuSlot, ...]
    nics: tuple[NicSlot, ...]
    scale_up: ScaleUp
    latencies: Latencies
    pcie_bytes_per_s: float
    nic_pcie_bytes_per_s: float
    socket_bytes_per_s: float
    nic_bytes_per_s: float

    def socket_of_gpu(self, gpu: int) -> int:
        """The socket above that GPU."""
        return self.switches[self.gpus[gpu].pcie].socket

    def socket_of_nic(self, nic: int) -> int:
        """The socket above that NIC."""
        return self.switches[self.nics[nic].pcie].socket

    def numa_of_gpu(self, gpu: int) -> int:
        """The NUMA node nearest to that GPU."""
        return self.switches[self.gpus[gpu].pcie].numa

    def nic_of_gpu(self, gpu: int, rail: int | None = None) -> int | None:
        """The NIC meant for that GPU, on that rail if it has one there, else its first; None for a GPU without a NIC."""
        own = self.gpus[gpu].nics
        return next((n for n in own if self.nics[n].rail == rail), own[0] if own else None)

    def with_nic_across(self, gpu: int) -> Node:
        """The same machine with that GPU's NICs in a slot of the next socket; unchanged where there is only one socket."""
        here = self.socket_of_gpu(gpu)
        far = next((i for i, s in enumerate(self.switches) if s.socket != here), None)
        if far is None:
            return self
        own = self.gpus[gpu].nics
        moved = tuple(
            msgspec.structs.replace(n, pcie=far) if i in own and self.socket_of_nic(i) == here else n
            for i, n in enumerate(self.nics)
        )
        return msgspec.structs.replace(self, nics=moved)

    def between_gpus(self, at: str, a: int, b: int, through_host: bool = False) -> list[Link]:
        """Links from GPU a to GPU b of the node named `at`: NVLink or xGMI where there is one, else PCIe; [] for a = b."""
        if a == b:
            return []
        if not through_host:
            if self.scale_up.kind == "switch":
                hub = f"{at}/nvswitch"
                return [self._up(f"{at}/gpu{a}", hub, 1), self._up(hub, f"{at}/gpu{b}", 1)]
            hops = self._mesh(a, b)
            if hops:
                return [self._up(f"{at}/gpu{x}", f"{at}/gpu{y}", self.scale_up.between(x, y)) for x, y in hops]
        return self._slots(at, f"gpu{a}", self.gpus[a].pcie, f"gpu{b}", self.gpus[b].pcie, through_host)

    def gpu_to_nic(self, at: str, gpu: int, nic: int, through_host: bool = False) -> list[Link]:
        """Links from a GPU to a NIC of its node; `through_host` is the way without GPUDirect, past the GPU's own socket."""
        return self._slots(at, f"gpu{gpu}", self.gpus[gpu].pcie, f"nic{nic}", self.nics[nic].pcie, through_host)

    def to_host(self, at: str, gpu: int) -> list[Link]:
        """Links from a GPU to the memory of its socket."""
        slot = self.gpus[gpu].pcie
        return [
            self._pcie(f"{at}/gpu{gpu}", f"{at}/pcie{slot}"),
            self._pcie(f"{at}/pcie{slot}", f"{at}/cpu{self.switches[slot].socket}"),
        ]

    def links(self, at: str) -> list[Link]:
        """Every link inside the node, one direction each, the other being its mirror."""
        up = self.scale_up
        found = [self._up(f"{at}/gpu{g}", f"{at}/nvswitch", 1) for g in range(len(self.gpus)) if up.kind == "switch"]
        if up.kind == "mesh":
            found += [self._up(f"{at}/gpu{a}", f"{at}/gpu{b}", n) for a, b, n in up.bundles]
        found += [self._pcie(f"{at}/gpu{g}", f"{at}/pcie{slot.pcie}") for g, slot in enumerate(self.gpus)]
        found += [self._pcie(f"{at}/nic{n}", f"{at}/pcie{slot.pcie}") for n, slot in enumerate(self.nics)]
        found += [self._pcie(f"{at}/pcie{i}", f"{at}/cpu{s.socket}") for i, s in enumerate(self.switches)]
        pairs = [(a, b) for a in range(self.sockets) for b in range(a + 1, self.sockets)]
        return found + [self._socket(at, a, b) for a, b in pairs]

    def _mesh(self, a: int, b: int) -> list[tuple[int, int]]:
        """The way through a mesh: straight, or over the one GPU whose narrower half is widest; [] where there is none."""
        up = self.scale_up
        if up.kind != "mesh":
            return []
        if up.between(a, b):
            return [(a, b)]
        over = {g: min(up.between(a, g), up.between(g, b)) for g in range(len(self.gpus))}
        best = max(over, key=lambda g: (over[g], -abs(2 * g - a - b), -g))
        return [(a, best), (best, b)] if over[best] else []

    def _slots(self, at: str, a: str, slot_a: int, b: str, slot_b: int, through_host: bool) -> list[Link]:
        """From the part `a` in one PCIe slot to `b` in another: over one switch, over the socket, or over both sockets."""
        if slot_a == slot_b and not through_host:
            return [self._pcie(f"{at}/{a}", f"{at}/pcie{slot_a}"), self._pcie(f"{at}/pcie{slot_a}", f"{at}/{b}")]
        from_, to = self.switches[slot_a].socket, self.switches[slot_b].socket
        return [
            self._pcie(f"{at}/{a}", f"{at}/pcie{slot_a}"),
            self._pcie(f"{at}/pcie{slot_a}", f"{at}/cpu{from_}"),
            *([self._socket(at, from_, to)] if from_ != to else []),
            self._pcie(f"{at}/cpu{to}", f"{at}/pcie{slot_b}"),
            self._pcie(f"{at}/pcie{slot_b}", f"{at}/{b}"),
        ]

    def _up(self, src: str, dst: str, links: int) -> Link:
        return Link(src, dst, "scale_up", self.scale_up.bytes_per_s * links, self.latencies.scale_up_ns)

    def _pcie(self, src: str, dst: str) -> Link:
        rate = self.nic_pcie_bytes_per_s if "/nic" in src or "/nic" in dst else self.pcie_bytes_per_s
        return Link(src, dst, "pcie", rate, self.latencies.pcie_ns)

    def _socket(self, at: str, a: int, b: int) -> Link:
        return Link(f"{at}/cpu{a}", f"{at}/cpu{b}", "socket", self.socket_bytes_per_s, self.latencies.socket_ns)
