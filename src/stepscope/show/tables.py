"""The tables of a run as one file: CSV, Parquet or JSON. Written rank by rank, so that memory holds one rank.

Every table gets the column `rank` in front. Times stay integer ns from the run's origin, bytes integers, null what is unknown.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
import polars as pl

from stepscope.show import safe

if TYPE_CHECKING:
    from stepscope.model.run import Run

BATCH = 50_000


def write(run: Run, what: str, kind: str, path: Path) -> None:
    """`what` is spans, collectives or attribution, `kind` csv, parquet or json. Raises BadInput for a damaged run."""
    frames = _frames(run, what)
    if kind == "parquet":
        _parquet(frames, path)
    else:
        with path.open("wb") as file:
            if kind == "csv":
                _csv(frames, file)
            else:
                _json(frames, what, file)


def _frames(run: Run, what: str) -> Iterator[pl.DataFrame]:
    for rank in run.ranks:
        frame: pl.DataFrame = getattr(run.tables(rank), what)
        yield frame.select(pl.lit(rank, dtype=pl.Int64).alias("rank"), pl.exclude("rank"))


def _parquet(frames: Iterator[pl.DataFrame], path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
        for i, frame in enumerate(frames):
            frame.write_parquet(Path(folder, f"{i:06}.parquet"))
        pl.scan_parquet(Path(folder, "*.parquet")).sink_parquet(path)


def _csv(frames: Iterator[pl.DataFrame], file: IO[bytes]) -> None:
    for i, frame in enumerate(frames):
        words = [name for name, kind in frame.schema.items() if kind == pl.String]
        frame.with_columns(pl.col(name).map_elements(safe.csv_cell, return_dtype=pl.String) for name in words).write_csv(
            file, include_header=i == 0
        )


def _json(frames: Iterator[pl.DataFrame], what: str, file: IO[bytes]) -> None:
    file.write(b'{"schema":"export/1","what":"%s","rows":[' % what.encode())
    first = True
    for frame in frames:
        for batch in frame.iter_slices(BATCH):
            rows = msgspec.json.encode(batch.to_dicts())[1:-1]
            if rows:
                file.write((b"\n" if first else b",\n") + safe.json_escapes(rows.decode()).encode())
                first = False
    file.write(b"\n]}\n")
