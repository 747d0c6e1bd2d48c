"""`--hosts FILE` on the command line: it reaches the reader, shows in what is printed, and is refused on a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepscope.model.place import Place
from tests.cli.conftest import Call


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "hostfile"
    path.write_text("node1 slots=2\nnode2 slots=2\n")
    return path


@pytest.mark.parametrize("verb", ["breakdown", "doctor", "import", "export csv"])
def test_hosts_reach_the_reader(
    verb: str, file: Path, call: Call, made: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("stepscope.analysis.doctor.examine", _examined)
    (tmp_path / "traces").mkdir()
    out = ["-o", tmp_path / "a.run"] if verb == "import" else []
    assert call(*verb.split(), tmp_path / "traces", "--hosts", file, *out).code == 0
    assert made["hosts"].places(4)[3] == Place("node2", 1)
    assert call(*verb.split(), tmp_path / "traces", *out, *(["-f"] if out else [])).code == 0
    assert made["hosts"] is None


def test_a_run_has_its_hosts_already(file: Path, call: Call, made: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "run.json").touch()
    end = call("show", tmp_path, "--hosts", file)
    assert end.code == 2
    assert "--hosts" in end.err
    assert "import it again" in end.err


def test_a_wrong_file_is_one_line(call: Call, made: dict[str, Any], tmp_path: Path) -> None:
    end = call("show", tmp_path, "--hosts", tmp_path / "absent")
    assert (end.code, end.out) == (1, "")
    assert end.err == f"stepscope: {tmp_path}/absent: no such file or directory; check --hosts\n"


def test_places_are_shown(call: Call, demo_dir: Path, file: Path, tmp_path: Path) -> None:
    end = call("import", demo_dir / "healthy", "--hosts", file, "-o", tmp_path / "a.run", "-q")
    assert end.code == 0
    assert "node2/gpu1" in end.out
    assert "place by order" in end.out
    details = call("show", tmp_path / "a.run", "--format", "json").json["rank_details"]
    assert [d["place"] for d in details] == [{"node": f"node{n}", "gpu": g, "nic": None} for n in (1, 2) for g in (0, 1)]
    assert [d["host"] for d in details] == ["node1", "node1", "node2", "node2"]


def _examined(run: Any) -> Any:
    from tests.show.build import examination

    return examination()
