"""Node lists as Slurm writes them: `node[01-04,07],gpu[1-2]-[001-256]`, expanded within bounds.

Numbers keep their leading zeros. What a list expands to is counted before it is made, so that a range of a thousand million
nodes costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Final

MAX_NODES: Final = 1 << 17
MAX_RANKS: Final = 1 << 20

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?")
_RANGE: Final = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")
_BRACKETS: Final = re.compile(r"\[([^\[\]]*)\]")

Bounds = tuple[int, int, int]
"""First number, last number, digits."""

Piece = str | list[Bounds]


class WrongList(Exception):
    """What is wrong in a list of places, and the mend; whoever knows the file puts its name in front."""


def expand(text: str) -> list[str]:
    """The nodes of a list, in its order. Raises WrongList for what is none, or too long."""
    nodes: list[str] = []
    for item in _items(text):
        count = len(nodes) + 1
        for piece in item:
            count += (_count(piece) - 1) * (count - len(nodes))
            if count > MAX_NODES:
                raise WrongList(f"stands for more than {MAX_NODES:,} nodes; check the ranges")
        nodes += [node_name("".join(chosen)) for chosen in product(*(_written(piece) for piece in item))]
    return nodes


def node_name(word: str) -> str:
    """`word` where it can be the name of a host. Raises WrongList."""
    if not _NAME.fullmatch(word):
        raise WrongList(f"{word[:60]!r} is no name of a node; names hold letters, digits, dots and dashes")
    return word


def _items(text: str) -> Iterator[list[Piece]]:
    """Each item between commas as its pieces: text, and bounds of what stands in brackets."""
    item: list[Piece] = []
    for place, part in enumerate(_BRACKETS.split(text)):
        if place % 2:
            item.append([_bounds(word) for word in part.split(",")])
            continue
        first, *others = part.split(",")
        item.append(first.strip())
        for word in others:
            yield item
            item = [word.strip()]
    yield item


def _bounds(word: str) -> Bounds:
    match = _RANGE.fullmatch(word.strip())
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if match is None or high < low:
        raise WrongList(f"{word[:40]!r} is no range; write for example node[01-04,07]")
    return low, high, len(match[1])


def _count(piece: Piece) -> int:
    return 1 if isinstance(piece, str) else sum(high - low + 1 for low, high, _ in piece)


def _written(piece: Piece) -> list[str]:
    if isinstance(piece, str):
        return [piece]
    return [f"{number:0{width}}" for low, high, width in piece for number in range(low, high + 1)]
