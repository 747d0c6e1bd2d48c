"""hops/1: the life of a step in seconds and bytes, and as rows of CSV. A null is unknown, and `why` says why."""

from __future__ import annotations

from typing import Any

from stepscope.model.hops import Hop, Hops
from stepscope.model.table import Column, Table
from stepscope.show import csv
from stepscope.show.json import Document, seconds

TIMES = ("start", "end", "busy", "exposed", "stalled")
COLUMNS = (
    "n", "pass", "from", "to", "layer", "what", "unit", "count", "bytes", *(f"{time}_s" for time in TIMES), "bytes_per_s",
    "flops", "known", "why",
)  # fmt: skip


def document(found: Hops) -> Document:
    """The hops in their order; times count from `step_start_s`, which counts from the run's origin."""
    totals = {
        "step_start": found.step_start_ns,
        "duration": found.duration_ns,
        "communication": found.communication_ns,
        "hidden": found.hidden_ns,
        "exposed": found.exposed_ns,
        "breakdown_exposed": found.breakdown_exposed_ns,
    }
    return {
        "schema": "hops/1",
        "rank": found.rank,
        "place": found.place,
        "step": found.step,
        "complete": found.complete,
        "unit": found.unit,
        "whole_step": found.unit is None,
        "units": list(found.units),
        "origin": found.origin,
        **{f"{name}_s": seconds(ns) for name, ns in totals.items()},
        **{f"{name}_ns": ns for name, ns in totals.items()},
        "hops": [_hop(hop) for hop in found.hops],
        "notes": list(found.notes),
        "gaps": [{"what": g.what, "ranks": list(g.ranks), "why": g.why} for g in found.gaps],
    }


def rows(found: Hops) -> str:
    """CSV: one row per hop, by COLUMNS."""
    cells = [_hop(hop) for hop in found.hops]
    return csv.table(Table("", tuple(Column(c) for c in COLUMNS), tuple(tuple(hop[c] for c in COLUMNS) for hop in cells)))


def _hop(hop: Hop) -> dict[str, Any]:
    times = {name: getattr(hop, f"{name}_ns") for name in TIMES}
    return {
        "n": hop.n,
        "from": hop.way.source,
        "to": hop.way.target,
        "layer": hop.way.layer,
        "what": hop.what,
        "pass": hop.pass_,
        "unit": hop.unit,
        "count": hop.count,
        "bytes": hop.bytes,
        **{f"{name}_s": seconds(ns) for name, ns in times.items()},
        **{f"{name}_ns": ns for name, ns in times.items()},
        "bytes_per_s": hop.bytes_per_s,
        "flops": hop.flops,
        "known": hop.known,
        "why": hop.why,
        "operations": [
            {"op": o.op, "axis": o.axis, "count": o.count, "bytes": o.bytes, "exposed_s": seconds(o.exposed_ns)}
            for o in hop.operations
        ],
    }
