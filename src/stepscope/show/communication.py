"""Communication as tables: per rank, per operation, per unit. One unit of time a table, named in its title."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from stepscope.model.breakdown import Collective, Communication, UnitGather
from stepscope.model.table import Cell, Column, Table
from stepscope.show import units
from stepscope.show.names import NUMBERS, Names

ALL_RANKS: Final = 16  # up to here every rank has its own row
ENDS: Final = 5  # above: this many rows from each end
MOST_UNITS: Final = 12
MOST_OPS: Final = 8
MORE_THAN_CHANCE: Final = 1.5  # times its even share that a rank must be last to be named


def communication_table(rows: Sequence[Communication]) -> Table:
    """Per rank over its whole window; above `ALL_RANKS` ranks the median and the ends by exposed time."""
    unit = units.time_unit([r.window_ns for r in rows])
    columns = tuple(Column(n, right=True) for n in ("rank", "window", "compute", "total", "exposed", "hidden", "hidden share"))
    title = f"Communication per rank over its whole window, in {unit.name} (exposed: not covered by compute)"
    if len(rows) <= ALL_RANKS:
        return Table(title, columns, tuple(_rank_row(str(r.rank), r, unit) for r in rows))
    order = sorted(rows, key=lambda r: (-r.exposed_ns, r.rank))
    fields = ("window_ns", "compute_ns", "total_ns", "exposed_ns", "hidden_ns")
    middle = Communication(-1, *(int(median(getattr(r, name) for r in rows)) for name in fields))
    shown = [_rank_row(str(r.rank), r, unit) for r in order[:ENDS]]
    shown.append(_rank_row("median", middle, unit))
    shown += [_rank_row(str(r.rank), r, unit) for r in order[-ENDS:]]
    left = f"the {ENDS} most and the {ENDS} least exposed ranks; {len(rows) - 2 * ENDS:,} more: see --format json"
    return Table(title, columns, tuple(shown), (left,))


def collectives_table(collectives: Sequence[Collective], called: Names = NUMBERS) -> Table:
    """One row per operation: how often, how large, mean wait and transfer, who came last most often."""
    groups: dict[str, list[Collective]] = defaultdict(list)
    for c in collectives:
        groups[c.op].append(c)
    order = sorted(
        groups, key=lambda op: (-sum((c.wait_ns or 0) + (c.transfer_ns or 0) for c in groups[op]), -len(groups[op]), op)
    )
    shown = order[:MOST_OPS]
    times = {op: (_mean(c.wait_ns for c in groups[op]), _mean(c.transfer_ns for c in groups[op])) for op in shown}
    unit = units.time_unit(t for pair in times.values() for t in pair)
    rows = [_operation_row(op, groups[op], [unit.cell(t) for t in times[op]], called) for op in shown]
    names = ("operation", "count", "size", "wait", "transfer", "busbw", "last most often")
    known = [i for i, cells in enumerate(zip(*rows, strict=True)) if i < 2 or any(c not in (None, units.UNKNOWN) for c in cells)]
    columns = tuple(Column(names[i], right=0 < i < 6) for i in known)
    notes = [f"{len(order) - MOST_OPS} more operations: see --format json"] if len(order) > MOST_OPS else []
    if len(known) < len(names):
        notes.append(f"not known from this recording: {', '.join(n for i, n in enumerate(names) if i not in known)}")
    title = "Collectives" + (f" (mean wait and transfer in {unit.name}, median size and busbw)" if {3, 4} & set(known) else "")
    return Table(title, columns, tuple(tuple(row[i] for i in known) for row in rows), tuple(notes))


def units_table(gathers: Sequence[UnitGather]) -> Table:
    """Gathers per unit and pass; of many units those that blocked compute longest."""
    rows = gathers
    if len(gathers) > ALL_RANKS:
        rows = sorted(gathers, key=lambda u: (-(u.blocked_ns or 0), u.hidden_ns - u.gather_ns))[:MOST_UNITS]
    unit = units.time_unit(u.gather_ns for u in rows)
    columns = tuple(Column(n, right=i > 1) for i, n in enumerate(("unit", "pass", "gather", "hidden", "blocked", "hidden share")))
    left = len(gathers) - len(rows)
    notes = (f"the units that blocked compute longest; {left:,} more: see --format json",) if left else ()
    title = f"Parameter gathers per unit, in {unit.name} (mean per step and rank)"
    return Table(title, columns, tuple(_unit_row(u, unit) for u in rows), notes)


def _rank_row(name: str, r: Communication, unit: units.TimeUnit) -> tuple[str, ...]:
    times = (unit.cell(v) for v in (r.window_ns, r.compute_ns, r.total_ns, r.exposed_ns, r.hidden_ns))
    return (name, *times, units.percent(r.hidden_ns, r.total_ns))


def _operation_row(op: str, calls: Sequence[Collective], times: Sequence[str], called: Names) -> tuple[Cell, ...]:
    busbw = [c.busbw_bytes_per_s for c in calls if c.busbw_bytes_per_s is not None]
    sizes = [c.bytes for c in calls if c.bytes is not None]
    size, speed = (median(sizes) if sizes else None, median(busbw) if busbw else None)
    wait, transfer = times
    if wait != units.UNKNOWN and all(c.transfer_ns is None for c in calls):
        wait = f">= {wait}"  # peers are missing: a lower bound
    return (op, f"{len(calls):,}", units.size(size), wait, transfer, units.rate(speed), _most_often_last(calls, called))


def _most_often_last(calls: Sequence[Collective], called: Names) -> str | None:
    """The rank that is last clearly more often than chance makes one; None where none is."""
    known = [(c.last_rank, c.n_ranks) for c in calls if c.last_rank is not None]
    if not known:
        return None
    rank, times = Counter(last for last, _ in known).most_common(1)[0]
    chance = sum(1 / ranks for _, ranks in known)
    return f"{called(rank)}, {times:,} of {len(known):,}" if times > max(1, MORE_THAN_CHANCE * chance) else None


def _unit_row(u: UnitGather, unit: units.TimeUnit) -> tuple[Cell, ...]:
    times = (unit.cell(v) for v in (u.gather_ns, u.hidden_ns, u.blocked_ns))
    return (u.unit, u.pass_, *times, units.percent(u.hidden_ns, u.gather_ns))


def _mean(values: Iterable[int | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None
