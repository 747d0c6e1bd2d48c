"""Where does a job stand that stopped? Per process group the last collective that some ranks joined and others did not.

Own sequence numbers, in the order in which each rank issued. Only asked of a job that stalled or lost a rank: while one runs, its
ranks' segments are written at different times. What a killed rank had not written yet (at most a step) is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import polars as pl

from stepscope.model.info import Gap, Group
from stepscope.sources.live.segments import Process


def has_stopped(found: Sequence[Process]) -> bool:
    """Did a rank tell of a stall, or end without an end while others came to theirs? Of a damaged recording nobody can say."""
    if any(p.damaged for p in found):
        return False
    return any(p.stalls for p in found) or len({p.ended for p in found}) > 1


def standing(collectives: pl.DataFrame, groups: Sequence[Group]) -> list[Gap]:
    """Who is missing at which operation, or calls another one than the rest. `collectives` by COLLECTIVES."""
    found = []
    for group in groups:
        own = collectives.filter((pl.col("group") == group.group) & pl.col("seq").is_not_null()).sort("seq")
        last = {r: (int(s), str(op)) for r, s, op in own.group_by("rank").last().select("rank", "seq", "op").iter_rows()}
        if len(group.ranks) < 2 or not last:
            continue
        top = max(seq for seq, _ in last.values())
        here = {rank: op for rank, (seq, op) in last.items() if seq == top}
        usual, calls = Counter(here.values()).most_common(1)[0]
        what = f"number {top} of group {group.group}"
        if away := tuple(rank for rank in group.ranks if rank not in here):
            before = ", ".join(dict.fromkeys(f"{last[r][1]} {last[r][0]}" if r in last else "none" for r in away[:4]))
            joined = f"{usual}, {what}, was joined by {len(here)} of {len(group.ranks)} ranks"
            found.append(Gap("missing from a collective", away, f"{joined}; the last that is known of the others: {before}"))
        if others := tuple(rank for rank, op in here.items() if op != usual):
            said = ", ".join(sorted({here[rank] for rank in others}))
            why = f"{said} where {calls} of {len(group.ranks)} ranks call {usual}, {what}"
            found.append(Gap("another collective", others, why))
    return found
