"""How many bytes does each link carry for one byte of a collective, and what is the least time that takes?

Every channel carries an equal share over real paths of the cluster, so that a weak link is met by the channel that crosses it. A
load is bytes on a link for each byte of `nbytes`, ring steps apart (see `Pattern.times`). Beside links there are limits, such as
the copy through host memory, that no wire shows. What is looked at: for a node, its own links and the paths out of it and into
it; alike nodes are looked at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from stepscope.catalog.nccl import NcclTables, Ramp
from stepscope.model.cluster import Cluster
from stepscope.model.link import Link
from stepscope.simulator.nccl.groups import Member
from stepscope.simulator.nccl.neighbours import Pattern, hears_from, sends_to
from stepscope.simulator.nccl.ring import Channel, Port, channels, ports
from stepscope.simulator.nccl.settings import NcclSettings
from stepscope.simulator.nccl.transport import Transport


@dataclass(slots=True)
class Loads:
    """`links`: name -> (link, bytes per byte); `limits`: name -> seconds per byte of what no wire shows."""

    links: dict[str, tuple[Link, float]] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)

    def add(self, path: list[Link], share: float) -> None:
        """So much more on every link of a path."""
        for link in path:
            name = link.name
            had = self.links.get(name)
            self.links[name] = (link, share if had is None else had[1] + share)

    def join(self, other: Loads) -> None:
        """What another group puts on links, too."""
        for link, share in other.links.values():
            self.add([link], share)
        for name, seconds in other.limits.items():
            self.limit(name, seconds)

    def limit(self, name: str, seconds_per_byte: float) -> None:
        """So much more time, for each byte, at something that is no link."""
        self.limits[name] = self.limits.get(name, 0.0) + seconds_per_byte


@dataclass(frozen=True, slots=True)
class Machine:
    """What the bytes run over: the cluster, what is forced, the network's ramp (for what a NIC carries) and the tables."""

    cluster: Cluster
    settings: NcclSettings
    transport: Transport
    tables: NcclTables
    across: Ramp
    socket: bool

    def capacity(self, link: Link) -> float:
        """Bytes a second that a collective gets out of a link."""
        if link.kind == "scale_up":
            return link.capacity_bytes_per_s * self.tables.usable.scale_up
        return link.capacity_bytes_per_s * (self.across.carries if link.kind == "cable" else 1.0)

    def spent(self, own: Loads, all_: Loads) -> Iterator[tuple[str, float]]:
        """Each place that `own` loads, with the seconds per byte that all together take there."""
        for name in own.links:
            link, share = all_.links[name]
            yield name, share / self.capacity(link)
        for name in own.limits:
            yield name, all_.limits[name]

    def at_node(self, member: Member, i: int, pattern: Pattern) -> Loads:
        """All that the i-th node of a group carries."""
        loads = Loads()
        self._inside(loads, member, i, pattern)
        if len(member.nodes) > 1:
            for j, share in sends_to(member, i, pattern):
                self._across(loads, member, i, j, share, pattern)
            for j, share in hears_from(member, i, pattern):
                self._across(loads, member, j, i, share, pattern)
        return loads

    def whole(self, member: Member, pattern: Pattern) -> Loads:
        """All that a group puts on any link, each edge once: for small worlds."""
        loads = Loads()
        for i in range(len(member.nodes)):
            self._inside(loads, member, i, pattern)
            for j, share in sends_to(member, i, pattern) if len(member.nodes) > 1 else ():
                self._across(loads, member, i, j, share, pattern)
        return loads

    def nics(self, member: Member, i: int) -> tuple[Port, ...]:
        """NICs that the group uses on its i-th node."""
        node = int(member.nodes[i])
        return ports(self.cluster.wiring(node), member.local(i), self.settings.nics_at(node))

    def _channels(self, member: Member, i: int) -> tuple[Channel, ...]:
        node, alone = int(member.nodes[i]), len(member.nodes) == 1
        wide = 1 if alone else self._wide(member)
        return channels(self.cluster.wiring(node), member.local(i), self.settings.nics_at(node), alone, wide)

    def _wide(self, member: Member) -> int:
        """Rings by the NICs of a node as it should be: a sick one has as many, over fewer NICs."""
        whole = None if self.settings.nics_on else self.settings.nics
        return len(ports(self.cluster.node, member.local(0), whole))

    def _inside(self, loads: Loads, member: Member, i: int, pattern: Pattern) -> None:
        node, gpus = int(member.nodes[i]), member.local(i)
        alone = len(member.nodes) == 1
        if pattern in ("nvls", "nvlstree", "collnet"):
            self._multicast(loads, node, gpus)
        elif pattern == "all_to_all":
            for a in gpus:
                for b in gpus:
                    self._hop(loads, node, a, b, 1 / member.ranks)
        elif pattern == "send_recv":
            for a, b in zip(gpus, (*gpus[1:], gpus[0]) if alone else gpus[1:], strict=False):
                self._hop(loads, node, a, b, 1.0)
        else:
            for channel in self._channels(member, i):
                order = channel.order
                last = (order[0],) if alone and pattern == "ring" else ()
                for a, b in zip(order, (*order[1:], *last), strict=False):
                    self._hop(loads, node, a, b, channel.share)
                    if pattern == "tree":
                        self._hop(loads, node, b, a, channel.share)

    def _multicast(self, loads: Loads, node: int, gpus: tuple[int, ...]) -> None:
        """In-switch reduction: each GPU gives all its bytes and gets all of the sum, and moves its own slice once more."""
        if len(gpus) == 1:  # a switch outside the node adds up, and inside there is nobody to add to
            return
        for gpu in gpus:
            path = self.cluster.path((node, gpu), (node, next(g for g in gpus if g != gpu)))
            back = self.cluster.path((node, next(g for g in gpus if g != gpu)), (node, gpu))
            for link in (path[0], back[-1]):
                loads.add([link], 1 + 1 / len(gpus))

    def _hop(self, loads: Loads, node: int, a: int, b: int, share: float) -> None:
        if a == b:
            return
        hosted = self.settings.p2p_off(node)
        path = self.cluster.path((node, a), (node, b), through_host=hosted)
        if hosted:  # both GPUs copy from and to host memory; what the socket link does for NIC and GPU is no bound on that
            path = [link for link in path if link.kind != "socket"]
        loads.add(path, share)
        if hosted:
            wiring, share_left = self.cluster.wiring(node), self.settings.p2p_fraction
            rate = wiring.pcie_bytes_per_s * self.tables.usable.host_copy
            if share_left is not None:
                rate = wiring.scale_up.bytes_per_s * self.tables.usable.scale_up * share_left
            loads.limit(f"node{node}/gpu{a}>host", share / rate)

    def _across(self, loads: Loads, member: Member, i: int, j: int, share: float, pattern: Pattern) -> None:
        if pattern == "send_recv":
            last, first = member.local(i)[-1], member.local(j)[0]
            a, b = int(member.nodes[i]), int(member.nodes[j])
            wires = ports(self.cluster.wiring(a), (last,), None)
            for out in wires:
                into = self._same_rail(a, out.nic, b, (first,))
                self._wire(loads, (a, last, out.nic), (b, first, into.nic), share / len(wires))
            return
        if pattern == "all_to_all":
            self._exchange(loads, member, i, j, share)
            return
        for mine, theirs in zip(self._channels(member, i), self._channels(member, j), strict=True):
            assert mine.port is not None and theirs.port is not None  # several nodes
            self._leave(loads, int(member.nodes[i]), mine, mine.port, (int(member.nodes[j]), theirs.port), share, pattern)

    def _leave(
        self, loads: Loads, node: int, mine: Channel, port: Port, to: tuple[int, Port], share: float, pattern: Pattern
    ) -> None:
        """A channel's way out: from its last GPU, by way of the NIC's own GPU (PXN), or by that last GPU's own NIC."""
        there, theirs = to
        wiring, part = self.cluster.wiring(node), share * mine.share
        last = mine.order[-1] if pattern == "ring" else port.gpu
        beside = last == port.gpu or wiring.gpus[last].pcie == wiring.nics[port.nic].pcie
        nic, gpu = port.nic, last
        if not beside and not self.socket and wiring.scale_up.kind != "none":
            if self.settings.pxn:
                self._hop(loads, node, last, port.gpu, part)
                gpu = port.gpu
            else:
                nic = ports(wiring, (last,), None)[0].nic
        self._wire(loads, (node, gpu, nic), (there, theirs.gpu, theirs.nic), part)

    def _exchange(self, loads: Loads, member: Member, i: int, j: int, share: float) -> None:
        """All-to-all between two nodes: by PXN over the NIC on the rail of whom it is for, else over one's own."""
        a, b = int(member.nodes[i]), int(member.nodes[j])
        there = member.local(j)
        for gpu in member.local(i):
            own = ports(self.cluster.wiring(a), (gpu,), self.settings.nics_at(a))
            for k, peer in enumerate(there):
                into = ports(self.cluster.wiring(b), (peer,), self.settings.nics_at(b))[0]
                out = self._same_rail(b, into.nic, a, member.local(i)) if self.settings.pxn else own[k % len(own)]
                if self.settings.pxn and out.gpu != gpu and not self.socket:
                    self._hop(loads, a, gpu, out.gpu, share)
                self._wire(loads, (a, out.gpu if self.settings.pxn else gpu, out.nic), (b, peer, into.nic), share)

    def _same_rail(self, node: int, nic: int, there: int, gpus: tuple[int, ...]) -> Port:
        """Of the NICs of these GPUs on the node `there`, the one on the rail of `nic`, else the first."""
        rail = self.cluster.wiring(node).nics[nic].rail
        wiring = self.cluster.wiring(there)
        found = ports(wiring, gpus, self.settings.nics_at(there))
        return next((p for p in found if wiring.nics[p.nic].rail == rail), found[0])

    def _wire(self, loads: Loads, a: tuple[int, int, int], b: tuple[int, int, int], share: float) -> None:
        """From (node, GPU, NIC) to another, with what each end's host takes of it."""
        if self.socket:
            self._tcp(loads, a, b, share)
            return
        off = [self._detour(loads, end, side, share) for end, side in ((a, "out"), (b, "in"))]
        path = self.cluster.path(a[:2], b[:2], a[2], b[2], through_host=off[0])
        if off[0] != off[1]:
            other = self.cluster.path(a[:2], b[:2], a[2], b[2], through_host=off[1])
            cut, far = _first_cable(path), _first_cable(other)
            path = path[:cut] + other[far:]
        loads.add(path, share)

    def _detour(self, loads: Loads, end: tuple[int, int, int], side: str, share: float) -> bool:
        """Does this end go through its host? Then the NIC waits for it at each chunk, at a rate that was measured."""
        node, _, nic = end
        usable = self.tables.usable
        off, up = self.settings.gpudirect_off(node, nic), self.settings.redirected_at(node)
        if off or up:
            line = self.cluster.wiring(node).nic_bytes_per_s
            left = self.settings.gpudirect_fraction if off else self.settings.redirected_fraction
            most = (usable.no_gpudirect_gbps if off else usable.redirected_gbps) * 1e9
            rate = min(line, most) if left is None else line * left
            loads.limit(f"node{node}/nic{nic}/host:{side}", share / rate)
        return off or up

    def _tcp(self, loads: Loads, a: tuple[int, int, int], b: tuple[int, int, int], share: float) -> None:
        """Kernel TCP: over the host's memory, at what its sockets do or the port does."""
        cluster, ramp = self.cluster, self.tables.ramp["socket"]
        for (node, gpu, _), side in ((a, "out"), (b, "in")):
            wiring = cluster.wiring(node)
            line = self.transport.front_end_bytes_per_s or wiring.nic_bytes_per_s * max(1, len(wiring.nics))
            left = self.settings.socket_fraction
            own = wiring.nic_bytes_per_s * max(1, len(wiring.nics))
            rate = min(line, (ramp.node_gbps or 1e6) * 1e9) if left is None else own * left
            loads.limit(f"node{node}/tcp:{side}", share / rate)
            slot = wiring.to_host(f"node{node}", gpu)
            loads.add([cluster.odd_links.get(link.name, link) for link in slot] if side == "out" else [], share)


def _first_cable(path: list[Link]) -> int:
    return next(i for i, link in enumerate(path) if link.kind == "cable")
