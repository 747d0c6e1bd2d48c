"""What does `--fault CAUSE@PLACE,key=value` ask for? One weakness, where it sits, how strong it is and in which steps.

    interconnect.nic_cross_socket@node1/gpu3,crossing=1,steps=2-5

`steps` are A-B, A- or A, from 0, both ends included; without it all of them. `hang.*` name their step by `at_step`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from stepscope.catalog.cause import Cause, causes, load_cause
from stepscope.model.errors import UsageMistake
from stepscope.simulator.faults.where import Where, parse_where, settle
from stepscope.simulator.job import Job

WAITS: Final = "parallel.stage_imbalance"
WHOLE: Final = frozenset({"per_step", "merge", "split", "span", "nics", "channels", "rails", "at_step"})
"""Strengths that count things."""

MAX_STEP: Final = 10**9


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `strength` is the cause's one parameter; `last_step` None: to the end."""

    cause: str
    where: Where
    strength: float | str
    first_step: int = 0
    last_step: int | None = None

    @property
    def hangs(self) -> bool:
        """Whether it stops the job instead of slowing it."""
        return self.cause.startswith("hang.")

    @property
    def amount(self) -> float:
        """The strength where it is a number."""
        return float(self.strength)

    def active(self, step: int) -> bool:
        """Whether it is there in that step."""
        return self.first_step <= step and (self.last_step is None or step <= self.last_step)

    def __str__(self) -> str:
        """In the words of `--fault`, with the strength always."""
        cause = load_cause(self.cause)
        value = self.strength if isinstance(self.strength, str) else f"{self.strength:g}"
        last = "" if self.last_step is None else str(self.last_step)
        steps = f",steps={self.first_step}-{last}" if self.first_step or last else ""
        return f"{self.cause}@{str(self.where).replace(' ', '')},{cause.strength.name}={value}{steps}"


def parse_fault(text: str, job: Job | None = None) -> Fault:
    """The fault that the words mean. With a job its place is one that the job has. UsageMistake for what cannot be."""
    head, *words = (word.strip() for word in text.split(","))
    name, at, place = (part.strip() for part in head.partition("@"))
    if name not in causes():
        raise UsageMistake(_unknown(name))
    cause = load_cause(name)
    if cause.id == WAITS:
        raise UsageMistake(f"{WAITS}: the simulator knows no pipeline stages yet; leave this fault out")
    if not at and "job" not in cause.places:
        raise UsageMistake(f"{name}: no place is given; write {name}@PLACE, for example {_example(cause)}")
    where = parse_where(place) if at else Where("job")
    values: dict[str, str] = {}
    for word in filter(None, words):
        key, equals, value = (part.strip() for part in word.partition("="))
        if key not in (cause.strength.name, "steps") or not equals:
            raise UsageMistake(f"{name}: {word[:40]!r} is no setting of it; known: {cause.strength.name}, steps")
        if key in values:
            raise UsageMistake(f"{name}: {key} is given twice; keep one")
        values[key] = value
    strength = _strength(cause, values.get(cause.strength.name))
    if cause.kind == "hang" and "steps" in values:
        raise UsageMistake(f"{name}: it stops the job in one step; write at_step={values['steps'][:20]} instead of steps")
    first, last = _steps(name, values["steps"]) if "steps" in values else (0, None)
    fault = Fault(cause.id, where, strength, first, last)
    return fault if job is None else settled(fault, job)


def settled(fault: Fault, job: Job) -> Fault:
    """The same at a place that its cause can have and the job has; UsageMistake where there is none such."""
    try:
        return replace(fault, where=settle(fault.where, load_cause(fault.cause).places, job))
    except UsageMistake as error:
        raise UsageMistake(f"{fault.cause}@{error}") from None


def _unknown(name: str) -> str:
    """The nearest causes; else those of the same family; of a name without a family those that end like it."""
    known = tuple(causes())
    wanted = name[:80].lower()
    family, dot, word = wanted.rpartition(".")
    near = get_close_matches(wanted, known, n=3, cutoff=0.75)
    if not near and dot:
        near = [cause for cause in known if cause.startswith(f"{family}.")]
    elif not near:
        near = [cause for cause in known if get_close_matches(word, [cause.partition(".")[2]], cutoff=0.75)]
    if near:
        return f"{name[:80]}: no such cause; did you mean {' or '.join(near[:3])}?"
    families = ", ".join(dict.fromkeys(cause.partition(".")[0] for cause in known))
    return f"{name[:80]}: no such cause; they are named FAMILY.NAME, with the families {families}"


def _strength(cause: Cause, text: str | None) -> float | str:
    strength = cause.strength
    try:
        found = strength.default if text is None else strength.checked(text)
    except UsageMistake as error:
        raise UsageMistake(f"{cause.id}: {error}") from None
    if strength.name in WHOLE and float(found) % 1:
        raise UsageMistake(f"{cause.id}: {strength.name}={str(text)[:40]}: give a whole number ({strength.unit})")
    return found


def _steps(name: str, text: str) -> tuple[int, int | None]:
    found = re.fullmatch(r"(\d{1,9})(-(\d{1,9})?)?", text, re.ASCII)
    if not found:
        raise UsageMistake(f"{name}: steps={text[:40]}: give A-B, A- or A, counted from 0")
    first = int(found[1])
    last = (int(found[3]) if found[3] else None) if found[2] else first
    if last is not None and last < first:
        raise UsageMistake(f"{name}: steps={text[:40]}: the last step comes before the first; give {last}-{first}")
    return first, last


def _example(cause: Cause) -> str:
    places = {"node": "node1", "gpu": "node1/gpu3", "nic": "node1/nic3", "rank": "rank3", "leaf": "leaf0", "port": "leaf0/port1",
              "rail": "rail3", "mount": "node1:/data"}  # fmt: skip
    return f"{cause.id}@{places[cause.places[0]]}"
