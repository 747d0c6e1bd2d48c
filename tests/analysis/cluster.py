"""Collectives of a made cluster: hosts whose clocks are known to be off, ranks that come late by a known time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from stepscope.model.info import Group, RankInfo, RunInfo
from stepscope.model.spans import COLLECTIVES, conform


@dataclass
class Cluster:
    """`per_host` ranks on each host; every step issues the same collectives over `groups` (default: all ranks).

    Clock of host h at true time t: t + offset_ns[h] + drift_ppm[h] * 1e-6 * t. `late` adds ns to a rank's arrivals.
    """

    hosts: int = 2
    per_host: int = 2
    steps: int = 20
    step_ns: int = 500_000_000
    ops: tuple[str, ...] = ("all_gather", "all_gather", "reduce_scatter")
    offset_ns: dict[int, int] = field(default_factory=dict)
    drift_ppm: dict[int, float] = field(default_factory=dict)
    late: dict[int, int] = field(default_factory=dict)
    noise_ns: int = 20_000
    jitter_ns: int = 3_000_000
    transfer_ns: int = 2_000_000
    groups: tuple[tuple[int, ...], ...] | None = None
    sequence: bool = False
    named_hosts: bool = True
    seed: int = 0

    @property
    def world(self) -> int:
        return self.hosts * self.per_host

    def clock(self, rank: int, true: int) -> int:
        """What the clock of that rank's host shows."""
        host = rank // self.per_host
        return true + self.offset_ns.get(host, 0) + round(self.drift_ppm.get(host, 0.0) * 1e-6 * true)

    def build(self) -> tuple[pl.DataFrame, RunInfo]:
        """Rows by COLLECTIVES (unmatched, in order of rank and arrival) and the run they belong to."""
        rng = np.random.default_rng(self.seed)
        groups = self.groups or (tuple(range(self.world)),)
        rows = []
        for name, ranks in enumerate(groups):
            at, seq = 1_000_000_000, 0
            for step in range(self.steps):
                begin = at + step * self.step_ns + int(rng.integers(0, self.jitter_ns))
                for place, op in enumerate(self.ops):
                    ready = begin + place * 50_000_000
                    arrive = {r: ready + int(rng.integers(0, self.jitter_ns // 10)) + self.late.get(r, 0) for r in ranks}
                    end = max(arrive.values()) + self.transfer_ns + int(rng.integers(0, self.transfer_ns))
                    for rank in ranks:
                        left = end + int(rng.integers(0, self.noise_ns + 1))
                        rows.append(
                            {
                                "rank": rank, "group": str(name), "seq": seq if self.sequence else None, "op": op,
                                "bytes": 1_000_000 * (place + 1), "dtype": "float", "group_size": len(ranks), "stream": 20,
                                "arrive_ns": self.clock(rank, arrive[rank]), "end_ns": self.clock(rank, left), "step": step,
                            }
                        )  # fmt: skip
                    seq += 1
        frame = conform(pl.DataFrame(rows, infer_schema_length=None), COLLECTIVES).sort("rank", "arrive_ns")
        frame = frame.with_columns(id=pl.int_range(pl.len(), dtype=pl.Int64).over("rank"))
        infos = [
            RankInfo(r, "simulated", host=f"node{r // self.per_host}" if self.named_hosts else None, device="cuda")
            for r in range(self.world)
        ]
        named = [Group(str(i), None, g) for i, g in enumerate(groups)]
        return frame, RunInfo(world_size=self.world, ranks=infos, groups=named)
