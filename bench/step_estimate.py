"""How long is a step, by arithmetic alone? A check on the engine, and what the kernels were first calibrated with.

A unit takes max(C + g min(C, X), X), C its kernels and X its collectives; the first gather and the last reduction are exposed.
Pipelines take the bubble of 1F1B. Bandwidths are what rings of nccl-tests reach on such machines, GB/s of the whole message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from training_rows import Setup

from stepscope.catalog.efficiency import Efficiency
from stepscope.catalog.gpu import load_gpu
from stepscope.catalog.stack import Stack
from stepscope.simulator.kernels.compute import StepKernels, step_kernels

BUS_GBPS: Final = {
    # system: (inside a node, across nodes), rings of large all-gathers
    "dgx-a100": (230.0, 180.0),
    "p4d": (230.0, 40.0),
    "hgx-h100": (360.0, 330.0),
    "nd-h100-v5": (360.0, 330.0),
    "hgx-h200": (360.0, 330.0),
    "hgx-b200": (650.0, 360.0),
    "p5": (360.0, 200.0),
    "a3-mega": (360.0, 160.0),
    "dgx-1v": (120.0, 40.0),
    "nd-mi300x-v5": (310.0, 300.0),
    "l40s-pcie": (20.0, 10.0),
}
SOCKET_GBPS: Final = 3.2
HOP_NS: Final = (6_000.0, 12_000.0)
ASYNC_EXPOSED: Final = 0.4


@dataclass(frozen=True, slots=True)
class Wire:
    """What a group of ranks can carry: bytes per ns of bus bandwidth, and a start."""

    ranks: int
    bus: float
    start_ns: float

    def gather_ns(self, nbytes: float) -> float:
        """All-gather or reduce-scatter of so many bytes over all ranks."""
        return 0.0 if self.ranks <= 1 else (self.ranks - 1) / self.ranks * nbytes / self.bus + self.start_ns

    def reduce_ns(self, nbytes: float) -> float:
        """All-reduce."""
        return 2 * self.gather_ns(nbytes)


def wire(setup: Setup, ranks: int, stride: int) -> Wire:
    """The group of every `stride`th rank."""
    inside, across = BUS_GBPS[setup.system]
    if setup.socket:
        across = SOCKET_GBPS
    apart = ranks * stride > 8
    sharing = min(stride, 8) if apart else 1  # groups side by side share the node's NICs
    return Wire(ranks, (across / sharing if apart else inside), HOP_NS[apart] * (1 + ranks / 64 * apart))


def step_s(setup: Setup, stack: Stack, efficiency: Efficiency | None = None) -> float:
    """Seconds of one step."""
    plan = setup.plan
    if setup.alternate:
        from dataclasses import replace

        import msgspec

        halves = (
            step_s(replace(setup, alternate=False, plan=msgspec.structs.replace(plan, ac=ac)), stack, efficiency)
            for ac in ("none", "full")
        )
        return sum(halves) / 2
    shape = setup.shape
    # Megatron and torchtitan give stages equal layers and the last one the output product on top; nanotron weighs it in
    layers = shape.layers / setup.pp if setup.stack == "nanotron" else -(-shape.layers // setup.pp)
    total = shape.parameters(plan.seq) / plan.tp / setup.pp
    data = plan.data_ranks * plan.cp
    sharded = plan.shard * plan.cp if plan.strategy in ("fsdp", "hsdp") else data if plan.strategy == "zero1" else 1
    k = step_kernels(
        shape,
        micro_batch=plan.mbs,
        seq=plan.seq or shape.context,
        gpu=load_gpu(setup.gpu),
        stack=stack,
        parameters=round(total / sharded),
        tp=plan.tp,
        cp=plan.cp,
        ac=plan.ac,
        precision=plan.precision,
        efficiency=efficiency,
    )
    tensor_f, tensor_b = _tensor(setup)
    forward = _unit(k.layer_forward) + tensor_f
    backward = _unit(k.layer_backward) + tensor_b
    ends = sum(_unit(s) for s in (k.embedding_forward, k.head_forward, k.head_backward, k.embedding_backward))
    if setup.stack == "nanotron":
        ends /= setup.pp
    update = _unit(k.optimizer) + _unit(k.clip)
    if plan.strategy in ("fsdp", "hsdp"):
        micro, tail = _sharded(setup, k, forward, backward, ends, layers)
        step = plan.ga * micro + tail
    else:
        micro = layers * (forward + backward) + ends
        step = plan.ga * micro + _replicated(setup, total, k.slowdown, layers * backward)
    bubble = (setup.pp - 1) / setup.virtual * (layers * (forward + backward) + ends)
    return (step + bubble + update + k.step_host_ns) / 1e9


def _unit(segment: object) -> float:
    from stepscope.simulator.kernels.segment import Segment

    assert isinstance(segment, Segment)
    return max(float(segment.total_ns()), segment.host_ns)


def _tensor(setup: Setup) -> tuple[float, float]:
    """Exposed tensor-parallel collectives of a layer, forward and backward."""
    plan = setup.plan
    if plan.tp == 1:
        return 0.0, 0.0
    lane = wire(setup, plan.tp, 1)
    e = plan.mbs * (plan.seq or 0) / plan.cp * setup.shape.hidden * 2
    each = lane.gather_ns(e) * (ASYNC_EXPOSED if setup.async_tp else 1.0)
    again = 4 * each if plan.ac == "full" else 2 * each if plan.ac == "selective" else 0.0
    return 4 * each, 4 * each + again


def _sharded(setup: Setup, k: StepKernels, forward: float, backward: float, ends: float, layers: float) -> tuple[float, float]:
    plan, shape, g = setup.plan, setup.shape, k.slowdown
    lane = wire(setup, plan.shard * plan.cp, plan.tp)
    unit = shape.layer_parameters() / plan.tp
    root = (shape.parameters(plan.seq) - shape.layers * shape.layer_parameters()) / plan.tp
    width = 4 if plan.reduce == "fp32" else 2
    gather, reduce = lane.gather_ns(2 * unit), lane.gather_ns(width * unit)
    again = gather if plan.reshard else 0.0
    micro = layers * (_overlap(forward, gather, g) + _overlap(backward, again + reduce, g)) + ends
    micro += lane.gather_ns(2 * root) + lane.gather_ns(width * root)
    tail = 0.0
    if plan.replicate > 1:
        tail = wire(setup, plan.replicate, plan.shard * plan.tp).reduce_ns(width * root / plan.shard)
    return micro, tail


def _replicated(setup: Setup, parameters: float, g: float, backward: float) -> float:
    plan = setup.plan
    lane = wire(setup, plan.data_ranks, plan.tp)
    if plan.strategy == "zero1":
        return lane.gather_ns(4 * parameters) + lane.gather_ns(2 * parameters)
    reduce = lane.reduce_ns(4 * parameters)
    return max(0.0, reduce - backward) + g * min(reduce, backward)


def _overlap(compute: float, wire_ns: float, g: float) -> float:
    return max(compute + g * min(compute, wire_ns), wire_ns)
