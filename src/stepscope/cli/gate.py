"""`--fail-above`: has the step grown by more than the user allows?

It trips where the growth is above the limit and sure, that is, the lower bound of the change is above 0; without bounds (one
step on a side) the growth alone decides. Where both sides' tokens are known and differ, the time per token is what counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from stepscope.model.compare import Comparison


class LimitType(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only in newer click
    """`5%` or `0.05`."""

    name = "LIMIT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip()
        percent = text.endswith("%")
        try:
            limit = float(text.removesuffix("%")) / (100 if percent else 1)
        except ValueError:
            limit = math.nan
        if not 0 <= limit < math.inf:
            self.fail(f"{value!r} is no share; give 5% or 0.05.", param, ctx)
        if limit >= 1 and not percent:
            self.fail(f"{value!r} would be {100 * limit:,.0f} %; write it as a percentage, such as {text}%.", param, ctx)
        return limit


@dataclass(frozen=True, slots=True)
class Verdict:
    """`tripped`, and why or why not in words; `growth` is a share, None where the base's step has no length."""

    limit: float
    growth: float | None
    per: str
    tripped: bool
    why: str

    def document(self) -> dict[str, Any]:
        return {
            "limit": self.limit,
            "growth": self.growth,
            "per": self.per,
            "tripped": self.tripped,
            "why": self.why,
        }


def judge(found: Comparison, limit: float) -> Verdict:
    """The verdict on a comparison."""
    tokens = found.tokens
    per_token = found.per_token is not None and tokens[0] != tokens[1]
    delta = found.per_token[0] if per_token and found.per_token else found.step
    per = "token" if per_token else "step"
    what = "the time per token" if per_token else "the step"
    allowed = f"{100 * limit:.3g} %"
    if delta.growth is None:
        return Verdict(limit, None, per, False, f"{what} of the base has no length, so growth is not defined")
    grew = f"{what} {'grew' if delta.growth >= 0 else 'shrank'} by {100 * abs(delta.growth):.3g} %"
    if delta.growth <= limit:
        return Verdict(limit, delta.growth, per, False, f"{grew}; {allowed} is allowed")
    if delta.low_ns is not None and delta.low_ns <= 0:
        return Verdict(limit, delta.growth, per, False, f"{grew}, above {allowed}, but that is no more than its steps vary")
    sure = "" if delta.low_ns is not None else " (one whole step on a side: how sure that is cannot be said)"
    other = "" if found.same_workload else "; it is not the same workload"
    return Verdict(limit, delta.growth, per, True, f"{grew}, above the {allowed} allowed{sure}{other}")
