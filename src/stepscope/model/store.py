"""A Run on disk: `NAME.run/` written whole or not at all, read back without trusting it.

    run.json              RunInfo
    spans/rank-3.parquet  what was recorded; edges/ and attribution/ beside it
    collectives.parquet   one row per (collective, rank); groups.parquet, signals.parquet

A run may come from a stranger: no link is followed out of it, sizes are bounded, a table of another shape is refused.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import msgspec
import polars as pl

from stepscope.model.errors import BadInput, OutputRefused
from stepscope.model.info import SCHEMA, RunInfo
from stepscope.model.segment import FOLDER, STALLS
from stepscope.model.spans import COLLECTIVES, SIGNALS, RankTables, Schema, conform, empty

MAX_WORLD: Final = 1 << 24
MAX_TIME_NS: Final = 1 << 62
MAX_DRIFT_PPM: Final = 1e4  # far above what alignment accepts
MAX_INFO_BYTES: Final = 256 << 20  # run.json of 100,000 ranks with their steps is about 40 MB
MAX_ROWS: Final = 1 << 28  # 268 million spans: above any one rank's trace, below what would fill a workstation
# Tables of real ranks take 1 byte (attribution) to 10 bytes (spans) a row; a file that claims far more rows is a bomb.
FREE_ROWS: Final = 1 << 21
MOST_ROWS_A_BYTE: Final = 64
REMOVALS: Final = 40
REMOVAL_PAUSE_S: Final = 0.05  # two seconds in all: a rank's table takes a fraction of one to write
COMPRESSION_LEVEL: Final = 1  # zstd; higher levels cost more CPU than the smaller file saves

TABLES: Final = ("run.json", "collectives.parquet", "groups.parquet", "signals.parquet")  # beside those of each rank
GROUPS: Final[Schema] = {"group": pl.String, "ranks": pl.List(pl.Int64), "axis": pl.String}


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """One Parquet file, zstd level 1, statistics kept so that readers can skip row groups."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        frame.write_parquet(path, compression="zstd", compression_level=COMPRESSION_LEVEL)
    except pl.exceptions.ComputeError as error:  # how polars tells of a full disk
        code = re.search(r"os error (\d+)", str(error))
        if code is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from error


def save_rank(folder: Path, tables: RankTables) -> None:
    """Writes the three tables of one rank into a run folder that is being made."""
    name = f"rank-{tables.info.rank}.parquet"
    write_table(tables.spans, folder / "spans" / name)
    write_table(tables.edges, folder / "edges" / name)
    write_table(tables.attribution, folder / "attribution" / name)


def save_info(folder: Path, info: RunInfo, collectives: pl.DataFrame | None = None, signals: pl.DataFrame | None = None) -> None:
    """Writes run.json and the tables that span ranks."""
    groups = {"group": [g.group for g in info.groups], "ranks": [list(g.ranks) for g in info.groups]}
    write_table(pl.DataFrame({**groups, "axis": [g.axis for g in info.groups]}, schema=GROUPS), folder / "groups.parquet")
    write_table(empty(COLLECTIVES) if collectives is None else collectives, folder / "collectives.parquet")
    write_table(empty(SIGNALS) if signals is None else signals, folder / "signals.parquet")
    (folder / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(info), indent=1))


def read_info(folder: Path) -> RunInfo:
    """`run.json`. Raises BadInput where the folder is no run, damaged, or made by a newer version."""
    raw = _own_file(folder, "run.json", MAX_INFO_BYTES).read_bytes()
    try:
        info = msgspec.json.decode(raw, type=RunInfo)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadInput(f"{folder}: run.json is damaged ({error}); import or record again") from None
    if info.schema != SCHEMA:
        raise BadInput(f"{folder}: run of schema {info.schema!r}, this version reads {SCHEMA}; import or record again")
    if odd := impossible(info):
        raise BadInput(f"{folder}: run.json says {odd}, which no run can; import or record again")
    return info


def impossible(info: RunInfo) -> str | None:
    """What would lead figures or screens astray in a description from a stranger; None for a sound one."""
    ranks = [r.rank for r in info.ranks]
    if len(set(ranks)) < len(ranks) or any(not 0 <= r < MAX_WORLD for r in ranks):
        return "ranks that repeat or are out of range"
    if info.world_size is not None and not 0 < info.world_size <= MAX_WORLD:
        return f"a world of {info.world_size} ranks"
    times = [info.origin_ns, info.clock.reference_ns, *(h.offset_ns for h in info.clock.hosts.values())]
    times += [t for r in info.ranks for s in r.steps for t in (s.start_ns, s.end_ns)]
    times += [t for r in info.ranks for w in r.windows for t in w]
    if any(abs(t) > MAX_TIME_NS for t in times):
        return "a time beyond 146 years"
    if any(not abs(h.drift_ppm) <= MAX_DRIFT_PPM for h in info.clock.hosts.values()):
        return "a clock that drifts like none"
    return None


def mark_good(folder: Path, good: bool = True) -> RunInfo:
    """Marks a run as one to compare with, or takes the mark away; run.json is replaced whole. Raises BadInput, OutputRefused."""
    info = read_info(folder)
    info.good = good
    part = None
    try:
        with NamedTemporaryFile(dir=folder, prefix=".run.json.", delete=False) as part:  # a new file, through no link
            part.write(msgspec.json.format(msgspec.json.encode(info), indent=1))
        Path(part.name).chmod((folder / "run.json").stat().st_mode & 0o777)
        Path(part.name).replace(folder / "run.json")
    except OSError as error:
        if part is not None:
            Path(part.name).unlink(missing_ok=True)
        raise OutputRefused(f"{folder}: cannot be marked ({error.strerror}); check the permissions") from error
    return info


def read_table(folder: Path, name: str, schema: Schema, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """One table of a run with exactly the schema's columns; null are those that it lacks and those not in `columns`."""
    path = _own_file(folder, name)
    try:
        lazy = pl.scan_parquet(path, glob=False)
        rows = lazy.select(pl.len()).collect().item()
        most = min(MAX_ROWS, FREE_ROWS + MOST_ROWS_A_BYTE * path.stat().st_size)
        if rows > most:
            raise BadInput(f"{path}: {rows} rows in {path.stat().st_size} bytes, more than a run's table can hold")
        wanted = [c for c in lazy.collect_schema().names() if c in schema and (columns is None or c in columns)]
        return conform(lazy.select(wanted).collect(), schema)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise BadInput(f"{path}: not a table of a run ({str(error).splitlines()[0]}); import or record again") from None


class Staging:
    """A run in the making beside its final place: `commit` renames it there, leaving the block otherwise removes it."""

    def __init__(self, out: Path, force: bool = False) -> None:
        self.out, self.force = out.absolute(), force
        self.folder = self.out.with_name(f".{self.out.name}.{os.getpid()}.partial")
        if (self.out.exists() or self.out.is_symlink()) and not force:
            raise OutputRefused(f"{out}: exists already; choose another name or say -f to replace it")
        if self.out.exists() and not (self.out / "run.json").exists() and not _is_empty(self.out):
            raise OutputRefused(f"{out}: exists and is not a run; choose another name")

    def __enter__(self) -> Staging:
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.register(self._remove)  # one Ctrl-C inside polars is raised twice, the second time where __exit__ begins
        self.folder.mkdir(parents=True)
        return self

    def commit(self) -> None:
        """Puts the finished run in place; an older one is removed only once the new one stands."""
        old = self.folder.with_suffix(".old")
        if self.out.exists():
            if not self.force:
                raise OutputRefused(f"{self.out}: somebody else made it meanwhile; choose another name or say -f to replace it")
            self.out.rename(old)
        self.folder.rename(self.out)
        shutil.rmtree(old, ignore_errors=True)

    def __exit__(self, *_: object) -> None:
        self._remove()
        atexit.unregister(self._remove)

    def _remove(self) -> None:
        """Removes what was not committed; again while a thread of polars, whose call Ctrl-C has ended, still writes a table."""
        for _ in range(REMOVALS):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                return
            time.sleep(REMOVAL_PAUSE_S)


def holds_a_run_alone(folder: Path) -> bool:
    """Is everything in it what an import or a recording leaves in a run?"""
    return all((path.is_dir() and not path.is_symlink()) or _is_a_runs(path) for path in folder.rglob("*"))


def _is_a_runs(path: Path) -> bool:
    if path.parent.name == FOLDER:
        return path.name.startswith(("rank-", "lately-"))
    if path.parent.name == STALLS:
        return path.name.startswith(("stacks-", "signals-", "fr-", "fr_trace_"))
    return path.name in TABLES or (path.name.startswith("rank-") and path.suffix == ".parquet")


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _own_file(folder: Path, name: str, limit: int | None = None) -> Path:
    """The path of a file that lies in the folder itself, through no link."""
    path = folder
    for piece in name.split("/"):
        path = path / piece
        if path.is_symlink():
            raise BadInput(f"{path}: is a link; a run holds its own files, copy the target in its place")
    if not path.is_file():
        raise BadInput(f"{folder}: has no {name}; it is not a run, or the import did not finish: import or record again")
    if limit is not None and path.stat().st_size > limit:
        raise BadInput(f"{path}: {path.stat().st_size} bytes, more than the {limit} a run may have")
    return path
