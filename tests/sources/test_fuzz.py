"""Random damage to a small trace: a figure or one clear line, never another exception, and undamaged events stay.

A sample runs always; `pytest tests/sources/test_fuzz.py --campaign 10000` runs the long one.
"""

from __future__ import annotations

import json
import random
import resource
from pathlib import Path

import pytest

from stepscope.analysis.attribution import attribute
from stepscope.analysis.breakdown import breakdown
from stepscope.model.errors import StepscopeError
from stepscope.sources.kineto.document import TraceDocument
from stepscope.sources.kineto.rank import read_trace
from tests.analysis.build import run_of
from tests.sources.make import gpu_trace, write

TOKENS = (b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"NaN", b"1e999", b"null", b"-", b"\n", b"\x00", b"\xff", b"9" * 30)
MEMORY_GROWTH_KB = 200_000


def layouts() -> list[bytes]:
    """The same trace as writers lay it out: compact, spaced, indented, as a list."""
    document = gpu_trace(0, 1, 3)
    return [
        json.dumps(document).encode(),
        json.dumps(document, indent=2).encode(),
        json.dumps(document["traceEvents"], separators=(",", ":")).encode(),
    ]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One random damage anywhere: bytes changed, lost, doubled, inserted, or the end cut off."""
    at, length = rng.randrange(len(data)), rng.choice([1, 1, 1, 2, 8, 40])
    noise = bytes(rng.randrange(256) for _ in range(length))
    return rng.choice(
        [
            data[:at] + noise + data[at + length :],
            data[:at] + data[at + length :],
            data[:at] + noise + data[at:],
            data[:at] + data[at : at + length] + data[at:],
            data[:at] + rng.choice(TOKENS) + data[at:],
            data[:at] + rng.choice(TOKENS) + data[at + 1 :],
            data[:at] if rng.random() < 0.2 else data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :],
        ]
    )


def explain(path: Path) -> None:
    """Reads, attributes and breaks down one file in memory; the sums must hold."""
    for trace in read_trace(path, 0, {}):
        tables = trace.tables
        done = attribute(tables)
        tables.attribution, tables.collectives, tables.info.steps = done.attribution, done.collectives, done.steps
        tables.info.rank = max(0, tables.info.rank)
        for step in breakdown(run_of(tables), {}).steps:
            assert sum(step.parts_ns.values()) == step.duration_ns
            assert min(step.parts_ns.values()) >= 0


def test_random_damage_never_ends_in_another_exception(tmp_path: Path, campaign: int) -> None:
    rng = random.Random(20)
    texts = layouts()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(max(300, campaign)):
        path = write(tmp_path / "rank0.json", mutate(rng.choice(texts), rng))
        try:
            explain(path)
        except StepscopeError as error:
            assert "\n" not in str(error)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY_GROWTH_KB


def test_damage_inside_one_event_leaves_all_others_readable(tmp_path: Path, campaign: int) -> None:
    rng = random.Random(21)
    document = gpu_trace(0, 1, 3)
    events = document["traceEvents"]
    kept = total = 0
    for _ in range(max(400, campaign)):
        indent = rng.choice([None, 2])
        texts = [json.dumps(e, indent=indent).encode() for e in events]
        hurt = rng.randrange(len(texts))
        texts[hurt] = mutate(texts[hurt], rng)
        path = write(tmp_path / "rank0.json", b'{"traceEvents": [' + b",\n".join(texts) + b'], "end": 1}')
        names = [getattr(e, "name", "") for batch in TraceDocument(path) for e in batch.events]
        others = [e["name"] for i, e in enumerate(events) if i != hurt]
        total += 1
        kept += _holds(names, others)
    assert kept >= 0.95 * total, f"{kept} of {total}"


def _holds(names: list[object], others: list[str]) -> bool:
    """Whether all the others are there, in order, with at most a few pieces of the hurt one between them."""
    rest = iter(names)
    return all(any(name == other for name in rest) for other in others) and len(names) <= len(others) + 2


@pytest.mark.parametrize("tail", [b"[" * 1_000_000, b'{"a":' * 200_000, b'"' + b"x" * 1_000_000])
def test_nesting_and_endless_strings_are_survived(tmp_path: Path, tail: bytes) -> None:
    data = layouts()[0]
    cut = data.index(b'"gemm"')
    path = write(tmp_path / "rank0.json", data[:cut] + tail)
    names = [getattr(e, "name", "") for batch in TraceDocument(path) for e in batch.events]
    assert len(names) == 8
