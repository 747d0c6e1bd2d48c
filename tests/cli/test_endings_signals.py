"""Asked to stop, a call unwinds: nothing half-written stays, no worker is left, and the exit code says which signal it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.sources.make import gpu_trace, write


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, code: int) -> None:
    events = gpu_trace(0, 2, 400)
    for rank in (0, 1):
        write(tmp_path / "t" / f"rank{rank}.json", {**events, "distributedInfo": {"rank": rank, "world_size": 2}})
    out, temporary = tmp_path / "out", tmp_path / "tmp"
    out.mkdir()
    temporary.mkdir()
    command = [sys.executable, "-m", "stepscope", "import", str(tmp_path / "t"), "-o", str(out / "x.run"), "-j", "2"]
    process = subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    begin = time.monotonic()
    while process.poll() is None and not list(out.iterdir()) and time.monotonic() - begin < 20:
        time.sleep(0.01)  # until the run is in the making
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert "Traceback" not in said
    if process.returncode == 0:  # it was done already
        assert [p.name for p in out.iterdir()] == ["x.run"]
    else:
        assert process.returncode == code
        assert list(out.iterdir()) == []
    assert list(temporary.iterdir()) == []
