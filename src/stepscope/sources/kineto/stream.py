"""The bytes of a trace file, inflated in blocks of 1 MiB, whatever its name says it is.

Memory stays at a few blocks. A gzip that unpacks without end is refused; a cut one gives what it holds and says so.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from isal import isal_zlib

from stepscope.model.errors import BadInput

BLOCK: Final = 1 << 20
PIECE: Final = 4096
GZIP_MAGIC: Final = b"\x1f\x8b"
BOM: Final = b"\xef\xbb\xbf"
# Profiler JSON deflates 8 to 40 times (measured over NVIDIA, AMD and CPU traces); deflate itself ends at 1032 times.
# A file past both bounds is a bomb, not a trace.
MAX_RATIO: Final = 200
FREE_BYTES: Final = 256 << 20


class TraceStream:
    """One file as blocks of text bytes. `truncated` says, after reading, that its gzip ended early or was damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.truncated: str | None = None
        self.inflated = 0

    def blocks(self) -> Iterator[bytes]:
        """Inflated blocks without a byte order mark. Raises BadInput where the file cannot be opened or is a bomb."""
        try:
            with self.path.open("rb") as file:
                head = file.read(2)
                file.seek(0)
                first = True
                for block in self._inflate(file) if head == GZIP_MAGIC else iter(lambda: file.read(BLOCK), b""):
                    self.inflated += len(block)
                    yield block.removeprefix(BOM) if first else block
                    first = False
        except OSError as error:
            raise BadInput(f"{self.path}: cannot be read ({error.strerror or error})") from None

    def _inflate(self, file: BinaryIO) -> Iterator[bytes]:
        packed = 0
        begun, before = 0, 0  # where the member under way begins: packed, and inflated
        engine = isal_zlib.decompressobj(wbits=31)
        pending = b""
        while True:
            data = pending or file.read(BLOCK)
            packed += 0 if pending else len(data)
            if not data:
                if not engine.eof:
                    self.truncated = "the gzip ends early"
                return
            try:
                block = engine.decompress(data, BLOCK)
            except isal_zlib.error as error:  # type: ignore[misc]  # the stub declares an instance
                self.truncated = f"the gzip is damaged ({error})"
                yield from self._before_damage(begun, self.inflated - before)
                return
            pending = engine.unconsumed_tail
            if block:
                yield block
            if self.inflated > FREE_BYTES and self.inflated > MAX_RATIO * packed:
                raise BadInput(f"{self.path}: unpacks to over {MAX_RATIO} times its size; not a profiler trace")
            if engine.eof:
                pending = engine.unused_data
                if not pending:
                    pending = file.read(BLOCK)
                    packed += len(pending)
                if not pending.startswith(GZIP_MAGIC):
                    return  # padding or signature after the last member
                engine = isal_zlib.decompressobj(wbits=31)
                begun, before = file.tell() - len(pending), self.inflated

    def _before_damage(self, begun: int, known: int) -> Iterator[bytes]:
        """What a damaged member still gives after the `known` bytes that it gave already: up to the very byte that is wrong.

        A whole call's output is lost with an error, so it is inflated again in small pieces, by zlib, whose state can be kept.
        """
        engine = zlib.decompressobj(wbits=31)
        with self.path.open("rb") as file:
            file.seek(begun)
            while piece := file.read(PIECE):
                kept = engine.copy()
                try:
                    part = engine.decompress(piece)
                except zlib.error:
                    part = b"".join(_byte_by_byte(kept, piece))
                    file.seek(0, 2)  # nothing after the damage
                fresh = part[known:]
                known = max(known - len(part), 0)
                if fresh:
                    yield fresh


def _byte_by_byte(engine: zlib._Decompress, piece: bytes) -> Iterator[bytes]:
    for at in range(len(piece)):
        try:
            yield engine.decompress(piece[at : at + 1])
        except zlib.error:
            return
