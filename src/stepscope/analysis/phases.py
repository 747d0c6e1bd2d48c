"""The phase of every host span: the innermost range that names one, forward inside backward being recomputation.

Where no range encloses an operator, autograd's sequence number links it to its backward function; in traces too old for
both, order decides, and that is told as the gap `phase by order`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from stepscope.analysis import rules
from stepscope.analysis.steps import step_of
from stepscope.model.info import Gap, Step
from stepscope.model.spans import Marks, RankTables
from stepscope.model.words import KINDS

_OP, _ANNOTATION = KINDS.index("op"), KINDS.index("annotation")
Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(slots=True)
class Hosts:
    """Host side of one rank as arrays, a row per span. `named` is the phase that the span's own name says."""

    tables: RankTables
    name: list[str]  # unique names
    code: rules.Codes  # row -> unique name
    kind: rules.Codes  # place in KINDS
    start: rules.Codes
    end: rules.Codes
    thread: rules.Codes
    parent: rules.Codes
    sequence: rules.Codes
    named: rules.Codes
    main: Bools  # on the training thread
    levels: list[rules.Codes]  # rows by depth, top first

    @classmethod
    def of(cls, tables: RankTables, marks: Marks) -> Hosts:
        spans = tables.spans
        unique = spans["name"].unique(maintain_order=True)
        code = spans["name"].cast(pl.Enum(unique)).to_physical().to_numpy().astype(np.int64)
        kind = spans["kind"].to_physical().to_numpy().astype(np.int64)
        names = unique.to_list()
        host = (spans["lane"] == "host").to_numpy()
        pair = code * len(KINDS) + kind
        pairs, where = np.unique(pair, return_inverse=True)
        said = rules.phase_by_name([names[p // len(KINDS)] for p in pairs], [KINDS[p % len(KINDS)] for p in pairs], marks)
        named = np.array(said, dtype=np.int64)[where]
        parent = spans["parent"].fill_null(-1).to_numpy()
        thread = spans["thread"].fill_null(-1).to_numpy()
        main = host & (thread == (tables.info.main_thread if tables.info.main_thread is not None else -2))
        return cls(
            tables, names, code, kind, spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy(), thread, parent,
            spans["sequence"].fill_null(-1).to_numpy(), np.where(host, named, rules.NONE), main, _levels(parent, host),
        )  # fmt: skip

    def rows_named(self, test: Callable[[str], object]) -> Bools:
        """Rows whose name passes a test, asked once per unique name."""
        hits = [bool(test(n)) for n in self.name]
        return np.array(hits, dtype=np.bool_)[self.code]


@dataclass(slots=True)
class Phases:
    """Phase code (rules.NONE: none) and recompute flag of each row."""

    phase: rules.Codes
    recompute: Bools
    gaps: list[Gap] = field(default_factory=list)


def phases(host: Hosts, steps: list[Step]) -> Phases:
    """Phases of all host rows; device rows stay NONE and take their operator's later."""
    named = host.named.copy()
    new_autograd = bool(host.rows_named(lambda n: n.startswith(rules.EVALUATE)).any())
    if not new_autograd:
        off = ~host.main & (host.kind == _OP)
        named[off & host.rows_named(rules.OLD_BACKWARD.search) & (named == rules.NONE)] = rules.BACKWARD
        engine = np.unique(host.thread[off & (named == rules.BACKWARD)])
        named[off & np.isin(host.thread, engine) & (host.parent < 0) & (named == rules.NONE)] = rules.BACKWARD
    ranged = _module_ranges(host)
    linked = _linked(host, named, steps)
    gaps: list[Gap] = []
    has_backward = bool((named == rules.BACKWARD).any())
    if not linked.any() and not (named == rules.FORWARD).any() and has_backward and not new_autograd:
        ranged |= _by_order(host, named, steps)
        gaps.append(
            Gap(
                "phase by order",
                (),
                "nothing links forward to backward in this trace; forward is taken from the loader's end to the first backward",
            )
        )
    elif not has_backward and (host.kind == _OP).any():
        gaps.append(Gap("no backward", (), "no autograd ranges in the trace: forward-only work, or they were not recorded"))
    phase, recompute = _inherit(host, named, ranged | linked, ranged)
    return Phases(phase, recompute, gaps)


def _inherit(host: Hosts, named: rules.Codes, weak: Bools, ranged: Bools) -> tuple[rules.Codes, Bools]:
    """Top down: the own name first, then the parent's phase, then the weak forward links."""
    phase = np.full(len(named), rules.NONE, dtype=np.int64)
    recompute = np.zeros(len(named), dtype=bool)
    for rows in host.levels:
        above = host.parent[rows]
        inherited = np.where(above >= 0, phase[above], rules.NONE)
        again = np.where(above >= 0, recompute[above], False)
        own = named[rows]
        value = np.where(own != rules.NONE, own, inherited)
        in_backward = inherited == rules.BACKWARD
        again = again | (in_backward & ((own == rules.FORWARD) | (ranged[rows] & (own == rules.NONE))))
        value = np.where(in_backward & (own == rules.FORWARD), rules.BACKWARD, value)
        value = np.where((value == rules.NONE) & weak[rows], rules.FORWARD, value)
        phase[rows], recompute[rows] = value, again & (value == rules.BACKWARD)
    phase[phase == rules.OTHER] = rules.NONE
    return phase, recompute


def _levels(parent: rules.Codes, host: Bools) -> list[rules.Codes]:
    """Rows by depth: a parent always stands in an earlier list than its children."""
    depth = np.zeros(len(parent), dtype=np.int64)
    above = parent.copy()
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    rows = np.flatnonzero(host)
    order = rows[np.argsort(depth[rows], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(depth[order])) + 1) if len(order) else []


def _module_ranges(host: Hosts) -> Bools:
    """Rows of the training thread between an FSDP unit's pre_forward and its post_forward."""
    inside = np.zeros(len(host.code), dtype=bool)
    open_at: dict[str, list[int]] = {}
    hooks = {
        i: found
        for i, n in enumerate(host.name)
        if (found := rules.unit_of(n)) and found[0] in ("pre_forward", "post_forward", "root_pre_forward")
    }
    rows = np.flatnonzero(host.main)
    starts = host.start[rows]
    for row in rows[np.isin(host.code[rows], list(hooks))].tolist():
        hook, unit = hooks[int(host.code[row])]
        if hook == "pre_forward":
            open_at.setdefault(unit, []).append(int(host.start[row]))
        elif hook == "post_forward" and open_at.get(unit):
            low, high = np.searchsorted(starts, [open_at[unit].pop(), host.end[row]])
            inside[rows[low:high]] = True
    return inside


def _linked(host: Hosts, named: rules.Codes, steps: list[Step]) -> Bools:
    """Operators that made an autograd node whose backward function ran later in the same step."""
    linked = np.zeros(len(named), dtype=bool)
    numbered = (host.sequence >= 0) & (host.kind == _OP)
    backward = np.flatnonzero(numbered & (named == rules.BACKWARD))
    if not len(backward):
        return linked
    first = pl.DataFrame({"seq": host.sequence[backward], "at": host.start[backward]}).group_by("seq").agg(pl.col("at").min())
    forward = np.flatnonzero(numbered & (named != rules.BACKWARD))
    joined = pl.DataFrame({"seq": host.sequence[forward]}).join(first, on="seq", how="left", maintain_order="left")["at"]
    later = joined.fill_null(np.iinfo(np.int64).min).to_numpy()
    same = (step_of(host.start[forward], steps).fill_null(-1) == step_of(later, steps).fill_null(-2)).to_numpy()
    linked[forward[(later > host.start[forward]) & same]] = True
    return linked


def _by_order(host: Hosts, named: rules.Codes, steps: list[Step]) -> Bools:
    """In each step, the training thread from the loader's end to the first backward function."""
    inside = np.zeros(len(named), dtype=bool)
    rows = np.flatnonzero(host.main)
    starts = host.start[rows]
    backward = np.sort(host.start[named == rules.BACKWARD])
    loaders = np.flatnonzero((named == rules.INPUT) & host.main)
    for step in steps:
        low, high = np.searchsorted(backward, [step.start_ns, step.end_ns])
        if low == high:
            continue
        until = int(backward[low])
        ends = host.end[loaders[(host.start[loaders] >= step.start_ns) & (host.start[loaders] < until)]]
        begin = int(ends.max()) if len(ends) else step.start_ns
        a, b = np.searchsorted(starts, [begin, until])
        own = rows[a:b]
        inside[own[host.kind[own] != _ANNOTATION]] = True
    return inside
