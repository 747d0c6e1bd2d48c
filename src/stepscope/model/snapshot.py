"""What torch or the driver measured of a GPU's memory, whatever the file: bytes, None where the source does not tell."""

from __future__ import annotations

import msgspec


class MeasuredMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU, or the fullest of several. `allocated` and `reserved` at their highest; `now_*` when the file was written. `terms`
    are live blocks by who asked for them, at the time of writing."""

    source: str
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    total_bytes: int | None = None
    now_allocated_bytes: int | None = None
    terms: dict[str, int] = {}
    notes: tuple[str, ...] = ()
