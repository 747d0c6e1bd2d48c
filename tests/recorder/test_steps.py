"""Steps of a loop that is played by hand: where they begin and end, what is exclusive, what a reader makes of them. No torch."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from stepscope.model.errors import BadInput
from stepscope.model.segment import COLLECTIVE, FOLDER, INPUT, Head, Stalled
from stepscope.recorder.journal import Journal
from stepscope.recorder.steps import Steps

MS = 1_000_000
WALL = 1_700_000_000_000_000_000


class Played:
    """One rank's journal, with times that are given instead of taken. `skew` is what its monotonic clock shows more."""

    def __init__(self, folder: Path, rank: int = 0, world: int = 1, attempt: int = 0, skew: int = 0, boot: str = "a") -> None:
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        head = Head(
            rank, world, rank, f"node-{boot}", boot, 10 + rank, attempt, 0, skew, WALL + attempt * 10_000 * MS, 7, "cpu", "", {}
        )
        self.skew = skew
        self.journal = Journal(folder / FOLDER, f"rank-{rank}.{attempt}.{10 + rank}", 1 << 22, head)
        self.journal.segment.prepare()
        self.steps = Steps(self.journal)
        self.group = self.journal.group("0", "default_pg", list(range(world)))
        self.sequence = 0

    def step(self, at: int, late: int = 0, batches: int = 1) -> int:
        """10 ms input, 20 forward, 40 backward with a collective of 10 at its end, 5 optimizer; ends at once. Times in ms."""
        t = at + late
        for _ in range(batches):
            self.steps.batch_begins(self.ns(t))
            self.steps.span(
                INPUT, self.ns(t), self.ns(t + 10), self.journal.name("enumerate(DataLoader)#next"), self.steps.communicated
            )
            self.steps.model_begins(self.ns(t + 10), "## forward ##")
            self.steps.model_ends(self.ns(t + 28))
            self.steps.backward_begins(self.ns(t + 30))
            t += 70
            self.steps.backward_ends(self.ns(t - 40), self.ns(t))
        self.reduce(at + late + 70 * batches - 10, at + 70 * batches + 5)
        done = at + 70 * batches + 5
        self.steps.optimizer_ends(self.ns(done), self.ns(done + 5), "Optimizer.step#SGD.step", self.steps.communicated)
        return done + 5

    def reduce(self, arrive: int, end: int) -> None:
        name, start, stop = self.journal.name, self.ns(arrive), self.ns(end)
        row = (
            COLLECTIVE,
            7,
            start,
            start,
            start,
            stop,
            self.group,
            self.sequence,
            name("all_reduce"),
            name("Float"),
            64,
            -1,
            1,
            1,
        )
        self.journal.rows.append(row)
        self.sequence += 1

    def ns(self, ms: int) -> int:
        return ms * MS + self.skew

    def end(self) -> None:
        self.steps.finish()
        self.journal.close(self.ns(10_000))


def test_a_step_begins_at_the_batch_after_an_update(tmp_path: Path) -> None:
    one = Played(tmp_path)
    at = 0
    for _ in range(3):
        at = one.step(at) + 20
    one.end()
    with stepscope.read(tmp_path) as run:
        steps = stepscope.breakdown(run).steps
    assert [(s.step, s.duration_ns // MS) for s in steps] == [(0, 100), (1, 100), (2, 80)], "the last to its own end"
    parts = {part: ns // MS for part, ns in steps[0].parts_ns.items() if ns}
    assert parts == {"input_wait": 10, "forward": 20, "backward": 30, "comm_transfer": 15, "optimizer": 5, "host_bound": 20}
    assert one.steps.totals[INPUT] == 30 * MS


def test_batches_before_one_update_are_one_step(tmp_path: Path) -> None:
    one = Played(tmp_path)
    one.step(one.step(0, batches=3), batches=3)
    one.end()
    with stepscope.read(tmp_path) as run:
        assert [(s.step, s.duration_ns // MS) for s in stepscope.breakdown(run).steps] == [(0, 220), (1, 220)]


def test_a_batch_that_is_never_used_is_no_step(tmp_path: Path) -> None:
    one = Played(tmp_path)
    end = one.step(0)
    one.steps.batch_begins(one.ns(end + 5))
    one.steps.span(INPUT, one.ns(end + 5), one.ns(end + 9), one.journal.name("enumerate(DataLoader)#next"), 0)
    one.end()
    with stepscope.read(tmp_path) as run:
        assert [s.step for s in run.info.ranks[0].steps] == [0]


def test_a_step_is_on_disk_with_its_update(tmp_path: Path) -> None:
    one = Played(tmp_path)
    one.step(one.step(0))
    with stepscope.read(tmp_path) as run:  # nothing was closed: as after a kill
        assert [(s.step, s.end_ns // MS % 1000) for s in run.info.ranks[0].steps] == [(0, 80), (1, 160)]
        assert "recording without an end" in {gap.what for gap in run.info.gaps}


def test_the_late_rank_is_named_across_machines(tmp_path: Path) -> None:
    ranks = [Played(tmp_path, rank, 2, boot="ab"[rank], skew=rank * 777_000 * MS) for rank in range(2)]
    for one in ranks:
        at = 0
        for step in range(5):
            at = one.step(at, late=4 if one is ranks[1] else 0) + step
        one.end()
    with stepscope.read(tmp_path) as run:
        assert run.info.clock.aligned
        result = stepscope.breakdown(run)
    assert {c.last_rank for c in result.collectives} == {1}
    assert {c.wait_ns for c in result.collectives} == {2 * MS}, "4 ms on rank 0, none on rank 1"
    assert all(sum(s.parts_ns.values()) == s.duration_ns for s in result.steps)


def test_a_restart_goes_on_counting(tmp_path: Path) -> None:
    for attempt in range(2):
        for rank in range(2):
            one = Played(tmp_path, rank, 2, attempt, skew=attempt * 10_000 * MS)
            one.step(one.step(0))
            one.end()
    with stepscope.read(tmp_path) as run:
        assert [s.step for s in run.info.ranks[0].steps] == [0, 1, 2, 3]
        assert {g.group for g in run.info.groups} == {"0", "0 (restart 1)"}
        assert {gap.what: gap.ranks for gap in run.info.gaps}["restarts"] == (0, 1)
        assert set(run.collectives()["matched_by"]) == {"sequence"}


def test_ranks_that_left_nothing_are_missing(tmp_path: Path) -> None:
    one = Played(tmp_path, 1, 4)
    one.step(0)
    one.journal.tell(Stalled(one.ns(90_000), one.ns(30_000), ["fr_trace_1"], ["all_reduce of group 0, number 1, for 60.0 s"]))
    one.end()
    with stepscope.read(tmp_path) as run:
        assert run.info.missing_ranks == [0, 2, 3]
        (stall,) = [gap for gap in run.info.gaps if gap.what == "stall"]
    assert stall.why.startswith("no progress for 60 s; under way: all_reduce of group 0, number 1")


def test_what_no_recorder_writes_is_left_out_and_counted(tmp_path: Path) -> None:
    one = Played(tmp_path)
    one.step(0)
    one.journal.rows += [[99, 1], [COLLECTIVE, 1], [2, 1 << 62, 0, 0, 0, 0], []]
    one.end()
    with stepscope.read(tmp_path) as run:
        assert run.info.ranks[0].dropped == 4
        assert len(stepscope.breakdown(run).steps) == 1


def test_a_folder_without_a_whole_segment_is_one_line(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "rank-0.0.1.0001.seg").write_bytes(b"SSLIVE1\n")
    with pytest.raises(BadInput, match="without a readable segment yet"):
        stepscope.read(tmp_path)


def test_the_time_between_a_rank_and_its_restart_is_in_no_step(tmp_path: Path) -> None:
    for attempt in range(2):
        one = Played(tmp_path, 0, 1, attempt, skew=attempt * 10_000 * MS)
        one.step(one.step(0))
        one.end()
    with stepscope.read(tmp_path) as run:
        lengths = [(s.step, s.duration_ns // MS) for s in stepscope.breakdown(run).steps]
    assert lengths == [(0, 80), (1, 80), (2, 80), (3, 80)]


@pytest.mark.parametrize("at", [0.3, 0.6])
def test_a_damaged_segment_is_said_and_its_rank_not_accused(tmp_path: Path, at: float) -> None:
    for rank in range(2):
        one = Played(tmp_path, rank, 2)
        end = 0
        for _ in range(40):
            end = one.step(end)
            one.journal.flush(wait=True)
        one.end()
    (path,) = (tmp_path / FOLDER).glob("rank-0.*")
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 0xFF
    path.write_bytes(data)

    with stepscope.read(tmp_path) as run:
        gaps = {gap.what: gap for gap in run.info.gaps}
        steps = [len(info.steps) for info in run.info.ranks]
    assert gaps["damaged segment"].ranks == (0,)
    assert f"{path.name} is damaged from byte" in gaps["damaged segment"].why
    assert "missing from a collective" not in gaps
    assert "recording without an end" not in gaps
    assert 0 < steps[0] < steps[1] == 40
