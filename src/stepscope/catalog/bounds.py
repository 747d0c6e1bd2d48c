"""Bounds of a number in a file: what no machine has is a slip of the keyboard or of the unit."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Rate = Annotated[float, Meta(gt=0, le=1e6)]
"""GB/s (1e9 bytes), Gbit/s or TFLOP/s: above 0, at most a million."""

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Index = Annotated[int, Meta(ge=0, le=4095)]
Bytes = Annotated[int, Meta(ge=1, le=1 << 50)]
Nanoseconds = Annotated[int, Meta(ge=0, le=10**10)]
Name = Annotated[str, Meta(min_length=1, max_length=120, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Text = Annotated[str, Meta(max_length=300)]
