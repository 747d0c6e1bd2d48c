"""What was run where a published row says how much memory it took, or that it ran out? The row as a plan and what was measured.

Rows are mapped by their own fields, as `training_rows` maps them; never by their id or their value. What a row leaves open and no
text of it settles makes it unmapped, with a reason.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import training_rows
from msgspec.structs import replace
from training_rows import Setup

UNITS: Final = {"gib": 2**30, "gb": 10**9, "mib": 2**20, "mb": 10**6, "bytes": 1}
EAGER_LOSS_UNTIL: Final = 2024
"""torchtitan compiled the layers and not the loss until then; rows say of when they are."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure, or one outcome. `quantity` is reserved (most taken from the GPU by torch), resting (live between
    steps), or outcome (`oom` says which). `setup` None: `why`. `cut`: tensor or pipeline parallel."""

    id: str
    source: str
    quantity: str
    measured: float | None
    oom: bool | None
    setup: Setup | None
    loss: str | None = None
    fitted: bool = False
    why: str = ""
    cut: bool = False

    @property
    def klass(self) -> str:
        """What is averaged together within a source, mapped or not."""
        cut = self.cut
        if self.quantity == "resting":
            return f"resting, {'tp or pp' if cut else 'tp = pp = 1'}"
        return f"{self.quantity}, {'with' if cut else 'without'} tp or pp"


def read(folder: Path) -> Iterator[Row]:
    """Every figure and outcome of the training files in a folder."""
    for path in sorted(folder.glob("training-*.json")) if folder.is_dir() else [folder]:
        for raw in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            yield from _rows(raw, path.stem.removeprefix("training-"))


def _rows(raw: dict[str, Any], source: str) -> Iterator[Row]:
    figures = _figures(raw)
    outcome = _outcome(raw)
    if not figures and outcome is None:
        return
    setup: Setup | None
    try:
        setup, why = _setup(raw), ""
    except (training_rows._Unmapped, KeyError, ValueError) as reason:
        setup, why = None, str(reason)
    loss = None if setup is None else _loss(raw, setup)
    axes = dict(raw.get("parallel") or {})
    cut = any(int(axes.get(axis) or 1) > 1 for axis in ("tp", "pp"))
    for quantity, measured in figures:
        fitted = setup is not None and _is_fitted(str(raw["id"]), source, quantity, setup)
        yield Row(f"{raw['id']}", source, quantity, measured, outcome, setup, loss, fitted, why, cut)
    if outcome is not None:
        yield Row(str(raw["id"]), source, "outcome", None, outcome, setup, loss, False, why, cut)


def _figures(raw: dict[str, Any]) -> list[tuple[str, float]]:
    found = []
    peak, unit = raw.get("peak_mem"), str(raw.get("peak_mem_unit") or "GiB").lower()
    if peak and unit in UNITS:
        found.append(("reserved", float(peak) * UNITS[unit]))
    for key, quantity in (("mem_reserved_gb", "reserved"), ("mem_alloc_gb", "resting")):
        if raw.get(key):
            found.append((quantity, float(raw[key]) * 2**30))  # counted in 2**30, as 20 bytes a parameter show
    return found


def _outcome(raw: dict[str, Any]) -> bool | None:
    """Whether it ran out of memory; None where it failed otherwise (a time-out, say) or nothing is said."""
    if raw.get("status") == "Other" or raw.get("oom") is None:
        return None
    return bool(raw["oom"])


def _setup(raw: dict[str, Any]) -> Setup:
    if not raw.get("microbatch"):
        raise training_rows._Unmapped("microbatch: not given")
    if raw.get("hidden") and not raw.get("ffn"):
        raise training_rows._Unmapped("ffn: not given")
    setup = training_rows._setup(raw)
    if setup.pp > 1:
        setup = _with_plan(setup, pp=setup.pp)
    return setup


def _with_plan(setup: Setup, **changes: Any) -> Setup:
    from dataclasses import replace as changed

    return changed(setup, plan=replace(setup.plan, **changes))


def _loss(raw: dict[str, Any], setup: Setup) -> str | None:
    """The loss head, where a row's date tells that it was not the stack's of today."""
    years = [
        int(year) for year in re.findall(r"\b(20[12]\d)[/-]?\d\d", " ".join(str(raw.get(k) or "") for k in ("notes", "source")))
    ]
    if setup.stack == "torchtitan-compile" and years and max(years) <= EAGER_LOSS_UNTIL and setup.plan.tp == 1:
        return "eager"
    return None


def _is_fitted(name: str, source: str, quantity: str, setup: Setup) -> bool:
    """Whether a number was fitted to it: half of torchtitan's and of nanotron's rows without tensor or pipeline parallelism, by a
    checksum of the id (the allocator's shares, and what nanotron's ZeRO leaves held between steps)."""
    if zlib.crc32(name.encode()) % 2 or setup.pp > 1 or setup.plan.tp > 1:
        return False
    return (source == "torchtitan" and quantity == "reserved") or source == "hf-ultrascale-nanotron-h100"
