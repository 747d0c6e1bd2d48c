"""Which rank wrote a file, and of how many: distributedInfo, then collective metadata, then the file's name, then a map.

The order is that of trust: what the job itself wrote beats what somebody called the file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stepscope.model.info import Group
from stepscope.sources.file_name import shown

MAX_RANK: Final = 1 << 24  # sixteen million ranks: past any job, below what would make lists of missing ranks a danger
_IN_NAME: Final = (
    re.compile(r"rank[-_.=]?(\d{1,7})(?!\d)", re.IGNORECASE),
    re.compile(r"worker[-_.]?(\d{1,7})(?!\d)", re.IGNORECASE),
    re.compile(r"(?:^|[^a-z0-9])r(\d{1,7})(?!\d)", re.IGNORECASE),
)
_FOLDER: Final = re.compile(r"^(?:rank|worker|r)?[-_.]?(\d{1,7})$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Identity:
    """`rank` None where nothing names it; `by` says what did. `groups` are the process groups of the file's head."""

    rank: int | None
    by: str
    world_size: int | None
    groups: tuple[Group, ...]
    backend: str | None


def identify(path: Path, metadata: dict[str, Any], own_ranks: set[int], rank_map: Mapping[str, int]) -> Identity:
    """The rank of one file. `own_ranks` are those that its collectives name as their own."""
    info = metadata.get("distributedInfo")
    info = info if isinstance(info, dict) else _literal(info)
    world = _count(info.get("world_size"))
    groups = _groups(info.get("pg_config"))
    backend = info.get("backend") if isinstance(info.get("backend"), str) else None
    rank = _count(info.get("rank"))
    if rank is not None:
        return Identity(rank, "distributed_info", world, groups, backend)
    if len(own_ranks) == 1:
        return Identity(next(iter(own_ranks)), "collective_metadata", world, groups, backend)
    named = rank_in_name(path)
    if named is not None:
        return Identity(named, "file_name", world, groups, backend)
    mapped = next((rank_map[key] for key in (shown(path), shown(path.name)) if key in rank_map), None)
    return Identity(mapped, "rank_map" if mapped is not None else "unknown", world, groups, backend)


def rank_in_name(path: Path) -> int | None:
    """The rank that a file's name, or the folder named for one rank, tells."""
    for pattern in _IN_NAME:
        if match := pattern.search(path.name):
            return int(match.group(1))
    match = _FOLDER.match(path.parent.name)
    return int(match.group(1)) if match else None


def _count(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,10}", value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MAX_RANK else None


def _literal(text: object) -> dict[str, Any]:
    """Some writers put a python literal in a string."""
    if not isinstance(text, str) or len(text) > 1 << 20:
        return {}
    try:
        found = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return {}
    return found if isinstance(found, dict) else {}


def _groups(config: object) -> tuple[Group, ...]:
    """Process groups of `pg_config`: a list of {pg_name, ranks} in torch 2.3 and newer."""
    found: list[Group] = []
    for entry in config if isinstance(config, list) else []:
        if not isinstance(entry, dict) or entry.get("pg_name") is None:
            continue
        ranks = entry.get("ranks")
        if isinstance(ranks, list) and ranks and all(isinstance(r, int) and 0 <= r <= MAX_RANK for r in ranks):
            found.append(Group(str(entry["pg_name"]), None, tuple(sorted(ranks))))
    return tuple(found)
