"""PyTorch's flight recorder: the ring of the last collectives that each rank dumps when a job hangs or crashes.

Pickle (the watchdog's own) and JSON, NCCL and gloo. Fields that a version lacks are None. gloo describes no group but the
default one, never says `completed` (an entry that it is done with is `retired`), and does not record point to point.
Format: torch/csrc/distributed/c10d/FlightRecorder.hpp of torch 2.13 (versions 2.0 to 2.10; unknown minor versions are read).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from stepscope.model.dump import Dump, Dumps, Held
from stepscope.model.errors import BadInput
from stepscope.model.info import Gap
from stepscope.sources import plain_pickle

_RANK: Final = re.compile(r"(\d{1,7})(?:\.(?:json|pickle|pkl))?$")
_NAME: Final = re.compile(r"(?:fr|nccl|comm_lib|rank|trace|dump)[\w.\-]*?\d+(?:\.(?:json|pickle|pkl))?$", re.IGNORECASE)
_HEAD: Final = 1 << 16
_KEYS: Final = (b"pg_config", b"pg_status", b"entries", b"comm_lib_version", b"nccl_version")
MAX_ENTRIES: Final = 1_000_000
MAX_SHAPE: Final = 96  # characters of sizes and types that tell two calls apart


def find_dumps(paths: Sequence[Path]) -> list[Path]:
    """Dump files among the paths, in order of rank; files that hold nothing count by their name."""
    files = [f for p in paths for f in (sorted(p.iterdir()) if p.is_dir() else [p]) if f.is_file() and not f.is_symlink()]
    return sorted((f for f in files if _is_dump(f)), key=lambda f: (_rank(f) is None, _rank(f), f.name))


def read_dumps(files: Sequence[Path]) -> Dumps:
    """What these dumps hold. Raises BadInput for one that cannot be read."""
    dumps = tuple(read_dump(f) for f in files)
    gaps: list[Gap] = []
    empty = tuple(d.rank for d in dumps if d.form == "empty" and d.rank is not None)
    if empty:
        gaps.append(Gap("empty dumps", empty, "their files hold nothing: the rank died before it had written"))
    known = [d.rank for d in dumps if d.rank is not None]
    described = {rank for d in dumps for ranks in d.members.values() for rank in ranks}
    if absent := tuple(sorted((set(range(max(known, default=-1) + 1)) | described) - set(known))):
        gaps.append(Gap("ranks without a dump", absent, "a rank that left first writes none, which is evidence itself"))
    if wrapped := tuple(d.rank for d in dumps if d.wrapped and d.rank is not None):
        why = "the ring wrapped (a larger TORCH_FR_BUFFER_SIZE keeps more), or only active ones were dumped"
        gaps.append(Gap("older collectives missing", wrapped, why))
    return Dumps(dumps, tuple(gaps))


def read_dump(path: Path) -> Dump:
    """One dump. Raises BadInput where it is none, damaged, or a pickle that is more than data."""
    data = plain_pickle.contents(path, "a flight-recorder dump can be")
    rank = _rank(path)
    if not data:
        return Dump(path.name, rank, "empty")
    if data[:1] == b"{":
        try:
            return _dump(path, rank, "json", msgspec.json.decode(data))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise BadInput(f"{path}: a damaged dump ({error}); dump again") from None
    return _dump(path, rank, "pickle", plain_pickle.load(data, str(path)))


def _dump(path: Path, rank: int | None, form: str, document: Any) -> Dump:
    if not isinstance(document, dict) or not any(key.decode() in document for key in _KEYS):
        raise BadInput(f"{path}: not a flight-recorder dump")
    found = document.get("entries")
    entries = [e for e in found[:MAX_ENTRIES] if isinstance(e, dict)] if isinstance(found, list) else []
    status = document.get("pg_status")
    first = entries[0].get("record_id") if entries else None
    return Dump(
        file=path.name,
        rank=rank,
        form=form,
        version=_text(document.get("version")),
        library=_text(document.get("comm_lib_version")) or _text(document.get("nccl_version")),
        entries=len(entries),
        wrapped=isinstance(first, int) and first > 0,
        operations=dict(Counter(_text(e.get("profiling_name")) or "unknown" for e in entries)),
        states=dict(Counter(_text(e.get("state")) or "unknown" for e in entries)),
        groups={str(g): _progress(s) for g, s in status.items()} if isinstance(status, dict) else {},
        held=tuple(_held(e) for e in entries),
        members=_members(document.get("pg_config")),
    )


def _held(entry: dict[str, Any]) -> Held:
    group = entry.get("process_group")
    name, description = (
        (str(group[0]), str(group[1])) if isinstance(group, list | tuple) and len(group) > 1 else (str(entry.get("pg_id")), "")
    )
    backend, _, operation = (_text(entry.get("profiling_name")) or "unknown").rpartition(":")
    p2p = entry.get("is_p2p") is True or operation.startswith(("send ", "recv "))
    done = entry.get("state") == "completed" or (backend == "gloo" and entry.get("retired") is True)
    sizes = [entry.get(key) for key in ("input_sizes", "input_dtypes")]
    created = entry.get("time_created_ns")
    return Held(
        group=name,
        description=description,
        sequence=None if p2p else _whole(entry.get("collective_seq_id", entry.get("seq_id"))),
        operation=operation,
        shape=" ".join(str(s)[:MAX_SHAPE] for s in sizes if s),
        created_ns=created if isinstance(created, int) and 0 < created < 1 << 62 else None,
        finished=done,
    )


def _members(config: object) -> dict[str, tuple[int, ...]]:
    """Ranks by group name; a group that is described without any (gloo's) is not described."""
    found: dict[str, tuple[int, ...]] = {}
    for name, said in config.items() if isinstance(config, dict) else ():
        ranks = said.get("ranks") if isinstance(said, dict) else None
        numbers = re.findall(r"\d{1,8}", ranks) if isinstance(ranks, str) else []
        if numbers and len(numbers) <= MAX_ENTRIES:
            found[str(name)] = tuple(sorted({int(n) for n in numbers}))
    return found


def _progress(status: object) -> tuple[int | None, int | None]:
    get = status.get if isinstance(status, dict) else {}.get
    return _whole(get("last_enqueued_collective")), _whole(get("last_completed_collective"))


def _whole(value: object) -> int | None:
    """JSON dumps write these numbers as strings."""
    text = str(value)
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _rank(path: Path) -> int | None:
    match = _RANK.search(path.name)
    return int(match.group(1)) if match else None


def _is_dump(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    if not head:
        return bool(_NAME.search(path.name)) and not path.name.endswith((".json", ".gz"))
    return head[:1] in (b"{", b"\x80") and b'"traceEvents"' not in head and sum(key in head for key in _KEYS) >= 1
