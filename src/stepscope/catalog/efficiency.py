"""Which part of its peak does a GPU reach, by dtype and attention kernel?

Shares of the peaks in gpus/*.toml, of kernels large enough to fill the GPU; ns for what a kernel costs however small it is. They
are hardware as far as a number can be: software choices are the stack's. A GPU that nobody calibrated gets its architecture's.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from stepscope.catalog import document
from stepscope.catalog.document import Sourced
from stepscope.catalog.gpu import Gpu

Share = Annotated[float, Meta(gt=0, le=1)]
ANY: Final = "any"


class Efficiency(Sourced, frozen=True, kw_only=True):
    """`gemm` by precision, `attention` by kernel (forward, of its causal FLOPs), `attention_backward` of that; `memory` of the
    peak bandwidth. `ramp_k`: depth of a product at which half the plateau is reached. `tile` rows and columns of one block."""

    gemm: dict[str, Share]
    attention: dict[str, Share]
    attention_backward: Share
    memory: Share
    ramp_k: Annotated[float, Meta(ge=0, le=10_000)]
    kernel_ns: Annotated[float, Meta(ge=0, le=1e6)]
    gap_ns: Annotated[float, Meta(ge=0, le=1e6)]
    tile: tuple[Annotated[int, Meta(ge=16, le=1024)], Annotated[int, Meta(ge=16, le=1024)]]


@cache
def efficiencies() -> dict[str, Efficiency]:
    """Of the catalog, by GPU name, architecture, or `any`."""
    return document.decode(document.shipped("efficiency.toml"), dict[str, Efficiency], "efficiency.toml")


def efficiency_of(gpu: Gpu) -> Efficiency:
    """The GPU's own, else its architecture's, else what is assumed of any GPU."""
    known = efficiencies()
    return known.get(gpu.name) or known.get(gpu.arch) or known[ANY]


def with_values(base: Efficiency, **changes: object) -> Efficiency:
    """The same with other values, for calibration."""
    return msgspec.structs.replace(base, **changes)
