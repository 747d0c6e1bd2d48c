"""Which spans does one step of a program leave in a profile, and between which of the engine's times does each lie?

A template has a row per span; `rows` gives its times for every rank at once. Names are those of torch 2.13 with Kineto, so that
the rules for real traces read them. Each time is a point between two anchors: of operation k its issue, its start and so on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepscope.simulator.spans.kernels import Pattern

ISSUE, ISSUED, LEAD, START, BEGIN, BEGUN, ENDING, END = range(8)
"""Anchors of an operation: issuing from and to; copy-in from; it runs, its last member joined; the same plus one call's time; the
end less one call's time; the end."""
PER_OP: Final = 8
MAIN, ENGINE = 0, 1
"""Host threads: the loop's, and autograd's."""

Point = tuple[int, int, float]
"""From anchor, to anchor, share of the way."""


@dataclass(frozen=True, slots=True)
class Row:
    """One span. `parent` is a row of the template or -1, `launch` the row of the runtime call that launched it or -1."""

    kind: str
    name: str
    start: Point
    end: Point
    thread: int | None = None
    stream: int | None = None
    parent: int = -1
    launch: int = -1
    op: int = -1
    nbytes: int | None = None
    flops: int | None = None
    shape: str | None = None
    collective: bool = False


@dataclass(slots=True)
class Template:
    """Rows of one step; `calls` are the rows of collective kernels with the operation and the number of the call within it."""

    operations: int
    kernels: int = 0
    rows: list[Row] = field(default_factory=list)
    calls: list[tuple[int, int, int, int]] = field(default_factory=list)  # kernel row, host row, operation, call
    patterns: dict[int, tuple[int, Pattern]] = field(default_factory=dict)  # operation -> first kernel, pattern

    def add(self, row: Row) -> int:
        """Appends a span; its place."""
        self.rows.append(row)
        return len(self.rows) - 1

    def at(self, op: int, anchor: int) -> int:
        """The anchor of an operation."""
        return op * PER_OP + anchor

    def slot(self, op: int, low: float, high: float) -> tuple[Point, Point]:
        """A share of the time in which the host issues an operation."""
        a, b = self.at(op, ISSUE), self.at(op, ISSUED)
        return (a, b, low), (a, b, high)

    def between(self, op: int, low: int, high: int) -> tuple[Point, Point]:
        """From one anchor of an operation to another."""
        a, b = self.at(op, low), self.at(op, high)
        return (a, a, 0.0), (b, b, 0.0)

    def step(self) -> tuple[Point, Point]:
        """The host's whole step."""
        first = self.operations * PER_OP
        return (first, first, 0.0), (first + 1, first + 1, 0.0)

    def kernel(self, number: int) -> tuple[Point, Point]:
        """The n-th kernel of all computations."""
        first = self.operations * PER_OP + 2 + 2 * number
        return (first, first, 0.0), (first + 1, first + 1, 0.0)


@dataclass(frozen=True, slots=True)
class Columns:
    """A template as arrays, ready to be filled for many ranks and steps. Strings are places in `names`."""

    names: list[str]
    static: dict[str, Any]
    points: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]  # [2, rows]: from, to, share


def columns(template: Template) -> Columns:
    """The rows as arrays."""
    rows = template.rows
    names = list(dict.fromkeys(row.name for row in rows))
    number = {name: i for i, name in enumerate(names)}
    both = [[row.start for row in rows], [row.end for row in rows]]
    static = {
        "kind": [row.kind for row in rows],
        "name": np.array([number[row.name] for row in rows]),
        "thread": [row.thread for row in rows],
        "stream": [row.stream for row in rows],
        "parent": np.array([row.parent for row in rows]),
        "launch": np.array([row.launch for row in rows]),
        "bytes": [row.nbytes for row in rows],
        "flops": [row.flops for row in rows],
        "shape": [row.shape for row in rows],
    }
    return Columns(
        names,
        static,
        (
            np.array([[p[0] for p in side] for side in both]),
            np.array([[p[1] for p in side] for side in both]),
            np.array([[p[2] for p in side] for side in both]),
        ),
    )
