"""How many tokens does a job get through, and what share of its GPUs' peak does that make? Of one step, all ranks together."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Throughput:
    """One job. `slots` are the tokens of a step, padding included; `nonpad` without it; `loss` those that the loss counts: each
    None where it is not known. `mfu` and `hfu` by convention, empty where the model or the peak is not known.
    """

    ranks: int
    step_ns: float
    slots: int | None = None
    nonpad: int | None = None
    loss: int | None = None
    mfu: dict[str, float] = field(default_factory=dict)
    hfu: dict[str, float] = field(default_factory=dict)

    @property
    def tokens_per_s(self) -> float | None:
        """Slots a second, all ranks together."""
        return None if self.slots is None or not self.step_ns else self.slots / self.step_ns * 1e9

    @property
    def tokens_per_s_per_gpu(self) -> float | None:
        """Slots a second and rank."""
        whole = self.tokens_per_s
        return None if whole is None else whole / self.ranks

    @property
    def filled(self) -> float | None:
        """Share of the slots that hold a token."""
        return None if self.slots is None or self.nonpad is None else self.nonpad / self.slots


def weak_scaling(base: Throughput, run: Throughput) -> float | None:
    """Tokens a second and GPU of the larger job against the smaller one's; None for jobs of one size, or of unknown tokens."""
    if base.ranks == run.ranks:
        return None
    small, large = (base, run) if base.ranks < run.ranks else (run, base)
    one, many = small.tokens_per_s_per_gpu, large.tokens_per_s_per_gpu
    return None if not one or many is None else many / one
