"""What is the job in each step, now that faults come and go? For `Simulation`: equal faults give the same job object.

Faults that change how nodes are wired go first, then the others in the order in which they were given. Hangs change no job; they
are asked for by `hang`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepscope.simulator.faults import application, fabric, framework, gpu, interconnect, kernels, nccl, storage, transport
from stepscope.simulator.faults.effect import Draw, Drawn, Effect, Now
from stepscope.simulator.faults.fault import Fault, settled
from stepscope.simulator.job import Job

EFFECTS: Final[dict[str, Effect]] = {
    **storage.EFFECTS,
    **application.EFFECTS,
    **framework.EFFECTS,
    **kernels.EFFECTS,
    **nccl.EFFECTS,
    **transport.EFFECTS,
    **fabric.EFFECTS,
    **interconnect.EFFECTS,
    **gpu.EFFECTS,
}
"""What each cause does that slows a job."""


class Schedule:
    """A job and its faults, step by step. UsageMistake at once for a fault that this job cannot have."""

    def __init__(self, job: Job, faults: Sequence[Fault] = (), seed: int = 0) -> None:
        self.healthy = job
        self.faults = tuple(settled(fault, job) for fault in faults)
        self._draws = tuple(Draw(seed, number) for number in range(len(self.faults)))
        slowing = [k for k, fault in enumerate(self.faults) if not fault.hangs]
        self._order = sorted(slowing, key=lambda k: not EFFECTS[self.faults[k].cause].rewires)
        self._jobs: dict[tuple[tuple[int, Drawn], ...], Job] = {(): job}
        for k in self._order:
            self._first(k)

    @property
    def hang(self) -> tuple[Fault, Draw] | None:
        """The first fault that stops the job, and its dice; None where none does."""
        stops = [(int(f.amount), k) for k, f in enumerate(self.faults) if f.hangs]
        return None if not stops else (self.faults[min(stops)[1]], self._draws[min(stops)[1]])

    def active(self, step: int) -> tuple[Fault, ...]:
        """Faults that are there in that step, pauses only in the steps that they hit."""
        return tuple(self.faults[k] for k, _ in self._drawn(step))

    def __call__(self, step: int) -> Job:
        """The job as it is in that step."""
        key = self._drawn(step)
        if key not in self._jobs:
            job = self.healthy
            for k, drawn in key:
                fault = self.faults[k]
                job = EFFECTS[fault.cause].apply(job, fault, Now(self.healthy, drawn))
            self._jobs[key] = job
        return self._jobs[key]

    def _drawn(self, step: int) -> tuple[tuple[int, Drawn], ...]:
        found = []
        for k in self._order:
            fault = self.faults[k]
            drawn = EFFECTS[fault.cause].when(fault, self.healthy, step, self._draws[k]) if fault.active(step) else None
            if drawn is not None:
                found.append((k, drawn))
        return tuple(found)

    def _first(self, k: int) -> None:
        """Has the fault applied once, so that what cannot be is said before anything runs."""
        fault, effect = self.faults[k], EFFECTS[self.faults[k].cause]
        drawn = next((d for step in range(fault.first_step, fault.first_step + 1000)
                      if (d := effect.when(fault, self.healthy, step, self._draws[k])) is not None), 0)  # fmt: skip
        effect.apply(self.healthy, fault, Now(self.healthy, drawn))
