"""When has the last member of each group joined? Over a vector of ranks, for the regular groups of a mesh axis.

Groups of `size` ranks, `stride` apart, in blocks of size x stride ranks. Fewer ranks than one block means that the ranks of the
vector stand for all of theirs: each is its own last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Joining:
    """Groups of one axis over a vector of `ranks` entries."""

    size: int
    stride: int
    ranks: int

    @property
    def alone(self) -> bool:
        """Whether every entry is a group of its own."""
        return self.size == 1 or self.ranks < self.size * self.stride

    def last(self, values: Array, out: Array) -> None:
        """Of each rank the largest value in its group, written to `out`."""
        if self.alone:
            out[:] = values
        elif self.size == self.ranks:
            out.fill(values.max())
        else:
            blocks = values.reshape(-1, self.size, self.stride)
            out.reshape(blocks.shape)[:] = blocks.max(axis=1, keepdims=True)

    def first(self) -> NDArray[np.int64] | int:
        """Of each rank the first rank of its group; 0 where there is one group."""
        if self.size == self.ranks and not self.alone:
            return 0
        ranks = np.arange(self.ranks)
        if self.alone:
            return ranks
        return ranks - ranks // self.stride % self.size * self.stride

    def group_of(self) -> NDArray[np.int64]:
        """Of each rank the number of its group, in the order of `Mesh.groups`."""
        ranks = np.arange(self.ranks)
        if self.alone:
            return np.zeros(self.ranks, dtype=np.int64) if self.size > 1 else ranks
        block = self.size * self.stride
        return ranks // block * self.stride + ranks % self.stride
