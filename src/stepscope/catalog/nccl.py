"""What does NCCL assume of latencies and bandwidths, and how do collectives climb to the rate that its tables promise?

us and GB/s (1e9 bytes) as in NCCL's own tables. Triples are LL, LL128, Simple; columns are one node, two nodes, more. 0 stands
for what a generation does not have, as in NCCL. Not known: anything of RCCL, which is taken for NCCL on rings.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from stepscope.catalog.document import Sourced, decode, shipped

Generation = Literal["volta", "ampere", "hopper", "blackwell"]
RampClass = Literal["nvlink", "rdma", "tcpxo", "tcpx", "efa", "socket"]
Triple = tuple[float, float, float]


class BaseLatency(Sourced, frozen=True, kw_only=True):
    """us of any call, before its first hop."""

    tree: Triple
    ring: Triple
    pat: Triple


class HopLatency(Sourced, frozen=True, kw_only=True):
    """us of one hop over one kind of link."""

    tree: Triple
    ring: Triple
    nvls: float
    nvlstree: float
    collnet: float


class PostLatency(Sourced, frozen=True, kw_only=True):
    """us to post a network operation by host processor, and the factors on it and on a full ring's latency."""

    intel: float
    amd: float
    other: float
    simple_times: float
    plateau_times: float


class TreeFactor(Sourced, frozen=True, kw_only=True):
    """What of the tree's bandwidth is there at 64 * 2**i bytes."""

    ll: tuple[float, ...]
    ll128: tuple[float, ...]
    simple: tuple[float, ...]


class Rules(Sourced, frozen=True, kw_only=True):
    """Shares of the bus that protocols and patterns leave."""

    ll_share: float
    ll128_share: float
    tree_share: float
    tree_ll_divisor: float
    tree_ll128_one_node: float
    tree_ll128: float
    tree_ll128_plain: float
    pat_share: float
    pat_hop_divisor: float
    pat_rank_us: float
    collnet_share: float


class Wire(Sourced, frozen=True, kw_only=True):
    """Bytes on the wire for a byte of payload."""

    ll: float
    ll128: float
    simple: float


class Rates(Sourced, frozen=True, kw_only=True):
    """One generation: `ring_bus` and `nvls_bus` of a whole node, speeds the search tries for a NIC, caps a channel."""

    ring_bus: float
    ring_channels: int
    inter: tuple[float, ...]
    ll_max: Triple
    ll128_channel: float
    tree_ll128_channel: Triple
    tree_channel: Triple
    nvls_bus: float
    nvls_share: float
    nvls_tree_channel: Triple
    nvls_least: int


class Usable(Sourced, frozen=True, kw_only=True):
    """What of a link's rate a collective gets (shares), and what one NIC gets past the host or the root complex (GB/s).

    `all_to_all_nics` is how many NICs' worth one rank's all-to-all reaches.
    """

    scale_up: float
    host_copy: float
    no_gpudirect_gbps: float
    redirected_gbps: float
    all_to_all_nics: float


class Ramp(Sourced, frozen=True, kw_only=True):
    """t = overhead + latency + sqrt(fill * transfer) + transfer; `carries` is a NIC's share, `node_gbps` a node's cap."""

    overhead_us: float
    fill_us: float
    carries: float
    node_gbps: float | None = None


class NcclTables(Sourced, frozen=True, kw_only=True):
    """All of nccl.toml."""

    base_us: BaseLatency
    nvlink_us: HopLatency
    pci_us: HopLatency
    net_us: HopLatency
    post_us: PostLatency
    tree_factor: TreeFactor
    rules: Rules
    wire: Wire
    volta: Rates
    ampere: Rates
    hopper: Rates
    blackwell: Rates
    usable: Usable
    ramp: dict[RampClass, Ramp]

    def rates(self, generation: Generation) -> Rates:
        """The row of a GPU generation."""
        found: Rates = getattr(self, generation)
        return found


def generation_of(arch: str) -> Generation:
    """`sm_90` is hopper; an AMD GPU reads as ampere, which has neither NVLS nor anything else that rings do not need."""
    number = int(arch.removeprefix("sm_")) if arch.startswith("sm_") and arch[3:].isdigit() else 80
    return "blackwell" if number >= 100 else "hopper" if number >= 90 else "ampere" if number >= 80 else "volta"


@lru_cache(maxsize=1)
def nccl_tables() -> NcclTables:
    """The tables that ship with the catalog."""
    return decode(shipped("nccl.toml"), NcclTables, "nccl.toml")
