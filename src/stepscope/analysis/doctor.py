"""Which questions can this recording answer, and how must one record so that it answers the others?

Each question names what it needs: every entry of `needs`, an entry `a|b` being met by either. What is recorded is said by
the reader in `RankInfo.recorded`, or follows from the run as a whole (`_lacking`). A question is open as soon as one rank
lacks what it needs.
"""

from __future__ import annotations

from typing import Final

from stepscope.analysis.questions import FEATURES, QUESTIONS
from stepscope.model.doctor import Examination, Question
from stepscope.model.info import RankInfo, RunInfo
from stepscope.model.run import Run

MOST_RANKS: Final = 8  # ranks named in one line before it says how many more
UNNAMED: Final = -1  # stands among ranks for the run as a whole


def examine(run: Run) -> Examination:
    """The questions that this run answers and those it leaves open. Reads no tables."""
    lacking = {feature: _lacking(run.info, feature) for feature in FEATURES}
    present = {rank.rank for rank in run.info.ranks}
    can: list[str] = []
    cannot: list[Question] = []
    for asked in QUESTIONS:
        unmet = [need for need in asked.needs if not _met(need, lacking)]
        if not unmet:
            can.append(asked.question)
            continue
        first_choice = [need.split("|")[0] for need in unmet]
        cannot.append(
            Question(
                question=asked.question,
                missing="; ".join(FEATURES[f].missing + _where(lacking[f], present) for f in first_choice),
                how_to_record="; ".join(dict.fromkeys(FEATURES[f].how_to_record for f in first_choice)),
            )
        )
    return Examination(tuple(can), tuple(cannot))


def _met(need: str, lacking: dict[str, set[int]]) -> bool:
    """Has every rank one of the alternatives?"""
    return not set.intersection(*(lacking[feature] for feature in need.split("|")))


def _lacking(info: RunInfo, feature: str) -> set[int]:
    """The ranks without that feature; UNNAMED where it is the run that lacks it."""
    if not info.ranks:
        return {UNNAMED}
    match feature:
        case "all_ranks":
            known = info.world_size is not None and info.world_size == len(info.ranks) + len(info.missing_ranks)
            return set(info.missing_ranks) if known else {UNNAMED}
        case "shared_clock":
            return set() if _one_clock(info) else {UNNAMED}
        case "several_steps":
            return {rank.rank for rank in info.ranks if sum(step.complete for step in rank.steps) < 2}
        case "work":
            return {rank.rank for rank in info.ranks if not _has_work(rank)}
    return {rank.rank for rank in info.ranks if not rank.recorded.get(feature, False)}


def _has_work(rank: RankInfo) -> bool:
    """Device work; on a job that launches none, the operators are the work."""
    recorded = rank.recorded
    return recorded.get("device_kernels", False) or (recorded.get("operators", False) and not recorded.get("launches", False))


def _one_clock(info: RunInfo) -> bool:
    """Ranks of one host share a clock; those of several hosts do once they are aligned."""
    hosts = {rank.host for rank in info.ranks}
    return info.clock.aligned is True or len(info.ranks) == 1 or (len(hosts) == 1 and None not in hosts)


def _where(ranks: set[int], present: set[int]) -> str:
    """` (rank 3, 5)` where it is some ranks that lack something, nothing where it is all of them or the run."""
    if UNNAMED in ranks or ranks >= present:
        return ""
    named = ", ".join(str(rank) for rank in sorted(ranks)[:MOST_RANKS])
    more = f" and {len(ranks) - MOST_RANKS} more" if len(ranks) > MOST_RANKS else ""
    return f" (rank {named}{more})"
