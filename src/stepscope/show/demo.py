"""Two runs side by side, in brief: one computed sentence for each, what grew from the first to the second, and on which rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepscope.analysis.compare import compare_steps
from stepscope.model.breakdown import Breakdown
from stepscope.model.compare import Comparison
from stepscope.model.words import PARTS
from stepscope.show import compare, compare_json, growth
from stepscope.show.averages import averages
from stepscope.show.json import seconds
from stepscope.show.sentence import sentence
from stepscope.show.strip import Strip
from stepscope.show.terminal import Block, Paragraph

Named = tuple[str, Breakdown]


def blocks(first: Named, second: Named) -> Iterator[Block]:
    """The screen of `stepscope demo`."""
    for name, result in (first, second):
        yield Paragraph(f"{name}: {sentence(result)}", "bold")
        means = averages(result)
        if means is not None and len(means.own) > 1:
            yield Strip("Own time per rank and step (the step without exposed communication)", means.own)
    found = _compared(first, second)
    if found is not None:
        yield compare.parts_table(found, (first[0], second[0]))
    yield Paragraph(difference(first, second), "bold")


def difference(first: Named, second: Named) -> str:
    """What grew from the first to the second; exchanged inputs give the opposite sentence."""
    found = _compared(first, second)
    if found is None:
        return "One of the two has no step, so they cannot be compared."
    said = growth.sentence(found)
    return f"From {first[0]} to {second[0]}: {said[0].lower()}{said[1:]}"


def document(first: Named, second: Named) -> dict[str, Any]:
    """demo/1: both runs with their sentence and mean parts in seconds, the sentence for the difference, and its figures."""
    runs = []
    for name, result in (first, second):
        means = averages(result)
        known = {part: means.parts[part] if means else None for part in PARTS}
        mean_s = {part: None if average is None else seconds(round(average.mean)) for part, average in known.items()}
        step_s = seconds(round(means.step.mean)) if means else None
        runs.append({"name": name, "sentence": sentence(result), "step_s": step_s, "parts": mean_s})
    found = _compared(first, second)
    deltas = compare_json.document(found) if found else None
    kept = deltas and {key: deltas[key] for key in ("step_delta_s", "step_significant", "parts", "ranks", "ranks_that_stand_out")}
    return {"schema": "demo/1", "runs": runs, "difference": difference(first, second), "comparison": kept}


def _compared(first: Named, second: Named) -> Comparison | None:
    if not (first[1].steps and second[1].steps):
        return None
    return compare_steps(first[1], second[1])
