"""What holds the kernels of a healthy rank back: products, attention, or the bytes of everything between them?"""

from __future__ import annotations

from typing import Final

from stepscope.simulator.job import Job
from stepscope.simulator.kernel_costs import kernels_of
from stepscope.simulator.programs.units import units_of

KINDS: Final = {
    "matrix products": ("gemm",),
    "attention": ("attention",),
    "memory-bound kernels": ("norm", "elementwise", "copy", "loss", "optimizer"),
}


def limits(job: Job) -> str:
    """In words: what share of a healthy rank's kernel time each kind has, and what of the peak its products reach."""
    plan, shape = job.workload.plan, job.workload.shape
    kernels = kernels_of(job, units_of(shape, plan)).plain
    many = plan.ga
    segments = [
        (kernels.layer_forward, shape.layers * many),
        (kernels.layer_backward, shape.layers * many),
        (kernels.embedding_forward, many),
        (kernels.head_forward, many),
        (kernels.head_backward, many),
        (kernels.embedding_backward, many),
        (kernels.optimizer, 1),
        (kernels.clip, 1),
    ]
    spent = {name: sum(segment.part(kinds) * times for segment, times in segments) for name, kinds in KINDS.items()}
    whole = sum(spent.values()) or 1.0
    said = ", ".join(f"{name} {100 * ns / whole:.0f} %" for name, ns in spent.items())
    flops = sum(
        int(segment.flops[[kind == "gemm" for kind in segment.kind]].sum()) * times
        for segment, times in segments
        if len(segment.kind)
    )
    peak = job.gpu.peak_flops("fp8" if plan.precision.startswith("fp8") else plan.precision)  # type: ignore[arg-type]  # a word of PRECISIONS
    reached = ""
    if peak and spent["matrix products"]:
        reached = f"; products at {100 * flops / spent['matrix products'] * 1e9 / peak:.0f} % of the peak"
    return f"kernels of a healthy rank: {said}{reached}"
