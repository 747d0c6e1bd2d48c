"""How long did Python's garbage collector stop the job? Its own callbacks, around every collection.

Every pause is added up; one that is long enough to be seen in a step is a span of its own.
"""

from __future__ import annotations

import gc
import threading

from stepscope.model.segment import GARBAGE, SPAN
from stepscope.recorder.journal import PAUSED
from stepscope.recorder.live import LIVE, clock

LONG_NS = 1_000_000  # what a step of some 100 ms would show
_began = [0]


def install() -> None:
    """In the interpreter."""
    if _note not in gc.callbacks:
        gc.callbacks.append(_note)


def _note(phase: str, info: dict[str, int]) -> None:
    if phase == "start":
        _began[0] = clock()
        return
    took = clock() - _began[0]
    PAUSED[0] += took
    PAUSED[1] += 1
    journal = LIVE.journal
    if took >= LONG_NS and journal is not None:
        name = journal.name(f"gc: generation {info.get('generation', 0)}")
        journal.rows.append((SPAN, GARBAGE, threading.get_native_id(), _began[0], _began[0] + took, name))
