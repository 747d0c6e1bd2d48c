"""`export perfetto`: the name it gives, the ranks and steps it picks, and what it refuses."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli.export import timeline_name
from stepscope.cli.numbers import Numbers, NumbersType
from stepscope.model.errors import UsageMistake
from tests.cli.conftest import Call
from tests.show import perfetto_reader


def test_a_timeline_beside_the_user(call: Call, demo_dir: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    end = call("export", "perfetto", demo_dir / "healthy", "--steps", "5-6", "--ranks", "0,2-3")
    assert (end.code, end.out) == (0, "")
    assert end.err == "wrote healthy.pftrace; open it at https://ui.perfetto.dev\n"
    data = (tmp_path / "healthy.pftrace").read_bytes()
    trace = perfetto_reader.read(data)
    assert [name[:6] for name in trace.processes] == ["rank 0", "rank 2", "rank 3"]
    assert {s.name for s in trace.slices if s.category == "step"} == {"step 5", "step 6"}
    again = call("export", "perfetto", demo_dir / "healthy")
    assert (again.code, again.err) == (1, "stepscope: healthy.pftrace: exists already; use -f to replace it, or another name\n")
    packed = call("export", "perfetto", demo_dir / "healthy", "--steps", "5-6", "--ranks", "0,2-3", "-o", "a.pftrace.gz", "-q")
    assert (packed.code, packed.err) == (0, "")
    assert gzip.decompress((tmp_path / "a.pftrace.gz").read_bytes()) == data


def test_ranks_and_steps_that_are_not_there(call: Call, demo_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.pftrace"
    end = call("export", "perfetto", demo_dir / "healthy", "--ranks", "0,7-9", "-o", out)
    assert (end.code, end.err) == (2, "stepscope: no rank 7-9 in this run; it has 0-3\n")
    end = call("export", "perfetto", demo_dir / "healthy", "--steps", "99", "-o", out)
    assert end.code == 2
    assert "no step 99 in this run" in end.err
    assert call("export", "perfetto", demo_dir / "healthy", "--steps", "3-", "-o", out).code == 2
    assert list(tmp_path.iterdir()) == []


def test_numbers() -> None:
    asked = NumbersType().convert("3-5, 9,0-999999999999999999", None, None)
    assert asked.ranges == ((3, 5), (9, 9), (0, 999999999999999999))
    assert asked.pick([11, 2, 9, 4], "step") == [2, 4, 9, 11]
    assert Numbers("4", ((4, 4),)).pick([4, 5], "step") == [4]
    with pytest.raises(UsageMistake, match="no step 4 in this run; it has none"):
        Numbers("4", ((4, 4),)).pick([], "step")


@pytest.mark.parametrize(
    ("inputs", "name"),
    [
        (["/data/fri.run"], "fri.pftrace"),
        (["/data/traces"], "traces.pftrace"),
        (["/data/rank0.pt.trace.json.gz"], "rank0.pftrace"),
        (["/data/fri/rank0.json", "/data/fri/rank1.json"], "fri.pftrace"),
    ],
)
def test_the_file_is_named_after_the_input(inputs: list[str], name: str) -> None:
    assert timeline_name([Path(i) for i in inputs]) == Path(name)
