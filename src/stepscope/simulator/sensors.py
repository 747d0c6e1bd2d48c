"""What instruments see of a machine that neither clocks nor rates of links tell: its physical state, place by place.

A fault that has such a side says so here beside what it does to the step: a narrowed cable trains at part of its rate, a lossy
one sends packets again, a paused one waits. Shares are of 1. What is not named is healthy.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PortState:
    """A NIC's port: share of the line rate it trained at; shares of packets lost and marked as congested; of its time stopped by
    pause frames; symbol errors a second; whether it is up."""

    node: int
    nic: int
    rate: float = 1.0
    lost: float = 0.0
    marked: float = 0.0
    paused: float = 0.0
    symbol_errors_per_s: float = 0.0
    up: bool = True

    def and_also(self, other: PortState) -> PortState:
        """Both at once."""
        return PortState(
            self.node,
            self.nic,
            self.rate * other.rate,
            max(self.lost, other.lost),
            max(self.marked, other.marked),
            max(self.paused, other.paused),
            self.symbol_errors_per_s + other.symbol_errors_per_s,
            self.up and other.up,
        )


@dataclass(frozen=True, slots=True)
class GpuState:
    """A GPU: share of the board's power it may draw; memory errors that were corrected, a second."""

    node: int
    gpu: int
    power_cap: float = 1.0
    memory_errors_per_s: float = 0.0

    def and_also(self, other: GpuState) -> GpuState:
        """Both at once."""
        cap = min(self.power_cap, other.power_cap)
        return GpuState(self.node, self.gpu, cap, self.memory_errors_per_s + other.memory_errors_per_s)


@dataclass(frozen=True, slots=True)
class HostState:
    """A node: share of its memory in use, bytes a second that it swaps out."""

    node: int
    memory_used: float | None = None
    swapped_bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Sensors:
    """All that is out of order; several entries of one place add up."""

    ports: tuple[PortState, ...] = ()
    gpus: tuple[GpuState, ...] = ()
    hosts: tuple[HostState, ...] = ()

    def port(self, node: int, nic: int) -> PortState:
        """The state of a port."""
        found = PortState(node, nic)
        for state in self.ports:
            if (state.node, state.nic) == (node, nic):
                found = found.and_also(state)
        return found

    def gpu(self, node: int, gpu: int) -> GpuState:
        """The state of a GPU."""
        found = GpuState(node, gpu)
        for state in self.gpus:
            if (state.node, state.gpu) == (node, gpu):
                found = found.and_also(state)
        return found

    def host(self, node: int) -> HostState:
        """The state of a node: the last that was said of it."""
        return next((state for state in reversed(self.hosts) if state.node == node), HostState(node))
