"""Which ranks share which state? The axes of a plan over its ranks, and the groups that each axis makes.

Orders, from the slowest axis to the fastest, rank = ((a * B + b) * C + c) ...:
torchtitan: pp, replicate, fsdp, cp, tp (pytorch/torchtitan parallel_dims.py @ b5bcd76c). Megatron-LM: pp, data, cp, tp, its
"tp-cp-ep-dp-pp" read from the right (megatron/core/parallel_state.py); with --use-tp-pp-dp-mapping data, pp, cp, tp.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, Literal

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepscope.model.plan import Plan


Order = Literal["torchtitan", "megatron", "megatron-tp-pp-dp"]
ORDERS: Final[tuple[Order, ...]] = ("torchtitan", "megatron", "megatron-tp-pp-dp")


class Axis(msgspec.Struct, frozen=True):
    """One axis: its name (`fsdp`, `replicate`, `ddp`, `zero1`, `tp`, `cp`, `pp`), ranks along it, and how far apart they are."""

    name: str
    size: int
    stride: int


class Mesh(msgspec.Struct, frozen=True):
    """Axes from the slowest to the fastest; their sizes multiply to the world."""

    axes: tuple[Axis, ...]

    @property
    def world_size(self) -> int:
        """All ranks."""
        return prod(axis.size for axis in self.axes)

    def axis(self, name: str) -> Axis:
        """The axis of that name; KeyError where the mesh has none."""
        for axis in self.axes:
            if axis.name == name:
                return axis
        raise KeyError(name)

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where a rank is on each axis."""
        return {axis.name: rank // axis.stride % axis.size for axis in self.axes}

    def rank(self, coordinates: dict[str, int]) -> int:
        """The rank at those coordinates; absent axes count as 0."""
        return sum(coordinates.get(axis.name, 0) * axis.stride for axis in self.axes)

    def groups(self, name: str) -> NDArray[np.int64]:
        """Ranks of every group along an axis, int64 [groups, size]; they partition the world."""
        import numpy as np

        axis = self.axis(name)
        block = axis.size * axis.stride
        first = np.arange(0, self.world_size, block)[:, None] + np.arange(axis.stride)
        found: NDArray[np.int64] = first.reshape(-1, 1) + np.arange(axis.size) * axis.stride
        return found


def mesh_of(plan: Plan, order: Order = "torchtitan") -> Mesh:
    """The mesh that a plan lays over its ranks; axes of one rank are left out, but for the data axis."""
    data: list[tuple[str, int]] = [(plan.strategy, plan.data_ranks)] if plan.strategy in ("ddp", "zero1") else []
    if not data:
        data = [("replicate", plan.replicate), ("fsdp", plan.shard)]
    stages = [("pp", plan.pp)]
    outer = [*data, *stages] if order == "megatron-tp-pp-dp" else [*stages, *data]
    sizes = [*outer, ("cp", plan.cp), ("tp", plan.tp)]
    kept = [(name, size) for name, size in sizes if size > 1 or name == data[-1][0]]
    strides = [prod(size for _, size in kept[i + 1 :]) for i in range(len(kept))]
    return Mesh(tuple(Axis(name, size, stride) for (name, size), stride in zip(kept, strides, strict=True)))


def expert_axes(plan: Plan) -> tuple[Axis, ...]:
    """How the experts lie over the same ranks: `ep` neighbours hold different experts, and `efsdp` ranks shard each of them
    (torchtitan: dp_shard x cp x tp / ep); () without experts."""
    inside = plan.shard * plan.cp * plan.tp
    return () if plan.ep == 1 else (Axis("efsdp", inside // plan.ep, plan.ep), Axis("ep", plan.ep, 1))
