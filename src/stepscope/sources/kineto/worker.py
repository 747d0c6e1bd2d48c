"""Reads one trace file at a time for the importer, as a process of its own: `python -m stepscope.sources.kineto.worker`.

Jobs come as lines of JSON on stdin, results go as lines on stdout. A process per file at a time keeps the memory of a job
at one rank's, and needs no guard in the caller's script.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from pathlib import Path

import msgspec

from stepscope.model.errors import BadInput, StepscopeError
from stepscope.model.info import Gap, Group, RankInfo
from stepscope.model.spans import Derive, RankTables
from stepscope.model.store import write_table
from stepscope.sources.file_name import shown
from stepscope.sources.kineto.rank import read_trace


class Job(msgspec.Struct, frozen=True):
    """One file to read. `derive` is `module:function`, the attribution that the caller passes down."""

    raw_path: bytes
    index: int
    folder: str
    origin_ns: int
    derive: str
    marks: list[tuple[str, str]] = []
    rank_map: dict[str, int] = {}

    @property
    def path(self) -> Path:
        """The file, whatever bytes its name is made of."""
        return Path(os.fsdecode(self.raw_path))


class Part(msgspec.Struct):
    """One rank of one file, its tables written under `folder/parts/NAME.*.parquet`."""

    name: str
    path: str
    info: RankInfo
    world_size: int | None
    groups: list[Group]
    gaps: list[Gap]


class Result(msgspec.Struct):
    """Parts of one file, or why it could not be read. `kind` tells other trace formats from damage."""

    parts: list[Part] = []
    error: str | None = None
    errno: int | None = None  # the output could not be written: that ends the whole import
    written: str | None = None


def do(job: Job) -> Result:
    """Reads, attributes and writes one file."""
    module, _, function = job.derive.partition(":")
    derive: Derive = getattr(importlib.import_module(module), function)
    parts: list[Part] = []
    try:
        for number, trace in enumerate(read_trace(job.path, job.origin_ns, job.rank_map)):
            tables = trace.tables
            done = derive(tables, job.marks)
            tables.attribution, tables.collectives = done.attribution, done.collectives
            tables.info.steps = done.steps
            name = f"{job.index}-{number}"
            save_part(Path(job.folder), name, tables)
            gaps = [*trace.gaps, *done.gaps]
            parts.append(Part(name, shown(job.path), tables.info, trace.identity.world_size, list(trace.groups), gaps))
    except StepscopeError as error:
        return Result(error=shown(str(error)))
    except MemoryError:
        return Result(error=f"{shown(job.path)}: does not fit in this machine's memory; record fewer steps")
    return Result(parts=parts)


def save_part(folder: Path, name: str, tables: RankTables) -> None:
    """The five tables of a part, as files of their own."""
    for table in ("spans", "edges", "attribution", "collectives", "signals"):
        write_table(getattr(tables, table), folder / "parts" / f"{name}.{table}.parquet")


def main() -> None:
    """Serves jobs until stdin ends."""
    for line in sys.stdin.buffer:
        try:
            result = do(msgspec.json.decode(line, type=Job))
        except OSError as error:
            result = Result(errno=error.errno or 0, error=error.strerror, written=error.filename)
        except Exception as error:  # a bug of ours must still name the file it happened on
            raise BadInput(f"{line[:200]!r}: {type(error).__name__}: {error}") from error
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # whoever asked is gone
        main()
