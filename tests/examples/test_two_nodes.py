"""`examples/two_nodes.py` as a user starts it. What needs torch is skipped without it; every job here is bounded in time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest
from nodes.measured import Measured
from nodes.window import Window

import stepscope

SCRIPT: Final = Path(__file__).resolve().parents[2] / "examples" / "two_nodes.py"
LIMIT_S: Final = 200
needs_torch = pytest.mark.skipif(find_spec("torch") is None or sys.platform != "linux", reason="needs torch, on Linux")


def call(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words], cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )


def left_over(folder: Path) -> list[str]:
    """Processes that still work in that folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == folder.resolve():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return [words for words in found if words]


def test_the_faults_are_listed(tmp_path: Path) -> None:
    done = call("--list", folder=tmp_path)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 11
    assert "slow-wire" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fault", "flood"), "no such fault"),
        (("--fault", "hang", "--fault", "killed-rank"), "ends once"),
        (("--steps", "1"), "--steps"),
    ],
)
def test_words_that_say_nothing_are_refused_in_a_line(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = call(*words, folder=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@needs_torch
def test_a_rank_that_collects_garbage_is_named_and_a_second_job_runs_in_its_place(tmp_path: Path) -> None:
    for words in ((), ("-f",)):
        done = call("--fault", "gc-pause", "--steps", "5", *words, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert left_over(tmp_path) == []
    with stepscope.read(tmp_path / "two-nodes.run") as run:
        assert run.ranks == [0, 1, 2, 3]
        pauses = run.signals().filter(metric="gc_pause").group_by("scope").max()
        most = pauses.sort("value")["scope"].to_list()[-1]
        windows = json.loads((tmp_path / "two-nodes.windows.json").read_text())["windows"]
        measured = Measured(run, [Window(**window) for window in windows])
        healthy, faulty = (measured.part(w, ("host_bound",)).mean(axis=1) for w in measured.windows[:2])
    assert most == "rank 1"
    assert [w["name"] for w in windows] == ["healthy", "gc-pause", "healthy"]
    assert int((faulty - healthy).argmax()) == 1, done.stdout
    assert "gc-pause: rank 1 collects" in done.stdout


@needs_torch
def test_a_hang_says_who_is_missing_and_where(tmp_path: Path) -> None:
    done = call("--fault", "hang", "--steps", "2", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "missing from a collective (rank 3): all_gather" in text, done.stdout
    assert "Look at rank 3 first" in text
    assert left_over(tmp_path) == []


@needs_torch
def test_a_job_that_is_told_to_end_leaves_nothing_running(tmp_path: Path) -> None:
    job = subprocess.Popen(
        [sys.executable, str(SCRIPT), "--fault", "stop-pulses", "--steps", "1000"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert job.stderr is not None
    try:
        for line in job.stderr:
            if "four ranks" in line:  # in the middle of its healthy steps
                time.sleep(1)
                job.send_signal(signal.SIGTERM)
                break
        job.communicate(timeout=60)
    finally:
        job.kill()
    assert job.returncode == 128 + signal.SIGTERM
    assert left_over(tmp_path) == []
    groups = [Path(root) for root, folders, _ in os.walk("/sys/fs/cgroup") if f"stepscope-two-nodes-{job.pid}" in folders]
    assert groups == []
    with stepscope.read(tmp_path / "two-nodes.run") as run:
        assert run.ranks == [0, 1, 2, 3]
