"""What flight-recorder dumps hold: one value per file, and what of the job is not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.model.info import Gap


@dataclass(frozen=True, slots=True)
class Dump:
    """One rank's dump. `form` is json, pickle or empty; counts are of its ring's entries; `wrapped`: older ones are lost.

    `groups` holds, by process group, the last collective enqueued and completed (-1: none; None: not recorded).
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


@dataclass(frozen=True, slots=True)
class Dumps:
    """All dumps of a folder, in order of rank, and the gaps: ranks without a dump, empty files, rings that wrapped."""

    dumps: tuple[Dump, ...]
    gaps: tuple[Gap, ...]
