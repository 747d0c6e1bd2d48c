"""How long did the update take? Torch's own hooks around every optimizer's step."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

from stepscope.recorder.live import LIVE, clock


def install(module: ModuleType) -> None:
    """In torch.optim.optimizer."""
    module.register_optimizer_step_pre_hook(_begins)
    module.register_optimizer_step_post_hook(_ends)


_began: list[tuple[int, int]] = []


def _begins(optimizer: Any, args: Any, kwargs: Any) -> None:
    steps = LIVE.steps
    if LIVE.seen() is not None and threading.get_ident() == LIVE.thread:
        _began.append((clock(), steps.communicated if steps is not None else 0))
        if steps is not None:
            steps.optimizer_begins(f"Optimizer.step#{type(optimizer).__name__}.step")


def _ends(optimizer: Any, args: Any, kwargs: Any) -> None:
    journal, steps = LIVE.journal, LIVE.steps
    if journal is None or steps is None or not _began or threading.get_ident() != LIVE.thread:
        return
    began, before = _began.pop()
    _began.clear()
    journal.calls += 1
    name = type(optimizer).__name__
    steps.optimizer_ends(began, clock(), f"Optimizer.step#{name}.step", before)
