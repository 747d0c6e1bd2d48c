"""Which collectives ran? Until ranks are matched each rank's share stands alone: one entry per (collective, rank)."""

from __future__ import annotations

from stepscope.model.breakdown import Collective
from stepscope.model.spans import RankTables


def unmatched(tables: RankTables, first_id: int) -> list[Collective]:
    """The collectives of one rank, numbered from `first_id`; what needs the peers is None."""
    columns = ("step", "group", "op", "bytes", "group_size")
    return [
        Collective(
            id=first_id + place,
            step=step,
            group=group,
            op=op or "unknown",
            bytes=size,
            n_ranks=ranks or 1,
            wait_ns=None,
            transfer_ns=None,
            busbw_bytes_per_s=None,
            last_rank=None,
            skew_ns=None,
        )
        for place, (step, group, op, size, ranks) in enumerate(tables.collectives.select(columns).iter_rows())
    ]
