"""Trace files of one job to the tables of a Run: one process per file, then the ranks are told apart and joined.

Two files of one rank are two windows where their times are apart; where they overlap nobody can say which is right, and
the import stops naming both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import polars as pl

from stepscope.model.errors import BadInput
from stepscope.model.info import Gap, Group, RankInfo, RunInfo
from stepscope.model.spans import Marks, Rules
from stepscope.model.store import impossible, save_info, write_table
from stepscope.sources.clock import align
from stepscope.sources.file_name import shown
from stepscope.sources.kineto.pool import Progress, processes, run
from stepscope.sources.kineto.stamps import NOT_A_TIME, to_ns
from stepscope.sources.kineto.stream import TraceStream
from stepscope.sources.kineto.worker import Job, Part
from stepscope.sources.placement import Placement, settle

_TIME: Final = re.compile(rb'"ts"\s*:\s*"?(-?\d+(?:\.\d+)?)')
_BASE: Final = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')


def import_traces(
    files: Sequence[Path],
    folder: Path,
    *,
    rules: Rules,
    marks: Marks = (),
    rank_map: Mapping[str, int] | None = None,
    hosts: Placement | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    skipped: Sequence[Gap] = (),
) -> RunInfo:
    """Reads `files` into `folder` (which exists and is empty). Raises BadInput where no file can be read or two contradict."""
    origin = _origin(files)
    name = f"{rules.derive.__module__}:{rules.derive.__qualname__}"
    work = [
        Job(
            os.fsencode(f),
            i,
            str(folder),
            origin,
            name,
            [(pattern, phase) for pattern, phase in marks],
            {shown(name): rank for name, rank in (rank_map or {}).items()},
        )
        for i, f in enumerate(files)
    ]
    results = run(work, processes(files, jobs), progress)
    bad = [r.error for r in results if r.error]
    parts = [p for r in results for p in r.parts]
    if not parts:
        raise BadInput(bad[0] if len(bad) == 1 else f"{bad[0]} (and {len(bad) - 1} more files)")
    gaps = [*skipped, *(Gap("file not read", (), error) for error in bad)]
    return _assemble(parts, folder, origin, gaps, rules, hosts)


def _origin(files: Sequence[Path]) -> int:
    """The run's zero: the whole second in which the first readable file begins, ns since 1970."""
    for path in files:
        first, last = b"", b""
        try:
            for block in TraceStream(path).blocks():
                first = first or block
                last = (last + block)[-(1 << 18) :] if len(block) < 1 << 18 else block[-(1 << 18) :]
        except BadInput:
            continue
        times = to_ns([m.group(1).decode() for m in _TIME.finditer(first)], lambda: None)
        times = times[(times != NOT_A_TIME) & (times > 0)]
        if len(times):
            base = _BASE.search(first) or _BASE.search(last)
            start = int(times.min()) + (int(base.group(1)) if base and len(base.group(1)) < 20 else 0)
            return start // 1_000_000_000 * 1_000_000_000
    return 0


def _assemble(parts: list[Part], folder: Path, origin: int, gaps: list[Gap], rules: Rules, hosts: Placement | None) -> RunInfo:
    _name_lone_files(parts)
    ranks: dict[int, list[Part]] = {}
    for part in sorted(parts, key=lambda p: (p.info.rank, p.info.windows[0])):
        ranks.setdefault(part.info.rank, []).append(part)
    for rank, own in ranks.items():
        _refuse_overlap(rank, own)
    world = max((p.world_size for p in parts if p.world_size), default=None)
    infos: list[RankInfo] = []
    collectives: list[pl.DataFrame] = []
    signals: list[pl.DataFrame] = []
    for rank, own in ranks.items():
        infos.append(_join(rank, own, folder, collectives, signals))
        gaps += [Gap(gap.what, (rank,), gap.why) for part in own for gap in part.gaps]
    gaps += _missing_facts(infos, world) + _several_windows(ranks) + settle(infos, hosts, world)
    info = RunInfo(
        origin="trace",
        origin_ns=origin,
        world_size=world,
        ranks=infos,
        missing_ranks=_missing(world, ranks),
        groups=_groups(parts),
    )
    matched = rules.match(pl.concat(collectives), info)
    info.clock, apart = align(matched, info)
    info.gaps = _merge_gaps([*gaps, *apart])
    if odd := impossible(info):
        raise BadInput(f"{parts[0].path}: holds {odd}, which no recording can; record again")
    save_info(folder, info, matched, pl.concat(signals))
    for left in (folder / "parts").iterdir():
        left.unlink()
    (folder / "parts").rmdir()
    return info


def _name_lone_files(parts: list[Part]) -> None:
    """A single file without a rank is rank 0; several without one need telling apart."""
    lost = [p for p in parts if p.info.rank < 0]
    if len(parts) == 1 and lost:
        lost[0].info.rank, lost[0].info.identified_by = 0, "only_file"
    elif lost:
        names = ", ".join(Path(p.path).name for p in lost[:3])
        raise BadInput(f"{names}: nothing says which rank wrote {'it' if len(lost) == 1 else 'them'}; give --rank-map FILE")


def _refuse_overlap(rank: int, own: list[Part]) -> None:
    for one, two in pairwise(own):
        if two.info.windows[0][0] < one.info.windows[0][1]:
            raise BadInput(f"rank {rank}: claimed by both {one.path} and {two.path} over the same time; move one of them away")


def _join(rank: int, own: list[Part], folder: Path, collectives: list[pl.DataFrame], signals: list[pl.DataFrame]) -> RankInfo:
    """Puts one rank's tables in place; several windows become one table with running ids."""
    stage = folder / "parts"
    tables = {t: [pl.read_parquet(stage / f"{p.name}.{t}.parquet", glob=False) for p in own] for t in ("collectives", "signals")}
    shifts = [0]
    if len(own) == 1:
        for table in ("spans", "edges", "attribution"):
            target = folder / table / f"rank-{rank}.parquet"
            target.parent.mkdir(exist_ok=True)
            (stage / f"{own[0].name}.{table}.parquet").rename(target)
    else:
        for table, ids in (("spans", ("id", "parent")), ("edges", ("source", "target")), ("attribution", ("id",))):
            frames = [pl.read_parquet(stage / f"{p.name}.{table}.parquet", glob=False) for p in own]
            if table == "spans":
                shifts = [sum(f.height for f in frames[:i]) for i in range(len(frames))]
            moved = [f.with_columns(pl.col(c) + shift for c in ids) for f, shift in zip(frames, shifts, strict=True)]
            write_table(pl.concat(moved), folder / table / f"rank-{rank}.parquet")
    rows = [f.with_columns(pl.col(c) + s for c in ("span", "call")) for f, s in zip(tables["collectives"], shifts, strict=True)]
    collectives.append(pl.concat(rows).with_columns(rank=pl.lit(rank, dtype=pl.Int64), id=pl.int_range(pl.len(), dtype=pl.Int64)))
    signals.append(pl.concat(tables["signals"]).with_columns(scope=pl.lit(f"rank {rank}")))
    first = own[0].info
    for part in own[1:]:
        other = part.info
        first.files += other.files
        first.windows += other.windows
        first.steps += other.steps
        first.events += other.events
        first.repaired, first.dropped, first.clipped = (
            first.repaired + other.repaired, first.dropped + other.dropped, first.clipped + other.clipped,
        )  # fmt: skip
        first.recorded = {k: v and other.recorded.get(k, False) for k, v in first.recorded.items()}
    return first


def _several_windows(ranks: Mapping[int, list[Part]]) -> list[Gap]:
    """Files of one rank over different times are windows of one job, and that is said: two jobs would look the same."""
    several = {rank: own for rank, own in ranks.items() if len(own) > 1}
    if not several:
        return []
    files = ", ".join(Path(p.path).name for p in next(iter(several.values()))[:3])
    return [Gap("several windows of one rank", tuple(several), f"read as one job: {files}; give two jobs one at a time")]


def _missing(world: int | None, ranks: Mapping[int, object]) -> list[int]:
    if world is None or world > 1 << 20:
        return []
    return [r for r in range(world) if r not in ranks]


def _missing_facts(infos: list[RankInfo], world: int | None) -> list[Gap]:
    gaps: list[Gap] = []
    if world is not None and len(infos) < world:
        gaps.append(
            Gap(
                "missing ranks",
                (),
                f"{len(infos)} of {world} ranks have a trace; waits are lower bounds and nobody is named last",
            )
        )
    if world is not None and (over := [i.rank for i in infos if i.rank >= world]):
        gaps.append(
            Gap("rank beyond world size", tuple(over), f"world size is {world}; rank or world size is wrong in these files")
        )
    silent = tuple(i.rank for i in infos if not i.recorded.get("device_kernels") and i.device != "cpu")
    if silent:
        gaps.append(
            Gap("no device activity recorded", silent, "runtime calls are there but no kernel; switch device activity on")
        )
    quiet = tuple(i.rank for i in infos if not i.recorded.get("collectives"))
    if quiet and (world or 1) > 1:
        gaps.append(
            Gap("0 collectives found", quiet, f"a job of {world} ranks without one communication kernel or call in the trace")
        )
    cut = tuple(i.rank for i in infos if not i.recorded.get("warmup", True))
    if cut:
        gaps.append(
            Gap(
                "launches without kernels",
                cut,
                "the window cuts device work off; device time is a lower bound: use warm-up steps",
            )
        )
    return gaps


def _groups(parts: list[Part]) -> list[Group]:
    """Process groups by name; one name with several sets of ranks (one per part of the mesh) gets a suffix."""
    found: dict[str, list[Group]] = {}
    for group in (g for p in parts for g in p.groups):
        same = found.setdefault(group.group, [])
        if all(set(group.ranks) != set(g.ranks) for g in same):
            same.append(group)
    return [g for same in found.values() for g in same]


def _merge_gaps(gaps: list[Gap]) -> list[Gap]:
    """The same gap on several ranks is one gap."""
    merged: dict[tuple[str, str], set[int]] = {}
    for gap in gaps:
        merged.setdefault((gap.what, gap.why), set()).update(gap.ranks)
    return [Gap(what, tuple(sorted(ranks)), why) for (what, why), ranks in merged.items()]
