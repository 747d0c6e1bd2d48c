"""Where does a simulated step go, straight from the engine's times? The definition of the parts, over a rank's operations.

The first that applies at an instant: compute (its phase), communication (waiting until the last member has joined, then moving),
a copy, the host inside loader or save, the host before a launch, nothing. Spans of a Run give the same answer in more detail:
between two kernels of a unit they tell a late launch (host_bound) from its latency (idle).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepscope.model.words import PARTS
from stepscope.simulator.engine import StepTimes
from stepscope.simulator.work import Work

Array = NDArray[np.float64]

_PART: Final = {part: i for i, part in enumerate(PARTS)}
_UPDATE: Final = {"optimizer": "optimizer", "gradient norm": "other_compute", "clip": "other_compute"}


def parts_ns(work: Work, times: StepTimes, rank: int = 0) -> dict[str, int]:
    """ns of each part of one rank's step; they sum to the host's step, rounded."""
    first, last = float(times.host_start[rank]), float(times.host_end[rank])
    layers = _layers(work, times, rank)
    edges = np.unique(np.clip(np.concatenate([[first, last], *(np.concatenate(spans) for _, spans in layers)]), first, last))
    owner = np.full(len(edges) - 1, _PART["idle"])
    open_ = np.ones(len(owner), dtype=bool)
    for part, (begin, end) in layers:
        covered = _covered(edges, begin, end) & open_
        owner[covered] = _PART[part]
        open_ &= ~covered
    totals = np.bincount(owner, weights=np.diff(edges), minlength=len(PARTS))
    whole = np.floor(totals).astype(np.int64)
    whole[np.argmax(totals)] += round(last - first) - int(whole.sum())
    return dict(zip(PARTS, whole.tolist(), strict=True))


def exposed_ns(parts: dict[str, int]) -> int:
    """Communication that no compute hides."""
    return parts["comm_wait"] + parts["comm_transfer"] + parts["comm_unsplit"]


def _layers(work: Work, times: StepTimes, rank: int) -> list[tuple[str, tuple[Array, Array]]]:
    """(part, intervals) in the order of precedence. A collective's copy-in is computing, in the pass it belongs to."""
    ops = work.program.ops
    lead = np.array([np.broadcast_to(code.lead_ns, times.host_start.shape)[rank] for code in work.codes])
    start, begin, end, issue = (a[:, rank] for a in (times.start, times.begin, times.end, times.issue))
    kinds = np.array([op.kind for op in ops])
    phases = np.array([_UPDATE.get(op.name, op.pass_ or "other_compute") for op in ops])
    compute, moving = kinds == "compute", kinds == "collective"
    busy = _busy_until(work, times, rank)
    found = [(phase, (start[m], busy[m])) for phase in ("forward", "backward", "optimizer", "other_compute")
             if (m := compute & (phases == phase)).any()]  # fmt: skip
    found += [(phase, (start[m] - lead[m], start[m])) for phase in ("forward", "backward")
              if (m := (lead > 0) & (phases == phase)).any()]  # fmt: skip
    found.append(("comm_transfer", (begin[moving], end[moving])))
    found.append(("comm_wait", (start[moving], begin[moving])))
    copies, batches, saves = kinds == "copy", kinds == "input", kinds == "save"
    found.append(("input_wait", (start[copies], end[copies])))
    found.append(("input_wait", (start[batches], end[batches])))
    found.append(("checkpoint", (start[saves], end[saves])))
    device = compute | moving | copies
    launched = issue[device]
    busy_until = np.maximum.accumulate(np.concatenate([[times.host_start[rank]], end[device]]))[:-1]
    found.append(("host_bound", (busy_until, np.maximum(launched, busy_until))))
    found.append(("host_bound", (busy[compute], end[compute])))
    return found


def _busy_until(work: Work, times: StepTimes, rank: int) -> Array:
    """The end of each computation less what its kernels stood for want of a launch: a unit that ends with its last launch."""
    codes = work.codes
    pace = float(np.broadcast_to(times.host_pace, times.host_start.shape)[rank])
    issue, start, end = times.issue[:, rank], times.start[:, rank], times.end[:, rank]
    host = np.array([code.host_ns for code in codes]) * pace
    tail, own = (
        np.array([float(np.broadcast_to(getattr(code, name), times.host_start.shape)[rank]) for code in codes])
        for name in ("tail_ns", "duration")
    )
    late = (end - (issue + host + tail) < 1) & (tail > 0)
    return np.where(late, np.minimum(start + own, end), end)


def _covered(edges: Array, begin: Array, end: Array) -> NDArray[np.bool_]:
    """Which intervals between edges lie in the union of [begin, end)."""
    depth = np.zeros(len(edges) + 1)
    real = end > begin
    np.add.at(depth, np.searchsorted(edges, np.clip(begin[real], edges[0], edges[-1])), 1)
    np.add.at(depth, np.searchsorted(edges, np.clip(end[real], edges[0], edges[-1])), -1)
    covered: NDArray[np.bool_] = np.cumsum(depth)[: len(edges) - 1] > 0
    return covered
