"""Which ranks form the groups of one mesh axis, without listing them, and on which nodes and GPUs does each group sit?

Regular groups: `size` ranks `stride` apart, block after block, as every row-major mesh lays them. Index g counts groups by their
first rank within a block, block after block. Others are listed one by one, for small worlds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.model.errors import UsageMistake

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Groups:
    """`count` groups of `size` ranks. `listed` holds the ranks of groups that are not regular, else it is ()."""

    world: int
    size: int
    stride: int = 1
    listed: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def regular(cls, world: int, size: int, stride: int = 1) -> Groups:
        """Groups of `size` ranks `stride` apart; UsageMistake where the world is no multiple of size times stride."""
        if size < 1 or stride < 1 or world < 1 or world % (size * stride):
            raise UsageMistake(f"groups of {size} ranks {stride} apart: {world} ranks are no multiple of that; change the mesh")
        return cls(world, size, stride)

    @classmethod
    def of(cls, ranks: Ints | list[list[int]], world: int | None = None) -> Groups:
        """Groups from an array [groups, size] of ranks."""
        rows = tuple(tuple(int(r) for r in row) for row in ranks)
        sizes = {len(row) for row in rows}
        if len(sizes) != 1 or sizes == {0}:
            raise UsageMistake("groups of unlike sizes: give an array of groups by ranks, all as long")
        if any(len(set(row)) < len(row) or min(row) < 0 for row in rows):
            raise UsageMistake("a group names a rank twice, or one below 0; name each once")
        last = max(max(row) for row in rows) + 1
        return cls(max(last, world or 0), sizes.pop(), 1, rows)

    @property
    def count(self) -> int:
        """How many groups."""
        return len(self.listed) or self.world // self.size

    def ranks(self, group: int) -> Ints:
        """Ranks of one group, in order, shape [size]."""
        if self.listed:
            return np.asarray(self.listed[group], np.int64)
        block, offset = divmod(group, self.stride)
        return block * self.size * self.stride + offset + np.arange(self.size, dtype=np.int64) * self.stride

    def table(self) -> Ints:
        """Ranks of all groups, shape [count, size]."""
        if self.listed:
            return np.asarray(self.listed, np.int64)
        blocks = np.arange(self.world, dtype=np.int64).reshape(-1, self.size, self.stride)
        return blocks.transpose(0, 2, 1).reshape(-1, self.size)

    def group_of_ranks(self) -> Ints:
        """Group of every rank, shape [world]; -1 where a rank is in none (listed groups), the last one where in several."""
        if self.listed:
            found = np.full(self.world, -1, np.int64)
            found[self.table()] = np.arange(self.count)[:, None]
            return found
        ranks = np.arange(self.world, dtype=np.int64)
        return ranks // (self.size * self.stride) * self.stride + ranks % self.stride

    def groups_of(self, ranks: Ints) -> Ints:
        """Groups that contain one of these ranks, sorted."""
        inside = ranks[ranks < self.world]
        if self.listed:
            return np.flatnonzero(np.isin(self.table(), inside).any(axis=1))
        return np.unique(inside // (self.size * self.stride) * self.stride + inside % self.stride)


@dataclass(frozen=True, slots=True)
class Member:
    """One group on the machine: `nodes` in the order of the ring and the GPUs it has on each, `locals_[i]` on `nodes[i]`.

    `ranks` is the size. A group that lies alike on all its nodes has one entry in `locals_`.
    """

    nodes: Ints
    locals_: tuple[tuple[int, ...], ...]
    ranks: int

    def local(self, i: int) -> tuple[int, ...]:
        """GPUs on the i-th node."""
        return self.locals_[i if len(self.locals_) > 1 else 0]

    @property
    def per_node(self) -> int:
        """Least number of GPUs on one of its nodes."""
        return min(len(gpus) for gpus in self.locals_)


def member(groups: Groups, group: int, gpus_per_node: int) -> Member:
    """Where one group sits."""
    per = gpus_per_node
    if not groups.listed:
        span = groups.size * groups.stride
        start = int(groups.ranks(group)[0])
        if groups.stride % per == 0:
            step = groups.stride // per
            return Member(start // per + np.arange(groups.size, dtype=np.int64) * step, ((start % per,),), groups.size)
        if span % per == 0 and per % groups.stride == 0:
            first = start // per
            gpus = tuple(range(start % groups.stride, per, groups.stride))
            return Member(np.arange(first, first + span // per, dtype=np.int64), (gpus,), groups.size)
    ranks = groups.ranks(group)
    nodes: list[int] = []
    order: dict[int, list[int]] = {}
    for rank in ranks.tolist():
        node, gpu = divmod(rank, per)
        if node not in order:
            order[node] = []
            nodes.append(node)
        order[node].append(gpu)
    found = tuple(tuple(sorted(order[node])) for node in nodes)
    return Member(np.asarray(nodes, np.int64), found[:1] if len(set(found)) == 1 else found, groups.size)
