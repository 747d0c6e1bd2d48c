"""How figures are written: durations, sizes, rates, shares, lists of ranks.

Inputs are integer ns, bytes, bytes a second and plain ratios. Three significant digits, never more than three decimals.
Every function writes an unknown value as `-`, never as 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

UNKNOWN = "-"

_STEPS_NS = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1))
_SIZES = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_RATES = (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3))


def figure(value: float) -> str:
    """Three significant digits: 1234, 558, 41.2, 3.08, 0.12; `<0.001` for what three decimals cannot show."""
    size = abs(value)
    if size == 0:
        return "0"
    if size < 0.0005:
        return "<0.001" if value > 0 else ">-0.001"
    if size >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}" if size >= 0.9995 else f"{value:.3f}".rstrip("0")


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """One unit and number of decimals for a whole column of durations: its name for the heading, `cell` for each value."""

    name: str
    ns: int
    decimals: int = 3

    def cell(self, ns: float | None) -> str:
        """The number alone; the unit stands in the heading."""
        if ns is None:
            return UNKNOWN
        least = 10.0**-self.decimals
        if 0 < abs(ns) < least / 2 * self.ns:
            return f"<{least:.{self.decimals}f}" if ns > 0 else f">-{least:.{self.decimals}f}"
        return f"{ns / self.ns:.{self.decimals}f}" if ns else "0"


def time_unit(values: Iterable[float | None]) -> TimeUnit:
    """The unit in which the largest of these ns reads as 1 to 9,999, with three significant digits or one more.

    Seconds only from 10 s on, so that small parts stay visible.
    """
    largest = max((abs(v) for v in values if v is not None), default=0)
    for name, ns, least in (("s", 10**9, 10**10), ("ms", 10**6, 10**6), ("us", 10**3, 10**3)):
        if largest >= least:
            shown = largest / ns
            return TimeUnit(name, ns, 0 if shown >= 1000 else 1 if shown >= 100 else 2 if shown >= 10 else 3)
    return TimeUnit("ns", 1, 0) if largest else TimeUnit("ms", 10**6)


def duration(ns: float | None) -> str:
    """A duration in running text: `1.24 s`, `558 ms`, `12.5 us`, `0 ms`."""
    if ns is None:
        return UNKNOWN
    for name, step in _STEPS_NS:
        if abs(ns) >= 0.9995 * step:
            return f"{figure(ns / step)} {name}"
    return "0 ms"


def size(count: float | None) -> str:
    """Bytes: `512 B`, `1.5 MiB`."""
    return _scaled(count, _SIZES, "B")


def rate(bytes_per_s: float | None) -> str:
    """Bytes a second in powers of ten, as vendors count: `41.2 GB/s`."""
    return _scaled(bytes_per_s, _RATES, "B/s")


def percent(part: float | None, whole: float | None) -> str:
    """A share: `41 %`, `4.1 %`, `<0.1 %`; unknown where the whole is 0."""
    if part is None or not whole:
        return UNKNOWN
    share = 100 * part / whole
    if share == 0:
        return "0 %"
    if abs(share) < 0.05:
        return "<0.1 %"
    return f"{share:.0f} %" if abs(share) >= 9.95 else f"{share:.1f} %"


def signed_percent(part: float, whole: float) -> str:
    """A change: `+18 %`, `-4.2 %`."""
    text = percent(part, whole)
    return text if text == UNKNOWN or part <= 0 else f"+{text}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 rank`, `1,024 ranks`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def rank_list(ranks: Sequence[int], most: int = 6) -> str:
    """Ranks as runs: `0-3, 7`; at most that many runs, then how many ranks follow."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    shown = ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs[:most])
    left = sum(b - a + 1 for a, b in runs[most:])
    return f"{shown} and {left:,} more" if left else shown


def and_list(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def _scaled(value: float | None, steps: Sequence[tuple[str, float]], base: str) -> str:
    if value is None:
        return UNKNOWN
    for name, step in steps:
        if abs(value) >= 0.9995 * step:
            return f"{figure(value / step)} {name}"
    return f"{figure(value)} {base}"
