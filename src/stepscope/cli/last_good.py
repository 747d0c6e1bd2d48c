"""Which run does `last-good` mean? The newest one marked good in a folder of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from stepscope.model.errors import BadInput
from stepscope.model.store import MAX_INFO_BYTES

MOST_RUNS: Final = 100_000


class _Mark(msgspec.Struct):
    """As much of run.json as it takes to choose."""

    good: bool = False
    origin_ns: int = 0


def last_good(folder: Path, other_than: Path | None = None) -> Path:
    """The run recorded last among those marked good, `other_than` left out. Raises BadInput where there is none.

    Runs lie in the folder itself; what cannot be read there is no run. Of runs that do not say when they were recorded the
    last by name is taken.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder of runs; give one with --runs")
    if (folder / "run.json").exists():
        raise BadInput(f"{folder}: is a run, not a folder of runs; give the folder it lies in, or the run alone")
    marks = {path: mark for path in _runs(folder) if (mark := _mark(path)) is not None}
    left_out = other_than.resolve() if other_than is not None else None
    good = [path for path, mark in marks.items() if mark.good and path.resolve() != left_out]
    if not good:
        held = f"{len(marks)} runs, none of them marked good" if marks else "no run"
        raise BadInput(f"{folder}: holds {held}; mark one with stepscope import RUN --good")
    return max(good, key=lambda path: (marks[path].origin_ns, path.name))


def _runs(folder: Path) -> list[Path]:
    found = sorted(path.parent for path in folder.glob("*/run.json"))
    if len(found) > MOST_RUNS:
        raise BadInput(f"{folder}: holds {len(found)} runs, more than {MOST_RUNS}; give a narrower folder")
    return found


def _mark(path: Path) -> _Mark | None:
    info = path / "run.json"
    try:
        if info.is_symlink() or info.stat().st_size > MAX_INFO_BYTES:
            return None
        return msgspec.json.decode(info.read_bytes(), type=_Mark)
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return None
