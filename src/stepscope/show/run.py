"""What was read, as a screen: `import` says how each rank was found and what the reader mended, `show` what the run holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepscope.model.info import RankInfo, RunInfo
from stepscope.model.place import place_name
from stepscope.model.table import Column, Table
from stepscope.show import units
from stepscope.show.contents import Contents
from stepscope.show.gaps import gap_lines
from stepscope.show.terminal import Block, Paragraph

ALL_RANKS: Final = 16
FIRST_RANKS: Final = 8

IDENTIFIED: Final = {
    "distributed_info": "the trace's distributedInfo",
    "collective_metadata": "metadata of its collectives",
    "file_name": "the file name",
    "rank_map": "--rank-map",
    "only_file": "the only file",
    "simulated": "the simulator",
    "recorder": "the recorder",
}


def imported(info: RunInfo, path: str | None = None) -> Iterator[Block]:
    """After an import: ranks and steps in one line, how ranks were identified, what was mended, what is not there."""
    yield Paragraph(_headline(info, f"{path}: " if path else ""), "bold")
    yield _facts(info)
    yield _rank_table(info)
    yield from gap_lines(info.gaps)


def shown(held: Contents, path: str | None = None) -> Iterator[Block]:
    """What a run or a trace folder holds."""
    info = held.info
    yield Paragraph(_headline(info, f"{path}: " if path else ""), "bold")
    yield _facts(info)
    yield _rank_table(info)
    if held.collectives:
        columns = tuple(Column(n, right=i > 0) for i, n in enumerate(("operation", "calls", "bytes", "ranks")))
        rows = tuple((c.op, f"{c.calls:,}", units.size(c.bytes), str(c.ranks)) for c in held.collectives)
        yield Table("Collectives (calls and bytes of all ranks)", columns, rows)
    if info.groups:
        group_rows = tuple((g.group, g.axis, str(len(g.ranks)), units.rank_list(g.ranks)) for g in info.groups[:ALL_RANKS])
        left = len(info.groups) - len(group_rows)
        notes = (f"{left:,} more groups: see --format json",) if left else ()
        yield Table(
            "Process groups", (Column("group"), Column("axis"), Column("size", right=True), Column("ranks")), group_rows, notes
        )
    yield from gap_lines(info.gaps)


def ranks(info: RunInfo) -> Table:
    """Raw values, one row per rank: what CSV carries."""
    names = (
        "rank",
        "identified_by",
        "host",
        "device",
        "device_name",
        "steps",
        "events",
        "repaired",
        "dropped",
        "clipped",
        "files",
    )
    rows = tuple(
        (
            r.rank,
            r.identified_by,
            r.host,
            r.device,
            r.device_name,
            len(r.steps),
            r.events,
            r.repaired,
            r.dropped,
            r.clipped,
            " ".join(r.files),
        )
        for r in info.ranks
    )
    return Table("Ranks", tuple(Column(n) for n in names), rows)


def _headline(info: RunInfo, before: str) -> str:
    steps = {s.step for r in info.ranks for s in r.steps}
    world = f" of {info.world_size:,}" if info.world_size and info.world_size != len(info.ranks) else ""
    events = units.count(sum(r.events for r in info.ranks), "event")
    origin = {"simulated": " (simulated)", "live": " (recorded live)"}.get(info.origin, "")
    good = ", marked good" if info.good else ""
    return f"{before}{units.count(len(info.ranks), 'rank')}{world}, {units.count(len(steps), 'step')}, {events}{origin}{good}"


def _facts(info: RunInfo) -> Table:
    rows = [("missing ranks", units.rank_list(info.missing_ranks) or "none")]
    steps = sorted({s.step for r in info.ranks for s in r.steps})
    if steps:
        cut = sum(not s.complete for r in info.ranks for s in r.steps)
        rows.append(
            ("step numbers", units.rank_list(steps) + (f" ({units.count(cut, 'rank-step')} cut by the window)" if cut else ""))
        )
    rows.append(
        ("identified by", ", ".join(dict.fromkeys(IDENTIFIED.get(r.identified_by, r.identified_by) for r in info.ranks)) or "-")
    )
    figures = ((sum(getattr(r, word) for r in info.ranks), word) for word in ("repaired", "dropped", "clipped"))
    mended = [f"{n:,} {word}" for n, word in figures if n]
    rows.append(("events mended", ", ".join(mended) or "none"))
    clock = info.clock
    aligned = {True: "aligned", False: "not aligned", None: "alignment not attempted"}[clock.aligned]
    rows.append(
        ("clocks", aligned + (f", residual {units.duration(clock.residual_ns)}" if clock.residual_ns is not None else ""))
    )
    if versions := {f"{k} {v}" for r in info.ranks for k, v in r.versions.items()}:
        rows.append(("versions", ", ".join(sorted(versions))))
    return Table("", (Column(""), Column("")), tuple(rows))


def _rank_table(info: RunInfo) -> Table:
    shown_ranks = info.ranks if len(info.ranks) <= ALL_RANKS else info.ranks[:FIRST_RANKS]
    unit = units.time_unit(_window(r) for r in shown_ranks)
    where = "place" if any(r.place for r in shown_ranks) else "host"
    names = ("rank", "device", where, f"window {unit.name}", "steps", "events", "repaired", "dropped", "clipped", "file")
    right = (True, False, False, True, True, True, True, True, True, False)
    rows = [
        (str(r.rank), r.device_name or r.device, _where(r), unit.cell(_window(r)), str(len(r.steps)), *_counts(r), _files(r))
        for r in shown_ranks
    ]
    keep = [
        i
        for i, name in enumerate(names)
        if name not in (where, "repaired", "dropped", "clipped") or any(row[i] not in (None, "0") for row in rows)
    ]
    left = len(info.ranks) - len(shown_ranks)
    notes = (f"{units.count(left, 'rank')} more: see --format json",) if left else ()
    columns = tuple(Column(names[i], right[i]) for i in keep)
    return Table("Ranks", columns, tuple(tuple(row[i] for i in keep) for row in rows), notes)


def _window(rank: RankInfo) -> int:
    return sum(end - start for start, end in rank.windows)


def _where(rank: RankInfo) -> str | None:
    known = rank.place is not None and rank.place.gpu is not None
    return place_name(rank.rank, rank.place) if known else rank.host


def _counts(rank: RankInfo) -> tuple[str, ...]:
    return tuple(f"{n:,}" for n in (rank.events, rank.repaired, rank.dropped, rank.clipped))


def _files(rank: RankInfo) -> str:
    return rank.files[0] + (f" and {len(rank.files) - 1} more" if len(rank.files) > 1 else "") if rank.files else "-"
