"""A stranger's file: bounded, and refused in one line whatever it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.catalog.document import MAX_BYTES, decode, shipped
from stepscope.catalog.gpu import Gpu, load_gpu
from stepscope.catalog.system import System, load_system
from stepscope.model.errors import BadInput

H100 = shipped("gpus/h100-sxm.toml")


def refused(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        load_gpu(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xff\xfe", "not text in UTF-8; give a TOML file"),
        (b"[", "not TOML (Invalid"),
        (b"x = " + b"9" * 5000, "not TOML (Exceeds the limit"),
        (b"x = " + b"[" * 100_000, "nested too deeply"),
        (b"x = 1" + b" " * MAX_BYTES, "larger than 256 KiB"),
        (b"", "name: missing; add it"),
        (b"a.b.c = 1", "a: no such key; remove it (known here: source, name, title, "),
    ],
    ids=["binary", "not TOML", "long integer", "deep", "large", "empty", "odd key"],
)
def test_content_that_cannot_be(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "gpu.toml"
    path.write_bytes(content)

    assert refused(path).startswith(f"{path}: {says}")


def test_paths_that_cannot_be(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.toml"
    os.mkfifo(fifo)

    assert refused(tmp_path) == f"{tmp_path}: not a file; give a TOML file or a name of the catalog"
    assert refused(fifo) == f"{fifo}: not a file; give a TOML file or a name of the catalog"
    none = tmp_path / "none.toml"
    assert refused(none) == f"{none}: no such file or directory; give a TOML file that can be read, or a name of the catalog"
    assert "no path" in refused(Path("a\0.toml"))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("gbps = 3350", "gbps = -3350", "memory.gbps: expected float > 0.0; mend that value"),
        ("gbps = 3350", "gbps = 0", "memory.gbps: expected float > 0.0; mend that value"),
        ("gbps = 3350", "gbps = nan", "memory.gbps: expected float > 0.0; mend that value"),
        ("gbps = 3350", "gbps = inf", "memory.gbps: expected float <= 1000000.0; mend that value"),
        ("gbps = 3350", "gbps = true", "memory.gbps: expected float, got bool; mend that value"),
        ("gbps = 3350", "gbits = 3350", "memory.gbits: no such key; rename it to gbps (known here: source, bytes, gbps)"),
        ('kind = "nvlink"', 'kind = "pcie"', "scale_up.kind: invalid enum value 'pcie'; mend that value"),
        ('name = "h100-sxm"', 'name = "a/b"', "name: expected str matching regex"),
    ],
)
def test_values_that_cannot_be(old: str, new: str, says: str) -> None:
    assert old in H100
    with pytest.raises(BadInput) as caught:
        decode(H100.replace(old, new), Gpu, "my.toml")
    assert str(caught.value).startswith(f"my.toml: {says}")


def test_a_key_of_a_table_within_a_list_or_a_gpu_written_out() -> None:
    text = shipped("systems/hgx-h100.toml")
    with pytest.raises(BadInput, match=r"^my.toml: wiring\.gpus\[3\]\.nic: no such key; rename it to nics \(known here: "):
        decode(text.replace("{ pcie = 3, nics = [3] }", "{ pcie = 3, nic = [3] }"), System, "my.toml")
    own = text.replace('gpu = "h100-sxm"\n', "") + "\n[gpu]\n" + H100.replace("\n[", "\n[gpu.").replace("gbps = 3350", "gps = 1")
    with pytest.raises(BadInput, match=r"^my.toml: gpu\.memory\.gps: no such key; rename it to gbps "):
        decode(own, System, "my.toml")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_file_loads_or_is_refused_in_one_line(tmp_path: Path, data: st.DataObject) -> None:
    text = shipped("systems/dgx-1v.toml")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    path = tmp_path / "system.toml"
    path.write_text(text[:start] + data.draw(st.text('0123456789-.=[]{},"\n abcn', max_size=12)) + text[end:])

    try:
        load_system(path).cluster()
    except BadInput as error:
        assert "\n" not in str(error)
