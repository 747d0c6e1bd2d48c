"""The life of a step as a screen: one sentence, a line per hop that has a figure, and below why the others have none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stepscope.model.hops import Hop, Hops
from stepscope.model.table import Column, Table
from stepscope.show import units
from stepscope.show.gaps import gap_lines
from stepscope.show.terminal import Block, Paragraph

SIMULATED: Final = "A simulated run: its figures say nothing about a real machine."
SPARE: Final = ("way", "rate")
"""What a narrow screen goes without: the layer and the words say where a hop is."""

AGAIN: Final = "b: the gather again, for backward"


def blocks(found: Hops) -> Iterator[Block]:
    """The whole screen."""
    if found.origin == "simulated":
        yield Paragraph(SIMULATED, "warn")
    yield Paragraph(sentence(found), "bold")
    yield table(found)
    yield from gap_lines(found.gaps)


def sentence(found: Hops) -> str:
    """Which unit, step and rank, and how much of the communication compute hides."""
    where = f"step {found.step} of rank {found.rank}" + (f" ({found.place})" if found.place is not None else "")
    what = f"Unit {found.unit} in {where}" if found.unit is not None else where.capitalize()
    whole = f"{what} ({units.duration(found.duration_ns)})" if found.unit is None else what
    if not found.communication_ns and not found.exposed_ns:
        return f"{whole}: nothing is communicated."
    total, shown = units.duration(found.communication_ns), units.duration(found.exposed_ns)
    hidden = units.percent(found.hidden_ns, found.communication_ns)
    text = f"{whole}: {hidden} of its {total} of communication is hidden behind compute, {shown} exposed"
    if found.unit is None:
        return f"{text}."
    return f"{text}; the whole step exposes {units.duration(found.breakdown_exposed_ns)}."


def table(found: Hops) -> Table:
    """A row per hop with a figure, times in one unit."""
    shown = [hop for hop in found.hops if _has_figure(hop)]
    unit = units.time_unit([found.duration_ns])
    names = ("hop", "way", "layer", "what", "bytes", "start", "time", "exposed", "rate")
    columns = tuple(Column(name, right=i > 3, spare=name in SPARE) for i, name in enumerate(names))
    notes = [f"{labels(hops)}: {why}" for why, hops in _reasons(found.hops).items()]
    if any(label(hop).endswith("b") for hop in found.hops):
        notes.append(AGAIN)
    title = f"The life of the step, times in {unit.name} from its start"
    return Table(title, columns, tuple(_row(hop, unit) for hop in shown), (*notes, *found.notes))


def label(hop: Hop) -> str:
    """`3`, and `3b` for the gather of backward."""
    return f"{hop.n}b" if hop.n in range(3, 8) and hop.pass_ == "backward" else str(hop.n)


def labels(hops: Sequence[Hop]) -> str:
    """Hops as runs: `4-7, 4b-7b, 13`."""
    runs: list[tuple[Hop, Hop]] = []
    for hop in hops:
        if runs and hop.n == runs[-1][1].n + 1 and label(hop).endswith("b") == label(runs[-1][1]).endswith("b"):
            runs[-1] = runs[-1][0], hop
        else:
            runs.append((hop, hop))
    return ", ".join(label(a) if a is b else f"{label(a)}-{label(b)}" for a, b in runs)


def _has_figure(hop: Hop) -> bool:
    return hop.start_ns is not None or bool(hop.bytes) or bool(hop.exposed_ns)


def _reasons(hops: Sequence[Hop]) -> dict[str, list[Hop]]:
    found: dict[str, list[Hop]] = {}
    for hop in hops:
        if hop.why is not None:
            found.setdefault(hop.why, []).append(hop)
    return found


def _row(hop: Hop, unit: units.TimeUnit) -> tuple[str | None, ...]:
    way = f"{hop.way.source} > {hop.way.target}"
    times = [None if t is None else unit.cell(t) for t in (hop.start_ns, hop.busy_ns, hop.exposed_ns)]
    size = None if hop.bytes is None else units.size(hop.bytes)
    rate = None if hop.bytes_per_s is None else units.rate(hop.bytes_per_s)
    return (label(hop), way, hop.way.layer, hop.what, size, *times, rate)
