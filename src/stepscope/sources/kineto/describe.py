"""A rank as its file describes it: device, threads, window, versions, process groups, memory samples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl

from stepscope.model import words
from stepscope.model.info import Group, RankInfo
from stepscope.model.spans import SIGNALS, empty
from stepscope.sources.file_name import shown
from stepscope.sources.kineto.columns import Columns
from stepscope.sources.kineto.document import Reading
from stepscope.sources.kineto.identify import Identity
from stepscope.sources.kineto.mend import Mended
from stepscope.sources.kineto.vendors import RUNTIME_VENDOR


def describe(path: Path, spans: pl.DataFrame, mended: Mended, reading: Reading, identity: Identity, columns: Columns) -> RankInfo:
    real = spans.filter(pl.col("kind") != "overlay")
    window = (int(real["start_ns"].min()), int(real["end_ns"].max())) if real.height else (0, 0)  # type: ignore[arg-type]
    metadata = reading.metadata
    host = metadata.get("host_name")
    device = _device(spans, metadata)
    return RankInfo(
        rank=-1 if identity.rank is None else identity.rank,
        identified_by=identity.by,
        files=[shown(path.name)],
        host=host if isinstance(host, str) else None,
        device=device,
        device_name=_device_name(metadata) if device != "cpu" else None,
        main_thread=_main_thread(real),
        windows=[window],
        events=spans.height + mended.lost,
        repaired=reading.repaired + columns.oversized,
        dropped=reading.dropped + mended.dropped,
        clipped=mended.clipped,
        versions=_versions(metadata, identity),
    )


def _main_thread(spans: pl.DataFrame) -> int | None:
    """The marker's thread; without markers the thread that ran the optimizer or the loader, else the busiest one."""
    host = spans.filter((pl.col("lane") == "host") & pl.col("kind").is_in(["op", "annotation"]) & pl.col("thread").is_not_null())
    for pattern in ("^ProfilerStep#", r"^(?:Optimizer\.step#|enumerate\(DataLoader\)#)"):
        found = host.filter(pl.col("name").str.contains(pattern))
        if found.height:
            return int(found["thread"].mode().sort()[0])
    if not host.height:
        return None
    busiest = host.group_by("thread").agg(n=pl.len()).sort("n", "thread", descending=[True, False])
    return int(busiest["thread"][0])


def _device(spans: pl.DataFrame, metadata: dict[str, Any]) -> str:
    runtime = spans.filter(pl.col("kind") == "runtime")["name"]
    has_device = spans["kind"].is_in(words.DEVICE_WORK).any()
    for prefix, vendor in RUNTIME_VENDOR:
        if runtime.str.starts_with(prefix).any():
            return vendor
    if not has_device:
        return "cpu"
    name = (_device_name(metadata) or "").lower()
    if "nvidia" in name or "tesla" in name or "cuda_runtime_version" in metadata:
        return "cuda"
    return "hip" if "amd" in name or "instinct" in name or "hip_runtime_version" in metadata else "other"


def _device_name(metadata: dict[str, Any]) -> str | None:
    found = metadata.get("deviceProperties")
    first = found[0] if isinstance(found, list) and found else None
    name = first.get("name") if isinstance(first, dict) else None
    return name if isinstance(name, str) else None


def _versions(metadata: dict[str, Any], identity: Identity) -> dict[str, str]:
    keys = (
        "schemaVersion",
        "cuda_runtime_version",
        "cuda_driver_version",
        "cupti_version",
        "hip_runtime_version",
        "roctracer_version",
    )
    found = {key: str(metadata[key]) for key in keys if isinstance(metadata.get(key), int | float | str)}
    info = metadata.get("distributedInfo")
    if isinstance(info, dict) and isinstance(info.get("nccl_version"), str):
        found["nccl_version"] = info["nccl_version"]
    if identity.backend:
        found["backend"] = identity.backend
    return found


def groups_of(columns: Columns) -> tuple[Group, ...]:
    """Groups that the collectives themselves name with their ranks."""
    found: dict[str, Group] = {}
    for args in columns.collectives.values():
        if args.group is None or args.group in found or args.group_ranks is None:
            continue
        text = args.group_ranks if isinstance(args.group_ranks, str) else str(args.group_ranks)
        if len(text) < 1 << 20 and "..." not in text and (ranks := sorted({int(r) for r in re.findall(r"\d{1,8}", text)})):
            found[args.group] = Group(args.group, None, tuple(ranks))
    return tuple(found.values())


def memory(columns: Columns, shift: int) -> pl.DataFrame:
    """Memory samples of the profiler: total allocated on the device, and on the host."""
    rows = [
        {"time_ns": t + shift, "scope": "", "metric": "memory_allocated" if device == 1 else "host_memory_allocated",
         "value": float(total), "unit": "bytes", "source": "profiler memory events"}
        for t, total, device in columns.memory if isinstance(total, int) and 0 <= total < 1 << 63 and t > 0
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=SIGNALS) if rows else empty(SIGNALS)
