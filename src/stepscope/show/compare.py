"""The comparison as a screen: the sentence, the parts with their bounds, the ranks as a strip, what lies beside each phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Final

from stepscope.model.compare import Comparison, Delta, Signal
from stepscope.model.table import Cell, Column, Table
from stepscope.model.throughput import Throughput, weak_scaling
from stepscope.show import units
from stepscope.show.growth import sentence
from stepscope.show.names import Names
from stepscope.show.strip import Strip
from stepscope.show.terminal import Block, Paragraph

DOUBT: Final = "~"
MOST_DIFFERENCES: Final = 8


def blocks(found: Comparison, names: tuple[str, str] = ("base", "run"), verdict: str | None = None) -> Iterator[Block]:
    """The whole screen; `verdict` is what a gate said."""
    yield Paragraph(sentence(found), "bold")
    for warning in found.warnings:
        yield Paragraph(f"{warning[:1].upper()}{warning[1:]}.", "warn")
    if verdict:
        yield Paragraph(verdict, "bold")
    yield from differences(found)
    yield parts_table(found, names)
    if found.per_token and found.tokens[0] != found.tokens[1]:
        yield per_table(found.per_token, names, f"Per token ({found.tokens[0]:,} and {found.tokens[1]:,} a step)")
    if found.per_batch and found.per_batch[0].growth != found.step.growth:
        yield per_table(found.per_batch, names, "Per batch")
    if found.throughput is not None:
        yield speeds(found.throughput, names)
    if len(found.ranks) > 1:
        yield strip(found)
    yield from signals(found, names)


def differences(found: Comparison) -> Iterator[Block]:
    """Whether the workloads are the same, and how they differ."""
    if found.differences:
        lead = "Same workload, though not in everything" if found.same_workload else "Not the same workload"
        yield Paragraph(lead, "bold" if found.same_workload else "warn")
    for difference in found.differences[:MOST_DIFFERENCES]:
        yield Paragraph(f"  {difference}", "plain" if difference.decisive else "dim", indent=2, tight=True)
    if len(found.differences) > MOST_DIFFERENCES:
        yield Paragraph(f"  and {len(found.differences) - MOST_DIFFERENCES} more: see --format json", "dim", tight=True)


def parts_table(found: Comparison, names: tuple[str, str]) -> Table:
    """What grew most first; `~` stands by what is not significant."""
    title = "Mean per rank and step, in {}"
    notes = list(found.notes)
    if any(d.significant is False for d in (*found.parts, found.step)):
        notes.insert(0, f"{DOUBT} not significant: no more than its steps vary, or too little for so few steps")
    return _table(title, (found.step, *found.parts), names, tuple(notes))


def speeds(found: tuple[Throughput, Throughput], names: tuple[str, str]) -> Table:
    """Tokens, and what share of the peak they make."""
    rows: list[tuple[Cell, ...]] = []

    def add(what: str, values: tuple[float | None, float | None], written: Callable[[float], str]) -> None:
        if any(value is not None for value in values):
            one, two = values
            change = None if not one or two is None else units.signed_percent(two - one, one)
            rows.append((what, *(None if v is None else written(v) for v in values), change))

    def both(name: str) -> tuple[float | None, float | None]:
        return getattr(found[0], name), getattr(found[1], name)

    add("tokens a step", both("slots"), lambda v: f"{v:,.0f}")
    add("tokens/s", both("tokens_per_s"), lambda v: f"{v:,.0f}")
    add("tokens/s/GPU", both("tokens_per_s_per_gpu"), lambda v: f"{v:,.0f}")
    add("slots that hold a token", both("filled"), lambda v: f"{100 * v:.1f} %")
    for convention in found[1].mfu or found[0].mfu:
        add(f"MFU ({convention})", (found[0].mfu.get(convention), found[1].mfu.get(convention)), lambda v: f"{100 * v:.1f} %")
    if any(side.hfu != side.mfu for side in found):
        for convention in found[1].hfu or found[0].hfu:
            both_hfu = (found[0].hfu.get(convention), found[1].hfu.get(convention))
            add(f"HFU ({convention})", both_hfu, lambda v: f"{100 * v:.1f} %")
    scaling = weak_scaling(*found)
    notes = (
        () if scaling is None else (f"weak scaling from {found[0].ranks:,} to {found[1].ranks:,} ranks: {100 * scaling:.1f} %",)
    )
    columns = (Column(""), *(Column(name, right=True) for name in (*names, "change")))
    return Table("Tokens and MFU", columns, tuple(rows), notes)


def per_table(deltas: tuple[Delta, ...], names: tuple[str, str], what: str) -> Table:
    """The same for what a step handles."""
    return _table(what + ", in {}", deltas, names, ())


def strip(found: Comparison) -> Strip:
    """The rank whose own time changed stands out: every rank starts from the base's mean step, so only changes make shades."""
    start = float(found.base_step_ns)
    title = "Change of each rank's own time (its step without communication), on top of the base's mean step"
    values = {r.rank: start + float(r.own_delta_ns) for r in found.ranks}
    figures = {r.rank: f"{'+' if r.own_delta_ns >= 0 else '-'}{units.duration(abs(float(r.own_delta_ns)))}" for r in found.ranks}
    return Strip(title, values, called=Names(found.places), figures=figures)


def signals(found: Comparison, names: tuple[str, str]) -> Iterator[Block]:
    """What is known beside the phases; the rest is named below."""
    rows: list[tuple[Cell, ...]] = []
    unknown = []
    for phase in found.phases:
        known = [s for s in phase.inspect if s.base is not None or s.run is not None]
        shown = [s for s in known if s.base or s.run]
        rows += [(phase.phase, _words(s.signal), _figure(s.base, s.unit), _figure(s.run, s.unit), _change(s)) for s in shown]
        missing = [_words(s.signal) for s in phase.inspect if s not in known and not s.signal.startswith("kernel_time_")]
        if missing:
            unknown.append(f"{phase.phase}: {', '.join(missing)}")
    notes = (f"not recorded: {'; '.join(unknown)}",) if unknown else ()
    if rows:
        columns = (Column("phase"), Column("signal"), *(Column(n, right=True) for n in (*names, "change")))
        yield Table("Beside the phases", columns, tuple(rows), notes)


def _table(title: str, deltas: tuple[Delta, ...], names: tuple[str, str], notes: tuple[str, ...]) -> Table:
    step, *parts = deltas
    unit = units.time_unit([float(step.base_ns), float(step.run_ns)])
    order = sorted((d for d in parts if d.base_ns or d.run_ns), key=lambda d: (-d.delta_ns, -d.run_ns))
    bounded = step.low_ns is not None
    rows = [_row(d, unit, bounded) for d in (*order, step)]
    heads = (*names, "change", *(("", "from", "to") if bounded else ()))
    columns = (Column("part"), *(Column(name, right=name != "") for name in heads))
    if absent := [d.part for d in parts if not d.base_ns and not d.run_ns]:
        notes = (*notes, f"0 in both: {', '.join(absent)}")
    return Table(title.format(unit.name), columns, tuple(rows), notes)


def _row(delta: Delta, unit: units.TimeUnit, bounded: bool) -> tuple[Cell, ...]:
    row = (delta.part, unit.cell(float(delta.base_ns)), unit.cell(float(delta.run_ns)), signed(delta.delta_ns, unit))
    if not bounded:
        return row
    return (*row, "" if delta.significant else DOUBT, signed(delta.low_ns, unit), signed(delta.high_ns, unit))


def signed(ns: Fraction | float | None, unit: units.TimeUnit) -> str:
    """`+57.0`, `-3.1`, `0` also for what the column cannot show."""
    if ns is None:
        return units.UNKNOWN
    text = unit.cell(float(ns))
    if text.startswith(("<", ">")):
        return "0"
    return f"+{text}" if ns > 0 else text


def _words(signal: str) -> str:
    return signal.replace("_", " ")


def _figure(value: float | None, unit: str) -> str:
    match unit:
        case "s":
            return units.duration(None if value is None else value * 1e9)
        case "bytes":
            return units.size(value)
        case "bytes/s":
            return units.rate(value)
        case "share":
            return units.percent(value, 1)
        case _:
            return units.UNKNOWN if value is None else units.figure(value)


def _change(signal: Signal) -> str:
    if signal.base is None or signal.run is None or signal.unit == "share":
        return units.UNKNOWN
    return units.signed_percent(signal.run - signal.base, signal.base)
