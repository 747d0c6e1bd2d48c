"""torch memory snapshots and nvidia-smi's CSV: what they say, and what is refused."""

from __future__ import annotations

import pickle  # noqa: TID251 - writes what the reader must read, and what it must refuse
from pathlib import Path
from typing import Any

import pytest

from stepscope.model.errors import BadInput
from stepscope.sources.memory_csv import read_memory_csv
from stepscope.sources.memory_snapshot import read_snapshot

MIB = 1 << 20


def block(size: int, state: str, *frames: str) -> dict[str, Any]:
    return {"size": size, "requested_size": size, "address": 0, "state": state,
            "frames": [{"filename": f, "name": "f", "line": 1} for f in frames]}  # fmt: skip


def snapshot(path: Path, traces: list[dict[str, Any]]) -> Path:
    """The format of `torch.cuda.memory._dump_snapshot`: two segments of one GPU."""
    blocks = [
        block(3 * MIB, "active_allocated", "/torch/optim/adamw.py", "train.py"),
        block(1 * MIB, "inactive"),
        block(2 * MIB, "active_allocated", "/torch/nn/modules/linear.py"),
        block(4 * MIB, "active_pending_free", "/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py foreach_all_gather"),
    ]
    segments = [
        {"device": 0, "address": 0, "total_size": 4 * MIB, "blocks": blocks[:2]},
        {"device": 0, "address": 1 << 30, "total_size": 8 * MIB, "blocks": blocks[2:]},
    ]
    path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [traces]}))
    return path


def test_a_snapshot_says_what_is_live_reserved_and_who_asked(tmp_path: Path) -> None:
    found = read_snapshot(snapshot(tmp_path / "s.pickle", []))
    assert (found.allocated_bytes, found.reserved_bytes, found.total_bytes) == (9 * MIB, 12 * MIB, None)
    assert found.terms == {"unsharded units": 4 * MIB, "optimizer": 3 * MIB, "activations": 2 * MIB}
    assert "no history" in found.notes[0]


def test_the_history_tells_the_highest_before(tmp_path: Path) -> None:
    """Walked back: 9 live at the end; 6 were freed last, so 15 before that; 20 MiB of segments were given back."""
    traces = [
        {"action": "segment_alloc", "size": 20 * MIB},
        {"action": "alloc", "size": 6 * MIB},
        {"action": "free_requested", "size": 6 * MIB},
        {"action": "free_completed", "size": 6 * MIB},
        {"action": "segment_free", "size": 20 * MIB},
    ]
    found = read_snapshot(snapshot(tmp_path / "s.pickle", traces))
    assert (found.allocated_bytes, found.reserved_bytes) == (15 * MIB, 32 * MIB)
    assert found.now_allocated_bytes == 9 * MIB


class Runs:
    """Would run code when it is opened."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("opened",)


@pytest.mark.parametrize(
    "content", [pickle.dumps({"segments": [Runs()]}), pickle.dumps({"segments": 1}), pickle.dumps([1]), b"\x80"]
)
def test_what_is_no_snapshot_is_refused(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.pickle").write_bytes(content)
    with pytest.raises(BadInput, match=r"s\.pickle: "):
        read_snapshot(tmp_path / "s.pickle")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", [
    "index, memory.used [MiB]\n0, 71234 MiB\n1, 71000 MiB\n",
    "memory.used [MiB]\n71234\n10\n",
    "0, 71234 MiB\n1, 4 MiB\n",
    "71234\n",
])  # fmt: skip
def test_the_fullest_gpu_of_nvidia_smi(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.csv").write_text(text)
    assert read_memory_csv(tmp_path / "m.csv").total_bytes == 71234 * MIB


@pytest.mark.parametrize("text", ["", "name\nH100\n", "memory.used [MiB]\n[N/A]\n"])
def test_a_csv_without_memory_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.csv").write_text(text)
    with pytest.raises(BadInput, match=r"nvidia-smi --query-gpu"):
        read_memory_csv(tmp_path / "m.csv")
