"""One computed sentence on what grew from a base to a run, which rank's own work did, and what shrank.

Exchanged inputs give the opposite sentence; a run against itself says that nothing grew. A part is named only where it
changed by more than the steps vary; without bounds the sentence says so and only lists what changed most.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from stepscope.model.compare import Comparison, Delta, RankDelta
from stepscope.model.words import COMM_PARTS
from stepscope.show import units
from stepscope.show.names import Names
from stepscope.show.sentence import WORDS

SAID: Final = 3
CULPRIT: Final = 0.5  # of the step's change: what a rank's own time must have changed by to be named
APART: Final = 0.5  # of its change: what no other rank's own time may have changed by in the same direction
FEW: Final = 0.25  # of the ranks may be named together
WAITED: Final = tuple(part for part in COMM_PARTS if part != "comm_transfer")
DOUBTFUL: Final = 0.05  # of the base's step: a change that is unsure, and too large to be called nothing
REST: Final = 0.02  # of the base's step: a rest below that is not worth a word


def sentence(found: Comparison) -> str:
    """One to three sentences, each of which ends with a full stop."""
    return _of_steps(found) + _of_tokens(found)


def _of_steps(found: Comparison) -> str:
    if found.step.significant is None:
        return _without_bounds(found)
    moved = [d for d in found.parts if d.significant]
    if not moved and not found.step.significant:
        return _nothing(found)
    rank = _ranks_clause(found)
    clauses = [rank] if rank else []
    clauses += _parts_clauses(found, moved, bool(rank))
    return f"{_lead(found)}: {'; '.join(clauses)}." if clauses else f"{_lead(found)}; no single part explains it."


def culprits(found: Comparison) -> list[RankDelta]:
    """The few ranks whose own time changed by most of what the step did while nobody else's did; usually one or none."""
    if len(found.ranks) < 2:
        return []
    change = found.step_delta_ns
    sign = 1 if change >= 0 else -1
    most = max(found.ranks, key=lambda r: (sign * r.own_delta_ns, -r.rank))
    own = sign * most.own_delta_ns
    named = [r for r in found.ranks if sign * r.own_delta_ns > own * Fraction(APART)]
    clear = all(r.clear is not False for r in named) and (found.step.significant is not False)
    many = len(named) > max(1, FEW * len(found.ranks))
    if own <= 0 or own < CULPRIT * abs(change) or many or not clear:
        return []
    return named


def moved_by(delta: Fraction | float) -> str:
    """`grew by 57.0 ms`, `shrank by 3.1 ms`."""
    return f"{'grew' if delta >= 0 else 'shrank'} by {units.duration(abs(float(delta)))}"


def _of_tokens(found: Comparison) -> str:
    """Where steps handle other numbers of tokens their lengths do not compare; the time per token does."""
    if found.per_token is None or found.tokens[0] == found.tokens[1]:
        return ""
    each = found.per_token[0]
    if not each.delta_ns:
        return " Per token it takes as long as before."
    doubt = "" if each.significant is not False else ", no more than its steps vary"
    return f" Per token it {moved_by(each.delta_ns)} ({units.signed_percent(float(each.delta_ns), float(each.base_ns))}){doubt}."


def _lead(found: Comparison) -> str:
    step = found.step
    lengths = [units.duration(float(ns)) for ns in (step.base_ns, step.run_ns)]
    share = units.signed_percent(float(step.delta_ns), float(step.base_ns))
    if step.significant:
        return f"The step {moved_by(step.delta_ns)}, from {lengths[0]} to {lengths[1]} ({share})"
    return f"The step went from {lengths[0]} to {lengths[1]} ({share}), no more than its steps vary"


def _nothing(found: Comparison) -> str:
    step = found.step
    lengths = [units.duration(float(ns)) for ns in (step.base_ns, step.run_ns)]
    if not any(d.delta_ns for d in found.parts):
        return f"Nothing grew: the step takes {lengths[0]} in both, and every part is the same."
    share = units.signed_percent(float(step.delta_ns), float(step.base_ns))
    if abs(step.delta_ns) >= Fraction(DOUBTFUL) * step.base_ns:
        return f"{_lead(found)}; nor does any part by more than it varies."
    return f"Nothing grew: the step takes {lengths[0]} and {lengths[1]} ({share}); no part changed by more than its steps vary."


def _without_bounds(found: Comparison) -> str:
    step = found.step
    if not any(d.delta_ns for d in found.parts):
        return f"Nothing grew: the step takes {units.duration(float(step.base_ns))} in both, and every part is the same."
    most = sorted((d for d in found.parts if d.delta_ns), key=lambda d: -abs(d.delta_ns))[:SAID]
    lengths = [units.duration(float(ns)) for ns in (step.base_ns, step.run_ns)]
    share = units.signed_percent(float(step.delta_ns), float(step.base_ns))
    parts = units.and_list([f"{WORDS[d.part]} {moved_by(d.delta_ns)}" for d in most])
    lead = f"The step went from {lengths[0]} to {lengths[1]} ({share}): {parts}"
    ranks = culprits(found)
    if ranks:
        lead += f"; {_own(ranks, Names(found.places))}"
    return f"{lead}. One whole step on a side has no bounds, so whether that is more than steps vary is not known."


def _ranks_clause(found: Comparison) -> str | None:
    ranks = culprits(found)
    if not ranks:
        return None
    others = [r for r in found.ranks if r not in ranks]
    waited = sum((r.delta_ns - r.own_delta_ns for r in others), Fraction(0)) / len(others)
    own = _own(ranks, Names(found.places))
    change = found.step_delta_ns
    if waited * change > 0 and abs(waited) >= CULPRIT * abs(change):
        rest = "the other ranks wait for" if change > 0 else "the other ranks no longer wait for"
        own += f", and {rest} {'it' if len(ranks) == 1 else 'them'}"
    return own


def _own(ranks: Sequence[RankDelta], names: Names) -> str:
    mean = sum((r.own_delta_ns for r in ranks), Fraction(0)) / len(ranks)
    who = f"{names(ranks[0].rank)}'s own work" if ranks[0].rank not in names.places else f"the own work of {names(ranks[0].rank)}"
    if len(ranks) > 1:
        who = f"the own work of ranks {units.rank_list([r.rank for r in ranks])}"
    parts = {part: sum((r.own_parts[part] for r in ranks), Fraction(0)) / len(ranks) for part in ranks[0].own_parts}
    with_it = [p for p in sorted(parts, key=lambda p: -abs(parts[p])) if parts[p] * mean > 0 and abs(parts[p]) >= abs(mean) / 10]
    inside = f" ({', '.join(f'{WORDS[p]} {_signed(parts[p])}' for p in with_it[:SAID])})" if with_it else ""
    return f"{who} {moved_by(mean)}{inside}"


def _parts_clauses(found: Comparison, moved: Sequence[Delta], explained: bool) -> list[str]:
    """What moved with the step, then what moved against it; after a rank's clause only what that does not explain."""
    sign = 1 if found.step_delta_ns >= 0 else -1
    along = sorted((d for d in moved if sign * d.delta_ns > 0), key=lambda d: -abs(d.delta_ns))
    against = sorted((d for d in moved if sign * d.delta_ns < 0), key=lambda d: -abs(d.delta_ns))
    if explained:
        own = {part for r in culprits(found) for part in r.own_parts}
        along = [d for d in along if d.part not in own and d.part not in WAITED]
    clauses = [units.and_list([f"{WORDS[d.part]} {moved_by(d.delta_ns)}" for d in along[:SAID]])] if along else []
    if against:
        clauses.append(units.and_list([f"{WORDS[d.part]} {moved_by(d.delta_ns)}" for d in against[:SAID]]))
    if not explained and along:
        rest = found.step_delta_ns - sum((d.delta_ns for d in (*along[:SAID], *against[:SAID])), Fraction(0))
        if abs(rest) >= Fraction(REST) * found.base_step_ns:
            clauses.append(f"the other parts together {moved_by(rest)}")
    return clauses


def _signed(delta: Fraction) -> str:
    return f"{'+' if delta > 0 else '-'}{units.duration(abs(float(delta)))}"
