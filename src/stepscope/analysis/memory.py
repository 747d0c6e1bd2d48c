"""How much memory did the ranks of a Run hold at most? From its signals; bytes, of the fullest rank or GPU."""

from __future__ import annotations

import polars as pl

from stepscope.model.errors import BadInput
from stepscope.model.run import Run
from stepscope.model.snapshot import MeasuredMemory

METRICS = ("memory_allocated", "memory_reserved", "memory_used")


def measured_memory(run: Run, name: str) -> MeasuredMemory:
    """The highest of each; `name` is what the user calls the run. BadInput where the run has none of them."""
    signals = run.signals().filter(pl.col("metric").is_in(METRICS))
    frames = [signals, *(run.tables(rank, ()).signals.filter(pl.col("metric").is_in(METRICS)) for rank in run.ranks)]
    highest = {metric: max((_most(frame, metric) for frame in frames), default=0.0) for metric in METRICS}
    if not any(highest.values()):
        raise BadInput(
            f"{name}: says nothing of memory; record with profile_memory=True, or give a memory snapshot or nvidia-smi's CSV"
        )
    allocated, reserved, used = (round(highest[m]) or None for m in METRICS)
    return MeasuredMemory(
        source=name, allocated_bytes=allocated, reserved_bytes=reserved, total_bytes=used,
        notes=("the fullest of all ranks, over the recorded window",),
    )  # fmt: skip


def _most(signals: pl.DataFrame, metric: str) -> float:
    values = signals.filter(pl.col("metric") == metric)["value"].drop_nulls().to_list()
    return max(map(float, values), default=0.0)
