"""One trace file to the tables of its rank (or ranks, when a tool has merged several into one file).

Order of work: read columns, put times right, sort, nest, link, find the collectives, say what was recorded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import polars as pl

from stepscope.model import words
from stepscope.model.errors import BadInput
from stepscope.model.info import Gap, Group
from stepscope.model.spans import ATTRIBUTION, EDGES, SPANS, RankTables, conform, empty, enum_of
from stepscope.sources.file_name import shown
from stepscope.sources.kineto.collectives import Source, device_collectives, host_collectives
from stepscope.sources.kineto.columns import KINDS, PRODUCT, UNKNOWN, Columns, Shape
from stepscope.sources.kineto.describe import describe, groups_of, memory
from stepscope.sources.kineto.document import Reading, TraceDocument
from stepscope.sources.kineto.identify import Identity, identify
from stepscope.sources.kineto.links import link
from stepscope.sources.kineto.mend import Mended, mend
from stepscope.sources.kineto.nesting import Ints, nest
from stepscope.sources.kineto.recorded import what_was_recorded
from stepscope.sources.kineto.vendors import ANNOTATION, COMMUNICATION

T = TypeVar("T")
MAX_SHAPE: Final = 256  # bytes; a matrix product has a handful of operands of two or three dimensions
NO_DEVICE_WORK: Final = Gap(
    "no device activity recorded",
    (),
    "the machine has a GPU, the trace no work of it: read as a CPU rank; record device activity",
)
_RANK_LABEL: Final = re.compile(r"rank\D{0,3}(\d{1,7})", re.IGNORECASE)


@dataclass(slots=True)
class RankTrace:
    """What one file gives of one rank: tables (attribution still empty), who it is, what is missing."""

    tables: RankTables
    identity: Identity
    groups: tuple[Group, ...]
    gaps: list[Gap]


def read_trace(path: Path, origin_ns: int, rank_map: Mapping[str, int]) -> list[RankTrace]:
    """Reads one file; times are relative to `origin_ns` since 1970. Raises BadInput where nothing can be read."""
    document = TraceDocument(path)
    columns = Columns()
    for batch in document:
        columns.add(batch)
    frame = columns.frame()
    if frame is None:
        raise BadInput(f"{path}: holds no events with a duration; record at least one active step")
    reading = document.reading
    identity = identify(path, reading.metadata, columns.own_ranks, rank_map)
    base = reading.metadata.get("baseTimeNanoseconds")
    shift = (base if isinstance(base, int) and abs(base) < 1 << 62 else 0) - origin_ns
    frame = _kinds(frame.with_row_index("row"))
    ranks = _split(path, frame, columns)
    if ranks is None:
        return [_one_rank(path, frame, columns, reading, identity, shift, first=True)]
    groups, backend = identity.groups, identity.backend
    traces = []
    for number, (rank, rows) in enumerate(sorted(ranks.items())):
        own = Identity(rank, "merged_file", identity.world_size, groups, backend)
        traces.append(_one_rank(path, rows, columns, reading, own, shift, first=number == 0))
    return traces


def _one_rank(
    path: Path, frame: pl.DataFrame, columns: Columns, reading: Reading, identity: Identity, shift: int, first: bool
) -> RankTrace:
    mended = mend(frame, columns.window_end)
    if not mended.keep.any():
        raise BadInput(f"{path}: no event has a usable time stamp; record the trace again")
    spans = _spans(mended, shift)
    if not spans.height:
        raise BadInput(f"{path}: holds only overlays, no work; record CPU or GPU activity")
    host = (spans["lane"] == "host").to_numpy() & spans["kind"].is_in(words.HOST_KINDS).to_numpy()
    nesting = nest(spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy(), spans["thread"].fill_null(0).to_numpy(), host)
    place = np.full(columns.height, -1, dtype=np.int64)  # of each row of the file among the spans
    place[spans["row"].to_numpy()] = np.arange(spans.height)
    links = link(spans, nesting.parent, _moved(columns.syncs, place))
    sizes = {g.group: len(g.ranks) for g in identity.groups}
    source = Source(_moved(columns.collectives, place), _moved(columns.shapes, place), sizes)
    edges = links.edges
    if (spans["kind"] == "collective").any():
        collectives = device_collectives(spans, nesting.parent, links.launch, links.operator, source)
    else:
        collectives, pairs = host_collectives(spans, nesting.parent, source)
        calls = pl.DataFrame(
            {"source": [a for a, _ in pairs], "target": [b for _, b in pairs]}, schema={"source": pl.Int64, "target": pl.Int64}
        )
        edges = pl.concat([edges, calls.with_columns(kind=pl.lit("call"))])
    owner = np.full(spans.height, -1, dtype=np.int64)
    owner[collectives["span"].to_numpy()] = collectives["id"].to_numpy()
    lost = np.flatnonzero((links.launch >= 0) & (links.operator >= 0))
    lost = lost[(nesting.parent[links.launch[lost]] < 0) & (links.operator[lost] < links.launch[lost])]
    nesting.parent[links.launch[lost]] = links.operator[lost]  # a launch on a thread the profiler names twice
    parent = pl.Series(nesting.parent)
    spans = spans.with_columns(
        parent=pl.when(parent >= 0).then(parent),
        collective_id=pl.when(pl.Series(owner) >= 0).then(pl.Series(owner)),
        bytes=_collective_bytes(spans, collectives),
        shape=_product_shapes(spans, source.shapes),
    )
    info = describe(path, spans, mended, reading if first else Reading(metadata=reading.metadata), identity, columns)
    info.recorded = what_was_recorded(spans, links, collectives, columns, reading, identity)
    gaps = [] if info.device != "cpu" or not reading.metadata.get("deviceProperties") else [NO_DEVICE_WORK]
    mended_text = [f"{reading.repaired} damaged places were mended"] if reading.repaired and first else []
    if columns.oversized and first:
        mended_text.append(f"{columns.oversized} ids beyond 64 bits were read as far as they fit")
    findings = [*mended_text, *(reading.findings if first else []), *mended.findings]
    gaps += [Gap("damaged file", (), f"{shown(path.name)}: {text}") for text in findings]
    if columns.unknown_categories:
        some = ", ".join(sorted(columns.unknown_categories)[:5])
        gaps.append(Gap("unknown events", (), f"{shown(path.name)}: categories not known and left out of the parts: {some}"))
    tables = RankTables(
        info, conform(spans, SPANS), conform(edges, EDGES), empty(ATTRIBUTION), collectives, memory(columns, shift)
    )
    return RankTrace(tables, identity, (*identity.groups, *groups_of(columns)), gaps)


def _moved(rare: dict[int, T], place: Ints) -> dict[int, T]:
    """What the file's rows carried, by span; rows that were dropped are left out."""
    return {int(place[row]): value for row, value in rare.items() if place[row] >= 0}


def _kinds(frame: pl.DataFrame) -> pl.DataFrame:
    """The word for each row's kind: from its category, and where that does not tell, from its name."""
    names = frame["name"].fill_null("")
    unique = names.unique()
    codes = names.cast(pl.Enum(unique)).to_physical().to_numpy()
    communication = np.fromiter((bool(COMMUNICATION.search(n)) for n in unique), dtype=bool, count=len(unique))[codes]
    annotation = np.fromiter((bool(ANNOTATION.match(n)) for n in unique), dtype=bool, count=len(unique))[codes]
    code = {word: place for place, word in enumerate(words.KINDS)}
    given = frame["kind"].to_numpy()
    kind = np.array([*(code[k] for k in KINDS), code["overlay"]], dtype=np.uint8)[given]
    kind[(given == UNKNOWN) & frame["stream"].is_not_null().to_numpy()] = code["kernel"]
    kind[(kind == code["kernel"]) & communication] = code["collective"]
    kind[(kind == code["op"]) & annotation] = code["annotation"]
    return frame.with_columns(name=names, kind=enum_of(kind, words.KINDS))


def _spans(mended: Mended, shift: int) -> pl.DataFrame:
    """Rows in order of start (longest first), with lane, thread, device and stream; overlays without a lane are left out."""
    frame = mended.frame
    overlay = (frame["kind"] == "overlay").to_numpy()
    on_device = frame["kind"].is_in([*words.DEVICE_WORK, "sync"]).to_numpy() | (
        overlay & frame["stream"].is_not_null().to_numpy()
    )
    rows = np.flatnonzero(mended.keep & ~(overlay & frame["tid"].is_null().to_numpy()))
    start, end = frame["start_ns"].to_numpy()[rows], frame["end_ns"].to_numpy()[rows]
    order = rows[np.lexsort((-end, start))]
    lane = enum_of(on_device[order].astype(np.int64), words.LANES)
    host = lane == "host"
    return frame[order].with_columns(
        id=pl.int_range(pl.len(), dtype=pl.Int64),
        lane=lane,
        start_ns=pl.col("start_ns") + shift,
        end_ns=pl.col("end_ns") + shift,
        thread=pl.when(host).then("tid"),
        stream=pl.when(~host).then(pl.coalesce("stream", "tid")),
        device=pl.when(~host).then(pl.coalesce("device", "pid")),
    )


def _split(path: Path, frame: pl.DataFrame, columns: Columns) -> dict[int, pl.DataFrame] | None:
    """Rows by rank, where the file merges several; None for an ordinary file of one rank."""
    if frame["rank"].n_unique() > 1 and frame["rank"].null_count() < frame.height // 2:
        known = frame.filter(pl.col("rank").is_not_null())
        return {int(key[0]): part for key, part in known.partition_by("rank", as_dict=True, maintain_order=True).items()}
    workers = (
        frame.filter(pl.col("name").str.starts_with("ProfilerStep#") & (pl.col("kind") == "annotation"))["pid"]
        .drop_nulls()
        .unique()
    )
    if len(workers) < 2:
        return None
    texts = {code: text for text, code in columns.process_texts.items()} | {
        pid: text for pid, text in columns.labels.items() if isinstance(pid, int)
    }
    rank_of = {pid: int(m.group(1)) for pid, text in texts.items() if (m := _RANK_LABEL.search(text))}
    if not all(pid in rank_of for pid in workers.to_list()):
        what = f"{len(workers)} training processes in one file, and nothing names their ranks"
        raise BadInput(f"{path}: {what}; import the ranks' own files")
    ranked = frame.with_columns(rank=pl.col("pid").replace_strict(rank_of, default=None, return_dtype=pl.Int64))
    known = ranked.filter(pl.col("rank").is_not_null())
    return {int(key[0]): part for key, part in known.partition_by("rank", as_dict=True, maintain_order=True).items()}


def _product_shapes(spans: pl.DataFrame, shapes: dict[int, Shape]) -> pl.Series:
    """Input sizes of the matrix products, as recorded."""
    rows = [row for row, shape in shapes.items() if len(shape.dims) <= MAX_SHAPE]
    product = spans["name"].gather(rows).str.contains(PRODUCT).to_list()
    column: list[str | None] = [None] * spans.height
    for row in [row for row, is_product in zip(rows, product, strict=True) if is_product]:
        column[row] = shapes[row].dims.decode("utf-8", "replace")
    return pl.Series("shape", column, dtype=pl.String)


def _collective_bytes(spans: pl.DataFrame, collectives: pl.DataFrame) -> pl.Series:
    given = spans["bytes"].to_list() if collectives.height else None
    if given is None:
        return spans["bytes"]
    for row, size in collectives.select("span", "bytes").iter_rows():
        given[row] = size if given[row] is None else given[row]
    return pl.Series("bytes", given, dtype=pl.Int64)
