"""When does the model run? The outermost module that is called on the training thread, whatever wraps it.

No hook stands in the way of every module: the first module called is by that the outermost one. It gets hooks of its own, and
the one for all modules is gone before its children are called. It comes back once to find a loss that is a module, too.
"""

from __future__ import annotations

import threading
import weakref
from types import ModuleType
from typing import Any

from stepscope.recorder.live import LIVE, clock

MOST_ROOTS = 32  # modules that a loop calls from outside; more are not worth hooks of their own
_DDP, _FSDP1 = "DistributedDataParallel", "FullyShardedDataParallel"
_roots: weakref.WeakSet[Any] = weakref.WeakSet()
_search: Any = None
_register: Any = None
_torch: Any = None
_under_way: list[Any] = []


def install(module: ModuleType) -> None:
    """In torch: the hook that finds the outermost module."""
    global _register, _torch  # noqa: PLW0603 - hooks in torch are a fact of the process
    _torch = module
    _register = module.nn.modules.module.register_module_forward_pre_hook
    search()


def search() -> None:
    """From the next call of any module on, until one is found."""
    global _search  # noqa: PLW0603 - hooks in torch are a fact of the process
    if _search is None and _register is not None and len(_roots) < MOST_ROOTS:
        _search = _register(_found)


def _found(module: Any, args: Any) -> None:
    global _search  # noqa: PLW0603 - hooks in torch are a fact of the process
    if _under_way or (LIVE.journal is not None and threading.get_ident() != LIVE.thread) or not _torch.is_grad_enabled():
        return
    if LIVE.seen() is None or _torch.compiler.is_compiling():
        return
    if _search is not None:
        _search.remove()
        _search = None
    if module in _roots:
        return
    _roots.add(module)
    module.register_forward_pre_hook(_begins, prepend=True)
    module.register_forward_hook(_ends)
    _begins(module, args)


def _begins(module: Any, args: Any) -> None:
    journal, steps = LIVE.journal, LIVE.steps
    if journal is None or steps is None or threading.get_ident() != LIVE.thread:
        return
    _under_way.append(module)
    if len(_under_way) == 1:
        journal.calls += 1
        name = type(module).__name__
        steps.model_begins(clock(), f"{name}.forward" if name in (_DDP, _FSDP1) else "## forward ##")


def _ends(module: Any, args: Any, result: Any) -> None:
    journal, steps = LIVE.journal, LIVE.steps
    if journal is None or steps is None or threading.get_ident() != LIVE.thread or not _under_way:
        return
    while _under_way and _under_way.pop() is not module:
        pass  # a module inside that left by an exception
    if not _under_way:
        steps.model_ends(clock())
        if steps.number == 0:
            search()


def backward_begins() -> None:
    """Nothing is under way any more, and nothing is looked for: what left by an exception is forgotten."""
    global _search  # noqa: PLW0603 - hooks in torch are a fact of the process
    _under_way.clear()
    if _search is not None and _roots:
        _search.remove()
        _search = None
