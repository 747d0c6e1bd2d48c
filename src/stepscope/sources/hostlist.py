"""Node lists as Slurm writes them: `node[01-04,07],gpu[1-2]-[001-256]`, expanded within bounds.

Numbers keep their leading zeros. What a list expands to is counted before it is made, so that a range of a thousand million
nodes costs nothing.
"""

from __future__ import annotations

import re
from itertools import product
from math import prod
from typing import Final

MAX_NODES: Final = 1 << 17
MAX_RANKS: Final = 1 << 20

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?")
_RANGE: Final = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")
_SPLIT: Final = re.compile(r",(?![^\[]*\])")  # commas outside brackets


class WrongList(Exception):
    """What is wrong in a list of places, and the mend; whoever knows the file puts its name in front."""


def expand(text: str) -> list[str]:
    """The nodes of a list, in its order. Raises WrongList for what is none, or too long."""
    nodes: list[str] = []
    for item in _SPLIT.split(text):
        pieces = [_pieces(item, part) for part in re.split(r"(\[[^\[\]]*\])", item) if part]
        if len(nodes) + prod(len(piece) for piece in pieces) > MAX_NODES:
            raise WrongList(f"{item[:60]!r} stands for more than {MAX_NODES:,} nodes; check the range")
        nodes += [node_name("".join(chosen)) for chosen in product(*pieces)]
    return nodes


def node_name(word: str) -> str:
    """`word` where it can be the name of a host. Raises WrongList."""
    if not _NAME.fullmatch(word):
        raise WrongList(f"{word[:60]!r} is no name of a node; names hold letters, digits, dots and dashes")
    return word


def _pieces(item: str, part: str) -> list[str]:
    """`node` as itself, `[01-04,07]` as its numbers."""
    if not part.startswith("["):
        return [part]
    bounds: list[tuple[int, int, int]] = []
    for word in part[1:-1].split(","):
        match = _RANGE.fullmatch(word)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or high < low:
            raise WrongList(f"{item[:60]!r}: {word[:40]!r} is no range; write for example node[01-04,07]")
        bounds.append((low, high, len(match[1])))
    if sum(high - low + 1 for low, high, _ in bounds) > MAX_NODES:
        raise WrongList(f"{item[:60]!r} stands for more than {MAX_NODES:,} nodes; check the range")
    return [f"{number:0{width}}" for low, high, width in bounds for number in range(low, high + 1)]
