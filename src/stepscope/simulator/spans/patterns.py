"""Which kernels does each computation of a program launch on a given rank? Those of its segment, in the rank's own software."""

from __future__ import annotations

from typing import Final

import numpy as np

from stepscope.simulator.conditions import PerRank
from stepscope.simulator.costs import Prepared
from stepscope.simulator.kernel_costs import NORM_SHARE, attention_share, copy_ns, gathered_bytes, segment_of
from stepscope.simulator.kernels.compute import StepKernels
from stepscope.simulator.kernels.segment import Segment
from stepscope.simulator.program import Op
from stepscope.simulator.spans.kernels import Pattern, joined

COPY_OUT: Final = "void at::native::split_with_sizes_copy_out_contiguous_no_cast_kernel"
COPY_IN: Final = "void at::native::chunk_cat_cuda_kernel"


def variant_of(prepared: Prepared, rank: int) -> tuple[float, ...]:
    """Of each blend the share that this rank runs: ranks of one variant launch the same kernels."""
    return tuple(_on(blend.share, rank) for blend, _ in prepared.kernels.blends)


def patterns_of(prepared: Prepared, rank: int, whole_units: bool) -> dict[int, Pattern]:
    """The pattern of each computation, by its place in the program. `whole_units`: one kernel stands for all of a unit's."""
    shares = variant_of(prepared, rank)
    layers = prepared.job.workload.shape.layers
    seen: dict[tuple[str, str, tuple[bool, ...], bool], Pattern] = {}
    found: dict[int, Pattern] = {}
    number = {unit.name: i for i, unit in enumerate(prepared.units.layers)}
    per_unit = layers / max(len(prepared.units.layers), 1)
    for k, op in enumerate(prepared.work.program.ops):
        if op.kind != "compute":
            continue
        layer = number.get(op.unit, -1) * per_unit
        other = tuple(0 <= layer < share * layers or (layer < 0 and share >= 1) for share in shares)
        gathered = _gathers(prepared, op)
        key = (op.work, op.unit if op.unit == "root" else "", other, gathered)
        if key not in seen:
            kernels = next(
                (own for (_, own), on in zip(prepared.kernels.blends, other, strict=True) if on), prepared.kernels.plain
            )
            seen[key] = _pattern(prepared, op, kernels, gathered, whole_units)
        found[k] = seen[key]
    return found


def _on(share: PerRank, rank: int) -> float:
    return float(share if np.ndim(share) == 0 else np.asarray(share)[rank])


def _gathers(prepared: Prepared, op: Op) -> bool:
    """Whether this computation begins by copying gathered parameters out."""
    ops = prepared.work.program.ops
    return any(ops[j].name == "all_gather" and ops[j].lead for j in op.after)


def _pattern(prepared: Prepared, op: Op, kernels: StepKernels, gathered: bool, whole_units: bool) -> Pattern:
    name, _, share_text = op.work.partition("@")
    share = float(share_text or 1)
    half, _, pass_ = name.partition(".")
    segment = segment_of(kernels, f"layer.{pass_}" if half in ("attention", "mlp") else name)
    chosen = np.arange(len(segment.op))
    if half in ("attention", "mlp"):
        chosen = _half(segment, half, attention_share(kernels), pass_)
    one = _of(segment, chosen)
    if name in ("norm", "clip"):
        one = _scaled(one, NORM_SHARE if name == "norm" else 1 - NORM_SHARE)
    repeats = max(round(share), 1)
    pattern = joined([_scaled(one, share / repeats)] * repeats) if len(one) else _nothing(name)
    if gathered and _copies(prepared):
        nbytes = _unit_bytes(prepared, op)
        copy = Pattern(np.array([copy_ns(prepared.job, nbytes)]), ("fsdp::split_with_sizes_copy",), (COPY_OUT,),
                       np.zeros(1, np.int64), np.array([2 * nbytes]), np.zeros((1, 3), np.int64), np.zeros(1, bool))  # fmt: skip
        pattern = joined([copy, pattern])
    return _as_one(pattern, op) if whole_units else pattern


def _copies(prepared: Prepared) -> bool:
    return prepared.job.workload.plan.sharded and prepared.job.stack.framework.kind != "fsdp1"


def _unit_bytes(prepared: Prepared, op: Op) -> int:
    units = prepared.units
    unit = units.root if op.unit == "root" else next(u for u in units.layers if u.name == op.unit)
    return unit.parameters * gathered_bytes(prepared.job.workload.plan)


def _half(segment: Segment, half: str, inner: float, pass_: str) -> np.ndarray:
    """Kernels of the attention or MLP half: forward runs attention first, backward the MLP."""
    ns = np.cumsum(segment.ns())
    cut = int(np.searchsorted(ns, ns[-1] * (inner if pass_ == "forward" else 1 - inner)))
    first = (half == "attention") == (pass_ == "forward")
    return np.arange(cut) if first else np.arange(cut, len(ns))


def _of(segment: Segment, chosen: np.ndarray) -> Pattern:
    pick = chosen.tolist()
    return Pattern(
        segment.ns()[chosen],
        tuple(segment.op[i] for i in pick),
        tuple(segment.kernel[i] for i in pick),
        segment.flops[chosen],
        segment.bytes[chosen],
        segment.gemm[chosen],
        segment.recompute[chosen],
    )


def _scaled(pattern: Pattern, share: float) -> Pattern:
    if share == 1:
        return pattern
    flops, moved = (np.round(a * share).astype(np.int64) for a in (pattern.flops, pattern.bytes))
    return Pattern(pattern.ns * share, pattern.op, pattern.kernel, flops, moved, pattern.gemm, pattern.recompute)


def _nothing(name: str) -> Pattern:
    """A computation without kernels of its own (no clipping): one empty one."""
    none = np.zeros(1, np.int64)
    return Pattern(
        np.ones(1), (f"aten::{name}",), (f"void at::native::{name}",), none, none, np.zeros((1, 3), np.int64), none > 0
    )


def _as_one(pattern: Pattern, op: Op) -> Pattern:
    return Pattern(
        np.array([pattern.ns.sum()]), (f"unit::{op.name}",), (f"unit::{op.name} ({len(pattern)} kernels)",),
        pattern.flops.sum(keepdims=True), pattern.bytes.sum(keepdims=True), np.zeros((1, 3), np.int64), np.zeros(1, bool),
    )  # fmt: skip
