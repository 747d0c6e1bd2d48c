"""When `--fail-above` trips, and what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepscope.analysis.compare import compare_steps
from stepscope.cli.gate import judge
from stepscope.model.breakdown import Breakdown
from stepscope.model.compare import Difference
from tests.show.build import step
from tests.show.test_growth import job


def test_above_the_limit_and_sure() -> None:
    found = compare_steps(job(), job({2: 60}))
    verdict = judge(found, 0.05)
    assert verdict.tripped
    assert verdict.why == "the step grew by 60 %, above the 5 % allowed"
    assert verdict.growth == pytest.approx(0.6)
    other = judge(replace(found, same_workload=False, differences=(Difference("x", "x", True),)), 0.05)
    assert other.why.endswith("; it is not the same workload")


def test_within_the_limit() -> None:
    assert not judge(compare_steps(job(), job({2: 4})), 0.05).tripped
    shrank = judge(compare_steps(job({2: 60}), job()), 0)
    assert (shrank.tripped, shrank.why) == (False, "the step shrank by 37.5 %; 0 % is allowed")


def test_growth_within_the_steps_variation_does_not_trip() -> None:
    verdict = judge(compare_steps(job(shake=20), job(shake=20, late=8)), 0.05)
    assert not verdict.tripped
    assert verdict.why == "the step grew by 8 %, above 5 %, but that is no more than its steps vary"


def test_one_step_decides_by_its_growth_alone() -> None:
    base, run = (Breakdown((step(0, 0, forward=ms),), ()) for ms in (100, 110))
    verdict = judge(compare_steps(base, run), 0.05)
    assert verdict.tripped
    assert "one whole step on a side" in verdict.why


def test_the_time_per_token_counts_where_tokens_differ() -> None:
    base, run = job(), job(dict.fromkeys(range(4), 60))
    assert judge(compare_steps(base, run, tokens=(1000, 1000)), 0.1).per == "step"
    assert not judge(compare_steps(base, run, tokens=(1000, 1600)), 0.1).tripped
    verdict = judge(compare_steps(base, run, tokens=(1000, 1200)), 0.1)
    assert (verdict.per, verdict.tripped) == ("token", True)
    assert verdict.why.startswith("the time per token grew by 33.3 %")


def test_a_base_of_no_length_has_no_growth() -> None:
    nothing = Breakdown((step(0, 0), step(0, 1)), ())
    verdict = judge(compare_steps(nothing, job()), 0.05)
    assert (verdict.tripped, verdict.growth) == (False, None)
