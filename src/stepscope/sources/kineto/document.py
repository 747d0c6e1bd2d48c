"""A trace file as batches of events, with what stands before and after them.

The good path cuts the text at the separator seen between two events and hands 1 MiB at a time to a typed decoder. A batch
that the decoder refuses is halved down to the damaged event, and only that one goes the slow way (`salvage`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from stepscope.model.errors import BadInput
from stepscope.sources.kineto.event import EVENTS, AnyEvent, clean, from_plain
from stepscope.sources.kineto.salvage import walk
from stepscope.sources.kineto.stream import TraceStream

# Longest stretch without an event boundary that is still read: the metadata of a 10,000-rank job takes about 4 MB.
MAX_STRETCH: Final = 64 << 20
_OPEN: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_KEYS: Final = rb'(?:ph|name|cat|ts|pid|tid|id|s|bp|dur|args)"\s*:'
_FIRST: Final = re.compile(rb'\{\s*"(?:ph|name|cat)"\s*:\s*"')
_BOUNDARY: Final = re.compile(rb'\}(\s*,\s*)\{\s*"' + _KEYS)


@dataclass(slots=True)
class Batch:
    """Events of one stretch; `raw` is the JSON array they came from, None where they were salvaged one by one."""

    events: list[AnyEvent]
    raw: bytes | None


@dataclass(slots=True)
class Reading:
    """What the reader has to tell about the file itself."""

    metadata: dict[str, Any] = field(default_factory=dict)
    repaired: int = 0
    dropped: int = 0
    findings: list[str] = field(default_factory=list)


class TraceDocument:
    """Iterate once for the batches; `reading` is complete afterwards. Raises BadInput where nothing can be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reading = Reading()
        self._stream = TraceStream(path)
        self._separators: list[bytes] = []
        self._rest: list[bytes] = []  # text after the event array
        self._rest_size = 0

    def __iter__(self) -> Iterator[Batch]:
        blocks = self._stream.blocks()
        text = self._open(blocks)
        while text is not None:
            cut = self._cut(text)
            if cut is not None:
                yield from self._decode(text[: cut[0]])
                text = text[cut[1] :]
                if self._rest:
                    self._after(text)
                    text = b""
            block = next(blocks, None)
            if block is None:
                break
            if self._rest:
                self._after(block)
            else:
                text += block
                if len(text) > MAX_STRETCH:
                    self._give_up(text)
                    break
        if text and not self._rest:
            yield from self._finish(text)
        self._close()

    # -- before the events

    def _open(self, blocks: Iterator[bytes]) -> bytes | None:
        """Reads on to the first event; the text from there on."""
        text, seen = b"", 0
        for block in blocks:
            text += block
            if not seen and text.lstrip()[:1] == b"[" and _is_list(text):
                return text.lstrip()[1:]
            match = _OPEN.search(text, max(0, seen - 32))
            if match:
                self._metadata(text[: match.start()], b"{", b"}")
                return text[match.end() :]
            seen = len(text)
            if seen > MAX_STRETCH:
                raise BadInput(f"{self.path}: no traceEvents in the first {MAX_STRETCH >> 20} MB; not a profiler trace")
        if not text.strip():
            raise BadInput(f"{self.path}: is empty; record the trace again")
        match = _FIRST.search(text)
        if match is None or b'"ph"' not in text:
            raise BadInput(f"{self.path}: has no traceEvents; not a profiler trace")
        self.reading.findings.append("the head of the file is damaged; events were found without it")
        self._metadata(text[: match.start()], b"{", b"}")
        return text[match.start() :]

    # -- between events

    def _cut(self, text: bytes) -> tuple[int, int] | None:
        """(end of the last whole event, start of the next) of `text`, None where no boundary is in it."""
        best = max(((text.rfind(s), s) for s in self._separators), default=(-1, b""))
        if best[0] < 0 and (match := _last(_BOUNDARY, text)):
            separator = match.group()[: match.group().rindex(b":")]
            if not any(separator.startswith(known) for known in self._separators):
                self._separators.append(separator)
            best = (match.start(), separator)
        if best[0] < 0:
            return None
        return best[0] + 1, best[0] + best[1].index(b"{")

    def _decode(self, piece: bytes) -> Iterator[Batch]:
        raw = b"".join((b"[", piece.lstrip(b" \t\r\n,"), b"]"))
        events = _typed(raw)
        if events is None and (mended := _utf8(piece)) is not None:
            self.reading.repaired += mended[1]
            piece = mended[0]
            raw = b"".join((b"[", piece.lstrip(b" \t\r\n,"), b"]"))
            events = _typed(raw)
        if events is not None:
            yield Batch(events, raw)
            return
        yield from self._halve(piece)

    def _halve(self, piece: bytes) -> Iterator[Batch]:
        """Down to the damaged event: halves that decode are taken whole."""
        stack = [piece]
        while stack:
            part = stack.pop().lstrip(b" \t\r\n,")
            if not part:
                continue
            raw = b"[" + part + b"]"
            events = _typed(raw)
            if events is not None:
                yield Batch(events, raw)
                continue
            middle = self._middle(part)
            if middle is not None:
                stack += [part[middle:], part[:middle]]
                continue
            yield from self._salvage(part)
            if self._rest:  # the array ended inside this part: what follows is no event
                for later in reversed(stack):
                    self._after(later)
                return

    def _middle(self, part: bytes) -> int | None:
        """A boundary near the middle, as the place right after the first event's closing brace."""
        half = len(part) // 2
        for separator in self._separators:
            for place in (part.find(separator, half), part.rfind(separator, 0, half)):
                if place >= 0:
                    return place + 1
        return None

    def _salvage(self, part: bytes) -> Iterator[Batch]:
        plain = _plain(b"[" + part + b"]")
        if plain is not None:  # sound JSON whose values have unexpected types
            events = [event for document in plain if (event := from_plain(document, mended=False))]
            self.reading.dropped += len(plain) - len(events)
            yield Batch(events, None)
            return
        found = walk(part.decode("utf-8", "replace"))
        self.reading.repaired += found.repaired
        self.reading.dropped += found.dropped + bool(found.unread)
        if _OPEN.search(part):
            self.reading.findings.append(
                "another document begins amid the events (two writers?); what is readable of both was read"
            )
        if found.rest is not None:
            self._after(found.rest.encode("utf-8", "replace"))
        if found.events:
            yield Batch(found.events, None)

    def _give_up(self, text: bytes) -> None:
        if not self._separators:
            raise BadInput(f"{self.path}: no event in {MAX_STRETCH >> 20} MB; not a profiler trace")
        self.reading.findings.append(f"no event in the last {MAX_STRETCH >> 20} MB that were read; the rest was left")
        self.reading.dropped += 1
        self._rest.append(b"")

    # -- after the events

    def _finish(self, text: bytes) -> Iterator[Batch]:
        """The last event and what follows it."""
        stripped = text.lstrip(b" \t\r\n,")
        if stripped.startswith(b"]"):
            self._after(stripped[1:])
            return
        found = walk(stripped.decode("utf-8", "replace"))
        self.reading.repaired += found.repaired
        self.reading.dropped += found.dropped
        if found.unread.strip(" \t\r\n,]}"):
            self.reading.dropped += 1
            self.reading.findings.append("the file ends in the middle of an event")
        elif found.rest is None:
            self.reading.findings.append("the file ends before its list of events does")
        if found.rest is not None:
            self._after(found.rest.encode("utf-8", "replace"))
        if found.events:
            yield Batch(found.events, None)

    def _after(self, text: bytes) -> None:
        self._rest_size += len(text)
        if self._rest_size <= MAX_STRETCH:
            self._rest.append(text)

    def _close(self) -> None:
        rest = b"".join(self._rest)
        if _OPEN.search(rest):
            self.reading.findings.append(
                "the file holds a second document behind the first (two writers?); only the first was read"
            )
            rest = rest[: rest.index(b'"traceEvents"')]
        if b":" in rest:
            self._metadata(rest.lstrip(b" \t\r\n,"), b"{", b"")
        if self._stream.truncated:
            self.reading.findings.append(self._stream.truncated)

    def _metadata(self, text: bytes, before: bytes, after: bytes) -> None:
        body = text.decode("utf-8", "replace").strip().lstrip("{").rstrip().rstrip(",")
        decoder = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
        try:
            found, _ = decoder.raw_decode("{" + body + after.decode())
        except (ValueError, RecursionError):
            found = _pick(body)
            if body:
                self.reading.findings.append("the metadata of the file is damaged; rank and settings were read as far as they go")
        if isinstance(found, dict):
            self.reading.metadata.update(_cleaned(found))


def _cleaned(metadata: dict[str, Any]) -> dict[str, Any]:
    try:
        return {key: value for key, value in clean(metadata).items() if isinstance(key, str)}
    except RecursionError:  # decoded, but too deep to walk: nothing of ours nests like that
        return {}


def _is_list(text: bytes) -> bool:
    inner = text.lstrip()[1:].lstrip()
    return inner[:1] in (b"{", b"]", b"")


def _typed(raw: bytes) -> list[AnyEvent] | None:
    try:
        return EVENTS.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None


def _plain(raw: bytes) -> list[Any] | None:
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    return found if isinstance(found, list) else None


def _utf8(piece: bytes) -> tuple[bytes, int] | None:
    """The piece with undecodable bytes replaced and how many there were; None where all is sound."""
    try:
        piece.decode()
        return None
    except UnicodeDecodeError:
        before = piece.count("\ufffd".encode())
        mended = piece.decode("utf-8", "replace").encode()
        return mended, mended.count("\ufffd".encode()) - before


def _last(pattern: re.Pattern[bytes], text: bytes) -> re.Match[bytes] | None:
    """The last match, looked for from the end so that a large block is not scanned whole."""
    for window in (1 << 16, len(text)):
        start = max(0, len(text) - window)
        last = None
        for last in pattern.finditer(text, start):  # noqa: B007 - only the last one counts
            pass
        if last is not None:
            return last
    return None


def _pick(body: str) -> dict[str, Any]:
    """Single metadata entries out of text that does not parse as a whole."""
    decoder = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
    found: dict[str, Any] = {}
    for match in re.finditer(
        r'"(distributedInfo|baseTimeNanoseconds|deviceProperties|record_shapes|with_stack|host_name)"\s*:\s*', body
    ):
        try:
            found[match.group(1)], _ = decoder.raw_decode(body, match.end())
        except (ValueError, RecursionError):
            continue
    return found
