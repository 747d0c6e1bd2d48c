"""A memory plan as a screen: does it fit, what takes the bytes, when, what would help; the textbook table. GiB unless said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stepscope.model.breakdown import NS_PER_MS
from stepscope.model.memory import GIB, Advice, CheckpointPlan, Compared, MemoryPlan, Textbook, Walk
from stepscope.model.table import Column, Table
from stepscope.show import units
from stepscope.show.terminal import Block, Paragraph

GB = 1_000_000_000
HONEST = "Planned: these bytes follow from formulas and from figures of other machines; measure before you rely on a tight fit."


@dataclass(frozen=True, slots=True)
class Shown:
    """Everything that one call of `plan` has found."""

    plan: MemoryPlan
    advice: Sequence[Advice] = ()
    largest_micro_batch: int | None = None
    walk: Sequence[Walk] = ()
    checkpoint: CheckpointPlan | None = None
    compared: Sequence[Compared] = ()
    measured_from: str | None = None
    notes: Sequence[str] = field(default=())


def blocks(shown: Shown) -> Iterator[Block]:
    """The whole screen."""
    plan = shown.plan
    yield Paragraph(HONEST, "warn")
    yield Paragraph(_headline(plan), "bold")
    yield Paragraph(_verdict(plan), "good" if plan.fits else "bad")
    yield _terms(plan)
    yield _moments(plan)
    if shown.compared:
        yield _compared(shown)
    if shown.walk:
        yield _walk(shown.walk)
    if shown.largest_micro_batch is not None:
        yield Paragraph(_micro_batch(shown.largest_micro_batch))
    if shown.advice:
        yield _advice(shown.advice)
    if shown.checkpoint is not None:
        yield _checkpoint(shown.checkpoint)
    for note in (*plan.notes, *shown.notes):
        yield Paragraph(note, "dim", indent=2)


def textbook(found: Textbook) -> Iterator[Block]:
    """The table, decimal GB, and what it leaves out."""
    columns = (Column("state"), Column("B/param", right=True), Column("GB", right=True))
    rows = tuple((r.row, f"{r.bytes_per_parameter:g}", f"{r.bytes / GB:g}") for r in found.rows)
    yield Table(f"{found.model}: {found.parameters:,} parameters, states of training, unsharded", columns, rows)
    yield Paragraph("Additional, not in the table:", "bold")
    for words in found.additional:
        yield Paragraph(f"- {words}", indent=2, tight=True)


def _headline(plan: MemoryPlan) -> str:
    where = f" on {plan.system}" if plan.system else ""
    stage = f", stage {plan.stage}" if "pp=" in plan.plan else ""
    software = f"{plan.stack}, {plan.recipe}, loss {plan.loss}"
    return f"{plan.model}{where}, {plan.plan}, {software}: the fullest rank{stage} peaks at {plan.peak_at}{_unit(plan)}."


def _unit(plan: MemoryPlan) -> str:
    return "" if plan.peak_unit is None else f" ({plan.peak_unit})"


def _verdict(plan: MemoryPlan) -> str:
    low, high = plan.low_bytes / GIB, plan.high_bytes / GIB
    words = f"{plan.total_bytes / GIB:.1f} GiB (between {low:.1f} and {high:.1f}) of {plan.capacity_bytes / GIB:.1f}"
    if not plan.fits:
        sure = " even at the lower bound" if plan.low_bytes > plan.capacity_bytes else ""
        return f"Does not fit{sure}: {words}, {-plan.headroom_bytes / GIB:.1f} GiB too much."
    tight = "; the upper bound does not fit" if plan.high_bytes > plan.capacity_bytes else ""
    return f"Fits: {words}, {plan.headroom_bytes / GIB:.1f} GiB left{tight}."


def _terms(plan: MemoryPlan) -> Table:
    columns = (
        Column("term"),
        Column("GiB", right=True),
        Column("low", right=True),
        Column("high", right=True),
        Column("formula", wraps=True),
    )
    rows = []
    sums = (
        ("tensor", "allocated", plan.allocated_bytes),
        ("allocator", "reserved", plan.reserved_bytes),
        ("outside", "in use (nvidia-smi)", plan.total_bytes),
    )
    for place, name, size in sums:
        rows += [(t.term, _gib(t.bytes), _gib(t.low), _gib(t.high), t.formula) for t in plan.terms if t.place == place]
        rows.append((f"= {name}", _gib(size), "", "", ""))
    return Table("What takes the bytes", columns, tuple(rows))


def _moments(plan: MemoryPlan) -> Table:
    columns = (Column("moment"), Column("allocated GiB", right=True), Column("unit at work"))
    rows = tuple((m.name, _gib(m.allocated_bytes), m.unit) for m in plan.moments)
    return Table("When", columns, rows)


def _advice(advice: Sequence[Advice]) -> Table:
    columns = (
        Column("change"),
        Column("saves GiB", right=True),
        Column("step ms", right=True),
        Column("fits"),
        Column("how", wraps=True),
    )
    rows = tuple((a.change, _gib(a.saves_bytes), _ms(a.step_cost_ns), "yes" if a.fits else "no", a.why) for a in advice)
    return Table(
        "What would help, one change at a time", columns, rows, ("step ms: longer at the same tokens for each GPU, simulated",)
    )


def _walk(walk: Sequence[Walk]) -> Table:
    names = ("change", "ranks", "GiB", "saved GiB", "step ms", "lost ms", "exposed ms")
    rows = tuple(
        (w.why, w.ranks, _gib(w.total_bytes), _gib(w.saved_bytes), _plain(w.step_ns), _ms(w.lost_ns), _plain(w.exposed_ns))
        for w in walk
    )
    note = (
        f"{walk[-1].plan} fits"
        if walk[-1].fits
        else "nothing on this walk fits: checkpoint activations (ac=full), shorten seq, or add tp"
    )
    return Table("What fits", tuple(Column(n, right=i > 0) for i, n in enumerate(names)), rows, (note,))


def _checkpoint(found: CheckpointPlan) -> Table:
    rows = [
        ("written, all ranks", units.size(found.total_bytes)),
        ("written by a rank", units.size(found.rank_bytes)),
        ("the write", units.duration(found.write_ns)),
        ("the step waits, synchronous", units.duration(found.stall_sync_ns)),
        ("the step waits, asynchronous", units.duration(found.stall_async_ns)),
        ("between failures", _long(found.mtbf_ns)),
        ("interval, Young", _long(found.interval_ns)),
        ("interval, most available", _long(found.interval_available_ns)),
    ]
    if found.interval_tolerable_ns is not None:
        rows.append(("interval, by the loss allowed", _long(found.interval_tolerable_ns)))
    rows.append(("lost to saves and failures", "-" if found.lost_share is None else f"{100 * found.lost_share:.2g} %"))
    return Table("A checkpoint", (Column("what"), Column("figure", right=True)), tuple(rows), found.notes)


def _compared(shown: Shown) -> Table:
    columns = (
        Column("what"),
        Column("measured GiB", right=True),
        Column("planned GiB", right=True),
        Column("planned is", right=True),
    )
    rows = tuple((c.what, _gib(c.measured_bytes), _gib(c.planned_bytes), _error(c)) for c in shown.compared)
    return Table(f"Measured in {shown.measured_from} beside planned", columns, rows)


def _micro_batch(most: int) -> str:
    return f"The largest micro-batch that fits is {most}." if most else "Not even a micro-batch of one sequence fits."


def _error(row: Compared) -> str:
    return "-" if row.error is None else f"{100 * row.error:+.1f} %"


def _gib(size: int | None) -> str:
    if size is None:
        return "-"
    return f"{size / GIB:.2f}" if abs(size) >= 0.005 * GIB or not size else "<0.01"


def _ms(ns: int | None) -> str:
    return "-" if ns is None else f"{ns / NS_PER_MS:+.1f}"


def _plain(ns: int | None) -> str:
    return "-" if ns is None else f"{ns / NS_PER_MS:.1f}"


def _long(ns: int | None) -> str:
    """Hours or days, which durations of steps do not reach."""
    if ns is None:
        return "-"
    seconds = ns / 1e9
    for name, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"
