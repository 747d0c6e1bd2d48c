"""Did two runs do the same work? What they issue per step and rank, compared; times play no part in it.

Two runs are of one workload where world size, tokens, collectives (operation, size, ranks) and the operators of forward,
backward and optimizer agree. Kernels are compared too but do not decide: libraries choose among kernels by measuring, so
their names differ between runs of one job. Nor do the device, versions, or absent traces decide. Operators of the loader
and of saves do not count (with other workers they run elsewhere), nor do those that an operator calls in turn.

Not known: shapes, where sizes of collectives and names of operators do not show them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from stepscope.model.compare import Difference
from stepscope.model.info import RunInfo, Step
from stepscope.model.spans import RankTables

SAME: Final = 0.02  # share of all operators (kernels) whose counts may differ: a step's first and last ones fall either side
A_FEW: Final = 0.5  # of a collective per step and rank: one at the edge of a window
COMPUTE_PHASES: Final = ("forward", "backward", "optimizer")
VARYING: Final = ("all_to_all", "send_recv", "gather", "scatter", "unknown")  # sizes follow the data
NAMED: Final = 5
LONGEST_NAME: Final = 60

Key = tuple[str, int | None, int | None]


@dataclass(slots=True)
class Workload:
    """Counts over `rank_steps` steps of single ranks: collectives by (operation, bytes, ranks), operators, kernels, launches."""

    info: RunInfo
    tokens: int | None = None
    rank_steps: int = 0
    collectives: Counter[Key] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    kernels: Counter[str] = field(default_factory=Counter)
    launches: int = 0

    def add(self, tables: RankTables, steps: Sequence[Step]) -> None:
        """Counts what one rank issued in these steps."""
        inside = in_steps(tables.spans["start_ns"], steps)
        spans = tables.spans.select("name", "kind").with_columns(
            tables.attribution["phase"], inside=inside, outer=_outer_operators(tables.spans)
        )
        spans = spans.filter("inside")
        self.rank_steps += len(steps)
        operators = spans.filter(pl.col("outer") & pl.col("phase").cast(pl.String).is_in(COMPUTE_PHASES))
        self.operators.update(_counts(operators))
        self.kernels.update(_counts(spans.filter(pl.col("kind") == "kernel")))
        self.launches += spans.filter((pl.col("kind") == "runtime") & pl.col("name").str.contains("Launch")).height
        rows = tables.collectives
        rows = rows.filter(in_steps(rows["arrive_ns"].fill_null(rows["end_ns"]), steps)) if rows.height else rows
        for op, size, ranks in rows.select("op", "bytes", "group_size").iter_rows():
            self.collectives[op or "unknown", None if op in VARYING else size, ranks] += 1

    def per_step(self, count: int) -> float:
        return count / self.rank_steps if self.rank_steps else 0.0


def differences(base: Workload, run: Workload) -> tuple[Difference, ...]:
    """In plain words, those that decide first."""
    found = [*_facts(base, run), *_collectives(base, run)]
    found += _names("operators", base, run, base.operators, run.operators, decisive=True)
    found += _names("kernels", base, run, base.kernels, run.kernels, decisive=False)
    one, two = base.per_step(base.launches), run.per_step(run.launches)
    if abs(one - two) > SAME * max(one, two):
        found.append(Difference("launches", f"the run launches {two:,.0f} kernels a step, the base {one:,.0f}", False))
    return tuple(sorted(found, key=lambda d: not d.decisive))


def in_steps(times: pl.Series, steps: Sequence[Step]) -> pl.Series:
    """Which times lie in one of the steps; an unknown one in none."""
    order = sorted(steps, key=lambda s: s.start_ns)
    starts = np.array([s.start_ns for s in order], dtype=np.int64)
    ends = np.array([s.end_ns for s in order], dtype=np.int64)
    at = times.fill_null(np.iinfo(np.int64).min).to_numpy()
    if not len(starts):
        return pl.Series("inside", np.zeros(len(at), dtype=bool))
    place = np.searchsorted(starts, at, side="right") - 1
    return pl.Series("inside", (place >= 0) & (at < ends[np.maximum(place, 0)]))


def _outer_operators(spans: pl.DataFrame) -> pl.Series:
    """Operators that no operator called: what those call in turn changes with the version."""
    is_op = (spans["kind"] == "op").fill_null(False).to_numpy()
    parent = spans["parent"].fill_null(-1).to_numpy()
    known = (parent >= 0) & (parent < len(is_op))
    return pl.Series("outer", is_op & ~(known & is_op[np.where(known, parent, 0)]) if len(is_op) else is_op)


def _counts(spans: pl.DataFrame) -> dict[str, int]:
    return {name: count for name, count in spans.group_by("name").len().iter_rows() if name is not None}


def _facts(base: Workload, run: Workload) -> list[Difference]:
    one, two = base.info, run.info
    found = []
    known = one.world_size is not None and two.world_size is not None
    if known and one.world_size != two.world_size:
        found.append(Difference("world_size", f"the run has {two.world_size:,} ranks, the base {one.world_size:,}", True))
    here, there = ({r.rank for r in info.ranks} for info in (one, two))
    if here != there:
        text = f"traces of {len(there):,} of the run's ranks are there, of {len(here):,} of the base's"
        if len(here) == len(there):
            text = f"other ranks are recorded: {len(there - here):,} of the run's are not in the base"
        found.append(Difference("ranks", text, not known))
    if base.tokens is not None and run.tokens is not None and base.tokens != run.tokens:
        text = f"the run handles {run.tokens:,} tokens a step, the base {base.tokens:,}"
        found.append(Difference("tokens", text, True))
    for kind, words in (("device", ("ran on", "on")), ("versions", ("was made with", "with"))):
        a, b = (_described(info, kind) for info in (one, two))
        if a and b and a != b:
            found.append(Difference(kind, f"the run {words[0]} {b}, the base {words[1]} {a}", False))
    return found


def _described(info: RunInfo, kind: str) -> str:
    if kind == "device":
        return ", ".join(sorted({r.device_name[:LONGEST_NAME] for r in info.ranks if r.device_name}))
    versions = {f"{name} {version}"[:LONGEST_NAME] for r in info.ranks for name, version in r.versions.items()}
    return ", ".join(sorted(versions)[:NAMED])


def _collectives(base: Workload, run: Workload) -> list[Difference]:
    texts = []
    keys = sorted(base.collectives.keys() | run.collectives.keys(), key=lambda k: (k[0], -(k[1] or 0), k[2] or 0))
    for key in keys:
        one, two = base.per_step(base.collectives[key]), run.per_step(run.collectives[key])
        if abs(one - two) > max(A_FEW, SAME * max(one, two)):
            op, size, ranks = key
            what = op + (f" of {_size(size)}" if size is not None else "") + (f" over {ranks} ranks" if ranks else "")
            texts.append((abs(one - two), f"the run issues {_number(two)} {what} a step, the base {_number(one)}"))
    texts.sort(key=lambda t: -t[0])
    found = [Difference("collectives", text, True) for _, text in texts[:NAMED]]
    if len(texts) > NAMED:
        found.append(Difference("collectives", f"and {len(texts) - NAMED} more kinds of collective differ in number", True))
    return found


def _names(
    kind: str, base: Workload, run: Workload, one: Counter[str], two: Counter[str], decisive: bool
) -> list[Difference]:  # fmt: skip
    """One difference where more than SAME of all counts are other ones, naming the largest."""
    if not one or not two:
        if bool(one) == bool(two):
            return []
        with_them, without = ("base", "run") if one else ("run", "base")
        return [Difference(kind, f"the {with_them} recorded {kind}, the {without} none", False)]
    apart = {name: run.per_step(two[name]) - base.per_step(one[name]) for name in one.keys() | two.keys()}
    whole = max(base.per_step(one.total()), run.per_step(two.total()))
    share = sum(map(abs, apart.values())) / whole
    if share <= SAME:
        return []
    most = sorted(apart, key=lambda n: (-abs(apart[n]), n))[:3]
    named = ", ".join(
        f"{_short(n)} ({_number(base.per_step(one[n]))} to {_number(run.per_step(two[n]))})" for n in most if apart[n]
    )
    total = f"{_number(base.per_step(one.total()))} to {_number(run.per_step(two.total()))}"
    return [Difference(kind, f"other {kind} per step, from the base to the run: {total} in all, most of all {named}", decisive)]


def _number(count: float) -> str:
    if not count:
        return "none"
    return f"{count:,.0f}" if count >= 10 or abs(count - round(count)) < 0.05 else f"{count:.1f}"


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 2] + ".."
