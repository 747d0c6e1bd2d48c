"""Protocol buffers, written: one message as bytes, or many of one shape at once as a matrix with a message in each row.

In a matrix the whole numbers of a field all take the width of the largest. The encoding allows that: a varint may end in
groups of zeros. It is what makes a million slices a matter of a second.
Source of the encoding: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
Rows = NDArray[np.uint8]
"""One message, or a part of one, in each row; all rows are of one length."""

_VARINT, _FIXED64, _BYTES = 0, 1, 2  # wire types


def integer(number: int, value: int) -> bytes:
    """A field with a whole number from 0."""
    return _varint(number << 3 | _VARINT) + _varint(value)


def text(number: int, value: str | bytes) -> bytes:
    """A field with text or bytes; what is no Unicode becomes `?`."""
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def message(number: int, *fields: bytes) -> bytes:
    """A field that holds a message of these fields."""
    return text(number, b"".join(fields))


def integers(number: int, values: IntArray) -> Rows:
    """In each row the field with that row's whole number from 0."""
    width = max(1, -(-int(values.max(initial=0)).bit_length() // 7))
    digits = values[:, None].astype(np.uint64) >> np.arange(0, 7 * width, 7, dtype=np.uint64) & np.uint64(0x7F)
    digits[:, :-1] |= np.uint64(0x80)
    return _tagged(number << 3 | _VARINT, digits.astype(np.uint8))


def fixed64s(number: int, values: IntArray) -> Rows:
    """In each row the field, once for each of that row's values (n x k), 64 bits each."""
    rows, times = values.shape
    data = values.astype("<u8").view(np.uint8).reshape(rows * times, 8)
    return _tagged(number << 3 | _FIXED64, data).reshape(rows, -1)


def repeated(data: bytes, rows: int) -> Rows:
    """The same bytes in each row."""
    return np.broadcast_to(np.frombuffer(data, dtype=np.uint8), (rows, len(data)))


def messages(number: int, *fields: Rows) -> Rows:
    """In each row the field that holds a message of that row's fields."""
    rows = len(fields[0])
    length = _varint(sum(field.shape[1] for field in fields))
    return np.hstack([repeated(_varint(number << 3 | _BYTES) + length, rows), *fields])


def _tagged(tag: int, data: Rows) -> Rows:
    return np.hstack([repeated(_varint(tag), len(data)), data])


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
