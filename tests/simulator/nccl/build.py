"""Small worlds for the tests: an HGX H100 of the catalog, and times one can add up by hand."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from stepscope.catalog.nccl import nccl_tables
from stepscope.catalog.system import System, load_system
from stepscope.model.cluster import Cluster
from stepscope.simulator.nccl.groups import Groups
from stepscope.simulator.nccl.model import Collectives
from stepscope.simulator.nccl.settings import NcclSettings

GIB: Final = 1 << 30
WORLD: Final = Groups.regular(16, 16)


@lru_cache(maxsize=8)
def system(name: str = "hgx-h100") -> System:
    return load_system(name)


def model(cluster: Cluster | None = None, name: str = "hgx-h100", **settings: object) -> Collectives:
    """Collectives on that cluster (two nodes of the system by default) with these settings."""
    found = cluster or system(name).cluster(2)
    return Collectives.of(system(name), found, msgspec.convert(settings, NcclSettings))


def busbw(found: Collectives, op: str = "all_gather", nbytes: int = 64 * GIB, groups: Groups = WORLD) -> float:
    """GB/s of the slowest group."""
    return float(found.time(op, nbytes, groups).busbw_bytes_per_s.min() / 1e9)


def weaker(cluster: Cluster, name: str, times: float) -> Cluster:
    """The same cluster with one link at that share of its rate."""
    link = next(link for link in cluster.links() if link.name == name)
    return cluster.with_links(msgspec.structs.replace(link, capacity_bytes_per_s=link.capacity_bytes_per_s * times))


def fill_ns() -> float:
    """What the ramp between nodes over RDMA adds under the root."""
    return nccl_tables().ramp["rdma"].fill_us * 1e3
