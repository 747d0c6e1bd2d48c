"""The collectives one rank took part in: operation, group, size, when it joined and when it ended.

On a device they are communication kernels; their operation comes from the profiler's metadata, else from the call that
launched them, else from the kernel's name. On a CPU backend they last from the host's c10d call to the end of the
worker's event, and the two are paired in order.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import msgspec
import polars as pl

from stepscope.model.spans import COLLECTIVES, empty
from stepscope.sources.kineto.columns import Shape
from stepscope.sources.kineto.event import Args, Value
from stepscope.sources.kineto.nesting import Ints
from stepscope.sources.kineto.vendors import DTYPE_BYTES, is_generic, kernel_operation, operation

_WORKER: Final = ("gloo:", "mpi:", "ucc:")
_CALL: Final = ("c10d::",)
# gloo carries a reduce-scatter out as an all-reduce and a broadcast-based gather; the worker's name then differs.
_CARRIED_BY: Final = {
    "reduce_scatter": ("reduce_scatter", "all_reduce"),
    "all_gather": ("all_gather", "gather"),
    "barrier": ("barrier", "all_reduce"),
}
_BEYOND: Final = 1 << 63  # a count or a size from here on does not fit the columns and is nobody's real one
_CLIMB: Final = 12  # operators between a launch and the c10d call around it; deeper nesting has not been seen


@dataclass(slots=True)
class Source:
    """What the rows came with: rare arguments by row, shapes by row, the group sizes that the file's head names."""

    args: dict[int, Args]
    shapes: dict[int, Shape]
    group_sizes: dict[str, int]


def device_collectives(frame: pl.DataFrame, parent: Ints, launch: Ints, operator: Ints, source: Source) -> pl.DataFrame:
    """One row per communication kernel, in order of start. `frame` is sorted by start, `id` is the row number."""
    kernels = frame.filter(pl.col("kind") == "collective").select("id", "name", "stream", "start_ns", "end_ns")
    names = frame["name"]
    rows: list[dict[str, Any]] = []
    for row, name, stream, start, end in kernels.iter_rows():
        chain = _chain(int(operator[row]), parent)
        args = _first(source.args, [row, *chain])
        call = next((r for r in chain if (n := names[r]).startswith(_CALL) or ":" in n[:6]), None)
        op = operation(args.collective) if args and args.collective else None
        op = op or next((o for r in chain if _names_operation(names[r]) and (o := operation(names[r]))), None)
        op = op or (None if is_generic(name) else kernel_operation(name)) or "unknown"
        size, dtype, group_size = _fitting(*_size(op, args, _all(source.shapes, chain), source))
        rows.append({
            "group": args.group if args else None, "seq": _whole(args.collective_seq) if args else None, "op": op, "dtype": dtype,
            "bytes": size, "group_size": group_size, "stream": stream, "arrive_ns": start, "end_ns": end, "span": row,
            "call": call if call is not None else (int(launch[row]) if launch[row] >= 0 else None),
        })  # fmt: skip
    return _table(rows)


def host_collectives(frame: pl.DataFrame, parent: Ints, source: Source) -> tuple[pl.DataFrame, list[tuple[int, int]]]:
    """Rows of a CPU backend, and (call, worker) pairs. A worker's event without a call (cut window) stands alone."""
    named = frame.filter(pl.col("kind").is_in(["op", "annotation"])).select("id", "name", "start_ns", "end_ns")
    calls = [r for r in named.filter(pl.col("name").str.starts_with("c10d::")).iter_rows() if operation(r[1])]
    inner = {c[0] for c in calls}
    calls = [c for c in calls if not any(p in inner for p in _chain(int(parent[c[0]]), parent))]
    pattern = "^(?:" + "|".join(_WORKER) + ")"
    workers = list(named.filter(pl.col("name").str.contains(pattern)).iter_rows())
    pairs: list[tuple[int, int]] = []
    rows: list[dict[str, Any]] = []
    waiting: defaultdict[str | None, deque[tuple[Any, ...]]] = defaultdict(deque)
    for call in calls:
        op = operation(call[1])
        for carrier in _CARRIED_BY.get(op or "", (op,)):
            waiting[carrier].append(call)
    paired: set[int] = set()
    for worker in workers:
        queue = waiting[operation(worker[1])]
        while queue and queue[0][0] in paired:  # taken as another operation
            queue.popleft()
        first = queue.popleft() if queue and queue[0][2] <= worker[2] else None  # calls are in order of start
        if first is not None:
            paired.add(first[0])
            pairs.append((first[0], worker[0]))
        rows.append(_host_row(first, worker, parent, source))
    rows += [_host_row(call, None, parent, source) for call in calls if call[0] not in paired]
    rows.sort(key=lambda r: (r["arrive_ns"], r["span"]))
    return _table(rows), pairs


def _host_row(call: tuple[Any, ...] | None, worker: tuple[Any, ...] | None, parent: Ints, source: Source) -> dict[str, Any]:
    head = call or worker
    assert head is not None
    chain = [head[0], *_chain(int(parent[head[0]]), parent)]
    args = _first(source.args, chain)
    op = operation(head[1]) or "unknown"
    end = max(worker[3] if worker else head[3], head[2])
    shapes = _all(source.shapes, [*chain, worker[0]] if worker else chain)
    size, dtype, group_size = _fitting(*_size(op, args, shapes, source))
    return {
        "group": args.group if args else None, "seq": _whole(args.collective_seq) if args else None, "op": op, "dtype": dtype,
        "bytes": size, "group_size": group_size, "stream": None, "arrive_ns": head[2], "end_ns": end,
        "span": head[0], "call": call[0] if call else None,
    }  # fmt: skip


def _table(rows: list[dict[str, Any]]) -> pl.DataFrame:
    if not rows:
        return empty(COLLECTIVES)
    base = dict.fromkeys(COLLECTIVES)
    return pl.DataFrame([{**base, **row, "id": at} for at, row in enumerate(rows)], schema=COLLECTIVES, infer_schema_length=None)


def _chain(row: int, parent: Ints) -> list[int]:
    chain: list[int] = []
    while row >= 0 and len(chain) < _CLIMB:
        chain.append(row)
        row = int(parent[row])
    return chain


def _names_operation(name: str) -> bool:
    return name.startswith(("nccl:", "rccl:", "gloo:", "hccl:", "xccl:", "ucc:", "mpi:", "c10d::", "_c10d_functional::"))


def _first(found: dict[int, Any], rows: list[int]) -> Any:
    return next((found[row] for row in rows if row in found), None)


def _all(found: dict[int, Shape], rows: list[int]) -> list[Shape]:
    return [found[row] for row in rows if row in found]


def _whole(value: Value) -> int | None:
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else None
    return value if isinstance(value, int) and abs(value) < _BEYOND else None


def _fitting(size: int | None, dtype: str | None, group_size: int | None) -> tuple[int | None, str | None, int | None]:
    return (size if size is not None and abs(size) < _BEYOND else None), dtype, group_size


def _size(op: str, args: Args | None, shapes: list[Shape], source: Source) -> tuple[int | None, str | None, int | None]:
    """Bytes by the nccl-tests convention (the whole gathered, reduced or scattered buffer), dtype, group size."""
    group_size = _whole(args.group_size) if args else None
    if group_size is None:
        group_size = source.group_sizes.get(args.group) if args and args.group else None
        group_size = group_size or (next(iter(source.group_sizes.values())) if len(source.group_sizes) == 1 else None)
    if args and args.dtype:
        width = DTYPE_BYTES.get(args.dtype.lower())
        counts = [n for n in (_whole(args.in_elements), _whole(args.out_elements)) if n is not None]
        if width and counts:
            return max(counts) * width, args.dtype, group_size
    sizes, dtype = next((found for shape in shapes if (found := _tensor_sizes(shape))[0]), ([], args.dtype if args else None))
    if not sizes:
        return None, dtype, group_size
    if len(sizes) == 1 and op == "all_gather":  # the backend's annotation shows this rank's shard alone
        return (sizes[0] * group_size if group_size else None), dtype, group_size
    return max(sizes), dtype, group_size


def _tensor_sizes(shape: Shape) -> tuple[list[int], str | None]:
    """Bytes of each tensor argument; lists of tensors are summed."""
    try:
        dims, types = msgspec.json.decode(shape.dims), msgspec.json.decode(shape.types)
    except (msgspec.MsgspecError, RecursionError):
        return [], None
    if not isinstance(dims, list) or not isinstance(types, list):
        return [], None
    sizes: list[int] = []
    dtype = None
    for dim, kind in zip(dims, types, strict=False):
        width = DTYPE_BYTES.get(kind.lower()) if isinstance(kind, str) else None
        if width is None or not isinstance(dim, list) or not dim:
            continue
        parts = dim if isinstance(dim[0], list) else [dim]
        if all(isinstance(n, int) for part in parts if isinstance(part, list) for n in part):
            sizes.append(sum(prod(part) for part in parts if isinstance(part, list)) * width)
            dtype = dtype or kind
    return sizes, dtype
