"""One measured case of a benchmark, as every one of them prints it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

KIB: Final = 1 if sys.platform == "darwin" else 1024  # unit of ru_maxrss


@dataclass(frozen=True, slots=True)
class Case:
    """Wall and CPU seconds, peak resident bytes of the largest process, and seconds relative to the peer's (None: no peer)."""

    name: str
    seconds: float
    cpu_s: float
    peak_rss_bytes: int
    ratio_to_peer: float | None = None
