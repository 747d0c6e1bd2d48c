"""What instruments see of a fault's place beside the times that it changes: the state of ports, GPUs and hosts."""

from __future__ import annotations

from dataclasses import replace

from stepscope.simulator.faults import change
from stepscope.simulator.faults.ranks import ranks_at
from stepscope.simulator.faults.where import Where, nic_of_port
from stepscope.simulator.job import Job
from stepscope.simulator.sensors import GpuState, HostState, PortState


def ports(job: Job, where: Where, **state: float | bool) -> Job:
    """The same job with every port of the place in that state: a NIC's, or all of a node, a leaf, or the job."""
    found = tuple(PortState(node, nic, **state) for node, nic in ports_at(job, where))  # type: ignore[arg-type]  # by name
    sensed = job.conditions.sensed
    return change.conditions(job, sensed=replace(sensed, ports=(*sensed.ports, *found)))


def gpus(job: Job, where: Where, **state: float) -> Job:
    """The same job with the GPUs of the place in that state."""
    found = tuple(GpuState(*job.cluster.at(int(rank)), **state) for rank in ranks_at(job, where))  # type: ignore[arg-type]
    sensed = job.conditions.sensed
    return change.conditions(job, sensed=replace(sensed, gpus=(*sensed.gpus, *found)))


def hosts(job: Job, where: Where, **state: float) -> Job:
    """The same job with the node of the place (all, where it names none) in that state."""
    nodes = range(job.cluster.nodes) if where.node is None else (where.node,)
    found = tuple(HostState(node, **state) for node in nodes)
    sensed = job.conditions.sensed
    return change.conditions(job, sensed=replace(sensed, hosts=(*sensed.hosts, *found)))


def ports_at(job: Job, where: Where) -> list[tuple[int, int]]:
    """(node, NIC) of every port at a place."""
    cluster = job.cluster
    nic = nic_of_port(where, cluster) if where.kind == "port" else where
    if nic is not None and nic.nic is not None:
        return [(nic.node or 0, nic.nic)]
    every = [(n, i) for n in range(cluster.nodes) for i in range(len(cluster.wiring(n).nics))]
    if where.node is not None:
        return [(n, i) for n, i in every if n == where.node]
    if where.leaf is not None:
        return [(n, i) for n, i in every if cluster.fabric.leaf(n, cluster.wiring(n).nics[i].rail) == where.leaf]
    return every
