"""How much do equal operations differ from one time to the next? Factors around 1 from a seed: same seed, same factors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.simulator.work import Code

Array = NDArray[np.float64]
Draws = NDArray[np.float32] | Array


@dataclass(frozen=True, slots=True)
class Noise:
    """Relative spreads (one standard deviation). Defaults are assumed: kernels of one GPU repeat within a percent, transfers
    within a few, a host thread and its loader within several."""

    compute: float = 0.01
    collective: float = 0.02
    host: float = 0.03
    loader: float = 0.1

    @classmethod
    def none(cls) -> Noise:
        """Everything repeats exactly."""
        return cls(0.0, 0.0, 0.0, 0.0)

    @property
    def silent(self) -> bool:
        """Whether nothing varies."""
        return not (self.compute or self.collective or self.host or self.loader)


def factors(noise: Noise, codes: list[Code], ranks: int, seed: int, step: int) -> Draws | None:
    """Factors of one step, [operations, ranks]; None without noise. Never below a half."""
    if noise.silent:
        return None
    spread = np.array([noise.compute if code.kind == 0 else noise.collective for code in codes], dtype=np.float32)
    draw = np.random.default_rng([seed, step, 1]).standard_normal((len(codes), ranks), dtype=np.float32)
    draw *= spread[:, None]
    draw += 1
    np.maximum(draw, 0.5, out=draw)
    return draw


def paces(noise: Noise, ranks: int, seed: int, step: int) -> tuple[Array | float, Array | float]:
    """What multiplies the host's issuing and the making of a batch in one step, of each rank."""
    if noise.silent:
        return 1.0, 1.0
    draw = np.random.default_rng([seed, step, 2]).standard_normal((2, ranks))
    return np.maximum(1 + noise.host * draw[0], 0.5), np.maximum(1 + noise.loader * draw[1], 0.5)
