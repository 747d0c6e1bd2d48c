"""A job that stands: who stopped where, what the others wait in, by plans whose groups one can follow by hand."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from stepscope.model.errors import UsageMistake
from stepscope.simulator.faults.effect import Draw
from stepscope.simulator.faults.fault import parse_fault
from stepscope.simulator.faults.hang import NOTHING, Hang, hang_at, sentence
from stepscope.simulator.faults.schedule import Schedule
from stepscope.simulator.job import Job
from stepscope.simulator.program import Op
from stepscope.simulator.simulation import Step
from tests.simulator.faults.cases import HANGS, place
from tests.simulator.jobs import job, steps

PLANS: Final = ("fsdp=16,seq=2048", "hsdp=2x8,seq=2048", "fsdp=8,tp=2,seq=2048", "ddp=16,seq=2048", "fsdp=16,seq=2048,ga=2")
RANK: Final = 11


def stopped(one: Job, text: str, seed: int = 3) -> tuple[Hang, Step, list[Op]]:
    schedule = Schedule(one, [parse_fault(f"{text},at_step=0")], seed)
    assert schedule.hang is not None
    step = steps(one)[0]
    return hang_at(schedule.hang[0], step, schedule.hang[1]), step, step.prepared.work.program.ops


def _in_a_row(ops: list[Op]) -> list[tuple[int, int]]:
    """Two collectives of one communicator, one after the other."""
    last: dict[str, int] = {}
    found = []
    for k, op in enumerate(ops):
        if op.kind == "collective" and op.comm is not None:
            if op.comm.name in last:
                found.append((last[op.comm.name], k))
            last[op.comm.name] = k
    return found


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("cause", HANGS)
def test_nobody_gets_through_the_step_and_only_what_can_happen_happens(plan: str, cause: str) -> None:
    for seed in range(3):
        hang, _, ops = stopped(job(plan), f"{cause}@{place(cause)}", seed)
        assert not hang.ended[-1].any()
        assert not (hang.ended & ~hang.started).any()
        assert not (hang.started & ~hang.issued).any()
        assert not (hang.issued[1:] & ~hang.issued[:-1]).any()  # hosts go in order
        for k, op in enumerate(ops):
            for d in op.after:
                assert not (hang.ended[k] & ~hang.ended[d]).any()
        for before, k in _in_a_row(ops):
            assert not (hang.started[k] & ~hang.ended[before]).any()
        peers = np.setdiff1d(np.arange(16), hang.culprits)
        waits = {ops[k].kind for k in hang.current[peers].tolist()}
        assert waits == {"collective"}
        assert hang.begun[peers].all()


@pytest.mark.parametrize("plan", PLANS)
def test_a_host_that_stops_has_nothing_pending(plan: str) -> None:
    hang, step, ops = stopped(job(plan), "hang.host_stalled@rank11")
    assert hang.current[RANK] == NOTHING and np.isnan(hang.since_ns[RANK])
    assert hang.host_at[RANK] == hang.place - 1
    assert not hang.issued[hang.place, RANK] and hang.issued[hang.place].sum() == 15
    assert ops[hang.place].kind == "collective"
    assert hang.progress_ns[RANK] <= step.times.host_end.max()


def test_a_world_wide_collective_holds_all_peers_in_itself() -> None:
    hang, step, ops = stopped(job("fsdp=16,seq=2048"), "hang.host_stalled@rank11")
    peers = np.delete(np.arange(16), RANK)
    assert set(hang.current[peers].tolist()) == {hang.place}
    assert hang.since_ns[peers] == pytest.approx(step.times.start[hang.place, peers])
    what = f"{ops[hang.place].name} of {ops[hang.place].unit}"
    assert sentence(hang, step) == f"step 0: rank 11's host stopped before {what}; 15 ranks wait"


def test_other_groups_go_on_until_they_need_one_of_those() -> None:
    """hsdp=2x8: the node of rank 11 stands in its own collective, the other node in the next one over both."""
    hang, _, ops = stopped(job("hsdp=2x8,seq=2048"), "hang.gpu_stalled@node1/gpu3")
    mine, theirs = (hang.current[[r for r in node if r != RANK]] for node in (range(8, 16), range(8)))
    assert len(set(mine.tolist())) == len(set(theirs.tolist())) == 1
    assert ops[mine[0]].comm.axis == "fsdp" and ops[theirs[0]].comm.axis == "replicate"
    assert theirs[0] > mine[0]


def test_a_stalled_gpu_never_ends_its_kernel_while_its_host_goes_on() -> None:
    hang, _, ops = stopped(job("fsdp=16,seq=2048"), "hang.gpu_stalled@node1/gpu3")
    assert hang.current[RANK] == hang.place and ops[hang.place].kind == "compute"
    assert hang.started[hang.place, RANK] and not hang.ended[hang.place, RANK]
    assert ops[hang.host_at[RANK]].name == "read the loss"


def test_a_dead_rank_leaves_no_dump_and_ends_nothing_after_its_death() -> None:
    hang, step, _ = stopped(job("fsdp=16,seq=2048"), "hang.rank_died@rank11")
    assert np.flatnonzero(hang.gone).tolist() == [RANK]
    died = (step.times.start[hang.place, RANK] + step.times.end[hang.place, RANK]) / 2
    assert step.times.end[hang.ended[:, RANK], RANK].max() <= died
    assert not hang.ended[hang.place, RANK]
    assert "died in" in sentence(hang, step)


def test_a_mismatch_is_seen_by_its_peers_at_one_sequence_number() -> None:
    hang, _, ops = stopped(job("fsdp=16,seq=2048"), "hang.collective_mismatch@rank11")
    op, called = ops[hang.place], hang.called
    assert called is not None and called.comm == op.comm
    assert (called.name, called.nbytes) != (op.name, op.nbytes)
    assert hang.started[hang.place].all() and not hang.ended[hang.place].any()
    assert set(hang.current.tolist()) == {hang.place}


@pytest.mark.parametrize(("text", "ranks"), [("node1/nic3", {3, RANK}), ("node1", set(range(16)))])
def test_a_broken_nic_holds_all_members_of_its_groups(text: str, ranks: set[int]) -> None:
    """hsdp=2x8: only the replicas of a shard cross nodes, each over their own NICs."""
    hang, _, ops = stopped(job("hsdp=2x8,seq=2048"), f"hang.transport_broken@{text}")
    op = ops[hang.place]
    assert op.comm is not None and op.comm.axis == "replicate"
    assert set(np.flatnonzero(hang.started[hang.place] & ~hang.ended[hang.place]).tolist()) == ranks
    assert not hang.gone.any()


def test_one_rank_alone_cannot_hang_in_a_collective() -> None:
    with pytest.raises(UsageMistake, match="no collective of this plan joins it with all others; take another plan"):
        stopped(job("fsdp=1,seq=2048", "llama3.2-1b"), "hang.host_stalled@rank0")


def test_slowing_faults_and_a_hang_together() -> None:
    one = job("fsdp=16,seq=2048")
    found = Schedule(one, [parse_fault("gpu.thermal_throttle@node1/gpu3"), parse_fault("hang.rank_died@rank5,at_step=2")], 0)
    assert found.hang == (parse_fault("hang.rank_died@rank5,at_step=2"), Draw(0, 1))
    assert found(2).conditions.clock is found(0).conditions.clock


def test_the_seed_says_where() -> None:
    one = job("fsdp=16,seq=2048")
    places = [stopped(one, "hang.host_stalled@rank11", seed)[0].place for seed in range(8)]
    assert places == [stopped(one, "hang.host_stalled@rank11", seed)[0].place for seed in range(8)]
    assert len(set(places)) > 4
