"""Hostile names: nothing that a stranger wrote acts on the reader's terminal, spreadsheet, page or script."""

import csv
import html
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.model.table import Column, Table
from stepscope.show import csv as as_csv
from stepscope.show import json as as_json
from stepscope.show import markdown, safe
from stepscope.show.look import Look
from stepscope.show.terminal import Paragraph, render

HOSTILE = {
    "\x1b[31mred\x1b[0m": "red",
    "\x1b]0;title\x07kernel": "kernel",
    "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
    "\x9b2Jclear": "clear",
    "a\x00b\x7fc\x85d": "abc d",
    "two\r\nlines": "two lines",
    "abc\u202edef\u2066g": "abcdefg",
    "zero\u200bwidth\ufeff\U000e0041": "zerowidth",
    "half\ud800": "half",
    "[red]not markup[/red]": "[red]not markup[/red]",
    "矩阵乘": "矩阵乘",
}


@pytest.mark.parametrize(("name", "shown"), HOSTILE.items())
def test_terminal(name: str, shown: str) -> None:
    assert safe.terminal(name) == shown


@given(st.text())
def test_what_is_shown_can_only_be_read(name: str) -> None:
    shown = safe.terminal(name)
    assert not any(
        ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" for c in shown
    )
    shown.encode()  # no lone surrogate is left
    assert safe.terminal(shown) == shown


@pytest.mark.parametrize("colour", [False, True])
def test_a_screen_shows_markup_as_text(colour: bool) -> None:
    table = Table("t[b]itle", (Column("name"),), (("[red]x[/red] :smile: \x1b[2J",),))
    text = render([Paragraph("[bold]p[/bold]"), table], Look(80, colour=colour))
    assert "[red]x[/red] :smile:" in text
    assert "[bold]p[/bold]" in text
    assert "\x1b[2J" not in text


@pytest.mark.parametrize("name", ["=cmd()", "+1+1", "-2+3", "@SUM(A1)", " =x", "\t=x", "|calc", "＝x", '"=x'])
def test_csv_cells_are_no_formulas(name: str) -> None:
    text = as_csv.table(Table("", (Column("name"),), ((name,),)))
    (_, (cell,)) = csv.reader(io.StringIO(text))
    assert cell.startswith("'")


@pytest.mark.parametrize("name", ["-5", "+1.5e3", "plain", "a=b", "-"])
def test_csv_leaves_numbers_and_words_alone(name: str) -> None:
    assert safe.csv_cell(name) == (name if name != "-" else "'-")


def test_csv_knows_unknown_from_zero() -> None:
    assert as_csv.table(Table("", (Column("a"), Column("b"), Column("c")), ((None, 0, 0.5),))) == "a,b,c\n,0,0.5\n"


@pytest.mark.parametrize(
    "name",
    [
        "a|b",
        "<script>alert(1)</script>",
        "[x](http://e)",
        "![i](x)",
        "`code`",
        "**b**",
        "_i_",
        "http://e.com",
        "@team",
        "#12",
        "a\nb",
    ],
)
def test_markdown_cells_hold(name: str) -> None:
    row = list(markdown.table(Table("", (Column("n"), Column("m")), ((name, "end"),))))[-1]
    bare = row.replace("\\|", "")
    assert bare.count("|") == 3
    assert "<" not in row
    assert "http://" not in row
    assert "](" not in row or "\\](" in row
    assert " @" not in row
    assert "\n" not in row


def test_markdown_keeps_names_readable() -> None:
    assert safe.markdown("reduce_scatter 15.0 (2 of 3)") == "reduce_scatter 15.0 (2 of 3)"
    assert safe.markdown("- item") == "\\- item"
    assert safe.markdown("1. item") == "1\\. item"


def test_html_and_json_in_html() -> None:
    assert safe.html_text("<b a='x'>\u202e") == "&lt;b a=&#x27;x&#x27;&gt;"
    document = {"name": "</script><!--\u2028 &amp;"}
    text = safe.json_in_html(json.dumps(document, ensure_ascii=False))
    assert "</" not in text
    assert "<!--" not in text
    assert json.loads(text) == document
    assert html.unescape(text) == text


@given(st.dictionaries(st.text(), st.one_of(st.none(), st.text(), st.integers(-(2**63), 2**63 - 1))))
def test_json_hides_nothing_and_changes_nothing(document: dict[str, object]) -> None:
    text = as_json.encode(document)
    assert json.loads(text) == document
    assert not any(c in text for c in "\x1b\x7f\x9b\u200b\u202e\u2066\ufeff")


def test_json_survives_names_that_are_not_utf8() -> None:
    assert json.loads(as_json.encode({"f\udcff": ["\udcfe"]})) == {"f\ufffd": ["\ufffd"]}


def test_long_names_keep_both_ends() -> None:
    assert safe.clip("sm90_xmma_gemm_bf16_tilesize128x128", 16) == "sm90_xm..128x128"
    assert safe.width("矩阵") == 4
    assert safe.width(safe.clip("矩阵乘法运算核函数", 10)) <= 10
