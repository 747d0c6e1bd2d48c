"""How long will a step take, without noise, and where does it go? One rank stands for all where all are alike. Times in ns."""

from __future__ import annotations

import msgspec

from stepscope.catalog.stack import Stack, load_stack
from stepscope.catalog.system import System
from stepscope.model.cluster import Cluster
from stepscope.model.flops import CONVENTIONS, flops_per_token
from stepscope.model.prediction import Prediction, PredictMemory
from stepscope.model.words import PARTS
from stepscope.model.workload import Workload
from stepscope.simulator.account import exposed_ns, parts_ns
from stepscope.simulator.job import Job, check, job_on
from stepscope.simulator.simulation import Simulation, Step, step_ns

LONGEST = 3  # micro-batches that are simulated; further ones repeat the last


def predict(job: Job) -> Prediction:
    """The step of a healthy job, or of one whose faults are alike on all its ranks; of several kinds of ranks see `simulate`."""
    many = job.workload.plan.ga
    if many <= LONGEST:
        return _prediction(job, _last(job))
    parts = [_parts(_with_accumulation(job, n)) for n in (LONGEST - 1, LONGEST)]
    more = {part: parts[1][part] - parts[0][part] for part in PARTS}
    total = {part: max(parts[1][part] + (many - LONGEST) * more[part], 0) for part in PARTS}
    return summary(job, total)


def predictor(system: System, stack: Stack | None = None, memory: PredictMemory | None = None) -> Predictor:
    """Something that predicts steps on clusters of that system: what planner, diagnosis and lab are handed."""
    return Predictor(system, load_stack() if stack is None else stack, memory)


class Predictor:
    """Implements `model.prediction.PredictStep` for one system and one software stack."""

    def __init__(self, system: System, stack: Stack, memory: PredictMemory | None = None) -> None:
        self.system, self.stack, self.memory = system, stack, memory

    def __call__(self, workload: Workload, cluster: Cluster | None = None) -> Prediction:
        """The step of a workload on a cluster of the system (by default as many nodes as it needs). UsageMistake for a plan
        that cannot be."""
        check(workload)
        job = job_on(self.system, workload, self.stack, self.memory)
        return predict(job if cluster is None else _on(job, cluster))


def summary(job: Job, parts: dict[str, int], duration_ns: int | None = None) -> Prediction:
    """A prediction from the parts of a step."""
    took = sum(parts.values()) if duration_ns is None else duration_ns
    tokens, ranks = job.workload.tokens, job.ranks
    rate = tokens / took * 1e9 / ranks if took else 0.0
    memory = None if job.memory is None else job.memory(job.workload, job.cluster).total_bytes
    return Prediction(
        step_ns=took,
        parts_ns=parts,
        exposed_ns=exposed_ns(parts),
        tokens=tokens,
        tokens_per_s_per_gpu=rate,
        mfu=mfu(job, rate),
        memory_bytes=memory,
        capacity_bytes=job.gpu.memory_bytes,
    )


def mfu(job: Job, tokens_per_s_per_gpu: float) -> dict[str, float | None]:
    """Share of the GPU's peak that the model's FLOPs make up, by convention."""
    peak, plan = peak_of(job), job.workload.plan
    flops = flops_per_token(job.workload.shape, job.workload.seq, plan.ac, peak)
    return {n: (tokens_per_s_per_gpu * flops.model_flops(n) / peak if peak else None) for n in CONVENTIONS}


def peak_of(job: Job) -> float | None:
    """Dense peak of the precision in FLOP/s; for fp8 that of bf16, as MFU is quoted (attention and logits stay in bf16)."""
    precision = job.workload.plan.precision
    return job.gpu.peak_flops("bf16" if precision.startswith("fp8") else precision)  # type: ignore[arg-type]  # a word of PRECISIONS


def _prediction(job: Job, step: Step) -> Prediction:
    parts = parts_ns(step.prepared.work, step.times)
    return summary(job, parts, round(float(step_ns(step)[0])))


def _parts(job: Job) -> dict[str, int]:
    step = _last(job)
    return parts_ns(step.prepared.work, step.times)


def _last(job: Job) -> Step:
    return list(Simulation(lambda _: job, width=1).steps(1))[-1]


def _with_accumulation(job: Job, many: int) -> Job:
    from dataclasses import replace

    workload = job.workload
    plan = msgspec.structs.replace(workload.plan, ga=many)
    return replace(job, workload=msgspec.structs.replace(workload, plan=plan))


def _on(job: Job, cluster: Cluster) -> Job:
    from dataclasses import replace

    return replace(job, cluster=cluster)
