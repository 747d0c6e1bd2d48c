"""Small Kineto traces made by hand: what a profiler writes for a training step, event by event.

Times are µs. `gpu_step` is one step of a rank with a loader, the batch's copy, forward, backward on autograd's thread, one
all-reduce and an optimizer; everything central is tested on it, so that no test needs traces of strangers.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]
BASE = 1_700_000_000_000_000  # µs since 1970, as profilers without baseTimeNanoseconds write them
MAIN, ENGINE, HOST, COMPUTE, COMM = 100, 101, 100, 7, 20


def host(name: str, ts: float, dur: float, cat: str = "cpu_op", tid: int = MAIN, **args: Any) -> Json:
    """A span of a host thread."""
    return {"ph": "X", "cat": cat, "name": name, "pid": HOST, "tid": tid, "ts": ts, "dur": dur, "args": args}


def launch(correlation: int, ts: float, dur: float = 5, tid: int = MAIN, name: str = "cudaLaunchKernel") -> Json:
    """A runtime call with its correlation id."""
    return host(name, ts, dur, "cuda_runtime", tid, correlation=correlation)


def device(name: str, correlation: int, ts: float, dur: float, stream: int = COMPUTE, cat: str = "kernel", **args: Any) -> Json:
    """A span of a device stream."""
    own = {"device": 0, "stream": stream, "correlation": correlation, **args}
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur, "args": own}


def gpu_step(number: int, at: float, ids: int) -> list[Json]:
    """One step of 1,000 µs that begins at `at`; correlation ids from `ids` on."""
    note = "user_annotation"
    return [
        host(f"ProfilerStep#{number}", at, 1000, note),
        host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 10, 100, note),
        host("aten::to", at + 115, 20),
        launch(ids, at + 120, 10, name="cudaMemcpyAsync"),
        device("Memcpy HtoD (Pinned -> Device)", ids, at + 130, 40, cat="gpu_memcpy", bytes=4096),
        host("DistributedDataParallel.forward", at + 150, 100, note),
        host("aten::mm", at + 160, 20, **{"Sequence number": 10 * number, "External id": ids + 50}),
        launch(ids + 1, at + 165),
        device("gemm", ids + 1, at + 180, 100),
        host("autograd::engine::evaluate_function: MmBackward0", at + 300, 200, tid=ENGINE,
             **{"Sequence number": 10 * number, "Fwd thread id": 1}),
        host("MmBackward0", at + 310, 80, tid=ENGINE, **{"Sequence number": 10 * number}),
        launch(ids + 2, at + 320, tid=ENGINE),
        device("gemm_backward", ids + 2, at + 330, 200),
        host("nccl:all_reduce", at + 420, 30, note, tid=ENGINE, **{"Input Dims": [[256]], "Input type": ["float"]}),
        launch(ids + 3, at + 430, tid=ENGINE),
        device("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", ids + 3, at + 480, 150, stream=COMM),
        host("Optimizer.step#AdamW.step", at + 650, 60, note),
        host("aten::add_", at + 660, 20),
        launch(ids + 4, at + 665),
        device("adam_kernel", ids + 4, at + 680, 50),
    ]  # fmt: skip


def gpu_trace(rank: int | None = 0, world_size: int = 1, steps: int = 2, start: float = BASE) -> Json:
    """A whole document of one rank; `rank` None leaves distributedInfo out."""
    events = [e for k in range(steps) for e in gpu_step(k + 1, start + 1000 * k, 1000 * (k + 1))]
    document: Json = {"schemaVersion": 1, "record_shapes": 1}
    if rank is not None:
        document["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world_size}
    return {**document, "traceEvents": events, "traceName": "made.json"}


def write(path: Path, document: Any) -> Path:
    """Writes a document as text or, where the name ends in .gz, packed. Bytes are written as they are."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
