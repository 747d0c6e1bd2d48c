"""One event of a Kineto trace, as the typed decoder sees it, and the tolerant way from a plain dict to the same.

Values stay as written (a number may be a string in some files); `columns` makes them exact.
"""

from __future__ import annotations

from typing import Any, Final, Union

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
        "comms_id": "Comms Id",
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
    comms_id: Value = None
    wait_on_stream: Value = None
    rank: Value = None  # written by tools that merge the traces of several ranks


NO_ARGS: Final = Args()


class Event(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """A complete event: something that ran from `ts` for `dur`."""

    cat: str | None = None
    name: Value = ""
    pid: Value = None
    tid: Value = None
    ts: Value = None
    dur: Value = None
    args: Args = NO_ARGS
    mended: bool = False  # never in a file: set where the event's bytes were damaged


class MetaArgs(msgspec.Struct, gc=False, frozen=True):
    """What a metadata event names."""

    name: Value = None
    labels: Value = None


class Meta(msgspec.Struct, gc=False, tag_field="ph", tag="M"):
    """The name of a process or a thread."""

    name: Value = ""
    pid: Value = None
    tid: Value = None
    args: MetaArgs = MetaArgs()


class MemoryArgs(
    msgspec.Struct, gc=False, frozen=True, rename={"size": "Bytes", "total": "Total Allocated", "device": "Device Type"}
):
    """One allocation or release."""

    size: Value = None
    total: Value = None
    device: Value = None


class Instant(msgspec.Struct, gc=False, tag_field="ph", tag="i"):
    """Something that happened at `ts`: a memory sample, the end of the window."""

    name: Value = ""
    ts: Value = None
    args: MemoryArgs = MemoryArgs()


class OldInstant(Instant, tag="I"):
    """The same as old writers mark it."""


class Skipped(msgspec.Struct, gc=False):
    """Every other phase of the trace event format: flows repeat what ids say, the rest no profiler of ours writes."""


AnyEvent = Event | Meta | Instant | Skipped
_SKIPPED: Final = {
    ph: msgspec.defstruct("Skipped", [], bases=(Skipped,), tag_field="ph", tag=ph) for ph in "sftBEbenCNODPRcSTFpva(),"
}


class Stamp(msgspec.Struct, gc=False):
    """The same event with its stamps as written, for files whose float64 would lose ns."""

    ph: str = ""
    ts: msgspec.Raw = msgspec.Raw(b"null")
    dur: msgspec.Raw = msgspec.Raw(b"null")


EVENTS: Final[msgspec.json.Decoder[list[AnyEvent]]] = msgspec.json.Decoder(
    list[Union[Event, Meta, Instant, OldInstant, *_SKIPPED.values()]]  # type: ignore[misc]  # made above, a class per letter
)
STAMPS: Final = msgspec.json.Decoder(list[Stamp])

_ARG_FIELDS: Final = {field.encode_name: field for field in msgspec.structs.fields(Args)}
_TEXT_FIELDS: Final = ("Collective name", "dtype", "Process Group Name")
_RAW_FIELDS: Final = ("Input Dims", "Input dims", "Input type", "Call stack")


def from_plain(document: object, mended: bool) -> AnyEvent | None:
    """An event from whatever a plain JSON decoder made; None where it is not an event (no `ph`)."""
    if not isinstance(document, dict) or not isinstance(document.get("ph"), str):
        return None
    found = document.get("args")
    args: dict[str, Any] = found if isinstance(found, dict) else {}
    own = {key: _scalar(document.get(key)) for key in ("name", "pid", "tid", "ts", "dur")}
    match document["ph"]:
        case "X":
            category = document.get("cat")
            return Event(clean(category) if isinstance(category, str) else None, **own, args=_args(args), mended=mended)
        case "M":
            named = MetaArgs(_scalar(args.get("name")), _scalar(args.get("labels")))
            return Meta(own["name"], own["pid"], own["tid"], named)
        case "i" | "I":
            sample = MemoryArgs(*(_scalar(args.get(key)) for key in ("Bytes", "Total Allocated", "Device Type")))
            return Instant(own["name"], own["ts"], sample)
    return Skipped()


def _args(found: dict[str, Any]) -> Args:
    args: dict[str, Any] = {}
    for key, value in found.items():
        if key in _RAW_FIELDS:
            args[_ARG_FIELDS[key].name] = msgspec.Raw(_encode(value))
        elif key == "Process Group Ranks" and isinstance(value, list):
            args["group_ranks"] = [_scalar(v) for v in value if isinstance(v, int | str)]
        elif key in _TEXT_FIELDS:
            args[_ARG_FIELDS[key].name] = None if value is None else clean(str(value))
        elif key in _ARG_FIELDS:
            args[_ARG_FIELDS[key].name] = _scalar(value)
    return Args(**args) if args else NO_ARGS


def _scalar(value: object) -> Value:
    if isinstance(value, str):
        return str(clean(value))
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def clean(value: Any) -> Any:
    """The same without halves of surrogate pairs, which escapes in JSON can name and no encoding can write."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {clean(key): clean(inner) for key, inner in value.items()}
    return [clean(inner) for inner in value] if isinstance(value, list) else value


def _encode(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, ValueError, RecursionError):
        return b"null"
