"""Which FSDP unit a host span serves: the range that names it, else the unit whose forward or backward is under way."""

from __future__ import annotations

import numpy as np

from stepscope.analysis import rules
from stepscope.analysis.phases import Hosts

_OPENS = {"pre_forward": "forward", "pre_backward": "backward"}
_CLOSES = {
    "post_forward": "forward",
    "post_backward_accumulate": "backward",
    "post_backward_reshard": "backward",
    "post_backward_reduce": "backward",
}
# Hooks whose unit is another one than that under way (the next unit is gathered early) still name their own range.


def unit_codes(host: Hosts) -> tuple[list[str], rules.Codes]:
    """Unit names, and per row an index into them (-1: none). FSDP1 and DDP ranges name no unit."""
    hooks = {i: found for i, n in enumerate(host.name) if (found := rules.unit_of(n)) is not None}
    units = list(dict.fromkeys(unit for _, unit in hooks.values()))
    number = {unit: i for i, unit in enumerate(units)}
    codes = np.full(len(host.code), -1, dtype=np.int64)
    if not units:
        return units, codes
    hooked = np.isin(host.code, list(hooks)) & (host.thread >= 0)
    for thread in np.unique(host.thread[hooked]):  # the loop's, and on a GPU autograd's own
        rows = np.flatnonzero(host.thread == thread)
        starts = host.start[rows]
        for low_ns, high_ns, unit in _under_way(host, hooks, rows):
            low, high = np.searchsorted(starts, [low_ns, high_ns])
            codes[rows[low:high]] = number[unit]
    own = np.full(len(host.name), -1, dtype=np.int64)
    for code, (_, unit) in hooks.items():
        own[code] = number[unit]
    named = own[host.code]
    for level in host.levels:  # inside a hook's range its unit wins over the one under way
        above = host.parent[level]
        inherited = np.where(above >= 0, named[above], -1)
        named[level] = np.where(named[level] >= 0, named[level], inherited)
    return units, np.where(named >= 0, named, codes)


def _under_way(host: Hosts, hooks: dict[int, tuple[str, str]], rows: rules.Codes) -> list[tuple[int, int, str]]:
    """(start, end, unit) of each forward and backward of a unit, outer ones first."""
    open_at: dict[tuple[str, str], int] = {}
    closed: dict[tuple[str, str, int], int] = {}
    for row in rows[np.isin(host.code[rows], list(hooks))].tolist():
        hook, unit = hooks[int(host.code[row])]
        if hook in _OPENS:
            open_at[_OPENS[hook], unit] = int(host.start[row])
        elif hook in _CLOSES and (_CLOSES[hook], unit) in open_at:
            closed[_CLOSES[hook], unit, open_at[_CLOSES[hook], unit]] = int(host.end[row])
    return sorted((start, end, unit) for (_, unit, start), end in closed.items())
