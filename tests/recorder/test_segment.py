"""Segments: what was appended is read, whatever happened to the file since; nothing is appended where there is no room."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.model.segment import FOLDER, Head, Lost, Name, Rows, framed, frames, is_live
from stepscope.recorder import segment
from stepscope.recorder.segment import SegmentWriter


def head(part: int = 1) -> Head:
    return Head(0, 2, 0, "node0", "boot", 1, 0, part, 0, 0, 7, "cpu", "", {})


def writer(folder: Path, keep: int = 1 << 20) -> SegmentWriter:
    return SegmentWriter(folder, "rank-0.0.1", keep, lambda part: framed(head(part)))


def rows(folder: Path) -> list[list[int]]:
    return [
        row for path in sorted(folder.glob("*.seg")) for frame in frames(path) if isinstance(frame, Rows) for row in frame.rows
    ]


def test_what_is_appended_is_readable_at_once_and_after_the_end(tmp_path: Path) -> None:
    one = writer(tmp_path)
    assert not one.append(framed(Name(0, "early"))), "no file is ready yet"
    assert one.prepare()
    assert one.append(framed(Rows([[2, 0, 1]])))
    assert rows(tmp_path) == [[2, 0, 1]]
    assert one.append(framed(Rows([[2, 1, 2], [2, 2, 3]])))
    one.close()
    (path,) = tmp_path.iterdir()
    assert [type(frame) for frame in frames(path)] == [Head, Rows, Rows]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size < 1000, "the blocks that were not needed are given back"


@pytest.mark.parametrize("damage", [b"", b"\0" * 8, b"\xff" * 64, framed(Rows([[1]]))[:-1], b"\x05\0\0\0\0\0\0\0hello"])
def test_frames_end_at_the_first_that_is_not_whole(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "a.seg"
    path.write_bytes(b"SSLIVE1\n" + framed(head()) + framed(Rows([[2, 0, 1]])) + damage)
    told = [Lost] if damage[:1] == b"\xff" or damage == framed(Rows([[1]]))[:-1] else []  # else blocks not yet written, or a kill
    assert [type(frame) for frame in frames(path)] == [Head, Rows, *told]


def test_what_is_no_segment_holds_nothing(tmp_path: Path) -> None:
    for number, data in enumerate((b"", b"SSLIVE1", b"PK\x03\x04 something else")):
        path = tmp_path / f"{number}.seg"
        path.write_bytes(data)
        assert list(frames(path)) == []


def test_every_cut_of_a_segment_is_a_prefix_of_it(tmp_path: Path) -> None:
    whole = b"SSLIVE1\n" + b"".join(framed(Rows([[2, n]])) for n in range(5))
    path = tmp_path / "a.seg"
    seen = set()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        read = [frame.rows[0][1] for frame in frames(path) if isinstance(frame, Rows)]
        assert read == list(range(len(read)))
        seen.add(len(read))
    assert seen == set(range(6))


def test_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "PART_BYTES", 4096)
    one = writer(tmp_path, keep=3 * 4096)
    for number in range(2000):
        one.prepare()
        assert one.append(framed(Rows([[2, number, 0, 0, 0, 0]])))
    one.close()
    found = [row[1] for row in rows(tmp_path)]
    assert found == list(range(found[0], 2000)), "without a hole"
    assert found[0] > 0
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 6 * 4096
    assert next(frames(min(tmp_path.iterdir()))) == head(int(min(tmp_path.iterdir()).name.split(".")[3])), "each stands alone"


def test_a_folder_that_cannot_be_written_is_said_not_raised(tmp_path: Path) -> None:
    one = writer(tmp_path / "absent")
    assert not one.prepare()
    assert one.error == "No such file or directory"
    assert not one.append(framed(Name(0, "x")))
    one.close()


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "rank-0.0.1.0001.seg").symlink_to(victim)
    assert not writer(tmp_path).prepare()
    assert victim.read_text() == "mine"


def test_a_live_folder_is_one_with_segments_and_without_tables(tmp_path: Path) -> None:
    assert not is_live(tmp_path)
    (tmp_path / FOLDER).mkdir()
    assert is_live(tmp_path)
    (tmp_path / "run.json").touch()
    assert not is_live(tmp_path)
