"""What a node shows of its processors, memory, storage and front-end network while the job runs.

Loader processes work as long as batches take them, the training process keeps its own threads busy. Why a host issues slowly is
not seen here unless its memory is said to be short. Not known: which process, and memory beyond what is said of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stepscope.catalog.telemetry import telemetry
from stepscope.simulator.job import Job
from stepscope.simulator.loader import mount_at, read_ns
from stepscope.simulator.signals.series import Array, Clockwork, Series, grown
from stepscope.simulator.signals.traffic import Traffic, of_rank
from stepscope.simulator.simulation import Step

SEGMENT_BYTES: Final = 1448  # TCP payload of an Ethernet frame of 1,500 bytes, with time stamps
_COUNTERS: Final = ("cpu_pressure", "io_pressure", "memory_pressure", "swapped", "storage_read", "storage_written",
                    "network_received", "network_sent", "tcp_retransmits")  # fmt: skip


def host_series(steps: Sequence[Step], traffic: Sequence[Traffic], clock: Clockwork) -> list[Series]:
    """Series of all nodes that ranks run on."""
    job = steps[0].prepared.job
    nodes = -(-steps[0].prepared.width // job.cluster.gpus_per_node)
    scopes = tuple(f"node{n}" for n in range(nodes))
    shown: list[list[dict[str, float]]] = [
        [_node(step, moved, n, clock.seconds[k]) for k, (step, moved) in enumerate(zip(steps, traffic, strict=True))]
        for n in range(nodes)
    ]
    found = []
    for metric in shown[0][0]:
        values: Array = np.array([[step[metric] for step in node] for node in shown])
        most = {"storage_read": 4e12, "network_received": 4e12, "network_sent": 4e11}.get(metric, 0.0)
        found.append(grown(metric, scopes, values, most) if metric in _COUNTERS else Series(metric, scopes, values))
    return found


def _node(step: Step, moved: Traffic, node: int, seconds: float) -> dict[str, float]:
    """What one node shows in one step."""
    prepared = step.prepared
    job, figures = prepared.job, telemetry().host
    workload, conditions = job.workload, job.conditions
    per, plan = job.cluster.gpus_per_node, workload.plan
    ranks = np.arange(node * per, min((node + 1) * per, prepared.width))
    state = conditions.sensed.host(node)
    pace = float(of_rank(conditions.host_pace, prepared.width)[ranks].min())
    fetch = of_rank(conditions.fetch, prepared.width)[ranks]
    made = plan.mbs * workload.loader.cpu_us * 1e3 * plan.ga
    workers = workload.loader.workers or 1
    loading = np.minimum(made * fetch / 1e9 / seconds, workers).sum()
    busy = figures.system_cores + figures.loop_cores * len(ranks) + float(loading)
    short = max(1 - 1 / max(pace, 1.0), 0.0) if state.memory_used is not None else 0.0  # the time its threads lose to reclaim
    reads, latency, waited = _storage(job, ranks, node, seconds)
    written = _written(step, len(ranks))
    tcp = moved.tcp.get(node, 0.0)
    lost = max((s.lost for s in conditions.sensed.ports if s.node == node), default=0.0)
    used = figures.used_share if state.memory_used is None else state.memory_used
    shared = mount_at(job.cluster, workload.loader.path).kind != "nvme"
    return {
        "cpu_utilization": min(busy / figures.cores, 1.0),
        "run_queue": float(round(busy)),
        "cpu_pressure": seconds * max(busy / figures.cores - figures.psi_free, 0.0),
        "io_pressure": min(waited, seconds),
        "memory_pressure": seconds * short,
        "host_memory": float(figures.memory_bytes),
        "host_memory_available": figures.memory_bytes * (1 - used),
        "swapped": state.swapped_bytes_per_s * seconds,
        "storage_read": reads,
        "storage_written": written,
        "storage_read_latency": latency,
        "network_received": figures.front_end_rate * seconds + tcp + (reads if shared else 0.0),
        "network_sent": figures.front_end_rate * seconds + tcp + (written if shared else 0.0),
        "tcp_retransmits": tcp / SEGMENT_BYTES * lost,
    }


def _storage(job: Job, ranks: np.ndarray, node: int, seconds: float) -> tuple[float, float, float]:
    """Bytes read, the mean latency of a read in seconds, and for how long a reader stood waiting."""
    workload, conditions, plan = job.workload, job.conditions, job.workload.plan
    mount = mount_at(job.cluster, workload.loader.path)
    per = min(job.cluster.gpus_per_node, job.ranks)
    healthy = read_ns(workload.loader, mount, plan.mbs, workload.seq, per, job.ranks)
    slower = of_rank(conditions.read, job.ranks)[ranks]
    late = of_rank(conditions.batch_delay_ns, job.ranks)[ranks]
    took = healthy * slower * plan.ga + late
    nbytes = float(plan.mbs * plan.ga * workload.seq * workload.loader.bytes_per_token * len(ranks))
    latency = mount.latency_ns * float((took / (healthy * plan.ga)).mean()) / 1e9 if healthy else mount.latency_ns / 1e9
    return nbytes, latency, float(took.max()) / 1e9


def _written(step: Step, ranks: int) -> float:
    """Bytes of a checkpoint, where this step takes one."""
    prepared = step.prepared
    if not any(op.kind == "save" for op in prepared.work.program.ops):
        return 0.0
    workload = prepared.job.workload
    return workload.shape.parameters() * workload.checkpoint.bytes_per_parameter / prepared.job.ranks * ranks
