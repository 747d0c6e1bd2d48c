"""Where a simulated job goes: into a Run folder, and into the files that real tools would have left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from stepscope.model.errors import UsageMistake
from stepscope.model.info import Gap
from stepscope.model.spans import Rules
from stepscope.model.store import Staging
from stepscope.simulator.job import Job
from stepscope.simulator.signals import signals_of
from stepscope.simulator.simulate import Ran
from stepscope.simulator.spans.run import Progress, write_run

if TYPE_CHECKING:
    from stepscope.simulator.request import Request


def keep_run(
    out: Path,
    nominal: Job,
    ran: Ran,
    rules: Rules,
    force: bool = False,
    ranks: Sequence[int] | None = None,
    whole_units: bool = False,
    progress: Progress | None = None,
) -> None:
    """Writes the Run at once or not at all. UsageMistake for a rank that is not there, OutputRefused for an output that is."""
    chosen = _checked(ran, ranks)
    with Staging(out, force) as staging:
        write_run(
            staging.folder, ran.steps, nominal=nominal, rules=rules, ranks=chosen, whole_units=whole_units,
            signals=_signals(ran), standing=standing(ran), progress=progress,
        )  # fmt: skip
        staging.commit()


def emit_steps(
    out: Path, request: Request, ran: Ran, force: bool, ranks: Sequence[int] | None, progress: Progress | None
) -> None:
    """Writes the foreign files of these ranks, and the truth beside them."""
    from stepscope.simulator.emit.all import emit

    emit(out, ran, request, ranks=_checked(ran, ranks), force=force, progress=progress)


def _signals(ran: Ran) -> pl.DataFrame:
    """What instruments saw of the steps, and of the one that did not end."""
    return signals_of([*ran.steps, ran.hung] if ran.hung is not None else ran.steps, ran.hang)


def standing(ran: Ran) -> list[Gap]:
    """What each rank of a job that hangs is seen to stand in, as a look at its stacks and its collectives would tell."""
    if ran.hang is None or ran.hung is None:
        return []
    ops = ran.hung.prepared.work.program.ops
    found: dict[str, list[int]] = {}
    for rank, (current, begun, gone) in enumerate(zip(ran.hang.current, ran.hang.begun, ran.hang.gone, strict=True)):
        if gone:
            said = "the process is no more"
        elif current < 0:
            said = "nothing is under way on the device"
        else:
            op = ops[int(current)]
            said = f"{op.name}{f' of {op.unit}' if op.unit else ''} {'has begun' if begun else 'is issued'} and does not end"
        found.setdefault(said, []).append(rank)
    return [Gap(f"step {ran.hung.number} did not end", tuple(ranks), said) for said, ranks in found.items()]


def _checked(ran: Ran, ranks: Sequence[int] | None) -> Sequence[int] | None:
    world = ran.steps[0].prepared.job.ranks
    if ranks is not None and (not ranks or max(ranks) >= world):
        raise UsageMistake(f"--ranks: the job has ranks 0 to {world - 1}; name some of those")
    return ranks
