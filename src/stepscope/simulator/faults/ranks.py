"""Which ranks does a place hold, and a value on those ranks alone: arrays [ranks], or a number where it is all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepscope.simulator.conditions import PerRank
from stepscope.simulator.faults.where import Where
from stepscope.simulator.job import Job

Ints = NDArray[np.int64]


def ranks_at(job: Job, where: Where) -> Ints:
    """Ranks at a job, node, GPU, rank or file system (of one node, or of all)."""
    per = job.cluster.gpus_per_node
    if where.rank is not None:
        return np.array([where.rank])
    if where.gpu is not None:
        return np.array([(where.node or 0) * per + where.gpu])
    if where.node is not None:
        return np.arange(where.node * per, min((where.node + 1) * per, job.ranks))
    return np.arange(job.ranks)


def there(job: Job, where: Where, value: float, elsewhere: float = 1.0) -> PerRank:
    """The value on the ranks of that place and `elsewhere` on the others."""
    return on(job, ranks_at(job, where), value, elsewhere)


def on(job: Job, ranks: Ints, value: float, elsewhere: float = 1.0) -> PerRank:
    """The value on those ranks and `elsewhere` on the others; a number where it is all of them."""
    if len(ranks) == job.ranks:
        return value
    found = np.full(job.ranks, elsewhere)
    found[ranks] = value
    return found
