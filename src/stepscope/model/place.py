"""Where does a rank run? Its node, its GPU there and its NIC, and the name that screens give it."""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, frozen=True):
    """`node`; `gpu` is its number on that node and `nic` its name (`nic3`, `mlx5_0`), both None where they are not known."""

    node: str
    gpu: int | None = None
    nic: str | None = None


def place_name(rank: int, place: Place | None) -> str:
    """`node1/gpu3`; `rank 11 on node1` where the GPU is not known; `rank 11` where nothing is."""
    if place is None:
        return f"rank {rank}"
    return f"rank {rank} on {place.node}" if place.gpu is None else f"{place.node}/gpu{place.gpu}"
