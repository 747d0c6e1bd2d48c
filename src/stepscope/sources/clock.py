"""How far apart are the hosts' clocks? Found from the ends of collectives, which all their ranks leave together.

Only all-reduce, all-gather, reduce-scatter and barrier end together. Ranks of one host share a clock and are never
adjusted. An offset is the median of the differences; a drift is fitted only over 10 s or more, and one that no clock has
is refused: then the host stays unaligned, like a host that no group joins. Nothing is claimed of those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.model.info import Clock, Gap, HostClock, RunInfo, host_of

if TYPE_CHECKING:
    from stepscope.model.info import IntArray

ENDS_TOGETHER: Final = ("all_reduce", "all_gather", "reduce_scatter", "barrier")
DRIFT_WINDOW_NS: Final = 10_000_000_000
# Quartz oscillators of servers stay within 100 ppm, cheap ones within 200; what differs more is no clock.
MAX_DRIFT_PPM: Final = 500.0
MAX_PAIRS: Final = 2_000  # differences that the robust slope is taken over; it compares all of them with each other
RESIDUAL_SHARE: Final = 0.95
MANY: Final = 8  # differences from which on their spread speaks for itself
LEAST_COMMON: Final = 2  # one common collective would explain itself without a residual


@dataclass(frozen=True, slots=True)
class _Fit:
    offset: float
    drift: float
    residual: float


def align(frame: pl.DataFrame, info: RunInfo) -> tuple[Clock, list[Gap]]:
    """The clock of a run from its collectives (rows by COLLECTIVES with `match`), and what could not be aligned."""
    host = {rank.rank: host_of(rank) for rank in info.ranks}
    hosts = list(dict.fromkeys(host.values()))
    if len(info.ranks) < 2:
        return Clock(), []
    if len(hosts) == 1:
        return Clock(aligned=True, residual_ns=0, hosts={hosts[0]: HostClock()}), []
    ends = _ends(frame, host)
    reference = int(np.median(ends["end"].to_numpy())) if ends.height else 0
    found = _components(ends, hosts, reference)
    found = _one_clock(found)
    clock = Clock(aligned=len({h.component for h in found.values()}) == 1, reference_ns=reference, hosts=found)
    counts = {c: sum(h.component == c for h in found.values()) for c in {h.component for h in found.values()}}
    joined = [h.residual_ns for h in found.values() if counts[h.component] > 1]
    clock.residual_ns = max(joined) if joined else None
    return clock, _gaps(clock, host)


def _ends(frame: pl.DataFrame, host: dict[int, str]) -> pl.DataFrame:
    """Per collective and host when its ranks left it: columns match, host, end."""
    rows = frame.filter(pl.col("op").is_in(ENDS_TOGETHER) & pl.col("match").is_not_null())
    named = rows.with_columns(host=pl.col("rank").replace_strict(host, default=None, return_dtype=pl.String))
    return (
        named.drop_nulls(["host", "end_ns"])
        .group_by("match", "host", maintain_order=True)
        .agg(end=pl.col("end_ns").median().cast(pl.Int64))
    )


def _components(ends: pl.DataFrame, hosts: list[str], reference: int) -> dict[str, HostClock]:
    """Hosts joined one after the other to the one that shares most with the others; what is left starts anew."""
    of = {h: dict(part.select("match", "end").iter_rows()) for (h,), part in ends.partition_by("host", as_dict=True).items()}
    left = sorted(hosts, key=lambda h: (-len(of.get(h, {})), h))
    found: dict[str, HostClock] = {}
    component = -1
    while left:
        component += 1
        root = left.pop(0)
        found[root] = HostClock(component=component)
        group = [root]
        while (nearest := _nearest(group, left, of)) is not None:
            base, new = nearest
            fit = _fit(of[base], of[new], found[base], reference)
            left.remove(new)
            if fit is None:
                component += 1
                found[new] = HostClock(component=component)
                continue
            step = found[base]
            found[new] = HostClock(
                offset_ns=round(fit.offset),
                drift_ppm=fit.drift * 1e6,
                residual_ns=round(fit.residual) + step.residual_ns,
                component=found[root].component,
            )
            group.append(new)
    return found


def _nearest(group: list[str], left: list[str], of: dict[str, dict[int, int]]) -> tuple[str, str] | None:
    """The pair (aligned host, new host) with the most common collectives; the earlier aligned one where equal."""
    best: tuple[int, str, str] | None = None
    for new in left:
        for base in group:
            common = len(of.get(base, {}).keys() & of.get(new, {}).keys())
            if common >= LEAST_COMMON and (best is None or common > best[0]):
                best = (common, base, new)
        if best is not None and best[0] == len(of.get(new, {})):
            break  # it shares all it has: none can share more
    return None if best is None else best[1:]


def _fit(base: dict[int, int], new: dict[int, int], clock: HostClock, reference: int) -> _Fit | None:
    """Offset and drift of `new` against the common clock; None where no clock can run like that."""
    common = sorted(base.keys() & new.keys(), key=lambda m: base[m])
    here = Clock(reference_ns=reference, hosts={"base": clock}).to_common(
        "base", np.array([base[m] for m in common], dtype=np.int64)
    )
    there = np.array([new[m] for m in common], dtype=np.int64)
    apart = (there - here).astype(np.float64)
    since = (here - reference).astype(np.float64)
    offset = float(np.median(apart))
    flat = _Fit(offset, 0.0, _residual(apart - offset))
    slope = _slope(since, apart)
    level = float(np.median(apart - slope * since))
    drifting = _Fit(level, slope, _residual(apart - level - slope * since))
    if len(common) >= MANY and drifting.residual * 2 < flat.residual and abs(slope) * 1e6 > MAX_DRIFT_PPM:
        return None
    return drifting if np.ptp(here) >= DRIFT_WINDOW_NS and drifting.residual < flat.residual else flat


def _residual(left: IntArray | np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """What 95 % of the differences stay within; with few of them the largest, doubled for what was not seen."""
    worst = float(np.quantile(np.abs(left), RESIDUAL_SHARE, method="higher")) if len(left) else 0.0
    return worst * (2 if len(left) < MANY else 1)


def _slope(x: np.ndarray[tuple[int], np.dtype[np.float64]], y: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Theil and Sen's slope: the median over pairs, which a third of outliers does not move."""
    if len(x) > MAX_PAIRS:
        chosen = np.linspace(0, len(x) - 1, MAX_PAIRS).astype(np.int64)
        x, y = x[chosen], y[chosen]
    half = len(x) // 2
    dx, dy = x[-half:] - x[:half], y[-half:] - y[:half]
    sound = dx > 0
    return float(np.median(dy[sound] / dx[sound])) if sound.any() else 0.0


def _one_clock(found: dict[str, HostClock]) -> dict[str, HostClock]:
    """Ranks whose host nobody named may share one: offsets that the residual covers are no offsets."""
    if any(h.drift_ppm or abs(h.offset_ns) > h.residual_ns for h in found.values()):
        return found
    return {name: HostClock(0, 0.0, h.residual_ns, h.component) for name, h in found.items()}


def _gaps(clock: Clock, host: dict[int, str]) -> list[Gap]:
    if clock.aligned:
        return []
    main = clock.hosts[next(iter(clock.hosts))].component
    apart = tuple(rank for rank, name in host.items() if clock.hosts[name].component != main)
    return [
        Gap("clocks not aligned", apart, "no common collectives that end together; who came late is not told across these hosts")
    ]
