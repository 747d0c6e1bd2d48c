"""A real job of two ranks under the recorder: healthy, late, killed, out of disk, hanging, forking. Skipped without torch."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

import stepscope
from stepscope.model.run import Run

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="no torch here: make test-live runs the live jobs")
ROOT: Final = Path(__file__).resolve().parents[2]
PATIENCE_S: Final = 100.0  # a job takes some seconds; a busy machine may take far longer


class Jobs:
    """A process that has imported torch and forks a job for whoever asks."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.recorder.ranks", "serve"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line: str) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


class Job:
    """A job under way, of which `said` is what it prints."""

    def __init__(self, jobs: Jobs, out: Path, *words: str) -> None:
        self.jobs, self.said = jobs, Path(f"{out}.said")
        self.group = jobs.ask(" ".join([str(out), *words]))

    def finished(self) -> tuple[int, str]:
        """Exit code and output; the ranks say where they stand when they take too long."""

        def late() -> None:
            os.killpg(self.group, signal.SIGUSR1)
            time.sleep(1)
            os.killpg(self.group, signal.SIGKILL)

        timer = threading.Timer(PATIENCE_S, late)
        timer.start()
        code = self.jobs.ask("wait")
        timer.cancel()
        return code, self.said.read_text()

    def killed(self) -> str:
        os.killpg(self.group, signal.SIGKILL)
        return self.finished()[1]


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    found = Jobs()
    yield found
    assert found.process.stdin is not None
    found.process.stdin.close()
    found.process.wait(timeout=PATIENCE_S)


def printed(said: str) -> dict[int, set[int]]:
    """Of each rank the steps that it says it has finished."""
    found: dict[int, set[int]] = {0: set(), 1: set()}
    for rank, step in re.findall(r"rank (\d) step (\d+)", said):
        found[int(rank)].add(int(step))
    return found


def steps_of(run: Run) -> dict[int, set[int]]:
    return {info.rank: {step.step for step in info.steps} for info in run.info.ranks}


def gaps(run: Run) -> dict[str, tuple[int, ...]]:
    return {gap.what: gap.ranks for gap in run.info.gaps}


def test_a_healthy_job_under_fsdp2(jobs: Jobs, tmp_path: Path) -> None:
    code, said = Job(jobs, tmp_path / "job.run", "fsdp2", "late=0.05").finished()
    assert code == 0, said

    with stepscope.read(tmp_path / "job.run") as run:
        result = stepscope.breakdown(run)
        collectives, signals = run.collectives(), run.signals()
        assert run.info.origin == "live"
        assert run.info.workload == {"tokens_per_step": 16}
        assert steps_of(run) == printed(said) == {0: set(range(6)), 1: set(range(6))}
    for step in result.steps:
        assert sum(step.parts_ns.values()) == step.duration_ns > 0
    whole = {part: sum(s.parts_ns[part] for s in result.steps) for part in result.steps[0].parts_ns}
    assert all(
        whole[part] > 0 for part in ("input_wait", "forward", "backward", "optimizer", "comm_wait", "comm_transfer", "checkpoint")
    )
    saved = {(s.rank, s.step) for s in result.steps if s.parts_ns["checkpoint"]}
    assert saved == {(0, 2), (1, 2)}
    late = {rank: sum(s.parts_ns["input_wait"] for s in result.steps if s.rank == rank) for rank in (0, 1)}
    waits = {rank: sum(s.parts_ns["comm_wait"] for s in result.steps if s.rank == rank) for rank in (0, 1)}
    assert late[1] - late[0] > 200e6, "rank 1 waited 50 ms for each batch"
    assert waits[0] > 200e6, "and rank 0 waited for it"
    assert set(collectives["matched_by"]) == {"sequence"}
    assert {"all_gather", "reduce_scatter", "all_reduce"} <= set(collectives["op"])
    assert {"0", "1", "2", "3", "4"} <= set(collectives["unit"].drop_nulls())
    assert (collectives.filter(collectives["op"] == "all_gather")["bytes"] > 0).all()
    metrics = set(signals["metric"])
    assert {"process_cpu", "run_queue_wait", "gc_pause", "host_rss", "recorder_cpu", "tcp_retransmits"} <= metrics


def test_ddp_forks_and_every_file_is_the_users_own(jobs: Jobs, tmp_path: Path) -> None:
    out = tmp_path / "job.run"
    code, said = Job(jobs, out, "ddp").finished()
    assert code == 0, said

    files = [path for path in out.rglob("*") if path.is_file()]
    assert files
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    text = b"".join(path.read_bytes() for path in files)
    assert str(tmp_path).encode() not in text, "no arguments are kept"
    assert b"MASTER_ADDR" not in text, "no environment is kept"
    with stepscope.read(out) as run:
        rows = run.collectives()
        assert steps_of(run) == printed(said)
        assert "DDP's buckets" in gaps(run)
        result = stepscope.breakdown(run)
    assert (rows.filter(rows["unit"] == "bucket 0")["bytes"] == (4 * (64 * 64 + 64) + 65) * 4).sum() == 12
    assert all(sum(s.parts_ns.values()) == s.duration_ns for s in result.steps)
    assert {s.step for s in result.steps if s.rank == 0 and s.parts_ns["checkpoint"]} == {2}


def test_every_step_of_a_killed_job_is_readable(jobs: Jobs, tmp_path: Path) -> None:
    code, said = Job(jobs, tmp_path / "job.run", "kill").finished()
    assert code == signal.SIGKILL

    with stepscope.read(tmp_path / "job.run") as run:
        found = steps_of(run)
        assert "recording without an end" in gaps(run)
    done = printed(said)
    assert any(4 in steps for steps in done.values())
    assert all(done[rank] <= found[rank] for rank in done), (done, found)


def test_a_full_disk_costs_the_job_nothing_and_is_a_gap(jobs: Jobs, tmp_path: Path) -> None:
    code, said = Job(jobs, tmp_path / "job.run", "full", "steps=40").finished()
    assert code == 0, said

    with stepscope.read(tmp_path / "job.run") as run:
        found, told = steps_of(run), gaps(run)
    assert printed(said)[0] == set(range(40))
    assert "rows not written" in told
    assert 0 in found[0]
    assert 39 in found[0], "recording goes on when there is room again"
    assert len(found[0]) < 40


def test_a_hanging_job_says_what_it_stands_in(jobs: Jobs, tmp_path: Path) -> None:
    job = Job(jobs, tmp_path / "job.run", "hang", "stall=1.5")
    stalls = tmp_path / "job.run" / "stalls"
    until = time.monotonic() + PATIENCE_S
    while len(list(stalls.glob("signals-1.rank-*.txt"))) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(0.5)
    said = job.killed()
    assert len(list(stalls.glob("signals-1.rank-*.txt"))) == 2, said

    assert "time.sleep(600)" not in (stacks := (stalls / "stacks-1.rank-1.0.txt").read_text())
    assert "ranks.py" in stacks
    assert "in train" in stacks
    assert "under way: all_gather of group 0, number" in (stalls / "signals-1.rank-0.0.txt").read_text()
    with stepscope.read(tmp_path / "job.run") as run:
        assert gaps(run)["stall"]
        assert steps_of(run) == {0: {0, 1, 2}, 1: {0, 1, 2}}
    shown = subprocess.run(
        [sys.executable, "-m", "stepscope", "show", str(stalls), "--format", "json"], capture_output=True, text=True, check=True
    )
    found = json.loads(shown.stdout)
    assert found["ranks"] == [0, 1]
    assert all(dump["entries"] for dump in found["dumps"])


def test_a_script_that_knows_nothing_of_it(tmp_path: Path) -> None:
    out = tmp_path / "job.run"
    through = [sys.executable, "-m", "stepscope", "record", "-o", str(out), "--"]
    script = [sys.executable, "-m", "tests.recorder.ranks", str(out), "forks", "record=no"]
    done = subprocess.run([*through, *script], check=False, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr

    assert (out / "run.json").exists(), "made into tables at the end"
    assert not (out / "segments").exists()
    assert "2 of 2 ranks, 6 steps" in done.stderr
    with stepscope.read(out) as run:
        result = stepscope.breakdown(run)
        assert steps_of(run) == {0: set(range(6)), 1: set(range(6))}, "the child of a fork added none"
    assert all(sum(s.parts_ns.values()) == s.duration_ns for s in result.steps)
    assert sum(s.parts_ns["input_wait"] for s in result.steps) > 0
