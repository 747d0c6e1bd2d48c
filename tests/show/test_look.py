"""Colour, width and characters follow the flag, then NO_COLOR, then the terminal."""

import io

import pytest

from stepscope.show.look import Look, look_for


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("color", "env", "terminal", "wanted"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {}, True, False),
    ],
)
def test_colour(color: str, env: dict[str, str], terminal: bool, wanted: bool) -> None:
    stream = Terminal() if terminal else io.StringIO()
    assert look_for(stream, color, env).colour is wanted  # type: ignore[arg-type]


def test_width() -> None:
    assert look_for(io.StringIO(), "auto", {"COLUMNS": "72"}).width == 72
    assert look_for(io.StringIO(), "auto", {"COLUMNS": "3"}).width == 40
    assert look_for(io.StringIO(), "auto", {"COLUMNS": "wide"}) == Look(100)


def test_a_stream_without_block_characters() -> None:
    assert look_for(io.TextIOWrapper(io.BytesIO(), encoding="latin-1"), "auto", {}).ascii
    assert not look_for(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), "auto", {}).ascii
