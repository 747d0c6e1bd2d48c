"""Which collective does this rank stand in, each instant of a step that the breakdown counts as communication? Integer ns.

An instant of exposed communication belongs to one collective: on a GPU the one whose kernel started first, on a CPU rank the
one that is called, else the one that is waited for. So the shares of the collectives add up to the breakdown's parts, and
collectives that overlap are not counted twice. Time of a kernel that stands in no table of collectives belongs to nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis import host
from stepscope.analysis.account import Account
from stepscope.analysis.columns import NONE, PART, CollectiveColumns, SpanColumns
from stepscope.analysis.intervals import IntArray
from stepscope.analysis.timeline import Timeline, overlay
from stepscope.model.words import COMM_PARTS


@dataclass(frozen=True, slots=True)
class Exposure:
    """`by_row`: of each row of the rank's table of collectives, exposed ns. `total_ns` is the breakdown's of that window."""

    by_row: IntArray
    total_ns: int

    @property
    def unowned_ns(self) -> int:
        """Exposed time that no collective of the table has."""
        return self.total_ns - int(self.by_row.sum())


def exposure(
    spans: SpanColumns,
    collectives: CollectiveColumns,
    account: Account,
    main_thread: int | None,
    rows: int,
    start_ns: int,
    end_ns: int,
) -> Exposure:
    """Exposed ns in [start_ns, end_ns) of each of the `rows` collectives. `account` is that of the same spans."""
    owners = _on_host(spans, collectives, account, main_thread) if account.waits is not None else _on_device(spans, collectives)
    owners = owners.clip(start_ns, end_ns)
    parts = account.parts.clip(start_ns, end_ns)
    standing = parts.instants(PART[part] for part in COMM_PARTS)
    by_row = np.zeros(rows, dtype=np.int64)
    np.add.at(by_row, owners.labels, standing.covered_ns(owners.starts, owners.ends))
    return Exposure(by_row, standing.total_ns)


def _on_device(spans: SpanColumns, collectives: CollectiveColumns) -> Timeline:
    """The earliest-started collective kernel, as the account has it, labelled with the collective's row."""
    row = np.full(len(spans), NONE, dtype=np.int64)
    matched = collectives.on_device & (collectives.span != NONE)
    row[collectives.span[matched]] = collectives.row[matched]
    chosen = np.flatnonzero(spans.is_kind("collective"))
    kernels = Timeline.earliest(spans.start[chosen], spans.end[chosen], chosen)
    labels = row[kernels.labels]
    owned = labels != NONE
    return Timeline(kernels.starts[owned], kernels.ends[owned], labels[owned])


def _on_host(spans: SpanColumns, collectives: CollectiveColumns, account: Account, main_thread: int | None) -> Timeline:
    """The call on the training thread, else what the thread waits for."""
    calls = host.calls_on(spans, collectives, spans.training_thread(main_thread))
    named = Timeline(calls.starts, calls.ends, collectives.row[calls.labels])
    assert account.waits is not None
    return overlay(named, account.waits)
