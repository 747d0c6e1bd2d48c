"""What `hops` finds: the life of one step of one rank, hop by hop. Times are integer ns, from the start of that step.

`WAYS` are the 19 hops in their order; a result has 24 rows, since hops 3 to 7 come twice: the gather before forward, and the
gather before backward.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from stepscope.model.info import Gap
from stepscope.model.table import Column, Table

if TYPE_CHECKING:
    import polars as pl

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

Known = Literal["measured", "derived", "unknown"]


class Way(NamedTuple):
    """One hop whatever the run: who hands on to whom, in which layer, and what."""

    source: str
    target: str
    layer: str
    what: str


WAYS: Final = {
    1: Way("storage", "loop", "S", "read the batch"),
    2: Way("loop", "framework", "L2/L3", "forward"),
    3: Way("framework", "NCCL", "L5", "gather the shards"),
    4: Way("NCCL", "NVLink", "L8", "part inside the node"),
    5: Way("NCCL", "transport", "L6", "part between nodes"),
    6: Way("transport", "fabric", "L6", "NIC reads GPU memory"),
    7: Way("fabric", "peers", "L7", "to the other nodes"),
    8: Way("framework", "kernels", "L4", "kernels of forward"),
    9: Way("kernels", "GPU/HBM", "L9", "GPU at work, forward"),
    10: Way("loop", "framework", "L1", "backward"),
    11: Way("framework", "kernels", "L4", "kernels of gradients"),
    12: Way("framework", "NCCL", "L5", "reduce the gradients"),
    13: Way("NCCL", "NVLink", "L8", "reduce in the node"),
    14: Way("NCCL", "transport", "L6", "reduce between nodes"),
    15: Way("transport", "fabric", "L6", "no copy by the CPU"),
    16: Way("fabric", "peers", "L7", "receive and sum"),
    17: Way("loop", "framework", "L1", "optimizer.step"),
    18: Way("framework", "GPU", "L9", "update the shard"),
    19: Way("loop", "storage", "S", "checkpoint"),
}
"""By number. The gather of backward takes 3 to 7 again."""

ORDER: Final = (*range(1, 11), *range(3, 8), *range(11, 20))
"""The numbers of the rows in order: 3 to 7 come again for the gather of backward."""


@dataclass(frozen=True, slots=True)
class Operation:
    """The calls of one operation that a hop of NCCL holds; `bytes` None where one of them has no size."""

    op: str
    axis: str | None
    count: int
    bytes: int | None
    exposed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One row. None is unknown, and `why` says why.

    `start_ns` to `end_ns` from the first to the last, `busy_ns` the union in between. `exposed_ns`: of hops 3 and 12 alone, how
    long this rank stood in those collectives; no instant counts twice. `stalled_ns`: of hops 1 and 19, how long it stood for
    the batch or the save. `bytes_per_s` of a collective and its parts is over the transfer, waiting not counted.
    `known`: times and sizes were `measured`, or bytes are `derived` from the group and its places. `unit` None: the whole step.
    """

    n: int
    pass_: str | None
    what: str
    unit: str | None = None
    count: int | None = None
    bytes: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    busy_ns: int | None = None
    exposed_ns: int | None = None
    stalled_ns: int | None = None
    bytes_per_s: float | None = None
    flops: int | None = None
    known: Known = "measured"
    why: str | None = None
    operations: tuple[Operation, ...] = ()

    @property
    def way(self) -> Way:
        """From, to and layer."""
        return WAYS[self.n]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hops:
    """The rows of one rank and step; `unit` None is the whole step.

    `communication_ns` is the union of the rows' collectives inside the step, `hidden_ns` what of it compute covers;
    `exposed_ns` sums the rows, `breakdown_exposed_ns` is the breakdown's for that rank and step. For the whole step the two are
    the same number.
    """

    rank: int
    place: str | None
    step: int
    unit: str | None
    step_start_ns: int
    duration_ns: int
    complete: bool
    hops: tuple[Hop, ...]
    units: tuple[str, ...]
    communication_ns: int
    hidden_ns: int
    exposed_ns: int
    breakdown_exposed_ns: int
    notes: tuple[str, ...] = field(default=())
    gaps: tuple[Gap, ...] = field(default=())
    origin: str = "trace"

    def frame(self) -> pl.DataFrame:
        """One row per hop: n, pass, from, to, layer, what, unit, bytes, the times in ns, bytes_per_s, flops, known, why."""
        import polars as pl

        times = ("start_ns", "end_ns", "busy_ns", "exposed_ns", "stalled_ns")
        schema = {
            "n": pl.Int64, **dict.fromkeys(("pass", "from", "to", "layer", "what", "unit"), pl.String), "bytes": pl.Int64,
            **dict.fromkeys(times, pl.Int64), "bytes_per_s": pl.Float64, "flops": pl.Int64, "known": pl.String, "why": pl.String,
        }  # fmt: skip
        rows = [
            (h.n, h.pass_, *h.way[:3], h.what, h.unit, h.bytes, *(getattr(h, t) for t in times), h.bytes_per_s, h.flops, h.known,
             h.why)
            for h in self.hops
        ]  # fmt: skip
        return pl.DataFrame(rows, schema=schema, orient="row")

    def table(self) -> Table:
        """The rows with times in ms."""
        names = ("hop", "pass", "from", "to", "layer", "what", "bytes", "start ms", "busy ms", "exposed ms")
        rows = tuple(
            (h.n, h.pass_, *h.way[:3], h.what, h.bytes, *(None if t is None else round(t / NS_PER_MS, 3)
             for t in (h.start_ns, h.busy_ns, h.exposed_ns)))
            for h in self.hops
        )  # fmt: skip
        columns = tuple(Column(name, right=i == 0 or i > 5) for i, name in enumerate(names))
        title = f"Step {self.step} of rank {self.rank}, {'whole' if self.unit is None else f'unit {self.unit}'}"
        return Table(title, columns, rows, self.notes)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
