"""What do the computations of a program take on each rank? ns by the keys of `programs`, from the kernels of L4.

Ranks that run some layers on other software or in another precision get a blend of both times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.model.plan import Plan
from stepscope.simulator.conditions import Blend, PerRank
from stepscope.simulator.kernels.compute import StepKernels, step_kernels
from stepscope.simulator.kernels.segment import Segment
from stepscope.simulator.programs.units import Units

if TYPE_CHECKING:
    from stepscope.simulator.job import Job

BOTH_WAYS: Final = 2  # a copy reads and writes
STATE_BYTES: Final = 16  # two fp32 moments of a parameter, in and out
GATHERED_BYTES: Final = {"fp32": 4, "tf32": 4}
NORM_SHARE: Final = 1 / 3  # of clipping's passes over the gradients one is the norm's


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels of a job: as planned, and each blend's."""

    plain: StepKernels
    blends: tuple[tuple[Blend, StepKernels], ...]


def gathered_bytes(plan: Plan) -> int:
    """Bytes of one parameter when it is gathered."""
    return GATHERED_BYTES.get(plan.precision, 2)


def optimizer_parameters(plan: Plan, units: Units) -> int:
    """Parameters that one rank updates."""
    shards = {"fsdp": plan.shard, "hsdp": plan.shard, "ddp": 1, "zero1": plan.data_ranks}[plan.strategy]
    return -(-units.parameters // shards)


def kernels_of(job: Job, units: Units) -> Kernels:
    """Kernels of the job as planned and of each of its blends."""
    plan = job.workload.plan

    def made(blend: Blend | None) -> StepKernels:
        return step_kernels(
            job.workload.shape,
            micro_batch=plan.mbs,
            seq=job.workload.seq,
            gpu=job.gpu,
            stack=(blend and blend.stack) or job.stack,
            parameters=optimizer_parameters(plan, units),
            tp=plan.tp,
            ac=plan.ac,
            precision=(blend and blend.precision) or plan.precision,
            efficiency=(blend and blend.efficiency) or job.efficiency,
        )

    return Kernels(made(None), tuple((blend, made(blend)) for blend in job.conditions.blends))


def segment_of(kernels: StepKernels, name: str) -> Segment:
    """The segment behind a name such as `layer.forward`, `optimizer`."""
    attribute = name.replace(".", "_")
    segment: Segment = getattr(kernels, {"norm": "clip"}.get(attribute, attribute))
    return segment


def compute_ns(job: Job, kernels: Kernels, key: str) -> tuple[PerRank, float, float]:
    """(ns on the device, ns to issue, ns of the last kernel) of a computation by its key, `layer.forward@0.5`."""
    name, _, share_text = key.partition("@")
    share = float(share_text or 1)
    half, _, pass_ = name.partition(".")
    if half in ("attention", "mlp"):
        name = f"layer.{pass_}"
        inner = attention_share(kernels.plain)
        share *= inner if half == "attention" else 1 - inner
    if name in ("norm", "clip"):
        share = NORM_SHARE if name == "norm" else 1 - NORM_SHARE
    conditions = job.conditions
    plain = segment_of(kernels.plain, name)
    ns: PerRank = plain.total_ns(conditions.clock, conditions.hbm)
    host_ns = plain.host_ns
    for blend, other in kernels.blends:
        others = segment_of(other, name)
        more = others.total_ns(conditions.clock, conditions.hbm) - plain.total_ns(conditions.clock, conditions.hbm)
        if np.ndim(blend.share):  # the host's part of some ranks alone: what their devices wait for it
            more = more + max(0.0, others.host_ns - float(np.max(others.total_ns())))
        else:
            host_ns += float(blend.share) * (others.host_ns - plain.host_ns)
        ns = ns + blend.share * more
    if name == "optimizer":
        ns = ns + conditions.offloaded * _paging_ns(job) / conditions.slot
    elif name not in ("norm", "clip"):
        ns = ns * conditions.load
    launch = 1.0 if conditions.launch_us is None else conditions.launch_us / max(job.stack.host.launch_us, 1e-3)
    last = float(plain.ns()[-1] / plain.kernels[-1]) if len(plain.op) else 0.0
    value = ns * share
    return (float(value) if np.ndim(value) == 0 else value), host_ns * share * launch, last


def attention_share(kernels: StepKernels) -> float:
    """Share of a layer's forward that lies before its second norm: attention, the rest is the MLP."""
    segment = kernels.layer_forward
    norms = [k for k, kind in enumerate(segment.kind) if kind == "norm"]
    ns = segment.ns()
    return float(ns[: norms[1]].sum() / ns.sum()) if len(norms) > 1 else 0.5


def copy_ns(job: Job, nbytes: float) -> float:
    """A copy of so many bytes within device memory."""
    return BOTH_WAYS * nbytes / (job.gpu.memory_bytes_per_s * job.efficiency.memory) * 1e9


def _paging_ns(job: Job) -> float:
    """Optimizer state of one rank fetched from host memory and put back, over the GPU's slot."""
    from stepscope.simulator.programs.units import units_of

    plan = job.workload.plan
    parameters = optimizer_parameters(plan, units_of(job.workload.shape, plan))
    return parameters * STATE_BYTES / job.cluster.node.pcie_bytes_per_s * 1e9
