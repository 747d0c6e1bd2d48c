"""Simulates a job step by step and sums it up; `simulator.spans` turns the same steps into a Run. Times in ns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
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
from stepscope.simulator.size import refuse_too_much

DEFAULT_STEPS: Final = 4
MOST_RANKS: Final = 64  # of larger jobs so many ranks, evenly spread, and the slowest stand for all in the means
SKIPS_FROM: Final = 1000  # a job that hangs later than that is run from so many steps before it

Progress = Callable[[int, int], None]
"""Called with the steps done and the steps to do."""


@dataclass(slots=True)
class Totals:
    """What the steps come to, without the steps: the slowest rank of each, and sums over the steps of the parts, which are means
    over ranks; and the job of the last of them, whose tokens and memory they are. ns."""

    slowest: list[float] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    last: Job | None = None

    def add(self, step: Step) -> None:
        """Counts a step in."""
        duration = step_ns(step)
        self.last = step.prepared.job
        self.slowest.append(float(duration.max()))
        ranks = _sample(duration)
        for rank in ranks:
            for part, ns in parts_ns(step.prepared.work, step.times, rank).items():
                self.parts[part] += ns / len(ranks)

    def mean(self) -> tuple[dict[str, int], int]:
        """(parts, the step) in whole ns: means over ranks; idle has what they are shorter than the slowest rank."""
        mean = round(float(np.mean(self.slowest)))
        parts = {part: int(total / len(self.slowest)) for part, total in self.parts.items()}
        rest = mean - sum(parts.values())
        parts["idle" if rest >= 0 else max(parts, key=lambda part: parts[part])] += rest
        return parts, mean


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a job: its steps that ended (none where they were not to be kept) and what they come to, and the hang that
    stopped it, with the step in which it did."""

    steps: list[Step]
    totals: Totals
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

    def run(self, keep: bool = True, progress: Progress | None = None) -> Ran:
        """The steps, numbered from 0; of a job that hangs, the last ones before it does. Without `keep` a step is forgotten once
        it is counted, so that many steps take no more memory than one.

        UsageMistake where it hangs in its first step (then there is nothing to compare with), and where it is more than this
        machine can hold.
        """
        schedule = Schedule(self.job, self.faults, self.seed)
        refuse_too_much(self.job, self.steps + 1 if keep or schedule.hang else 1)
        simulation = Simulation(schedule, noise=self.noise, seed=self.seed)
        totals = Totals()
        if schedule.hang is None:
            steps = []
            for step in simulation.steps(self.steps):
                totals.add(step)
                if keep:
                    steps.append(step)
                if progress:
                    progress(step.number + 1, self.steps)
            return Ran(steps, totals)
        fault, draw = schedule.hang
        at = int(fault.amount)
        if at < 1:
            raise UsageMistake(f"{fault.cause}: at_step=0: no step ends before it; give at_step=1 or more")
        first = max(at - max(SKIPS_FROM, self.steps), 0)
        kept: deque[Step] = deque(simulation.steps(at + 1 - first, first=first), maxlen=self.steps + 1)
        hung = kept.pop()
        for step in kept:
            totals.add(step)
        return Ran(list(kept), totals, hang_at(fault, hung, draw), hung)


def summarise(
    job: Job, totals: Totals, faults: Sequence[str] = (), healthy: Prediction | None = None, stopped: str | None = None
) -> Simulated:
    """Means over the steps; the step is that of the slowest rank, the parts are means over ranks, idle so much more."""
    parts, mean = totals.mean()
    return Simulated(
        model=job.workload.model,
        system=job.cluster.name,
        plan=job.workload.plan.text(),
        stack=job.stack.name,
        ranks=job.ranks,
        nodes=job.cluster.nodes,
        mean=summary(totals.last or job, parts, mean),
        steps_ns=tuple(round(ns) for ns in totals.slowest),
        faults=tuple(faults),
        healthy=healthy,
        stopped=stopped,
    )


def _sample(duration: np.ndarray) -> list[int]:
    ranks = len(duration)
    if ranks <= MOST_RANKS:
        return list(range(ranks))
    return sorted({*np.linspace(0, ranks - 1, MOST_RANKS, dtype=int).tolist(), int(duration.argmax())})
