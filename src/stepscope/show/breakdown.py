"""The breakdown as a screen: one sentence, the parts, communication per rank, collectives, units, the ranks as a strip, gaps."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.model.breakdown import Breakdown
from stepscope.model.info import RunInfo
from stepscope.model.table import Column, Table
from stepscope.model.words import PARTS
from stepscope.show import units
from stepscope.show.averages import Average, Averages, averages
from stepscope.show.communication import collectives_table, communication_table, units_table
from stepscope.show.gaps import gap_lines
from stepscope.show.names import NUMBERS, Names
from stepscope.show.sentence import sentence
from stepscope.show.strip import Strip
from stepscope.show.terminal import Block, Paragraph


def blocks(result: Breakdown, info: RunInfo | None = None) -> Iterator[Block]:
    """The whole screen; `info` adds the ranks of the world that left no file, and whether the run is simulated."""
    if info is not None and info.origin == "simulated":
        yield Paragraph("A simulated run: its figures say nothing about a real machine.", "warn")
    yield Paragraph(sentence(result), "bold")
    means = averages(result)
    if means is not None:
        yield parts_table(means)
        yield Paragraph(naive_line(means), tight=True)
    if any(c.total_ns for c in result.communication):
        yield communication_table(result.communication)
    if result.collectives:
        yield collectives_table(result.collectives, Names(result.places))
    if result.units:
        yield units_table(result.units)
    if means is not None and len(means.own) > 1:
        yield own_strip(means, info, Names(result.places))
    yield from gap_lines(result.gaps)


def parts_table(means: Averages) -> Table:
    """Parts in their fixed order; those that are 0 in every step, or unknown, are named below instead."""
    unit = units.time_unit([means.step.most, means.step.p95])
    names = ("part", "mean", "share", "median", "p95")
    ranks = ("least", "rank", "most", "rank") if len(means.own) > 1 else ()
    known = {part: a for part in PARTS if (a := means.parts[part]) is not None}
    shown = {part: a for part, a in known.items() if a.most > 0} | {"step": means.step}
    rows = [_part_row(name, a, means.step.mean, unit, bool(ranks)) for name, a in shown.items()]
    notes = []
    if absent := [p for p in PARTS if p in known and p not in shown]:
        notes.append(f"0 in every step: {', '.join(absent)}")
    if unknown := [p for p in PARTS if p not in known]:
        notes.append(f"not known: {', '.join(unknown)}")
    if means.cut:
        notes.append(f"{units.count(means.cut, 'cut rank-step')} left out (the recording starts or ends inside)")
    columns = tuple(Column(name, right=i > 0) for i, name in enumerate((*names, *ranks)))
    if means.rank_steps == 1:  # median and p95 would say the mean again
        columns, rows = columns[:3], [row[:3] for row in rows]
    return Table(f"Where a rank's step went, in {unit.name} (exclusive parts, means add up)", columns, tuple(rows), tuple(notes))


def naive_line(means: Averages) -> str:
    """What adding up the profiler's durations would give, beside the step."""
    times = f"{means.naive / means.step.mean:.1f} x the step" if means.step.mean else "the step has no length"
    return f"  naive sum of durations {units.duration(means.naive)}, {times}: overlap is counted as often as it occurs"


def own_strip(means: Averages, info: RunInfo | None, called: Names = NUMBERS) -> Strip:
    """The rank with more own time than the others is the one they wait for, though waiting makes all steps equally long."""
    title = "Own time per rank and step (the step without exposed communication)"
    return Strip(title, means.own, (info.world_size or 0) if info else 0, called)


def _part_row(name: str, a: Average, step: float, unit: units.TimeUnit, ranks: bool) -> tuple[str | None, ...]:
    row = (name, unit.cell(a.mean), units.percent(a.mean, step), unit.cell(a.median), unit.cell(a.p95))
    if not ranks:
        return row
    least, most = (str(a.least_rank), str(a.most_rank)) if a.least != a.most else (None, None)
    return (*row, unit.cell(a.least), least, unit.cell(a.most), most)
