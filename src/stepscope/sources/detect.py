"""What a path is, and the Run behind it: a `.run` folder is opened, raw traces are imported on the fly.

A folder, a glob or single files may be given; the first bytes decide, not the name.
"""

from __future__ import annotations

import glob
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from stepscope.model.errors import BadInput
from stepscope.model.info import Gap
from stepscope.model.run import Run, load
from stepscope.model.segment import is_live
from stepscope.model.spans import Marks, Rules
from stepscope.model.store import Staging
from stepscope.sources.file_name import shown
from stepscope.sources.kineto.importer import import_traces
from stepscope.sources.kineto.pool import Progress
from stepscope.sources.kineto.stream import TraceStream
from stepscope.sources.live.run import finish, open_live
from stepscope.sources.placement import Placement

_TRACE_NAME: Final = re.compile(r"\.json(?:\.gz)?$|\.pt\.trace(?:\.gz)?$", re.IGNORECASE)
MAX_FILES: Final = 200_000


def open_run(
    paths: Sequence[Path],
    *,
    rules: Rules,
    marks: Marks = (),
    rank_map: Mapping[str, int] | None = None,
    hosts: Placement | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """The Run of these paths. One that was imported on the fly lives in a temporary folder until it is closed."""
    if len(paths) == 1 and (paths[0] / "run.json").is_file():
        return load(paths[0])
    for path in paths:
        if (path / "run.json").is_file():
            raise BadInput(f"{path}: is one of {len(paths)} inputs and a run already; give one run at a time")
    if len(paths) == 1 and is_live(paths[0]):
        return open_live(paths[0], rules=rules, marks=marks, hosts=hosts)
    files, skipped = trace_files(paths)
    owner = tempfile.TemporaryDirectory(prefix="stepscope-", ignore_cleanup_errors=True)
    try:
        folder = Path(owner.name) / "imported.run"
        folder.mkdir()
        import_traces(
            files, folder, rules=rules, marks=marks, rank_map=rank_map, hosts=hosts, jobs=jobs, progress=progress, skipped=skipped
        )
        return load(folder, owner)
    except BaseException:
        owner.cleanup()
        raise


def import_run(
    paths: Sequence[Path],
    out: Path,
    *,
    rules: Rules,
    force: bool = False,
    marks: Marks = (),
    rank_map: Mapping[str, int] | None = None,
    hosts: Placement | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Writes `out` whole or not at all. Raises OutputRefused where it exists and `force` is not given."""
    stage = Staging(out, force)
    for path in paths:
        if (path / "run.json").is_file():
            raise BadInput(f"{path}: is a run already; give the traces it came from, and the run to make as -o")
    if len(paths) == 1 and is_live(paths[0]):
        with stage:
            finish(paths[0], stage.folder, rules=rules, marks=marks, hosts=hosts)
            stage.commit()
        return load(out)
    files, skipped = trace_files(paths)
    with stage:
        import_traces(
            files,
            stage.folder,
            rules=rules,
            marks=marks,
            rank_map=rank_map,
            hosts=hosts,
            jobs=jobs,
            progress=progress,
            skipped=skipped,
        )
        stage.commit()
    return load(out)


def trace_files(paths: Sequence[Path]) -> tuple[list[Path], list[Gap]]:
    """Trace files among the paths, sorted, and what was left aside. Raises BadInput where there is none."""
    found: dict[Path, bool] = {}
    for path in paths:
        if path.is_dir():
            found.update(dict.fromkeys(_in_folder(path), False))
        elif path.is_file():
            found[path] = True
        elif path.exists():
            raise BadInput(f"{path}: is a device or a pipe, and traces are read more than once; save it to a file first")
        elif glob.has_magic(str(path)) and (matches := sorted(glob.glob(str(path), recursive=True))):  # noqa: PTH207 - absolute patterns too
            inside, _ = trace_files([Path(m) for m in matches])
            found.update(dict.fromkeys(inside, False))
        else:
            raise BadInput(f"{path}: no such file or folder; check the path")
    kinds = {path: None if named else _not_a_trace(path) for path, named in found.items()}
    files = sorted(path for path, why in kinds.items() if why is None)
    skipped = [Gap("file not read", (), shown(f"{path.name}: {why}")) for path, why in kinds.items() if why is not None]
    if not files:
        reason = f"{skipped[0].why}; nothing else there" if skipped else "holds no trace files (.json, .json.gz)"
        raise BadInput(f"{', '.join(map(str, paths[:3]))}: {reason}; point at the folder that the profiler wrote")
    return files, skipped


def _in_folder(folder: Path) -> list[Path]:
    """Trace files of a folder; where it has none itself, of the folders below it (one per rank, say)."""
    own = [p for p in folder.iterdir() if _TRACE_NAME.search(p.name) and p.is_file()]
    if not own:
        own = [p for p in folder.rglob("*") if _TRACE_NAME.search(p.name) and p.is_file()]
    if len(own) > MAX_FILES:
        raise BadInput(f"{folder}: holds {len(own)} trace files, more than {MAX_FILES}; give a narrower folder")
    return sorted(own)


def _not_a_trace(path: Path) -> str | None:
    """Why a file found in a folder is none of ours, from its first block; None for a trace (even a damaged one)."""
    try:
        head = next(iter(TraceStream(path).blocks()), b"")
    except BadInput as error:
        return str(error)
    text = head.lstrip()
    if b'"traceEvents"' in head or text.startswith(b"["):
        return None
    if b'"nodes"' in head and (b"chakra" in head[:4096] or b'"schema"' in head[:4096]):
        return "an execution trace, not a profiler trace"
    if text.startswith(b"{") and b'"ph"' not in head and len(head) < 1 << 20:
        return "JSON without traceEvents, not a profiler trace"
    return None
