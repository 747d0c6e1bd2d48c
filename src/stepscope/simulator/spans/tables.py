"""The tables of a simulated run's ranks: templates filled with the times of every step. int64 ns from the run's origin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stepscope.catalog.telemetry import board_of
from stepscope.model import words
from stepscope.model.info import RankInfo
from stepscope.model.place import Place
from stepscope.model.spans import ATTRIBUTION, COLLECTIVES, EDGES, SPANS, RankTables, conform, empty, enum_of
from stepscope.simulator.costs import Prepared, axes
from stepscope.simulator.engine import StepTimes
from stepscope.simulator.joining import Joining
from stepscope.simulator.simulation import Step
from stepscope.simulator.spans.kernels import placed
from stepscope.simulator.spans.patterns import patterns_of, variant_of
from stepscope.simulator.spans.template import PER_OP, Columns, Template, columns
from stepscope.simulator.spans.trace import template_of

Array = NDArray[np.float64]
AT_ONCE: Final = 64  # ranks filled together: bounds memory, long enough for the arrays to pay
MAIN_THREAD: Final = 1000  # thread ids as a profiler shows them; the numbers mean nothing
ENGINE_THREAD: Final = 1001
RECORDED: Final = {
    "device_kernels": True, "launches": True, "correlation": True, "operators": True, "sequence_numbers": False,
    "evaluate_function": True, "forward_ranges": True, "module_frames": False, "python_stacks": True, "shapes": True,
    "memory": False, "flops": True, "step_markers": True, "loader": True, "optimizer_ranges": True, "saves": True,
    "collectives": True, "collective_metadata": True, "collective_sequence": True, "group_ranks": True, "units": True,
    "warmup": True, "complete_window": True, "stream_sync": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Filled:
    """One template of one program with what is the same for all its ranks."""

    template: Template
    columns: Columns


class Tables:
    """Tables of the ranks of a simulated run, one after the other. `whole_units`: one kernel stands for all of a unit."""

    def __init__(self, steps: Sequence[Step], whole_units: bool = False) -> None:
        self.steps, self.whole_units = steps, whole_units
        self._templates: dict[tuple[int, tuple[float, ...]], _Filled] = {}

    def of(self, ranks: Sequence[int]) -> Iterator[RankTables]:
        """Tables of these ranks, in order; `attribution` is still empty."""
        for first in range(0, len(ranks), AT_ONCE):
            some = list(ranks[first : first + AT_ONCE])
            times = [self._times(step, some) for step in self.steps]
            for at, rank in enumerate(some):
                yield self._rank(rank, at, times)

    def _filled(self, prepared: Prepared, rank: int) -> _Filled:
        key = (id(prepared), variant_of(prepared, rank))
        if key not in self._templates:
            template = template_of(prepared, patterns_of(prepared, rank, self.whole_units))
            self._templates[key] = _Filled(template, columns(template))
        return self._templates[key]

    def _times(self, step: Step, ranks: list[int]) -> list[tuple[_Filled, NDArray[np.int64], int]]:
        """Of each rank its template and the times of its rows, int64 [2, rows], and where among its like it stands."""
        groups: dict[int, list[int]] = {}
        filled: dict[int, _Filled] = {}
        for at, rank in enumerate(ranks):
            one = self._filled(step.prepared, rank)
            filled[id(one)] = one
            groups.setdefault(id(one), []).append(at)
        found: list[Any] = [None] * len(ranks)
        for key, places in groups.items():
            one = filled[key]
            anchors = _anchors(step.prepared, step.times, one.template, [ranks[p] for p in places])
            low, high, share = one.columns.points
            rows = anchors[low] + share[:, :, None] * (anchors[high] - anchors[low])
            whole = np.rint(rows).astype(np.int64)
            for n, place in enumerate(places):
                found[place] = (one, whole[:, :, n])
        return found

    def _rank(self, rank: int, at: int, times: list[list[Any]]) -> RankTables:
        frames, edges, calls = [], [], []
        shift = 0
        for step, all_ranks in zip(self.steps, times, strict=True):
            filled, when = all_ranks[at]
            frames.append(_frame(filled.columns, when, step.number, shift))
            calls += [(shift + kernel, shift + host, op, n, step) for kernel, host, op, n in filled.template.calls]
            launch = filled.columns.static["launch"]
            target = np.flatnonzero(launch >= 0)
            edges.append(np.stack([launch[target] + shift, target + shift]))
            shift += len(launch)
        spans = pl.concat(frames)
        order = np.lexsort((-spans["end_ns"].to_numpy(), spans["start_ns"].to_numpy()))
        moved = np.empty(len(order), dtype=np.int64)
        moved[order] = np.arange(len(order))
        spans = _sorted(spans, order, moved)
        pairs = moved[np.concatenate(edges, axis=1)]
        launches = pl.DataFrame({"source": pairs[0], "target": pairs[1]}).with_columns(kind=pl.lit("launch"))
        collectives = self._collectives(rank, spans, calls, moved)
        owner = np.full(len(order), -1, dtype=np.int64)
        owner[collectives["span"].to_numpy()] = collectives["id"].to_numpy()
        spans = spans.with_columns(collective_id=pl.when(pl.Series(owner) >= 0).then(pl.Series(owner)))
        syncs = _syncs(spans)
        return RankTables(
            self._info(rank, spans),
            conform(spans, SPANS),
            conform(pl.concat([launches, syncs]), EDGES),
            empty(ATTRIBUTION),
            conform(collectives, COLLECTIVES),
        )

    def _collectives(self, rank: int, spans: pl.DataFrame, calls: list[Any], moved: NDArray[np.int64]) -> pl.DataFrame:
        start, end, stream = (spans[name].to_numpy() for name in ("start_ns", "end_ns", "stream"))
        rows: list[dict[str, Any]] = []
        sequence: dict[str, int] = {}
        for kernel, host, k, _, step in calls:
            op = step.prepared.work.program.ops[k]
            assert op.comm is not None
            job = step.prepared.job
            size, stride = axes(job.mesh, job.workload.plan)[op.comm.axis]
            group = f"{op.comm.axis}:{int(Joining(size, stride, job.ranks).group_of()[rank]) if size < job.ranks else 0}"
            sequence[op.comm.name] = sequence.get(op.comm.name, 0) + 1
            span = int(moved[kernel])
            rows.append({
                "rank": rank, "group": group, "seq": sequence[op.comm.name], "op": op.name, "dtype": dtype_of(job, op.nbytes, op),
                "bytes": op.nbytes, "group_size": size, "stream": int(stream[span]), "arrive_ns": int(start[span]),
                "end_ns": int(end[span]), "span": span, "call": int(moved[host]),
            })  # fmt: skip
        rows.sort(key=lambda row: (row["arrive_ns"], row["span"]))
        return pl.DataFrame([{**row, "id": i} for i, row in enumerate(rows)], schema={k: v for k, v in COLLECTIVES.items()
                            if k in _ROW}, infer_schema_length=None)  # fmt: skip

    def _info(self, rank: int, spans: pl.DataFrame) -> RankInfo:
        prepared = self.steps[0].prepared
        job = prepared.job
        node, gpu, nic = _place(job.cluster, rank)
        real = spans.filter(pl.col("kind") != "overlay")
        window = (int(real["start_ns"].min()), int(real["end_ns"].max()))  # type: ignore[arg-type]  # a table with rows
        return RankInfo(
            rank=rank,
            identified_by="simulated",
            host=node,
            place=Place(node, gpu, nic),
            device="cuda" if job.gpu.vendor == "nvidia" else "hip",
            device_name=board_of(job.gpu).product,
            main_thread=MAIN_THREAD,
            windows=[window],
            events=spans.height,
            recorded=dict(RECORDED),
        )


_ROW: Final = (
    "id",
    "rank",
    "group",
    "seq",
    "op",
    "dtype",
    "bytes",
    "group_size",
    "stream",
    "arrive_ns",
    "end_ns",
    "span",
    "call",
)


def _place(cluster: Any, rank: int) -> tuple[str, int, str | None]:
    place = cluster.place(rank)
    return place.node, place.gpu, place.nic


def dtype_of(job: Any, nbytes: int, op: Any) -> str:
    if nbytes == 4:
        return "Float"
    reduced = op.name != "all_gather" and op.comm.axis != "tp"
    wide = job.workload.plan.reduce == "fp32" if reduced else job.workload.plan.precision in ("fp32", "tf32")
    return "Float" if wide else "BFloat16"


def _anchors(prepared: Prepared, times: StepTimes, template: Template, ranks: list[int]) -> Array:
    """Every time that rows refer to: [operations x PER_OP + 2 + 2 x kernels, ranks]."""
    codes, work = prepared.work.codes, prepared.work
    n = len(codes)
    issue, start, begin, end = (a[:, ranks] for a in (times.issue, times.start, times.begin, times.end))
    pace = np.broadcast_to(times.host_pace, times.host_start.shape)[ranks]  # the step's own: work is used again
    host = np.array([code.host_ns for code in codes])[:, None] * pace
    lead = np.stack([np.broadcast_to(code.lead_ns, times.host_start.shape)[ranks] for code in codes])
    each = np.stack(
        [np.broadcast_to(code.duration, times.host_start.shape)[ranks] if code.count > 1 else 0 * pace for code in codes]
    )
    per_op = np.stack([issue, issue + host, start - lead, start, begin, begin + each, end - each, end], axis=1)
    kernels = np.empty((template.kernels, 2, len(ranks)))
    alike: dict[int, list[tuple[int, int]]] = {}
    for k, (first, pattern) in template.patterns.items():
        alike.setdefault(id(pattern), []).append((k, first))
    for members in alike.values():
        ks = [k for k, _ in members]
        pattern = template.patterns[ks[0]][1]
        issued = issue[ks] + host[ks]
        begun, ended = placed(pattern, start[ks], end[ks], issue[ks], issued, work.launch_latency_ns)
        for i, (_, first) in enumerate(members):
            kernels[first : first + len(pattern), 0] = begun[:, i]
            kernels[first : first + len(pattern), 1] = ended[:, i]
    edge = np.stack([times.host_start[ranks], times.host_end[ranks]])
    return np.concatenate([per_op.reshape(n * PER_OP, -1), edge, kernels.reshape(2 * template.kernels, -1)])


def _frame(found: Columns, when: NDArray[np.int64], step: int, shift: int) -> pl.DataFrame:
    static = found.static
    count = len(static["name"])
    names = pl.Series([name.replace("{step}", str(step)) for name in found.names], dtype=pl.String)
    kinds = np.array([words.KINDS.index(kind) for kind in static["kind"]])
    device = np.array([stream is not None for stream in static["stream"]])
    launch = static["launch"]
    own = np.where(launch >= 0, launch, np.arange(count)) + shift + 1
    parent = np.where(static["parent"] >= 0, static["parent"] + shift, -1)
    runtime = kinds == words.KINDS.index("runtime")
    return pl.DataFrame(
        {
            "parent": parent,
            "thread": pl.Series([None if t is None else MAIN_THREAD + t for t in static["thread"]], dtype=pl.Int64),
            "lane": enum_of(device.astype(np.int64), words.LANES),
            "device": pl.Series(np.where(device, 0, -1)),
            "stream": pl.Series(static["stream"], dtype=pl.Int64),
            "start_ns": when[0],
            "end_ns": np.maximum(when[1], when[0]),
            "kind": enum_of(kinds, words.KINDS),
            "name": names.gather(static["name"]),
            "correlation": np.where(device | runtime, own, -1),
            "bytes": pl.Series(static["bytes"], dtype=pl.Int64),
            "flops": pl.Series(static["flops"], dtype=pl.Int64),
            "shape": pl.Series(static["shape"], dtype=pl.String),
        }
    )


def _sorted(spans: pl.DataFrame, order: NDArray[np.int64], moved: NDArray[np.int64]) -> pl.DataFrame:
    parent = spans["parent"].to_numpy()
    parent = np.where(parent >= 0, moved[parent], -1)[order]
    return spans[order].with_columns(
        id=pl.int_range(pl.len(), dtype=pl.Int64),
        parent=pl.when(pl.Series(parent) >= 0).then(pl.Series(parent)),
        device=pl.when(pl.col("device") >= 0).then("device"),
        correlation=pl.when(pl.col("correlation") >= 0).then("correlation"),
        flags=pl.lit(0, dtype=pl.UInt8),
    )


def _syncs(spans: pl.DataFrame) -> pl.DataFrame:
    """A blocking call returns with the device span that ended last before it did."""
    calls = spans.filter(pl.col("name").is_in(["cudaStreamSynchronize", "cudaEventSynchronize"])).select(
        "id", "start_ns", "end_ns"
    )
    work = spans.filter(pl.col("lane") == "device").select("id", "end_ns").sort("end_ns")
    schema = {"source": pl.Int64, "target": pl.Int64, "kind": pl.String}
    if not calls.height or not work.height:
        return pl.DataFrame(schema=schema)
    ends = work["end_ns"].to_numpy()
    at = np.searchsorted(ends, calls["end_ns"].to_numpy(), side="right") - 1
    real = (at >= 0) & (ends[np.maximum(at, 0)] > calls["start_ns"].to_numpy())
    found = {"source": work["id"].to_numpy()[at[real]], "target": calls["id"].to_numpy()[real]}
    return pl.DataFrame(found).with_columns(kind=pl.lit("sync"))
