"""simulate/1: the step of a simulated job in seconds and bytes; a sweep as points; CSV of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.model.prediction import Prediction
from stepscope.model.simulated import Change, Point, Simulated
from stepscope.model.table import Column, Table
from stepscope.model.words import PARTS
from stepscope.show import csv
from stepscope.show.json import Document, seconds
from stepscope.show.simulate import HONEST


def document(result: Simulated, run: str | None = None, changes: Sequence[Change] = ()) -> Document:
    """The mean over steps; `predicted_parts` sums to `step_s`."""
    return {
        "schema": "simulate/1",
        "model": result.model,
        "system": result.system,
        "plan": result.plan,
        "stack": result.stack,
        "ranks": result.ranks,
        "nodes": result.nodes,
        **_prediction(result.mean),
        "steps_s": [seconds(ns) for ns in result.steps_ns],
        "faults": list(result.faults),
        "healthy": None if result.healthy is None else _prediction(result.healthy),
        "slowdown": result.slowdown,
        "stopped": result.stopped,
        "run": run,
        "fit": [{"plan": c.plan, "ranks": c.ranks, "why": c.why, **_prediction(c.prediction)} for c in changes],
        "notes": [HONEST, *result.notes],
    }


def sweep(points: Sequence[Point]) -> Document:
    """simulate/1 of several plans: `points`, with null figures and `refused` where a plan cannot be."""
    return {"schema": "simulate/1", "points": [_point(point) for point in points], "notes": [HONEST]}


def rows(result: Simulated) -> str:
    """CSV: part, seconds, share."""
    whole = result.mean.step_ns or 1
    parts = result.mean.parts_ns
    cells = tuple((part, seconds(parts[part]), parts[part] / whole) for part in PARTS)
    return csv.table(Table("", (Column("part"), Column("mean_s"), Column("share")), cells))


def sweep_rows(points: Sequence[Point]) -> str:
    """CSV: a row per plan."""
    names = ("plan", "ranks", "step_s", "exposed_s", "tokens_per_s_per_gpu", "memory_bytes", "fits", "slowdown", "refused")
    cells = []
    for point in points:
        found = _point(point)
        cells.append(tuple(None if found[n] is None else str(found[n]).lower() if n == "fits" else found[n] for n in names))
    return csv.table(Table("", tuple(Column(name) for name in names), tuple(cells)))


def _point(point: Point) -> dict[str, Any]:
    keys = ("step_s", "exposed_s", "tokens_per_s_per_gpu", "mfu", "memory_bytes", "capacity_bytes", "fits", "tokens_per_step")
    figures = dict.fromkeys(keys) if point.prediction is None else _prediction(point.prediction)
    healthy = None if point.healthy is None else _prediction(point.healthy)
    against = {"healthy": healthy, "slowdown": point.slowdown, "refused": point.refused}
    return {"plan": point.plan, "ranks": point.ranks, **figures, **against}


def _prediction(found: Prediction) -> dict[str, Any]:
    return {
        "step_s": seconds(found.step_ns),
        "exposed_s": seconds(found.exposed_ns),
        "tokens_per_step": found.tokens,
        "tokens_per_s_per_gpu": found.tokens_per_s_per_gpu,
        "mfu": dict(found.mfu),
        "memory_bytes": found.memory_bytes,
        "capacity_bytes": found.capacity_bytes,
        "fits": found.fits,
        "predicted_parts": {part: seconds(found.parts_ns[part]) for part in PARTS},
    }
