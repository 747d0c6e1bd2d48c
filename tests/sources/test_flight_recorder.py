"""Flight-recorder dumps as far as they are read: JSON and pickle, empty and absent ones, and pickles that are more than data."""

from __future__ import annotations

import json
import pickle  # noqa: TID251 - the tests make what a stranger would
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stepscope.cli.show import command
from stepscope.model.errors import BadInput
from stepscope.sources import plain_pickle
from stepscope.sources.flight_recorder import find_dumps, read_dump, read_dumps


def document(first: int = 0, text: bool = False) -> dict[str, Any]:
    """A dump of two entries; `text` writes numbers of the groups as JSON dumps do."""
    entry = {"profiling_name": "nccl:all_reduce", "state": "completed", "process_group": ("0", "default_pg")}
    end = {"last_enqueued_collective": 12, "last_started_collective": -1, "last_completed_collective": 11}
    status = {"0": {k: str(v) for k, v in end.items()} if text else end}
    entries = [{**entry, "record_id": first}, {**entry, "record_id": first + 1, "state": "scheduled"}]
    return {"version": "2.10", "comm_lib_version": "2.27", "pg_config": {}, "pg_status": status, "entries": entries}


def test_pickle_and_json_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "fr_trace_3").write_bytes(pickle.dumps(document(), protocol=2))
    (tmp_path / "fr_3.json").write_text(json.dumps(document(text=True)))
    one, two = (read_dump(tmp_path / name) for name in ("fr_trace_3", "fr_3.json"))
    assert (one.form, two.form) == ("pickle", "json")
    for dump in (one, two):
        assert (dump.rank, dump.version, dump.library, dump.entries, dump.wrapped) == (3, "2.10", "2.27", 2, False)
        assert dump.operations == {"nccl:all_reduce": 2}
        assert dump.states == {"completed": 1, "scheduled": 1}
        assert dump.groups == {"0": (12, 11)}


def test_what_is_absent_empty_or_overwritten_is_a_gap(tmp_path: Path) -> None:
    (tmp_path / "fr_trace_0").write_bytes(pickle.dumps(document(first=7)))
    (tmp_path / "fr_trace_2").touch()
    found = read_dumps(find_dumps([tmp_path]))
    assert [(d.rank, d.form) for d in found.dumps] == [(0, "pickle"), (2, "empty")]
    assert {g.what: g.ranks for g in found.gaps} == {
        "empty dumps": (2,),
        "ranks without a dump": (1,),
        "older collectives missing": (0,),
    }


class Evil:
    """A pickle that would run a command."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("run",))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_code_is_refused_unopened(
    tmp_path: Path, protocol: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fr_trace_0").write_bytes(pickle.dumps({**document(), "x": Evil()}, protocol=protocol))
    with pytest.raises(BadInput, match="would run code"):
        read_dump(tmp_path / "fr_trace_0")
    assert capsys.readouterr().out == ""


def test_plain_data_of_every_protocol_is_read() -> None:
    value = {"a": [1, -(2**40), 2.5, None, True, "text", b"raw", (1, 2, 3, 4)], "b": {"c": []}}
    for protocol in range(3, pickle.HIGHEST_PROTOCOL + 1):
        assert plain_pickle.load(pickle.dumps(value, protocol=protocol), "x") == value
    for protocol in range(3):  # bytes would be a call there, and calls are refused
        assert plain_pickle.load(pickle.dumps({"a": [1, "x", (2,)]}, protocol=protocol), "x") == {"a": [1, "x", (2,)]}


DAMAGED = [b"\x80", b"\x80\x02", b"\x80\x02}q\x00(X\x05", b"\x80\x04" + b"(" * 100_000, b"\x80\x02N."]


@pytest.mark.parametrize("data", DAMAGED)
def test_damaged_and_nested_pickles_are_one_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "dump_1").write_bytes(data)
    with pytest.raises(BadInput) as caught:
        read_dump(tmp_path / "dump_1")
    assert "\n" not in str(caught.value)


def test_the_screen_of_a_folder(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"fr_{rank}.json").write_text(json.dumps(document(text=True)))
    result = CliRunner().invoke(command, [str(tmp_path)], env={"NO_COLOR": "1", "COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    assert "2 flight-recorder dumps, version 2.10, 4 entries" in " ".join(result.output.split())
    assert "0: 12/11" in result.output
    found = json.loads(CliRunner().invoke(command, [str(tmp_path), "--format", "json"]).output)
    assert (found["schema"], found["kind"], found["ranks"]) == ("show/1", "flight_recorder", [0, 1])


def test_recorded_dumps_are_read(shared: Path) -> None:
    for folder in sorted((shared / "dumps").iterdir()):
        files = find_dumps([folder])
        found = read_dumps(files)
        assert len(files) == len([f for f in folder.iterdir() if not f.name.endswith(".log")]), folder.name
        assert all(d.version or d.form == "empty" for d in found.dumps)  # a ring without entries has none in JSON
