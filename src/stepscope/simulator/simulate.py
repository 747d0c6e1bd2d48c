"""Simulates a job step by step and sums it up; `simulator.spans` turns the same steps into a Run. Times in ns."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from stepscope.model.errors import UsageMistake
from stepscope.model.prediction import Prediction
from stepscope.model.simulated import Simulated
from stepscope.model.words import PARTS
from stepscope.simulator.account import parts_ns
from stepscope.simulator.faults.fault import Fault
from stepscope.simulator.faults.hang import Hang, hang_at, sentence
from stepscope.simulator.faults.schedule import Schedule
from stepscope.simulator.job import Job
from stepscope.simulator.noise import Noise
from stepscope.simulator.predict import summary
from stepscope.simulator.simulation import Simulation, Step, step_ns

DEFAULT_STEPS: Final = 4
MOST_RANKS: Final = 64  # of larger jobs so many ranks, evenly spread, and the slowest stand for all in the means


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a job: the steps that ended, and the hang that stopped it, with the step in which it did."""

    steps: list[Step]
    hang: Hang | None = None
    hung: Step | None = None

    @property
    def stopped(self) -> str | None:
        """Why the job did not go on, in words."""
        return None if self.hang is None or self.hung is None else sentence(self.hang, self.hung)


@dataclass(frozen=True, slots=True)
class Simulator:
    """One job with its faults, ready to run."""

    job: Job
    faults: tuple[Fault, ...] = ()
    steps: int = DEFAULT_STEPS
    seed: int = 0
    noise: Noise = field(default_factory=Noise)

    def run(self) -> Ran:
        """The steps, numbered from 0; of a job that hangs, the last ones before it does.

        UsageMistake where it hangs in its first step: then there is nothing to compare with.
        """
        schedule = Schedule(self.job, self.faults, self.seed)
        simulation = Simulation(schedule, noise=self.noise, seed=self.seed)
        if schedule.hang is None:
            return Ran(list(simulation.steps(self.steps)))
        fault, draw = schedule.hang
        at = int(fault.amount)
        if at < 1:
            raise UsageMistake(f"{fault.cause}: at_step=0: no step ends before it; give at_step=1 or more")
        kept: deque[Step] = deque(simulation.steps(at + 1), maxlen=self.steps + 1)
        hung = kept.pop()
        return Ran(list(kept), hang_at(fault, hung, draw), hung)


def summarise(
    job: Job, steps: Sequence[Step], faults: Sequence[str] = (), healthy: Prediction | None = None, stopped: str | None = None
) -> Simulated:
    """Means over the steps; the step is that of the slowest rank, the parts are means over ranks scaled to it."""
    durations = [step_ns(step) for step in steps]
    slowest = [float(d.max()) for d in durations]
    totals = dict.fromkeys(PARTS, 0.0)
    count = 0
    for step, duration in zip(steps, durations, strict=True):
        for rank in _sample(duration):
            for part, ns in parts_ns(step.prepared.work, step.times, rank).items():
                totals[part] += ns
            count += 1
    mean = round(float(np.mean(slowest)))
    parts = {part: round(total / count) for part, total in totals.items()}
    parts["idle"] += mean - sum(parts.values())
    return Simulated(
        model=job.workload.model,
        system=job.cluster.name,
        plan=job.workload.plan.text(),
        stack=job.stack.name,
        ranks=job.ranks,
        nodes=job.cluster.nodes,
        mean=summary(job, parts, mean),
        steps_ns=tuple(round(ns) for ns in slowest),
        faults=tuple(faults),
        healthy=healthy,
        stopped=stopped,
    )


def _sample(duration: np.ndarray) -> list[int]:
    ranks = len(duration)
    if ranks <= MOST_RANKS:
        return list(range(ranks))
    return sorted({*np.linspace(0, ranks - 1, MOST_RANKS, dtype=int).tolist(), int(duration.argmax())})
