"""plan/1: the fullest rank's memory in bytes, times in seconds; the textbook table; CSV of both."""

from __future__ import annotations

from typing import Any

from stepscope.model.memory import Advice, CheckpointPlan, Compared, MemoryPlan, Textbook, Walk
from stepscope.model.table import Column, Table
from stepscope.show import csv
from stepscope.show.json import Document, seconds
from stepscope.show.plan import HONEST, Shown


def document(shown: Shown) -> Document:
    """`per_rank` sums to `total_bytes`, what nvidia-smi would show at `peak_at`."""
    plan = shown.plan
    return {
        "schema": "plan/1",
        "model": plan.model,
        "system": plan.system,
        "plan": plan.plan,
        "stack": plan.stack,
        "recipe": plan.recipe,
        "loss": plan.loss,
        "ranks": plan.ranks,
        "stage": plan.stage,
        "parameters": plan.parameters,
        "fits": plan.fits,
        "per_rank": [_term(plan, i) for i in range(len(plan.terms))],
        "total_bytes": plan.total_bytes,
        "low_bytes": plan.low_bytes,
        "high_bytes": plan.high_bytes,
        "allocated_bytes": plan.allocated_bytes,
        "reserved_bytes": plan.reserved_bytes,
        "resting_bytes": plan.resting_bytes,
        "capacity_bytes": plan.capacity_bytes,
        "headroom_bytes": plan.headroom_bytes,
        "peak_at": plan.peak_at,
        "peak_unit": plan.peak_unit,
        "moments": [{"moment": m.name, "allocated_bytes": m.allocated_bytes, "unit": m.unit} for m in plan.moments],
        "advice": [_advice(a) for a in shown.advice],
        "largest_micro_batch": shown.largest_micro_batch,
        "fit": [_walk(w) for w in shown.walk],
        "checkpoint": None if shown.checkpoint is None else _checkpoint(shown.checkpoint),
        "measured": None
        if shown.measured_from is None
        else {"source": shown.measured_from, "figures": [_compared(c) for c in shown.compared]},
        "notes": [HONEST, *plan.notes, *shown.notes],
    }


def textbook(found: Textbook) -> Document:
    """plan/1 of the table alone."""
    rows = [{"row": r.row, "bytes_per_parameter": r.bytes_per_parameter, "bytes": r.bytes} for r in found.rows]
    return {
        "schema": "plan/1",
        "model": found.model,
        "parameters": found.parameters,
        "table": rows,
        "additional": list(found.additional),
    }


def rows(plan: MemoryPlan) -> str:
    """CSV: a row per term."""
    cells = tuple((t.term, t.place, t.bytes, t.low, t.high, t.formula) for t in plan.terms)
    return csv.table(Table("", tuple(Column(n) for n in ("term", "place", "bytes", "low", "high", "formula")), cells))


def textbook_rows(found: Textbook) -> str:
    """CSV: a row per state."""
    cells = tuple((r.row, r.bytes_per_parameter, r.bytes) for r in found.rows)
    return csv.table(Table("", (Column("row"), Column("bytes_per_parameter"), Column("bytes")), cells))


def _term(plan: MemoryPlan, i: int) -> dict[str, Any]:
    t = plan.terms[i]
    return {"term": t.term, "bytes": t.bytes, "low": t.low, "high": t.high, "formula": t.formula, "place": t.place}


def _advice(a: Advice) -> dict[str, Any]:
    return {
        "change": a.change,
        "plan": a.plan,
        "saves_bytes": a.saves_bytes,
        "step_cost_s": _s(a.step_cost_ns),
        "fits": a.fits,
        "why": a.why,
    }


def _walk(w: Walk) -> dict[str, Any]:
    return {
        "plan": w.plan, "ranks": w.ranks, "why": w.why, "total_bytes": w.total_bytes, "saved_bytes": w.saved_bytes,
        "fits": w.fits,
        "step_s": _s(w.step_ns), "lost_s": _s(w.lost_ns), "exposed_s": _s(w.exposed_ns),
    }  # fmt: skip


def _checkpoint(c: CheckpointPlan) -> dict[str, Any]:
    return {
        "total_bytes": c.total_bytes, "rank_bytes": c.rank_bytes, "write_s": _s(c.write_ns), "stall_sync_s": _s(c.stall_sync_ns),
        "stall_async_s": _s(c.stall_async_ns), "mtbf_s": _s(c.mtbf_ns), "interval_s": _s(c.interval_ns),
        "interval_available_s": _s(c.interval_available_ns), "interval_tolerable_s": _s(c.interval_tolerable_ns),
        "lost_share": c.lost_share, "notes": list(c.notes),
    }  # fmt: skip


def _compared(c: Compared) -> dict[str, Any]:
    return {"what": c.what, "measured_bytes": c.measured_bytes, "planned_bytes": c.planned_bytes, "error": c.error}


def _s(ns: int | None) -> float | None:
    return None if ns is None else seconds(ns)
