"""NCCL's double binary trees over nodes, and the chain inside each node: who is above and below a rank in each channel's tree.

Two complementary trees, so that a node that is inner in one is a leaf in the other (NVIDIA's post on double binary trees, after
Sanders, Speck and Traff 2009); channels of the second half take the second. Inside a node the GPUs hang on one another in the
order of the channel. NCCL's own search may lay other chains.
"""

from __future__ import annotations

from collections.abc import Sequence

NOBODY = -1


def above(node: int, nodes: int) -> int:
    """The node above one in the first tree: nodes are its in-order numbering, 0 the root."""
    if node == 0:
        return NOBODY
    bit = node & -node
    up = (node ^ bit) | (bit << 1)
    return up if up < nodes else node ^ bit


def second(node: int, nodes: int) -> int:
    """The node above one in the second tree: the first one mirrored (an even number of nodes) or shifted by one."""
    if nodes % 2 == 0:
        up = above(nodes - 1 - node, nodes)
        return NOBODY if up == NOBODY else nodes - 1 - up
    up = above((node - 1) % nodes, nodes)
    return NOBODY if up == NOBODY else (up + 1) % nodes


def neighbours(orders: Sequence[Sequence[int]], me: int, mirrored: bool) -> tuple[int, tuple[int, ...]]:
    """(above, up to three below) of a rank in one channel; `orders` are the ranks of each node as the channel visits them."""
    nodes = len(orders)
    climb = second if mirrored else above
    at = next(i for i, order in enumerate(orders) if me in order)
    order = list(orders[at])
    place = order.index(me)
    below = [order[place + 1]] if place + 1 < len(order) else []
    if place:
        return order[place - 1], tuple(below)
    up = climb(at, nodes)
    below += [orders[i][0] for i in range(nodes) if climb(i, nodes) == at]
    return (NOBODY if up == NOBODY else orders[up][0]), tuple(below)


def line(orders_of: Sequence[Sequence[Sequence[int]]], me: int, wide: int) -> str:
    """`Trees [0] 1/8/-1->0->-1 [1] …` over all channels."""
    words = []
    for c in range(wide):
        up, below = neighbours(orders_of[c % len(orders_of)], me, mirrored=c >= wide // 2)
        three = "/".join(str(n) for n in (*below, NOBODY, NOBODY, NOBODY)[:3])
        words.append(f"[{c}] {three}->{me}->{up}")
    return "Trees " + " ".join(words)
