"""Where does a fault sit? The places of `--fault CAUSE@PLACE` in words, checked against the job they are said of.

    job   node1   node1/gpu3   node1/nic3   rank 11   leaf2   leaf2/port7   rail3   /data   node1:/data

A place of a near kind stands for the one that a cause can have where there is just one such: a rank for its GPU, a GPU for its
NIC, a NIC for its switch's port.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from stepscope.catalog.cause import PlaceKind
from stepscope.model.cluster import Cluster
from stepscope.model.errors import UsageMistake
from stepscope.simulator.job import Job

FORMS: Final = "job, node1, node1/gpu3, node1/nic3, rank11, leaf2, leaf2/port7, rail3, /data, node1:/data"
_PATH: Final = r"/[A-Za-z0-9._/-]{0,120}"
_FORMS: Final[tuple[tuple[PlaceKind, str], ...]] = (
    ("job", r"job"),
    ("node", r"node(?P<node>\d{1,7})"),
    ("gpu", r"node(?P<node>\d{1,7})/gpu(?P<gpu>\d{1,4})"),
    ("nic", r"node(?P<node>\d{1,7})/nic(?P<nic>\d{1,4})"),
    ("rank", r"rank ?(?P<rank>\d{1,7})"),
    ("leaf", r"leaf(?P<leaf>\d{1,7})"),
    ("port", r"leaf(?P<leaf>\d{1,7})/port(?P<port>\d{1,7})"),
    ("rail", r"rail(?P<rail>\d{1,4})"),
    ("stage", r"stage(?P<stage>\d{1,4})"),
    ("mount", rf"(?:node(?P<node>\d{{1,7}}):)?(?P<path>{_PATH})"),
)


@dataclass(frozen=True, slots=True)
class Where:
    """A place: its kind and the numbers that kind has, the others None."""

    kind: PlaceKind
    node: int | None = None
    gpu: int | None = None
    nic: int | None = None
    rank: int | None = None
    leaf: int | None = None
    port: int | None = None
    rail: int | None = None
    stage: int | None = None
    path: str | None = None

    def __str__(self) -> str:
        match self.kind:
            case "job":
                return "job"
            case "gpu":
                return f"node{self.node}/gpu{self.gpu}"
            case "nic":
                return f"node{self.node}/nic{self.nic}"
            case "rank":
                return f"rank {self.rank}"
            case "port":
                return f"leaf{self.leaf}/port{self.port}"
            case "mount":
                return f"{self.path}" if self.node is None else f"node{self.node}:{self.path}"
            case kind:
                return f"{kind}{getattr(self, kind)}"


def parse_where(text: str) -> Where:
    """The place that the words mean; UsageMistake where they mean none."""
    for kind, form in _FORMS:
        found = re.fullmatch(form, text, re.ASCII)
        if found:
            words = {key: value for key, value in found.groupdict().items() if value is not None}
            return msgspec.convert({"kind": kind, **words}, Where, strict=False)
    raise UsageMistake(f"fault: {text[:60]!r} is no place; write one of {FORMS}")


def settle(where: Where, kinds: tuple[PlaceKind, ...], job: Job) -> Where:
    """The place as one of the kinds that a cause can have, and one that the job has. UsageMistake says which there are."""
    check(where, job)
    if where.kind in kinds:
        return where
    for kind in kinds:
        near = _near(where, kind, job.cluster)
        if near is not None:
            check(near, job)
            return near
    raise UsageMistake(f"{where}: it cannot sit there; give {_listed(kinds)}")


def check(where: Where, job: Job) -> None:
    """UsageMistake where the job has no such place."""
    cluster, fabric = job.cluster, job.cluster.fabric
    name = cluster.name
    if where.rank is not None and where.rank >= job.ranks:
        raise UsageMistake(f"{where}: there is no such rank; the job has {_numbered('rank ', job.ranks)}")
    if where.node is not None:
        if where.node >= cluster.nodes:
            raise UsageMistake(f"{where}: there is no such node; {name} has {_numbered('node', cluster.nodes)}")
        wiring = cluster.wiring(where.node)
        if where.gpu is not None:
            if where.gpu >= len(wiring.gpus):
                raise UsageMistake(f"{where}: there is no such GPU; a node of {name} has {_numbered('gpu', len(wiring.gpus))}")
            if where.node * cluster.gpus_per_node + where.gpu >= job.ranks:
                raise UsageMistake(f"{where}: no rank runs there; the job has {_numbered('rank ', job.ranks)}")
        if where.nic is not None and where.nic >= len(wiring.nics):
            raise UsageMistake(f"{where}: there is no such NIC; a node of {name} has {_numbered('nic', len(wiring.nics))}")
    leaves = fabric.leaves(cluster.nodes)
    if where.leaf is not None and where.leaf >= leaves:
        raise UsageMistake(f"{where}: there is no such leaf switch; {name} has {_numbered('leaf', leaves)}")
    if where.port is not None and nic_of_port(where, cluster) is None:
        raise UsageMistake(f"{where}: no NIC is plugged in there; give a port in use, for example {cluster.port(0, 0)}")
    if where.rail is not None and where.rail >= fabric.rails:
        raise UsageMistake(f"{where}: there is no such rail; {name} has {_numbered('rail', fabric.rails)}")
    if where.path is not None and where.path not in {mount.path for mount in cluster.mounts}:
        known = ", ".join(mount.path for mount in cluster.mounts) or "none"
        raise UsageMistake(f"{where}: {name} mounts no such file system; known: {known}")


def nic_of_port(where: Where, cluster: Cluster) -> Where | None:
    """The NIC that is plugged into a leaf's port, None for an empty one."""
    fabric = cluster.fabric
    pod = (where.leaf or 0) // (fabric.rails if fabric.kind == "rail-optimised" else 1)
    first = pod * fabric.nodes_per_leaf
    for node in range(first, min(first + fabric.nodes_per_leaf, cluster.nodes)):
        for nic in range(len(cluster.wiring(node).nics)):
            if cluster.port(node, nic) == str(where):
                return Where("nic", node=node, nic=nic)
    return None


def _near(where: Where, kind: PlaceKind, cluster: Cluster) -> Where | None:
    """The one place of that kind that another stands for, None where there is none."""
    match where.kind, kind:
        case "rank", "gpu":
            node, gpu = cluster.at(where.rank or 0)
            return Where("gpu", node=node, gpu=gpu)
        case "gpu", "rank":
            return Where("rank", rank=(where.node or 0) * cluster.gpus_per_node + (where.gpu or 0))
        case "rank", "nic":
            return _near(_near(where, "gpu", cluster) or where, "nic", cluster)
        case "gpu", "nic":
            nics = cluster.wiring(where.node or 0).gpus[where.gpu or 0].nics
            if len(nics) > 1:
                raise UsageMistake(f"{where}: it has {len(nics)} NICs; give one, for example node{where.node}/nic{nics[0]}")
            return replace(where, kind="nic", gpu=None, nic=nics[0]) if nics else None
        case "nic", "gpu":
            wiring = cluster.wiring(where.node or 0)
            gpus = [g for g, slot in enumerate(wiring.gpus) if where.nic in slot.nics]
            return replace(where, kind="gpu", nic=None, gpu=gpus[0]) if len(gpus) == 1 else None
        case "port", "nic":
            return nic_of_port(where, cluster)
        case "leaf", "rail":
            whole = cluster.fabric.kind == "rail-optimised" and cluster.fabric.leaves(cluster.nodes) == cluster.fabric.rails
            return Where("rail", rail=where.leaf) if whole else None
    return None


def _numbered(noun: str, count: int) -> str:
    return f"{noun}0" if count == 1 else f"{noun}0 to {noun}{count - 1}"


def _listed(kinds: tuple[PlaceKind, ...]) -> str:
    words = {"gpu": "a GPU", "nic": "a NIC", "mount": "a file system", "leaf": "a leaf switch", "port": "a switch's port",
             "job": "job", "node": "a node", "rank": "a rank", "rail": "a rail", "stage": "a stage"}  # fmt: skip
    return " or ".join(words[kind] for kind in kinds)
