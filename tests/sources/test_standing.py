"""A live job that stopped: who is missing at which collective, and who calls another one than the rest."""

from __future__ import annotations

import polars as pl

from stepscope.model.info import Group
from stepscope.sources.live.standing import standing

GROUPS = [Group("0", None, (0, 1, 2, 3)), Group("1", None, (0, 1))]


def frame(last: dict[int, tuple[int, str]], group: str = "0") -> pl.DataFrame:
    rows = [(group, r, s, "all_reduce" if s < top else op) for r, (top, op) in last.items() for s in range(top + 1)]
    return pl.DataFrame(rows, schema=["group", "rank", "seq", "op"], orient="row")


def test_a_rank_that_is_behind_is_missing_from_what_the_others_joined() -> None:
    at = {0: (5, "all_gather"), 1: (5, "all_gather"), 2: (5, "all_gather"), 3: (4, "all_reduce")}
    (gap,) = standing(frame(at), GROUPS)
    assert (gap.what, gap.ranks) == ("missing from a collective", (3,))
    assert gap.why == (
        "all_gather, number 5 of group 0, was joined by 3 of 4 ranks; the last that is known of the others: all_reduce 4"
    )


def test_a_rank_that_joined_nothing_is_missing_too() -> None:
    (gap,) = standing(frame({0: (0, "barrier"), 1: (0, "barrier"), 2: (0, "barrier")}), GROUPS)
    assert gap.ranks == (3,)
    assert gap.why.endswith("none")


def test_the_one_that_calls_something_else_is_named() -> None:
    at = {0: (5, "all_gather"), 1: (5, "all_gather"), 2: (5, "all_gather"), 3: (5, "all_reduce")}
    (gap,) = standing(frame(at), GROUPS)
    assert (gap.what, gap.ranks) == ("another collective", (3,))
    assert gap.why == "all_reduce where 3 of 4 ranks call all_gather, number 5 of group 0"


def test_where_all_stand_alike_nothing_is_said() -> None:
    assert standing(frame(dict.fromkeys(range(4), (5, "all_gather"))), GROUPS) == []


def test_each_group_is_asked_for_itself() -> None:
    both = pl.concat([frame(dict.fromkeys(range(4), (5, "all_gather"))), frame({0: (2, "reduce"), 1: (1, "reduce")}, "1")])
    (gap,) = standing(both, GROUPS)
    assert (gap.ranks, "group 1" in gap.why) == ((1,), True)
