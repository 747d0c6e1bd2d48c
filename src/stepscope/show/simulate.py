"""A simulated step as a screen: how long, where it goes, what it holds; the walk to a plan that fits; a sweep as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stepscope.model.breakdown import NS_PER_MS
from stepscope.model.prediction import Prediction
from stepscope.model.simulated import Change, Point, Simulated
from stepscope.model.table import Cell, Column, Table
from stepscope.model.words import PARTS
from stepscope.show import units
from stepscope.show.terminal import Block, Paragraph

HONEST: Final = "Simulated: these figures follow from a model of the cluster and say nothing about a real one."
GIB: Final = 2**30


def blocks(result: Simulated, changes: Sequence[Change] = ()) -> Iterator[Block]:
    """The whole screen."""
    yield Paragraph(HONEST, "warn")
    if result.stopped is not None:
        yield Paragraph(f"The job stops: {result.stopped}. What follows is of the steps before.", "bad")
    yield Paragraph(_headline(result), "bold")
    for fault in result.faults:
        yield Paragraph(f"with {fault}", tight=True)
    if changes:
        yield walk(changes)
    yield from _memory(result.mean)
    if result.stopped is None or result.steps_ns:
        yield _parts(result)
        yield _conventions(result.mean)
    for note in result.notes:
        yield Paragraph(note, "dim", indent=2)


def walk(changes: Sequence[Change]) -> Table:
    """From the plan that was asked for to the one that fits, and what it costs."""
    names = ("change", "ranks", "GiB", "step ms", "exposed ms", "tokens/s/GPU")
    columns = tuple(Column(name, right=i > 0) for i, name in enumerate(names))
    rows = tuple(_change(change) for change in changes)
    first, last = changes[0].prediction, changes[-1].prediction
    more = (last.exposed_ns - first.exposed_ns) / NS_PER_MS
    note = f"{changes[-1].plan} fits; exposed communication changes by {more:+.1f} ms a step"
    return Table("What fits", columns, rows, (note if len(changes) > 1 else "it fits as it is",))


def _change(change: Change) -> tuple[Cell, ...]:
    memory, _, step, exposed, rate = _figures(change.prediction)
    return (change.why, change.ranks, memory, step, exposed, rate)


def sweep(points: Sequence[Point]) -> Iterator[Block]:
    """How the step changes from one plan to the next."""
    yield Paragraph(HONEST, "warn")
    key, rest = _swept(points)
    weak = any(point.healthy is not None for point in points)
    last = ("healthy ms", "slow-down") if weak else ("tokens/s/GPU", "of first")
    names = (key, "ranks", "GiB", "step ms", "exposed ms", "exposed", *last)
    columns = tuple(Column(name, right=i > 0, spare=name in ("exposed", "GiB")) for i, name in enumerate(names))
    base = next((p.prediction for p in points if p.prediction is not None), None)
    refused = [f"{p.plan}: {p.refused}" for p in points if p.refused]
    large = [p.plan for p in points if p.prediction is not None and p.prediction.fits is False]
    notes = (*refused, *([f"does not fit: {', '.join(large)}"] if large else []))
    what = "What the weakness costs" if weak else "How the cost grows"
    yield Table(f"{what} with {key} ({rest})", columns, tuple(_point(p, base) for p in points), notes)


def _swept(points: Sequence[Point]) -> tuple[str, str]:
    """The word that changes and the others, which do not: the plans begin with it."""
    first, _, rest = points[0].plan.partition(",")
    return first.partition("=")[0], rest or "nothing else set"


def _point(point: Point, base: Prediction | None) -> tuple[Cell, ...]:
    found, value = point.prediction, point.plan.partition(",")[0].partition("=")[2]
    if found is None or base is None:
        return (value, point.ranks, *(None,) * 6)
    memory, _, step, exposed, rate = _figures(found)
    share = units.percent(found.exposed_ns, found.step_ns)
    if point.healthy is not None:
        rate, against = f"{point.healthy.step_ns / NS_PER_MS:.1f}", f"{point.slowdown:.2f}"
    else:
        against = units.percent(round(found.tokens_per_s_per_gpu), round(base.tokens_per_s_per_gpu))
    return (value, point.ranks, memory, step, exposed, share, rate, against)


def _figures(found: Prediction) -> tuple[str, str, str, str, str]:
    return (
        "-" if found.memory_bytes is None else f"{found.memory_bytes / GIB:.1f}",
        {True: "yes", False: "no", None: "-"}[found.fits],
        f"{found.step_ns / NS_PER_MS:.1f}",
        f"{found.exposed_ns / NS_PER_MS:.1f}",
        f"{found.tokens_per_s_per_gpu:,.0f}",
    )


def _headline(result: Simulated) -> str:
    where = f"{result.ranks} ranks of {result.system} ({result.nodes} node{'s' if result.nodes > 1 else ''})"
    mean = result.mean
    what = f"{result.model} on {where}, {result.plan}, {result.stack}, {mean.tokens:,} tokens a step"
    if not result.steps_ns:
        return f"{what}: no step ends."
    spread = ""
    least, most = units.duration(min(result.steps_ns)), units.duration(max(result.steps_ns))
    if least != most:
        spread = f", {least} to {most} over {len(result.steps_ns)} steps"
    if result.slowdown is not None and result.stopped is None:
        spread += f", {result.slowdown:.2f} times the healthy job's"
    return (
        f"{what}: a step takes {units.duration(mean.step_ns)}{spread}, {mean.tokens_per_s_per_gpu:,.0f} tokens/s/GPU; "
        f"{units.duration(mean.exposed_ns)} of communication ({units.percent(mean.exposed_ns, mean.step_ns)}) is exposed."
    )


def _memory(found: Prediction) -> Iterator[Block]:
    if found.memory_bytes is None:
        return
    words = f"about {found.memory_bytes / GIB:.1f} of {found.capacity_bytes / GIB:.1f} GiB a GPU"
    if found.fits:
        yield Paragraph(f"Memory: {words} (stepscope plan has the terms).", tight=True)
    else:
        yield Paragraph(f"Out of memory: {words}. A real job would not start; --fit looks for a plan that does.", "bad")


def _parts(result: Simulated) -> Table:
    found, healthy = result.mean, result.healthy
    unit = units.time_unit([found.step_ns])
    if healthy is None:
        shown = [part for part in PARTS if found.parts_ns[part]]
        rows = [(part, unit.cell(found.parts_ns[part]), units.percent(found.parts_ns[part], found.step_ns)) for part in shown]
        rows.append(("step", unit.cell(found.step_ns), "100 %"))
        columns = (Column("part"), Column(f"mean {unit.name}", right=True), Column("share", right=True))
        return Table("Where the step goes", columns, tuple(rows))
    names = ("part", f"healthy {unit.name}", f"weak {unit.name}", "change")
    both = [(p, healthy.parts_ns[p], found.parts_ns[p]) for p in PARTS if healthy.parts_ns[p] or found.parts_ns[p]]
    both.append(("step", healthy.step_ns, found.step_ns))
    cells = tuple((part, unit.cell(one), unit.cell(two), _change_of(one, two, unit)) for part, one, two in both)
    return Table("Where the step goes, healthy and weak", tuple(Column(n, right=i > 0) for i, n in enumerate(names)), cells)


def _change_of(one: int, two: int, unit: units.TimeUnit) -> str:
    cell = unit.cell(two - one)
    return f"+{cell}" if two > one and not cell.startswith("<") else cell


def _conventions(found: Prediction) -> Block:
    known = [f"{100 * share:.1f} % ({name})" for name, share in found.mfu.items() if share is not None]
    return Paragraph(f"MFU by convention: {', '.join(known) if known else 'unknown, the GPU has no peak for this precision'}")
