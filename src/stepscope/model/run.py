"""The Run: one job's recorded steps, whatever they came from, opened for reading.

Tables are read one rank at a time, so that memory is bounded by one rank; what spans ranks is read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from stepscope.model.errors import BadInput
from stepscope.model.info import RunInfo
from stepscope.model.spans import ATTRIBUTION, COLLECTIVES, EDGES, SIGNALS, SPANS, RankTables
from stepscope.model.store import read_info, read_table


def load(folder: Path, owner: TemporaryDirectory[str] | None = None) -> Run:
    """Opens a run folder. Raises BadInput where it is not one, damaged, or made by a newer version."""
    return Run(folder, read_info(folder), owner)


class Run:
    """A run folder opened for reading: `info` at once, tables one rank at a time.

    `owner` keeps a temporary folder alive for a run that was imported on the fly.
    """

    def __init__(self, path: Path, info: RunInfo, owner: TemporaryDirectory[str] | None = None) -> None:
        self.path = path
        self.info = info
        self._owner = owner
        self._shared: dict[str, pl.DataFrame] = {}

    @property
    def ranks(self) -> list[int]:
        """Ranks present, ascending."""
        return [info.rank for info in self.info.ranks]

    def tables(self, rank: int, columns: Sequence[str] | None = None) -> RankTables:
        """Tables of one rank (shapes: `model.spans`). Raises BadInput where a file is absent, linked elsewhere, too large
        or of another shape.

        `columns` names the columns of spans and attribution that are needed; the others are null and cost no reading.
        """
        name = f"rank-{int(rank)}.parquet"
        spans = read_table(self.path, f"spans/{name}", SPANS, columns)
        attribution = read_table(self.path, f"attribution/{name}", ATTRIBUTION, columns)
        if attribution.height != spans.height:
            raise BadInput(
                f"{self.path}: rank {rank} has {spans.height} spans but {attribution.height} attributions; import again"
            )
        try:
            info = self.info.rank(rank)
        except KeyError:
            raise BadInput(f"{self.path}: rank {rank} is not in this run; it has {len(self.ranks)} ranks") from None
        return RankTables(
            info=info,
            spans=spans,
            edges=read_table(self.path, f"edges/{name}", EDGES),
            attribution=attribution,
            collectives=self.collectives().filter(pl.col("rank") == rank),
            signals=self.signals().filter(pl.col("scope") == f"rank {rank}"),
        )

    def collectives(self) -> pl.DataFrame:
        """Collectives of all ranks, by COLLECTIVES; read once."""
        return self._across_ranks("collectives")

    def signals(self) -> pl.DataFrame:
        """Counters and samples of all scopes, by SIGNALS; read once."""
        return self._across_ranks("signals")

    def _across_ranks(self, name: str) -> pl.DataFrame:
        if name not in self._shared:
            schema = {"collectives": COLLECTIVES, "signals": SIGNALS}[name]
            table = read_table(self.path, f"{name}.parquet", schema)
            self._shared[name] = table.drop_nulls(["rank", "id"]) if name == "collectives" else table
        return self._shared[name]

    def __iter__(self) -> Iterator[RankTables]:
        for rank in self.ranks:
            yield self.tables(rank)

    def close(self) -> None:
        """Removes the temporary folder of a run that was imported on the fly; nothing else."""
        owner, self._owner = self._owner, None
        if isinstance(owner, TemporaryDirectory):
            owner.cleanup()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Run {self.path.name}: {len(self.info.ranks)} ranks, {len(self.info.gaps)} gaps>"
