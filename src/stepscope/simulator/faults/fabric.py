"""Faults of the fabric: cables and switches that carry less, links that go down, a rail that is out.

NCCL sees none of them but the rail: it goes by the port's rate. Congestion varies from step to step around its strength.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from stepscope.catalog.faults import fault_numbers
from stepscope.catalog.telemetry import telemetry
from stepscope.model.node import Node
from stepscope.simulator.conditions import Stall
from stepscope.simulator.faults import change, sense, wires
from stepscope.simulator.faults.effect import Draw, Drawn, Effect, Now, once_in
from stepscope.simulator.faults.fault import Fault
from stepscope.simulator.faults.where import nic_of_port
from stepscope.simulator.job import Job

QUARTERS: Final = 4  # a flap hits the step in one of them


def carrying(job: Job, fault: Fault, share: float, spines: bool = False) -> Job:
    """What is plugged in at the fault's place at that share of its rate: a NIC's cable, a node's, a leaf's, or all."""
    where, cluster = fault.where, job.cluster
    if where.kind == "job":
        return replace(job, cluster=wires.all_cables(cluster, share, spines))
    if where.kind == "leaf":
        links = [link for link in cluster.links_at(str(where)) if spines or link.kind == "cable"]
    elif where.kind == "node":
        node = where.node or 0
        links = [link for nic in range(len(cluster.wiring(node).nics)) for link in wires.cable(cluster, node, nic)]
    else:
        nic = nic_of_port(where, cluster) if where.kind == "port" else where
        assert nic is not None  # the place was checked
        links = wires.cable(cluster, nic.node or 0, nic.nic or 0)
    return replace(job, cluster=wires.at_share(cluster, links, share))


def _level(fault: Fault, job: Job, step: int, draw: Draw) -> Drawn | None:
    return int(draw.of(step).integers(len(fault_numbers().congestion.swing)))


def _congestion(job: Job, fault: Fault, now: Now) -> Job:
    assert isinstance(now.drawn, int)
    left = fault.amount * fault_numbers().congestion.swing[now.drawn]
    return sense.ports(carrying(job, fault, min(left, 1.0), spines=True), fault.where, marked=max(1 - left, 0.0))


def _pause_storm(job: Job, fault: Fault, now: Now) -> Job:
    return sense.ports(carrying(job, fault, 1 - fault.amount), fault.where, paused=fault.amount)


def _link_degraded(job: Job, fault: Fault, now: Now) -> Job:
    errors = telemetry().errors.symbol_per_s
    return sense.ports(carrying(job, fault, fault.amount), fault.where, rate=fault.amount, symbol_errors_per_s=errors)


def _link_flap(job: Job, fault: Fault, now: Now) -> Job:
    where = fault.where
    nic = nic_of_port(where, job.cluster) if where.kind == "port" else where
    assert nic is not None and isinstance(now.drawn, int)
    return change.conditions(job, stall=Stall(nic.node or 0, nic.nic or 0, fault.amount * 1e6, (now.drawn + 0.5) / QUARTERS))


def _rail_down(job: Job, fault: Fault, now: Now) -> Job:
    """The NICs of the rail (or of a leaf) carry nothing; each GPU of theirs takes the nearest other one."""
    cluster, fabric, many = job.cluster, job.cluster.fabric, int(fault.amount)
    if fault.where.kind == "rail":
        out = {((fault.where.rail or 0) + k) % fabric.rails for k in range(many)}
        nodes = None
    else:
        leaf = fault.where.leaf or 0
        wide = fabric.rails if fabric.kind == "rail-optimised" else 1
        out = {(leaf + k) % fabric.rails for k in range(many)} if wide > 1 else set(range(fabric.rails))
        first = leaf // wide * fabric.nodes_per_leaf
        nodes = range(first, min(first + fabric.nodes_per_leaf, cluster.nodes))
        nodes = None if len(nodes) == cluster.nodes else nodes
    if len(out) >= fabric.rails:
        raise change.refused(fault, f"no rail is left of {fabric.rails}, so nothing would run; take fewer")
    if nodes is None:
        return replace(job, cluster=wires.every_node(cluster, lambda node: _without(node, out)))
    for node in nodes:
        cluster = cluster.with_node(node, _without(cluster.wiring(node), out))
    return replace(job, cluster=cluster)


def _without(node: Node, rails: set[int]) -> Node:
    """The node with its NICs on those rails given up; a GPU left without one borrows the nearest by switch and socket."""
    left = [n for n, slot in enumerate(node.nics) if slot.rail not in rails]

    def near(gpu: int) -> tuple[int, ...]:
        own = tuple(n for n in node.gpus[gpu].nics if n in left)
        at, socket = node.gpus[gpu].pcie, node.socket_of_gpu(gpu)
        return own or (min(left, key=lambda n: (node.nics[n].pcie != at, node.socket_of_nic(n) != socket, abs(n - gpu))),)

    gpus = tuple(msgspec.structs.replace(slot, nics=near(g)) for g, slot in enumerate(node.gpus))
    return msgspec.structs.replace(node, gpus=gpus)


EFFECTS: Final = {
    "fabric.congestion": Effect(_congestion, _level),
    "fabric.pause_storm": Effect(_pause_storm),
    "fabric.link_flap": Effect(_link_flap, once_in(fault_numbers().link_flap.every, QUARTERS)),
    "fabric.link_degraded": Effect(_link_degraded),
    "fabric.rail_down": Effect(_rail_down, rewires=True),
}
