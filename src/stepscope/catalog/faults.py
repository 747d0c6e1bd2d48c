"""What does a cause do beyond its one strength: how often does a pause come, what does a lost packet cost?

Numbers that are no physics of a cluster and no choice of the user's, each table with its source. `every` counts steps.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from msgspec import Meta

from stepscope.catalog.bounds import Count
from stepscope.catalog.document import Sourced, decode, shipped

Positive = Annotated[float, Meta(gt=0, le=1e6)]


class Spikes(Sourced, frozen=True, kw_only=True):
    """One step in `every`."""

    every: Count


class Congestion(Sourced, frozen=True, kw_only=True):
    """What a step finds left of the bandwidth, times the mean."""

    swing: Annotated[tuple[Positive, ...], Meta(min_length=1)]


class Retransmits(Sourced, frozen=True, kw_only=True):
    """Packets sent again for each one lost."""

    resent_packets: Count


class PowerCap(Sourced, frozen=True, kw_only=True):
    """Clock = power limit to this power, both as fractions."""

    exponent: Annotated[float, Meta(gt=0, le=1)]


class Retries(Sourced, frozen=True, kw_only=True):
    """Times a step that the allocator frees and asks again."""

    retries: Count


class SyncPoint(Sourced, frozen=True, kw_only=True):
    """Microseconds of the host for one number read from the device, the wait aside."""

    host_us: Positive


class LoopOptimizer(Sourced, frozen=True, kw_only=True):
    """As `catalog.stack.Optimizer`, of a loop over tensors."""

    bytes_per_parameter: Positive
    kernels_per_tensor: Positive


class UnfusedAttention(Sourced, frozen=True, kw_only=True):
    """As `catalog.stack.Attention`, where no fused kernel runs."""

    forward_score_bytes: Positive
    backward_score_bytes: Positive


class FaultNumbers(Sourced, frozen=True, kw_only=True):
    """All of them, by the fault they belong to."""

    cold_cache: Spikes
    gc_pause: Spikes
    recompiling: Spikes
    link_flap: Spikes
    congestion: Congestion
    retransmits: Retransmits
    power_cap: PowerCap
    allocator_thrash: Retries
    sync_point: SyncPoint
    loop_optimizer: LoopOptimizer
    unfused_attention: UnfusedAttention


@lru_cache(maxsize=1)
def fault_numbers() -> FaultNumbers:
    """The catalog's."""
    return decode(shipped("faults.toml"), FaultNumbers, "faults.toml")
