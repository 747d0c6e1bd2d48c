"""Figures as a reader expects them."""

import pytest

from stepscope.show import units


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "-"),
        (0, "0 ms"),
        (999, "999 ns"),
        (12_500, "12.5 us"),
        (558_300_000, "558 ms"),
        (999_700_000, "1.00 s"),
        (1_240_000_000, "1.24 s"),
        (-3_000_000, "-3.00 ms"),
        (61_000_000_000, "61.0 s"),
    ],
)
def test_duration(ns: int | None, text: str) -> None:
    assert units.duration(ns) == text


def test_a_column_keeps_one_unit_and_its_decimals() -> None:
    column = [558_300_000, 4_120_000, 30_000, 0, None]
    unit = units.time_unit(column)
    assert unit.name == "ms"
    assert [unit.cell(v) for v in column] == ["558.3", "4.1", "<0.1", "0", "-"]


@pytest.mark.parametrize(
    ("largest", "name", "cell"),
    [(2_345_000_000, "ms", "2345"), (12_000_000_000, "s", "12.00"), (9_500, "us", "9.500"), (80, "ns", "80"), (0, "ms", "0")],
)
def test_the_unit_follows_the_largest(largest: int, name: str, cell: str) -> None:
    unit = units.time_unit([largest])
    assert (unit.name, unit.cell(largest)) == (name, cell)


def test_shares() -> None:
    assert [units.percent(p, 1000) for p in (0, 0.2, 41, 410, 1000)] == ["0 %", "<0.1 %", "4.1 %", "41 %", "100 %"]
    assert units.percent(None, 10) == units.percent(1, 0) == "-"
    assert units.signed_percent(18, 100) == "+18 %"
    assert units.signed_percent(-4.2, 100) == "-4.2 %"


def test_sizes_and_rates() -> None:
    assert [units.size(b) for b in (None, 0, 512, 1 << 20, 3 << 29)] == ["-", "0 B", "512 B", "1.00 MiB", "1.50 GiB"]
    assert [units.rate(r) for r in (None, 41.2e9, 900e3)] == ["-", "41.2 GB/s", "900 kB/s"]


def test_ranks_are_written_as_runs() -> None:
    assert units.rank_list([3, 0, 1, 2, 7, 7]) == "0-3, 7"
    assert units.rank_list(range(0, 20, 2), most=3) == "0, 2, 4 and 7 more"
    assert units.rank_list([]) == ""


def test_words() -> None:
    assert units.count(1, "rank") == "1 rank"
    assert units.count(1024, "rank") == "1,024 ranks"
