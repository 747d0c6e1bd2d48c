"""Runs a job step after step: what changes between steps, what one leaves to the next, what varies. Times in ns from 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from stepscope.model.errors import UsageMistake
from stepscope.simulator.costs import Prepared, prepare, queue_costs
from stepscope.simulator.engine import State, StepTimes, run_step
from stepscope.simulator.job import Job
from stepscope.simulator.loader import Queue
from stepscope.simulator.noise import Noise, factors, paces
from stepscope.simulator.program import STREAMS

WARM_UP = 2  # steps until loader and streams are in their stride
LONGEST_NS = 1 << 61  # 73 years: int64 ns, which Runs hold, still have room behind it

JobAt = Callable[[int], Job]
"""The job as it is in a step: faults come and go."""


@dataclass(frozen=True, slots=True)
class Step:
    """One simulated step: its number, what ran, when."""

    number: int
    prepared: Prepared
    times: StepTimes


class Simulation:
    """A job under way. `width` ranks are computed (None: all)."""

    def __init__(self, job_at: JobAt, *, width: int | None = None, noise: Noise | None = None, seed: int = 0) -> None:
        self._job_at = job_at
        self._first = job_at(0)
        self._width = self._first.ranks if width is None else width
        self._noise = Noise.none() if noise is None else noise
        self._seed = seed
        self._state = State.fresh(self._width, len(STREAMS))
        self._queue = Queue(self._first.workload.loader, self._width, queue_costs(self._first)[0])
        self._prepared: dict[tuple[int, bool], Prepared] = {}

    def steps(self, count: int, warm_up: int = WARM_UP, first: int = 0) -> Iterator[Step]:
        """Runs `warm_up` steps, then yields `count`, numbered from `first`; that one has the faults of its number.

        UsageMistake where they take longer than can be counted.
        """
        for number in range(first - warm_up, first + count):
            step = self._step(number, max(number, first))
            if number >= first:
                yield step

    def _step(self, number: int, as_if: int) -> Step:
        job = self._job_at(as_if)
        every = job.workload.checkpoint.every
        ready = self._ready(job, bool(every) and number >= 0 and (number + 1) % every == 0)
        made, late = queue_costs(job)
        pace, fetch = paces(self._noise, self._width, self._seed, number + WARM_UP)
        self._queue.fetch_ns, self._queue.delay_ns = made * fetch, late
        ready.work.host_pace = job.conditions.host_pace * pace
        jitter = factors(self._noise, ready.work.codes, self._width, self._seed, number + WARM_UP)
        times = run_step(ready.work, self._state, jitter)
        if not times.host_end.max() < LONGEST_NS:  # false for nan too
            raise UsageMistake(
                "plan: its steps take more than 73 years; give a smaller mbs, seq or ga, or mend the rates of a file"
            )
        return Step(number, ready, times)

    def _ready(self, job: Job, save: bool) -> Prepared:
        key = (id(job), save)
        if key not in self._prepared:
            known = self._prepared.values()
            kernels = next((p.kernels for p in known if _computes_alike(p.job, job)), None)
            collectives = next((p.collectives for p in known if _talks_alike(p.job, job)), None)
            self._prepared[key] = prepare(
                job, self._queue, width=self._width, save=save, kernels=kernels, collectives=collectives
            )
        return self._prepared[key]


def _computes_alike(a: Job, b: Job) -> bool:
    """Whether two jobs launch the same kernels. What is the same object is alike; what is merely equal is made again."""
    same = (a.workload is b.workload, a.gpu is b.gpu, a.stack is b.stack, a.efficiency is b.efficiency)
    return all(same) and a.conditions.blends is b.conditions.blends


def _talks_alike(a: Job, b: Job) -> bool:
    """Whether two jobs' collectives take the same times."""
    return a.cluster is b.cluster and a.gpu is b.gpu and a.nccl is b.nccl and a.ranks == b.ranks and a.transport is b.transport


def step_ns(step: Step) -> np.ndarray:
    """The host's duration of a step on each rank."""
    duration: np.ndarray = step.times.host_end - step.times.host_start
    return duration
