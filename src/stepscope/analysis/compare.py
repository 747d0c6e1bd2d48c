"""Which part grew from a base to a run, by how much, on which ranks, and is it more than the steps vary?

Means are over whole steps and all their ranks, as exact fractions; no step is left out for being slow, and none for being
first: a warm-up step is one that the recording marks as cut. What is sure is said in `significance`, what is the same
workload in `workload`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from stepscope.analysis.breakdown import breakdown, steps_of
from stepscope.analysis.normalize import BATCHES, TOKENS, Pair, deltas, deltas_per, means, recorded
from stepscope.analysis.signals import Signals, phase_signals
from stepscope.analysis.significance import LEVEL, bounds, clear
from stepscope.analysis.throughput import throughput
from stepscope.analysis.whole_steps import OWN, WholeSteps, whole_steps
from stepscope.analysis.workload import Workload, differences
from stepscope.model.breakdown import Breakdown
from stepscope.model.compare import Comparison, Difference, PhaseSignals, RankDelta
from stepscope.model.errors import BadInput
from stepscope.model.run import Run
from stepscope.model.throughput import Throughput
from stepscope.model.words import PARTS

STOPPED: Final = re.compile(r"^step \d+ did not end$")
LONG: Final = 1.3  # times the median step: no healthy job's steps differ so
SAID: Final = 4

NEEDED: Final = ("parent", "kind", "name", "start_ns", "end_ns", "shape", "phase", "recompute", "part")


def compare(
    base: Run, run: Run, *, tokens: Pair = (None, None), broken_down: tuple[Breakdown, Breakdown] | None = None
) -> Comparison:
    """The run against the base. `tokens` a step (all ranks together) win over those in the runs' descriptions.

    `broken_down` saves doing that again. Raises BadInput where either has no step, or a table cannot be read.
    """
    results = broken_down or (breakdown(base), breakdown(run))
    wholes = [_whole(result, name) for result, name in zip(results, ("base", "run"), strict=True)]
    known = [given or recorded(side, TOKENS) for given, side in zip(tokens, (base, run), strict=True)]
    seen = [_look(side, count) for side, count in zip((base, run), known, strict=True)]
    speeds = [
        throughput(side, float(means(whole)[0]), count) for side, whole, count in zip((base, run), wholes, known, strict=True)
    ]
    sides = [(result, whole, signals) for result, whole, (_, signals) in zip(results, wholes, seen, strict=True)]
    return compare_steps(
        *results,
        tokens=(known[0], known[1]),
        batches=(recorded(base, BATCHES), recorded(run, BATCHES)),
        differing=differences(seen[0][0], seen[1][0]),
        phases=phase_signals(sides[0], sides[1]),
        stopped=[_stopped(name, side) for name, side in zip(("base", "run"), (base, run), strict=True)],
        speeds=None if all(speed.slots is None for speed in speeds) else (speeds[0], speeds[1]),
    )


def compare_steps(
    base: Breakdown,
    run: Breakdown,
    *,
    tokens: Pair = (None, None),
    batches: Pair = (None, None),
    differing: Sequence[Difference] = (),
    phases: Sequence[PhaseSignals] = (),
    stopped: Sequence[str | None] = (),
    speeds: tuple[Throughput, Throughput] | None = None,
) -> Comparison:
    """The same from two breakdowns; what only the runs' tables tell (workload, signals) is handed in."""
    one, two = _whole(base, "base"), _whole(run, "run")
    step, *parts = deltas(one, two)
    return Comparison(
        step=step,
        parts=tuple(parts),
        ranks=_ranks(one, two),
        same_workload=not any(d.decisive for d in differing),
        differences=tuple(differing),
        per_token=deltas_per(one, two, tokens),
        per_batch=deltas_per(one, two, batches),
        phases=tuple(phases),
        notes=_notes(one, two),
        warnings=tuple(w for w in (*stopped, _outliers("base", one), _outliers("run", two)) if w),
        step_numbers=(one.steps, two.steps),
        tokens=tokens,
        places=run.places,
        throughput=speeds,
    )


def _stopped(name: str, run: Run) -> str | None:
    """A step that never ended, as the run's gaps tell; None where all did."""
    found = [gap for gap in run.info.gaps if STOPPED.search(gap.what)]
    if not found:
        return None
    said = "; ".join(f"{len(gap.ranks)} {'rank' if len(gap.ranks) == 1 else 'ranks'}: {gap.why}" for gap in found[:SAID])
    return f"the {name} did not go on: {found[0].what} ({said})"


def _outliers(name: str, side: WholeSteps) -> str | None:
    """A few steps that took far longer than the others: a mean hides them, and they hide what is surely grown."""
    each = side.parts_ns.sum(axis=2).mean(axis=1)
    middle = float(np.median(each))
    far = np.flatnonzero(each > LONG * middle)
    if not len(far) or 2 * len(far) > len(each):
        return None
    parts = side.parts_ns.mean(axis=1)
    usual = np.median(np.delete(parts, far, axis=0), axis=0)
    most = PARTS[int(np.argmax(parts[far].mean(axis=0) - usual))]
    steps = ", ".join(str(side.steps[k]) for k in far[:SAID]) + (" and more" if len(far) > SAID else "")
    took, others = float(each[far].mean()) / 1e6, float(np.delete(each, far).mean()) / 1e6
    what = f"{len(far)} of {len(each)} steps ({steps})"
    return f"the {name}: {what} took {took:.4g} ms on average, the others {others:.4g}; most of the excess is {most}"


def _whole(result: Breakdown, name: str) -> WholeSteps:
    whole = whole_steps(result)
    if whole is None:
        raise BadInput(f"the {name}: no step was recorded, so there is nothing to compare; record at least two whole steps")
    return whole


def _look(run: Run, tokens: int | None) -> tuple[Workload, Signals]:
    """One pass over the tables of a run, over the complete steps of each rank (all where none is)."""
    workload, signals = Workload(run.info, tokens), Signals()
    for rank in run.ranks:
        tables = run.tables(rank, NEEDED)
        steps = steps_of(tables.info)
        steps = [s for s in steps if s.complete] or steps
        workload.add(tables, steps)
        signals.add(tables, steps)
    return workload, signals


def _ranks(base: WholeSteps, run: WholeSteps) -> tuple[RankDelta, ...]:
    both = [rank for rank in base.ranks if rank in run.ranks]
    if not both:
        return ()
    own = [np.column_stack([side.own_of(rank) for rank in both]).astype(np.float64) for side in (base, run)]
    found = bounds(own[0], own[1])
    marks: Sequence[bool | None] = [None] * len(both)
    if found:
        marks = clear(found, (len(base.steps), len(run.steps)), float(means(base)[0])).tolist()
    return tuple(_rank(base, run, rank, mark) for rank, mark in zip(both, marks, strict=True))


def _rank(base: WholeSteps, run: WholeSteps, rank: int, mark: bool | None) -> RankDelta:
    means = [_rank_means(side, rank) for side in (base, run)]
    whole = [sum(side, Fraction(0)) for side in means]
    own = [sum((side[place] for place in OWN), Fraction(0)) for side in means]
    grown = {PARTS[place]: means[1][place] - means[0][place] for place in OWN}
    return RankDelta(rank, whole[0], whole[1], own[0], own[1], grown, mark)


def _rank_means(side: WholeSteps, rank: int) -> list[Fraction]:
    return [Fraction(int(total), len(side.steps)) for total in side.parts_ns[:, side.ranks.index(rank)].sum(axis=0)]


def _notes(base: WholeSteps, run: WholeSteps) -> tuple[str, ...]:
    """What a reader must know of the means and bounds."""
    notes = []
    few = [name for name, side in (("base", base), ("run", run)) if len(side.steps) < 2]
    if few:
        where = " and ".join(f"the {name}" for name in few)
        notes.append(f"{where} {'have' if len(few) > 1 else 'has'} one whole step: without a second one no change has bounds")
    else:
        notes.append(
            f"{len(base.steps)} and {len(run.steps)} whole steps, all their ranks; "
            f"from and to are {100 * LEVEL:.0f} % bounds of the change"
        )
    for name, side in (("base", base), ("run", run)):
        if side.left_out:
            notes.append(f"the {name}: {side.left_out:,} rank-steps are left out, cut or not recorded on every rank")
        if side.only_cut:
            notes.append(f"the {name} has no complete step; cut ones stand in for it")
        if side.by_order:
            notes.append(f"the {name}: step numbers of the ranks have nothing in common, so the n-th steps stand together")
    split = [bool(side.parts_ns[:, :, PARTS.index("comm_unsplit")].any()) for side in (base, run)]
    told = [bool(side.parts_ns[:, :, PARTS.index("comm_transfer")].any()) for side in (base, run)]
    if (split[0] and told[1] and not told[0]) or (split[1] and told[0] and not told[1]):
        notes.append("one side tells waiting from transfer in communication, the other does not: read the three parts as one")
    return tuple(notes)
