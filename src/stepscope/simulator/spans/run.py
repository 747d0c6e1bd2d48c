"""Writes a simulated run as a Run folder: spans of the ranks asked for, collectives, groups, what the job was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from stepscope.model.flops import flops_per_token
from stepscope.model.info import Clock, Gap, Group, HostClock, RankInfo, RunInfo, host_of
from stepscope.model.spans import Rules
from stepscope.model.store import save_info, save_rank
from stepscope.simulator.costs import axes
from stepscope.simulator.job import Job
from stepscope.simulator.predict import peak_of
from stepscope.simulator.simulation import Step
from stepscope.simulator.spans.tables import Tables

Progress = Callable[[int, int], None]
"""Called with the ranks done and the ranks to do."""


def write_run(
    folder: Path,
    steps: Sequence[Step],
    *,
    nominal: Job,
    rules: Rules,
    ranks: Sequence[int] | None = None,
    whole_units: bool = False,
    signals: pl.DataFrame | None = None,
    standing: Sequence[Gap] = (),
    progress: Progress | None = None,
) -> RunInfo:
    """Fills `folder` (which exists and is empty) with the run. Absent ranks are missing ranks, as in a run recorded in part.

    `standing` is what a job that did not go on is seen to stand in. The description is that of the `nominal` job: what an
    inventory would say, whatever is wrong with the one that ran.
    """
    job = steps[0].prepared.job
    chosen = list(range(job.ranks)) if ranks is None else sorted(set(ranks))
    infos: list[RankInfo] = []
    collectives: list[pl.DataFrame] = []
    gaps: list[Gap] = []
    for done, tables in enumerate(Tables(steps, whole_units).of(chosen)):
        found = rules.derive(tables, ())
        tables.attribution, tables.info.steps = found.attribution, found.steps
        save_rank(folder, tables)
        infos.append(tables.info)
        collectives.append(found.collectives)
        gaps += [Gap(gap.what, (tables.info.rank,), gap.why) for gap in found.gaps]
        if progress:
            progress(done + 1, len(chosen))
    info = RunInfo(
        origin="simulated",
        world_size=job.ranks,
        ranks=infos,
        missing_ranks=sorted(set(range(job.ranks)) - set(chosen)),
        groups=_groups(job),
        gaps=[*standing, *_merged(gaps, len(chosen), job.ranks, whole_units)],
        clock=Clock(aligned=True, residual_ns=0, hosts={host_of(info): HostClock() for info in infos}),
        **described(_with_batch(nominal, job)),
    )
    save_info(folder, info, rules.match(pl.concat(collectives), info), signals)
    return info


def _with_batch(nominal: Job, ran: Job) -> Job:
    """The nominal job with the batch that was really run: a job's log has it."""
    own = ran.workload.plan
    plan = msgspec.structs.replace(nominal.workload.plan, mbs=own.mbs, seq=own.seq)
    return replace(nominal, workload=msgspec.structs.replace(nominal.workload, plan=plan))


def described(job: Job) -> dict[str, Any]:
    """What an inventory would say of the job: workload, cluster and mesh as planned, no word of what is wrong."""
    workload, cluster = job.workload, job.cluster
    plan = workload.plan
    return {
        "workload": {
            "model": workload.model,
            "parameters": workload.shape.parameters(),
            "plan": plan.text(),
            "seq": workload.seq,
            "tokens_per_step": workload.tokens,
            "batches_per_step": plan.data_ranks * plan.mbs * plan.ga,
            "stack": job.stack.name,
            "precision": plan.precision,
            "flops_per_token": msgspec.to_builtins(flops_per_token(workload.shape, workload.seq, plan.ac, peak_of(job))),
        },
        "cluster": {
            "name": cluster.name,
            "gpu": job.gpu.name,
            "nodes": cluster.nodes,
            "gpus_per_node": cluster.gpus_per_node,
            "nics_per_node": len(cluster.node.nics),
            "sockets": cluster.node.sockets,
            "fabric": cluster.fabric.kind,
        },
        "mesh": {"axes": [msgspec.to_builtins(axis) for axis in job.mesh.axes]},
    }


def _groups(job: Job) -> list[Group]:
    """The groups of every axis that has more than one rank; `world` joins all of them."""
    found = []
    for name, (size, stride) in axes(job.mesh, job.workload.plan).items():
        if size == 1 or name == "world":
            continue
        block = size * stride
        firsts = [base + offset for base in range(0, job.ranks, block) for offset in range(stride)]
        axis = None if name == "reshard" else name
        found += [Group(f"{name}:{i}", axis, tuple(range(first, first + block, stride))[:size]) for i, first in enumerate(firsts)]
    return found


def _merged(gaps: list[Gap], chosen: int, world: int, whole_units: bool) -> list[Gap]:
    merged: dict[tuple[str, str], set[int]] = {}
    for gap in gaps:
        merged.setdefault((gap.what, gap.why), set()).update(gap.ranks)
    found = [Gap(what, tuple(sorted(ranks)), why) for (what, why), ranks in merged.items()]
    found.append(Gap("simulated", (), "every figure follows from a model of the cluster; none is a measurement of a real one"))
    if chosen < world:
        found.append(Gap("missing ranks", (), f"spans of {chosen} of {world} ranks are kept; waits are lower bounds"))
    if whole_units:
        found.append(Gap("kernels of a unit as one", (), "spans are kept by unit; ask for --detail kernels to see each kernel"))
    return found
