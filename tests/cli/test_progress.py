"""The bar: silent without a terminal, late where there is one, harmless names."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable

import pytest

from stepscope.cli import progress


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


Place = Callable[[io.StringIO], io.StringIO]


@pytest.fixture
def stderr(monkeypatch: pytest.MonkeyPatch) -> Place:
    """Puts a stream in the place of stderr: called inside the test, since pytest sets its own between set-up and test."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "PATIENCE_S", 0.05)

    def place(stream: io.StringIO) -> io.StringIO:
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    return place


def test_work_that_lasts_gets_a_bar(stderr: Place) -> None:
    terminal = stderr(Terminal())
    with progress.Bar("reading") as bar:
        bar.step(1, 4, "/data/\x1b[2J[red]rank1.json")
        patience = time.monotonic() + 20
        while "1/4" not in terminal.getvalue() and time.monotonic() < patience:
            time.sleep(0.05)
    text = terminal.getvalue()
    assert "[red]rank1.json" in text
    assert "1/4" in text
    assert "\x1b[2J" not in text
    assert "/data/" not in text


def test_quick_work_and_quiet_get_none(stderr: Place) -> None:
    terminal = stderr(Terminal())
    with progress.Bar("reading") as bar:
        bar.step(1, 1, "a")
    with progress.Bar("reading", quiet=True):
        time.sleep(0.5)
    assert terminal.getvalue() == ""


def test_no_terminal_no_bar(stderr: Place) -> None:
    stream = stderr(io.StringIO())
    with progress.Bar("reading"):
        time.sleep(0.5)
    assert stream.getvalue() == ""
