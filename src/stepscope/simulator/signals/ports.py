"""What a NIC's port counts, and the switch's port at the other end of its cable: bytes, waiting, errors, congestion.

Bytes are the payload on the cable with headers. A port waits for what its cable or a peer does not take at the rate it trained
at. Not known: packets of requests, and how errors spread over a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from stepscope.catalog.telemetry import telemetry
from stepscope.simulator.faults.hang import Hang
from stepscope.simulator.job import Job
from stepscope.simulator.sensors import PortState
from stepscope.simulator.signals.series import Array, Clockwork, Series, grown
from stepscope.simulator.signals.traffic import Traffic
from stepscope.simulator.simulation import Step

LINE_RATES_GBIT: Final = (10, 25, 40, 50, 56, 100, 200, 400, 800)  # what ports of Ethernet and InfiniBand train at
PACKET_BYTES: Final = 4096  # the largest payload of RDMA
MARKS_PER_NOTICE: Final = 50  # of marked packets; a notification point sends at most one notice in some tens of us
PAUSE_NS: Final = 80_000  # a pause frame at 400 Gbit/s stops a sender for at most 65,535 quanta of 512 bits, about 84 us
RETRIES: Final = 7  # NCCL_IB_RETRY_CNT's default: then the completion fails
ACTIVE, DOWN = 4.0, 1.0


def line_rate_gbit(job: Job) -> float:
    """What a healthy port trains at: the least rate that carries its payload."""
    gbit = job.cluster.node.nic_bytes_per_s * 8 / 1e9
    return float(next((rate for rate in LINE_RATES_GBIT if rate >= gbit * 0.999), round(gbit)))


def trained_gbit(job: Job, state: PortState) -> float:
    """What this port has trained at."""
    wanted = line_rate_gbit(job) * state.rate
    return float(max((rate for rate in LINE_RATES_GBIT if rate <= wanted * 1.001), default=LINE_RATES_GBIT[0]))


def port_state(job: Job, node: int, nic: int) -> PortState:
    """The state of a port; one whose NIC no GPU of the node uses any more, though it was meant for one, is down."""
    state = job.conditions.sensed.port(node, nic)
    given_up = any(nic in gpu.nics for gpu in job.cluster.node.gpus) and not any(
        nic in gpu.nics for gpu in job.cluster.wiring(node).gpus
    )
    return replace(state, up=False) if given_up else state


def broken_ports(step: Step, hang: Hang) -> frozenset[tuple[int, int]]:
    """Ports that nothing passes any more: of ranks whose collective all members have joined, and which never ends."""
    op = step.prepared.work.program.ops[hang.place]
    job = step.prepared.job
    if op.kind != "collective" or hang.called is not None or not hang.started[hang.place, hang.culprits].all():
        return frozenset()
    where = hang.fault.where
    if where.nic is not None:
        return frozenset({(where.node or 0, where.nic)})
    places = [job.cluster.at(int(rank)) for rank in hang.culprits]
    return frozenset((node, nic) for node, gpu in places for nic in job.cluster.wiring(node).gpus[gpu].nics)


def port_series(steps: Sequence[Step], traffic: Sequence[Traffic], clock: Clockwork, hang: Hang | None = None) -> list[Series]:
    """Series of all NICs, and of the switch ports that they are plugged into."""
    job = steps[0].prepared.job
    nodes = -(-steps[0].prepared.width // job.cluster.gpus_per_node)
    places = [(n, i) for n in range(nodes) for i in range(len(job.cluster.wiring(n).nics))]
    if traffic[0].links is None or not places:
        return []
    scopes = tuple(f"node{n}/nic{i}" for n, i in places)
    count = _counted(steps, traffic, clock, places)
    for place in broken_ports(steps[-1], hang) if hang is not None else ():
        if place in places:
            at = places.index(place)
            count["port_state"][at, -1] = DOWN
            count["link_downs"][at, -1] += 1
            count["ack_timeouts"][at, -1] += RETRIES
    found = [grown(metric, scopes, values, _before(metric)) for metric, values in count.items() if metric not in _GAUGES]
    found += [Series(metric, scopes, count[metric]) for metric in _GAUGES]
    if job.transport.kind == "infiniband":  # no pause frames, and no marks without RoCE
        found = [one for one in found if one.metric not in _ETHERNET]
    far = tuple(job.cluster.port(n, i) for n, i in places)
    mirrored = {"data_sent": "data_received", "data_received": "data_sent", "symbol_errors": "symbol_errors"}
    return found + [grown(metric, far, count[mine], _before(metric)) for metric, mine in mirrored.items()]


_GAUGES: Final = ("port_rate", "port_state")
_ETHERNET: Final = (
    "pauses_received",
    "pauses_sent",
    "congestion_notices_sent",
    "congestion_marks",
    "congestion_notices_handled",
)
_WORDS: Final = (
    "data_sent", "data_received", "transmit_wait", "symbol_errors", "link_recoveries", "link_downs", "receive_errors",
    "port_rate", "port_state", "out_of_sequence", "sequence_errors", "ack_timeouts", *_ETHERNET,
)  # fmt: skip


def _before(metric: str) -> float:
    """How far a counter has come since the host's start, at most."""
    return {"data_sent": 4e15, "data_received": 4e15, "transmit_wait": 1e9}.get(metric, 0.0)


def _counted(
    steps: Sequence[Step], traffic: Sequence[Traffic], clock: Clockwork, places: list[tuple[int, int]]
) -> dict[str, Array]:
    """metric -> [NICs, steps]."""
    found = {word: np.zeros((len(places), len(steps))) for word in _WORDS}
    for k, (step, moved) in enumerate(zip(steps, traffic, strict=True)):
        out: dict[str, float] = {}
        into: dict[str, float] = {}
        for (src, dst), nbytes in (moved.ends() or {}).items():
            if "/nic" in src and dst.startswith("leaf"):
                out[src] = out.get(src, 0.0) + nbytes
            elif "/nic" in dst and src.startswith("leaf"):
                into[dst] = into.get(dst, 0.0) + nbytes
        for i, (node, nic) in enumerate(places):
            name = f"node{node}/nic{nic}"
            for word, value in _port(
                step.prepared.job, node, nic, out.get(name, 0.0), into.get(name, 0.0), clock.seconds[k]
            ).items():
                found[word][i, k] = value
    return found


def _port(job: Job, node: int, nic: int, sent: float, received: float, seconds: float) -> dict[str, float]:
    """What one port counts in one step."""
    figures, state = telemetry(), port_state(job, node, nic)
    header = 1 + figures.nic.header_share
    idle = figures.nic.idle_rate * seconds
    rate = trained_gbit(job, state) / 8 * 1e9
    stall = job.conditions.stall
    here = stall is not None and (stall.node, stall.nic) == (node, nic)
    packets_in, packets_out = received / PACKET_BYTES, sent / PACKET_BYTES
    again = packets_in * state.lost
    paused = state.paused * seconds
    waited = max(paused, sum(_unmoved(job, node, nic, sent, rate)))
    if sent / max(rate * seconds, 1.0) > figures.congestion.busy_enough:
        waited += figures.congestion.wait_share * seconds
    return {
        "data_sent": (sent * (1 + state.lost)) * header + idle,
        "data_received": received * header + idle,
        "transmit_wait": waited * figures.nic.wait_ticks_per_s,
        "symbol_errors": state.symbol_errors_per_s * seconds,
        "link_recoveries": 1.0 if here else 0.0,
        "link_downs": 1.0 if here else 0.0,
        "receive_errors": state.symbol_errors_per_s * seconds / 8,
        "port_rate": rate,
        "port_state": ACTIVE if state.up else DOWN,
        "out_of_sequence": again,
        "sequence_errors": packets_out * state.lost,
        "ack_timeouts": packets_out * state.lost / 100 + (2.0 if here else 0.0),
        "congestion_marks": packets_in * state.marked,
        "congestion_notices_sent": packets_in * state.marked / MARKS_PER_NOTICE,
        "congestion_notices_handled": packets_out * state.marked / MARKS_PER_NOTICE,
        "pauses_received": paused / (PAUSE_NS / 1e9),
        "pauses_sent": 0.0,
    }


def _unmoved(job: Job, node: int, nic: int, sent: float, rate: float) -> list[float]:
    """Seconds that the port stood with bytes to send, since the cable carries less than the port trained at."""
    link = job.cluster.cables(node, nic)[0]
    healthy = job.cluster.node.nic_bytes_per_s * rate / (line_rate_gbit(job) / 8 * 1e9)
    return [sent / link.capacity_bytes_per_s - sent / healthy] if 0 < link.capacity_bytes_per_s < healthy * 0.999 else []
