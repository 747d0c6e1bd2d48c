"""Each verb over a reader that needs no files: what it asks for, what it prints, what it writes and refuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli.import_ import default_name
from stepscope.model.errors import BadInput
from stepscope.model.words import PARTS
from tests.cli.conftest import Call


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    folder = tmp_path / "traces"
    folder.mkdir()
    for rank in range(3):
        (folder / f"rank{rank}.json").touch()
    return folder


def test_breakdown_in_every_format(call: Call, made: dict[str, Any], traces: Path) -> None:
    text = call("breakdown", traces)
    assert text.code == 0
    assert text.err == ""
    assert text.out.startswith("Step 200 ms on average over 4 ranks x 2 steps:")
    doc = call("breakdown", traces, "--format", "json").json
    assert doc["schema"] == "breakdown/1"
    assert set(doc["steps"][0]["parts"]) == set(PARTS)
    rows = list(csv.DictReader(io.StringIO(call("breakdown", traces, "--format", "csv").out)))
    assert len(rows) == 8
    assert call("breakdown", traces, "--format", "markdown").out.startswith("**Step 200 ms")
    assert made["run"].closed == 4


def test_colour_only_where_it_is_wanted(call: Call, made: dict[str, Any], traces: Path) -> None:
    assert "\x1b[" not in call("breakdown", traces).out
    assert "\x1b[" in call("breakdown", traces, "--color", "always").out


def test_an_output_file_is_made_whole_and_never_overwritten(
    call: Call, made: dict[str, Any], traces: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a.json"
    assert call("breakdown", traces, "--format", "json", "-o", out).out == ""
    assert json.loads(out.read_text())["schema"] == "breakdown/1"
    made.pop("paths")
    refused = call("breakdown", traces, "--format", "json", "-o", out)
    assert refused.code == 1
    assert refused.err == f"stepscope: {out}: exists already; use -f to replace it, or another name\n"
    assert "paths" not in made  # refused before anything was read
    assert call("breakdown", traces, "-o", out, "-f").code == 0
    assert out.read_text().startswith("Step 200 ms")
    assert out.stat().st_mode & 0o777 == 0o644 or out.stat().st_mode & 0o777 == 0o664
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "traces"]


def test_output_dash_is_stdout(call: Call, made: dict[str, Any], traces: Path) -> None:
    assert call("breakdown", traces, "-o", "-").out.startswith("Step 200 ms")


@pytest.mark.parametrize(
    ("name", "words"), [("", "is empty"), (".", "is a folder"), ("no/such/a.json", "there is no folder no/such")]
)
def test_outputs_that_cannot_be(name: str, words: str, call: Call, made: dict[str, Any], traces: Path) -> None:
    end = call("breakdown", traces, "-o", name)
    assert end.code == (2 if name == "" else 1)
    assert words in end.err


def test_nothing_half_written_stays(call: Call, made: dict[str, Any], traces: Path, tmp_path: Path, monkeypatch: Any) -> None:
    def interrupted(path: Path, data: bytes) -> None:
        path.write_bytes(data[:5])
        raise KeyboardInterrupt

    monkeypatch.setattr("stepscope.cli.output._put", interrupted)
    assert call("breakdown", traces, "-o", tmp_path / "a.txt").code == 130
    assert [p.name for p in tmp_path.iterdir()] == ["traces"]


def test_marks_rank_map_and_jobs_reach_the_reader(call: Call, made: dict[str, Any], traces: Path, tmp_path: Path) -> None:
    ranks = tmp_path / "ranks.txt"
    ranks.write_text("rank0.json 7\n")
    words = ["--mark", "save_.*=checkpoint", "--mark", "a=b=input", "--rank-map", str(ranks), "-j", "3"]
    assert call("breakdown", traces, *words).code == 0
    assert made["marks"] == (("save_.*", "checkpoint"), ("a=b", "input"))
    assert made["rank_map"] == {"rank0.json": 7}
    assert made["jobs"] == 3
    assert callable(made["rules"].derive)


@pytest.mark.parametrize(
    ("mark", "words"), [("x=lunch", "'lunch' is no phase"), ("a(=input", "no regular expression"), ("abc", "REGEX=PHASE")]
)
def test_marks_that_are_none(mark: str, words: str, call: Call, made: dict[str, Any], traces: Path) -> None:
    end = call("breakdown", traces, "--mark", mark)
    assert end.code == 2
    assert words in end.err


def test_inputs_are_paths_and_globs(call: Call, made: dict[str, Any], traces: Path) -> None:
    call("breakdown", traces / "rank[01].json", traces / "rank0.json", traces)
    assert made["paths"] == [traces / "rank0.json", traces / "rank1.json", traces]
    assert call("breakdown", "no/such/folder").err == "stepscope: no/such/folder: no such file or folder; check the path\n"
    assert call("breakdown", traces / "*.gz").err.endswith("*.gz: matches no file or folder; check the pattern\n")


def test_a_file_whose_name_looks_like_a_glob(call: Call, made: dict[str, Any], traces: Path) -> None:
    (traces / "odd[1].json").touch()
    call("breakdown", traces / "odd[1].json")
    assert made["paths"] == [traces / "odd[1].json"]


def test_bad_data_is_one_line(call: Call, made: dict[str, Any], traces: Path) -> None:
    made["error"] = BadInput("traces: holds no traces; give the folder the profiler wrote to")
    end = call("show", traces)
    assert (end.code, end.out) == (1, "")
    assert end.err == "stepscope: traces: holds no traces; give the folder the profiler wrote to\n"


def test_import(call: Call, made: dict[str, Any], traces: Path, tmp_path: Path) -> None:
    out = tmp_path / "fri.run"
    end = call("import", traces, "-o", out)
    assert end.code == 0
    assert end.out.startswith(f"{out}: 4 ranks of 5, 3 steps, 48,006 events\n")
    assert end.err == f"wrote {out}\n"
    assert (made["out"], made["force"]) == (out, False)
    doc = call("import", traces, "-o", out, "--format", "json", "-q")
    assert {"ranks", "missing_ranks", "steps", "events", "repaired", "dropped", "clipped", "gaps", "clock"} <= set(doc.json)
    assert doc.err == ""


def test_import_names_its_run_after_the_input(call: Call, made: dict[str, Any], traces: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(traces.parent)
    call("import", "traces")
    assert made["out"] == Path("traces.run")
    assert default_name([Path("a/rank0.pt.trace.json.gz")]) == Path("rank0.run")
    assert default_name([Path("/data/fri/rank0.json"), Path("/data/fri/rank1.json")]) == Path("fri.run")


def test_import_refuses_before_it_reads(call: Call, made: dict[str, Any], traces: Path, tmp_path: Path) -> None:
    (tmp_path / "fri.run").mkdir()
    end = call("import", traces, "-o", tmp_path / "fri.run")
    assert end.code == 1
    assert "exists already; use -f to replace it" in end.err
    assert "paths" not in made
    assert call("import", traces, "-o", "-").code == 2
    assert call("import", traces, "-o", tmp_path / "no" / "a.run").code == 1
    assert call("import", traces, "-o", tmp_path / "fri.run", "-f").code == 0
    assert made["force"] is True


def test_doctor(call: Call, made: dict[str, Any], traces: Path, monkeypatch: Any) -> None:
    from tests.show.build import examination

    monkeypatch.setattr("stepscope.analysis.doctor.examine", lambda run: examination())
    assert call("doctor", traces).out.startswith("This recording answers 1 of 2 questions.\n")
    assert call("doctor", traces, "--format", "json").json["cannot"][0]["missing"] == "sequence numbers"
    assert "who came last,no,sequence numbers" in call("doctor", traces, "--format", "csv").out


def test_demo_of_two_inputs_and_its_mirror(
    call: Call, made: dict[str, Any], traces: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    from tests.show.build import job

    for name, slow in (("quick", None), ("slow", 3)):
        (tmp_path / name).mkdir()
        made[name] = job(slow=slow)
    monkeypatch.setattr("stepscope.analysis.breakdown.breakdown", lambda run: made[made["paths"][0].name])
    end = call("demo", tmp_path / "quick", tmp_path / "slow")
    assert end.out.startswith("quick: Step 200 ms")
    assert "\nFrom quick to slow: the step went from 200 ms to 200 ms (0 %)" in end.out
    assert "waiting for other ranks in communication grew by 45.0 ms and backward grew by 15.0 ms" in " ".join(end.out.split())
    mirror = call("demo", tmp_path / "slow", tmp_path / "quick")
    assert mirror.out.startswith("slow: Step 200 ms")
    assert "\nFrom slow to quick: the step went from 200 ms to 200 ms (0 %)" in mirror.out
    assert "waiting for other ranks in communication shrank by 45.0 ms and backward shrank" in " ".join(mirror.out.split())
    doc = call("demo", tmp_path / "slow", tmp_path / "quick", "--format", "json").json
    assert [run["name"] for run in doc["runs"]] == ["slow", "quick"]
    assert call("demo", tmp_path / "slow").code == 2
    assert call("demo", "--format", "csv").code == 2


def test_demo_without_its_recordings_says_what_to_do(call: Call, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr("stepscope.cli.demo.__file__", str(tmp_path / "a" / "b" / "c" / "demo.py"))
    end = call("demo")
    assert end.code == 1
    assert end.err.endswith("give two inputs: stepscope demo FIRST SECOND\n")


def test_marks_on_a_run_are_refused_not_ignored(call: Call, made: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "run.json").touch()
    end = call("breakdown", tmp_path, "--mark", "save=checkpoint")
    assert end.code == 2
    assert "import it again" in end.err
    assert "paths" not in made
