"""One rank's trace as torch's profiler writes it (Kineto JSON, gzipped), from the tables of a simulated rank.

Stamps are µs with three decimals after `baseTimeNanoseconds`. Text is built column by column. Of a kernel's arguments those are
left out that the simulation does not know: grid, block, registers, occupancy. The profiler's own overhead is not simulated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from isal import igzip

from stepscope.catalog.telemetry import board_of
from stepscope.model.spans import RankTables
from stepscope.simulator.emit.inventory import CUDA, NCCL, WALL_NS, ProcessGroup, listed, local, pid
from stepscope.simulator.job import Job

UPTIME_NS: Final = 5_126_000_000_000  # a stamp counts from the host's start, the base from 1970: about an hour and a half
CATEGORIES: Final = {
    "op": "cpu_op", "annotation": "user_annotation", "runtime": "cuda_runtime", "kernel": "kernel", "collective": "kernel",
    "memcpy": "gpu_memcpy", "memset": "gpu_memset", "sync": "cuda_sync", "python": "python_function",
    "overlay": "gpu_user_annotation",
}  # fmt: skip
CALLS: Final = {"all_gather": "_allgather_base", "reduce_scatter": "_reduce_scatter_base", "all_reduce": "allreduce"}
WIDTH: Final = {"BFloat16": 2, "Float": 4}
TYPES: Final = {"bf16": "c10::BFloat16", "fp16": "c10::Half", "fp32": "float", "tf32": "float"}
LEVEL: Final = 1  # of gzip: packs ten to one; higher ones take longer than the simulation


def write_trace(path: Path, tables: RankTables, job: Job, groups: Sequence[ProcessGroup], skew_ns: int = 0) -> None:
    """Writes one rank's trace. `skew_ns` is how far its host's clock is ahead. The same tables give the same bytes."""
    path.write_bytes(igzip.compress(trace(tables, job, groups, skew_ns), LEVEL, mtime=0))


def trace(tables: RankTables, job: Job, groups: Sequence[ProcessGroup], skew_ns: int = 0) -> bytes:
    """The JSON of one rank's trace."""
    head = json.dumps(_head(tables, job, groups), separators=(",", ":"))[:-1]
    rows = _rows(tables, job, groups, skew_ns)
    meta = [json.dumps(event, separators=(",", ":")) for event in _metadata(tables, job)]
    events = ",\n".join([*meta, "\n".join(rows.to_list())])
    name = json.dumps(f"rank-{tables.info.rank}.pt.trace.json")
    return f'{head},"traceEvents":[\n{events}\n],"traceName":{name}}}\n'.encode()


def _head(tables: RankTables, job: Job, groups: Sequence[ProcessGroup]) -> dict[str, Any]:
    gpu, rank = job.gpu, tables.info.rank
    number = gpu.arch.removeprefix("sm_")
    device = {"name": board_of(gpu).product, "totalGlobalMem": gpu.memory_bytes, "warpSize": 32, "numSms": gpu.compute.units}
    if number.isdigit():
        device |= {"computeMajor": int(number[:-1]), "computeMinor": int(number[-1])}
    nvidia = gpu.vendor == "nvidia"
    major, minor = (int(n) for n in CUDA.split("."))
    version = {"cuda_runtime_version": major * 1000 + minor * 10, "cuda_driver_version": major * 1000 + minor * 10}
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": i, **device} for i in range(job.cluster.gpus_per_node)],
        **(version if nvidia else {}),
        "record_shapes": 1,
        "with_flops": 1,
        "with_stack": 1,
        "trace_id": hashlib.md5(f"{job.cluster.name} {rank}".encode(), usedforsecurity=False).hexdigest().upper(),
        "distributedInfo": {
            "backend": "nccl",
            "rank": rank,
            "world_size": job.ranks,
            "pg_count": len(mine := [g for g in groups if rank in g.ranks]),
            "pg_config": [
                {
                    "pg_name": g.name,
                    "pg_desc": g.description,
                    "backend_config": "cuda:nccl",
                    "pg_size": len(g.ranks),
                    "ranks": list(g.ranks),
                }
                for g in mine
            ],
            **({"nccl_version": NCCL} if nvidia else {}),
        },
        "host_name": tables.info.host,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": WALL_NS - UPTIME_NS,
    }


def _metadata(tables: RankTables, job: Job) -> list[dict[str, Any]]:
    """Names of processes, threads and streams."""
    own, device = pid(job, tables.info.rank), local(job, tables.info.rank)
    ts = round((int(tables.spans["start_ns"][0]) + UPTIME_NS) / 1000, 3)
    found: list[tuple[str, int, int, str, Any]] = [
        ("process_name", own, 0, "name", "python"),
        ("process_labels", own, 0, "labels", "CPU"),
        ("process_sort_index", own, 0, "sort_index", own),
        ("process_name", device, 0, "name", "python"),
        ("process_labels", device, 0, "labels", f"GPU {device}"),
        ("process_sort_index", device, 0, "sort_index", device + 5_000_000),
    ]
    main = tables.info.main_thread or 0
    for thread in tables.spans["thread"].drop_nulls().unique().sort().to_list():
        tid = own + thread - main
        name = "python" if thread == main else f"pt_autograd_{device}"
        found += [("thread_name", own, tid, "name", f"thread {tid} ({name})"), ("thread_sort_index", own, tid, "sort_index", tid)]
    for stream in tables.spans["stream"].drop_nulls().unique().sort().to_list():
        found += [("thread_name", device, stream, "name", f"stream {stream} "),
                  ("thread_sort_index", device, stream, "sort_index", stream)]  # fmt: skip
    return [{"ph": "M", "name": n, "ts": ts, "pid": p, "tid": t, "args": {key: value}} for n, p, t, key, value in found]


def _rows(tables: RankTables, job: Job, groups: Sequence[ProcessGroup], skew_ns: int) -> pl.Series:
    """A line of JSON per span, a comma at the end of each but the last."""
    spans = tables.spans.select(
        "id", "parent", "thread", "stream", "start_ns", "end_ns", "kind", "name", "correlation", "bytes", "flops", "shape"
    )
    own, device = pid(job, tables.info.rank), local(job, tables.info.rank)
    names = spans["name"].unique()
    written = pl.Series([json.dumps(name) for name in names.to_list()], dtype=pl.String)
    name = written.gather(spans["name"].cast(pl.Enum(names)).to_physical())
    kind = spans["kind"].cast(pl.String)
    on_device = spans["stream"].is_not_null()
    calls = _communication(tables, job, groups)
    frame = spans.with_columns(
        name=name,
        cat=kind.replace_strict(CATEGORIES),
        pid=pl.when(on_device).then(device).otherwise(own),
        tid=pl.when(on_device).then("stream").otherwise(pl.col("thread") + (own - (tables.info.main_thread or 0))),
        ts=_us(pl.col("start_ns") + (UPTIME_NS + skew_ns)),
        dur=_us(pl.col("end_ns") - pl.col("start_ns")),
        external=pl.Series(_external(tables)),
    ).join(calls, left_on="id", right_on="span", how="left", maintain_order="left")
    dtype = TYPES.get(job.workload.plan.precision, "c10::BFloat16")
    nothing = pl.lit("")
    external = pl.when(pl.col("external") >= 0).then(pl.format('"External id":{}', "external")).otherwise(nothing)
    shape = pl.when(pl.col("shape").is_not_null()).then(
        pl.format(',"Input Dims":{},"Input type":["' + dtype + '","' + dtype + '"]', "shape")
    ).otherwise(nothing)  # fmt: skip
    flops = pl.when(pl.col("flops").is_not_null()).then(pl.format(',"flops":{}', "flops")).otherwise(nothing)
    moved = pl.when((pl.col("kind") == "memcpy") & pl.col("bytes").is_not_null()).then(
        pl.format(',"bytes":{}', "bytes")
    ).otherwise(nothing)  # fmt: skip
    where = pl.format(f'"device":{device},"context":1,"stream":{{}},"correlation":{{}},', "stream", "correlation")
    cbid = pl.format('"correlation":{},', pl.col("correlation").fill_null(0))
    args = (
        pl.when(on_device)
        .then(pl.concat_str(where, external, moved, pl.col("call").fill_null("")))
        .when(pl.col("kind") == "runtime")
        .then(pl.concat_str(cbid, external))
        .when(pl.col("kind") == "python")
        .then(pl.format('"Python id":{},"Python thread":0', "id"))
        .otherwise(pl.concat_str(external, pl.format(',"Record function id":0,"Ev Idx":{}', "id"), shape, flops))
    )
    lines = pl.concat_str(
        pl.lit('{"ph":"X","cat":"'), "cat", pl.lit('","name":'), "name", pl.lit(',"pid":'), "pid", pl.lit(',"tid":'), "tid",
        pl.lit(',"ts":'), "ts", pl.lit(',"dur":'), "dur", pl.lit(',"args":{'), args.str.strip_chars(","), pl.lit("}},"),
    )  # fmt: skip
    text = frame.select(lines=lines)["lines"]
    return pl.concat([text[:-1], text[-1:].str.strip_suffix(",")])


def _us(ns: pl.Expr) -> pl.Expr:
    return pl.concat_str((ns // 1000).cast(pl.String), pl.lit("."), (ns % 1000).cast(pl.String).str.zfill(3))


def _external(tables: RankTables) -> np.ndarray[Any, np.dtype[np.int64]]:
    """External ids: of an operator its own number, of a launch and its kernel that of the operator around it; -1 for none."""
    spans = tables.spans
    kind = spans["kind"].cast(pl.String)
    own = kind.is_in(["op", "annotation"]).to_numpy()
    number = np.where(own, np.cumsum(own) + 1, -1)
    parent = spans["parent"].fill_null(-1).to_numpy()
    runtime = (kind == "runtime").to_numpy()
    number = np.where(runtime & (parent >= 0), number[parent], number)
    launches = tables.edges.filter(pl.col("kind") == "launch")
    found: np.ndarray[Any, np.dtype[np.int64]] = number.copy()
    found[launches["target"].to_numpy()] = number[launches["source"].to_numpy()]
    return found


def _communication(tables: RankTables, job: Job, groups: Sequence[ProcessGroup]) -> pl.DataFrame:
    """What torch writes beside a collective's kernel: (span, text)."""
    known = {g.key: g for g in groups}
    rows = tables.collectives.select("span", "group", "seq", "op", "dtype", "bytes", "group_size")
    texts = []
    for _, key, seq, op, dtype, nbytes, size in rows.iter_rows():
        group = known[key]
        whole = -(-nbytes // WIDTH[dtype])
        part = -(-whole // size)
        into, out = {"all_gather": (part, whole), "reduce_scatter": (whole, part)}.get(op, (whole, whole))
        texts.append(
            f',"Collective name":"{CALLS[op]}","In msg nelems":{into},"Out msg nelems":{out},"Group size":{size},'
            f'"dtype":"{dtype}","In split size":"[]","Out split size":"[]","Process Group Name":"{group.name}",'
            f'"Process Group Description":"{group.description}","Process Group Ranks":"{listed(group.ranks)}",'
            f'"Rank":{tables.info.rank},"Seq":{seq}'
        )
    return pl.DataFrame({"span": rows["span"], "call": pl.Series(texts, dtype=pl.String)})
