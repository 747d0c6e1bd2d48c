"""One computed sentence: where the step went, and which rank the others seem to wait for. Swapped inputs swap the sentence.

Nothing in it is fixed but the words for the parts. A rank is named only where its figure stands clear of the median; the
sentence says how it stands out, not that it is to blame.
"""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Final

from stepscope.model.breakdown import Breakdown, Collective
from stepscope.show import units
from stepscope.show.averages import Averages, averages
from stepscope.show.names import NUMBERS, Names

WORDS: Final = {
    "input_wait": "waiting for input",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "other_compute": "other compute",
    "comm_wait": "waiting for other ranks in communication",
    "comm_transfer": "moving data that compute did not hide",
    "comm_unsplit": "communication that compute did not hide (wait and transfer not told apart)",
    "copy": "copies",
    "checkpoint": "checkpoint",
    "host_bound": "host-bound",
    "idle": "idle",
}

SAID: Final = 4  # parts that get a figure of their own
CLEAR: Final = 0.05  # of the mean step: how far from the median a rank must be to be named


def sentence(result: Breakdown) -> str:
    """One line that ends with a full stop; says so where there is no step."""
    means = averages(result)
    if means is None:
        return "No step was found, so there is nothing to break down."
    clauses = [where(means)]
    names = Names(result.places)
    rank = stands_out(means, names)
    if rank:
        clauses.append(rank)
    late = arrives_last(result.collectives, names)
    if late:
        clauses.append(late)
    return f"Step {units.duration(means.step.mean)} on average over {scope(means)}: " + "; ".join(clauses) + "."


def scope(means: Averages) -> str:
    """`4 ranks x 6 steps`, or the rank-steps where ranks have different numbers of steps."""
    ranks = len(means.own)
    text = f"{units.count(ranks, 'rank')} x {units.count(means.steps, 'step')}"
    if means.rank_steps != ranks * means.steps:
        text = f"{units.count(means.rank_steps, 'rank-step')} of {units.count(ranks, 'rank')}"
    return text + (" (cut, no complete step)" if means.only_cut else "")


def where(means: Averages) -> str:
    """The largest parts by share of the mean step, then the rest; parts below 1 % only in the rest."""
    known = {part: a.mean for part, a in means.parts.items() if a is not None and a.mean > 0}
    order = sorted(known, key=lambda p: -known[p])
    said = [p for p in order[:SAID] if known[p] >= 0.01 * means.step.mean] or order[:1]
    clauses = [f"{units.percent(known[p], means.step.mean)} {WORDS[p]}" for p in said]
    rest = sum(known[p] for p in order if p not in said)
    if rest:
        clauses.append(f"{units.percent(rest, means.step.mean)} the rest")
    return ", ".join(clauses)


def stands_out(means: Averages, names: Names = NUMBERS) -> str | None:
    """The clause on ranks whose communication is clearly shorter than the median's; None for one rank or no communication."""
    by_rank = means.communication
    if len(by_rank) < 2 or not any(by_rank.values()):
        return None
    middle = median(by_rank.values())
    clear = CLEAR * means.step.mean
    least = min(by_rank, key=lambda r: (by_rank[r], r))
    most = max(by_rank, key=lambda r: (by_rank[r], -r))
    below, above = middle - by_rank[least], by_rank[most] - middle
    if below < clear and above < clear:
        return f"no rank stands out (communication on every rank within {100 * CLEAR:.0f} % of the step from the median)"
    if below < clear:
        return f"{names(most)} spends the most time in communication ({_against(by_rank[most], middle)})"
    low = [r for r, v in by_rank.items() if middle - v >= max(clear, below / 2)]
    if len(low) == 1:
        mark = "often the mark of the rank that the others wait for"
        return f"{names(least)} spends the least time in communication ({_against(by_rank[least], middle)}), {mark}"
    if len(low) <= len(by_rank) // 4:
        mark = "often the mark of ranks that the others wait for"
        return f"ranks {units.rank_list(low)} spend the least time in communication ({_against(by_rank[least], middle)}), {mark}"
    ends = (f"{units.duration(by_rank[r])} a step on {names(r)}" for r in (least, most))
    return "time in communication is uneven, from " + " to ".join(ends)


def arrives_last(collectives: tuple[Collective, ...], names: Names = NUMBERS) -> str | None:
    """The clause on the rank that is last in more than half of the collectives whose last rank is known (five or more)."""
    last = Counter(c.last_rank for c in collectives if c.last_rank is not None and c.n_ranks > 1)
    known = sum(last.values())
    if known < 5:
        return None
    rank, times = last.most_common(1)[0]
    pairs = all(c.n_ranks == 2 for c in collectives if c.last_rank is not None)
    if times <= known * (0.75 if pairs else 0.5):
        return None
    return f"{names(rank)} arrives last in {times:,} of the {known:,} collectives whose last rank is known"


def _against(value: float, middle: float) -> str:
    return f"{units.duration(value)} a step, the median rank {units.duration(middle)}"
