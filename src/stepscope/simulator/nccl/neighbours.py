"""Which nodes of a group exchange bytes under each pattern, and how much of each byte?

A share of 1 is all of `nbytes`, over all channels together; a ring's is further multiplied with its steps. Trees are two, each
for half of the bytes, heap-shaped and mirrored: NCCL's own are shaped otherwise and load nodes alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from stepscope.simulator.nccl.groups import Member

Pattern = Literal["ring", "tree", "nvls", "nvlstree", "collnet", "send_recv", "all_to_all"]
MANY_NODES: Final = 16
"""From so many nodes on an all-to-all is laid as if all its traffic went to the next node: alike for every NIC, and cheaper."""


def sends_to(member: Member, i: int, pattern: Pattern) -> Iterator[tuple[int, float]]:
    """Nodes of the group that the i-th sends to, and how much of each byte (all channels together)."""
    n = len(member.nodes)
    if pattern in ("ring", "send_recv"):
        yield (i + 1) % n, 1.0
    elif pattern in ("nvls", "all_to_all"):
        if pattern == "all_to_all":
            yield from _exchanged(member, i)
    elif pattern == "collnet":
        yield (i + 1) % n, 1.0  # up to the switches and down again: as much each way as to one peer
    else:
        yield from tree_neighbours(i, n)


def hears_from(member: Member, i: int, pattern: Pattern) -> Iterator[tuple[int, float]]:
    n = len(member.nodes)
    if pattern in ("ring", "send_recv", "collnet"):
        yield (i - 1) % n, 1.0
    elif pattern == "all_to_all":
        yield from _exchanged(member, i)
    elif pattern != "nvls":
        yield from tree_neighbours(i, n)


def _exchanged(member: Member, i: int) -> Iterator[tuple[int, float]]:
    n = len(member.nodes)
    if n > MANY_NODES:
        yield (i + 1) % n, (n - 1) / member.ranks
    else:
        yield from ((j, 1 / member.ranks) for j in range(n) if j != i)


def tree_neighbours(i: int, n: int) -> Iterator[tuple[int, float]]:
    """Parent and children of a node in two binary trees, each for half of the bytes; leaves of one are inside the other."""
    for mirrored in (False, True):
        at = n - 1 - i if mirrored else i
        near = [(at - 1) // 2] if at else []
        near += [child for child in (2 * at + 1, 2 * at + 2) if child < n]
        yield from ((n - 1 - j if mirrored else j, 0.5) for j in near)
