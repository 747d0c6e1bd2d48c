"""Which rank, step and unit do the hops tell of? What the caller wants, else the lowest rank, its last complete step, the
middle unit. What is not there is refused in one line that names what is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepscope.analysis.breakdown import steps_of
from stepscope.analysis.units import unit_order
from stepscope.model.errors import BadInput, UsageMistake
from stepscope.model.info import Step
from stepscope.model.run import Run

ROOT: Final = "root"
NAMED: Final = 8  # numbers or names that a message lists


def chosen_rank(run: Run, rank: int | None) -> int:
    """That rank, or the lowest. Raises UsageMistake where it is not there, BadInput for a run without ranks."""
    ranks = sorted(run.ranks)
    if not ranks:
        raise BadInput("the run holds no rank, so there is no step to follow; import traces of at least one rank")
    if rank is not None and rank not in ranks:
        raise UsageMistake(f"no rank {rank} in this run; it has {_numbers(ranks)}")
    return ranks[0] if rank is None else rank


def chosen_step(run: Run, rank: int, step: int | None) -> Step:
    """That step of the rank, or its last complete one (the last of all where none is complete)."""
    steps = steps_of(run.info.rank(rank))
    if not steps:
        raise BadInput(f"rank {rank} recorded no step, so there is nothing to follow; record a step, or choose another rank")
    if step is None:
        return ([s for s in steps if s.complete] or steps)[-1]
    found = next((s for s in steps if s.step == step), None)
    if found is None:
        raise UsageMistake(f"no step {step} on rank {rank}; it has {_numbers(sorted(s.step for s in steps))}")
    return found


def chosen_unit(units: Sequence[str], communicating: Sequence[str], unit: str | None, step: Step, rank: int) -> str | None:
    """That unit, or the middle one of those that communicate, the root left out; None where there are none."""
    if unit is not None:
        if unit not in units:
            has = _names(units) if units else "none: leave --unit away for the whole step"
            raise UsageMistake(f"no unit {unit[:80]} in step {step.step} of rank {rank}; it has {has}")
        return unit
    candidates = communicating or units
    inner = [u for u in candidates if u != ROOT] or candidates
    return inner[len(inner) // 2] if inner else None


def in_order(units: Sequence[str]) -> tuple[str, ...]:
    """By their numbers, the root last."""
    return tuple(sorted(set(units), key=lambda u: (u == ROOT, unit_order(u))))


def _numbers(numbers: Sequence[int]) -> str:
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return _names([str(n) for n in numbers])


def _names(names: Sequence[str]) -> str:
    if len(names) <= NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: NAMED - 1])} and {len(names) - NAMED + 1:,} more, the last {names[-1]}"
