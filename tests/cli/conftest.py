"""A call of the command line as a test sees it, and a reader that needs no files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli import main
from stepscope.model.run import Run
from tests.show.build import info, job


@dataclass(frozen=True)
class Ending:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Ending]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Runs `stepscope` with those words in this process."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def run(*words: str | Path) -> Ending:
        capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return Ending(code, out, err)

    return run


class MadeRun(Run):
    """A run without files; `closed` counts how often it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Reader and analysis replaced: what they were asked for, and what they answer (`run`, `result`, `error`)."""
    asked: dict[str, Any] = {"run": MadeRun(Path("made.run"), info()), "result": job(), "error": None}

    def open_run(paths: Sequence[Path], **given: Any) -> Run:
        asked.update(given, paths=list(paths))
        if asked["error"] is not None:
            raise asked["error"]
        return asked["run"]

    def import_run(paths: Sequence[Path], out: Path, **given: Any) -> Run:
        return open_run(paths, out=out, **given)

    monkeypatch.setattr("stepscope.sources.detect.open_run", open_run)
    monkeypatch.setattr("stepscope.sources.detect.import_run", import_run)
    monkeypatch.setattr("stepscope.analysis.breakdown.breakdown", lambda run: asked["result"])
    return asked
