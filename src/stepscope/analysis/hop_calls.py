"""The hops of communication: NCCL's collectives of one step, and the parts of their transfer in the node and between nodes.

A gather is what forward communicates, or an all-gather of backward; the rest of backward, and what no pass claims (the loss, the
norm of the gradients), is reduced. Times are ns from the step's start. The parts share the transfer's window: they pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from stepscope.analysis.intervals import Intervals
from stepscope.analysis.routes import ALONE, NO_SIZE, ONE_EACH, ONE_NODE, Route
from stepscope.model.hops import NS_PER_S, WAYS, Hop, Operation

Role = Literal["forward", "backward", "reduce"]

_FIRST: Final = {"forward": 3, "backward": 3, "reduce": 12}
_NOTHING: Final = {
    "forward": "nothing is gathered before forward",
    "backward": "nothing is gathered before backward",
    "reduce": "nothing is reduced",
}
UNSPLIT: Final = "peers were not recorded, so transfer and waiting cannot be told apart"
UNNAMED: Final = "kernels of communication that stand in no table of collectives"
CARRIED: Final = "began in the step before; only its rest lies in this one"
_NAMES: Final = {"all_gather": "all-gather", "reduce_scatter": "reduce-scatter", "all_reduce": "all-reduce",
                 "all_to_all": "all-to-all", "send_recv": "send-recv"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """One collective of the rank, times from the step's start. `begun` False: it started in the step before."""

    row: int
    op: str
    axis: str | None
    unit: str | None
    role: Role
    begun: bool
    bytes: int | None
    start_ns: int
    end_ns: int
    transfer_ns: int | None
    exposed_ns: int
    route: Route


def rows(calls: Sequence[Call], role: Role, unit: str | None, unowned_ns: int = 0) -> list[Hop]:
    """Hop 3 or 12 and the four after it. `unowned_ns` is exposed time that is no known collective's."""
    mine = [c for c in calls if c.role == role and (unit is None or c.unit == unit)]
    first, pass_ = _FIRST[role], "forward" if role == "forward" else "backward"
    exposed = sum(c.exposed_ns for c in mine) + unowned_ns
    begun = [c for c in mine if c.begun]
    if not mine:
        nothing = UNNAMED if unowned_ns else _NOTHING[role]
        head = Hop(n=first, pass_=pass_, what=WAYS[first].what, unit=unit, count=0, bytes=0, exposed_ns=exposed, why=nothing)
        rest = [Hop(n=n, pass_=pass_, what=WAYS[n].what, unit=unit, count=0, bytes=0, known="derived", why=nothing)
                for n in range(first + 1, first + 5)]  # fmt: skip
        return [head, *rest]
    if not begun:
        head = Hop(n=first, pass_=pass_, what=_what(mine), unit=unit, count=0, exposed_ns=exposed, why=CARRIED)
        parts = [Hop(n=first + i, pass_=pass_, what=WAYS[first + i].what, unit=unit, known="unknown", why=CARRIED)
                 for i in range(1, 5)]  # fmt: skip
        return [head, *parts]
    window = _transfer_window(begun)
    size = _sum([c.bytes for c in begun])
    why = NO_SIZE if size is None else UNSPLIT if window is None else None
    head = Hop(
        n=first,
        pass_=pass_,
        what=_what(begun),
        unit=unit,
        count=len(begun),
        bytes=size,
        start_ns=min(c.start_ns for c in begun),
        end_ns=max(c.end_ns for c in begun),
        busy_ns=Intervals.of([c.start_ns for c in begun], [c.end_ns for c in begun]).total_ns,
        exposed_ns=exposed,
        bytes_per_s=_rate(size, window),
        why=why,
        operations=_operations(mine),
    )
    inside = _part(begun, [c.route.inside for c in begun], [c.route.why_inside for c in begun], first + 1, pass_, unit)
    between = [
        _part(begun, [c.route.between for c in begun], [c.route.why_between for c in begun], first + i, pass_, unit)
        for i in (2, 3, 4)
    ]
    return [head, inside, *between]


def _part(
    calls: Sequence[Call], sizes: Sequence[int | None], whys: Sequence[str | None], n: int, pass_: str, unit: str | None
) -> Hop:
    """A part of the transfer: the bytes of those that take this way, over the union of their transfers."""
    what = WAYS[n].what
    size = _sum(sizes)
    if size is None:
        why = next(w for s, w in zip(sizes, whys, strict=True) if s is None)
        return Hop(n=n, pass_=pass_, what=what, unit=unit, known="unknown", why=why)
    taking = [c for c, s in zip(calls, sizes, strict=True) if s]
    if not taking:
        why = next((w for w in whys if w in (ONE_NODE, ONE_EACH, ALONE)), None)
        return Hop(n=n, pass_=pass_, what=what, unit=unit, count=0, bytes=0, known="derived", why=why)
    window = _transfer_window(taking)
    if window is None:
        return Hop(n=n, pass_=pass_, what=what, unit=unit, count=len(taking), bytes=size, known="derived", why=UNSPLIT)
    return Hop(
        n=n,
        pass_=pass_,
        what=what,
        unit=unit,
        count=len(taking),
        bytes=size,
        start_ns=int(window.starts[0]) if len(window) else None,
        end_ns=int(window.ends[-1]) if len(window) else None,
        busy_ns=window.total_ns,
        bytes_per_s=_rate(size, window),
        known="derived",
    )


def _transfer_window(calls: Sequence[Call]) -> Intervals | None:
    """When data moved, waiting not counted; None where that is unknown of one of them."""
    known = [(c.end_ns - c.transfer_ns, c.end_ns) for c in calls if c.transfer_ns is not None]
    if len(known) < len(calls):
        return None
    return Intervals.of([start for start, _ in known], [end for _, end in known])


def _rate(size: int | None, window: Intervals | None) -> float | None:
    if size is None or window is None or not window.total_ns:
        return None
    return size * NS_PER_S / window.total_ns


def _sum(sizes: Sequence[int | None]) -> int | None:
    known = [s for s in sizes if s is not None]
    return sum(known) if len(known) == len(sizes) else None


def _operations(calls: Sequence[Call]) -> tuple[Operation, ...]:
    """Per operation and axis of its group, the most exposed first."""
    found = []
    for op, axis in dict.fromkeys((c.op, c.axis) for c in calls):
        mine = [c for c in calls if (c.op, c.axis) == (op, axis)]
        begun = [c for c in mine if c.begun]
        size = _sum([c.bytes for c in begun])
        found.append(Operation(op, axis, len(begun), size, sum(c.exposed_ns for c in mine)))
    return tuple(sorted(found, key=lambda o: (-o.exposed_ns, o.op, o.axis or "")))


def _what(calls: Sequence[Call]) -> str:
    """`all-gather`, `32 x reduce-scatter`, `2 x all-gather, all-to-all`: the most frequent first."""
    count: dict[str, int] = {}
    for call in calls:
        count[call.op] = count.get(call.op, 0) + 1
    order = sorted(count, key=lambda op: (-count[op], op))
    return ", ".join((f"{count[op]:,} x " if count[op] > 1 else "") + _NAMES.get(op, op) for op in order)
