"""`nvidia-smi --query-gpu=…,memory.used --format=csv`: what each GPU holds, the fullest of all rows. Bytes.

With a header or without (`noheader`, where the last column is taken), with units or without (`nounits`: MiB).
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Final

from stepscope.model.errors import BadInput
from stepscope.model.snapshot import MeasuredMemory

MAX_BYTES: Final = 64 << 20
_UNITS: Final = {"": 2**20, "mib": 2**20, "gib": 2**30, "kib": 2**10, "b": 1, "mb": 10**6}
_VALUE: Final = re.compile(r"(\d{1,12}(?:\.\d+)?)\s*([A-Za-z]*)")


def read_memory_csv(path: Path) -> MeasuredMemory:
    """The fullest GPU at the fullest time. Raises BadInput where no column is memory in use."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error}); check the path") from None
    if len(data) > MAX_BYTES:
        raise BadInput(f"{path}: larger than {MAX_BYTES >> 20} MiB; give fewer rows")
    rows = [row for row in csv.reader(io.StringIO(data.decode("utf-8", "replace"))) if row]
    if not rows:
        raise BadInput(f"{path}: is empty; write it with nvidia-smi --query-gpu=memory.used --format=csv")
    column, factor, body = _column(rows)
    values = [value for row in body if len(row) > column and (value := _bytes(row[column], factor)) is not None]
    if not values:
        raise BadInput(f"{path}: no column of memory.used; write it with nvidia-smi --query-gpu=memory.used --format=csv")
    return MeasuredMemory(source=path.name, total_bytes=max(values), notes=(f"the highest of {len(values)} readings",))


def _column(rows: list[list[str]]) -> tuple[int, int, list[list[str]]]:
    """Which column, what a plain number there is, and the rows of readings."""
    for i, name in enumerate(rows[0]):
        if "memory.used" in name.lower():
            unit = re.search(r"\[(\w+)\]", name)
            return i, _UNITS.get(unit[1].lower(), 2**20) if unit else 2**20, rows[1:]
    return len(rows[0]) - 1, 2**20, rows


def _bytes(text: str, factor: int) -> int | None:
    match = _VALUE.fullmatch(text.strip())
    if not match or match[2].lower() not in _UNITS:
        return None
    return round(float(match[1]) * (_UNITS[match[2].lower()] if match[2] else factor))
