"""`stepscope hops` on the repository's own recording: every format, and what is refused in one line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from stepscope.model.hops import ORDER
from tests.cli.conftest import Call

COMMUNICATION = ("comm_wait", "comm_transfer", "comm_unsplit")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, demo_dir: Path) -> Path:
    from stepscope.cli import main

    out = tmp_path_factory.mktemp("hops") / "healthy.run"
    assert main(["import", str(demo_dir / "healthy"), "-o", str(out), "-q"]) == 0
    return out


def test_every_format(call: Call, run: Path) -> None:
    text = call("hops", run)
    assert (text.code, text.err) == (0, "")
    assert text.out.startswith("Unit layers.1 in step 13 of rank 0: ")
    assert [row["n"] for row in call("hops", run, "--format", "json").json["hops"]] == list(ORDER)
    assert len(list(csv.DictReader(io.StringIO(call("hops", run, "--format", "csv").out)))) == len(ORDER)
    assert call("hops", run, "--format", "markdown").out.startswith("**Unit layers.1 in step 13 of rank 0:")
    assert call("hops", run, "--format", "mermaid").out.startswith("sequenceDiagram\n")


def test_the_whole_step_is_the_breakdowns(call: Call, run: Path) -> None:
    steps = call("breakdown", run, "--format", "json").json["steps"]
    parts = next(s["parts_ns"] for s in steps if (s["rank"], s["step"]) == (2, 9))
    found = call("hops", run, "--whole-step", "--rank", "2", "--step", "9", "--format", "json").json
    assert (found["rank"], found["step"], found["unit"], found["whole_step"]) == (2, 9, None, True)
    assert found["exposed_ns"] == found["breakdown_exposed_ns"] == sum(parts[part] for part in COMMUNICATION) > 0


def test_step_rank_and_unit_are_those_asked_for(call: Call, run: Path) -> None:
    found = call("hops", run, "--unit", "root", "--rank", "1", "--step", "5", "--format", "json").json
    assert (found["rank"], found["step"], found["unit"]) == (1, 5, "root")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--step", "99"], "no step 99 on rank 0; it has 4 to 13"),
        (["--rank", "-1"], "no rank -1 in this run; it has 0 to 3"),
        (["--unit", "layers.9"], "no unit layers.9 in step 13 of rank 0; it has layers.0, layers.1, root"),
        (["--unit", "root", "--whole-step"], "--whole-step has all units: leave it or --unit away"),
    ],
)
def test_what_is_not_there_is_one_line(call: Call, run: Path, words: list[str], said: str) -> None:
    end = call("hops", run, *words)
    assert (end.code, end.out, end.err) == (2, "", f"stepscope: {said}\n")


def test_an_unknown_shape_and_a_name_that_acts(call: Call, run: Path) -> None:
    assert call("hops", run, "--format", "svg").code == 2
    end = call("hops", run, "--unit", "\x1b[2Jx")
    assert end.code == 2
    assert "\x1b" not in end.err


def test_mermaid_is_for_hops_alone(call: Call, run: Path) -> None:
    assert call("breakdown", run, "--format", "mermaid").code == 2


def test_a_unit_without_end_is_not_repeated_in_full(call: Call, run: Path) -> None:
    ending = call("hops", run, "--unit", "a" * 9999)
    assert ending.code == 2
    assert len(ending.err) < 400
