"""Who talks to whom: the axes of a mesh with what their ranks exchange, and the seat of every rank. Sizes are bytes."""

from __future__ import annotations

import msgspec


class AxisExchange(msgspec.Struct, frozen=True, kw_only=True):
    """One axis. `groups` are its groups of ranks; `op` what they do; `holds` what state its ranks share or divide.

    `bytes_per_step` sums the sizes (nccl-tests' convention) of one group's collectives in a step, None where the model is
    not known. `hidden`: whether compute hides it for the most part, None where nobody can say. `links`: what its bytes cross:
    NVLink, PCIe, same rail, across rails, across sockets; empty where the machine is not known.
    """

    axis: str | None
    size: int
    groups: tuple[tuple[int, ...], ...]
    op: str
    holds: str
    when: str
    bytes_per_step: int | None = None
    hidden: bool | None = None
    links: tuple[str, ...] = ()


class Seat(msgspec.Struct, frozen=True):
    """One rank: its coordinate on each axis, and where it sits, None where that is not known."""

    rank: int
    coordinates: dict[str, int]
    node: str | None = None
    gpu: int | None = None
    nic: str | None = None
    rail: int | None = None


class MeshView(msgspec.Struct, frozen=True, kw_only=True):
    """A whole mesh. `origin` is plan, trace, live or simulated; `replicas` are sets of ranks that hold identical state."""

    title: str
    origin: str
    axes: tuple[AxisExchange, ...]
    seats: tuple[Seat, ...]
    replicas: tuple[tuple[int, ...], ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
