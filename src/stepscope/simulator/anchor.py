"""One measured step calibrates a software stack that nobody knows: how much slower or faster than the model are its kernels?"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from stepscope.catalog.stack import Stack
from stepscope.model.errors import UsageMistake
from stepscope.simulator.job import Job
from stepscope.simulator.predict import predict

LOWEST: Final = 0.2
HIGHEST: Final = 10.0  # the bounds of `compute_factor`
ROUNDS: Final = 40
CLOSE: Final = 1e-4


def anchored(job: Job, measured_ns: float) -> Stack:
    """The job's stack with the `compute_factor` at which its step takes what was measured.

    UsageMistake where no factor does: the step is shorter than its communication, or longer than ten times the model's.
    """

    def took(factor: float) -> float:
        return predict(replace(job, stack=_stretched(job.stack, factor))).step_ns

    low, high = LOWEST, HIGHEST
    shortest, longest = took(low), took(high)
    if not shortest <= measured_ns <= longest:
        raise UsageMistake(
            f"anchor: {measured_ns / 1e9:.4g} s: no stack of this model makes that step (it takes {shortest / 1e9:.4g} "
            f"to {longest / 1e9:.4g} s); check the plan, or the seconds"
        )
    for _ in range(ROUNDS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if took(middle) < measured_ns else (low, middle)
        if high / low < 1 + CLOSE:
            break
    return _stretched(job.stack, (low * high) ** 0.5)


def _stretched(stack: Stack, factor: float) -> Stack:
    return msgspec.structs.replace(stack, compute_factor=factor)
