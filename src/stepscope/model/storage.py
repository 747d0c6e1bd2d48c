"""Where batches come from and checkpoints go: file systems that a node mounts. Rates are bytes a second."""

from __future__ import annotations

from typing import Literal

import msgspec


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A file system: what one node can read and write, what all nodes together can (None: local to each node), and its latency.

    `latency_ns` is one small read that no cache holds. `over` is what its bytes leave the node by: a network of its own, or the
    NICs that the job's collectives use (`rails`).
    """

    path: str
    kind: str
    read_bytes_per_s: float
    write_bytes_per_s: float
    latency_ns: int
    total_read_bytes_per_s: float | None = None
    total_write_bytes_per_s: float | None = None
    over: Literal["own", "rails"] = "own"

    @property
    def shared(self) -> bool:
        """Whether all nodes see the same files and share its rate."""
        return self.total_read_bytes_per_s is not None
