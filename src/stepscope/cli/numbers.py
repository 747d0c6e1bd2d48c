"""`--steps 3-5,9`: numbers and ranges of them. A range is never expanded: it picks from the numbers that there are."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import click

from stepscope.model.errors import UsageMistake

_ITEM = re.compile(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?")


@dataclass(frozen=True, slots=True)
class Numbers:
    """Ranges from the first to the last number, both included, as the user wrote them in `text`."""

    text: str
    ranges: tuple[tuple[int, int], ...]

    def pick(self, there: Collection[int], what: str) -> list[int]:
        """Those of `there` that are meant, ascending. Raises UsageMistake where a range holds none of them."""
        from stepscope.show.units import rank_list

        for low, high in self.ranges:
            if not any(low <= number <= high for number in there):
                wanted = str(low) if low == high else f"{low}-{high}"
                raise UsageMistake(f"no {what} {wanted} in this run; it has {rank_list(sorted(there)) or 'none'}")
        return sorted(number for number in there if any(low <= number <= high for low, high in self.ranges))


class NumbersType(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only in newer click
    """`3`, `3-5`, `0,2,8-15`."""

    name = "NUMBERS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Numbers:
        if isinstance(value, Numbers):
            return value
        ranges: list[tuple[int, int]] = []
        for item in str(value).split(","):
            match = _ITEM.fullmatch(item)
            if not match or int(match[2] or match[1]) < int(match[1]):
                self.fail(f"{item!r} is neither a number nor a range, for example 0,2 or 3-5.", param, ctx)
            ranges.append((int(match[1]), int(match[2] or match[1])))
        return Numbers(str(value), tuple(ranges))
