"""What do counters beside the work show: boards by name, power, heat, NICs, hosts? Figures of telemetry.toml.

Watts, degrees Celsius, MHz, bytes; shares are of 1. Most are assumed: they make a believable screen, not a prediction.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated

from msgspec import Meta

from stepscope.catalog import document
from stepscope.catalog.bounds import Bytes, Count, Rate, Text
from stepscope.catalog.document import Sourced
from stepscope.catalog.gpu import Gpu

Share = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0, le=1e12)]


class Board(Sourced, frozen=True, kw_only=True):
    """A GPU as its tools name it: `product` of nvidia-smi, the clock of its memory, what it draws when idle."""

    product: Text
    memory_mhz: Rate
    idle_w: Rate


class PowerModel(Sourced, frozen=True, kw_only=True):
    """Shares of the way from idle to the cap: kernels at full clock, and waiting; dynamic power goes with clock**exponent."""

    busy_share: Share
    spin_share: Share
    clock_exponent: Positive


class Heat(Sourced, frozen=True, kw_only=True):
    """Air at the inlet, what the cap's power adds, memory above the core, where a board slows down, noise of readings."""

    inlet_c: Positive
    rise_c_per_cap: Positive
    memory_above_c: Positive
    slowdown_c: Positive
    reading_c: Positive
    reading_w: Positive


class NicCounters(Sourced, frozen=True, kw_only=True):
    """Headers by payload, ticks of PortXmitWait a second, bytes a second of an idle port."""

    header_share: Share
    wait_ticks_per_s: Positive
    idle_rate: Positive


class Congestion(Sourced, frozen=True, kw_only=True):
    """A port busier than this waits for credits so large a share of the time."""

    busy_enough: Share
    wait_share: Share


class HostLoad(Sourced, frozen=True, kw_only=True):
    """Cores and memory of a node; the memory in use; cores that a rank and a node's daemons keep busy; the share of cores below
    which nothing queues; bytes a second over the front end."""

    cores: Count
    memory_bytes: Bytes
    used_share: Share
    loop_cores: Positive
    system_cores: Positive
    psi_free: Share
    front_end_rate: Positive


class Errors(Sourced, frozen=True, kw_only=True):
    """What counts when something is out of order: symbol and memory errors a second, memory in use and swap of a full host."""

    symbol_per_s: Positive
    memory_per_s: Positive
    memory_used: Share
    swapped_bytes_per_s: Positive


class Sampling(Sourced, frozen=True, kw_only=True):
    """How often exporters look."""

    interval_s: Positive


class Telemetry(Sourced, frozen=True, kw_only=True):
    """All of telemetry.toml."""

    boards: dict[str, Board]
    power: PowerModel
    heat: Heat
    nic: NicCounters
    congestion: Congestion
    host: HostLoad
    errors: Errors
    sampling: Sampling


@cache
def telemetry() -> Telemetry:
    """The figures that ship with the catalog."""
    return document.decode(document.shipped("telemetry.toml"), Telemetry, "telemetry.toml")


def board_of(gpu: Gpu) -> Board:
    """The GPU's board; of one that the catalog does not know its title, half its boost clock and a tenth of its cap."""
    known = telemetry().boards.get(gpu.name)
    if known is not None:
        return known
    cap = 500.0 if gpu.power is None else gpu.power.cap_w
    return Board(product=gpu.title, memory_mhz=gpu.clock.boost_mhz / 2, idle_w=cap / 10, source="assumed: as of its kind")
