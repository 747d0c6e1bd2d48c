"""The sentence is computed: other inputs, another sentence; it claims no more than the figures say."""

from dataclasses import replace

from stepscope.model.breakdown import Breakdown, Collective
from stepscope.show.sentence import sentence
from tests.show.build import MS, job, step


def test_a_slow_rank_is_named_by_its_figures() -> None:
    assert sentence(job()) == (
        "Step 200 ms on average over 4 ranks x 2 steps: 48 % backward, 22 % waiting for other ranks in communication, "
        "20 % forward, 7.5 % moving data that compute did not hide, 2.5 % the rest; "
        "rank 3 spends the least time in communication (15.0 ms a step, the median rank 75.0 ms), "
        "often the mark of the rank that the others wait for; "
        "rank 3 arrives last in 8 of the 8 collectives whose last rank is known."
    )


def test_no_rank_is_named_where_all_are_alike() -> None:
    text = sentence(job(slow=None))
    assert "no rank stands out (communication on every rank within 5 % of the step from the median)" in text
    assert "rank 3" not in text


def test_the_rank_follows_the_input() -> None:
    for slow in range(4):
        assert f"rank {slow} spends the least time in communication" in sentence(job(slow=slow))


def test_one_rank_is_compared_with_nobody() -> None:
    assert sentence(job(1, slow=None)) == (
        "Step 200 ms on average over 1 rank x 2 steps: 40 % backward, 30 % idle, 20 % forward, "
        "7.5 % moving data that compute did not hide, 2.5 % the rest."
    )


def test_unsplit_communication_says_its_limit() -> None:
    text = sentence(Breakdown((step(0, 0, forward=10, comm_unsplit=90),), ()))
    assert "90 % communication that compute did not hide (wait and transfer not told apart), 10 % forward." in text


def test_several_ranks_and_no_majority() -> None:
    comm = {0: 100, 1: 100, 2: 10, 3: 12, 4: 100, 5: 100, 6: 100, 7: 100}
    two = Breakdown(tuple(step(r, 0, forward=200 - c, comm_unsplit=c) for r, c in comm.items()), ())
    assert "ranks 2-3 spend the least time in communication (10.0 ms a step, the median rank 100 ms)" in sentence(two)
    uneven = Breakdown(tuple(step(r, 0, forward=200 - 20 * r, comm_unsplit=20 * r) for r in range(5)), ())
    assert "time in communication is uneven, from 0 ms a step on rank 0 to 80.0 ms a step on rank 4" in sentence(uneven)
    more = Breakdown(tuple(step(r, 0, forward=200 - c, comm_unsplit=c) for r, c in enumerate((50, 50, 50, 150))), ())
    assert "rank 3 spends the most time in communication (150 ms a step, the median rank 50.0 ms)" in sentence(more)


def test_cut_steps_do_not_count_while_there_are_complete_ones() -> None:
    cut = step(0, 2, forward=900, complete=False)
    assert sentence(Breakdown((step(0, 1, forward=100), cut), ())).startswith("Step 100 ms on average over 1 rank x 1 step:")
    assert sentence(Breakdown((cut,), ())).startswith("Step 900 ms on average over 1 rank x 1 step (cut, no complete step):")


def test_ranks_with_different_steps_are_counted_as_rank_steps() -> None:
    steps = (step(0, 0, forward=10), step(0, 1, forward=10), step(1, 1, forward=10))
    assert "over 3 rank-steps of 2 ranks" in sentence(Breakdown(steps, ()))


def test_no_step_at_all() -> None:
    assert sentence(Breakdown((), ())) == "No step was found, so there is nothing to break down."


def test_last_arrivals_need_a_clear_majority() -> None:
    half = tuple(Collective(i, 0, "0", "all_reduce", 1, 4, MS, MS, None, i % 2, MS) for i in range(10))
    assert "arrives last" not in sentence(replace(job(), collectives=half))
    few = tuple(Collective(i, 0, "0", "all_reduce", 1, 4, MS, MS, None, 1, MS) for i in range(4))
    assert "arrives last" not in sentence(replace(job(), collectives=few))
    unknown = tuple(Collective(i, 0, "0", "all_reduce", 1, 4, MS, MS, None, None, MS) for i in range(9))
    assert "arrives last" not in sentence(replace(job(), collectives=unknown))
