"""Which steps of the job belong together? A stretch of them under one condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HEALTHY: Final = "healthy"


@dataclass(frozen=True, slots=True)
class Window:
    """Steps `first` to `last` of all ranks under one condition ("healthy" or a fault's name); ns of the wall clock."""

    name: str
    first: int
    last: int
    began_ns: int
    ended_ns: int
    busy_s: float  # CPU time that the whole machine spent meanwhile, on whatever
    path: str = ""  # another way than the plain wire, of which it has healthy windows of its own
