"""How many bytes did each link of the cluster carry in a step? Payload, of the collectives that ran and of the copies.

Of a world larger than MOST_RANKS nothing is said: links are looked at one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from stepscope.simulator.conditions import PerRank
from stepscope.simulator.costs import TOKEN_BYTES, axes
from stepscope.simulator.job import Job
from stepscope.simulator.nccl.candidate import steps as ring_steps
from stepscope.simulator.nccl.groups import Groups, member
from stepscope.simulator.simulation import Step

MOST_RANKS: Final = 1024


def of_rank(value: PerRank | bool, ranks: int) -> np.ndarray:
    """A condition of every rank, [ranks]."""
    return np.broadcast_to(np.asarray(value, dtype=float), ranks)


def is_socket(job: Job) -> bool:
    """Whether nodes talk TCP."""
    return job.nccl.network == "socket" or job.transport.ramp_class == "socket"


@dataclass(slots=True)
class Traffic:
    """Bytes of one step: on `links` by name, over TCP in and out of each node, None where the world is too large to tell."""

    links: dict[str, float] | None
    tcp: dict[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, step: Step) -> Traffic:
        """Everything that a step moved."""
        prepared = step.prepared
        job = prepared.job
        if job.ranks > MOST_RANKS or prepared.width < job.ranks:
            return cls(None)
        found = cls({})
        assert found.links is not None
        calls: dict[tuple[str, int, str], int] = {}
        for op in prepared.work.program.ops:
            if op.kind == "collective" and op.comm is not None:
                key = (op.name, op.nbytes, op.comm.axis)
                calls[key] = calls.get(key, 0) + op.count
        spans = axes(job.mesh, job.workload.plan)
        for (name, nbytes, axis), count in calls.items():
            size, stride = spans[axis]
            if size == 1:
                continue
            groups = Groups.regular(job.ranks, size, stride)
            for link, moved in prepared.collectives.link_bytes(name, nbytes, groups).items():
                found.links[link] = found.links.get(link, 0.0) + moved * count
            if is_socket(job):
                found._over_tcp(job, groups, ring_steps(name, size) * nbytes * count)  # type: ignore[arg-type]  # a name of OPS
        found._copies(job)
        return found

    def ends(self) -> dict[tuple[str, str], float] | None:
        """Bytes by (source, far end), for tables of all links."""
        if self.links is None:
            return None
        return {(name.split(">")[0], name.split(">")[1]): n for name, n in self.links.items()}

    def _over_tcp(self, job: Job, groups: Groups, nbytes: float) -> None:
        """A ring enters and leaves each of its nodes once."""
        for g in range(groups.count):
            one = member(groups, g, job.cluster.gpus_per_node)
            if len(one.nodes) > 1:
                for node in one.nodes.tolist():
                    self.tcp[node] = self.tcp.get(node, 0.0) + nbytes

    def _copies(self, job: Job) -> None:
        """The batch from the host, and optimizer state that lives there, both ways."""
        assert self.links is not None
        plan = job.workload.plan
        batch = plan.mbs * plan.ga * job.workload.seq * TOKEN_BYTES
        shards = plan.data_ranks if plan.strategy != "ddp" else 1
        state = job.workload.shape.parameters() / shards / plan.tp * 12 * of_rank(job.conditions.offloaded, job.ranks)
        for rank in range(job.ranks):
            at = job.cluster.at(rank)
            path = job.cluster.wiring(at.node).to_host(f"node{at.node}", at.gpu)
            for link in path:
                back = f"{link.dst}>{link.src}"
                self.links[back] = self.links.get(back, 0.0) + batch + float(state[rank])
                self.links[link.name] = self.links.get(link.name, 0.0) + float(state[rank])
