"""What caused what: launch -> device span, device span -> the host call blocked on it, forward op -> its backward.

A kernel belongs to the runtime call of its correlation id, and through it to the operator around that call; where the
profiler wrote no correlation, to the operator of its External id. One launch may own many kernels (a CUDA graph).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from stepscope.model import words
from stepscope.sources.kineto.event import Args
from stepscope.sources.kineto.nesting import Ints

_BLOCKING: Final = r"^(?:cuda|hip|cu)(?:Device|Stream|Event|Ctx)Synchronize|^(?:cuda|hip)Memcpy"
_BACKWARD: Final = "autograd::engine::evaluate_function"


@dataclass(slots=True)
class Links:
    """`launch[i]` is the host row that launched device row i, or -1; `operator[i]` the innermost host row around it."""

    launch: Ints
    operator: Ints
    by: str  # correlation, external_id or none
    edges: pl.DataFrame


def link(frame: pl.DataFrame, parent: Ints, syncs: dict[int, Args]) -> Links:
    """Links of rows sorted by start; `frame` has columns id, kind, name, correlation, external_id, sequence, stream, times."""
    keys = frame.select("id", "kind", "correlation", "external_id", "start_ns", "end_ns")  # filters copy: without the names
    device = keys.filter(pl.col("kind").is_in(words.DEVICE_WORK))
    launch = np.full(frame.height, -1, dtype=np.int64)
    by = "none"
    if device.height:
        found = _by(keys.filter(pl.col("kind") == "runtime"), device, "correlation")
        launch[device["id"].to_numpy()] = found
        by = "correlation" if (found >= 0).any() else "none"
        orphan = device.filter(pl.Series(found < 0) & pl.col("correlation").is_null())
        if orphan.height:
            named = _by(keys.filter(pl.col("kind").is_in(["op", "annotation"])), orphan, "external_id")
            launch[orphan["id"].to_numpy()] = named
            by = "external_id" if by == "none" and (named >= 0).any() else by
    operator = _operators(frame, launch, parent)
    rows = np.flatnonzero(launch >= 0)
    edges = [_edges(launch[rows], rows, "launch"), *_syncs(frame, device), *_waits(frame, launch, syncs), *_autograd(frame)]
    return Links(launch, operator, by, pl.concat(edges))


def _by(hosts: pl.DataFrame, device: pl.DataFrame, key: str) -> Ints:
    """For each device row the first host row with the same key, -1 where there is none. 0 and -1 are no id."""
    first = hosts.filter(~pl.col(key).is_in([0, -1])).unique(key, keep="first", maintain_order=True).select(key, host="id")
    joined = device.select("id", key).join(first, on=key, how="left", maintain_order="left")
    return joined["host"].fill_null(-1).to_numpy().astype(np.int64)


def _operators(frame: pl.DataFrame, launch: Ints, parent: Ints) -> Ints:
    """The innermost host span around each launch: by nesting, else by the External id that the profiler gave both."""
    operator = np.where(launch >= 0, parent[launch], -1)
    runtime = (frame["kind"] == "runtime").to_numpy()
    operator = np.where((launch >= 0) & ~runtime[launch], launch, operator)
    lost = np.flatnonzero((launch >= 0) & (operator < 0))
    if len(lost) and not _external_is_correlation(frame):
        rows = frame[lost].with_columns(
            external_id=pl.coalesce("external_id", pl.Series(frame["external_id"].gather(launch[lost])))
        )
        operator[lost] = _by(frame.filter(pl.col("kind").is_in(["op", "annotation"])), rows, "external_id")
    return operator


def _external_is_correlation(frame: pl.DataFrame) -> bool:
    """Some profilers repeat the correlation as External id of runtime calls: then it names no operator."""
    runtime = frame.filter((pl.col("kind") == "runtime") & pl.col("external_id").is_not_null())
    return runtime.height > 0 and (runtime["external_id"] == runtime["correlation"]).sum() > runtime.height // 2


def _edges(source: Ints, target: Ints, kind: str) -> pl.DataFrame:
    return pl.DataFrame({"source": source, "target": target}, schema={"source": pl.Int64, "target": pl.Int64}).with_columns(
        kind=pl.lit(kind)
    )


def _syncs(frame: pl.DataFrame, device: pl.DataFrame) -> list[pl.DataFrame]:
    """A blocking call returns with the device span that ended last before it did."""
    runtime = frame.select("id", "kind", "name", "start_ns", "end_ns").filter(pl.col("kind") == "runtime")
    calls = runtime.filter(pl.col("name").str.contains(_BLOCKING) & ~pl.col("name").str.contains("Async"))
    if not calls.height or not device.height:
        return []
    order = device.sort("end_ns")
    ends, ids = order["end_ns"].to_numpy(), order["id"].to_numpy()
    at = np.searchsorted(ends, calls["end_ns"].to_numpy(), side="right") - 1
    blocked = (at >= 0) & (ends[np.maximum(at, 0)] > calls["start_ns"].to_numpy())
    return [_edges(ids[at[blocked]], calls["id"].to_numpy()[blocked], "sync")]


def _waits(frame: pl.DataFrame, launch: Ints, syncs: dict[int, Args]) -> list[pl.DataFrame]:
    """Stream waits, where the profiler recorded them: the last span of the awaited stream -> the next of the waiting one."""
    rows = [(row, s) for row, a in syncs.items() if isinstance(s := a.wait_on_stream, int) and abs(s) < 1 << 63]
    if not rows:
        return []
    at = np.array([row for row, _ in rows])
    waits = frame[at].select("start_ns", "stream", "device").with_columns(awaited=pl.Series([s for _, s in rows], dtype=pl.Int64))
    work = frame.filter(pl.col("kind").is_in(words.DEVICE_WORK)).select("id", "stream", "start_ns", "end_ns")
    before = waits.sort("start_ns").join_asof(
        work.sort("end_ns").rename({"id": "source"}),
        left_on="start_ns",
        right_on="end_ns",
        by_left="awaited",
        by_right="stream",
        check_sortedness=False,
    )
    after = before.select("start_ns", "stream", "source").join_asof(
        work.sort("start_ns").select("stream", "start_ns", target="id"),
        on="start_ns",
        by="stream",
        strategy="forward",
        check_sortedness=False,
    )
    both = after.drop_nulls(["source", "target"]).unique(["source", "target"], maintain_order=True)
    return [_edges(both["source"].to_numpy(), both["target"].to_numpy(), "wait")]


def _autograd(frame: pl.DataFrame) -> list[pl.DataFrame]:
    """The last forward operator with a sequence number before the backward function of that number made its node."""
    columns = frame.select("id", "kind", "name", "sequence", "forward_thread", "start_ns")
    host = columns.filter((pl.col("kind") == "op") & (pl.col("sequence") >= 0))
    is_backward = pl.col("name").str.starts_with(_BACKWARD) | pl.col("forward_thread").fill_null(0).gt(0)
    backward = host.filter(is_backward).unique("sequence", keep="first", maintain_order=True)
    if not backward.height:
        return []
    forward = host.filter(~is_backward).select("sequence", "start_ns", source="id")
    joined = (
        backward.select("sequence", "start_ns", target="id")
        .sort("start_ns")
        .join_asof(forward.sort("start_ns"), on="start_ns", by="sequence", check_sortedness=False)
        .drop_nulls("source")
    )
    return [_edges(joined["source"].to_numpy(), joined["target"].to_numpy(), "autograd")]
