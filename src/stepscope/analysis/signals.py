"""What to lay beside each phase when it grew: the second table of the design, a base and a run, null where not recorded.

Times are seconds per rank and step, sizes bytes, `share` a ratio of the phase's kernel time. Kernel times are sums (streams
overlap), so they are not the exclusive parts; `gemm_shapes` counts the distinct input sizes of matrix products. No trace
says where the optimizer's state lives, what a save wrote, or how the host's memory, the storage and the GPU's clocks did:
those stay null until counters are recorded beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

import polars as pl

from stepscope.analysis.precision import FORMATS, precision
from stepscope.analysis.whole_steps import WholeSteps
from stepscope.analysis.workload import in_steps
from stepscope.model.breakdown import Breakdown
from stepscope.model.compare import PhaseSignals, Signal
from stepscope.model.info import Step
from stepscope.model.spans import RankTables
from stepscope.model.words import PARTS, PHASES

NS_PER_S: Final = 1e9
UNKNOWN_FORMAT: Final = "unnamed"


@dataclass(slots=True)
class Signals:
    """Sums over `rank_steps` steps of single ranks, ns; `formats` by phase and number format; `peak` over all ranks, bytes."""

    rank_steps: int = 0
    kernel_ns: Counter[str] = field(default_factory=Counter)
    formats: Counter[tuple[str, str]] = field(default_factory=Counter)
    recomputed_ns: int = 0
    batch_copy_ns: int = 0
    copies: int = 0
    kernels: int = 0
    peak: float | None = None
    products: dict[str, set[str]] = field(default_factory=dict)

    def add(self, tables: RankTables, steps: Sequence[Step]) -> None:
        """Sums one rank's device work in these steps."""
        self.rank_steps += len(steps)
        work = tables.spans.select("name", "kind", "shape", ns=pl.col("end_ns") - pl.col("start_ns")).with_columns(
            tables.attribution["phase", "recompute", "part"], inside=in_steps(tables.spans["start_ns"], steps)
        )
        work = work.filter(pl.col("inside") & (pl.col("ns") > 0)).with_columns(pl.col("phase").cast(pl.String))
        for phase, shape in work.filter(pl.col("shape").is_not_null()).select("phase", "shape").unique().iter_rows():
            self.products.setdefault(phase or "", set()).add(shape)
        kernels = work.filter(pl.col("kind") == "kernel")
        self.kernels += kernels.height
        for phase, name, ns in kernels.group_by("phase", "name").agg(pl.col("ns").sum()).iter_rows():
            self.kernel_ns[phase or ""] += ns
            self.formats[phase or "", precision(name or "") or UNKNOWN_FORMAT] += ns
        self.recomputed_ns += int(kernels.filter("recompute")["ns"].sum())
        copies = work.filter(pl.col("kind") == "memcpy")
        self.copies += copies.height
        self.batch_copy_ns += int(copies.filter(pl.col("part") == "input_wait")["ns"].sum())
        memory = tables.signals.filter(pl.col("metric") == "memory_allocated")["value"].max()
        if isinstance(memory, float):
            self.peak = max(memory, self.peak or 0)

    def per_step_s(self, ns: int) -> float | None:
        """Seconds per rank and step; None where no kernel was recorded at all."""
        return ns / self.rank_steps / NS_PER_S if self.kernels and self.rank_steps else None

    def format_share(self, phase: str, word: str) -> float | None:
        """Of the phase's kernel time; None where it has none."""
        whole = self.kernel_ns[phase]
        return self.formats[phase, word] / whole if whole else None


Side = tuple[Breakdown, WholeSteps, Signals]


def phase_signals(base: Side, run: Side) -> tuple[PhaseSignals, ...]:
    """All six phases in order."""
    rows = {phase: list(zip(_signals(phase, base), _signals(phase, run), strict=True)) for phase in PHASES}
    return tuple(
        PhaseSignals(phase, tuple(Signal(name, one, two, unit) for (name, one, unit), (_, two, _) in pairs))
        for phase, pairs in rows.items()
    )


def _signals(phase: str, side: Side) -> list[tuple[str, float | None, str]]:
    result, whole, signals = side
    kernel_time = ("kernel_time", signals.per_step_s(signals.kernel_ns[phase]), "s")
    shares = [(f"kernel_time_{word}", signals.format_share(phase, word), "share") for word in (*FORMATS, UNKNOWN_FORMAT)]
    shapes = ("gemm_shapes", float(len(signals.products[phase])) if phase in signals.products else None, "count")
    match phase:
        case "input":
            copied = signals.per_step_s(signals.batch_copy_ns) if signals.copies else None
            unknown = [("host_memory", None, "bytes"), ("host_cpu", None, "share"), ("storage_latency", None, "s")]
            return [("batch_wait", _part(whole, "input_wait"), "s"), ("next_batch_copy", copied, "s"), *unknown]
        case "forward":
            return [kernel_time, shapes, *shares, ("activation_memory", None, "bytes"), _CLOCK]
        case "backward":
            again = ("recomputation_time", signals.per_step_s(signals.recomputed_ns), "s")
            return [kernel_time, shapes, *shares, again, ("peak_memory", signals.peak, "bytes")]
        case "synchronization":
            return _synchronization(result)
        case "optimizer":
            return [kernel_time, ("memory_bandwidth", None, "bytes/s"), ("state_on_host", None, "share")]
        case _:
            stall = _part(whole, "checkpoint") or None  # a save that nothing names is not told from none
            return [("stall", stall, "s"), ("written", None, "bytes"), ("storage_bandwidth", None, "bytes/s")]


_CLOCK: Final = ("gpu_clock", None, "Hz")


def _synchronization(result: Breakdown) -> list[tuple[str, float | None, str]]:
    spread = [c.skew_ns for c in result.collectives if c.skew_ns is not None]
    times = [c.wait_ns + c.transfer_ns for c in result.collectives if c.wait_ns is not None and c.transfer_ns is not None]
    moved = [c.transfer_ns for c in result.collectives if c.transfer_ns is not None]
    speed = [c.busbw_bytes_per_s for c in result.collectives if c.busbw_bytes_per_s is not None]
    exposed = fmean(c.exposed_ns / c.total_ns for c in result.communication if c.total_ns) if any(
        c.total_ns for c in result.communication
    ) else None  # fmt: skip
    return [
        ("arrival_spread", fmean(spread) / NS_PER_S if spread else None, "s"),
        ("collective_duration", fmean(times) / NS_PER_S if times else None, "s"),
        ("collective_transfer", fmean(moved) / NS_PER_S if moved else None, "s"),
        ("bus_bandwidth", fmean(speed) if speed else None, "bytes/s"),
        ("exposed_share", exposed, "share"),
    ]


def _part(whole: WholeSteps, part: str) -> float:
    return float(whole.parts_ns[:, :, PARTS.index(part)].mean()) / NS_PER_S
