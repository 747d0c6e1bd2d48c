"""The breakdown's screen, literally, and what it does with many ranks, many units, many gaps and the unknown."""

from dataclasses import replace

from stepscope.model.breakdown import Breakdown, UnitGather
from stepscope.model.info import Gap
from stepscope.show import breakdown, markdown
from stepscope.show.look import Look
from stepscope.show.terminal import render
from tests.show.build import MS, info, job, step

SCREEN = """\
Step 200 ms on average over 4 ranks x 2 steps: 48 % backward, 22 % waiting for
other ranks in communication, 20 % forward, 7.5 % moving data that compute did
not hide, 2.5 % the rest; rank 3 spends the least time in communication (15.0 ms
a step, the median rank 75.0 ms), often the mark of the rank that the others
wait for; rank 3 arrives last in 8 of the 8 collectives whose last rank is
known.

Where a rank's step went, in ms (exclusive parts, means add up)
  part            mean  share  median    p95  least  rank   most  rank
  input_wait       5.0  2.5 %     5.0    5.0    5.0     -    5.0     -
  forward         40.0   20 %    40.0   40.0   40.0     -   40.0     -
  backward        95.0   48 %    80.0  140.0   80.0     0  140.0     3
  comm_wait       45.0   22 %    60.0   60.0      0     3   60.0     0
  comm_transfer   15.0  7.5 %    15.0   15.0   15.0     -   15.0     -
  step           200.0  100 %   200.0  200.0  200.0     -  200.0     -
  0 in every step: optimizer, other_compute, comm_unsplit, copy, checkpoint,
  host_bound, idle
  naive sum of durations 400 ms, 2.0 x the step: overlap is counted as often as
  it occurs

Communication per rank over its whole window, in ms (exposed: not covered by
compute)
  rank  window  compute  total  exposed  hidden  hidden share
     0   400.0    260.0  180.0    150.0    30.0          17 %
     1   400.0    260.0  180.0    150.0    30.0          17 %
     2   400.0    260.0  180.0    150.0    30.0          17 %
     3   400.0    260.0  180.0     30.0    30.0          17 %

Collectives (mean wait and transfer in ms, median size and busbw)
  operation   count      size   wait  transfer      busbw  last most often
  all_reduce      8  64.0 MiB  45.00      5.00  42.0 GB/s  rank 3, 8 of 8

Parameter gathers per unit, in ms (mean per step and rank)
  unit      pass      gather  hidden  blocked  hidden share
  layers.0  forward    8.000   6.000    2.000          75 %
  layers.0  backward   9.000   9.000        -         100 %

Own time per rank and step (the step without exposed communication)
  0  ░░░█?
  · less   ░ median 125 ms +-5 %   ▒ +5 %   ▓ +10 %   █ +25 % and more
  ? not recorded
  most:  rank 3 185 ms (+48 %)

Not recorded, or recorded with a limit
  shapes (ranks 0-2): record_shapes was off
"""


def screen(result: Breakdown, columns: int = 80, ranks: int | None = None) -> str:
    return render(breakdown.blocks(result, info(ranks) if ranks else None), Look(columns))


def test_the_screen() -> None:
    assert screen(job(), ranks=4) == SCREEN


def test_a_wide_colour_screen_has_the_same_characters() -> None:
    import re

    colour = render(breakdown.blocks(job(), info()), Look(80, colour=True))
    assert "\x1b[" in colour
    assert re.sub(r"\x1b\[[0-9;]*m", "", colour) == SCREEN


def test_1024_ranks_stay_a_page_and_name_the_one() -> None:
    text = screen(job(1024, 2, 517), 80)
    assert len(text.splitlines()) < 75
    assert "\n       517   400.0    260.0  180.0     30.0    30.0          17 %\n" in text.replace("     517", "       517")
    assert "    median   400.0    260.0  180.0    150.0" in text.replace("  median", "    median")
    assert "the 5 most and the 5 least exposed ranks; 1,014 more: see --format json" in text


def test_parts_that_nobody_knows_are_named_and_not_shown_as_zero() -> None:
    unknown = step(0, 0, forward=10, idle=5)
    unknown.parts_ns["checkpoint"] = None  # type: ignore[assignment]
    text = screen(Breakdown((unknown,), ()))
    assert "not known: checkpoint" in text
    assert "checkpoint" not in text.split("0 in every step:")[1].split("\n")[0]


def test_cut_steps_are_counted_below() -> None:
    text = screen(Breakdown((step(0, 1, forward=100), step(0, 2, forward=9, complete=False)), ()))
    assert "1 cut rank-step left out (the recording starts or ends inside)" in text


def test_gaps_end_with_a_count() -> None:
    gaps = tuple(Gap(f"thing {i}", (), "off") for i in range(11))
    lines = screen(replace(job(), gaps=gaps)).splitlines()
    assert lines[-1] == "  and 3 more: see --format json"
    assert "  thing 7: off" in lines
    assert "  thing 8: off" not in lines


def test_of_many_units_the_blocking_ones() -> None:
    gathers = tuple(UnitGather(f"layers.{i}", "forward", 9 * MS, (9 - i % 9) * MS, (i % 9) * MS) for i in range(80))
    text = screen(replace(job(), units=gathers))
    assert "the units that blocked compute longest; 68 more: see --format json" in text
    assert "  layers.8 " in text
    assert "  layers.0 " not in text


def test_a_simulated_run_says_so_once() -> None:
    simulated = info()
    simulated.origin = "simulated"
    text = render(breakdown.blocks(job(), simulated), Look(80))
    assert text.startswith("A simulated run: its figures say nothing about a real machine.\n")


def test_nothing_recorded() -> None:
    assert screen(Breakdown((), ())) == "No step was found, so there is nothing to break down.\n"


def test_a_narrow_screen_turns_rows_into_records() -> None:
    text = screen(job(), 44)
    assert max(map(len, text.splitlines())) <= 44
    assert "  part backward\n    mean: 95.0\n" in text


def test_markdown_has_the_same_tables() -> None:
    text = markdown.document(breakdown.blocks(job()))
    assert text.startswith("**Step 200 ms on average over 4 ranks x 2 steps:")
    assert "| part | mean | share |" in text
    assert "| backward | 95.0 | 48 % | 80.0 | 140.0 | 80.0 | 0 | 140.0 | 3 |" in text
    assert "```text\nOwn time per rank and step" in text
    assert "\n- shapes (ranks 0-2): record_shapes was off\n" in text
