"""Faults of the transport: no GPUDirect, TCP instead of RDMA, packets that are lost and sent again.

Loss p leaves (1 - p) / (1 + N p) of the rate: go-back-N sends N packets again for each lost one (the textbook's rule, with N as
catalog/faults.toml derives it). Not modelled: timeouts after the loss of a last packet.
"""

from __future__ import annotations

from typing import Final

from stepscope.catalog.faults import fault_numbers
from stepscope.simulator.faults import change, sense
from stepscope.simulator.faults.effect import Effect, Now
from stepscope.simulator.faults.fabric import carrying
from stepscope.simulator.faults.fault import Fault
from stepscope.simulator.job import Job


def _no_gpudirect(job: Job, fault: Fault, now: Now) -> Job:
    settings, where = job.nccl, fault.where
    before = settings.gpudirect_fraction
    least = fault.amount if before is None else min(before, fault.amount)
    if where.kind == "nic":
        nics = (*settings.gpudirect_nics, (where.node or 0, where.nic or 0))
        return change.nccl(job, gpudirect_nics=nics, gpudirect_fraction=least)
    nodes = () if where.kind == "job" else (where.node or 0,)
    return change.nccl(job, gpudirect=False, gpudirect_on=nodes, gpudirect_fraction=least)


def _tcp_fallback(job: Job, fault: Fault, now: Now) -> Job:
    """A communicator speaks one transport, so one node without RDMA devices takes all of its job to TCP."""
    before = job.nccl.socket_fraction
    least = fault.amount if before is None else min(before, fault.amount)
    return change.nccl(job, network="socket", socket_fraction=least)


def goodput(loss: float) -> float:
    """Share of a link's rate that go-back-N leaves at that share of lost packets."""
    return (1 - loss) / (1 + fault_numbers().retransmits.resent_packets * loss)


def _retransmits(job: Job, fault: Fault, now: Now) -> Job:
    return sense.ports(carrying(job, fault, goodput(fault.amount)), fault.where, lost=fault.amount)


EFFECTS: Final = {
    "transport.no_gpudirect": Effect(_no_gpudirect),
    "transport.tcp_fallback": Effect(_tcp_fallback),
    "transport.retransmits": Effect(_retransmits),
}
