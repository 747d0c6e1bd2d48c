"""The tolerant slow path: every event that can still be read out of a damaged stretch.

It walks from event to event with a lenient JSON decoder, mends what real writers break (control characters, invalid
escapes, NaN, unescaped quotes, bad UTF-8) and, where an event cannot be mended, takes the fields that can be read.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from stepscope.sources.kineto.event import AnyEvent, from_plain

# An event with its shapes and stacks takes a few KB. What is longer and damaged is searched no further than this.
MAX_MEND: Final = 64 << 10
MAX_NESTED: Final = 200  # places of one stretch that nest too deep to decode, before the rest of it is given up


class _Lenient(json.JSONDecoder):
    """Takes control characters in texts, and NaN and Infinity as null; `constants` counts those."""

    def __init__(self) -> None:
        self.constants = 0
        super().__init__(strict=False, parse_constant=self._constant)

    def _constant(self, _: str) -> None:
        self.constants += 1


_DECODER: Final = _Lenient()
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
# An event begins with one of its own keys. Keys of arguments (`"name"` in metadata) can imitate that: see `walk`.
_START: Final = re.compile(r'\{\s*"(?:ph|name|cat|ts|pid|tid|id|s|bp|dur)"\s*:')
_BAD_ESCAPE: Final = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BARE_NUMBER: Final = re.compile(r"(?<=[:\[,\s])[-+]?(?:nan|inf(?:inity)?)(?:\([a-z]*\))?(?=\s*[,}\]])", re.IGNORECASE)
_LIST_END: Final = re.compile(r"\}\s*\]\s*(?=[,}])")
_STRING_FIELD: Final = r'"%s"\s*:\s*"(.*?)"\s*(?=,\s*"(?:ph|cat|name|pid|tid|ts|dur|id|args|s|bp)"\s*:|\}\s*(?:,|\]|\}|$))'
_NAME: Final = re.compile(_STRING_FIELD % "name", re.DOTALL)
_CAT: Final = re.compile(r'"cat"\s*:\s*"([^"]{0,64})"')
_PH: Final = re.compile(r'"ph"\s*:\s*"(\w)"')
_NUMBER: Final = r'"%s"\s*:\s*"?(-?\d+(?:\.\d+)?)"?(?=\s*[,}])'
_NUMBERS: Final = {key: re.compile(_NUMBER % key) for key in ("ts", "dur", "pid", "tid")}
_TID_TEXT: Final = re.compile(r'"tid"\s*:\s*"([^"]{0,64})"')
_ARG_NUMBERS: Final = ("correlation", "stream", "device", "External id", "external id", "Sequence number", "bytes")
_ARGS: Final = {key: re.compile(rf'"{key}"\s*:\s*(-?\d+)(?=\s*[,}}])') for key in _ARG_NUMBERS}


@dataclass(slots=True)
class Salvage:
    """What a stretch gave. `rest`: text after the end of the event array, None while the array goes on;
    `unread`: an event that the stretch cuts off at its end."""

    events: list[AnyEvent] = field(default_factory=list)
    nested: int = 0
    repaired: int = 0
    dropped: int = 0
    rest: str | None = None
    unread: str = ""


def walk(text: str) -> Salvage:
    """Every readable event of `text`, which begins at an event (or a comma before one)."""
    found = Salvage()
    place = 0
    event_end = 0  # where the last event ended; a list that closes behind anything else is not the list of events
    start = _START.search(text)
    while start:
        if event_end and _closed(text, event_end, start.start()):
            found.rest = text[_closing(text, event_end) :]
            return found
        constants = _DECODER.constants
        document, end = _decode(text, start.start(), found)
        if found.nested > MAX_NESTED:
            found.dropped += 1
            return found
        if document is not None:
            mended = _DECODER.constants > constants or bool(_CONTROL.search(text, start.start(), end))
            event = from_plain(document, mended)
            if event is not None:
                found.events.append(event)
                found.repaired += mended
            else:
                found.dropped += 1
            event_end = end if event is not None else 0
            place = end
        else:
            before = len(found.events)
            place = _mend(text, start.start(), found)
            event_end = place if len(found.events) > before else 0
        start = _START.search(text, place)
    if event_end and _closed(text, event_end, len(text)):
        found.rest = text[_closing(text, event_end) :]
    return found


def _closed(text: str, place: int, until: int) -> bool:
    """Whether the array ended right after the event that ends at `place`."""
    return text[place:until].lstrip().startswith("]")


def _closing(text: str, place: int) -> int:
    return text.index("]", place) + 1


def _decode(text: str, place: int, found: Salvage) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, place)
    except ValueError:
        return None, place
    except RecursionError:
        found.nested += 1
        return None, place


def _mend(text: str, place: int, found: Salvage) -> int:
    """Mends or gives up the damaged event at `place`; where to go on."""
    following = _next_start(text, place)
    piece = text[place:following]
    if following == len(text) and not piece.rstrip().endswith(("}", "]", ",")):
        found.unread = piece
        return following
    document = _repaired(piece, found) if len(piece) <= MAX_MEND else None
    event = from_plain(document, mended=True) if document is not None else _by_fields(piece[:MAX_MEND])
    if event is None:
        found.dropped += 1
    else:
        found.events.append(event)
        found.repaired += 1
    tail = _LIST_END.search(piece[-MAX_MEND:])
    if tail and following == len(text) and event is not None:
        return following - len(piece[-MAX_MEND:]) + tail.start() + 1
    return following


def _next_start(text: str, place: int) -> int:
    """Where the next event begins: a brace with an event's key that follows a comma and a closing brace."""
    at = place + 1
    while match := _START.search(text, at):
        before = text[max(place, match.start() - 64) : match.start()].rstrip()
        if before.endswith(",") or match.group().endswith('"ph":') or '"ph"' in match.group():
            return match.start()
        at = match.start() + 1
    return len(text)


def _repaired(piece: str, found: Salvage) -> Any:
    body = piece.rstrip().rstrip(",").rstrip()
    body = _BARE_NUMBER.sub("null", _BAD_ESCAPE.sub(r"\\\\", body))
    for candidate in (body, _requoted(body), body + "}", body + "}}", body + '"}}'):
        document, _ = _decode(candidate, 0, found)
        if isinstance(document, dict) and "ph" in document:
            return document
    return None


def _requoted(body: str) -> str:
    """Quotes inside the event's name escaped: writers of python frames have left them bare."""
    match = _NAME.search(body)
    if match is None:
        return body
    inner = re.sub(r'(?<!\\)"', r"\\\"", match.group(1))
    return body[: match.start(1)] + inner + body[match.end(1) :]


def _by_fields(piece: str) -> AnyEvent | None:
    """Last resort: the fields that can be recognised one by one. None without phase, stamp and name."""
    ph, ts, name = _PH.search(piece), _NUMBERS["ts"].search(piece), _NAME.search(piece)
    if not (ph and ts and name):
        return None
    document: dict[str, Any] = {"ph": ph.group(1), "name": name.group(1), "ts": ts.group(1)}
    if match := _CAT.search(piece):
        document["cat"] = match.group(1)
    for key in ("dur", "pid", "tid"):
        if match := _NUMBERS[key].search(piece):
            document[key] = match.group(1)
    if "tid" not in document and (match := _TID_TEXT.search(piece)):
        document["tid"] = match.group(1)
    document["args"] = {key: int(m.group(1)) for key, pattern in _ARGS.items() if (m := pattern.search(piece))}
    return from_plain(document, mended=True)
