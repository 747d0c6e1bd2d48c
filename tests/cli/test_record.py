"""`record` before and after its job: what it refuses, what it replaces, what it says where nothing was recorded. No torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Call

NOTHING = (sys.executable, "-c", "pass")


def test_a_job_that_trains_nothing_is_said_and_its_code_passed_on(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "a.run"
    ended = call("record", "-o", out, "--", sys.executable, "-c", "raise SystemExit(7)")

    assert ended.code == 7
    assert ended.err.splitlines()[-1].endswith("nothing was recorded: no process of the command trained with torch for a step")
    assert call("record", "-o", out, "--", *NOTHING).code == 0, "an empty folder is no older Run"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--stall", "nan", "--", *NOTHING], "--stall: give seconds, or 0 for never"),
        (["--keep", "1", "--", *NOTHING], "is less than a step or two may need"),
        (["--", "no-such-command-here"], "no-such-command-here: no such command"),
        ([], "no command; write it after --"),
    ],
)
def test_mistakes_are_said_before_anything_is_made(call: Call, tmp_path: Path, words: list[str], said: str) -> None:
    ended = call("record", "-o", tmp_path / "a.run", *words)

    assert ended.code == 2
    assert said in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("inside", ["notes.txt", "segments/notes.txt", "spans/thesis.parquet", "rank-0/thesis.txt"])
def test_force_replaces_runs_and_nothing_else(call: Call, tmp_path: Path, inside: str) -> None:
    mine = tmp_path / "a.run" / inside
    (tmp_path / "a.run" / "segments").mkdir(parents=True)
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("years of work")
    (tmp_path / "a.run" / "run.json").write_text("{}")

    ended = call("record", "-f", "-o", tmp_path / "a.run", "--", *NOTHING)

    assert ended.code == 1
    assert "exists and holds other things than a run" in ended.err
    assert mine.read_text() == "years of work"


def test_a_mistyped_command_keeps_the_older_run(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "a.run"
    assert call("import", Path(__file__).parents[2] / "demo" / "healthy", "-o", out).code == 0

    assert call("record", "-f", "-o", out, "--", "pythn", "train.py").code == 2
    assert (out / "run.json").exists()
    assert call("record", "-o", out, "--", *NOTHING).code == 1
    assert call("record", "-f", "-o", out, "--", *NOTHING).code == 0
    assert not (out / "run.json").exists()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_goes_on_to_the_job(tmp_path: Path, number: signal.Signals) -> None:
    job = f"import time, pathlib; pathlib.Path({str(tmp_path / 'up')!r}).touch(); time.sleep(60)"
    command = [sys.executable, "-m", "stepscope", "record", "-o", str(tmp_path / "a.run"), "--", sys.executable, "-c", job]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    begin = time.monotonic()
    while not (tmp_path / "up").exists() and time.monotonic() - begin < 30:
        time.sleep(0.02)
    process.send_signal(number)

    assert process.wait(timeout=30) == 128 + number
