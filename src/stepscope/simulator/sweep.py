"""How does the cost grow as the work grows? The same job with one word of its plan set to one value after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stepscope.model.errors import UsageMistake
from stepscope.model.plan import STRATEGIES, parse_plan
from stepscope.model.prediction import Prediction
from stepscope.model.simulated import Point
from stepscope.model.workload import Workload


def parse_sweep(text: str) -> tuple[str, tuple[str, ...]]:
    """`fsdp=8,16,32` as (key, values). UsageMistake where there are none."""
    key, equals, values = text.partition("=")
    found = tuple(filter(None, (v.strip() for v in values.split(","))))
    if not equals or not key.strip() or not found:
        raise UsageMistake(f"sweep: {text[:60]!r} is not KEY=VALUE,VALUE; write for example fsdp=8,16,32,64")
    return key.strip().lower(), found


def plans(base: str, key: str, values: Sequence[str]) -> list[str]:
    """The plan with that word set to each value, in the words of --plan. UsageMistake where none of them is a plan."""
    kept = [w.strip() for w in base.split(",") if w.strip()]
    same = STRATEGIES if key in STRATEGIES else (key,)
    kept = [w for w in kept if w.partition("=")[0].strip().lower() not in same]
    words = [",".join([f"{key}={value}", *kept]) for value in values]
    if not any(parses(text) for text in words):
        parse_plan(words[0])
    return words


def sweep(workload: Workload, tried: Sequence[str], predict: Callable[[Workload], Prediction]) -> Iterator[Point]:
    """One point per plan; what is no plan, or one that model or system cannot have, is a point that says why."""
    import msgspec

    for text in tried:
        try:
            plan = parse_plan(text)
            yield Point(text, plan.world_size, predict(msgspec.structs.replace(workload, plan=plan)))
        except UsageMistake as error:
            yield refused(text, error)


def refused(text: str, error: UsageMistake) -> Point:
    """A point without figures."""
    return Point(text, parse_plan(text).world_size if parses(text) else None, None, str(error))


def parses(text: str) -> bool:
    """Whether the words are a plan."""
    try:
        parse_plan(text)
    except UsageMistake:
        return False
    return True
