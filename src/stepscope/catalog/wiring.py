"""Does a system's description hold together? Every position it names must be there, and no GPU may have more links than it has.

The answer is one line that begins with the key and ends with the mend, or None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.catalog.gpu import Gpu
    from stepscope.catalog.system import System


def contradiction(system: System, gpu: Gpu) -> str | None:
    """The first thing in the description that cannot be, None where it holds together."""
    return next(_wrong(system, gpu), None)


def _wrong(system: System, gpu: Gpu) -> Iterator[str]:
    yield from _slots(system)
    yield from _scale_up(system, gpu)
    if system.fabric.spines and system.fabric.spine_gbit is None:
        yield "fabric.spine_gbit: missing, though there are spines; add what joins one leaf to one spine"
    twice = [path for path, n in Counter(s.path for s in system.storage).items() if n > 1]
    if twice:
        yield f"storage: {twice[0]} is mounted twice; give each file system a path of its own"
    for i, mount in enumerate(system.storage):
        if (mount.total_read_gbps is None) != (mount.total_write_gbps is None):
            yield f"storage[{i}]: one total rate without the other; give both, or neither for a disk in the node"


def _slots(system: System) -> Iterator[str]:
    wiring = system.wiring
    if not wiring.switches or not wiring.gpus:
        lacks = "switches" if not wiring.switches else "gpus"
        yield f"wiring.{lacks}: empty; a node needs at least one PCIe switch (or root port) and one GPU"
    for i, switch in enumerate(wiring.switches):
        if not 0 <= switch.socket < system.host.sockets:
            yield f"wiring.switches[{i}].socket: {_absent('socket', switch.socket, system.host.sockets, 'host.sockets')}"
        if not 0 <= switch.numa <= 4095:
            yield f"wiring.switches[{i}].numa: {switch.numa} is no NUMA node; give 0 or more"
    for i, slot in enumerate(wiring.gpus):
        if not 0 <= slot.pcie < len(wiring.switches):
            yield f"wiring.gpus[{i}].pcie: {_absent('PCIe switch', slot.pcie, len(wiring.switches), 'wiring.switches')}"
        for nic in slot.nics:
            if not 0 <= nic < len(wiring.nics):
                yield f"wiring.gpus[{i}].nics: {_absent('NIC', nic, len(wiring.nics), 'wiring.nics')}"
        if len(set(slot.nics)) < len(slot.nics):
            yield f"wiring.gpus[{i}].nics: a NIC is named twice; name each once"
    for i, card in enumerate(wiring.nics):
        if not 0 <= card.pcie < len(wiring.switches):
            yield f"wiring.nics[{i}].pcie: {_absent('PCIe switch', card.pcie, len(wiring.switches), 'wiring.switches')}"
        if not 0 <= card.rail < len(wiring.nics):
            yield f"wiring.nics[{i}].rail: {card.rail} is no rail; rails are numbered from 0, at most one for each NIC"
    twice = [name for name, n in Counter(card.name for card in wiring.nics).items() if n > 1]
    if twice:
        yield f"wiring.nics: two NICs are named {twice[0]}; rename one"


def _scale_up(system: System, gpu: Gpu) -> Iterator[str]:
    up, gpus = system.scale_up, len(system.wiring.gpus)
    if up.kind == "none":
        return
    if gpu.scale_up is None:
        yield f"scale_up.kind: {up.kind}, but {gpu.name} has neither NVLink nor xGMI; write none, or name another GPU"
        return
    if (up.kind == "mesh") != bool(up.bundles):
        what = "missing; list the pairs" if up.kind == "mesh" else "a switch joins every pair; remove them, or write mesh"
        yield f"scale_up.bundles: {what}"
    used: Counter[int] = Counter()
    seen = set()
    for i, (a, b, links) in enumerate(up.bundles):
        if max(a, b) >= gpus:
            yield f"scale_up.bundles[{i}]: {_absent('GPU', max(a, b), gpus, 'wiring.gpus')}"
        if a == b or frozenset((a, b)) in seen:
            yield f"scale_up.bundles[{i}]: GPUs {a} and {b} are one GPU or a pair named before; name each pair once"
        seen.add(frozenset((a, b)))
        used[a] += links
        used[b] += links
    over = next((g for g, n in used.items() if n > gpu.scale_up.links), None)
    if over is not None:
        yield f"scale_up.bundles: GPU {over} has {used[over]} links, a {gpu.name} has {gpu.scale_up.links}; take some away"


def _absent(noun: str, number: int, many: int, where: str) -> str:
    has = f"{where} has 0 to {many - 1}" if many else f"{where} has none"
    return f"{noun} {number} is not there, {has}; mend the number or add it"
