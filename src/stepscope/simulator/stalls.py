"""A link that goes down while a collective is on it: the collective stands until it is back, and so do all its members.

Which one it hits is a place among those of the step that use that NIC. Of other communicators on the NIC at that moment, only
what waits for the one that stands is held up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepscope.simulator.joining import Joining
from stepscope.simulator.nccl.groups import Groups, member
from stepscope.simulator.nccl.ring import ports
from stepscope.simulator.program import Program
from stepscope.simulator.work import Code, Duration

if TYPE_CHECKING:
    from stepscope.simulator.job import Job

Axes = dict[str, tuple[int, int]]


def stalled(job: Job, program: Program, codes: list[Code], joinings: dict[str, Joining], axes: Axes) -> list[Code]:
    """The codes, one collective of them longer by the job's stall on the ranks whose group is on that NIC."""
    stall = job.conditions.stall
    if stall is None:
        return codes
    held = {axis: ranks_on_nic(job, axes[axis], stall.node, stall.nic) for axis in joinings}
    on_it = [
        k for k, op in enumerate(program.ops) if op.comm is not None and op.kind == "collective" and held[op.comm.axis].any()
    ]
    if not on_it:
        return codes
    k = on_it[min(int(stall.at * len(on_it)), len(on_it) - 1)]
    comm = program.ops[k].comm
    assert comm is not None
    longer = np.where(held[comm.axis], stall.ns / codes[k].count, 0.0)
    duration: Duration = codes[k].duration + (float(longer.max()) if joinings[comm.axis].ranks < job.ranks else longer)
    return [*codes[:k], replace(codes[k], duration=duration), *codes[k + 1 :]]


def ranks_on_nic(job: Job, axis: tuple[int, int], node: int, nic: int) -> NDArray[np.bool_]:
    """Of each rank, whether its group of that axis (size, stride) leaves its nodes and uses that NIC, [ranks]."""
    size, stride = axis
    found = np.zeros(job.ranks, dtype=bool)
    per = job.cluster.gpus_per_node
    if size == 1 or node * per >= job.ranks:
        return found
    groups = Groups.regular(job.ranks, size, stride)
    here = np.arange(node * per, min((node + 1) * per, job.ranks))
    for group in groups.groups_of(here).tolist():
        one = member(groups, group, per)
        if len(one.nodes) < 2:
            continue
        at = int(np.flatnonzero(one.nodes == node)[0])
        used = ports(job.cluster.wiring(node), one.local(at), job.nccl.nics_at(node))
        if nic in {port.nic for port in used}:
            found[groups.ranks(group)] = True
    return found
