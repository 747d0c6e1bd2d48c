"""Tokens a second, and the share of the peak that they make, from what a run says of its batch, its model and its GPU."""

from __future__ import annotations

from typing import Final

import msgspec

from stepscope.analysis.normalize import TOKENS, recorded
from stepscope.model.flops import CONVENTIONS, FlopsPerToken
from stepscope.model.run import Run
from stepscope.model.throughput import Throughput

NONPAD: Final = "nonpad_tokens_per_step"
LOSS: Final = "loss_tokens_per_step"
FLOPS: Final = "flops_per_token"


def throughput(run: Run, step_ns: float, tokens: int | None = None) -> Throughput:
    """Of a run whose mean step takes `step_ns`. `tokens` a step win over the run's own number."""
    ranks = run.info.world_size or len(run.info.ranks)
    slots = tokens or recorded(run, TOKENS)
    flops = _flops(run)
    per_gpu = None if slots is None or not step_ns else slots / step_ns * 1e9 / ranks
    mfu: dict[str, float] = {}
    hfu: dict[str, float] = {}
    if flops is not None and flops.peak and per_gpu is not None:
        mfu = {c: per_gpu * flops.model_flops(c) / flops.peak for c in CONVENTIONS}
        hfu = {c: per_gpu * flops.hardware_flops(c) / flops.peak for c in CONVENTIONS}
    return Throughput(
        ranks=ranks, step_ns=step_ns, slots=slots, nonpad=recorded(run, NONPAD), loss=recorded(run, LOSS), mfu=mfu, hfu=hfu
    )


def _flops(run: Run) -> FlopsPerToken | None:
    """What the run says of its model; None where it says nothing that makes sense."""
    said = run.info.workload.get(FLOPS)
    try:
        found = msgspec.convert(said, FlopsPerToken)
    except msgspec.ValidationError:
        return None
    sound = (
        min(found.products, found.attention, found.parameters, found.tables, found.token_table) >= 0 and 0 <= found.repeated <= 3
    )
    return found if sound and (found.peak is None or found.peak > 0) else None
