"""Where a simulated job goes: into a Run folder, and into the files that real tools would have left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.model.errors import UsageMistake
from stepscope.model.spans import Rules
from stepscope.model.store import Staging
from stepscope.simulator.job import Job
from stepscope.simulator.simulation import Step
from stepscope.simulator.spans.run import Progress, write_run

if TYPE_CHECKING:
    from stepscope.simulator.request import Request


def keep_run(
    out: Path,
    nominal: Job,
    steps: Sequence[Step],
    rules: Rules,
    force: bool = False,
    ranks: Sequence[int] | None = None,
    whole_units: bool = False,
    progress: Progress | None = None,
) -> None:
    """Writes the Run at once or not at all. UsageMistake for a rank that is not there, OutputRefused for an output that is."""
    chosen = _checked(steps, ranks)
    with Staging(out, force) as staging:
        write_run(staging.folder, steps, nominal=nominal, rules=rules, ranks=chosen, whole_units=whole_units, progress=progress)
        staging.commit()


def emit_steps(
    out: Path, request: Request, steps: Sequence[Step], force: bool, ranks: Sequence[int] | None, progress: Progress | None
) -> None:
    """Writes the foreign files of these ranks, and the truth beside them."""
    from stepscope.simulator.emit.all import emit

    emit(out, steps, request, ranks=_checked(steps, ranks), force=force, progress=progress)


def _checked(steps: Sequence[Step], ranks: Sequence[int] | None) -> Sequence[int] | None:
    world = steps[0].prepared.job.ranks
    if ranks is not None and (not ranks or max(ranks) >= world):
        raise UsageMistake(f"--ranks: the job has ranks 0 to {world - 1}; name some of those")
    return ranks
