"""How long did backward take? `torch.autograd.backward`, which `Tensor.backward` calls, on the training thread.

Where DDP is at work, its all-reduces are issued by C++ and seen by nobody in Python. What is seen: when the last gradient was
there (a callback of the engine, queued before DDP's own) and when backward returned. In between the thread stood for them.
"""

from __future__ import annotations

import functools
import threading
from types import ModuleType
from typing import Any

from stepscope.recorder.hooks import modules, wrappers
from stepscope.recorder.live import LIVE, clock


def install(module: ModuleType) -> None:
    """In torch.autograd."""
    autograd = module.autograd
    original = autograd.backward
    engine = autograd.Variable._execution_engine

    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        journal, steps = LIVE.journal, LIVE.steps
        if journal is None or steps is None or threading.get_ident() != LIVE.thread or steps.in_backward:
            return original(tensors, *args, **kwargs)
        modules.backward_begins()
        began = clock()
        steps.backward_begins(began)
        journal.calls += 1
        reduced = wrappers.reducing()
        last: list[int] = []
        handle = _when_computed(tensors, engine, last) if reduced else None
        try:
            return original(tensors, *args, **kwargs)
        finally:
            ended = clock()
            if handle is not None:
                handle.remove()
            if last:
                wrappers.reduced(journal, steps, reduced, last[0], ended)
            steps.backward_ends(began, ended)

    autograd.backward = backward


def _when_computed(tensors: Any, engine: Any, last: list[int]) -> Any:
    """Notes when all gradients are there: the engine calls back in the order of queueing, and this one is queued first."""
    loss = tensors if hasattr(tensors, "register_hook") else next(iter(tensors), None)
    if loss is None or not loss.requires_grad:
        return None

    def begins(gradient: Any) -> None:
        engine.queue_callback(lambda: last.append(clock()))

    return loss.register_hook(begins)
