"""stepscope explains one distributed training step: why did this step take this long?

    >>> import stepscope
    >>> run = stepscope.read("demo/healthy")
    >>> stepscope.breakdown(run).frame().height
    32

Everything is loaded when it is first used: importing this package costs a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

    from stepscope.model.breakdown import Breakdown
    from stepscope.model.compare import Comparison
    from stepscope.model.errors import StepscopeError
    from stepscope.model.hops import Hops
    from stepscope.model.memory import MemoryPlan
    from stepscope.model.run import Run
    from stepscope.model.simulated import Simulated
    from stepscope.recorder.session import Recording

__version__ = "0.1.0"
__all__ = [
    "Breakdown",
    "Comparison",
    "Hops",
    "MemoryPlan",
    "Run",
    "Simulated",
    "StepscopeError",
    "__version__",
    "breakdown",
    "compare",
    "hops",
    "plan",
    "read",
    "record",
    "simulate",
]

_TYPES = {
    "Breakdown": "stepscope.model.breakdown",
    "Comparison": "stepscope.model.compare",
    "Hops": "stepscope.model.hops",
    "MemoryPlan": "stepscope.model.memory",
    "Run": "stepscope.model.run",
    "Simulated": "stepscope.model.simulated",
    "StepscopeError": "stepscope.model.errors",
}


def read(
    *paths: str | PathLike[str],
    marks: Sequence[tuple[str, str]] = (),
    rank_map: Mapping[str, int] | None = None,
    hosts: str | PathLike[str] | None = None,
    jobs: int | None = None,
) -> Run:
    """The Run behind paths: a `.run` folder, or profiler traces (files, folders, globs), imported on the fly.

    `marks` are (regular expression, phase) pairs for loops that name their phases themselves; `rank_map` gives file names
    a rank where the traces do not; `hosts` is a file that says where each rank runs; `jobs` is the number of files read at
    once. The Run is a context manager: closing it removes what was imported. Raises StepscopeError.
    """
    from pathlib import Path

    from stepscope.analysis.attribution import RULES
    from stepscope.sources.detect import open_run

    places = None
    if hosts is not None:
        from stepscope.sources.hosts import read_hosts

        places = read_hosts(Path(hosts))
    return open_run([Path(p) for p in paths], rules=RULES, marks=marks, rank_map=rank_map, hosts=places, jobs=jobs)


def breakdown(run: Run) -> Breakdown:
    """Exclusive parts of every rank's step, communication, collectives and units; times in integer ns."""
    from stepscope.analysis.breakdown import breakdown as find

    return find(run)


def compare(base: Run, run: Run, tokens_per_step: int | tuple[int, int] | None = None) -> Comparison:
    """What grew from the base to the run: exact deltas of the parts with bounds, per rank, and whether it is the same workload.

    `tokens_per_step` (all ranks together; of both, or of base and run) wins over what the runs say of themselves. Raises
    StepscopeError where either has no step.
    """
    from stepscope.analysis.compare import compare as find

    tokens = tokens_per_step if isinstance(tokens_per_step, tuple) else (tokens_per_step, tokens_per_step)
    return find(base, run, tokens=tokens)


def hops(run: Run, step: int | None = None, unit: str | None = None, rank: int | None = None, whole_step: bool = False) -> Hops:
    """One step of one rank, hop by hop: from, to, layer, bytes, time, what is exposed; times in integer ns.

    By default the lowest rank, its last complete step and the middle unit; `whole_step` takes all units together. Raises
    StepscopeError for a rank, step or unit that is not there.
    """
    from stepscope.analysis.hops import hops as find

    return find(run, step=step, unit=unit, rank=rank, whole_step=whole_step)


def simulate(
    model: str,
    *,
    system: str,
    plan: str,
    stack: str | None = None,
    faults: Sequence[str] = (),
    steps: int = 4,
    seed: int = 0,
    noise: bool = True,
    loader: str | None = None,
    checkpoint: str | None = None,
    anchor: float | None = None,
    out: str | PathLike[str] | None = None,
    force: bool = False,
) -> Simulated:
    """The step of a model on a cluster, with faults or without: names of the catalog or paths of TOML files, words as for the
    command. With `out` the Run is kept there (`force` replaces one), to be opened with `read`.

    Times are ns, sizes bytes; the figures follow from a model and say nothing about a real cluster. Raises StepscopeError.
    """
    from dataclasses import replace
    from pathlib import Path

    from stepscope.planner.predict import Planner
    from stepscope.simulator.request import Request

    request = Request(model, system, plan, stack, tuple(faults), steps, seed, noise, loader, checkpoint, anchor)
    request = replace(request, memory=Planner(request.the_system(), request.the_stack()))
    ran, result = request.run(keep=out is not None)
    if out is not None:
        from stepscope.analysis.attribution import RULES
        from stepscope.simulator.keep import keep_run

        keep_run(Path(out), request.job(), ran, RULES, force)
    return result


def record(out: str | PathLike[str], *, keep: str | int = "256MB", stall: float = 60.0, metrics: str = "") -> Recording:
    """Records this rank of a torch job into the folder `out`, which all its ranks share: a context manager.

    Its `steps(loader, tokens=0)` yields the batches, each the beginning of a step; without it a step begins at the batch after
    an update. `keep` bytes are kept per rank, the newest; after `stall` seconds without progress (0: never) stacks and torch's
    flight recorder are written; `metrics` (`:9400`) serves Prometheus text. The job never fails because of the recorder.
    Raises StepscopeError for words that say nothing.
    """
    from pathlib import Path

    from stepscope.recorder.session import Recording
    from stepscope.recorder.settings import size_of

    return Recording(Path(out), keep=size_of(keep) if isinstance(keep, str) else keep, stall=stall, metrics=metrics)


def plan(
    model: str,
    *,
    system: str,
    plan: str,
    stack: str | None = None,
    recipe: str | None = None,
    loss: str | None = None,
    expandable: bool = False,
) -> MemoryPlan:
    """Memory of the fullest rank at its fullest moment, by term: names of the catalog or paths of TOML files, words as for the
    command. Bytes; they follow from formulas, within the range of each term. Raises StepscopeError."""
    from stepscope.planner.request import Request

    request = Request(model, system, plan, stack, recipe, loss, expandable)
    return request.planner()(request.workload())


def __getattr__(name: str) -> Any:
    if name in _TYPES:
        from importlib import import_module

        return getattr(import_module(_TYPES[name]), name)
    raise AttributeError(f"module 'stepscope' has no attribute {name!r}")
