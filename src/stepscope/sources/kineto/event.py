"""One event of a Kineto trace, as the typed decoder sees it, and the tolerant way from a plain dict to the same.

Values stay as written (a number may be a string in some files); `columns` makes them exact.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

Value = int | float | str | None
ABSENT: Final = msgspec.Raw(b"")  # a Raw that the event does not have: `msgspec.Raw | None` would refuse arrays


class Args(
    msgspec.Struct,
    gc=False,
    frozen=True,
    rename={
        "external_id": "External id",
        "external_id_old": "external id",
        "sequence": "Sequence number",
        "forward_thread": "Fwd thread id",
        "dims": "Input Dims",
        "dims_old": "Input dims",
        "types": "Input type",
        "stack": "Call stack",
        "collective": "Collective name",
        "in_elements": "In msg nelems",
        "out_elements": "Out msg nelems",
        "group_size": "Group size",
        "group": "Process Group Name",
        "group_ranks": "Process Group Ranks",
        "own_rank": "Rank",
        "collective_seq": "Seq",
        "memory_bytes": "Bytes",
        "memory_total": "Total Allocated",
        "memory_device": "Device Type",
        "wait_record": "wait_on_cuda_event_record_corr_id",
    },
):
    """The arguments that anything here reads; all others are skipped without being built."""

    correlation: Value = None
    stream: Value = None
    device: Value = None
    external_id: Value = None
    external_id_old: Value = None
    sequence: Value = None
    forward_thread: Value = None
    bytes: Value = None
    flops: Value = None
    dims: msgspec.Raw = ABSENT
    dims_old: msgspec.Raw = ABSENT
    types: msgspec.Raw = ABSENT
    stack: msgspec.Raw = ABSENT
    collective: str | None = None
    in_elements: Value = None
    out_elements: Value = None
    group_size: Value = None
    dtype: str | None = None
    group: str | None = None
    group_ranks: Value | list[Value] = None
    own_rank: Value = None
    collective_seq: Value = None
    memory_bytes: Value = None
    memory_total: Value = None
    memory_device: Value = None
    wait_on_stream: Value = None
    wait_record: Value = None
    rank: Value = None  # written by tools that merge the traces of several ranks
    name: Value = None
    labels: Value = None


NO_ARGS: Final = Args()


class Event(msgspec.Struct, gc=False):
    """One element of `traceEvents`."""

    ph: str = ""
    cat: str | None = None
    name: Value = ""
    pid: Value = None
    tid: Value = None
    ts: Value = None
    dur: Value = None
    id: msgspec.UnsetType | Value = msgspec.UNSET
    args: Args = NO_ARGS
    mended: bool = False  # never in a file: set where the event's bytes were damaged


class Stamp(msgspec.Struct, gc=False):
    """The same event with its stamps as written, for files whose float64 would lose ns."""

    ph: str = ""
    ts: msgspec.Raw = msgspec.Raw(b"null")
    dur: msgspec.Raw = msgspec.Raw(b"null")


EVENTS: Final = msgspec.json.Decoder(list[Event])
STAMPS: Final = msgspec.json.Decoder(list[Stamp])

_ARG_FIELDS: Final = {field.encode_name: field for field in msgspec.structs.fields(Args)}
_RAW_FIELDS: Final = ("Input Dims", "Input dims", "Input type", "Call stack")


def from_plain(document: object, mended: bool) -> Event | None:
    """An Event from whatever a plain JSON decoder made; None where it is not an event (no `ph`)."""
    if not isinstance(document, dict) or not isinstance(document.get("ph"), str):
        return None
    found = document.get("args")
    args: dict[str, Any] = {}
    for key, value in found.items() if isinstance(found, dict) else ():
        if key in _RAW_FIELDS:
            args[_ARG_FIELDS[key].name] = msgspec.Raw(_encode(value))
        elif key == "Process Group Ranks" and isinstance(value, list):
            args["group_ranks"] = [v for v in value if isinstance(v, int | str)]
        elif key in ("Collective name", "dtype", "Process Group Name"):
            args[_ARG_FIELDS[key].name] = None if value is None else str(value)
        elif key in _ARG_FIELDS:
            args[_ARG_FIELDS[key].name] = _scalar(value)
    category = document.get("cat")
    return Event(
        ph=document["ph"],
        cat=category if isinstance(category, str) else None,
        name=_scalar(document.get("name")),
        pid=_scalar(document.get("pid")),
        tid=_scalar(document.get("tid")),
        ts=_scalar(document.get("ts")),
        dur=_scalar(document.get("dur")),
        args=Args(**args) if args else NO_ARGS,
        mended=mended,
    )


def _scalar(value: object) -> Value:
    return value if isinstance(value, int | float | str) and not isinstance(value, bool) else None


def _encode(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, ValueError, RecursionError):
        return b"null"
