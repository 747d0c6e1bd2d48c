"""What a user asks to have simulated, in their words, and the jobs that follow. Names of the catalog or paths of own files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stepscope.catalog.model import load_model
from stepscope.catalog.stack import DEFAULT_STACK, Stack, load_stack
from stepscope.catalog.system import System, load_system
from stepscope.model.errors import UsageMistake
from stepscope.model.plan import parse_plan
from stepscope.model.prediction import PredictMemory
from stepscope.model.simulated import Change, Point, Simulated
from stepscope.model.workload import Checkpoint, Loader, Workload, parse_checkpoint, parse_loader
from stepscope.simulator import sweep as sweeps
from stepscope.simulator.anchor import anchored
from stepscope.simulator.faults.fault import Fault, parse_fault
from stepscope.simulator.faults.schedule import Schedule
from stepscope.simulator.fit import walk
from stepscope.simulator.job import Job, job_on
from stepscope.simulator.limits import limits
from stepscope.simulator.noise import Noise
from stepscope.simulator.predict import predictor
from stepscope.simulator.simulate import DEFAULT_STEPS, Progress, Ran, Simulator, summarise


@dataclass(frozen=True)
class Request:
    """One `simulate`. `anchor` is a measured healthy step in seconds, `memory` who says what a rank needs (None: nobody)."""

    model: str
    system: str
    plan: str
    stack: str | None = None
    faults: Sequence[str] = ()
    steps: int = DEFAULT_STEPS
    seed: int = 0
    noise: bool = True
    loader: str | None = None
    checkpoint: str | None = None
    anchor: float | None = None
    memory: PredictMemory | None = None

    def the_system(self) -> System:
        """The cluster's description."""
        return load_system(_path_or_name(self.system))

    def workload(self) -> Workload:
        """The model with its plan. UsageMistake for a model without shapes."""
        model = load_model(_path_or_name(self.model))
        if model.shape is None:
            raise UsageMistake(f"{model.name}: has a number of parameters but no shapes; give a model with shapes")
        return Workload(
            model=model.name,
            shape=model.shape,
            plan=parse_plan(self.plan),
            loader=parse_loader(self.loader) if self.loader else Loader(),
            checkpoint=parse_checkpoint(self.checkpoint) if self.checkpoint else Checkpoint(),
        )

    def job(self) -> Job:
        """The healthy job, its stack stretched to the anchor where there is one."""
        job = job_on(self.the_system(), self.workload(), self.the_stack(), self.memory)
        return job if self.anchor is None else replace(job, stack=anchored(job, self.anchor * 1e9))

    def the_faults(self) -> tuple[Fault, ...]:
        """The faults, as far as words can be checked without the job."""
        return tuple(parse_fault(text) for text in self.faults)

    def run(self, keep: bool = True, progress: Progress | None = None) -> tuple[Ran, Simulated]:
        """The job's steps on all ranks (none without `keep`), and what they come to."""
        job = self.job()
        noise = Noise() if self.noise else Noise.none()
        ran = Simulator(job, self.the_faults(), self.steps, self.seed, noise).run(keep, progress)
        healthy = None
        if self.faults:
            healthy = summarise(job, Simulator(job, (), self.steps, self.seed, noise).run(keep=False).totals).mean
        return ran, replace(summarise(job, ran.totals, self.faults, healthy, ran.stopped), notes=tuple(self._notes(job)))

    def _notes(self, job: Job) -> Iterator[str]:
        """What a reader might miss: the anchor's factor, faults and saves that come in none of the steps, what limits compute."""
        if self.anchor is not None:
            yield f"anchored: compute_factor = {job.stack.compute_factor:.4g} in the stack {job.stack.name}"
        schedule = Schedule(job, self.the_faults(), self.seed)
        hit = {str(fault) for step in range(self.steps) for fault in schedule.active(step)}
        for fault in schedule.faults:
            if not fault.hangs and str(fault) not in hit:
                yield f"{fault.cause} comes in none of these {self.steps} steps; run more with --steps"
        every = job.workload.checkpoint.every
        if self.checkpoint and (not every or every > self.steps):
            why = "every=N is not given" if not every else f"the first comes with step {every - 1}"
            yield f"no checkpoint in these {self.steps} steps: {why}"
        yield limits(job)

    def fitted(self) -> list[Change]:
        """The walk to a plan that fits."""
        return walk(self.job(), self.the_system())

    def with_plan(self, plan: str) -> Request:
        """The same with another plan."""
        return replace(self, plan=plan)

    def sweep_plans(self, text: str) -> list[str]:
        """The plans of a sweep, `fsdp=8,16,32`."""
        key, values = sweeps.parse_sweep(text)
        return sweeps.plans(self.plan, key, values)

    def sweep(self, tried: Sequence[str]) -> Iterator[Point]:
        """A point per plan, without noise; with faults, beside the healthy job."""
        if self.faults:
            yield from map(self._weak_point, tried)
            return
        first = next(replace(self, plan=text) for text in tried if sweeps.parses(text))
        stack = first.job().stack if self.anchor is not None else self.the_stack()
        yield from sweeps.sweep(first.workload(), tried, predictor(self.the_system(), stack, self.memory))

    def _weak_point(self, text: str) -> Point:
        try:
            _, result = replace(self, plan=text, noise=False).run(keep=False)
        except UsageMistake as error:
            return sweeps.refused(text, error)
        return Point(text, result.ranks, result.mean, healthy=result.healthy)

    def the_stack(self) -> Stack:
        """The software."""
        return load_stack(_path_or_name(DEFAULT_STACK if self.stack is None else self.stack))


def _path_or_name(text: str) -> str | Path:
    return Path(text) if "/" in text or text.endswith(".toml") else text
