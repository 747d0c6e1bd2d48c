"""Over which links do a collective's bytes go, as a ring carries them? Derived: no trace counts bytes on links.

Of a collective of n ranks and size S (nccl-tests' size) each rank hands f(n) S on, inside its node over the links between the
GPUs; each node sends f(n) S to the next, over as many NICs as the group uses there. f is (n-1)/n for all-gather and
reduce-scatter, twice that for all-reduce, 1 for broadcast and reduce. An all-to-all sends S/n to each peer. These are NCCL's
ring and its all-to-all; a tree or NVLS moves other amounts. Not taken off: what a rank hands to its NIC instead of a neighbour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from stepscope.model.info import Group, RunInfo

_RING: Final = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}  # times (n-1)/n
_CHAIN: Final = ("broadcast", "reduce")

NO_SIZE: Final = "the collective's size was not recorded"
NO_GROUP: Final = "which ranks take part was not recorded"
NO_PLACES: Final = "where the ranks sit is not known: --hosts FILE says it"
NO_NICS: Final = "how many NICs a node uses is not known: a NIC for each rank in --hosts FILE says it"
ONE_NODE: Final = "the group lies inside one node"
ONE_EACH: Final = "the group has one rank on each node"
ALONE: Final = "the group has a single rank"


@dataclass(frozen=True, slots=True)
class Route:
    """Bytes that this rank hands on inside the node, and that one of its node's NICs sends. None: `why` of each says why."""

    inside: int | None
    between: int | None
    why_inside: str | None = None
    why_between: str | None = None


@dataclass(frozen=True, slots=True)
class _Spread:
    """How a group lies over nodes, seen from one rank: ranks, ranks on its node, NICs that these use (None: unknown)."""

    ranks: int
    here: int
    nics: int | None


@dataclass(slots=True)
class Routes:
    """Routes of one rank's collectives; how a group is spread is worked out once."""

    info: RunInfo
    rank: int
    spreads: dict[tuple[Any, ...], _Spread | str] = field(default_factory=dict)

    def of(self, op: str, size: int | None, group: str | None, expected: int | None, present: Sequence[int]) -> Route:
        """The route of one collective. `present` are the ranks it was matched on, `expected` how many it has."""
        key = (group, expected, len(present))
        if key not in self.spreads:
            self.spreads[key] = self._spread(group, expected, present)
        spread = self.spreads[key]
        if isinstance(spread, str):
            return Route(None, None, spread, spread)
        if spread.ranks == 1:
            return Route(0, 0, ALONE, ALONE)
        across = spread.here < spread.ranks
        inside, between = _shares(op, spread)
        if inside is None or between is None:
            why = f"which way the bytes of {op} go is not known"
            return Route(None, None if across else 0, why, why if across else ONE_NODE)
        if size is None:
            return Route(None, None if across else 0, NO_SIZE, NO_SIZE if across else ONE_NODE)
        within = Route(round(size * inside) if spread.here > 1 else 0, 0, None if spread.here > 1 else ONE_EACH, ONE_NODE)
        if not across:
            return within
        if spread.nics is None:
            return Route(within.inside, None, within.why_inside, NO_NICS)
        return Route(within.inside, round(size * between / spread.nics), within.why_inside)

    def group_of(self, group: str | None) -> Group | None:
        """The run's group of that name in which this rank is; without a name the only one there is."""
        named = [g for g in self.info.groups if self.rank in g.ranks]
        if group is None:
            return named[0] if len({g.ranks for g in self.info.groups}) == 1 and named else None
        return next((g for g in named if g.group == group), None)

    def _spread(self, group: str | None, expected: int | None, present: Sequence[int]) -> _Spread | str:
        known = self.group_of(group)
        world = self.info.world_size
        if known is not None:
            ranks: Sequence[int] = known.ranks
        elif expected is not None and expected == len(present):
            ranks = present
        elif expected is not None and expected == world:
            ranks = range(world)
        else:
            return NO_GROUP
        if len(ranks) == 1:
            return _Spread(1, 1, None)
        nodes = self._nodes(ranks)
        if nodes is None:
            return NO_PLACES
        mine = nodes.get(self.rank)
        here = [rank for rank, node in nodes.items() if node == mine]
        return _Spread(len(ranks), len(here), self._nics(here))

    def _nodes(self, ranks: Sequence[int]) -> dict[int, str] | None:
        """Node of each rank: its place, its host, or by the cluster's GPUs a node; None where one is not known."""
        said = {r.rank: r.place.node if r.place is not None else r.host for r in self.info.ranks}
        found = {rank: node for rank in ranks if (node := said.get(rank)) is not None}
        if len(found) == len(ranks):
            return found
        gpus = _count(self.info.cluster.get("gpus_per_node"))
        return None if gpus is None else {rank: f"node{rank // gpus}" for rank in ranks}

    def _nics(self, here: Sequence[int]) -> int | None:
        places = {r.rank: r.place.nic for r in self.info.ranks if r.place is not None}
        nics = [places.get(rank) for rank in here]
        if nics and None not in nics:
            return len(Counter(nics))
        wired = _count(self.info.cluster.get("nics_per_node"))
        return None if wired is None else min(wired, len(here))


def _shares(op: str, spread: _Spread) -> tuple[Fraction | None, Fraction | None]:
    """Of the size: what a rank hands on inside its node, and what the node sends out."""
    n, here = spread.ranks, spread.here
    if op == "all_to_all":
        return Fraction(here - 1, n), Fraction(here * (n - here), n)
    if op == "barrier":
        return Fraction(0), Fraction(0)
    factor = Fraction(_RING[op] * (n - 1), n) if op in _RING else Fraction(1) if op in _CHAIN else None
    return factor, factor


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
