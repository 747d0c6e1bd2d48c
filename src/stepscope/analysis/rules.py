"""What a host range's name says about the phase: the framework's own names, and the user's marks before them.

Source of the names: torch.profiler, torch.optim, torch.utils.data, DDP, FSDP1 and FSDP2 (torch 1.8 to 2.13).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from stepscope.model.spans import Marks
from stepscope.model.words import PHASES

NONE: Final = -1
INPUT, FORWARD, BACKWARD, SYNCHRONIZATION, OPTIMIZER, CHECKPOINT = range(len(PHASES))
OTHER: Final = len(PHASES)  # named, and none of the phases (`Optimizer.zero_grad`): its children inherit nothing

STEP: Final = re.compile(r"^ProfilerStep#(\d{1,18})$")
EVALUATE: Final = "autograd::engine::evaluate_function"
OLD_BACKWARD: Final = re.compile(r"^torch::autograd::|Backward\d*(?:\(\))?$|^(?:\w+::)*\w*Backward\d*$")
UNIT: Final = re.compile(r"^FSDP::(\w+?)(?: for ([\w.\-]+)| \(([\w.\-]*)\))?$")
BACKWARD_HOOK: Final = re.compile(
    r"^FSDP::(?:pre_backward|post_backward|root_post_backward|backward_prefetch)|^FullyShardedDataParallel\._(?:pre|post)_backward"
)
FORWARD_RANGE: Final = re.compile(
    r"^DistributedDataParallel\.forward|^FullyShardedDataParallel\.(?:forward|_pre_forward|_post_forward)"
    r"|^FSDP::(?:root_)?(?:pre|post)_forward|^## ?forward ?##$"
)
LOADER: Final = re.compile(
    r"^enumerate\(DataLoader\)#"
    r"|^## ?(?:data|data_?load(?:er|ing)?|(?:load|get|next|fetch)_?batch|wait_for_batch|copy_batch_to_gpu) ?##$"
)
SAVE: Final = re.compile(r"torch/serialization\.py\(\d+\): save$|checkpoint/state_dict_saver\.py\(\d+\): (?:async_)?save$")

_BY_NAME: Final = (
    (LOADER, INPUT, ("annotation", "op")),
    (re.compile(r"^Optimizer\.step#|^## ?optimizer(?:_step)? ?##$"), OPTIMIZER, ("annotation", "op")),
    (re.compile(r"^Optimizer\.zero_grad#"), OTHER, ("annotation", "op")),
    (BACKWARD_HOOK, BACKWARD, ("annotation", "op")),
    (re.compile(rf"^{EVALUATE}|^## ?backward ?##$"), BACKWARD, ("annotation", "op")),
    (FORWARD_RANGE, FORWARD, ("annotation", "op")),
    (re.compile(r"^nn\.Module: "), FORWARD, ("python",)),
    (SAVE, CHECKPOINT, ("python",)),
)

Codes = np.ndarray[tuple[int], np.dtype[np.int64]]


def phase_by_name(names: Sequence[str], kinds: Sequence[str], marks: Marks) -> list[int]:
    """Phase code of each (name, kind) pair; NONE where the name says nothing. Marks come first, the last one given wins."""
    own = [(re.compile(pattern), PHASES.index(phase)) for pattern, phase in reversed(list(marks))]
    return [_one(name, kind, own) for name, kind in zip(names, kinds, strict=True)]


def _one(name: str, kind: str, marks: list[tuple[re.Pattern[str], int]]) -> int:
    for pattern, code in marks:
        if pattern.search(name):
            return code
    return next((code for pattern, code, of in _BY_NAME if kind in of and pattern.search(name)), NONE)


def unit_of(name: str) -> tuple[str, str] | None:
    """(hook, unit) of an FSDP2 range: `FSDP::pre_forward (layers.0)` is (`pre_forward`, `layers.0`); the root has no name."""
    match = UNIT.match(name)
    return (match.group(1), match.group(2) or match.group(3) or "root") if match else None
