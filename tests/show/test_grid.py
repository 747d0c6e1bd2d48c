"""Tables on narrow screens: names give way in their middle, sentences go on below, nothing of a sentence is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepscope.model.table import Column, Table
from stepscope.show.grid import lay_out

COLUMNS = (Column("term"), Column("GiB", right=True), Column("formula", wraps=True))
SENTENCE = "4 B (fp32) x 8,030,261,248 parameters / 16 ranks"


def test_a_sentence_goes_on_below() -> None:
    head, rows = lay_out(Table("", COLUMNS, (("weights", 1.87, SENTENCE), ("moments", 3.74, "short"))), 40)

    assert [head, *rows] == [
        "term      GiB  formula",
        "weights  1.87  4 B (fp32) x",
        "               8,030,261,248 parameters",
        "               / 16 ranks",
        "moments  3.74  short",
    ]


def test_a_name_gives_way_in_its_middle() -> None:
    columns = (Column("unit"), Column("ms", right=True))
    _, rows = lay_out(Table("", columns, (("model.layers.31.feed_forward.down", 5),)), 30)

    assert rows == ["model.layers..forward.down   5"]


@given(
    words=st.lists(st.sampled_from(["a", "of", "layers", "8,192", "(residual"]), min_size=1, max_size=40),
    columns=st.integers(36, 90),
)
def test_no_word_is_lost_and_no_line_too_long(words: list[str], columns: int) -> None:
    head, rows = lay_out(Table("", COLUMNS, (("weights", 1.87, " ".join(words)),)), columns)

    assert max(len(line) for line in (head, *rows)) <= columns
    assert " ".join(rows).split() == ["weights", "1.87", *words]
