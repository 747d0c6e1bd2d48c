"""The sentence on what grew is computed: it turns with its inputs and claims no more than the steps allow."""

from __future__ import annotations

from dataclasses import replace

from stepscope.analysis.compare import compare_steps
from stepscope.model.breakdown import Breakdown
from stepscope.show.growth import culprits, sentence
from tests.show.build import step

SHAKE = (-1.0, 1.0, -0.5, 0.5)


def job(slow: dict[int, float] | None = None, ranks: int = 4, late: float = 0, shake: float = 1, **parts: float) -> Breakdown:
    """Four steps that take 100 ms a rank; the slow ranks compute so much longer, and all others wait as long."""
    most = max((slow or {}).values(), default=0)
    usual = {"forward": 30.0, "backward": 50.0, "comm_wait": 10.0, "input_wait": 10.0, **parts}
    rows = []
    for rank in range(ranks):
        own = (slow or {}).get(rank, 0)
        for k, s in enumerate(SHAKE):
            more = {"backward": own * 0.75, "forward": own * 0.25 + s * shake, "comm_wait": most - own, "input_wait": late}
            rows.append(step(rank, k, **{p: v + more.get(p, 0) for p, v in usual.items()}))
    return Breakdown(tuple(rows), ())


def said(base: Breakdown, run: Breakdown, **more: object) -> str:
    return sentence(compare_steps(base, run, **more))  # type: ignore[arg-type]


def test_the_slow_rank_is_named_and_that_the_others_wait() -> None:
    assert said(job(), job({2: 60})) == (
        "The step grew by 60.0 ms, from 100 ms to 160 ms (+60 %): "
        "rank 2's own work grew by 60.0 ms (backward +45.0 ms, forward +15.0 ms), and the other ranks wait for it."
    )


def test_the_mirror_says_the_opposite() -> None:
    assert said(job({2: 60}), job()) == (
        "The step shrank by 60.0 ms, from 160 ms to 100 ms (-38 %): "
        "rank 2's own work shrank by 60.0 ms (backward -45.0 ms, forward -15.0 ms), and the other ranks no longer wait for it."
    )


def test_the_rank_follows_the_input_and_several_may_be_named() -> None:
    for slow in range(4):
        assert f"rank {slow}'s own work grew by 40.0 ms" in said(job(), job({slow: 40}))
    two = said(job(ranks=8), job({3: 40, 4: 38}, ranks=8))
    assert "the own work of ranks 3-4 grew by 39.0 ms" in two
    assert "the other ranks wait for them" in two


def test_all_ranks_alike_is_nobodys_fault() -> None:
    found = compare_steps(job(), job(dict.fromkeys(range(4), 30)))
    assert culprits(found) == []
    assert sentence(found) == (
        "The step grew by 30.0 ms, from 100 ms to 130 ms (+30 %): backward grew by 22.5 ms and forward grew by 7.50 ms."
    )


def test_half_of_the_ranks_are_too_many_to_name() -> None:
    assert "own work" not in said(job(), job({0: 40, 1: 40}))


def test_what_shrank_is_said_beside_what_grew() -> None:
    moved = said(job(), job(input_wait=60, backward=28))
    assert moved == (
        "The step grew by 28.0 ms, from 100 ms to 128 ms (+28 %): waiting for input grew by 50.0 ms; backward shrank by 22.0 ms."
    )


def test_a_rest_that_is_no_single_parts_is_told_together() -> None:
    base = job(host_bound=4, copy=4, idle=4, optimizer=4)
    run = job(host_bound=0, copy=0, idle=0, optimizer=0, late=50)
    assert said(base, run).endswith("waiting for input grew by 50.0 ms; the other parts together shrank by 16.0 ms.")


def test_growth_of_one_part_and_shrinking_of_another_may_leave_the_step() -> None:
    assert said(job(), job(forward=55, backward=25)) == (
        "The step went from 100 ms to 100 ms (0 %), no more than its steps vary: "
        "forward grew by 25.0 ms; backward shrank by 25.0 ms."
    )


def test_a_run_against_itself_says_nothing_grew() -> None:
    assert said(job({2: 60}), job({2: 60})) == "Nothing grew: the step takes 160 ms in both, and every part is the same."


def test_noise_is_no_growth() -> None:
    assert said(job(shake=9), job(shake=9, late=1)) == (
        "Nothing grew: the step takes 100 ms and 101 ms (+1.0 %); no part changed by more than its steps vary."
    )


def test_one_step_claims_nothing() -> None:
    one = replace(job(), steps=tuple(s for s in job().steps if s.step == 0))
    run = replace(job({1: 60}), steps=tuple(s for s in job({1: 60}).steps if s.step == 0))
    assert said(one, run) == (
        "The step went from 99.0 ms to 159 ms (+61 %): waiting for other ranks in communication grew by 45.0 ms, "
        "backward grew by 11.2 ms and forward grew by 3.75 ms; "
        "rank 1's own work grew by 60.0 ms (backward +45.0 ms, forward +15.0 ms). "
        "One whole step on a side has no bounds, so whether that is more than steps vary is not known."
    )
    assert said(one, one).startswith("Nothing grew: the step takes 99.0 ms in both")


def test_other_numbers_of_tokens_are_compared_per_token() -> None:
    twice = job(dict.fromkeys(range(4), 100))
    assert said(job(), twice, tokens=(1000, 2000)).endswith(" Per token it takes as long as before.")
    unsure = said(job(), twice, tokens=(1000, 1970))
    assert unsure.endswith(" Per token it grew by 1.52 us (+1.5 %), no more than its steps vary.")
    assert said(job(), twice, tokens=(1000, 1250)).endswith(" Per token it grew by 60.0 us (+60 %).")
    assert "Per token" not in said(job(), twice, tokens=(1000, 1000))
