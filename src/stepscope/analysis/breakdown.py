"""Where did every rank's step go? Exclusive parts that sum to the step in integer ns, and what lies beside them.

Ranks are read one at a time. What an instant counts as is said in `device` for a rank with device work and in `host` for
one without. Steps are those of the attribution; a rank without any has one step, its whole window.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from stepscope.analysis import device, host, overlap
from stepscope.analysis.account import Account
from stepscope.analysis.arrivals import arrivals
from stepscope.analysis.columns import CollectiveColumns, SpanColumns, Transfers
from stepscope.analysis.units import Gathers
from stepscope.model.breakdown import Breakdown, Communication, StepParts
from stepscope.model.info import RankInfo, Step
from stepscope.model.place import place_name
from stepscope.model.run import Run
from stepscope.model.spans import RankTables
from stepscope.model.words import PARTS

# Columns of spans and attribution that the account and the naive sum read; names tell step markers.
NEEDED = ("id", "parent", "thread", "lane", "start_ns", "end_ns", "kind", "name", "flags", "part")
STEP_MARKER = "ProfilerStep#"

NO_TRANSFERS: Transfers = {}


def breakdown(run: Run, transfers: Transfers | None = None) -> Breakdown:
    """Parts of each rank's steps, communication, groups, collectives and units of a run.

    `transfers` replaces what the arrivals tell of each rank's collectives (ns by id). One whose transfer cannot be known,
    since peers are absent, is `comm_unsplit`. Raises BadInput where a table of the run cannot be read.
    """
    found = arrivals(run)
    known = found.transfers if transfers is None else transfers
    steps: list[StepParts] = []
    communication: list[Communication] = []
    gathers = Gathers()
    for tables in _read_ahead(run):
        spans = SpanColumns.of(tables)
        account = account_for(tables, spans, known)
        steps += _steps(tables, spans, account)
        communication.append(overlap.communication(tables.info.rank, tables.info.windows, account.compute, account.communication))
        gathers.add(tables, account)
    return Breakdown(
        steps=tuple(steps),
        communication=tuple(communication),
        groups=tuple(run.info.groups),
        collectives=found.collectives,
        units=gathers.means(),
        gaps=tuple(run.info.gaps),
        places={r.rank: place_name(r.rank, r.place) for r in run.info.ranks if r.place is not None},
    )


def _read_ahead(run: Run) -> Iterator[RankTables]:
    """Tables rank by rank; the next rank's are read while this one's are worked on, so two are in memory."""
    with ThreadPoolExecutor(1) as reader:
        ahead = [reader.submit(run.tables, rank, NEEDED) for rank in run.ranks[:1]]
        for following in [*run.ranks[1:], None]:
            if not ahead:
                return
            tables = ahead.pop().result()
            if following is not None:
                ahead.append(reader.submit(run.tables, following, NEEDED))
            yield tables


def account_for(tables: RankTables, spans: SpanColumns, transfers: Transfers = NO_TRANSFERS) -> Account:
    """What one rank's time is accounted to, from its first step to the end of its last."""
    steps = steps_of(tables.info)
    start = min((step.start_ns for step in steps), default=0)
    end = max((step.end_ns for step in steps), default=start)
    collectives = CollectiveColumns.of(tables, transfers)
    has_device = tables.info.device != "cpu" and bool(spans.is_device_work.any())
    rules = device.account if has_device else host.account
    return rules(spans, collectives, tables.info.main_thread, start, end)


def steps_of(info: RankInfo) -> list[Step]:
    """The steps of a rank; one for its whole window where it has no markers, none where it recorded nothing."""
    if info.steps or not info.windows:
        return list(info.steps)
    return [Step(0, min(start for start, _ in info.windows), max(end for _, end in info.windows))]


def _steps(tables: RankTables, spans: SpanColumns, account: Account) -> list[StepParts]:
    steps = steps_of(tables.info)
    markers = tables.spans["name"].str.starts_with(STEP_MARKER).fill_null(False).to_numpy()
    naive = overlap.naive_ns(spans, markers, steps)
    return [
        StepParts(
            rank=tables.info.rank,
            step=step.step,
            duration_ns=step.end_ns - step.start_ns,
            parts_ns=_named(account, step),
            naive_ns=int(naive_ns),
            complete=step.complete,
        )
        for step, naive_ns in zip(steps, naive, strict=True)
    ]


def _named(account: Account, step: Step) -> dict[str, int]:
    return dict(zip(PARTS, account.parts.clip(step.start_ns, step.end_ns).totals_ns(len(PARTS)).tolist(), strict=True))
