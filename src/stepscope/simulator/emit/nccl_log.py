"""What NCCL would have logged on a rank with NCCL_DEBUG=INFO and INIT, NET, GRAPH, ENV, TUNING: what it saw and what it chose.

It sees slots, speeds that ports trained at and its environment. It does not see a cable that carries less than it says, a clock,
or who is late. Rings are those that the simulator lays; the search's own tables are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

from stepscope.simulator.costs import Prepared, axes
from stepscope.simulator.emit import nccl_trees as trees
from stepscope.simulator.emit.inventory import CUDA, NCCL, ProcessGroup, local, pid
from stepscope.simulator.emit.nccl_system import environment, seen, short_bus
from stepscope.simulator.job import Job
from stepscope.simulator.nccl.groups import Groups, Member, member
from stepscope.simulator.nccl.ring import Channel, channels, ports
from stepscope.simulator.signals.ports import port_state, trained_gbit
from stepscope.simulator.signals.traffic import is_socket

PORT: Final = 48_211  # of the peer's listening socket: any
FUNCTIONS: Final = {"all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "all_reduce": "AllReduce"}
ALGORITHMS: Final = {"ring": "RING", "tree": "TREE", "nvls": "NVLS", "nvlstree": "NVLS_TREE", "collnet": "COLLNET_DIRECT",
                     "pat": "PAT"}  # fmt: skip


def nccl_log(
    prepared: Prepared, rank: int, groups: Sequence[ProcessGroup], broken: frozenset[tuple[int, int]] = frozenset()
) -> str:
    """The log of one rank: its start, then every communicator that its steps use. `broken` are ports (node, NIC) that nothing
    passed any more, whose sends failed after all their retries."""
    log = _Log(prepared, rank, groups)
    return "".join(f"{line}\n" for line in (*log.lines(), *log.failed(broken)))


class _Log:
    def __init__(self, prepared: Prepared, rank: int, groups: Sequence[ProcessGroup]) -> None:
        self.prepared, self.rank, self.groups = prepared, rank, groups
        self.job: Job = prepared.job
        self.node, self.gpu = self.job.cluster.at(rank)
        self.wiring = self.job.cluster.wiring(self.node)
        self.socket = is_socket(self.job)
        own = pid(self.job, rank)
        self.head = f"node{self.node}:{own}:{own} [{local(self.job, rank)}] NCCL INFO "

    def lines(self) -> Iterator[str]:
        """All of them."""
        for text in self._start():
            yield self.head + text
        if self.rank == 0:
            yield f"NCCL version {NCCL}+cuda{CUDA}"
        for group in self.groups:
            if self.rank in group.ranks and group.axis in self._used():
                for text in self._communicator(group):
                    yield self.head + text

    def failed(self, broken: frozenset[tuple[int, int]]) -> Iterator[str]:
        """Completions with an error, on the ranks that use such a port."""
        for nic in self.wiring.gpus[self.gpu].nics:
            if (self.node, nic) in broken and not self.socket:
                peer = _address((self.node + 1) % max(self.job.cluster.nodes, 1))
                what = f"NET/IB: Got completion from peer {peer}<{PORT}> with status=IBV_WC_RETRY_EXC_ERR(12)"
                where = f"opcode=IBV_WC_RDMA_WRITE(1) vendor_err=129 hca {self.wiring.nics[nic].name}"
                yield f"{self.head.removesuffix('INFO ')}WARN {what} {where}"

    def _used(self) -> dict[str, list[tuple[str, int]]]:
        """By axis the distinct calls of a step, in order."""
        found: dict[str, list[tuple[str, int]]] = {}
        for op in self.prepared.work.program.ops:
            if op.kind == "collective" and op.comm is not None:
                calls = found.setdefault(op.comm.axis, [])
                if (op.name, op.nbytes) not in calls:
                    calls.append((op.name, op.nbytes))
        return found

    def _start(self) -> Iterator[str]:
        yield f"Bootstrap: Using eth0:{_address(self.node)}<0>"
        yield f"cudaDriverVersion {int(CUDA.split('.')[0]) * 1000 + int(CUDA.split('.')[1]) * 10}"
        for name, value in environment(self.job.nccl, self.node, self.job).items():
            yield f"{name} set by environment to {value}."
        yield from self._network()

    def _network(self) -> Iterator[str]:
        address = _address(self.node)
        kind = self.job.transport.kind
        plugin = {"efa": "libnccl-net-ofi.so", "tcpx": "libnccl-net-gpudirecttcpx.so", "tcpxo": "libnccl-net-fastrak.so"}.get(
            kind
        )
        if self.socket:
            yield "NET/Plugin: Could not find: libnccl-net.so"
            if self.job.transport.ramp_class != "socket":
                yield "NET/IB : No device found."
            yield f"NET/Socket : Using [0]eth0:{address}<0>"
            yield "Initialized NET plugin Socket"
            yield "Using network Socket"
            return
        yield f"NET/Plugin: Loaded net plugin {plugin} (v10)" if plugin else "NET/Plugin: Could not find: libnccl-net.so"
        layer = "IB" if kind == "infiniband" else "RoCE"
        most = self.job.nccl.nics_at(self.node)
        listed: list[str] = []
        for number, nic in enumerate(range(len(self.wiring.nics))[:most]):
            state, name = port_state(self.job, self.node, nic), self.wiring.nics[nic].name
            if not state.up:
                continue
            speed = round(trained_gbit(self.job, state) * 1000)
            yield f"NET/IB: [{number}] {name}:1/{layer} provider=Mlx5 speed={speed} pciPath=/sys/devices/pci/{name} ar=0"
            listed.append(f"[{len(listed)}]{name}:1/{layer}")
        yield f"NET/IB : Using {' '.join(listed)} [RO]; OOB eth0:{address}<0>"
        word = {"efa": "AWS Libfabric", "tcpx": "GPUDirectTCPX", "tcpxo": "FasTrak"}.get(kind, "IB")
        yield f"Initialized NET plugin {word}"
        yield f"Using network {word}"
        if not self.job.nccl.gpudirect_off(self.node, self._own_nic() or 0):
            yield f"DMA-BUF is available on GPU device {local(self.job, self.rank)}"

    def _own_nic(self) -> int | None:
        return self.wiring.nic_of_gpu(self.gpu)

    def _communicator(self, group: ProcessGroup) -> Iterator[str]:
        job, own = self.job, group.ranks.index(self.rank)
        size, stride = axes(job.mesh, job.workload.plan)[group.axis]
        groups = Groups.regular(job.ranks, size, stride)
        number = next(g for g in range(groups.count) if self.rank in groups.ranks(g))
        one = member(groups, number, job.cluster.gpus_per_node)
        mark = hashlib.sha256(f"{job.cluster.name} {group.key}".encode()).hexdigest()
        what = (
            f"ncclCommInitRankConfig comm 0x{mark[16:28]} rank {own} nranks {size} cudaDev {self.gpu} nvmlDev {self.gpu} "
            f"busId {short_bus(job, self.node, self.gpu)} commId 0x{mark[:16]} - Init"
        )
        at = int((one.nodes == self.node).nonzero()[0][0])
        inside = one.local(at)
        yield f"{what} START"
        yield from seen(job, self.node, self.gpu)
        mnnvl = 0
        yield (
            f"comm 0x{mark[16:28]} rank {own} nRanks {size} nNodes {len(one.nodes)} localRanks {len(inside)} "
            f"localRank {inside.index(self.gpu)} MNNVL {mnnvl}"
        )
        calls = self._used()[group.axis]
        timings = [(name, nbytes, self.prepared.collectives.time(name, nbytes, groups)) for name, nbytes in calls]
        wide = max((timing.channels for _, _, timing in timings), default=0)
        yield from self._rings(one, at, group, wide)
        nvls = next((t.channels for _, _, t in timings if t.algorithm.startswith("nvls")), 0)
        yield f"{wide} coll channels, 0 collnet channels, {nvls} nvls channels, {2 * wide} p2p channels, 2 p2p channels per peer"
        yield f"{what} COMPLETE"
        for name, nbytes, timing in timings if own == 0 else ():
            algorithm = ALGORITHMS.get(timing.algorithm)
            if algorithm:
                lanes = f"{{Lo..Hi}}={{0..{timing.channels - 1}}}"
                yield f"{FUNCTIONS[name]}: {nbytes} Bytes -> Algo {algorithm} proto {timing.protocol.upper()} channel{lanes}"

    def _rings(self, one: Member, at: int, group: ProcessGroup, wide: int) -> Iterator[str]:
        """Each channel's ring and the links that this rank has in it; channels are the NICs' rings, taken over and over."""
        several = len(one.nodes) > 1
        laid = [self._laid(one, i) for i in range(len(one.nodes))]
        rings = len(laid[0])
        orders = [[_ranks(group, one, i, laid[i][c].order, self.job) for i in range(len(one.nodes))] for c in range(rings)]
        mine = group.ranks.index(self.rank)
        if mine == 0:
            for c in range(wide):
                order = " ".join(str(r) for part in orders[c % rings] for r in part)
                yield f"Channel {c:02d}/{wide:02d} : {order}"
        if wide:
            yield trees.line(orders, mine, wide)
        for c in range(wide):
            flat = [r for part in orders[c % rings] for r in part]
            place = flat.index(mine)
            before, after = flat[place - 1], flat[(place + 1) % len(flat)]
            if len(flat) < 2:
                continue
            part = orders[c % rings][at]
            channel: Channel = laid[at][c % rings]
            lane, me = f"Channel {c:02d}/0", self._peer(group, mine)
            if several and part[0] == mine:
                yield f"{lane} : {self._peer(group, before)} -> {me} [receive] via {self._net(channel)}"
            if several and part[-1] == mine:
                yield f"{lane} : {me} -> {self._peer(group, after)} [send] via {self._net(channel)}"
            else:
                yield f"{lane} : {me} -> {self._peer(group, after)} via {self._inside()}"
        yield "Connected all rings"

    def _laid(self, one: Member, i: int) -> tuple[Channel, ...]:
        node, alone = int(one.nodes[i]), len(one.nodes) == 1
        wiring = self.job.cluster.wiring(node)
        healthy = None if self.job.nccl.nics_on else self.job.nccl.nics
        rings = 1 if alone else len(ports(self.job.cluster.node, one.local(0), healthy))
        return channels(wiring, one.local(i), self.job.nccl.nics_at(node), alone, rings)

    def _peer(self, group: ProcessGroup, place: int) -> str:
        return f"{place}[{self.job.cluster.at(group.ranks[place]).gpu}]"

    def _inside(self) -> str:
        if self.job.nccl.p2p_off(self.node):
            return "SHM/direct/direct"
        return "P2P/CUMEM" if self.wiring.scale_up.kind != "none" else "P2P/IPC"

    def _net(self, channel: Channel) -> str:
        """Over which NIC, and whether it reads the GPU's memory itself: not from across a host bridge."""
        if self.socket or channel.port is None:
            return "NET/Socket/0"
        nic = channel.port.nic
        word = {"efa": "NET/AWS Libfabric", "tcpx": "NET/GPUDirectTCPX", "tcpxo": "NET/FasTrak"}.get(
            self.job.transport.kind, "NET/IB"
        )
        near = self.wiring.nics[nic].pcie == self.wiring.gpus[channel.port.gpu].pcie
        direct = near and not self.job.nccl.gpudirect_off(self.node, nic)
        owner = "" if channel.port.gpu == self.gpu else f"({self.rank - self.gpu + channel.port.gpu})"
        return f"{word}/{nic}{owner}{'/GDRDMA' if direct else ''}"


def _ranks(group: ProcessGroup, one: Member, i: int, order: tuple[int, ...], job: Job) -> list[int]:
    """Ranks of the communicator on the i-th node, in the order in which a channel visits their GPUs."""
    node = int(one.nodes[i])
    return [group.ranks.index(node * job.cluster.gpus_per_node + gpu) for gpu in order]


def _address(node: int) -> str:
    return f"10.0.{node // 250}.{node % 250 + 1}"
