"""What does a checkpoint cost, and how often should one be taken? Bytes and ns.

Written are weights in the optimizer's precision and its moments, each shard once. A synchronous save holds the step for the copy
out of the GPU and for the write, an asynchronous one for the copy alone. Intervals: Young 1974, sqrt(2 C M); the one that keeps
the job available longest, C + sqrt(2 (M + R) C + C^2) (arXiv 2410.18124). Not known: serialisation and metadata, 1 to 5 s a save.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from math import sqrt

from stepscope.catalog.reliability import reliability
from stepscope.catalog.stack import Stack
from stepscope.model.cluster import Cluster
from stepscope.model.errors import UsageMistake
from stepscope.model.memory import CheckpointPlan
from stepscope.model.storage import Mount
from stepscope.model.workload import Workload
from stepscope.planner.states import recipe_name, recipe_of

NS = 1_000_000_000
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Terms:
    """What the user says of failures: hours between two of the job (None: from its GPUs), seconds to recover (None: the
    catalog's), the most work in seconds that may be lost (None: whatever is best), where it is written, and how."""

    mtbf_hours: float | None = None
    recover_s: float | None = None
    tolerate_s: float | None = None
    path: str = ""
    mode: str = "sync"


def parse_terms(text: str) -> Terms:
    """`mode=async,mtbf_hours=24,recover_s=600,tolerate_s=1800,path=/lustre`; empty for what is assumed. UsageMistake."""
    known = ("mtbf_hours", "recover_s", "tolerate_s", "path", "mode")
    values: dict[str, str] = {}
    for word in filter(None, (w.strip() for w in text.split(","))):
        key, _, value = word.partition("=")
        if key not in known:
            near = get_close_matches(key, known, n=1)
            raise UsageMistake(
                f"checkpoint: no such key {key[:40]!r}; {f'did you mean {near[0]}? ' if near else ''}known: {', '.join(known)}"
            )
        if key in values:
            raise UsageMistake(f"checkpoint: {key} is given twice; keep one")
        values[key] = value.strip()
    mode = values.get("mode", "sync")
    if mode not in ("sync", "async"):
        raise UsageMistake(f"checkpoint: mode={mode[:40]}: give sync or async")
    numbers = {key: _positive(key, values[key]) for key in known[:3] if key in values}
    return Terms(**numbers, path=values.get("path", ""), mode=mode)


def checkpoint(workload: Workload, stack: Stack, cluster: Cluster, terms: Terms, recipe: str | None = None) -> CheckpointPlan:
    """What a save of that workload costs on that cluster."""
    plan = workload.plan
    held = recipe_of(plan, recipe_name(plan, stack, recipe))
    each = (held.master or held.weights).bytes + held.moments.bytes
    total = round(workload.shape.parameters() * each)
    writers = max(
        plan.shard * plan.cp if plan.strategy in ("fsdp", "hsdp") else plan.data_ranks if plan.strategy == "zero1" else 1, 1
    )
    writers *= plan.tp * plan.pp
    rank = -(-total // writers)
    copy = rank / cluster.node.pcie_bytes_per_s * NS
    mount, notes = _mount(cluster, terms.path)
    write = None if mount is None else _write_ns(mount, total, rank, writers, min(cluster.gpus_per_node, plan.world_size))
    stall_sync = None if write is None else round(copy + write)
    costs = reliability()
    hours = terms.mtbf_hours if terms.mtbf_hours is not None else costs.failures.gpu_hours / plan.world_size
    recover = costs.recovery.seconds if terms.recover_s is None else terms.recover_s
    mtbf, held_s = hours * HOUR_S, (copy / NS if terms.mode == "async" else None if stall_sync is None else stall_sync / NS)
    young = best = lost = None
    if held_s is not None:
        young = sqrt(2 * held_s * mtbf)
        best = held_s + sqrt(2 * (mtbf + recover) * held_s + held_s**2)
        if terms.mode == "async" and write is not None and best < write / NS:
            best = write / NS
            notes.append("the write takes longer than the best interval: the next save would wait for it")
        chosen = best if terms.tolerate_s is None else min(best, terms.tolerate_s)
        lost = min(held_s / chosen + (chosen / 2 + recover) / mtbf, 1.0)
    return CheckpointPlan(
        total_bytes=total,
        rank_bytes=rank,
        write_ns=None if write is None else round(write),
        stall_sync_ns=stall_sync,
        stall_async_ns=round(copy),
        mtbf_ns=round(mtbf * NS),
        interval_ns=None if young is None else round(young * NS),
        interval_available_ns=None if best is None else round(best * NS),
        interval_tolerable_ns=None if terms.tolerate_s is None else round(terms.tolerate_s * NS),
        lost_share=lost,
        notes=tuple(notes),
    )


def _mount(cluster: Cluster, path: str) -> tuple[Mount | None, list[str]]:
    if path:
        for mount in cluster.mounts:
            if mount.path == path:
                return mount, []
        known = ", ".join(m.path for m in cluster.mounts) or "none"
        raise UsageMistake(f"checkpoint: path={path[:80]}: {cluster.name} mounts {known}; take one of those")
    shared = next((m for m in cluster.mounts if m.shared), None)
    chosen = shared or next(iter(cluster.mounts), None)
    return chosen, [] if chosen is not None else [f"{cluster.name} says nothing of its storage: the write is not known"]


def _write_ns(mount: Mount, total: int, rank: int, writers: int, per_node: int) -> float:
    """Every writer at its share of its node's rate, or all at the servers' own."""
    alone = rank * min(per_node, writers) / mount.write_bytes_per_s
    servers = 0.0 if mount.total_write_bytes_per_s is None else total / mount.total_write_bytes_per_s
    return max(alone, servers) * NS + mount.latency_ns


def _positive(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e12:
        raise UsageMistake(f"checkpoint: {key}={value[:40]}: give a number above 0")
    return number
