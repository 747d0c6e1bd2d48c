"""What a rank is called on a screen: `rank 7`, and where its place is known `rank 7 (node1/gpu3)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Names:
    """Call it with a rank. Whoever draws the name takes control characters out, as of every text."""

    places: Mapping[int, str] = field(default_factory=dict)

    def __call__(self, rank: int) -> str:
        place = self.places.get(rank)
        if place is None or place == f"rank {rank}":
            return f"rank {rank}"
        return place if place.startswith(f"rank {rank} ") else f"rank {rank} ({place})"


NUMBERS: Final = Names()
