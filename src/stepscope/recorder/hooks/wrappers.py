"""Which unit is gathered or reduced? FSDP2 says it in the names of its ranges; DDP says nothing, and reduces in C++.

A DDP backward's all-reduces are one row: from when the last gradient was there to when backward returned. What of them was
hidden behind backward before that is not recorded.
"""

from __future__ import annotations

import functools
import weakref
from types import ModuleType
from typing import Any

from stepscope.model.segment import COLLECTIVE, UNKNOWN
from stepscope.recorder.hooks import collectives
from stepscope.recorder.journal import Journal
from stepscope.recorder.live import LIVE
from stepscope.recorder.steps import Steps

_reducing: list[Any] = []
_bytes: weakref.WeakKeyDictionary[Any, tuple[int, str]] = weakref.WeakKeyDictionary()


def install_ddp(module: ModuleType) -> None:
    """In torch.nn.parallel.distributed: which of its models were called with gradients to be reduced."""
    cls = module.DistributedDataParallel
    original = cls._post_forward

    @functools.wraps(original)
    def post_forward(self: Any, output: Any) -> Any:
        if LIVE.journal is not None and self.require_backward_grad_sync and self.training:
            _reducing.append(weakref.ref(self))
        return original(self, output)

    cls._post_forward = post_forward


def install_fsdp2(module: ModuleType) -> None:
    """In FSDP2's parameter groups: the range that is named next is the unit that communicates next."""
    cls = module.FSDPParamGroup
    original = cls._with_fqn

    @functools.wraps(original)
    def with_fqn(self: Any, label: str) -> Any:
        collectives.UNIT[0] = self._module_fqn or "root"
        return original(self, label)

    cls._with_fqn = with_fqn
    wait = cls.wait_for_unshard

    @functools.wraps(wait)
    def wait_for_unshard(self: Any) -> Any:
        device = LIVE.steps.device if LIVE.steps is not None and LIVE.journal is not None else None
        return wait(self) if device is None else device.standing(lambda: wait(self))

    cls.wait_for_unshard = wait_for_unshard


def reducing() -> list[Any]:
    """The DDP models whose backward begins now."""
    found = [model for ref in _reducing if (model := ref()) is not None]
    _reducing.clear()
    return found[-1:]


def reduced(journal: Journal, steps: Steps, models: list[Any], computed: int, ended: int) -> None:
    """The row of one backward's all-reduces."""
    for model in models:
        if model not in _bytes:
            trained = [p for p in model.parameters() if p.requires_grad]
            _bytes[model] = (sum(p.nbytes for p in trained), collectives.dtype_of(trained[0]) if trained else "")
        size, dtype = _bytes[model]
        group = collectives.group_of(journal, model.process_group)
        collectives.SEQUENCE[group] = sequence = collectives.SEQUENCE.get(group, -1) + 1
        steps.stood(computed, ended)
        row = (
            COLLECTIVE, journal.who.main_thread, computed, computed, computed, ended, group, sequence,
            journal.name("all_reduce"), journal.name(dtype), size, UNKNOWN, 1, 1,
        )  # fmt: skip
        journal.rows.append(row)
        journal.calls += 1
