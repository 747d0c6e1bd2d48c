"""What a file is called in a run and in messages: text that every encoding can hold. A name may be any bytes on Linux."""

from __future__ import annotations

from pathlib import Path


def shown(path: Path | str) -> str:
    """The path as text; bytes of it that are no UTF-8 become `?`."""
    return str(path).encode("utf-8", "replace").decode("utf-8")
