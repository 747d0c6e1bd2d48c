"""Two runs side by side, in brief: one computed sentence for each, their parts, and one for the difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from stepscope.model.breakdown import Breakdown
from stepscope.model.table import Column, Table
from stepscope.model.words import PARTS
from stepscope.show import units
from stepscope.show.averages import Averages, averages
from stepscope.show.json import seconds
from stepscope.show.sentence import sentence
from stepscope.show.strip import Strip
from stepscope.show.terminal import Block, Paragraph

SAID: Final = 3

Named = tuple[str, Breakdown]


def blocks(first: Named, second: Named) -> Iterator[Block]:
    """The screen of `stepscope demo`."""
    for name, result in (first, second):
        yield Paragraph(f"{name}: {sentence(result)}", "bold")
        means = averages(result)
        if means is not None and len(means.own) > 1:
            yield Strip("own time per rank and step (the step without exposed communication)", means.own)
    yield parts(first, second)
    yield Paragraph(difference(first, second), "bold")


def parts(first: Named, second: Named) -> Table:
    """Mean per rank-step of every part in both, and what it grew by."""
    a, b = averages(first[1]), averages(second[1])
    unit = units.time_unit(m.step.mean if m else None for m in (a, b))
    rows = []
    for part in ("step", *PARTS):
        x, y = _mean(a, part), _mean(b, part)
        if x or y:
            rows.append((part, unit.cell(x), unit.cell(y), None if x is None or y is None else _signed(y - x, unit)))
    columns = (Column("part"), Column(first[0], right=True), Column(second[0], right=True), Column("change", right=True))
    return Table(f"Mean per rank and step, in {unit.name}", columns, tuple(rows[1:] + rows[:1]))


def difference(first: Named, second: Named) -> str:
    """Where the second's step differs from the first's; exchanged inputs give the opposite sentence."""
    a, b = averages(first[1]), averages(second[1])
    if a is None or b is None:
        return "One of the two has no step, so they cannot be compared."
    change = b.step.mean - a.step.mean
    lengths = [units.duration(m.step.mean) for m in (a, b)]
    moved = (
        f"{'grows' if change > 0 else 'shrinks'} from {lengths[0]} to {lengths[1]} ({units.signed_percent(change, a.step.mean)})"
    )
    lead = f"From {first[0]} to {second[0]} the step {moved if lengths[0] != lengths[1] else 'stays at ' + lengths[0]}"
    changes = {p: (_mean(b, p) or 0) - (_mean(a, p) or 0) for p in PARTS}
    said = [p for p in sorted(changes, key=lambda p: -abs(changes[p]))[:SAID] if abs(changes[p]) >= 0.05 * max(abs(change), 1)]
    clauses = [f"{p} {'+' if changes[p] > 0 else '-'}{units.duration(abs(changes[p]))}" for p in said]
    return lead + (": " + ", ".join(clauses) if clauses else "") + _own(a, b) + "."


def document(first: Named, second: Named) -> dict[str, Any]:
    """demo/1: both runs with their sentence and mean parts in seconds, and the sentence for the difference."""
    runs = []
    for name, result in (first, second):
        means = averages(result)
        mean_s = {part: None if (v := _mean(means, part)) is None else seconds(round(v)) for part in PARTS}
        step_s = seconds(round(means.step.mean)) if means else None
        runs.append({"name": name, "sentence": sentence(result), "step_s": step_s, "parts": mean_s})
    return {"schema": "demo/1", "runs": runs, "difference": difference(first, second)}


def _own(a: Averages, b: Averages) -> str:
    both = sorted(a.own.keys() & b.own.keys())
    if len(both) < 2:
        return ""
    changes = {r: b.own[r] - a.own[r] for r in both}
    most = max(both, key=lambda r: (abs(changes[r]), -r))
    rest = max(abs(changes[r]) for r in both if r != most)
    if abs(changes[most]) < 0.02 * a.step.mean or rest > 0.5 * abs(changes[most]):
        return "; no single rank's own time explains it"
    verb = "grew" if changes[most] > 0 else "shrank"
    own = f"the own time of rank {most} {verb} by {units.duration(abs(changes[most]))}"
    return f"; {own}, that of no other rank changed by more than {units.duration(rest)}"


def _mean(means: Averages | None, part: str) -> float | None:
    if means is None:
        return None
    average = means.step if part == "step" else means.parts[part]
    return average.mean if average else None


def _signed(ns: float, unit: units.TimeUnit) -> str:
    text = unit.cell(ns)
    if not ns or text.startswith(("<", ">")):
        return "0"
    return f"+{text}" if ns > 0 else text
