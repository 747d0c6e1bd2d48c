"""A run as a file that ui.perfetto.dev opens: Perfetto's own format, protocol buffers.

Chosen over Chrome's JSON because it has whole ns in 64 bits, arrows between processes and tracks in an order of ours, and
takes less than half the space. One process per rank, all on the common clock; written rank by rank, so that memory holds
one rank; the same run gives the same bytes.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Collection
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import IO, Final, cast

import numpy as np

from stepscope.analysis.arrivals import arrivals
from stepscope.analysis.intervals import IntArray
from stepscope.model.info import RankInfo, host_of
from stepscope.model.place import place_name
from stepscope.model.run import Run
from stepscope.show.perfetto.arrows import arrows
from stepscope.show.perfetto.lanes import lanes
from stepscope.show.perfetto.packets import TraceWriter
from stepscope.show.perfetto.slices import Drawing

LATEST: Final = 1 << 62  # ns; Perfetto's times are 63 bits
GZIP_LEVEL: Final = 1  # higher levels take three times as long for a tenth less


def write(
    run: Run,
    path: Path,
    *,
    packed: bool = False,
    ranks: Collection[int] | None = None,
    steps: Collection[int] | None = None,
    progress: Callable[[int], None] = lambda rank: None,
) -> int:
    """Writes the ranks (None: all) and their steps (None: all, and what lies outside of steps); returns how many slices.

    `packed`: gzip. Raises BadInput for a damaged run.
    """
    chosen = [info for info in run.info.ranks if ranks is None or info.rank in ranks]
    found = arrivals(run)
    drawing = Drawing(
        found.transfers,
        {c.id: c.last_rank for c in found.collectives if c.last_rank is not None},
        arrows(run, {info.rank for info in chosen}, steps),
        steps,
    )
    digits = len(str(max((r.rank for r in run.info.ranks), default=0)))
    origin = min(run.info.origin_ns, LATEST)
    count = 0
    with path.open("wb") as raw, _packing(raw) if packed else nullcontext(raw) as file:
        writer = TraceWriter(file, origin if origin > 0 else None)
        for info in chosen:
            progress(info.rank)
            own = lanes(run.tables(info.rank), drawing, partial(_time, run, info))
            count += writer.rank(info.rank, process_name(run, info, digits), own)
    return count


def _packing(raw: IO[bytes]) -> IO[bytes]:
    """gzip without a name and a date, so that equal runs give equal files."""
    return cast(IO[bytes], gzip.GzipFile("", "wb", GZIP_LEVEL, raw, mtime=0))


def process_name(run: Run, info: RankInfo, digits: int = 1) -> str:
    """`rank 03`, in brackets its place or host; the zeros keep viewers that sort by name from mixing 10 and 2."""
    name = f"rank {info.rank:0{digits}}"
    where = place_name(info.rank, info.place) if info.place and info.place.gpu is not None else info.host
    notes = [note for note in (where, "simulated" if run.info.origin == "simulated" else None) if note]
    return f"{name} ({', '.join(notes)})" if notes else name


def _time(run: Run, info: RankInfo, times: IntArray) -> IntArray:
    """Times of a rank as the file has them: on the common clock, ns since 1970 where the run knows that, never negative."""
    origin = max(0, min(run.info.origin_ns, LATEST))
    common = run.info.clock.to_common(host_of(info), np.clip(times, -LATEST, LATEST))
    return np.clip(common, -origin, LATEST - origin) + origin
