"""What a recording can answer: taking one thing out of it opens exactly the questions that need it."""

from __future__ import annotations

import pytest

from stepscope.analysis.doctor import examine
from stepscope.analysis.questions import FEATURES, QUESTIONS
from stepscope.model.info import Clock, RankInfo, RunInfo, Step
from stepscope.model.run import Run
from tests.analysis.build import run_of

OF_THE_RUN = {"work", "all_ranks", "several_steps", "shared_clock"}
RECORDED = sorted(set(FEATURES) - OF_THE_RUN)


def rank(number: int = 0, **recorded: bool) -> RankInfo:
    """A GPU rank with everything recorded but what is said."""
    steps = [Step(0, 0, 10), Step(1, 10, 20)]
    return RankInfo(
        number, "file_name", host="a", device="cuda", steps=steps, recorded={**dict.fromkeys(RECORDED, True), **recorded}
    )


def run(*ranks: RankInfo, **info: object) -> Run:
    made = run_of()
    made.info = RunInfo(ranks=list(ranks), **{"world_size": len(ranks), **info})  # type: ignore[arg-type]
    return made


def opened(run: Run) -> set[str]:
    return {question.question for question in examine(run).cannot}


def test_everything_recorded_leaves_nothing_open() -> None:
    result = examine(run(rank(0), rank(1)))
    assert result.cannot == ()
    assert result.can == tuple(asked.question for asked in QUESTIONS)


def test_every_need_is_a_known_feature_and_every_feature_is_needed() -> None:
    assert {f for asked in QUESTIONS for need in asked.needs for f in need.split("|")} == set(FEATURES)
    assert len({asked.question for asked in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("feature", RECORDED)
def test_taking_one_feature_out_opens_exactly_its_questions(feature: str) -> None:
    needs = {feature, "work"} if feature == "device_kernels" else {feature}
    expected = {asked.question for asked in QUESTIONS if needs & set(asked.needs)}
    assert opened(run(rank(0), rank(1, **{feature: False}))) == expected


def test_of_two_ways_either_is_enough() -> None:
    question = "How much of the step is forward, and how much backward?"
    assert question not in opened(run(rank(evaluate_function=False)))
    assert question in opened(run(rank(evaluate_function=False, sequence_numbers=False)))


def test_it_says_which_rank_lacks_what_and_how_to_record_it() -> None:
    (question,) = examine(run(rank(0), rank(1, memory=False), rank(2))).cannot
    assert question.question == "When does memory peak, and how high?"
    assert question.missing == "no allocations (rank 1)"
    assert question.how_to_record == "profile(profile_memory=True)"


def test_what_every_rank_lacks_names_none() -> None:
    (question,) = examine(run(rank(0, memory=False), rank(1, memory=False))).cannot
    assert question.missing == "no allocations"


def test_missing_ranks_are_named_and_open_what_needs_the_peers() -> None:
    result = examine(run(rank(0), rank(1), world_size=4, missing_ranks=[2, 3]))
    assert {q.missing for q in result.cannot} == {"not every rank of the job (rank 2, 3)"}
    assert {q.question for q in result.cannot} == {asked.question for asked in QUESTIONS if "all_ranks" in asked.needs}


def test_a_job_of_unknown_size_may_have_more_ranks() -> None:
    assert opened(run(rank(0), world_size=None)) == {asked.question for asked in QUESTIONS if "all_ranks" in asked.needs}


def test_clocks_of_several_hosts_must_be_aligned() -> None:
    other = rank(1)
    other.host = "b"
    apart = {asked.question for asked in QUESTIONS if "shared_clock" in asked.needs}
    assert opened(run(rank(0), other)) == apart
    assert opened(run(rank(0), other, clock=Clock(aligned=True, residual_ns=900))) == set()


def test_one_step_cannot_vary() -> None:
    short = rank(0)
    short.steps = [Step(0, 0, 10), Step(1, 10, 15, complete=False)]
    assert opened(run(short)) == {"How much does the step vary from one to the next?"}


def test_on_a_cpu_job_the_operators_are_the_work() -> None:
    job = rank(0, device_kernels=False, launches=False, correlation=False)
    job.device = "cpu"
    assert "Where did each rank's step go, part by part?" not in opened(run(job))
    assert "Was the GPU short of launches (host-bound), or idle?" in opened(run(job))


def test_a_run_without_ranks_answers_nothing() -> None:
    assert examine(run()).can == ()
