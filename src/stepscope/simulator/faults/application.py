"""Faults of the training loop: too little work, uneven work, a starved loader, and hosts that do something else."""

from __future__ import annotations

from typing import Final

import numpy as np

from stepscope.catalog.faults import fault_numbers
from stepscope.catalog.telemetry import telemetry
from stepscope.simulator.conditions import Delay
from stepscope.simulator.costs import queue_costs
from stepscope.simulator.faults import change, sense
from stepscope.simulator.faults.effect import Draw, Drawn, Effect, Now
from stepscope.simulator.faults.fault import Fault
from stepscope.simulator.faults.ranks import on, ranks_at, there
from stepscope.simulator.job import Job
from stepscope.simulator.predict import predict


def _small_batch(job: Job, fault: Fault, now: Now) -> Job:
    """Fewer sequences where that comes out even, else shorter ones too. Steps get shorter, tokens dearer."""
    plan, workload = job.workload.plan, job.workload
    tokens = plan.mbs * workload.seq * fault.amount
    mbs = max(int(plan.mbs * fault.amount), 1)
    seq = min(max(int(tokens / mbs) // plan.tp, 1) * plan.tp, workload.seq)
    return change.plan(job, mbs=mbs, seq=seq)


def _heavy_rank(fault: Fault, job: Job, step: int, draw: Draw) -> Drawn | None:
    """The rank itself, or another one in each step."""
    return int(draw.of(step).integers(job.ranks)) if fault.where.kind == "job" else fault.where.rank


def _token_imbalance(job: Job, fault: Fault, now: Now) -> Job:
    return change.times(job, load=on(job, np.array([now.drawn]), 1 + fault.amount))


def _loader_starved(job: Job, fault: Fault, now: Now) -> Job:
    """Batches take as long to make as it needs for that share of the rate that the healthy job consumes."""
    made, workers = float(np.max(queue_costs(now.healthy)[0])), job.workload.loader.workers
    period = predict(now.healthy).step_ns / job.workload.plan.ga
    wanted = workers * period / fault.amount if workers else period * (1 / fault.amount - 1) + made
    return change.times(job, fetch=there(job, fault.where, max(wanted / max(made, 1.0), 1.0)))


def _pausing(fault: Fault, job: Job, step: int, draw: Draw) -> Drawn | None:
    """Ranks that collect in this step: each of them in one of so many steps, another one than its peers'."""
    every = fault_numbers().gc_pause.every
    block, inside = divmod(step - fault.first_step, every)
    ranks = ranks_at(job, fault.where)
    found = ranks[draw.of(block).integers(every, size=job.ranks)[ranks] == inside]
    return tuple(found.tolist()) or None


def _gc_pause(job: Job, fault: Fault, now: Now) -> Job:
    ns = on(job, np.array(now.drawn), fault.amount * 1e6, 0.0)
    return change.delayed(job, Delay(change.first_kernels(job, "forward"), ns, "gc.collect"))


def _unpinned_transfer(job: Job, fault: Fault, now: Now) -> Job:
    pageable = np.maximum(job.conditions.pageable, there(job, fault.where, 1.0, 0.0))
    job = change.times(job, copy_fraction=there(job, fault.where, fault.amount))
    return change.conditions(job, pageable=float(pageable) if pageable.ndim == 0 else pageable)


def _host_memory_pressure(job: Job, fault: Fault, now: Now) -> Job:
    """Reclaim slows the loop's host thread and the workers that make batches."""
    slower = there(job, fault.where, fault.amount)
    short = telemetry().errors
    job = change.times(job, host_pace=slower, fetch=slower)
    return sense.hosts(job, fault.where, memory_used=short.memory_used, swapped_bytes_per_s=short.swapped_bytes_per_s)


def _host_sync_point(job: Job, fault: Fault, now: Now) -> Job:
    """Waits for the device, spread over forward and backward of all micro-batches; more than there are units share places."""
    plan, wanted = job.workload.plan, int(fault.amount)
    spots = [(pass_, micro) for micro in range(plan.ga) for pass_ in ("forward", "backward")]
    units = max(_units(job), 1)
    here = -(-wanted // (units * len(spots)))  # of one place
    ns = there(job, fault.where, fault_numbers().sync_point.host_us * 1e3 * here, 0.0)
    places = -(-wanted // here)
    each, more = divmod(places, len(spots))
    counts = [each + (k < more) for k in range(len(spots))]
    delays = [Delay(change.first_kernels(job, pass_), ns, "aten::item", count, drains=True, micro=micro)
              for (pass_, micro), count in zip(spots, counts, strict=True) if count]  # fmt: skip
    return change.delayed(job, *delays)


def _units(job: Job) -> int:
    plan, layers = job.workload.plan, job.workload.shape.layers
    return layers if plan.tp > 1 else layers * plan.split if plan.split > 1 else -(-layers // plan.layers_per_unit)


def _rank0_work(job: Job, fault: Fault, now: Now) -> Job:
    return change.delayed(job, Delay("loop", there(job, fault.where, fault.amount * 1e6, 0.0), "evaluate and log"))


def _syncs_every_microbatch(job: Job, fault: Fault, now: Now) -> Job:
    if job.workload.plan.ga == 1:
        raise change.refused(fault, "this plan accumulates nothing; give it ga=2 or more")
    return change.conditions(job, eager_syncs=max(job.conditions.eager_syncs, fault.amount))


EFFECTS: Final = {
    "app.small_batch": Effect(_small_batch),
    "app.token_imbalance": Effect(_token_imbalance, _heavy_rank),
    "app.loader_starved": Effect(_loader_starved),
    "app.gc_pause": Effect(_gc_pause, _pausing),
    "app.unpinned_transfer": Effect(_unpinned_transfer),
    "app.host_memory_pressure": Effect(_host_memory_pressure),
    "app.host_sync_point": Effect(_host_sync_point),
    "app.rank0_work": Effect(_rank0_work),
    "app.accumulation_syncs_every_microbatch": Effect(_syncs_every_microbatch),
}
