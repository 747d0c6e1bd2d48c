"""When is a fault there, and what is the job then? What every fault of the layers is made of.

A fault that comes now and then is drawn from the seed: of each `every` steps of its window, in one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stepscope.simulator.faults.fault import Fault
from stepscope.simulator.job import Job

Drawn = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Draw:
    """Where chance is asked: the seed of the run and the number of the fault in it."""

    seed: int
    number: int

    def of(self, block: int) -> np.random.Generator:
        """The dice of one block of steps: always the same."""
        return np.random.default_rng([self.seed, self.number, 3, block])


@dataclass(frozen=True, slots=True)
class Now:
    """What was drawn for this step, and the job without any fault."""

    healthy: Job
    drawn: Drawn = 0


Apply = Callable[[Job, Fault, Now], Job]
When = Callable[[Fault, Job, int, Draw], Drawn | None]
"""What is drawn in an active step of the fault: None where the fault is not there; equal values mean equal jobs."""


def always(fault: Fault, job: Job, step: int, draw: Draw) -> Drawn | None:
    """In every step alike."""
    return 0


def once_in(every: int, variants: int = 1) -> When:
    """In one of so many steps, in one of so many variants."""

    def when(fault: Fault, job: Job, step: int, draw: Draw) -> Drawn | None:
        block, inside = divmod(step - fault.first_step, every)
        dice = draw.of(block)
        chosen, variant = int(dice.integers(every)), int(dice.integers(variants))
        return variant if inside == chosen else None

    return when


@dataclass(frozen=True, slots=True)
class Effect:
    """`apply` makes the job of a step with the fault. `rewires`: it changes how nodes are wired, so it goes first."""

    apply: Apply
    when: When = always
    rewires: bool = False
