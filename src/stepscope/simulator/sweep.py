"""How does the cost grow as the work grows? The same job with one word of its plan set to one value after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stepscope.model.errors import UsageMistake
from stepscope.model.plan import STRATEGIES, Plan, parse_plan
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


def plans(base: str, key: str, values: Sequence[str]) -> list[tuple[str, Plan]]:
    """The plan with that word set to each value, in the words of --plan. UsageMistake for a value that the word cannot have."""
    kept = [w.strip() for w in base.split(",") if w.strip()]
    same = STRATEGIES if key in STRATEGIES else (key,)
    kept = [w for w in kept if w.partition("=")[0].strip().lower() not in same]
    words = [",".join([f"{key}={value}", *kept]) for value in values]
    return [(text, parse_plan(text)) for text in words]


def sweep(workload: Workload, tried: Sequence[tuple[str, Plan]], predict: Callable[[Workload], Prediction]) -> Iterator[Point]:
    """One point per plan; a plan that model or system cannot have is a point that says why."""
    import msgspec

    for text, plan in tried:
        try:
            result = predict(msgspec.structs.replace(workload, plan=plan))
        except UsageMistake as error:
            yield Point(text, plan.world_size, None, str(error))
        else:
            yield Point(text, plan.world_size, result)
