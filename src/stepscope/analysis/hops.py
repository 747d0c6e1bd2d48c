"""What happened in one step, hop by hop, from the batch to the save? The life of a step with the numbers of one rank.

One unit (the middle one) or the whole step. Reads the tables of that rank and the collectives of all; times are ns from the
step's start. What the run does not say is None, with the reason beside it.
"""

from __future__ import annotations

import polars as pl

from stepscope.analysis import hop_calls
from stepscope.analysis.arrivals import transfers_of
from stepscope.analysis.breakdown import account_for
from stepscope.analysis.columns import CollectiveColumns, SpanColumns, Transfers
from stepscope.analysis.exposure import Exposure, exposure
from stepscope.analysis.hop_calls import Call, Role
from stepscope.analysis.hop_choice import chosen_rank, chosen_step, chosen_unit, in_order
from stepscope.analysis.hop_work import Work
from stepscope.analysis.intervals import Intervals
from stepscope.analysis.routes import Routes
from stepscope.model.errors import UsageMistake
from stepscope.model.hops import ORDER, Hop, Hops
from stepscope.model.info import Step
from stepscope.model.place import place_name
from stepscope.model.run import Run
from stepscope.model.spans import RankTables

# Names are not needed: the attribution has read them.
NEEDED = (
    "id", "parent", "thread", "lane", "start_ns", "end_ns", "kind", "flags", "bytes", "flops", "part", "step", "phase", "unit",
)  # fmt: skip

PIPELINED = "the parts of a transfer (4-7, 13-16) share its window: they pipeline; their bytes are derived, as a ring moves them"
WITHOUT_UNITS = "this rank's spans name no units, so the rows are of the whole step"
ON_CPU = "a rank without a GPU: its kernels are operators of the training thread, and its collectives are not NCCL's"
CUT = "the recording cuts this step"


def hops(run: Run, step: int | None = None, unit: str | None = None, rank: int | None = None, whole_step: bool = False) -> Hops:
    """The hops of one rank and step, of one unit or of the whole step.

    By default the lowest rank, its last complete step, the middle unit. Raises UsageMistake for a rank, step or unit that is
    not there, BadInput where a table cannot be read.
    """
    if whole_step and unit is not None:
        raise UsageMistake(f"the whole step has all units: leave either --whole-step or --unit {unit} away")
    rank = chosen_rank(run, rank)
    chosen = chosen_step(run, rank, step)
    tables = run.tables(rank, NEEDED)
    mine = _collectives_of(tables.collectives, chosen)
    transfers = transfers_of(run, rank, mine["match"].drop_nulls().unique())
    spans = SpanColumns.of(tables)
    account = account_for(tables, spans, transfers)
    work = Work.of(tables, spans, account, chosen)
    columns = CollectiveColumns.of(tables, transfers)
    window = chosen.start_ns, chosen.end_ns
    shares = exposure(spans, columns, account, tables.info.main_thread, tables.collectives.height, *window)
    calls = _calls(run, rank, mine, shares, transfers, work)
    communicating = in_order([c.unit for c in calls if c.unit is not None])
    units = in_order([*communicating, *_units(tables, work)])
    unit = None if whole_step else chosen_unit(units, communicating, unit, chosen, rank)
    rows = _rows(work, calls, unit, shares.total_ns - sum(c.exposed_ns for c in calls) if unit is None else 0)
    shown = [c for c in calls if unit is None or c.unit == unit]
    communication = Intervals.of([c.start_ns for c in shown], [c.end_ns for c in shown]).clip(0, window[1] - window[0])
    compute = Intervals(account.compute.starts - window[0], account.compute.ends - window[0])
    return Hops(
        rank=rank,
        place=None if tables.info.place is None else place_name(rank, tables.info.place),
        step=chosen.step,
        unit=unit,
        step_start_ns=chosen.start_ns,
        duration_ns=chosen.end_ns - chosen.start_ns,
        complete=chosen.complete,
        hops=rows,
        units=units,
        communication_ns=communication.total_ns,
        hidden_ns=(communication & compute).total_ns,
        exposed_ns=sum(hop.exposed_ns or 0 for hop in rows),
        breakdown_exposed_ns=shares.total_ns,
        notes=_notes(rows, work, bool(units) or whole_step, chosen),
        gaps=tuple(gap for gap in run.info.gaps if not gap.ranks or rank in gap.ranks),
        origin=run.info.origin,
    )


def _collectives_of(table: pl.DataFrame, step: Step) -> pl.DataFrame:
    """Collectives of the rank that lie in the step, in part at least; `row` is their place in its table."""
    return (
        table.with_row_index("row")
        .drop_nulls(["arrive_ns", "end_ns"])
        .filter((pl.col("end_ns") >= pl.col("arrive_ns")) & (pl.col("arrive_ns") < step.end_ns))
        .filter((pl.col("arrive_ns") >= step.start_ns) | (pl.col("end_ns") > step.start_ns))
        .sort("arrive_ns", "row")
    )


def _calls(run: Run, rank: int, mine: pl.DataFrame, shares: Exposure, transfers: Transfers, work: Work) -> list[Call]:
    routes = Routes(run.info, rank)
    known, start = transfers.get(rank, {}), work.step.start_ns
    backward_from = work.backward_from_ns()
    present = _present(run, mine, routes)
    calls = []
    for row in mine.iter_rows(named=True):
        group = routes.group_of(row["group"])
        size = 0 if row["op"] == "barrier" and row["bytes"] is None else row["bytes"]
        expected = row["expected"] if row["expected"] is not None else row["group_size"]
        calls.append(
            Call(
                row=row["row"],
                op=row["op"] or "unknown",
                axis=None if group is None else group.axis,
                unit=row["unit"],
                role=_role(row["op"], row["pass"], row["unit"], row["arrive_ns"] >= backward_from),
                begun=row["arrive_ns"] >= start,
                bytes=size,
                start_ns=row["arrive_ns"] - start,
                end_ns=row["end_ns"] - start,
                transfer_ns=known.get(row["id"]),
                exposed_ns=int(shares.by_row[row["row"]]),
                route=routes.of(row["op"] or "unknown", size, row["group"], expected, present.get(row["match"], ())),
            )
        )
    return calls


def _present(run: Run, mine: pl.DataFrame, routes: Routes) -> dict[int, tuple[int, ...]]:
    """Of the collectives whose group nobody names, the ranks that they were matched on."""
    unnamed = [name for name in mine["group"].unique().to_list() if routes.group_of(name) is None]
    lost = mine.filter(
        pl.col("group").is_in([n for n in unnamed if n is not None]) | (pl.col("group").is_null() & (None in unnamed))
    )
    matches = lost["match"].drop_nulls().unique()
    if not len(matches):
        return {}
    ranks = (
        run.collectives().filter(pl.col("match").is_in(matches.implode())).group_by("match").agg(pl.col("rank").unique().sort())
    )
    return {match: tuple(found) for match, found in ranks.iter_rows()}


def _role(op: str | None, pass_: str | None, unit: str | None, late: bool) -> Role:
    """What a collective is for: its pass says; a unit's gather without a pass is backward's once that has begun."""
    if pass_ == "forward":
        return "forward"
    if op == "all_gather" and (pass_ == "backward" or unit is not None):
        return "backward" if pass_ == "backward" or late else "forward"
    return "reduce"


def _units(tables: RankTables, work: Work) -> list[str]:
    found: list[str] = tables.attribution["unit"].filter(pl.Series(work.started)).drop_nulls().unique().to_list()
    return found


def _rows(work: Work, calls: list[Call], unit: str | None, unowned_ns: int) -> tuple[Hop, ...]:
    found = [
        work.batch(),
        work.call(2, "forward"),
        *hop_calls.rows(calls, "forward", unit),
        work.kernels(8, "forward", unit),
        work.device(unit),
        work.call(10, "backward"),
        *hop_calls.rows(calls, "backward", unit),
        work.kernels(11, "backward", unit),
        *hop_calls.rows(calls, "reduce", unit, unowned_ns),
        work.call(17, "optimizer"),
        work.kernels(18, "optimizer", None),
        work.save(),
    ]
    assert tuple(hop.n for hop in found) == ORDER
    return tuple(found)


def _notes(rows: tuple[Hop, ...], work: Work, has_units: bool, step: Step) -> tuple[str, ...]:
    said = (
        (CUT, not step.complete),
        (WITHOUT_UNITS, not has_units),
        (PIPELINED, any(h.known == "derived" and h.bytes and h.way.source != "loop" for h in rows)),
        (ON_CPU, not work.on_device),
    )
    return tuple(text for text, applies in said if applies)
