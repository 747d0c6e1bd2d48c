"""What does a job do in each step, besides what the plan says: where batches come from, and what it saves?

Bytes and ns. `--loader workers=4,prefetch=2` and `--checkpoint every=100,mode=async` in words.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Final, Literal, TypeVar, get_args

import msgspec

from stepscope.model.errors import UsageMistake
from stepscope.model.plan import YES, Plan
from stepscope.model.shape import Shape

T = TypeVar("T", bound=msgspec.Struct)
MAX_WORKERS: Final = 1024
MAX_CPU_US: Final = 3_600_000_000  # an hour for a sequence


class Loader(msgspec.Struct, frozen=True, kw_only=True):
    """Worker processes of each rank. One sample is a sequence: `bytes_per_token` read, then `cpu_us` of work on one core.

    `prefetch` batches per worker lie ready at most. `workers` 0: the training thread makes the batch itself. `pinned`: the copy
    to the GPU does not hold the host. `path` is the file system it reads from; empty: the cluster's first.
    """

    workers: int = 4
    prefetch: int = 2
    bytes_per_token: int = 4
    cpu_us: int = 2000
    pinned: bool = True
    path: str = ""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A save every so many steps (0: none). `bytes_per_parameter`: fp32 weights and two fp32 moments. async: held for the
    copy to host memory alone."""

    every: int = 0
    mode: Literal["sync", "async"] = "sync"
    bytes_per_parameter: int = 12
    path: str = ""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A model by name and shape, how it is laid out, and what surrounds it."""

    model: str
    shape: Shape
    plan: Plan
    loader: Loader = Loader()
    checkpoint: Checkpoint = Checkpoint()

    @property
    def seq(self) -> int:
        """Tokens of a sequence."""
        return self.plan.sequence(self.shape.context)

    @property
    def tokens(self) -> int:
        """Tokens of one step, all ranks together."""
        return self.plan.tokens(self.shape.context)


def parse_loader(text: str) -> Loader:
    """`workers=4,prefetch=2,bytes_per_token=4,cpu_us=2000,pinned=true,path=/data`. UsageMistake for what cannot be."""
    loader = _parse(text, "loader", Loader)
    if not (0 <= loader.workers <= MAX_WORKERS and 0 <= loader.prefetch <= MAX_WORKERS and 0 <= loader.cpu_us <= MAX_CPU_US):
        raise UsageMistake(f"loader: workers and prefetch are from 0 to {MAX_WORKERS}, cpu_us from 0 to {MAX_CPU_US}")
    if not 0 < loader.bytes_per_token <= 1 << 30:
        raise UsageMistake(f"loader: bytes_per_token={loader.bytes_per_token}: give a number from 1 to {1 << 30}")
    return loader


def parse_checkpoint(text: str) -> Checkpoint:
    """`every=100,mode=async,bytes_per_parameter=12,path=/data`. UsageMistake for what cannot be."""
    checkpoint = _parse(text, "checkpoint", Checkpoint)
    if checkpoint.every < 0 or not 0 < checkpoint.bytes_per_parameter <= 1024:
        raise UsageMistake("checkpoint: every is a number of steps from 0, bytes_per_parameter from 1 to 1024")
    return checkpoint


def _parse(text: str, noun: str, kind: type[T]) -> T:
    known = {field.name: field.type for field in msgspec.structs.fields(kind)}
    values: dict[str, Any] = {}
    for word in filter(None, (w.strip() for w in text.split(","))):
        key, _, value = word.partition("=")
        key = key.strip()
        if key not in known:
            near = get_close_matches(key, known, n=1)
            asked = f"did you mean {near[0]}? " if near else ""
            raise UsageMistake(f"{noun}: no such key {key[:40]!r}; {asked}known: {', '.join(sorted(known))}")
        if key in values:
            raise UsageMistake(f"{noun}: {key} is given twice; keep one")
        values[key] = _value(noun, key, value.strip(), known[key])
    return kind(**values)


def _value(noun: str, key: str, value: str, type_: Any) -> Any:
    """The word as the field's type; UsageMistake says what it may be."""
    choices = get_args(type_)
    if type_ is int and value.isascii() and value.lstrip("-").isdigit() and len(value) < 20:
        return int(value)
    if type_ is bool and value.lower() in YES:
        return bool(YES[value.lower()])
    if type_ is str or value in choices:
        return value
    mend = "a whole number" if type_ is int else "true or false" if type_ is bool else f"one of {', '.join(choices)}"
    raise UsageMistake(f"{noun}: {key}={value[:40]}: give {mend}")
