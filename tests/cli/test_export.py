"""Exports of a real recording: the demo's, imported once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stepscope.cli.demo import recordings
from tests.cli.conftest import Call


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from stepscope.cli import main

    out = tmp_path_factory.mktemp("export") / "healthy.run"
    assert main(["import", recordings()[0], "-o", str(out), "-q"]) == 0
    return out


@pytest.mark.parametrize("what", ["spans", "collectives", "attribution", "breakdown"])
def test_the_three_formats_agree(what: str, run: Path, tmp_path: Path, call: Call) -> None:
    for kind in ("csv", "parquet", "json"):
        assert call("export", kind, run, "--what", what, "-o", tmp_path / f"a.{kind}").code == 0
    parquet = pl.read_parquet(tmp_path / "a.parquet")
    document = json.loads((tmp_path / "a.json").read_text())
    rows = document["steps" if what == "breakdown" else "rows"]
    csv = pl.read_csv(tmp_path / "a.csv", infer_schema_length=None)
    assert parquet.height == len(rows) == csv.height > 0
    assert parquet.columns[0] == csv.columns[0] == "rank"
    assert parquet["rank"].to_list() == [row["rank"] for row in rows] == csv["rank"].to_list()
    if what != "breakdown":
        assert parquet.columns == csv.columns == list(rows[0])
        assert document["schema"] == "export/1"


def test_export_refuses_and_pipes(run: Path, tmp_path: Path, call: Call) -> None:
    assert call("export", "parquet", run).code == 2
    (tmp_path / "a.csv").touch()
    assert call("export", "csv", run, "-o", tmp_path / "a.csv").code == 1
    assert call("export", "csv", run).out.startswith("rank,step,complete,duration_s,")
    assert call("export", "json", run, "-o", "-").json["schema"] == "breakdown/1"


def test_names_in_csv_are_no_formulas(tmp_path: Path) -> None:
    from stepscope.show import tables

    frame = pl.DataFrame({"rank": [0, 0], "name": ["=cmd()", None], "n": [-1, 2]})
    with (tmp_path / "a.csv").open("wb") as file:
        tables._csv(iter([frame, frame]), file)
    assert (tmp_path / "a.csv").read_text() == "rank,name,n\n" + "0,'=cmd(),-1\n0,,2\n" * 2


def test_show_and_breakdown_of_the_same_run(run: Path, call: Call) -> None:
    shown: dict[str, Any] = call("show", run, "--format", "json").json
    assert shown["schema"] == "show/1"
    assert shown["ranks"] == [0, 1, 2, 3]
    assert sum(c["calls"] for c in shown["collectives"]) > 0
    from_run = call("breakdown", run, "--format", "json").json
    from_traces = call("breakdown", recordings()[0], "--format", "json").json
    assert from_run["steps"] == from_traces["steps"]


def test_the_demo_itself(call: Call) -> None:
    end = call("demo")
    assert end.code == 0
    assert end.out.startswith("healthy: Step ")
    assert "\nslow-rank: Step " in end.out
    assert "rank 2 spends the least time in communication" in end.out
    assert "\nFrom healthy to slow-rank: the step grew by " in end.out
