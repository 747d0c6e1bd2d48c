"""Which run `last-good` is: the newest marked one, whatever else lies in the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscope.cli.last_good import last_good
from stepscope.model import store
from stepscope.model.errors import BadInput
from stepscope.model.info import RunInfo


def made(folder: Path, name: str, origin_ns: int, good: bool = True) -> Path:
    path = folder / name
    path.mkdir()
    store.save_info(path, RunInfo(origin_ns=origin_ns, good=good))
    return path


def test_the_newest_by_when_it_was_recorded(tmp_path: Path) -> None:
    made(tmp_path, "c.run", 100)
    newest = made(tmp_path, "a.run", 300)
    made(tmp_path, "b.run", 200)
    made(tmp_path, "d.run", 400, good=False)
    os.utime(newest / "run.json", (1, 1))
    assert last_good(tmp_path) == newest
    assert last_good(tmp_path, newest) == tmp_path / "b.run"
    assert last_good(tmp_path, tmp_path / "c.run" / ".." / "a.run") == tmp_path / "b.run"


def test_what_is_no_run_is_passed_over(tmp_path: Path) -> None:
    good = made(tmp_path, "a.run", 5)
    for name, text in (("b.run", "{"), ("c.run", "[" * 100_000), ("d.run", '{"good": "yes", "origin_ns": 9}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(text)
    (tmp_path / "e.run").mkdir()
    (tmp_path / "e.run" / "run.json").symlink_to(made(tmp_path, "f.run", 1, good=False) / "run.json")
    (tmp_path / "file").touch()
    assert last_good(tmp_path) == good


def test_without_a_good_run_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no run; mark one with stepscope import RUN --good"):
        last_good(tmp_path)
    made(tmp_path, "a.run", 5, good=False)
    with pytest.raises(BadInput, match="holds 1 runs, none of them marked good"):
        last_good(tmp_path)
    with pytest.raises(BadInput, match="is a run, not a folder of runs"):
        last_good(tmp_path / "a.run")
    with pytest.raises(BadInput, match="no such folder of runs"):
        last_good(tmp_path / "none")
