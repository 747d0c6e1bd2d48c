"""The places that a hosts file gives to the ranks of a job, once it is known how many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stepscope.model.errors import BadInput
from stepscope.model.info import Gap, RankInfo
from stepscope.model.place import Place
from stepscope.sources.hostlist import MAX_RANKS, WrongList


@dataclass(frozen=True, slots=True)
class Placement:
    """`given` places by rank; or `nodes` in order with the ranks of each, None where the file does not say how many.

    `round_robin`: ranks are dealt out one node after the other, as `srun -m cyclic` does, instead of filling them.
    """

    given: Mapping[int, Place] = field(default_factory=dict)
    nodes: tuple[tuple[str, int | None], ...] = ()
    round_robin: bool = False

    @classmethod
    def in_order(cls, slots: Iterable[tuple[str, int]], counted: bool, round_robin: bool = False) -> Placement:
        """Nodes that are filled in order; without `counted` the numbers mean nothing. Raises WrongList for too many."""
        nodes = [(node, count) for node, count in slots if count or not counted]
        if not nodes:
            raise WrongList("gives no node a rank; check the numbers of slots")
        if sum(count for _, count in nodes) > MAX_RANKS:
            raise WrongList(f"stands for more than {MAX_RANKS:,} ranks; check the numbers of slots")
        return cls(nodes=tuple((node, count if counted else None) for node, count in nodes), round_robin=round_robin)

    def places(self, world: int) -> Mapping[int, Place]:
        """The place of each rank of a job of `world` ranks, as far as there is one. Raises BadInput for ranks left over."""
        if self.given:
            return self.given
        if world > MAX_RANKS:
            raise BadInput(
                f"--hosts: a world of {world} ranks is more than the {MAX_RANKS:,} that can be placed; check the traces"
            )
        counts = [count or 0 for _, count in self.nodes]
        # One task a node is a launcher (torchrun) that starts the ranks itself, as many on each.
        if None in (count for _, count in self.nodes) or (set(counts) == {1} and world > len(counts)):
            each, left = divmod(world, len(self.nodes))
            if left:
                raise BadInput(
                    f"--hosts: {world} ranks do not divide over {len(self.nodes)} nodes; give `rank node` or `node slots=N` lines"
                )
            counts = [each] * len(self.nodes)
        return dict(enumerate(self._dealt(counts))) if self.round_robin else dict(enumerate(self._filled(counts)))

    def _filled(self, counts: list[int]) -> Iterable[Place]:
        for (node, _), count in zip(self.nodes, counts, strict=True):
            yield from (Place(node, gpu) for gpu in range(count))

    def _dealt(self, counts: list[int]) -> Iterable[Place]:
        for gpu in range(max(counts, default=0)):
            yield from (Place(node, gpu) for (node, _), count in zip(self.nodes, counts, strict=True) if gpu < count)


def settle(ranks: list[RankInfo], placement: Placement | None, world: int | None) -> list[Gap]:
    """Gives each rank its place and host; says what stays open. Raises BadInput where the file cannot be of this job."""
    if placement is None or not ranks:
        return []
    places = placement.places(max(world or 0, max(r.rank for r in ranks) + 1))
    found = {r.rank: places[r.rank] for r in ranks if r.rank in places}
    if not found:
        raise BadInput(
            f"--hosts: names {len(places)} ranks but none of this run, rank {ranks[0].rank} for one; give the file of this job"
        )
    gaps = [*_shared(found), *_contradictions(ranks, found)]
    neighbours = _neighbours(ranks, found)
    for info in ranks:
        if info.rank in found:
            info.place = found[info.rank]
            info.host = info.place.node
        elif info.host in neighbours:
            info.place = Place(neighbours[info.host])
            info.host = info.place.node
    if lost := tuple(r.rank for r in ranks if r.rank not in found):
        gaps.append(
            Gap(
                "place unknown",
                lost,
                "--hosts does not name them; those that share a trace host with a named rank are on its node",
            )
        )
    if not placement.given:
        why = "--hosts lists nodes, and ranks are taken to fill them in that order, GPUs by local rank; else give `rank node gpu`"
        gaps.append(Gap("place by order", tuple(found), why))
    return gaps


def _neighbours(ranks: list[RankInfo], found: Mapping[int, Place]) -> dict[str | None, str]:
    """Hosts of the traces whose named ranks are all on one node: ranks that the file leaves out share its clock."""
    nodes: dict[str | None, set[str]] = {}
    for info in ranks:
        if info.host and info.rank in found:
            nodes.setdefault(info.host, set()).add(found[info.rank].node)
    return {host: next(iter(named)) for host, named in nodes.items() if len(named) == 1}


def _shared(found: Mapping[int, Place]) -> list[Gap]:
    """A GPU that several ranks are said to have."""
    users = Counter((p.node, p.gpu) for p in found.values())
    twice = [r for r, p in found.items() if p.gpu is not None and users[p.node, p.gpu] > 1]
    return [Gap("GPU shared by ranks", tuple(twice), "--hosts gives several ranks the same GPU of a node")] if twice else []


def _contradictions(ranks: list[RankInfo], found: Mapping[int, Place]) -> list[Gap]:
    """Ranks of one host by their traces, which the file puts on several nodes."""
    nodes: dict[str, set[str]] = {}
    for info in ranks:
        if info.host and info.rank in found:
            nodes.setdefault(info.host, set()).add(found[info.rank].node)
    split = {host for host, several in nodes.items() if len(several) > 1 and not host.startswith("localhost")}
    odd = tuple(info.rank for info in ranks if info.host in split and info.rank in found)
    return [Gap("hosts contradict the traces", odd, "their traces name one host, --hosts several; --hosts counts")] if odd else []
