"""Does a rank's share fit? A simple sum: states, the units that are gathered, activations, the loss head, a context. Bytes.

Terms as in the usual hand calculation (Rajbhandari et al. 2020 for states, Korthikanti et al. 2022 for activations); what an
allocator rounds and fragments is not in it, so it is a lower bound by several percent.
"""

from __future__ import annotations

from typing import Final

from stepscope.simulator.job import Job
from stepscope.simulator.kernel_costs import gathered_bytes
from stepscope.simulator.programs.units import units_of

MASTER: Final = 4  # fp32 weights, which the optimizer updates
MOMENTS: Final = {"adamw": 8, "adam8bit": 2, "sgd": 4}
CONTEXT: Final = 1 << 30  # CUDA context and NCCL buffers, together about a gibibyte
UNITS_GATHERED: Final = 2  # the one that computes and the one beside it
LAYER_BYTES: Final = 34  # per token and hidden, 16-bit activations of a layer with fused attention (Korthikanti et al. 2022)
SELECTIVE_BYTES: Final = 20  # half of the products' outputs dropped
FULL_BYTES: Final = 2  # the input of each layer alone
LOGIT_BYTES: Final = 10  # 16-bit logits, their fp32 copy and its gradient
FUSED_LOGIT_BYTES: Final = 4


def memory_of(job: Job) -> int:
    """Peak of one rank (ranks are alike) in bytes."""
    workload, plan = job.workload, job.workload.plan
    shape = workload.shape
    units = units_of(shape, plan)
    shards = plan.shard if plan.strategy in ("fsdp", "hsdp") else 1
    gathered = gathered_bytes(plan)
    moments = MOMENTS[plan.optimizer] / (plan.data_ranks if plan.strategy == "zero1" else shards)
    states = units.parameters * ((MASTER + 4) / shards + moments)
    if shards > 1:
        kept = units.parameters if not plan.reshard else 0
        largest = max((unit.parameters for unit in units.layers), default=0)
        states += gathered * (units.root.parameters + max(UNITS_GATHERED * largest, kept)) + 4 * (largest + units.root.parameters)
        if plan.ga > 1 and plan.sync == "last":
            states += 4 * units.parameters  # gradients that are not reduced yet are whole
    elif gathered == 2:
        states += gathered * units.parameters
    tokens = plan.mbs * workload.seq / plan.tp
    each = {"none": LAYER_BYTES, "selective": SELECTIVE_BYTES, "full": FULL_BYTES}[plan.ac]
    activations = tokens * shape.hidden * each * shape.layers
    if plan.ac == "none" and job.stack.attention.kernel == "unfused":
        activations += 5 * shape.layers * shape.heads * plan.mbs * workload.seq**2 / plan.tp  # scores, softmax, dropout mask
    if plan.ac != "none":
        activations += tokens * shape.hidden * LAYER_BYTES
    logit = LOGIT_BYTES if job.stack.loss.head == "eager" else FUSED_LOGIT_BYTES
    return round(states + activations + tokens * shape.vocab * logit + CONTEXT)
