"""What is one rank's time accounted to? The value that the device's and the host's rules both give, and what they share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.columns import PART, UNKNOWN_TIME
from stepscope.analysis.intervals import IntArray, Intervals, whole_numbers
from stepscope.analysis.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Account:
    """One rank's time.

    `parts`: PART labels, without a hole over the time asked for. `compute`, `communication`: instants over all that is
    recorded; they overlap. `waits` (CPU rank): when the training thread stood, labelled with the collective's row.
    `held` (GPU rank): when a launched kernel did not run and no other did; None where launches are not recorded.
    """

    parts: Timeline
    compute: Intervals
    communication: Intervals
    waits: Timeline | None = None
    held: Intervals | None = None

    def blocked_ns(self, rows: IntArray, starts: IntArray, ends: IntArray) -> IntArray | None:
        """Of each collective (its row, start and end) the ns in which it held compute back; None where that is unknown."""
        if self.waits is not None:
            most = max(rows.max(initial=0), self.waits.labels.max(initial=0))
            return whole_numbers(self.waits.totals_ns(int(most) + 1)[rows])
        return None if self.held is None else self.held.covered_ns(starts, ends)


def split(owned: Timeline, cut: IntArray) -> Timeline:
    """Communication as PART labels: `comm_wait` until the cut, `comm_transfer` after it, `comm_unsplit` where it is unknown.

    `owned` is labelled with places in `cut`, which holds for each collective when its last peer was there (ns).
    """
    at = cut[owned.labels]
    whole = np.where(at == UNKNOWN_TIME, owned.ends, np.clip(at, owned.starts, owned.ends))
    first = np.where(at == UNKNOWN_TIME, PART["comm_unsplit"], PART["comm_wait"])
    return Timeline.of(
        np.concatenate([owned.starts, whole]),
        np.concatenate([whole, owned.ends]),
        np.concatenate([first, np.full(len(owned), PART["comm_transfer"])]),
    )
