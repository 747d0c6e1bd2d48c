"""Which weaknesses does stepscope know, where does each sit, how strong can it be, what shows it and what mends it?

The one list behind faults of the simulator, verdicts of the diagnosis and cases of the lab. The simulator takes a cause's
strength from here, but derives what tools would show from links, bytes and clocks, never from `signals`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from stepscope.catalog.document import Sourced, decode, shipped, unknown
from stepscope.model.errors import UsageMistake

CauseClass = Literal["local_gpu", "host", "input", "framework", "network", "hang"]
PlaceKind = Literal["job", "node", "gpu", "rank", "nic", "port", "leaf", "rail", "mount", "stage"]


class Strength(Sourced, frozen=True, kw_only=True):
    """The one parameter of a cause: `--fault ID@PLACE,name=value`. A number in [low, high], or one of `choices`."""

    name: str
    default: float | str
    unit: str
    means: str
    low: float | None = None
    high: float | None = None
    choices: tuple[float | str, ...] = ()

    def checked(self, text: str) -> float | str:
        """The value that the user wrote; UsageMistake where it is none that this parameter can have."""
        if self.choices:
            for choice in self.choices:
                if text.lower() == (choice.lower() if isinstance(choice, str) else f"{choice:g}"):
                    return choice
            raise UsageMistake(f"{self.name}={text[:40]}: give one of {', '.join(map(_word, self.choices))}")
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        low, high = self.low if self.low is not None else value, self.high if self.high is not None else value
        if not low <= value <= high:
            raise UsageMistake(f"{self.name}={text[:40]}: give a number from {low:g} to {high:g} ({self.unit})")
        return value


class Cause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One weakness. `layer` is None for a hang; `places` are the kinds of place it can sit at, the usual one first."""

    id: Annotated[str, Meta(pattern=r"^[a-z]+\.[a-z0-9_]+$")]
    title: str
    layer: Literal["S", "L1", "L2/L3", "L4", "L5", "L6", "L7", "L8", "L9"] | None = None
    kind: CauseClass = msgspec.field(name="class")
    places: Annotated[tuple[PlaceKind, ...], Meta(min_length=1)]
    strength: Strength
    signals: Annotated[tuple[str, ...], Meta(min_length=1)]
    rivals: Annotated[tuple[str, ...], Meta(min_length=1)]
    fix: str


@lru_cache(maxsize=1)
def causes() -> dict[str, Cause]:
    """Every cause by its id, in the order of the layers."""
    text = shipped("causes.toml")
    found = decode(text, _Causes, "causes.toml").cause
    return {cause.id: cause for cause in found}


def load_cause(wanted: str) -> Cause:
    """A cause by its id; UsageMistake with the nearest where there is none such."""
    known = causes()
    if wanted not in known:
        raise UsageMistake(unknown(wanted, "cause", tuple(known)))
    return known[wanted]


class _Causes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cause: tuple[Cause, ...]


def _word(choice: float | str) -> str:
    return choice if isinstance(choice, str) else f"{choice:g}"
