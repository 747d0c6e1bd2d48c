"""How long did the loop wait for its batch? The loader's `__next__` on the training thread."""

from __future__ import annotations

import functools
import threading
from types import ModuleType
from typing import Any

from stepscope.model.segment import INPUT
from stepscope.recorder.live import LIVE, clock

NAME = "enumerate(DataLoader)#next"


def install(module: ModuleType) -> None:
    """In torch.utils.data.dataloader: the class that all its iterators come from."""
    base = module._BaseDataLoaderIter
    original = base.__next__

    @functools.wraps(original)
    def fetch(self: Any) -> Any:
        return timed(original, self)

    base.__next__ = fetch


def timed(fetch: Any, *given: Any) -> Any:
    """The batch; the time of the call is input, also where the loader is at its end."""
    journal, steps = LIVE.seen(), LIVE.steps
    if journal is None or steps is None or threading.get_ident() != LIVE.thread or steps.fetching:
        return fetch(*given)
    began = clock()
    steps.batch_begins(began)
    before = steps.communicated
    steps.fetching = True
    try:
        return fetch(*given)
    finally:
        steps.fetching = False
        journal.calls += 1
        steps.span(INPUT, began, clock(), journal.name(NAME), before)
