"""All ranks as a strip of shades: one cell per rank, darker = more than the median rank. Reads at 1 rank and at 10,000.

The value is any time per rank in ns. Shades stand for fixed distances from the median, so that two screens compare; the legend
says which. Ranks of the world without a value are `?`. Above `MOST_CELLS` ranks a cell stands for several and shows the worst.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from stepscope.show import units
from stepscope.show.names import NUMBERS, Names

Segment = tuple[str, str]
"""Text and style: plain, good, warn, bad or dim."""

LEVELS: Final[tuple[tuple[float, str, str, str, str], ...]] = (
    (-0.05, "·", ".", "good", "less"),
    (0.05, "░", "-", "plain", "median {} +-5 %"),
    (0.10, "▒", "+", "plain", "+5 %"),
    (0.25, "▓", "*", "warn", "+10 %"),
    (float("inf"), "█", "#", "bad", "+25 % and more"),
)
"""Upper end (share of the median), shade, shade without Unicode, style, words of the legend."""

ABSENT: Final = "?"
BLOCK: Final = 8  # cells that stand together, the GPUs of a usual node
MOST_CELLS: Final = 2048
NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Strip:
    """`values_ns` by rank; `world` ranks in all (at least those with a value)."""

    title: str
    values_ns: Mapping[int, float]
    world: int = 0
    called: Names = NUMBERS
    figures: Mapping[int, str] | None = None  # said of a rank that stands out, instead of its value

    def lines(self, columns: int, ascii_only: bool = False) -> Iterator[list[Segment]]:
        """Rows of cells, the legend, and the ranks that stand out, by name and figure."""
        for line in _wrap(self.title.split(), columns, " "):
            yield [(line, "bold")]
        if not self.values_ns:
            yield [("  no rank has a value", "dim")]
            return
        middle = median(self.values_ns.values())
        size = max(self.world, max(self.values_ns) + 1)
        per_cell = 1
        while size > per_cell * MOST_CELLS:
            per_cell *= 2
        cells = [self._cell(range(i, min(i + per_cell, size)), middle, ascii_only) for i in range(0, size, per_cell)]
        label = len(str(size - 1))
        row = _row_length(columns - 2 - label - 2, len(cells))
        for first in range(0, len(cells), row):
            yield [(f"  {first * per_cell:>{label}}  ", "dim"), *_blocks(cells[first : first + row])]
        yield from _legend({c for c, _ in cells}, middle, per_cell, columns, ascii_only)
        yield from self._named(middle, columns)

    def _cell(self, ranks: Sequence[int], middle: float, ascii_only: bool) -> Segment:
        values = [self.values_ns[r] for r in ranks if r in self.values_ns]
        if not values:
            return ABSENT, "dim"
        worst = max(values, key=lambda v: (abs(v - middle), v))
        _, shade, plain, style, _ = LEVELS[_level(worst, middle)]
        return (plain if ascii_only else shade), style

    def _named(self, middle: float, columns: int) -> Iterator[list[Segment]]:
        order = sorted(self.values_ns, key=lambda r: (-self.values_ns[r], r))
        most = [r for r in order if _level(self.values_ns[r], middle) > 1]
        least = [r for r in reversed(order) if _level(self.values_ns[r], middle) == 0]
        for word, ranks, style in (("most: ", most, "bad"), ("least:", least, "plain")):
            if ranks:
                said = [f"{self.called(r)} {self._figure(r, middle)}" for r in ranks[:NAMED]]
                more = [f"and {len(ranks) - NAMED:,} more"] if len(ranks) > NAMED else []
                for i, line in enumerate(_wrap(said + more, columns - 9)):
                    yield [(f"  {word if i == 0 else '      '} ", "dim"), (line, style)]
        if len(self.values_ns) == 1:
            yield [("  one rank alone: nothing to compare it with", "dim")]
        elif not most and not least:
            yield [(f"  all {units.count(len(self.values_ns), 'rank')} lie within 5 % of the median", "plain")]

    def _figure(self, rank: int, middle: float) -> str:
        if self.figures is not None:
            return self.figures[rank]
        return f"{units.duration(self.values_ns[rank])}{_against(self.values_ns[rank], middle)}"


def _level(value: float, middle: float) -> int:
    if not middle:
        return 1 if not value else len(LEVELS) - 1
    away = (value - middle) / middle
    if away <= LEVELS[0][0]:
        return 0
    return next(i for i, level in enumerate(LEVELS) if i and away < level[0])


def _against(value: float, middle: float) -> str:
    return f" ({units.signed_percent(value - middle, middle)})" if middle else ""


def _row_length(columns: int, cells: int) -> int:
    """The longest power of two, from one block on, that fits with a space after each block."""
    row = BLOCK
    while row < cells and row * 2 + row * 2 // BLOCK - 1 <= columns:
        row *= 2
    return row


def _blocks(cells: Sequence[Segment]) -> list[Segment]:
    segments: list[Segment] = []
    for i, (shade, style) in enumerate(cells):
        if i and i % BLOCK == 0:
            segments.append((" ", "plain"))
        if segments and segments[-1][1] == style and segments[-1][0] != " ":
            segments[-1] = (segments[-1][0] + shade, style)
        else:
            segments.append((shade, style))
    return segments


def _legend(used: set[str], middle: float, per_cell: int, columns: int, ascii_only: bool) -> Iterator[list[Segment]]:
    words = []
    for _, shade, plain, _, meaning in LEVELS:
        words.append(f"{plain if ascii_only else shade} {meaning.format(units.duration(middle))}")
    if ABSENT in used:
        words.append(f"{ABSENT} not recorded")
    if per_cell > 1:
        words.append(f"a cell is {per_cell} ranks and shows the one furthest from the median")
    for line in _wrap(words, columns - 2, "   "):
        yield [(f"  {line}", "dim")]


def _wrap(words: Sequence[str], columns: int, between: str = ", ") -> Iterator[str]:
    line = ""
    for word in words:
        if line and len(line) + len(between) + len(word) >= columns:  # room for the comma
            yield line + between.rstrip()
            line = word
        else:
            line = line + between + word if line else word
    yield line
