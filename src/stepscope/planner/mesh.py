"""The mesh of a plan as people ask for it: who exchanges what with whom, where everybody sits, and what is laid badly."""

from __future__ import annotations

from typing import Final

from stepscope.model.cluster import Cluster
from stepscope.model.errors import UsageMistake
from stepscope.model.exchange import AxisExchange, MeshView, Seat
from stepscope.model.mesh import Axis, Mesh, Order, expert_axes, mesh_of
from stepscope.model.plan import Plan
from stepscope.model.shape import Shape
from stepscope.planner.exchange import exchange
from stepscope.planner.links import links, warnings

MOST_RANKS: Final = 1 << 17  # every rank and group is listed; beyond this the answer is too long for anybody
COPIES: Final = ("replicate", "ddp", "cp")
"""Axes along which parameters are the same. ZeRO-1 ranks share parameters and not their optimizer states."""


def mesh_view(plan: Plan, order: Order = "torchtitan", shape: Shape | None = None, cluster: Cluster | None = None) -> MeshView:
    """The mesh of a plan. UsageMistake for experts that do not divide, or more ranks than can be listed."""
    world = plan.world_size
    if world > MOST_RANKS:
        raise UsageMistake(f"plan: {world} ranks; a mesh of at most {MOST_RANKS} is listed")
    if plan.ep > 1 and (plan.shard * plan.cp * plan.tp) % plan.ep:
        raise UsageMistake(
            f"plan: ep={plan.ep} does not divide fsdp x cp x tp = {plan.shard * plan.cp * plan.tp}; take a divisor"
        )
    mesh = mesh_of(plan, order)
    shown = [axis for axis in mesh.axes if axis.size > 1] or list(mesh.axes)
    axes = [_axis(axis, plan, shape, cluster, world) for axis in (*shown, *(a for a in expert_axes(plan) if a.size > 1))]
    return MeshView(
        title=f"{world} ranks: " + " x ".join(f"{axis.name} {axis.size}" for axis in mesh.axes),
        origin="plan",
        axes=tuple(axes),
        seats=tuple(_seat(rank, mesh, cluster) for rank in range(world)),
        replicas=_replicas(mesh, plan),
        warnings=tuple(warnings(cluster, axes)) if cluster is not None else (),
        notes=() if shape is not None else ("bytes need the model: give it with --model",),
    )


def groups_of(axis: Axis, world: int) -> tuple[tuple[int, ...], ...]:
    """Ranks of every group along an axis; they partition the world."""
    block = axis.size * axis.stride
    firsts = [base + offset for base in range(0, world, block) for offset in range(axis.stride)]
    return tuple(tuple(range(first, first + block, axis.stride)) for first in firsts)


def _axis(axis: Axis, plan: Plan, shape: Shape | None, cluster: Cluster | None, world: int) -> AxisExchange:
    what, groups = exchange(axis.name, plan, shape), groups_of(axis, world)
    return AxisExchange(
        axis=axis.name,
        size=axis.size,
        groups=groups,
        op=what.op,
        holds=what.holds,
        when=what.when,
        bytes_per_step=what.nbytes,
        hidden=what.hidden,
        links=() if cluster is None else links(cluster, groups[0]),
    )


def _seat(rank: int, mesh: Mesh, cluster: Cluster | None) -> Seat:
    coordinates = mesh.coordinates(rank)
    if cluster is None:
        return Seat(rank, coordinates)
    node, gpu = cluster.at(rank)
    nic = cluster.wiring(node).nic_of_gpu(gpu)
    slot = None if nic is None else cluster.wiring(node).nics[nic]
    return Seat(rank, coordinates, f"node{node}", gpu, None if slot is None else slot.name, None if slot is None else slot.rail)


def _replicas(mesh: Mesh, plan: Plan) -> tuple[tuple[int, ...], ...]:
    """Sets of ranks whose parameters are identical: equal on every axis that divides them."""
    copying = [axis.name for axis in mesh.axes if axis.name in COPIES or axis.name == "zero1"]
    found: dict[tuple[int, ...], list[int]] = {}
    for rank in range(mesh.world_size):
        at = mesh.coordinates(rank)
        found.setdefault(tuple(at[axis.name] for axis in mesh.axes if axis.name not in copying), []).append(rank)
    return tuple(tuple(ranks) for ranks in found.values() if len(ranks) > 1)
