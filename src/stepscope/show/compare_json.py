"""compare/1: the comparison in seconds, and as rows of CSV. A null is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from stepscope.model.compare import Comparison, Delta, RankDelta
from stepscope.model.table import Column, Table
from stepscope.model.throughput import Throughput, weak_scaling
from stepscope.show import csv
from stepscope.show.growth import culprits, sentence

NS_PER_S = 1_000_000_000


def document(found: Comparison, gate: dict[str, Any] | None = None) -> dict[str, Any]:
    """The deltas of `parts` sum to `step_delta_s`; `gate` is null where no limit was set."""
    return {
        "schema": "compare/1",
        "same_workload": found.same_workload,
        "differences": [d.text for d in found.differences],
        "difference_details": [{"kind": d.kind, "text": d.text, "decisive": d.decisive} for d in found.differences],
        "sentence": sentence(found),
        "step_base_s": _seconds(found.base_step_ns),
        "step_run_s": _seconds(found.run_step_ns),
        "step_delta_s": _seconds(found.step_delta_ns),
        "step_low_s": _seconds(found.step.low_ns),
        "step_high_s": _seconds(found.step.high_ns),
        "step_significant": found.step.significant,
        "parts": [_delta(d) for d in found.parts],
        "per_token": _deltas(found.per_token),
        "per_batch": _deltas(found.per_batch),
        "tokens_per_step": {"base": found.tokens[0], "run": found.tokens[1]},
        "throughput": None if found.throughput is None else _throughput(*found.throughput),
        "ranks": [_rank(r) for r in found.ranks],
        "ranks_that_stand_out": [r.rank for r in culprits(found)],
        "phases": [
            {
                "phase": p.phase,
                "inspect": [{"signal": s.signal, "base": s.base, "run": s.run, "unit": s.unit} for s in p.inspect],
            }
            for p in found.phases
        ],
        "steps": {"base": list(found.step_numbers[0]), "run": list(found.step_numbers[1])},
        "notes": list(found.notes),
        "warnings": list(found.warnings),
        "gate": gate,
    }


def rows(found: Comparison) -> str:
    """CSV: one row per part, then `step`: part, base_s, run_s, delta_s, low_s, high_s, significant."""
    names = ("part", "base_s", "run_s", "delta_s", "low_s", "high_s", "significant")
    cells = [_delta(d) for d in (*found.parts, found.step)]
    words = {True: "true", False: "false", None: None}
    table = tuple(tuple(words[c[n]] if n == "significant" else c[n] for n in names) for c in cells)
    return csv.table(Table("", tuple(Column(n) for n in names), table))


def _throughput(base: Throughput, run: Throughput) -> dict[str, Any]:
    """Of both, and how well the larger job scales against the smaller."""
    return {"base": _speed(base), "run": _speed(run), "weak_scaling": weak_scaling(base, run)}


def _speed(found: Throughput) -> dict[str, Any]:
    return {
        "ranks": found.ranks,
        "tokens_per_step": found.slots,
        "nonpad_tokens_per_step": found.nonpad,
        "loss_tokens_per_step": found.loss,
        "tokens_per_s": found.tokens_per_s,
        "tokens_per_s_per_gpu": found.tokens_per_s_per_gpu,
        "filled": found.filled,
        "mfu": found.mfu or None,
        "hfu": found.hfu or None,
    }


def _deltas(found: Sequence[Delta] | None) -> list[dict[str, Any]] | None:
    """Without the entry `step`, so that these too sum to its delta."""
    return None if found is None else [_delta(d) for d in found if d.part != "step"]


def _delta(delta: Delta) -> dict[str, Any]:
    return {
        "part": delta.part,
        "base_s": _seconds(delta.base_ns),
        "run_s": _seconds(delta.run_ns),
        "delta_s": _seconds(delta.delta_ns),
        "low_s": _seconds(delta.low_ns),
        "high_s": _seconds(delta.high_ns),
        "significant": delta.significant,
    }


def _rank(rank: RankDelta) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "base_s": _seconds(rank.base_ns),
        "run_s": _seconds(rank.run_ns),
        "delta_s": _seconds(rank.delta_ns),
        "own_base_s": _seconds(rank.own_base_ns),
        "own_run_s": _seconds(rank.own_run_ns),
        "own_delta_s": _seconds(rank.own_delta_ns),
        "own_parts_delta_s": {part: _seconds(ns) for part, ns in rank.own_parts.items()},
        "own_significant": rank.clear,
    }


def _seconds(ns: Fraction | float | None) -> float | None:
    return None if ns is None else float(ns / NS_PER_S)
