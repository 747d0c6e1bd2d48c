"""How a screen may look: how wide, whether coloured, whether the stream can carry block characters."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Literal

Color = Literal["auto", "always", "never"]

NARROWEST = 40
UNMEASURED = 100  # columns where there is no terminal to ask and COLUMNS is not set


@dataclass(frozen=True, slots=True)
class Look:
    """`width` in columns; `ascii` where the stream's encoding has no shading characters."""

    width: int = UNMEASURED
    colour: bool = False
    ascii: bool = False


def look_for(stream: IO[str], color: Color = "auto", environment: Mapping[str, str] | None = None) -> Look:
    """The look for that stream. `--color always` and `never` win over NO_COLOR, which wins over what the terminal can do."""
    env = os.environ if environment is None else environment
    terminal = _is_terminal(stream)
    colour = color == "always" or (color == "auto" and terminal and not env.get("NO_COLOR") and env.get("TERM") != "dumb")
    given = env.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        columns = int(given)
    else:
        columns = shutil.get_terminal_size((UNMEASURED, 24)).columns if terminal else UNMEASURED
    return Look(max(NARROWEST, columns), colour, not _has_shades(stream))


def _is_terminal(stream: IO[str]) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def _has_shades(stream: IO[str]) -> bool:
    try:
        "·░▒▓█".encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
