"""Faults inside a node: a NIC on the other socket, PCIe with fewer lanes or by way of the root complex, NVLinks that are down."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from stepscope.simulator.faults import change, wires
from stepscope.simulator.faults.effect import Effect, Now
from stepscope.simulator.faults.fault import Fault
from stepscope.simulator.faults.ranks import there
from stepscope.simulator.faults.where import Where, settle
from stepscope.simulator.job import Job

SLOT_LANES: Final = 16  # of the slots that the cause speaks of


def _nic_cross_socket(job: Job, fault: Fault, now: Now) -> Job:
    """The GPU's NIC in a slot of the other socket. Where a part of the bytes cross, the socket link has that much less to do."""
    where = settle(fault.where, ("gpu",), job)
    node, cluster = where.node or 0, job.cluster
    wiring = cluster.wiring(node)
    across = wiring.with_nic_across(where.gpu or 0)
    if across is wiring or across == wiring:
        raise change.refused(fault, f"a node of {cluster.name} has one socket, or that NIC sits across already; take another")
    cluster = cluster.with_node(node, across)
    sockets = [link for link in wires.inside(cluster, node, f"node{node}/cpu0") if link.kind == "socket"]
    return replace(job, cluster=wires.at_share(cluster, sockets, 1 / fault.amount) if fault.amount < 1 else cluster)


def _pcie_downtrained(job: Job, fault: Fault, now: Now) -> Job:
    """Of a GPU's slot: its copies to and from the host are slow too."""
    where, share = fault.where, fault.amount / SLOT_LANES
    end = str(where)
    links = [link for link in wires.inside(job.cluster, where.node or 0, end) if link.kind == "pcie"]
    job = replace(job, cluster=wires.at_share(job.cluster, links, share))
    return change.times(job, slot=there(job, where, share)) if where.kind == "gpu" else job


def _acs_on(job: Job, fault: Fault, now: Now) -> Job:
    nodes = () if fault.where.kind == "job" else (fault.where.node or 0,)
    before = job.nccl.redirected_fraction
    least = fault.amount if before is None else min(before, fault.amount)
    return change.nccl(job, redirected=True, redirected_on=nodes, redirected_fraction=least)


def _nvlink_degraded(job: Job, fault: Fault, now: Now) -> Job:
    where, cluster = fault.where, job.cluster
    node = where.node or 0
    if cluster.wiring(node).scale_up.kind == "none":
        raise change.refused(fault, f"GPUs of {cluster.name} have no NVLink; take a system that has it")
    ends = [where] if where.kind == "gpu" else [Where("gpu", node=node, gpu=g) for g in range(cluster.gpus_per_node)]
    links = {link.name: link for end in ends for link in wires.inside(cluster, node, str(end)) if link.kind == "scale_up"}
    return replace(job, cluster=wires.at_share(cluster, links.values(), fault.amount))


EFFECTS: Final = {
    "interconnect.nic_cross_socket": Effect(_nic_cross_socket, rewires=True),
    "interconnect.pcie_downtrained": Effect(_pcie_downtrained),
    "interconnect.acs_on": Effect(_acs_on),
    "interconnect.nvlink_degraded": Effect(_nvlink_degraded),
}
