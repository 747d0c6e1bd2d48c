"""The mesh of a job as its recording shows it: which groups exchanged what, and which axis each of them serves.

A group's axis is what the run says; else it is told from what the group did: gathers and reductions of units are fsdp, gradients
of the same units over other ranks replicate, gradients in buckets ddp, many gathers in forward beyond the units tp, activations
sent between two ranks pp, all-to-all ep. What fits none stays unnamed. Bytes are of a rank's last complete step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from stepscope.model.errors import BadInput
from stepscope.model.exchange import AxisExchange, MeshView, Seat
from stepscope.model.info import Group, RunInfo
from stepscope.model.run import Run

SMALL: Final = 4096  # bytes: norms, losses and flags, no state of the model
WORDS: Final = {
    "fsdp": "each rank holds a shard of parameters, gradients and states",
    "replicate": "ranks hold the same shard",
    "ddp": "every rank holds everything",
    "tp": "each rank holds a slice of every matrix",
    "pp": "each rank holds some of the layers",
    "ep": "each rank holds some of the experts",
    "zero1": "every rank holds parameters and gradients, and a shard of the states",
}
UNNAMED: Final = "what its ranks share is not known"


@dataclass(frozen=True, slots=True)
class _Done:
    """What one group did in one step of one of its ranks: operations with their number and bytes, and passes."""

    ops: dict[str, tuple[int, int]]
    passes: tuple[str, ...]
    units: int


def mesh_of_run(run: Run) -> MeshView:
    """The mesh of a recorded or simulated run. BadInput where no group of ranks is recorded."""
    info = run.info
    groups = [group for group in info.groups if len(group.ranks) > 1]
    if not groups:
        raise BadInput("this recording names no process groups; record with torch 2.3 or newer, or give --plan")
    collectives = run.collectives()
    if len({group.ranks for group in groups}) == 1:  # nobody else can have issued what names no group
        collectives = collectives.with_columns(pl.col("group").fill_null(groups[0].group))
    done = {group.group: _done(group, collectives, info) for group in groups}
    groups = [group for group in groups if done[group.group].ops] or groups  # the default group is often made and never used
    named: dict[str | None, list[Group]] = {}
    for group in groups:
        named.setdefault(group.axis or _axis(group, done, groups), []).append(group)
    axes = [_exchange(axis, of, done) for axis, of in named.items() if axis is not None]
    axes += [_exchange(None, [group], done) for group in named.get(None, ())]
    where = {axis.axis: axis for axis in axes if axis.axis is not None}
    return MeshView(
        title=f"{info.world_size or len(info.ranks)} ranks: " + " x ".join(f"{a.axis or 'unnamed'} {a.size}" for a in axes),
        origin=info.origin,
        axes=tuple(axes),
        seats=tuple(_seat(rank, info, where) for rank in _ranks(info, groups)),
        replicas=tuple(g.ranks for axis in ("replicate", "ddp", "zero1") for g in named.get(axis, ())),
        notes=() if all(group.axis for group in groups) else ("axes are told from what each group did",),
    )


def _ranks(info: RunInfo, groups: Sequence[Group]) -> list[int]:
    known = {r.rank for r in info.ranks} | {rank for group in groups for rank in group.ranks}
    return sorted(known)


def _done(group: Group, collectives: pl.DataFrame, info: RunInfo) -> _Done:
    mine = collectives.filter((pl.col("group") == group.group) & pl.col("rank").is_in(list(group.ranks)))
    present = mine["rank"].unique().sort().to_list()
    if not present:
        return _Done({}, (), 0)
    rank = present[0]
    steps = [step.step for step in info.rank(rank).steps if step.complete] or [s.step for s in info.rank(rank).steps]
    rows = mine.filter(pl.col("rank") == rank)
    if steps:
        rows = rows.filter(pl.col("step") == steps[-1])
    ops = {
        op: (int(count), int(nbytes or 0))
        for op, count, nbytes in rows.group_by("op").agg(pl.len(), pl.col("bytes").sum().alias("bytes")).iter_rows()
        if op is not None
    }
    passes = tuple(rows["pass"].drop_nulls().cast(pl.String).unique().sort().to_list())
    return _Done(ops, passes, rows["unit"].n_unique())


def _axis(group: Group, done: dict[str, _Done], groups: Sequence[Group]) -> str | None:
    found = done[group.group]
    large = {op for op, (count, nbytes) in found.ops.items() if not nbytes or nbytes > SMALL * count}
    if not large:
        return None
    if large & {"send_recv", "send", "recv"}:
        return "pp"
    if "all_to_all" in large:
        return "ep"
    gathers = found.ops.get("all_gather", (0, 0))[0]
    if {"all_gather", "reduce_scatter"} <= large:
        if not found.passes and gathers < found.ops["reduce_scatter"][0]:
            return "zero1"  # gradients bucket by bucket, parameters at once
        return "tp" if gathers > 2 * max(found.units, 1) + 2 else "fsdp"
    if "all_reduce" in large:
        if "forward" in found.passes:
            return "tp"
        sharded = any({"all_gather", "reduce_scatter"} <= set(done[g.group].ops) for g in groups if g is not group)
        return "replicate" if sharded else "ddp"
    return "fsdp" if large & {"all_gather", "reduce_scatter"} else None


def _exchange(axis: str | None, groups: Sequence[Group], done: dict[str, _Done]) -> AxisExchange:
    best = max((done[g.group] for g in groups), key=lambda d: sum(n for _, n in d.ops.values()))
    total = sum(nbytes for _, nbytes in best.ops.values())
    return AxisExchange(
        axis=axis,
        size=max(len(group.ranks) for group in groups),
        groups=tuple(group.ranks for group in groups),
        op=", ".join(f"{count} {op}" for op, (count, _) in sorted(best.ops.items(), key=lambda o: (-o[1][1], -o[1][0], o[0])))
        or "nothing recorded",
        holds=WORDS.get(axis or "", UNNAMED),
        when="in " + " and ".join(best.passes) if best.passes else "outside forward and backward",
        bytes_per_step=total or None,
    )


def _seat(rank: int, info: RunInfo, axes: dict[str, AxisExchange]) -> Seat:
    at = {name: group.index(rank) for name, axis in axes.items() for group in axis.groups if rank in group}
    try:
        place = info.rank(rank).place
    except KeyError:
        place = None
    return Seat(rank, at, *((place.node, place.gpu, place.nic) if place is not None else ()))
