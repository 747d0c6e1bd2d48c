"""Faults of framework and parallelism: what is gathered when, in pieces of which size, over what, and where state lives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from stepscope.model.mesh import Axis, Mesh
from stepscope.model.node import Node
from stepscope.simulator.faults import change, wires
from stepscope.simulator.faults.effect import Effect, Now
from stepscope.simulator.faults.fault import Fault
from stepscope.simulator.faults.ranks import there
from stepscope.simulator.job import Job


def _no_prefetch(job: Job, fault: Fault, now: Now) -> Job:
    _needs_gathers(job, fault)
    return change.conditions(job, late_gathers=max(job.conditions.late_gathers, fault.amount))


def _units_too_coarse(job: Job, fault: Fault, now: Now) -> Job:
    _needs_gathers(job, fault)
    plan, most = job.workload.plan, job.workload.shape.layers
    return change.plan(job, layers_per_unit=max(min(int(fault.amount), most), plan.layers_per_unit), split=1)


def _units_too_fine(job: Job, fault: Fault, now: Now) -> Job:
    _needs_gathers(job, fault)
    return change.plan(job, layers_per_unit=1, split=max(int(fault.amount), job.workload.plan.split))


def _slow_fabric(job: Job, fault: Fault, now: Now) -> Job:
    """Ports of a lower rate, as NCCL sees them too."""
    if job.cluster.nodes == 1:
        raise change.refused(fault, "the job runs on one node; take a plan over several")

    def slower(node: Node) -> Node:
        return msgspec.structs.replace(node, nic_bytes_per_s=node.nic_bytes_per_s * fault.amount)

    return replace(job, cluster=wires.every_node(job.cluster, slower))


def _state_offloaded(job: Job, fault: Fault, now: Now) -> Job:
    return change.conditions(job, offloaded=np.maximum(job.conditions.offloaded, there(job, fault.where, fault.amount, 0.0)))


def _tp_across_nodes(job: Job, fault: Fault, now: Now) -> Job:
    """The tensor-parallel axis laid over nodes instead of inside them: the mesh in another order of its axes."""
    plan, per, wanted = job.workload.plan, job.cluster.gpus_per_node, int(fault.amount)
    if plan.tp == 1:
        raise change.refused(fault, "this plan has no tensor parallelism; give it tp=2 or more")
    found = {_nodes_spanned(mesh, per): mesh for mesh in _orders(job.mesh)}
    if wanted not in found:
        can = ", ".join(str(n) for n in sorted(found) if n > 1) or "one node alone"
        raise change.refused(fault, f"span={wanted}: groups of tp={plan.tp} on {job.cluster.nodes} nodes can span {can}")
    return replace(job, layout=found[wanted])


def _orders(mesh: Mesh) -> Iterator[Mesh]:
    """The mesh with its tensor-parallel axis at each other place of the order."""
    others = [axis for axis in mesh.axes if axis.name != "tp"]
    for at in range(len(others)):
        axes = [*others[:at], mesh.axis("tp"), *others[at:]]
        stride, laid = 1, []
        for axis in reversed(axes):
            laid.append(Axis(axis.name, axis.size, stride))
            stride *= axis.size
        yield Mesh(tuple(reversed(laid)))


def _nodes_spanned(mesh: Mesh, per_node: int) -> int:
    tp = mesh.axis("tp")
    return len({k * tp.stride // per_node for k in range(tp.size)})


def _needs_gathers(job: Job, fault: Fault) -> None:
    plan = job.workload.plan
    if plan.strategy not in ("fsdp", "hsdp") or plan.shard == 1:
        raise change.refused(fault, f"{plan.text()} gathers no units; take a plan with fsdp or hsdp")


EFFECTS: Final = {
    "framework.no_prefetch": Effect(_no_prefetch),
    "framework.units_too_coarse": Effect(_units_too_coarse),
    "framework.units_too_fine": Effect(_units_too_fine),
    "framework.shard_across_slow_fabric": Effect(_slow_fabric),
    "framework.state_offloaded": Effect(_state_offloaded),
    "parallel.tp_across_nodes": Effect(_tp_across_nodes),
}
