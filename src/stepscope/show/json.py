"""Results as the documents of the contract: `"schema": "VERB/1"`, seconds, bytes, bytes a second, null for the unknown.

Exact integers stand beside the seconds under names that end in `_ns`. Keys are never taken away, only added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from stepscope.model.breakdown import Breakdown, Collective, Communication, StepParts, UnitGather
from stepscope.model.doctor import Examination
from stepscope.model.info import Gap, RankInfo, RunInfo
from stepscope.model.words import PARTS
from stepscope.show import safe
from stepscope.show.contents import Contents

Document = dict[str, Any]


def encode(document: Document, indent: bool = False) -> str:
    """JSON text that ends with a newline. Invisible characters are escaped; what is not UTF-8 becomes U+FFFD."""
    try:
        data = msgspec.json.encode(document)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_without_surrogates(document))
    if indent:
        data = msgspec.json.format(data, indent=2)
    return safe.json_escapes(data.decode()) + "\n"


def breakdown(result: Breakdown) -> Document:
    """breakdown/1. `parts` has every word of PARTS; the values that are not null sum to `duration_s`."""
    return {
        "schema": "breakdown/1",
        "steps": [_step(s) for s in result.steps],
        "communication": [_communication(c) for c in result.communication],
        "groups": [{"group": g.group, "axis": g.axis, "ranks": list(g.ranks)} for g in result.groups],
        "collectives": [_collective(c) for c in result.collectives],
        "units": [_unit(u) for u in result.units],
        "gaps": _gaps(result.gaps),
    }


def imported(info: RunInfo, path: str | None = None) -> Document:
    """import/1. `steps` are the step numbers seen on any rank; `rank_details` says where each rank came from."""
    return {"schema": "import/1", "run": path, **_run(info)}


def shown(contents: Contents) -> Document:
    """show/1: the keys of import/1, and what the run holds in groups and collectives."""
    info = contents.info
    return {
        "schema": "show/1",
        **_run(info),
        "origin": info.origin,
        "world_size": info.world_size,
        "groups": [{"group": g.group, "axis": g.axis, "ranks": list(g.ranks)} for g in info.groups],
        "collectives": [{"op": c.op, "calls": c.calls, "bytes": c.bytes, "ranks": c.ranks} for c in contents.collectives],
        "workload": info.workload,
        "cluster": info.cluster,
        "mesh": info.mesh,
    }


def doctor(found: Examination) -> Document:
    """doctor/1."""
    cannot = [{"question": q.question, "missing": q.missing, "how_to_record": q.how_to_record} for q in found.cannot]
    return {"schema": "doctor/1", "can": list(found.can), "cannot": cannot}


def seconds(ns: int | None) -> float | None:
    """ns as seconds; None stays None."""
    return None if ns is None else ns / 1e9


def _step(s: StepParts) -> Document:
    parts = {part: s.parts_ns.get(part) for part in PARTS}
    return {
        "rank": s.rank,
        "step": s.step,
        "complete": s.complete,
        "duration_s": seconds(s.duration_ns),
        "duration_ns": s.duration_ns,
        "naive_s": seconds(s.naive_ns),
        "naive_ns": s.naive_ns,
        "parts": {part: seconds(ns) for part, ns in parts.items()},
        "parts_ns": parts,
    }


def _communication(c: Communication) -> Document:
    times = {"window": c.window_ns, "compute": c.compute_ns, "total": c.total_ns, "exposed": c.exposed_ns, "hidden": c.hidden_ns}
    return {"rank": c.rank, **_both(times)}


def _collective(c: Collective) -> Document:
    return {
        "id": c.id,
        "step": c.step,
        "group": c.group,
        "op": c.op,
        "bytes": c.bytes,
        "n_ranks": c.n_ranks,
        **_both({"wait": c.wait_ns, "transfer": c.transfer_ns}),
        "busbw_bytes_per_s": c.busbw_bytes_per_s,
        "last_rank": c.last_rank,
        **_both({"skew": c.skew_ns}),
    }


def _unit(u: UnitGather) -> Document:
    return {"unit": u.unit, "pass": u.pass_, **_both({"gather": u.gather_ns, "hidden": u.hidden_ns, "blocked": u.blocked_ns})}


def _both(times_ns: Mapping[str, int | None]) -> Document:
    return {f"{k}_s": seconds(v) for k, v in times_ns.items()} | {f"{k}_ns": v for k, v in times_ns.items()}


def _gaps(gaps: Iterable[Gap]) -> list[Document]:
    return [{"what": g.what, "ranks": list(g.ranks), "why": g.why} for g in gaps]


def _run(info: RunInfo) -> Document:
    return {
        "ranks": [r.rank for r in info.ranks],
        "missing_ranks": list(info.missing_ranks),
        "steps": sorted({s.step for r in info.ranks for s in r.steps}),
        "events": sum(r.events for r in info.ranks),
        "repaired": sum(r.repaired for r in info.ranks),
        "dropped": sum(r.dropped for r in info.ranks),
        "clipped": sum(r.clipped for r in info.ranks),
        "gaps": _gaps(info.gaps),
        "good": info.good,
        "clock": {"residual_s": seconds(info.clock.residual_ns), "aligned": info.clock.aligned},
        "rank_details": [_rank(r) for r in info.ranks],
    }


def _rank(r: RankInfo) -> Document:
    return {
        "rank": r.rank,
        "identified_by": r.identified_by,
        "files": r.files,
        "host": r.host,
        "place": None if r.place is None else {"node": r.place.node, "gpu": r.place.gpu, "nic": r.place.nic},
        "device": r.device,
        "device_name": r.device_name,
        "steps": [{"step": s.step, "complete": s.complete, "duration_s": seconds(s.end_ns - s.start_ns)} for s in r.steps],
        "window_s": seconds(sum(end - start for start, end in r.windows)),
        "events": r.events,
        "repaired": r.repaired,
        "dropped": r.dropped,
        "clipped": r.clipped,
        "recorded": r.recorded,
        "versions": r.versions,
    }


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    return [_without_surrogates(v) for v in value] if isinstance(value, list | tuple) else value
