"""Segments to a Run: ranks on one clock, steps and groups, signals, and what of the job is not there.

Processes of one machine share the monotonic clock; machines are put on the wall clock of their first process and aligned by
the ends of collectives like any other run. The folder of a job that still runs is read as it is.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

import polars as pl

from stepscope.model.errors import BadInput
from stepscope.model.info import Gap, Group, RunInfo
from stepscope.model.run import Run, load
from stepscope.model.segment import FOLDER, STEP
from stepscope.model.spans import Marks, Rules
from stepscope.model.store import save_info, save_rank
from stepscope.sources.clock import align
from stepscope.sources.live.segments import Process, processes
from stepscope.sources.live.standing import has_stopped, standing
from stepscope.sources.live.tables import MARKS, Placed, rank_tables
from stepscope.sources.placement import Placement, settle

SECOND = 1_000_000_000


def open_live(folder: Path, *, rules: Rules, marks: Marks = (), hosts: Placement | None = None) -> Run:
    """The Run of a live job's folder, in a temporary place until it is closed. Raises BadInput where it holds nothing yet."""
    owner = tempfile.TemporaryDirectory(prefix="stepscope-", ignore_cleanup_errors=True)
    try:
        made = Path(owner.name) / "live.run"
        made.mkdir()
        finish(folder, made, rules=rules, marks=marks, hosts=hosts)
        return load(made, owner)
    except BaseException:
        owner.cleanup()
        raise


def finish(folder: Path, out: Path, *, rules: Rules, marks: Marks = (), hosts: Placement | None = None) -> RunInfo:
    """Writes the Run of the segments in `folder` into `out`, which exists and is empty. Raises BadInput where there is none."""
    try:
        found = processes(folder)
    except OSError as error:
        raise BadInput(f"{folder}: cannot be read ({error.strerror}); check the permissions") from None
    if not found:
        raise BadInput(f"{folder}: a recording without a readable segment yet; wait for the first step, or record again")
    origin = min(p.head.wall_ns for p in found) // SECOND * SECOND
    ranks: dict[int, list[Placed]] = defaultdict(list)
    shifts, first_steps = _shifts(found, origin), _first_steps(found)
    for process in found:
        ranks[process.head.rank].append(Placed(process, shifts[_machine(process)], first_steps.get(process.head.attempt, 0)))
    infos, collectives, signals, gaps, groups = [], [], [], [], dict[str, Group]()
    for rank, own in ranks.items():
        read = rank_tables(rank, own)
        derived = rules.derive(read.tables, [*MARKS, *marks])
        read.tables.attribution, read.tables.info.steps = derived.attribution, derived.steps
        save_rank(out, read.tables)
        infos.append(read.tables.info)
        collectives.append(derived.collectives)
        signals.append(read.tables.signals)
        gaps += [*read.gaps, *(Gap(gap.what, (rank,), gap.why) for gap in derived.gaps)]
        for group in read.groups:
            groups.setdefault(group.group, group)
    world = max(p.head.world for p in found)
    restarts = sorted({p.head.attempt for p in found} - {0})
    named = [Group(f"{g.group} (restart {n})", g.axis, g.ranks) for n in restarts for g in groups.values()]
    info = RunInfo(
        origin="live",
        origin_ns=origin,
        world_size=world,
        ranks=infos,
        missing_ranks=[rank for rank in range(world) if rank not in ranks],
        groups=[*groups.values(), *named],
    )
    if info.missing_ranks:
        why = f"{len(infos)} of {world} ranks left segments here; waits are lower bounds and nobody is named last"
        gaps.append(Gap("missing ranks", tuple(info.missing_ranks), why))
    gaps += settle(infos, hosts, world)
    matched = rules.match(pl.concat(collectives), info)
    if has_stopped(found):
        gaps = [*standing(matched, info.groups), *gaps]
    info.clock, apart = align(matched, info)
    info.gaps = _merged([*gaps, *apart])
    info.workload = _workload(found)
    save_info(out, info, matched, pl.concat(signals))
    return info


def _machine(process: Process) -> str:
    return process.head.boot or f"{process.head.host} {process.head.pid}"


def _shifts(found: list[Process], origin: int) -> dict[str, int]:
    """Of each machine what is added to its monotonic times: its wall clock beside them when its first process began."""
    shifts: dict[str, int] = {}
    for process in sorted(found, key=lambda p: p.head.wall_ns):
        shifts.setdefault(_machine(process), process.head.wall_ns - process.head.monotonic_ns - origin)
    return shifts


def _first_steps(found: list[Process]) -> dict[int, int]:
    """Steps of a restarted job go on after those of the attempt before, whatever numbers its loop gives them."""
    first: dict[int, int] = {}
    after = 0
    for attempt in sorted({p.head.attempt for p in found}):
        first[attempt] = after
        numbers = [int(p.rows[STEP][:, 1].max()) for p in found if p.head.attempt == attempt and len(p.rows[STEP])]
        after += max(numbers, default=-1) + 1
    return first


def _workload(found: list[Process]) -> dict[str, int]:
    """Tokens of a step, all ranks together, where every rank told the same number for all of its steps."""
    told: dict[int, int] = {}
    for process in found:
        tokens = set(process.rows[STEP][:, 4].tolist())
        if len(tokens) != 1 or (one := tokens.pop()) < 0:
            return {}
        told[process.head.rank] = one
    return {"tokens_per_step": sum(told.values())}


def _merged(gaps: list[Gap]) -> list[Gap]:
    merged: dict[tuple[str, str], set[int]] = {}
    for gap in gaps:
        merged.setdefault((gap.what, gap.why), set()).update(gap.ranks)
    return [Gap(what, tuple(sorted(ranks)), why) for (what, why), ranks in merged.items()]


def close_run(folder: Path, rules: Rules) -> RunInfo:
    """Makes the folder of a job that has ended a Run in place; its segments go once the tables stand. Raises BadInput.

    Where ranks are missing (another node may still write) the segments stay, and the folder is read as it is.
    """
    part = folder / ".tables.partial"
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(mode=0o700)
        info = finish(folder, part, rules=rules)
        if info.missing_ranks:
            return info
        for made in part.rglob("*"):
            made.chmod(0o700 if made.is_dir() else 0o600)
        for made in sorted(part.iterdir(), key=lambda path: path.name == "run.json"):  # with it the folder is a Run
            made.rename(folder / made.name)
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
    except OSError as error:
        raise BadInput(f"{folder}: the tables cannot be written ({error.strerror}); what was recorded is kept as it is") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return info
