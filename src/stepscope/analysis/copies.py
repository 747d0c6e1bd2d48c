"""Which host-to-device copies bring the batch: those count as input, all others as copies.

A copy is the batch's where it was issued inside the loader (or a range named for it), by no phase at all (a prefetcher),
or by the training thread before the first forward kernel of its step.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from stepscope.analysis import rules
from stepscope.analysis.phases import Bools, Hosts
from stepscope.model.info import Step
from stepscope.model.spans import RankTables

_TO_DEVICE = re.compile(r"HtoD|Host -> Device|HostToDevice|H2D", re.IGNORECASE)


def batch_copies(tables: RankTables, host: Hosts, phase: rules.Codes, steps: list[Step]) -> Bools:
    """True for the device rows that copy the batch."""
    spans = tables.spans
    copies = (spans["kind"] == "memcpy").to_numpy() & host.rows_named(_TO_DEVICE.search)
    if not copies.any():
        return copies
    launched = np.full(len(copies), -1, dtype=np.int64)
    edges = tables.edges.filter(pl.col("kind") == "launch")
    launched[edges["target"].to_numpy()] = edges["source"].to_numpy()
    at = np.where(launched >= 0, host.start[launched], host.start)
    first = _first_forward(spans, phase, launched, at, steps)
    starts = np.array([s.start_ns for s in steps], dtype=np.int64)
    step = np.maximum(np.searchsorted(starts, at, side="right") - 1, 0)
    early = (phase == rules.FORWARD) & (at < first[step]) & np.where(launched >= 0, host.main[launched], True)
    batch: Bools = copies & ((phase == rules.INPUT) | (phase == rules.NONE) | early)
    return batch


def _first_forward(
    spans: pl.DataFrame, phase: rules.Codes, launched: rules.Codes, at: rules.Codes, steps: list[Step]
) -> rules.Codes:
    """Per step, when its first forward kernel was launched."""
    forward = np.sort(at[(spans["kind"] == "kernel").to_numpy() & (phase == rules.FORWARD)])
    first = np.full(max(1, len(steps)), np.iinfo(np.int64).max, dtype=np.int64)
    for i, step in enumerate(steps):
        low, high = np.searchsorted(forward, [step.start_ns, step.end_ns])
        if low < high:
            first[i] = forward[low]
    return first
