"""Collectives that come as functions of tensors: DTensor's redistributions, a clipped norm, what torch.compile traces.

Their Work stays in C++; the wait is `wait_tensor` on the tensor that came back. While a graph is being compiled the hooks stand
aside; collectives inside a compiled graph are not seen.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Final

from stepscope.recorder.hooks import collectives
from stepscope.recorder.live import LIVE, clock

FUNCTIONS: Final = {
    "all_reduce": "all_reduce", "all_gather_tensor": "all_gather", "all_gather_single": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter", "reduce_scatter_single": "reduce_scatter", "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
}  # fmt: skip
PENDING: Final[dict[int, list[int]]] = {}  # address of the tensor's data -> its row


def install(module: Any) -> None:
    """In torch.distributed._functional_collectives."""
    for name, op in FUNCTIONS.items():
        if hasattr(module, name):
            _wrap(module, name, op)
    original = module.wait_tensor
    compiling = __import__("torch").compiler.is_compiling

    @functools.wraps(original)
    def wait_tensor(tensor: Any) -> Any:
        if compiling() or not PENDING:
            return original(tensor)
        address, journal = _address(tensor), LIVE.journal
        row = PENDING.get(address)
        if row is None or journal is None:
            return original(tensor)
        began = clock()
        try:
            return original(tensor)
        finally:
            if PENDING.pop(address, None) is row:
                collectives.waited(journal, row, began, clock(), False)

    module.wait_tensor = wait_tensor


def _wrap(module: Any, name: str, op: str) -> None:
    original = getattr(module, name)
    at = list(inspect.signature(original).parameters).index("group")
    compiling = __import__("torch").compiler.is_compiling

    @functools.wraps(original)
    def issue(*args: Any, **kwargs: Any) -> Any:
        if compiling() or LIVE.seen() is None or getattr(collectives._depth, "inside", False):
            return original(*args, **kwargs)
        collectives._depth.inside = True
        began = clock()
        try:
            result = original(*args, **kwargs)
        finally:
            collectives._depth.inside = False
        _note(module, op, (args[0] if args else None, result), kwargs.get("group", args[at] if len(args) > at else None), began)
        return result

    setattr(module, name, issue)


def _note(module: Any, op: str, tensors: tuple[Any, Any], group: Any, began: int) -> None:
    journal = LIVE.journal
    if journal is None:
        return
    try:
        found = getattr(module, "_resolve_group", None) or module._resolve_group_name
        work = object()
        collectives.issued(journal, found(group, ""), op, tensors, began, clock(), work)
        row = collectives.PENDING.pop(id(work))
        if len(PENDING) >= collectives.MOST_PENDING:
            journal.rows.extend(PENDING.values())
            PENDING.clear()
        PENDING[_address(tensors[1])] = row
    except Exception:
        journal.lost += 1


def _address(tensor: Any) -> int:
    """Of the tensor's data; that of what an asynchronous result wraps."""
    elem = getattr(tensor, "elem", tensor)
    return int(elem.data_ptr())
