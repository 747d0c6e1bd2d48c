"""The strip of ranks: the literal screens at 1, 4 and 1,024 ranks, and what it names."""

from stepscope.show.look import Look
from stepscope.show.strip import Strip
from stepscope.show.terminal import render
from tests.show.build import MS


def drawn(strip: Strip, columns: int = 80, ascii_only: bool = False) -> str:
    return render([strip], Look(columns, ascii=ascii_only))


def test_one_rank() -> None:
    assert drawn(Strip("Own time", {0: 125 * MS})) == (
        "Own time\n"
        "  0  ░\n"
        "  · less   ░ median 125 ms +-5 %   ▒ +5 %   ▓ +10 %   █ +25 % and more\n"
        "  one rank alone: nothing to compare it with\n"
    )


def test_four_ranks_one_of_them_slow_and_one_absent() -> None:
    assert drawn(Strip("Own time", {0: 100 * MS, 1: 90 * MS, 2: 100 * MS, 3: 148 * MS}, world=5)) == (
        "Own time\n"
        "  0  ░·░█?\n"
        "  · less   ░ median 100 ms +-5 %   ▒ +5 %   ▓ +10 %   █ +25 % and more\n"
        "  ? not recorded\n"
        "  most:  rank 3 148 ms (+48 %)\n"
        "  least: rank 1 90.0 ms (-10 %)\n"
    )


def test_every_shade_has_its_distance() -> None:
    values = {0: 94, 1: 96, 2: 100, 3: 104, 4: 107, 5: 115, 6: 125, 7: 100, 8: 100, 9: 100, 10: 100}
    line = drawn(Strip("Own time", {r: v * MS for r, v in values.items()})).splitlines()[1]
    assert line == "   0  ·░░░▒▓█░ ░░░"


def test_1024_ranks() -> None:
    values = dict.fromkeys(range(1024), 125.0 * MS) | {517: 185.0 * MS, 518: 133.0 * MS}
    quiet = "░░░░░░░░ ░░░░░░░░ ░░░░░░░░ ░░░░░░░░ ░░░░░░░░ ░░░░░░░░ ░░░░░░░░ ░░░░░░░░"
    rows = [f"  {first:>4}  {quiet}" for first in range(0, 1024, 64)]
    rows[8] = "   512  ░░░░░█▒░" + quiet[8:]
    assert drawn(Strip("Own time", values)).splitlines() == [
        "Own time",
        *rows,
        "  · less   ░ median 125 ms +-5 %   ▒ +5 %   ▓ +10 %   █ +25 % and more",
        "  most:  rank 517 185 ms (+48 %), rank 518 133 ms (+6.4 %)",
    ]


def test_more_ranks_than_cells_show_the_worst_of_each_cell() -> None:
    text = drawn(Strip("Own time", dict.fromkeys(range(16384), 100.0 * MS) | {9001: 300.0 * MS}))
    assert "a cell is 8 ranks and shows the one furthest from the median" in text
    assert text.count("█") == 2  # the cell and the legend
    assert "most:  rank 9001 300 ms (+200 %)" in text
    assert len(text.splitlines()) < 40


def test_it_wraps_to_the_width() -> None:
    for columns in (40, 60, 80, 100, 200):
        text = drawn(Strip("Own time", {r: (100.0 + r % 40) * MS for r in range(1024)}), columns)
        assert max(map(len, text.splitlines())) <= columns


def test_it_reads_without_block_characters() -> None:
    text = drawn(Strip("Own time", {0: 100.0, 1: 100.0, 2: 150.0}), ascii_only=True)
    assert text.isascii()
    assert "  0  --#" in text


def test_a_median_of_zero_divides_nothing() -> None:
    assert "most:  rank 2 5.00 ms" in drawn(Strip("Own time", {0: 0.0, 1: 0.0, 2: 5.0 * MS}))


def test_many_that_stand_out_are_counted() -> None:
    text = drawn(Strip("Own time", {r: (200.0 if r < 7 else 100.0) * MS for r in range(64)}))
    assert "rank 4 200 ms (+100 %)" in text
    assert "and 2 more" in text
