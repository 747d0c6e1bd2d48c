"""`stepscope compare` on the recorded pair: how the two sides are given, the gate, the formats."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from stepscope.cli import main
from stepscope.cli.compare import names
from stepscope.cli.demo import recordings
from stepscope.model.run import load
from tests.cli.conftest import Call


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs: `healthy.run`, marked good, and `slow.run`."""
    folder = tmp_path_factory.mktemp("runs")
    healthy, slow = recordings()
    assert main(["import", healthy, "-o", str(folder / "healthy.run"), "-q", "--good"]) == 0
    assert main(["import", slow, "-o", str(folder / "slow.run"), "-q"]) == 0
    return folder


def test_base_and_run(call: Call, runs: Path) -> None:
    end = call("compare", runs / "healthy.run", runs / "slow.run")
    assert (end.code, end.err) == (0, "")
    assert "rank 2's own work grew by" in " ".join(end.out.split())
    assert "  part           healthy.run  slow.run  change" in end.out


def test_exchanged_sides_reverse_it_and_the_same_run_grew_in_nothing(call: Call, runs: Path) -> None:
    back = call("compare", runs / "slow.run", runs / "healthy.run")
    assert back.out.startswith("The step shrank by ")
    assert "no longer wait for it" in " ".join(back.out.split())
    same = call("compare", runs / "slow.run", runs / "slow.run")
    assert same.out.startswith("Nothing grew: the step takes ")


def test_json_csv_and_markdown(call: Call, runs: Path) -> None:
    pair = (runs / "healthy.run", runs / "slow.run")
    doc = call("compare", *pair, "--format", "json").json
    assert doc["schema"] == "compare/1"
    assert doc["gate"] is None
    assert doc["ranks_that_stand_out"] == [2]
    assert abs(sum(p["delta_s"] for p in doc["parts"]) - doc["step_delta_s"]) < 1e-9
    rows = list(csv.DictReader(io.StringIO(call("compare", *pair, "--format", "csv").out)))
    assert [r["delta_s"] for r in rows[:-1]] == [str(p["delta_s"]) for p in doc["parts"]]
    assert call("compare", *pair, "--format", "markdown").out.startswith("**The step grew by ")


@pytest.mark.parametrize("limit", ["5%", "0.05", "50 %"])
def test_the_gate_trips_after_the_answer_is_written(limit: str, call: Call, runs: Path, tmp_path: Path) -> None:
    end = call("compare", runs / "healthy.run", runs / "slow.run", "--fail-above", limit)
    assert end.code == 3
    assert "\nAbove the limit: the step grew by 90.4 %" in end.out
    assert end.err.startswith("stepscope: the step grew by 90.4 %, above the ")
    out = tmp_path / "a.json"
    assert (
        call("compare", runs / "healthy.run", runs / "slow.run", "--fail-above", limit, "--format", "json", "-o", out).code == 3
    )
    gate = json.loads(out.read_text())["gate"]
    assert gate["tripped"] is True
    assert gate["growth"] == pytest.approx(0.904, abs=0.01)


def test_the_gate_holds(call: Call, runs: Path) -> None:
    for pair, limit in ((("healthy.run", "slow.run"), "100%"), (("slow.run", "healthy.run"), "0"), (("slow.run",) * 2, "0")):
        end = call("compare", *(runs / name for name in pair), "--fail-above", limit)
        assert (end.code, end.err) == (0, "")
        assert "\nWithin the limit: " in end.out


@pytest.mark.parametrize("limit", ["5", "x", "-1%", "nan", "inf", ""])
def test_limits_that_are_none(limit: str, call: Call, runs: Path) -> None:
    end = call("compare", runs / "healthy.run", runs / "slow.run", "--fail-above", limit)
    assert end.code == 2
    assert "5% or 0.05" in end.err or "write it as a percentage, such as 5%" in end.err


def test_last_good_in_every_spelling(call: Call, runs: Path) -> None:
    slow = runs / "slow.run"
    plain = call("compare", runs / "healthy.run", slow).out
    for words in (
        ["--base", "last-good", runs, slow],
        ["last-good", slow],
        [slow, "--base", "last-good"],
        [slow, "--base", "last-good", "--runs", runs],
        ["last-good", slow, "--runs", runs],
        [slow, "--base", runs / "healthy.run"],
    ):
        end = call("compare", *words)
        assert (end.code, end.out) == (0, plain)
        assert end.err == ("" if words[-1] == runs / "healthy.run" else f"base: {runs / 'healthy.run'}\n")


def test_a_good_run_is_not_its_own_base(call: Call, runs: Path) -> None:
    end = call("compare", "last-good", runs / "healthy.run")
    assert end.code == 1
    assert end.err.endswith("holds 2 runs, none of them marked good; mark one with stepscope import RUN --good\n")


@pytest.mark.parametrize(
    "words",
    [["a.run"], ["a", "b", "c"], ["a", "b", "--base", "c"], ["a", "b", "--runs", "c"], ["a", "--base", "b", "--runs", "c"]],
)
def test_sides_that_do_not_fit_together(words: list[str], call: Call) -> None:
    assert call("compare", *words).code == 2


def test_tokens(call: Call, runs: Path) -> None:
    pair = (runs / "healthy.run", runs / "slow.run")
    doc = call("compare", *pair, "--tokens-per-step", "1024,2048", "--format", "json").json
    assert doc["same_workload"] is False
    assert doc["tokens_per_step"] == {"base": 1024, "run": 2048}
    assert len(doc["per_token"]) == len(doc["parts"])
    end = call("compare", *pair, "--tokens-per-step", "1024,2048", "--fail-above", "5%")
    assert end.code == 0  # per token the step shrank
    assert "the time per token shrank by 4.78 %" in end.out
    assert call("compare", *pair, "--tokens-per-step", "4_096", "--format", "json").json["same_workload"] is True
    for wrong in ("0", "-1", "1,2,3", "many", "1.5"):
        assert call("compare", *pair, "--tokens-per-step", wrong).code == 2


def test_an_existing_output_is_refused_before_anything_is_read(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "a.txt"
    out.touch()
    end = call("compare", tmp_path / "no", tmp_path / "none", "-o", out)
    assert end.err == f"stepscope: {out}: exists already; use -f to replace it, or another name\n"


def test_columns_are_named_after_the_inputs() -> None:
    assert names("a/monday.run", "b/friday.run") == ("monday.run", "friday.run")
    assert names("a/job.run", "b/job.run") == ("base", "run")


def test_marking_and_unmarking_a_run(call: Call, runs: Path, tmp_path: Path) -> None:
    from shutil import copytree

    run = tmp_path / "a.run"
    copytree(runs / "slow.run", run)
    before = load(run).info
    end = call("import", run, "--good")
    assert (end.code, end.out, end.err) == (0, "", f"{run}: marked good\n")
    after = load(run).info
    assert after.good
    after.good = False
    assert after == before
    assert ", marked good" in call("show", run).out
    assert call("show", run, "--format", "json").json["good"] is True
    assert call("import", run, "--not-good", "-q").code == 0
    assert not load(run).info.good
    assert call("import", run, "--good", "-o", tmp_path / "b.run").code == 2
    assert sorted(p.name for p in run.iterdir()) == sorted(p.name for p in (runs / "slow.run").iterdir())
