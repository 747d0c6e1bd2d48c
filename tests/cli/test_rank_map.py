"""Rank maps: both forms, and every way to get one wrong is one line."""

from pathlib import Path

import pytest

from stepscope.cli.rank_map import read_rank_map
from stepscope.model.errors import BadInput


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "ranks"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    ['{"a.json": 0, "b c.json": 12}', "a.json 0\nb c.json 12\n", "# comment\n\na.json\t0   # first\nb c.json 12"],
)
def test_both_forms(text: str, tmp_path: Path) -> None:
    assert read_rank_map(written(tmp_path, text)) == {"a.json": 0, "b c.json": 12}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no file"),
        ("{", "not JSON"),
        ('{"a": 1, "a": 2}', "file a stands there 2 times"),
        ("a 1\nb 1", "rank 1 stands there 2 times"),
        ("a.json", "line 1 is not `file rank`"),
        ("a one", "'one' is no rank"),
        ("a -1", "'-1' is no rank"),
        ('{"a": true}', "'True' is no rank"),
        ('{"a": 1.5}', "'1.5' is no rank"),
        ("a ٣", "is no rank"),
        ("a 99999999999999999999", "is no rank"),
    ],
)
def test_what_is_no_map(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        read_rank_map(written(tmp_path, text))
    assert words in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(BadInput):
            read_rank_map(path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="not UTF-8"):
        read_rank_map(tmp_path / "binary")
