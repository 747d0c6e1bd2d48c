"""How long does a collective of these groups take on this cluster, and which link holds it back?

t = overhead + latency + sqrt(fill * transfer) + transfer: the latency is NCCL's for the algorithm it takes, the transfer what its
tables promise or what the narrowest link allows, whichever is slower, the rest a ramp fitted to measurements, one for each class
of network. Bytes are nccl-tests' size (all-gather: what is gathered, reduce-scatter: what goes in). ns and bytes.
All groups of one axis run at once and share what they meet on. Not known: how other communicators share (see `shares`), and how
near reduce-scatter is, which hardly anybody measures.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from stepscope.catalog.gpu import Gpu
from stepscope.catalog.nccl import NcclTables, generation_of, nccl_tables
from stepscope.catalog.system import System
from stepscope.model.cluster import Cluster
from stepscope.model.errors import UsageMistake
from stepscope.simulator.nccl.candidate import Candidate, Op, Shape, bus_factor, steps
from stepscope.simulator.nccl.groups import Groups, Member, member
from stepscope.simulator.nccl.kinds import Kinds, kinds_of, odd_nodes
from stepscope.simulator.nccl.loads import Loads, Machine
from stepscope.simulator.nccl.neighbours import Pattern
from stepscope.simulator.nccl.settings import NcclSettings
from stepscope.simulator.nccl.timing import Floats, Stretch, Timing
from stepscope.simulator.nccl.transport import Transport
from stepscope.simulator.nccl.tuning import candidates, choose

OPS: Final = ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "all_to_all", "send_recv")
FREE: Final = NcclSettings()
INFINIBAND: Final = Transport()
_SIZES: Final = 2.0 ** np.arange(3, 43, 0.25)


@dataclass(frozen=True, slots=True)
class _Laid:
    """A pattern laid for all kinds of groups: seconds per byte [kinds], where, and the most loaded NVLink and NIC."""

    seconds: Floats
    where: tuple[str, ...]
    scale_up: float
    nic: float


_Known = dict[int, tuple[dict[tuple[int, ...], Loads], Loads]]
"""By node: loads of each of its groups, by their GPUs there, and of all together."""


class Collectives:
    """Times of collectives on one cluster; asked again, it remembers. `ranks` is the job's world, by default all of it."""

    def __init__(
        self,
        cluster: Cluster,
        gpu: Gpu,
        settings: NcclSettings = FREE,
        ranks: int | None = None,
        transport: Transport = INFINIBAND,
        tables: NcclTables | None = None,
    ) -> None:
        self.cluster, self.gpu, self.settings, self.transport = cluster, gpu, settings, transport
        self.ranks = cluster.world_size if ranks is None else ranks
        self.tables = tables or nccl_tables()
        socket = settings.network == "socket" or transport.ramp_class == "socket"
        across = self.tables.ramp["socket" if socket else transport.ramp_class]
        self._machine = Machine(cluster, settings, transport, self.tables, across, socket)
        self._odd = odd_nodes(cluster, settings)
        self._kinds: dict[Groups, Kinds] = {}
        self._laid: dict[tuple[Groups, Pattern], _Laid] = {}
        self._plans: dict[tuple[str, Groups], tuple[Stretch, ...]] = {}
        self._times: dict[tuple[str, int, Groups], Timing] = {}

    @classmethod
    def of(cls, system: System, cluster: Cluster, settings: NcclSettings = FREE, ranks: int | None = None) -> Collectives:
        """For a system of the catalog and a cluster made of it, a sick one perhaps."""
        return cls(cluster, system.the_gpu, settings, ranks, Transport.of(system))

    def time(self, op: str, nbytes: int, groups: Groups) -> Timing:
        """Time of one operation in every group when nothing else uses the links. UsageMistake for an unknown operation."""
        key = (op, nbytes, groups)
        found = self._times.get(key)
        if found is None:
            found = self._times[key] = self._time(op, nbytes, groups)
        return found

    def link_bytes(self, op: str, nbytes: int, groups: Groups) -> dict[str, float]:
        """Payload bytes on every link, all groups together, each edge once: for small worlds and tests."""
        plan = self._plan(op, groups)
        if not plan:
            return {}
        taken = plan[bisect_right(plan, float(nbytes), key=_start) - 1].taken
        pattern, times = _pattern(op, taken), _times(op, taken, groups.size)
        total: dict[str, float] = {}
        for g in range(groups.count):
            whole = self._machine.whole(member(groups, g, self.cluster.gpus_per_node), pattern)
            for name, (_, share) in whole.links.items():
                total[name] = total.get(name, 0.0) + share * times * nbytes
        return total

    def shares(self, a: Groups, b: Groups, op_a: str = "all_gather", op_b: str = "all_gather") -> float:
        """How much of the narrowest place of rank 0's group in `a` its group in `b` also wants: 1 the same place, 0 none.

        Both at large sizes. A place's want is its time relative to that of the group's narrowest place.
        """
        mine, theirs = self._wants(op_a, a), self._wants(op_b, b)
        return max((min(want, theirs[name]) for name, want in mine.items() if name in theirs), default=0.0)

    def links_used(self, op: str, groups: Groups) -> dict[str, float]:
        """Places that the group of rank 0 uses on its first node, with the share of its time each is busy, in 0..1."""
        return self._wants(op, groups)

    def _wants(self, op: str, groups: Groups) -> dict[str, float]:
        taken = self._plan(op, groups)[-1].taken
        first = int(np.maximum(groups.group_of_ranks()[0], 0)) if groups.listed else 0
        one = member(groups, first, self.cluster.gpus_per_node)
        own, all_ = self._at(groups, one, 0, _pattern(op, taken), {})
        spent = dict(self._machine.spent(own, all_))
        most = max(max(spent.values(), default=0.0), 1e-30)
        return {name: seconds / most for name, seconds in spent.items()}

    def _time(self, op: str, nbytes: int, groups: Groups) -> Timing:
        if nbytes < 0:
            raise UsageMistake(f"{op} of {nbytes} bytes: give 0 bytes or more")
        kind, plan = self._kinds_of(groups).kind, self._plan(op, groups)
        if groups.size == 1 or nbytes == 0:
            zero = np.zeros(groups.count)
            return Timing(zero, zero, zero, "none", "none", 0, kind, (None,) * (1 + int(kind.max())), 0.0, 0.0)
        it = plan[bisect_right(plan, float(nbytes), key=_start) - 1]
        ns = it.ns(nbytes)[kind]
        taken = it.taken
        return Timing(
            ns,
            np.full(len(ns), it.fixed_ns),
            bus_factor(cast(Op, op), groups.size) * nbytes * 1e9 / ns,
            taken.algorithm,
            taken.protocol,
            taken.channels,
            kind,
            it.held,
            it.scale_up * nbytes,
            it.nic * nbytes,
        )

    def _plan(self, op: str, groups: Groups) -> tuple[Stretch, ...]:
        key = (op, groups)
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = self._planned(op, groups)
        return found

    def _planned(self, op: str, groups: Groups) -> tuple[Stretch, ...]:
        if op not in OPS:
            raise UsageMistake(f"{op}: no such collective; known: {', '.join(OPS)}")
        kinds = self._kinds_of(groups)
        if groups.size == 1:
            return ()
        shape = self._shape(groups)
        found = candidates(cast(Op, op), shape, self.tables, self.settings)
        best = choose(found, shape, self.tables, _SIZES)
        first = [0, *(np.flatnonzero(np.diff(best)) + 1).tolist()]
        ramp = self.tables.ramp["nvlink"] if len(kinds.members[0].nodes) == 1 else self._machine.across
        stretches: list[Stretch] = []
        for i in first:
            taken = found[int(best[i])]
            start = float(_SIZES[i]) if i else 0.0
            laid, times = self._lay(groups, _pattern(op, taken)), _times(op, taken, groups.size)
            links, own = laid.seconds * _wire(taken, self.tables) * times, 1 / taken.bytes_per_s
            stretches.append(
                Stretch(
                    start,
                    taken,
                    np.maximum(links, own) * 1e9,
                    tuple(where if s > own else None for s, where in zip(links.tolist(), laid.where, strict=True)),
                    stretches[-1].ns(start) if stretches else np.zeros(len(links)),
                    ramp.overhead_us * 1e3 + taken.latency_ns,
                    ramp.fill_us * 1e3,
                    laid.scale_up * times,
                    laid.nic * times,
                )
            )
        return tuple(stretches)

    def _shape(self, groups: Groups) -> Shape:
        one = self._kinds_of(groups).members[0]
        node, port = self.cluster.node, self.gpu.scale_up
        kind = "none" if not self.settings.p2p and not self.settings.p2p_on else node.scale_up.kind
        if kind == "none":
            inside = node.pcie_bytes_per_s / 1e9 * (self.tables.usable.host_copy if not self.settings.p2p else 1.0)
            if self.settings.p2p_fraction is not None:
                inside = math.inf  # the links of the way say it
        else:
            inside = (0.0 if port is None else port.gbps) * self.tables.usable.scale_up
        nics = len(self._machine.nics(one, 0)) if len(one.nodes) > 1 else 0
        return Shape(
            ranks=groups.size,
            nodes=len(one.nodes),
            per_node=one.per_node,
            nics=nics,
            nic_gbps=node.nic_bytes_per_s / 1e9,
            scale_up=kind,
            scale_up_gbps=inside or None,
            generation=generation_of(self.gpu.arch),
            processor=self.transport.processor,
            socket=self._machine.socket,
        )

    def _lay(self, groups: Groups, pattern: Pattern) -> _Laid:
        key = (groups, pattern)
        found = self._laid.get(key)
        if found is not None:
            return found
        seconds, where, up, nic = [], [], 0.0, 0.0
        kinds, known = self._kinds_of(groups), _Known()
        for k, (one, looked) in enumerate(zip(kinds.members, kinds.looked_at, strict=True)):
            worst = (0.0, "")
            for i in looked:
                own, all_ = self._at(groups, one, i, pattern, known)
                worst = max(worst, *((s, name) for name, s in self._machine.spent(own, all_)))
                if k == 0:
                    up, nic = max(up, _most(own, "scale_up")), max(nic, _most(all_, "cable"))
            seconds.append(worst[0])
            where.append(worst[1])
        self._laid[key] = found = _Laid(np.asarray(seconds), tuple(where), up, nic)
        return found

    def _at(self, groups: Groups, one: Member, i: int, pattern: Pattern, known: _Known) -> tuple[Loads, Loads]:
        """Loads of one group at its i-th node, and of all groups there: those of an axis run at the same time."""
        node, per = int(one.nodes[i]), self.cluster.gpus_per_node
        if node not in known:
            each: dict[tuple[int, ...], Loads] = {}
            all_ = Loads()
            for g in groups.groups_of(np.arange(node * per, (node + 1) * per)).tolist():
                other = member(groups, g, per)
                at = int(np.flatnonzero(other.nodes == node)[0])
                each[other.local(at)] = self._machine.at_node(other, at, pattern)
                all_.join(each[other.local(at)])
            known[node] = each, all_
        each, all_ = known[node]
        return each[one.local(i)], all_

    def _kinds_of(self, groups: Groups) -> Kinds:
        found = self._kinds.get(groups)
        if found is None:
            if groups.world > self.cluster.world_size:
                has = f"{self.cluster.name} with {self.cluster.nodes} nodes has {self.cluster.world_size} GPUs"
                raise UsageMistake(f"groups over {groups.world} ranks: {has}; take more nodes")
            found = self._kinds[groups] = kinds_of(groups, self.cluster, self._odd)
        return found


def _start(stretch: Stretch) -> float:
    return stretch.start


def _pattern(op: str, taken: Candidate) -> Pattern:
    """How the bytes of an operation run."""
    if taken.algorithm == "p2p":
        return "all_to_all" if op == "all_to_all" else "send_recv"
    return "ring" if taken.algorithm == "pat" else cast(Pattern, taken.algorithm)


def _times(op: str, taken: Candidate, ranks: int) -> float:
    """What a pattern's loads, laid for one byte an edge, are multiplied with."""
    if taken.algorithm in ("ring", "pat"):
        return steps(cast(Op, op), ranks)
    return 1.0


def _wire(taken: Candidate, tables: NcclTables) -> float:
    found: float = getattr(tables.wire, taken.protocol.lower())
    return found


def _most(loads: Loads, kind: str) -> float:
    """Most bytes that a link of that kind carries out of a node or a GPU."""
    return max((s for link, s in loads.links.values() if link.kind == kind), default=0.0)
