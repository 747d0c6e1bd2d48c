"""What flight-recorder dumps hold: one value per file, and what of the job is not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.model.info import Gap


@dataclass(frozen=True, slots=True)
class Held:
    """One entry of a ring. `operation` without its backend; `shape` as torch writes sizes and types; times ns since 1970.

    `sequence` counts the group's collectives, None for point to point. `finished`: completed, or retired where a backend
    (gloo) never says more.
    """

    group: str
    description: str
    sequence: int | None
    operation: str
    shape: str
    created_ns: int | None
    finished: bool


@dataclass(frozen=True, slots=True)
class Dump:
    """One rank's dump. `form` is json, pickle or empty; counts are of its ring's entries; `wrapped`: older ones are lost.

    `groups` holds, by process group, the last collective enqueued and completed (-1: none; None: not recorded); `members` the
    ranks of the groups that the dump describes.
    """

    file: str
    rank: int | None
    form: str
    version: str | None = None
    library: str | None = None
    entries: int = 0
    wrapped: bool = False
    operations: Mapping[str, int] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    held: tuple[Held, ...] = ()
    members: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dumps:
    """All dumps of a folder, in order of rank, and the gaps: ranks without a dump, empty files, rings that wrapped."""

    dumps: tuple[Dump, ...]
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class Stuck:
    """The first collective of a group that has not ended for all. `missing` did not join; `ended`: it ended for them, and
    collectives after it, too, so the others lag behind. Times ns since 1970, of the first that joined."""

    group: str
    description: str
    sequence: int
    operation: str
    shape: str
    joined: tuple[int, ...]
    missing: tuple[int, ...]
    since_ns: int | None
    ended: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Ranks that call different things by the same number of the same group: what, and who."""

    group: str
    description: str
    sequence: int
    calls: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Late:
    """By how much longer than the others a rank took, of its own time, to come to its collectives, ns; `at` is the worst."""

    rank: int
    collectives: int
    mean_ns: int
    most_ns: int
    at: str


@dataclass(frozen=True, slots=True)
class Standing:
    """What the dumps say together. `first` is who to look at first: ranks that are missing somewhere and wait nowhere; where
    nobody is missing, those on which a collective has not ended that others of its group are long past."""

    stuck: tuple[Stuck, ...] = ()
    first: tuple[int, ...] = ()
    mismatched: tuple[Mismatch, ...] = ()
    late: tuple[Late, ...] = ()
