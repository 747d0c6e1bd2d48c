"""Results built by hand: round figures that a reader can add up."""

from __future__ import annotations

from stepscope.model.breakdown import Breakdown, Collective, Communication, StepParts, UnitGather
from stepscope.model.doctor import Examination, Question
from stepscope.model.info import Clock, Gap, Group, RankInfo, RunInfo, Step
from stepscope.model.words import PARTS

MS = 1_000_000


def step(rank: int, number: int, *, complete: bool = True, naive: int = 0, **parts_ms: float) -> StepParts:
    """A step from its parts in ms; the parts not named are 0."""
    parts = {part: round(parts_ms.get(part, 0) * MS) for part in PARTS}
    duration = sum(parts.values())
    return StepParts(rank, number, duration, parts, naive or 2 * duration, complete)


def job(ranks: int = 4, steps: int = 2, slow: int | None = 3) -> Breakdown:
    """A step of 200 ms on every rank; the slow one computes 60 ms longer while the others wait that long."""
    rows = []
    for rank in range(ranks):
        late = 60 if rank == slow else 0
        wait = 60 - late if slow is not None else 0
        rows += [
            step(rank, k, forward=40, backward=80 + late, comm_wait=wait, comm_transfer=15, input_wait=5, idle=60 - late - wait)
            for k in range(steps)
        ]
    communication = tuple(
        Communication(r, 400 * MS, 260 * MS, 180 * MS, (30 if r == slow else 150) * MS, 30 * MS) for r in range(ranks)
    )
    collectives = tuple(
        Collective(i, i // 4, "0", "all_reduce", 64 << 20, ranks, 45 * MS, 5 * MS, 42e9, slow, 60 * MS) for i in range(4 * steps)
    )
    gaps = (Gap("shapes", (0, 1, 2), "record_shapes was off"),)
    groups = (Group("0", "fsdp", tuple(range(ranks))),)
    units = (UnitGather("layers.0", "forward", 8 * MS, 6 * MS, 2 * MS), UnitGather("layers.0", "backward", 9 * MS, 9 * MS, None))
    return Breakdown(tuple(rows), communication, groups, collectives, units, gaps)


def info(ranks: int = 4) -> RunInfo:
    """run.json of that job, with one rank of the world missing."""
    entries = [
        RankInfo(
            rank=r,
            identified_by="distributed_info",
            files=[f"rank{r}.json.gz"],
            device="cuda",
            device_name="H100",
            windows=[(0, 400 * MS)],
            steps=[Step(k, k * 200 * MS, (k + 1) * 200 * MS, complete=k < 2) for k in range(3)],
            events=12_000 + r,
            repaired=2 if r == 1 else 0,
            versions={"torch": "2.6"},
        )
        for r in range(ranks)
    ]
    return RunInfo(
        world_size=ranks + 1,
        ranks=entries,
        missing_ranks=[ranks],
        groups=[Group("0", "fsdp", tuple(range(ranks + 1)))],
        gaps=[Gap("rank", (ranks,), "no file names it")],
        clock=Clock(aligned=True, residual_ns=12_000),
    )


def examination() -> Examination:
    """One answered, one open."""
    return Examination(
        ("where each rank's step went",), (Question("who came last", "sequence numbers", "record with torch 2.4 or newer"),)
    )
