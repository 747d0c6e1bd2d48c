"""How long did a save hold the loop? `torch.save`, and `save` and `async_save` of torch.distributed.checkpoint.

An asynchronous save holds the loop until its state is copied; what it writes after that, on other threads, is not counted.
"""

from __future__ import annotations

import functools
import sys
import threading
from types import ModuleType
from typing import Any

from stepscope.model.segment import CHECKPOINT
from stepscope.recorder.live import LIVE, clock

NAME = "checkpoint: "  # what a reader takes for a save
_inside: list[str] = []


def install_serialization(module: ModuleType) -> None:
    """In torch.serialization, and in torch where it is there already."""
    _wrap(module, "save", "torch.save", sys.modules.get("torch"))


def install_distributed(module: ModuleType) -> None:
    """In torch.distributed.checkpoint.state_dict_saver."""
    package = sys.modules.get("torch.distributed.checkpoint")
    _wrap(module, "save", "dcp.save", package)
    _wrap(module, "async_save", "dcp.async_save", package)


def _wrap(module: ModuleType, name: str, said: str, also: ModuleType | None) -> None:
    original = getattr(module, name)

    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        journal, steps = LIVE.journal, LIVE.steps
        if journal is None or steps is None or threading.get_ident() != LIVE.thread or _inside:
            return original(*args, **kwargs)
        began, before = clock(), steps.communicated
        _inside.append(said)
        try:
            return original(*args, **kwargs)
        finally:
            _inside.clear()
            journal.calls += 1
            steps.span(CHECKPOINT, began, clock(), journal.name(NAME + said), before)
            journal.flush()

    setattr(module, name, save)
    if also is not None and getattr(also, name, None) is original:
        setattr(also, name, save)
