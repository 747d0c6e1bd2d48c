"""Measured memory beside the plan: the three totals, what is live between steps, and terms where the source tells them apart."""

from __future__ import annotations

from typing import Final

from stepscope.model.memory import Compared, MemoryPlan
from stepscope.model.snapshot import MeasuredMemory

PLANNED: Final = {
    "optimizer": ("moments", "master weights", "optimizer temporaries"),
    "weights": ("weights",),
    "gradients": ("gradients", "accumulated gradients", "unsharded gradients", "gradients in flight", "DDP buckets"),
    "activations": ("activations", "recomputed layer", "last norm"),
    "loss head": ("loss head",),
    "unsharded units": ("unsharded units", "prefetched units", "root unit", "resharded weights"),
    "reduce-scatter input": ("reduce-scatter input",),
}
"""A measured term, and the planned ones that it holds."""


def compared(plan: MemoryPlan, measured: MeasuredMemory) -> list[Compared]:
    """A row for each figure that either side has."""
    rows = [
        Compared(what="allocated at the peak", measured_bytes=measured.allocated_bytes, planned_bytes=plan.allocated_bytes),
        Compared(what="reserved", measured_bytes=measured.reserved_bytes, planned_bytes=plan.reserved_bytes),
        Compared(what="in use (nvidia-smi)", measured_bytes=measured.total_bytes, planned_bytes=plan.total_bytes),
        Compared(what="allocated when it was written, beside between steps", measured_bytes=measured.now_allocated_bytes,
                 planned_bytes=plan.resting_bytes),
    ]  # fmt: skip
    for term, size in measured.terms.items():
        planned = [plan.bytes_of(name) for name in PLANNED.get(term, ())]
        rows.append(Compared(what=term, measured_bytes=size, planned_bytes=sum(planned) if planned else None))
    return rows
