"""Settings, hooks after an import, host signals, metrics: the pieces around the hooks. No torch."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from stepscope.cli.record import command
from stepscope.model.errors import StepscopeError, UsageMistake
from stepscope.recorder import settings as words
from stepscope.recorder.after_import import after_import
from stepscope.recorder.settings import Settings, address_of, from_environment, size_of
from stepscope.recorder.signals import Signals
from stepscope.recorder.start import SITE, environment
from tests.recorder.test_steps import MS, Played


def test_sizes_and_addresses() -> None:
    assert (size_of("256MB"), size_of("1.5G"), size_of("8388608")) == (256 << 20, 3 << 29, 8 << 20)
    assert address_of(":9400") == ("127.0.0.1", 9400), "loopback unless told otherwise"
    assert address_of("0.0.0.0:80") == ("0.0.0.0", 80)
    for wrong in ("x", "1KB", "-1GB", "12 parsecs"):
        with pytest.raises(UsageMistake):
            size_of(wrong)
    for wrong in ("9400:", "host", ":0", ":99999"):
        with pytest.raises(UsageMistake):
            address_of(wrong)


def test_settings_go_through_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Settings("/x/job.run", 1 << 23, 5.0, ":9400")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    passed = environment(given)
    assert passed["PYTHONPATH"] == f"{SITE}:/mine"
    monkeypatch.setenv(words.VARIABLE, passed[words.VARIABLE])
    assert from_environment() == given
    monkeypatch.setenv(words.VARIABLE, "{")
    assert from_environment() is None
    assert set(json.loads(passed[words.VARIABLE])) == {"out", "keep", "stall", "metrics", "interval", "alone"}


def test_a_hook_runs_right_after_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hooked_one.py").write_text("def f():\n    return 1\n")
    (tmp_path / "hooked_two.py").write_text("from hooked_one import f\nvalue = f()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    after_import("hooked_one", lambda module: setattr(module, "f", lambda: 2))
    after_import("hooked_two", lambda module: cast(Any, module).nothing)
    two = importlib.import_module("hooked_two")
    assert two.value == 2, "who imports the name gets the hooked one"
    assert two.__spec__.loader.__class__.__name__ == "SourceFileLoader", "no trace of it is left"
    assert "no hook in hooked_two (AttributeError" in capsys.readouterr().err
    after_import("hooked_one", lambda module: setattr(module, "f", lambda: 3))
    assert sys.modules["hooked_one"].f() == 3, "at once where it is there"


def test_the_hook_keeps_the_jobs_own_sitecustomize(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')\n")
    done = subprocess.run(
        [sys.executable, "-c", "import sys; print('torch' in sys.modules, 'stepscope.recorder.hooks' in sys.modules)"],
        env={"PYTHONPATH": f"{SITE}:{tmp_path}", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "mine\nFalse False\n"


def test_signals_of_this_process() -> None:
    import threading

    found = {(scope, metric): value for scope, metric, _, value in Signals(threading.get_native_id()).read()}
    assert found["rank", "process_cpu"] > 0
    assert found["rank", "thread_cpu"] > 0
    assert found["rank", "run_queue_wait"] >= 0
    assert found["rank", "host_rss"] > 1 << 20
    assert found["host", "host_memory"] > found["host", "host_memory_available"] > 0
    assert ("host", "tcp_retransmits") in found
    own = {scope for scope, _ in {(s, m) for s, m, _, _ in Signals(threading.get_native_id(), machine=False).read()}}
    assert own == {"rank"}, "one rank of a host tells of the host"


def test_a_signal_that_fails_is_not_asked_again() -> None:
    signals = Signals(-1)
    assert "thread_cpu" not in {metric for _, metric, _, _ in signals.read()}
    count = len(signals.readers)
    signals.read()
    assert len(signals.readers) == count


@pytest.mark.skipif(find_spec("prometheus_client") is None, reason="no prometheus-client here")
def test_metrics_tell_parts_and_lateness(tmp_path: Path) -> None:
    from stepscope.recorder.metrics import Server, tell

    ranks = [Played(tmp_path, rank, 2) for rank in range(2)]
    for one in ranks:
        at = 0
        for _ in range(3):
            at = one.step(at)
            one.steps.stood(0, (7 if one is ranks[0] else 2) * MS)
            one.steps.tokens = 64
        one.steps.boundary(one.ns(at))
        tell(tmp_path / "segments", one.journal.who.rank, one.steps)
    watch = cast(Any, SimpleNamespace(stalls=0, cpu_ns=5 * MS))
    server = Server("127.0.0.1", 0, ranks[1].steps, ranks[1].journal, watch)
    try:
        text = urllib.request.urlopen(f"http://127.0.0.1:{server._server.server_port}/metrics", timeout=5).read().decode()
    finally:
        server.close()
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(figures['stepscope_steps_total{rank="1"}']) == 3
    assert float(figures['stepscope_step_part_seconds_total{part="input_wait",rank="1"}']) == pytest.approx(0.03)
    assert float(figures['stepscope_lateness_seconds{rank="1"}']) == pytest.approx(0.005), "rank 0 waited 5 ms more"
    assert "# TYPE stepscope_steps_total counter" in text
    assert "# TYPE stepscope_lateness_seconds gauge" in text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "name the Run folder"),
        (("-o", "x.run"), "no command"),
        (("-o", "x.run", "--keep", "lots", "--", "true"), "is no size"),
        (("-o", "x.run", "--", "no-such-command-here"), "no such command"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StepscopeError, match=said):
        CliRunner().invoke(command, list(given), catch_exceptions=False)


def test_the_commands_exit_code_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(command, ["-o", "x.run", "--", "sh", "-c", "exit 7"], standalone_mode=False)
    assert result.return_value == 7
    again = CliRunner().invoke(command, ["-o", "x.run", "--", "sh", "-c", "kill -TERM $$"], standalone_mode=False)
    assert again.return_value == 128 + 15, "an empty folder is no run to be kept"


def test_a_run_is_not_overwritten(tmp_path: Path) -> None:
    one = Played(tmp_path / "a.run")
    one.step(0)
    one.end()
    with pytest.raises(StepscopeError, match="exists already"):
        CliRunner().invoke(command, ["-o", str(tmp_path / "a.run"), "--", "true"], catch_exceptions=False)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(StepscopeError, match="other things than a run"):
        CliRunner().invoke(command, ["-o", str(tmp_path / "mine"), "-f", "--", "true"], catch_exceptions=False)
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_a_job_that_ended_becomes_a_run_in_place(tmp_path: Path) -> None:
    import stepscope
    from stepscope.analysis.attribution import RULES
    from stepscope.sources.live.run import close_run

    for rank in range(2):
        one = Played(tmp_path, rank, 2)
        one.step(one.step(0))
        one.end()
    close_run(tmp_path, RULES)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "attribution", "collectives.parquet", "edges", "groups.parquet", "run.json", "signals.parquet", "spans",
    ]  # fmt: skip
    assert {p.stat().st_mode & 0o777 for p in tmp_path.rglob("*") if p.is_file()} == {0o600}
    with stepscope.read(tmp_path) as run:
        assert [s.step for s in run.info.ranks[1].steps] == [0, 1]


def test_a_folder_that_cannot_be_made_stops_the_recording_not_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    from stepscope.recorder.live import Live

    live = Live()
    live.arm(Settings("/dev/null/job.run"))
    assert live.seen() is None
    assert live.seen() is None, "and it is not tried again"
    assert capsys.readouterr().err == "stepscope: not recording (Not a directory); the job goes on\n"


def test_a_second_recording_into_a_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from stepscope.recorder.live import Live

    one = Played(tmp_path / "a.run")
    one.step(0)
    one.end()
    live = Live()
    live.arm(Settings(str(tmp_path / "a.run"), alone=True))
    assert live.seen() is None
    said = capsys.readouterr().err
    assert "a.run: holds a recording of rank 0 already; choose another name); the job goes on" in said


def test_a_taken_port_costs_the_metrics_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    pytest.importorskip("prometheus_client", reason="no prometheus-client here")
    import stepscope
    from stepscope.recorder.watch import Watch

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        one = Played(tmp_path / "a.run")
        watch = Watch(Settings(str(tmp_path / "a.run"), metrics=f":{port}", stall=0, interval=0.05), one.journal, one.steps)
        watch.start()
        one.step(0)
        watch.stop()
        one.end()

    assert f"--metrics 127.0.0.1:{port}: Address already in use; the recording goes on without" in capsys.readouterr().err
    with stepscope.read(tmp_path / "a.run") as run:
        assert {gap.what: gap.ranks for gap in run.info.gaps}["metrics not served"] == (0,)
        assert run.signals().height > 0, "the thread went on"
