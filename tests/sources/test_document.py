"""Files into events: every layout that writers use, and every damage that they leave."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.model.errors import BadInput
from stepscope.sources.kineto import document as module
from stepscope.sources.kineto.document import Reading, TraceDocument
from tests.sources.make import gpu_trace, host, write

EVENTS = [host(f"op{i}", 10 * i, 5) for i in range(40)]


def read(path: Path) -> tuple[list[str], Reading]:
    """Names of the events of a file, in order, and the reader's notes."""
    document = TraceDocument(path)
    names = [str(e.name) for batch in document for e in batch.events]
    return names, document.reading


def names_of(path: Path, data: bytes) -> tuple[list[str], Reading]:
    """The same for bytes."""
    return read(write(path, data))


NAMES = [f"op{i}" for i in range(40)]


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("form", ["object", "list"])
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_every_layout_gives_the_same_events(tmp_path: Path, indent: int | None, form: str, suffix: str) -> None:
    document: Any = {"schemaVersion": 1, "traceEvents": EVENTS, "traceName": "x"} if form == "object" else EVENTS
    data = json.dumps(document, indent=indent).encode()
    names, reading = read(write(tmp_path / f"a{suffix}", data))
    assert (names, reading.repaired, reading.dropped, reading.findings) == (NAMES, 0, 0, [])
    assert ("traceName" in reading.metadata) == (form == "object")


def test_the_name_does_not_decide_and_a_byte_order_mark_does_not_hurt(tmp_path: Path) -> None:
    data = json.dumps({"traceEvents": EVENTS}).encode()
    assert names_of(tmp_path / "a.json", gzip.compress(data))[0] == NAMES
    assert names_of(tmp_path / "b.json", b"\xef\xbb\xbf" + data)[0] == NAMES


def test_small_blocks_cut_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.sources.kineto.stream.BLOCK", 700)
    names, reading = names_of(tmp_path / "a.json", json.dumps({"traceEvents": EVENTS, "end": 1}).encode())
    assert (names, reading.dropped, reading.metadata["end"]) == (NAMES, 0, 1)


DAMAGES = {
    "bare quotes": (b'"op7"', b'"op7 <built-in method of "str" object>"', 'op7 <built-in method of "str" object>'),
    "newline": (b'"op7"', b'"op\n7"', "op\n7"),
    "control character": (b'"op7"', b'"op\x017"', "op\x017"),
    "backslash": (b'"op7"', b'"C:\\op7"', "C:\\op7"),
    "bad utf-8": (b'"op7"', b'"op\xff7"', "op\ufffd7"),
    "nan": (b'"ts": 70', b'"bw": NaN, "ts": 70', "op7"),
    "infinity": (b'"ts": 70', b'"bw": -inf, "ts": 70', "op7"),
    "no closing brace": (b'"ts": 70, "dur": 5, "args": {}}', b'"ts": 70, "dur": 5, "args": {}', "op7"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_damaged_event_is_mended_and_all_others_stay(tmp_path: Path, damage: str) -> None:
    sound, broken, mended = DAMAGES[damage]
    data = json.dumps({"traceEvents": EVENTS}).encode()
    assert data.count(sound) == 1
    names, reading = names_of(tmp_path / "a.json", data.replace(sound, broken))
    assert [n for n in names if n != mended] == [n for n in NAMES if n != "op7"]
    assert mended in names
    assert reading.dropped == 0
    assert reading.repaired >= 1 or damage in ("nan", "newline", "control character")  # these the decoder passes over


def test_an_event_beyond_repair_is_counted(tmp_path: Path) -> None:
    data = json.dumps({"traceEvents": EVENTS}).encode().replace(b'"name": "op7", "pid": 100, "tid": 100, "ts": 70', b'"na###')
    names, reading = names_of(tmp_path / "a.json", data)
    assert names == [n for n in NAMES if n != "op7"]
    assert reading.dropped == 1


def test_a_cut_file_gives_what_it_holds_and_says_so(tmp_path: Path) -> None:
    data = json.dumps({"traceEvents": EVENTS}).encode()
    names, reading = names_of(tmp_path / "a.json", data[: data.index(b'"op30"') + 3])
    assert (names, reading.dropped) == (NAMES[:30], 1)
    assert reading.findings == ["the file ends in the middle of an event"]
    packed = gzip.compress(json.dumps({"traceEvents": [host(f"op{i}", i * i, i) for i in range(3000)]}).encode())
    names, reading = names_of(tmp_path / "b.json", packed[: len(packed) * 2 // 3])
    assert len(names) > 1000
    assert names == [f"op{i}" for i in range(len(names))]
    assert "the gzip ends early" in reading.findings


def test_two_writers_of_one_file_are_noticed(tmp_path: Path) -> None:
    data = json.dumps({"traceEvents": EVENTS}).encode()
    names, reading = names_of(tmp_path / "a.json", data + data)
    assert names == NAMES
    assert any("second document" in f for f in reading.findings)


def test_a_writer_amid_another_is_noticed_and_nothing_after_it_is_lost(tmp_path: Path) -> None:
    head = {"deviceProperties": [{"id": 0, "name": "GPU"}], "traceEvents": EVENTS}
    data = json.dumps(head).encode()
    cut, end = data.index(b'"op20"'), data.index(b'"op5"')
    names, reading = names_of(tmp_path / "a.json", data[:cut] + data[:end] + data[cut:])
    assert set(names) >= set(NAMES) - {"op20"}
    assert any("amid the events" in f for f in reading.findings)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"hello", "not a profiler trace"),
        (b'{"a": 1}', "not a profiler trace"),
        (b"[" * 200_000, "not a profiler trace"),
        (b'{"traceEvents":' + b"[" * 200_000, None),
        (b'{"traceEvents": []}', None),
    ],
)
def test_what_cannot_be_read_is_one_line_or_nothing(tmp_path: Path, data: bytes, says: str | None) -> None:
    path = write(tmp_path / "a.json", data)
    if says is None:
        assert read(path)[0] == []
        return
    with pytest.raises(BadInput, match=says) as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_a_stretch_without_events_ends_the_reading_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STRETCH", 1 << 20)
    path = write(tmp_path / "a.json.gz", b'{"traceEvents": [' + b" " * (8 << 20))
    with pytest.raises(BadInput, match="no event in"):
        read(path)
    path = write(tmp_path / "b.json.gz", b'{"x": [' + b"[" * (8 << 20))
    with pytest.raises(BadInput, match="not a profiler trace"):
        read(path)


def test_a_gzip_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.sources.kineto.stream.FREE_BYTES", 1 << 20)
    bomb = json.dumps({"traceEvents": [EVENTS[0]] * 40_000}).encode()
    with pytest.raises(BadInput, match="unpacks to over"):
        read(write(tmp_path / "a.json.gz", bomb))


HALVES = '"op7\\ud800"'  # half of a surrogate pair, as an escape


def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    data = json.dumps({"host_name": "h", "traceEvents": EVENTS}).replace('"op7"', HALVES).replace('"h"', '"h\\udc00"')
    names, reading = names_of(tmp_path / "a.json", data.encode())
    assert names == [n if n != "op7" else "op7?" for n in NAMES]
    assert reading.metadata["host_name"] == "h?"


PATHOLOGICAL = {
    "nest too deep": b'{"ph":{"ph":' * 200_000,
    "many names": b'{"ph":"X","cat":"cpu_op" ' + b'"name":"a" ' * 50_000,
    "many bad names": b'{"ph":"X","cat":"cpu_op",' + b'"name":"a\x01", bad ' * 50_000,
}


@pytest.mark.parametrize("case", PATHOLOGICAL)
def test_damage_made_to_be_slow_is_given_up(tmp_path: Path, case: str) -> None:
    data = json.dumps({"traceEvents": EVENTS}).encode()
    names, reading = names_of(tmp_path / "a.json", data[: data.rindex(b"]")] + b", " + PATHOLOGICAL[case])
    assert names[:40] == NAMES
    assert reading.dropped >= 1


def test_sound_json_with_unexpected_types_loses_nothing(tmp_path: Path) -> None:
    events = [{**e, "args": None} if i % 2 else {**e, "args": []} for i, e in enumerate(EVENTS)]
    names, reading = names_of(tmp_path / "a.json", json.dumps({"traceEvents": events}).encode())
    assert (names, reading.repaired, reading.dropped) == (NAMES, 0, 0)


def test_a_real_step_is_read_whole(tmp_path: Path) -> None:
    document = gpu_trace()
    assert len(read(write(tmp_path / "a.json", document))[0]) == len(document["traceEvents"])


@pytest.mark.parametrize(("place", "least"), [(0.5, 0.35), (0.9, 0.75), (-6, 1.0)])
def test_a_damaged_gzip_gives_what_stands_before_the_damage(tmp_path: Path, place: float, least: float) -> None:
    """A byte wrong in the middle, near the end, and in the check sum alone."""
    count = 3000
    packed = bytearray(gzip.compress(json.dumps({"traceEvents": [host(f"op{i}", i * i, i) for i in range(count)]}).encode()))
    packed[int(place * len(packed)) if place > 0 else int(place)] ^= 0xFF
    names, reading = names_of(tmp_path / "a.json", bytes(packed))
    assert least * count <= len(names) <= count
    assert any("the gzip is damaged" in finding for finding in reading.findings)


def test_a_damaged_second_member_keeps_the_first(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [host(f"op{i}", i * i, i) for i in range(3000)]}).encode()
    half = len(text) // 2
    second = bytearray(gzip.compress(text[half:]))
    second[len(second) // 2] ^= 0xFF
    names, reading = names_of(tmp_path / "a.json", gzip.compress(text[:half]) + bytes(second))
    assert 1500 < len(names) < 3000
    assert any("the gzip is damaged" in finding for finding in reading.findings)
