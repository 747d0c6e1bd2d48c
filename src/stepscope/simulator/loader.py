"""When does each rank hold its next batch? Worker processes that make batches ahead, and the queue between them and the loop.

A worker begins a batch when it has finished its last one and the queue has room. Without workers the loop makes each
batch itself. Times are ns, arrays [ranks].
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepscope.model.cluster import Cluster
from stepscope.model.storage import Mount
from stepscope.model.workload import Loader
from stepscope.simulator.conditions import PerRank

Array = NDArray[np.float64]

PAGE_BYTES: Final = 4096  # what a fault of a memory-mapped file reads on Linux


def read_ns(loader: Loader, mount: Mount, sequences: int, seq: int, ranks_per_node: int, ranks: int) -> float:
    """Reading one batch that no cache holds: its pages one after the other, then the bytes at this rank's fair share."""
    nbytes = sequences * seq * loader.bytes_per_token
    rate = mount.read_bytes_per_s / ranks_per_node
    if mount.total_read_bytes_per_s is not None:
        rate = min(rate, mount.total_read_bytes_per_s / ranks)
    pages = sequences * min(-(-seq * loader.bytes_per_token // PAGE_BYTES), READ_AHEAD_PAGES)
    return pages * mount.latency_ns + nbytes / rate * 1e9


READ_AHEAD_PAGES: Final = 32  # 128 KiB, the read-ahead of Linux: longer samples stream


def mount_at(cluster: Cluster, path: str) -> Mount:
    """The file system of that path, the cluster's first for an empty one; UsageMistake where there is none such."""
    from stepscope.model.errors import UsageMistake

    for mount in cluster.mounts:
        if path in ("", mount.path):
            return mount
    known = ", ".join(m.path for m in cluster.mounts) or "none"
    raise UsageMistake(f"{path[:80] or 'storage'}: {cluster.name} has no such file system; known: {known}")


class Queue:
    """The loaders of all ranks. `fetch_ns` and `delay_ns` may be changed between steps; batches under way keep what they had.

    `delay_ns` comes on top of the next batch alone.
    """

    def __init__(self, loader: Loader, ranks: int, fetch_ns: PerRank) -> None:
        self.fetch_ns = fetch_ns
        self.delay_ns: PerRank = 0.0
        self.workers = loader.workers
        self.room = loader.workers * max(loader.prefetch, 1)
        each = np.broadcast_to(fetch_ns, ranks) / max(loader.workers, 1)
        self._finished = [each * worker for worker in range(loader.workers)]  # out of step with one another, as after a while
        self._taken = [np.zeros(ranks) for _ in range(self.room)]
        self._number = 0

    def take(self, asked: Array) -> Array:
        """When each rank holds its next batch, having asked for it at `asked`."""
        if not self.workers:
            made: Array = asked + self.fetch_ns + self.delay_ns
            self.delay_ns = 0.0
            return made
        worker, slot = self._number % self.workers, self._number % self.room
        begun = np.maximum(self._finished[worker], self._taken[slot])
        done = begun + self.fetch_ns
        ready = np.maximum(asked, done) + self.delay_ns
        self.delay_ns = 0.0
        self._finished[worker] = done
        self._taken[slot] = ready
        self._number += 1
        return ready
