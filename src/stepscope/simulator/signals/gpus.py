"""What DCGM would show of each GPU: clocks, power, heat, memory, load, bytes over NVLink and PCIe.

Power follows from how long kernels and collectives ran and at which clock, heat from power. A clock below its peers' is held
there by something: by the cap where one is set, else by heat. Not known: which kernel drew what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stepscope.catalog.telemetry import board_of, telemetry
from stepscope.simulator.engine import StepTimes
from stepscope.simulator.faults.hang import Hang
from stepscope.simulator.job import Job
from stepscope.simulator.signals.series import Array, Clockwork, Series, wobble
from stepscope.simulator.signals.traffic import Traffic, of_rank
from stepscope.simulator.simulation import Step
from stepscope.simulator.spans.patterns import patterns_of
from stepscope.simulator.work import KINDS, Work

IDLE, SOFTWARE_CAP, SOFTWARE_HEAT, HARDWARE_HEAT = 0x1, 0x4, 0x20, 0x40
"""Bits of NVML's clock event reasons."""
CLOCK_STEP_MHZ: Final = 15  # NVIDIA's clocks move in steps of 15 MHz


def gpu_series(steps: Sequence[Step], traffic: Sequence[Traffic], clock: Clockwork, hang: Hang | None = None) -> list[Series]:
    """Series of all GPUs that a rank runs on, in order of ranks."""
    job = steps[0].prepared.job
    ranks = steps[0].prepared.width
    places = [job.cluster.at(rank) for rank in range(ranks)]
    scopes = tuple(f"node{node}/gpu{gpu}" for node, gpu in places)
    shown = [_load(step, scopes, k, hang if step is steps[-1] else None) for k, step in enumerate(steps)]
    found = [Series(metric, scopes, np.stack([one[metric] for one in shown], axis=1)) for metric in shown[0]]
    found += _errors(steps, scopes, clock)
    if traffic[0].links is not None:
        found += _bytes(scopes, traffic, clock)
    return found


def _load(step: Step, scopes: tuple[str, ...], k: int, hang: Hang | None) -> dict[str, Array]:
    """Of one step: metric -> [GPUs]."""
    prepared = step.prepared
    job, ranks = prepared.job, prepared.width
    gpu, board, figures = job.gpu, board_of(job.gpu), telemetry()
    cap = 500.0 if gpu.power is None else gpu.power.cap_w
    limit = cap * np.array([job.conditions.sensed.gpu(*job.cluster.at(rank)).power_cap for rank in range(ranks)])
    computing, running = _busy(prepared.work, step.times) if hang is None else _standing(prepared.work, hang)
    fraction = of_rank(job.conditions.clock, ranks)
    model = figures.power
    drawn = (model.busy_share * computing + model.spin_share * (running - computing)) * fraction**model.clock_exponent
    power = board.idle_w + (cap - board.idle_w) * drawn
    capped = (limit < cap) & (fraction < 1)
    power = np.where(capped, limit, np.minimum(power, limit)) + _wobble("power", scopes, k, figures.heat.reading_w)
    heat = figures.heat
    warm = heat.inlet_c + heat.rise_c_per_cap * power / cap
    held = (fraction < 1) & ~capped  # nothing but heat holds it: it is as hot as a board may be
    core = np.where(held, heat.slowdown_c, warm) + _wobble("gpu_temperature", scopes, k, heat.reading_c / 2)
    reasons = np.where(capped, SOFTWARE_CAP, np.where(held, SOFTWARE_HEAT | HARDWARE_HEAT, np.where(running < 0.01, IDLE, 0)))
    clock = np.floor(gpu.clock.boost_mhz * fraction / CLOCK_STEP_MHZ + 0.5) * CLOCK_STEP_MHZ * 1e6
    seconds = np.maximum(step.times.host_end - step.times.host_start, 1.0) / 1e9
    peak = gpu.peak_flops("fp16" if job.workload.plan.precision == "fp16" else "bf16") or gpu.peak_flops("fp16")
    found = {
        "sm_clock": clock,
        "memory_clock": np.rint(board.memory_mhz * of_rank(job.conditions.hbm, ranks)) * 1e6,
        "gpu_temperature": np.rint(core),
        "memory_temperature": np.rint(core + heat.memory_above_c),
        "power": np.round(power, 3),
        "power_limit": limit,
        "clock_reasons": reasons.astype(float),
        "gpu_utilization": np.minimum(np.rint(running * 100) / 100, 1.0),
        "sm_active": np.round(computing, 4),
        "pcie_width": _lanes(job, ranks),
        "pcie_generation": np.full(ranks, float(gpu.pcie.generation)),
        "xid": np.zeros(ranks),
    }
    if job.memory is not None:
        used = min(job.memory(job.workload, job.cluster).total_bytes, gpu.memory_bytes)
        found["memory_used"] = np.full(ranks, float(used))
        found["memory_free"] = np.full(ranks, float(gpu.memory_bytes - used))
    if gpu.scale_up is not None and job.cluster.node.scale_up.kind != "none":
        found["nvlinks_up"] = np.array([float(links_up(job, *job.cluster.at(rank))) for rank in range(ranks)])
    if peak:
        flops = sum(int(pattern.flops.sum()) for pattern in patterns_of(prepared, 0, False).values())
        active = np.minimum(flops * of_rank(job.conditions.load, ranks) / (peak * seconds), 1.0)
        found["tensor_active"] = np.round(active if hang is None else 0 * active, 4)
    return found


def _busy(work: Work, times: StepTimes) -> tuple[Array, Array]:
    """Of each rank the shares of its step in which computations ran, and in which anything ran on the device."""
    kind = np.array([code.kind for code in work.codes])
    device = (kind == KINDS["compute"]) | (kind == KINDS["collective"])
    start, end = times.start[device], times.end[device]
    whole = np.maximum(times.host_end - times.host_start, 1.0)
    compute = kind[device] == KINDS["compute"]
    computing = (end[compute] - start[compute]).sum(axis=0)
    order = np.argsort(start, axis=0, kind="stable")
    start, end = np.take_along_axis(start, order, 0), np.take_along_axis(end, order, 0)
    reached = np.maximum.accumulate(end, axis=0)
    before = np.concatenate([np.full((1, start.shape[1]), -np.inf), reached[:-1]])
    union = np.maximum(reached - np.maximum(start, before), 0).sum(axis=0)
    return np.minimum(computing / whole, 1.0), np.minimum(union / whole, 1.0)


def _standing(work: Work, hang: Hang) -> tuple[Array, Array]:
    """The same of a job that stands: a kernel that began and never ends keeps its GPU busy, computing or spinning."""
    current, begun = hang.current, hang.begun & ~hang.gone
    kind = np.array([code.kind for code in work.codes])[np.maximum(current, 0)]
    stuck = begun & (kind == KINDS["compute"])
    return stuck * 1.0, (begun & ((kind == KINDS["collective"]) | stuck)) * 1.0


def links_up(job: Job, node: int, gpu: int) -> int:
    """NVLinks of a GPU that carry something: as many as its way to the switch, or its bundles, are worth."""
    port, up = job.gpu.scale_up, job.cluster.wiring(node).scale_up
    if port is None or up.kind == "none":
        return 0
    end = f"node{node}/gpu{gpu}"
    share = 1.0
    for link in job.cluster.odd_links.values():
        if link.kind == "scale_up" and link.src == end:
            peer = link.dst.rpartition("gpu")[2]
            whole = up.bytes_per_s * (1 if up.kind == "switch" else up.between(gpu, int(peer)))
            share = min(share, link.capacity_bytes_per_s / whole)
    return round(port.links * share)


def _lanes(job: Job, ranks: int) -> Array:
    """Lanes that a slot has trained: those that its link's rate is made of."""
    slot = of_rank(job.conditions.slot, ranks).copy()
    for rank in range(ranks):
        node, gpu = job.cluster.at(rank)
        wiring = job.cluster.wiring(node)
        name = f"node{node}/gpu{gpu}>node{node}/pcie{wiring.gpus[gpu].pcie}"
        link = job.cluster.odd_links.get(name)
        if link is not None:
            slot[rank] = min(slot[rank], link.capacity_bytes_per_s / wiring.pcie_bytes_per_s)
    lanes = job.gpu.pcie.lanes * np.maximum(slot, 1 / job.gpu.pcie.lanes)
    found: Array = 2.0 ** np.floor(np.log2(lanes * 1.01))
    return np.minimum(found, job.gpu.pcie.lanes)


def _wobble(metric: str, scopes: tuple[str, ...], k: int, spread: float) -> Array:
    return wobble(metric, scopes, k + 1, spread)[:, k]


def _errors(steps: Sequence[Step], scopes: tuple[str, ...], clock: Clockwork) -> list[Series]:
    """Counters of errors: 0 and still, but where the state of a GPU says otherwise."""
    still = np.zeros((len(scopes), len(steps)))
    memory = still.copy()
    for k, step in enumerate(steps):
        job = step.prepared.job
        for state in job.conditions.sensed.gpus:
            rank = state.node * job.cluster.gpus_per_node + state.gpu
            if rank < len(scopes):
                memory[rank, k] += state.memory_errors_per_s * clock.seconds[k]
    return [Series("memory_errors", scopes, memory), *(Series(m, scopes, still) for m in ("nvlink_errors", "pcie_replays"))]


def _bytes(scopes: tuple[str, ...], traffic: Sequence[Traffic], clock: Clockwork) -> list[Series]:
    """Rates over NVLink (or xGMI) and over the GPU's PCIe slot."""
    names = ("nvlink_sent", "nvlink_received", "pcie_sent", "pcie_received")
    number = {scope: i for i, scope in enumerate(scopes)}
    values = np.zeros((4, len(scopes), len(traffic)))
    for k, one in enumerate(traffic):
        for (src, dst), nbytes in (one.ends() or {}).items():
            for mine, peer, way in ((src, dst, 0), (dst, src, 1)):
                if mine in number:
                    values[way + (2 if "/pcie" in peer else 0), number[mine], k] += nbytes
    rates = np.rint(values / clock.seconds)
    return [Series(name, scopes, rates[i]) for i, name in enumerate(names)]
