"""Which algorithm and protocol would NCCL take, and what bandwidth and latency does it expect of them?

NCCL's own cost model: for each pair a latency and a bandwidth from tables, the least latency + bytes / bandwidth is taken. It
ranks; it is no clock (times are in `model`). NCCL does not see weak links, so the choice does not either. Bytes a second and ns
here, GB/s and us in the tables. Not modelled: tuner plug-ins, and that NCCL's search finds other rings on an odd topology.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stepscope.catalog.nccl import HopLatency, NcclTables, Triple
from stepscope.simulator.nccl.candidate import NVLS_HEADS, PROTOCOLS, SIMPLE, Candidate, Op, Shape, steps
from stepscope.simulator.nccl.settings import Algorithm, NcclSettings


def candidates(op: Op, shape: Shape, tables: NcclTables, settings: NcclSettings) -> list[Candidate]:
    """What NCCL may take for that operation, what is forced considered; never empty."""
    found = _point_to_point(op, shape, tables) if op in ("all_to_all", "send_recv") else _all(op, shape, tables, settings)
    if settings.channels is not None:
        found = [_fewer(c, settings.channels) for c in found]
    return found


def choose(found: list[Candidate], shape: Shape, tables: NcclTables, sizes: NDArray[np.float64]) -> NDArray[np.int64]:
    """Index of the candidate that NCCL takes at each size (bytes), shape of `sizes`."""
    costs = []
    for c in found:
        rate = np.full(sizes.shape, c.bytes_per_s)
        if c.algorithm == "tree":
            table = getattr(tables.tree_factor, c.protocol.lower())
            at = np.clip(np.floor(np.log2(np.maximum(sizes, 64.0) / 64.0)).astype(np.int64), 0, len(table) - 1)
            rate = rate * np.asarray(table)[at]
        costs.append(c.latency_ns + sizes / rate * 1e9)
    best: NDArray[np.int64] = np.argmin(np.stack(costs), axis=0)
    return best


def _all(op: Op, shape: Shape, tables: NcclTables, settings: NcclSettings) -> list[Candidate]:
    found = [c for p in range(3) for c in (_ring(op, shape, tables, p), *_tree(op, shape, tables, p)) if c.bytes_per_s > 0]
    found += [*_nvls(op, shape, tables, settings), *_pat(op, shape, tables)]
    if settings.algorithm == "collnet":
        found += _collnet(op, shape, tables)
    if not _ll128(shape):
        found = [c for c in found if c.protocol != "LL128"]
    wanted = settings.algorithm
    kept = [c for c in found if wanted is None or _same(c.algorithm, wanted)]
    kept = kept or [c for c in found if c.algorithm == "ring"]  # NCCL keeps rings where what was asked for cannot be had
    spoken = [c for c in kept if settings.protocol in (None, c.protocol)]
    if spoken or settings.protocol is None:
        return spoken or kept
    return [c for c in found if c.algorithm == "ring" and c.protocol == settings.protocol] or kept


def _same(algorithm: Algorithm, wanted: Algorithm) -> bool:
    return algorithm == wanted or (wanted == "nvls" and algorithm == "nvlstree")


def _fewer(c: Candidate, channels: int) -> Candidate:
    """A channel is one block of the GPU and carries its share, so fewer of them carry less."""
    if channels >= c.channels:
        return c
    return Candidate(c.algorithm, c.protocol, channels, c.latency_ns, c.bytes_per_s * channels / c.channels)


def _ll128(shape: Shape) -> bool:
    """LL128 needs NVLink, and on several GPUs a node a network that reaches them by their own switch."""
    return shape.scale_up == "switch"


def inter_gbps(shape: Shape, tables: NcclTables) -> float:
    """GB/s that NCCL's search gives a NIC: the first speed of its list that fits."""
    speeds = tables.rates(shape.generation).inter
    return next((s for s in speeds if s <= shape.nic_gbps), shape.nic_gbps)


def _bus(shape: Shape, tables: NcclTables) -> tuple[float, int]:
    """GB/s of all rings together, and how many channels they have."""
    rates = tables.rates(shape.generation)
    inside = rates.ring_bus if shape.scale_up == "switch" else shape.scale_up_gbps or math.inf
    if shape.nodes == 1:
        return inside, rates.ring_channels
    across = shape.nics * inter_gbps(shape, tables)
    channels = min(64, max(2 * shape.nics, 16 if shape.generation in ("hopper", "blackwell") and shape.nics >= 8 else 2))
    return (min(inside, across) if shape.per_node > 1 else across), channels


def _hops(shape: Shape, tables: NcclTables) -> tuple[HopLatency, HopLatency]:
    return (tables.pci_us if shape.scale_up == "none" else tables.nvlink_us), tables.net_us


def _column(table: Triple, shape: Shape) -> float:
    return table[min(shape.nodes, 3) - 1]


def _ll_max(shape: Shape, tables: NcclTables) -> float:
    """The row is the GPU's on one node, the host processor's on several (a quirk of NCCL's that is kept)."""
    row = shape.generation if shape.nodes == 1 else "ampere" if shape.processor == "amd" else "volta"
    return _column(tables.rates(row).ll_max, shape)


def _ring(op: Op, shape: Shape, tables: NcclTables, p: int) -> Candidate:
    bus, channels = _bus(shape, tables)
    rules, rates = tables.rules, tables.rates(shape.generation)
    rate = (
        min(_ll_max(shape, tables), bus * rules.ll_share),
        min(bus * rules.ll128_share, channels * rates.ll128_channel),
        bus,
    )[p]
    inside, net = _hops(shape, tables)
    hop, far = inside.ring[p], (net.tree if shape.per_node == 1 else net.ring)[p]
    if shape.nodes > 1:
        post = getattr(tables.post_us, shape.processor) * (tables.post_us.simple_times if p == SIMPLE else 1)
        hop = max(hop, post)
    times = 2 if op == "all_reduce" else 1
    many = shape.ranks if op == "broadcast" else times * (shape.ranks - 1)
    crossings = times * (shape.nodes - 1)
    latency = tables.base_us.ring[p] + max(many - crossings, 0) * hop + crossings * far
    if op == "all_reduce" and shape.nodes > 1 and p == SIMPLE:
        latency *= tables.post_us.plateau_times
    return Candidate("ring", PROTOCOLS[p], channels, latency * 1e3, rate * 1e9 / steps(op, shape.ranks))


def _tree(op: Op, shape: Shape, tables: NcclTables, p: int) -> list[Candidate]:
    if op != "all_reduce":
        return []
    bus, channels = _bus(shape, tables)
    rules, rates = tables.rules, tables.rates(shape.generation)
    rate = min(bus * rules.tree_share, channels * _column(rates.tree_channel, shape))
    if p == 0:
        rate = min(rate / rules.tree_ll_divisor, _ll_max(shape, tables))
    elif p == 1:
        share = rules.tree_ll128_one_node if shape.nodes == 1 else rules.tree_ll128
        rate = min(rate * share, channels * _column(rates.tree_ll128_channel, shape)) * rules.tree_ll128_plain
    inside, net = _hops(shape, tables)
    hops = (shape.per_node - 1) * inside.tree[p] + math.floor(math.log2(shape.nodes)) * net.tree[p]
    return [Candidate("tree", PROTOCOLS[p], channels, (tables.base_us.tree[p] + 2 * hops) * 1e3, rate * 1e9 / 2)]


def nvls_gbps(per_node: int, shape: Shape, tables: NcclTables) -> float:
    """busbw inside a node: NCCL's figure for eight GPUs, for fewer what bytes on links, 1 + 1/k each way, allow."""
    rates, full = tables.rates(shape.generation), 8
    whole = 2 * rates.nvls_bus * rates.nvls_share * (full - 1) / full
    each = whole * (full + 1) / (2 * (full - 1))
    return min(whole, 2 * each * (per_node - 1) / (per_node + 1))


def _nvls(op: Op, shape: Shape, tables: NcclTables, settings: NcclSettings) -> list[Candidate]:
    rates = tables.rates(shape.generation)
    if op != "all_reduce" or not (settings.nvls and settings.p2p) or shape.scale_up != "switch" or not rates.nvls_bus:
        return []
    if shape.nodes > 1 and (not settings.gpudirect or shape.socket):
        return []  # assumed: what was measured without GPUDirect, and over TCP, is what rings give
    if shape.per_node < (2 if settings.algorithm in ("nvls", "nvlstree") else rates.nvls_least):
        return []
    inside, net = _hops(shape, tables)
    intra = nvls_gbps(shape.per_node, shape, tables)
    convert = 1e9 / steps(op, shape.ranks)
    if shape.nodes == 1:
        return [Candidate("nvls", "Simple", 16, inside.nvls * 1e3, intra * convert)]
    channels = min(shape.per_node, NVLS_HEADS)
    inter = min(shape.nics, channels) * inter_gbps(shape, tables) * (2 if shape.nodes <= 2 else 1)
    bus = min(intra, inter, channels * _column(rates.nvls_tree_channel, shape))
    latency = inside.nvlstree + 2 * math.floor(math.log2(shape.nodes)) * net.nvlstree
    return [Candidate("nvlstree", "Simple", channels, latency * 1e3, bus * convert)]


def _collnet(op: Op, shape: Shape, tables: NcclTables) -> list[Candidate]:
    """Reduction in the switches (SHARP): with NVLS inside where there is one, else CollNetDirect. Only when asked for."""
    if op != "all_reduce" or shape.nodes == 1:
        return []
    inside, net = _hops(shape, tables)
    across = shape.nics * inter_gbps(shape, tables)
    if tables.rates(shape.generation).nvls_bus and shape.scale_up == "switch" and shape.per_node > 1:
        rate = min(nvls_gbps(shape.per_node, shape, tables), across) / steps(op, shape.ranks)
        return [Candidate("collnet", "Simple", shape.per_node, (inside.nvls + net.nvls) * 1e3, rate * 1e9)]
    ratio = max(1.0, shape.per_node / max(shape.nics, 1))
    rate = across / (ratio - (ratio - 1) / 2) / 2
    near = min(1, shape.per_node - 1) * inside.collnet + 0.4 * (shape.per_node - 1)
    return [Candidate("collnet", "Simple", max(2 * shape.nics, 2), (2 * near + net.collnet) * 1e3, rate * 1e9)]


def _pat(op: Op, shape: Shape, tables: NcclTables) -> list[Candidate]:
    if op not in ("all_gather", "reduce_scatter") or shape.per_node != 1 or shape.nodes < 2:
        return []
    bus, channels = _bus(shape, tables)
    rules = tables.rules
    hops = math.floor(math.log2(shape.nodes)) * tables.net_us.tree[SIMPLE] / rules.pat_hop_divisor
    latency = tables.base_us.pat[SIMPLE] + hops + rules.pat_rank_us * shape.ranks
    return [Candidate("pat", "Simple", channels, latency * 1e3, bus * rules.pat_share * 1e9 / steps(op, shape.ranks))]


def _point_to_point(op: Op, shape: Shape, tables: NcclTables) -> list[Candidate]:
    inside, net = _hops(shape, tables)
    rates = tables.rates(shape.generation)
    near = rates.ring_bus if shape.scale_up == "switch" else shape.scale_up_gbps or math.inf
    if shape.nodes == 1:
        rate, hop = near, inside.ring[SIMPLE]
    else:
        own = max(1.0, shape.nics / shape.per_node) if op == "send_recv" else tables.usable.all_to_all_nics
        rate, hop = own * inter_gbps(shape, tables), net.ring[SIMPLE]
    latency = tables.base_us.ring[SIMPLE] + hop
    return [Candidate("p2p", "Simple", max(shape.nics, 2), latency * 1e3, rate * 1e9 / steps(op, shape.ranks))]
