"""Exact time: decimal microseconds, as numbers or as text, to integer nanoseconds.

A float64 holds µs with three decimals exactly enough (rint(x * 1000)) while |x| < 2^43 µs, which is 101 days. Stamps
counted from 1970 are past that and lose up to 253 ns, so those are read again from the digits as written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

import numpy as np
import polars as pl

EXACT_FLOAT_US: Final = float(1 << 43)
MAX_US: Final = (1 << 63) // 1000 - 1
_DIGITS: Final = len(str(MAX_US))
NOT_A_TIME: Final = np.iinfo(np.int64).min

Ns = np.ndarray[tuple[int], np.dtype[np.int64]]


def to_ns(values: Sequence[object], digits: Callable[[], Sequence[bytes] | None]) -> Ns:
    """Integer ns of each value in µs; NOT_A_TIME where it is absent or not a number; one beyond int64 stops at its ends.

    `digits` gives the same values as written, asked for only where float64 is too coarse; None where they are not at hand.
    """
    try:
        array = np.array(values)
    except (ValueError, OverflowError):
        array = np.array(values, dtype=object)
    if array.dtype.kind == "i":
        return _whole(array.astype(np.int64))
    if array.dtype.kind == "f" and bool(np.all(np.abs(array) < EXACT_FLOAT_US)):
        return np.rint(array * 1000.0).astype(np.int64)
    if array.dtype.kind == "U" and (exact := _parse([str(value).encode() for value in values])) is not None:
        return exact
    if array.dtype.kind == "f" and (written := digits()) is not None and len(written) == len(values):
        exact = _parse(written)
        if exact is not None:
            return exact
    return np.fromiter((_one(value) for value in values), dtype=np.int64, count=len(values))


def _whole(us: Ns) -> Ns:
    return np.clip(us, -MAX_US, MAX_US) * 1000


def _parse(written: Sequence[bytes]) -> Ns | None:
    """Digits to ns, column by column; None where one of them is not plain decimal."""
    text = pl.Series("us", written, dtype=pl.Binary).cast(pl.String).str.strip_chars('" ')
    parts = pl.DataFrame({"us": text}).select(
        whole=pl.col("us").str.extract(r"^(-?\d{1,16})(?:\.\d+)?$", 1).cast(pl.Int64, strict=False),
        part=pl.col("us").str.extract(r"\.(\d+)$", 1).fill_null("0"),
        negative=pl.col("us").str.starts_with("-"),
    )
    if parts["whole"].null_count():
        return None
    part: Ns = parts.select(
        pl.col("part").str.slice(0, 4).str.pad_end(4, "0").cast(pl.Int64).add(5).floordiv(10),  # the fourth digit rounds
    )["part"].to_numpy()
    whole: Ns = parts["whole"].to_numpy().astype(np.int64) * 1000
    return np.where(parts["negative"].to_numpy(), whole - part, whole + part)


def _one(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return NOT_A_TIME
    try:
        exact = Decimal(repr(value) if isinstance(value, float) else str(value).strip())
        if exact.is_finite() and exact.adjusted() > _DIGITS:  # 1e999999999: the integer would fill the memory
            return MAX_US * 1000 if exact > 0 else -MAX_US * 1000
        ns = int((exact * 1000).to_integral_value())
    except (ArithmeticError, ValueError):
        return NOT_A_TIME
    return max(-MAX_US * 1000, min(MAX_US * 1000, ns))
