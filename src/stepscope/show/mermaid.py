"""The life of a step as a Mermaid sequence diagram: an arrow per hop with its bytes and time, exposed ones on a red ground.

A dashed arrow is a hop of which the run says nothing. Names of strangers are escaped; nothing in them can be syntax.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepscope.model.hops import Hop, Hops
from stepscope.show import safe, units
from stepscope.show.hops import SIMULATED, sentence

PARTICIPANTS: Final = ("Storage", "Loop", "Framework", "NCCL", "NVLink", "Transport", "Fabric", "Peers", "Kernels", "GPU")
EXPOSED: Final = "rect rgb(255, 221, 221)"
_CALLED: Final = {name.lower(): name for name in PARTICIPANTS} | {"gpu/hbm": "GPU"}


def sequence(found: Hops) -> str:
    """The diagram as text that ends with a newline."""
    return "".join(f"{line}\n" for line in _lines(found))


def _lines(found: Hops) -> Iterator[str]:
    yield "sequenceDiagram"
    yield from (f"    participant {name}" for name in PARTICIPANTS)
    said = f"{SIMULATED} {sentence(found)}" if found.origin == "simulated" else sentence(found)
    yield f"    Note over {PARTICIPANTS[0]},{PARTICIPANTS[-1]}: {safe.mermaid(said)}"
    for hop in found.hops:
        arrow = f"{_called(hop.way.source)}{'-->>' if hop.known == 'unknown' else '->>'}{_called(hop.way.target)}"
        line = f"    {arrow}: {safe.mermaid(said_of(hop))}"
        yield from (f"    {EXPOSED}", f"    {line}", "    end") if hop.exposed_ns else (line,)


def said_of(hop: Hop) -> str:
    """`3 all-gather (forward), 755 KiB in 7.45 ms, EXPOSED 7.45 ms`."""
    pass_ = f" ({hop.pass_})" if hop.n in range(3, 8) and hop.pass_ is not None else ""
    words = [f"{hop.n} {hop.what}{pass_}"]
    if hop.known == "unknown":
        words.append(hop.why if hop.why is not None and hop.n == 19 else "not known")
    elif hop.count == 0 and not hop.exposed_ns:
        words.append("nothing")
    size = units.size(hop.bytes) if hop.bytes else ""
    time = units.duration(hop.busy_ns) if hop.busy_ns is not None else ""
    if size or time:
        words.append(" in ".join(word for word in (size, time) if word))
    if hop.exposed_ns:
        words.append(f"EXPOSED {units.duration(hop.exposed_ns)}")
    return ", ".join(words)


def _called(word: str) -> str:
    return _CALLED[word.lower()]
