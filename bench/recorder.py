"""What does the recorder cost? CPU time of each hook, of the end of a step, of a second of its own thread.

    python bench/recorder.py [--collectives 60] [--repeats 2000] [--format json]

Needs torch. One process, gloo with one rank: the hooks are the same with more, and nothing waits for a peer. CPU time of the
thread (CLOCK_THREAD_CPUTIME_ID), medians over `--rounds`; a hook's cost is the call with it less the call without, in turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import stepscope
from stepscope.recorder.live import LIVE


def cpu_us(call: Any, repeats: int) -> float:
    """CPU time of one call, in µs."""
    began = time.thread_time_ns()
    for _ in range(repeats):
        call()
    return (time.thread_time_ns() - began) / repeats / 1e3


def with_and_without(call: Any, repeats: int, rounds: int) -> tuple[float, float, list[float]]:
    """Medians with and without the recorder, and the differences of the rounds."""
    journal, on, off = LIVE.journal, [], []
    settings, LIVE.settings = LIVE.settings, None
    for _ in range(rounds):
        LIVE.journal = journal
        on.append(cpu_us(call, repeats))
        assert journal is not None
        journal.flush(wait=True)
        LIVE.journal = None
        off.append(cpu_us(call, repeats))
    LIVE.journal, LIVE.settings = journal, settings
    return statistics.median(on), statistics.median(off), [a - b for a, b in zip(on, off, strict=True)]


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def say(what: str, on: float, off: float, differences: list[float]) -> None:
        cost = statistics.median(differences)
        rows.append(
            {
                "what": what,
                "cost_us": cost,
                "low_us": min(differences),
                "high_us": max(differences),
                "with_us": on,
                "without_us": off,
            }
        )

    tensor = torch.ones(1024)
    dist.all_reduce(tensor)  # the first hook opens the recorder
    say("a collective that is waited for", *with_and_without(lambda: dist.all_reduce(tensor), args.repeats, args.rounds))
    wide, shard = torch.ones(1024), torch.ones(1024)
    gather = lambda: dist.all_gather_into_tensor(wide, shard)  # noqa: E731
    say("an all-gather into one tensor", *with_and_without(gather, args.repeats, args.rounds))
    asynchronous = lambda: dist.all_reduce(tensor, async_op=True).wait()  # noqa: E731
    say("a collective, asynchronous", *with_and_without(asynchronous, args.repeats, args.rounds))
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    data = torch.ones(2, 4)

    def step() -> None:
        model(data).sum().backward()
        optimizer.step()

    step()
    say("forward, backward, optimizer and the end of a step", *with_and_without(step, args.repeats // 4, args.rounds))
    journal = LIVE.journal
    assert journal is not None
    journal.flush(wait=True)
    flushes = []
    for _ in range(200):
        for _ in range(args.collectives):
            dist.all_reduce(tensor)
        began = time.thread_time_ns()
        journal.flush()
        flushes.append((time.thread_time_ns() - began) / 1e3)
        time.sleep(0.002)
    cost = statistics.median(flushes)
    rows.append(
        {
            "what": f"writing a step of {args.collectives} collectives",
            "cost_us": cost,
            "low_us": min(flushes),
            "high_us": max(flushes),
        }
    )
    rows.append(_own_thread(args.seconds))
    return rows


def _own_thread(seconds: float) -> dict[str, Any]:
    """CPU time of the recorder's thread in a second in which the job does nothing."""
    watch = next(t for t in threading.enumerate() if t.name == "stepscope")
    before, began = watch.cpu_ns, time.monotonic()  # type: ignore[attr-defined]
    time.sleep(seconds)
    cost = (watch.cpu_ns - before) / 1e3 / (time.monotonic() - began)  # type: ignore[attr-defined]
    return {"what": "the recorder's own thread, a second", "cost_us": cost, "low_us": cost, "high_us": cost}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collectives", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    with tempfile.TemporaryDirectory() as folder, stepscope.record(Path(folder) / "cost.run"):
        rows = measure(args)
        written = LIVE.journal.segment.written if LIVE.journal else 0
    if args.format == "json":
        print(json.dumps({"bench": "recorder", "torch": torch.__version__, "written_bytes": written, "rows": rows}, indent=1))
        return
    print(f"{'what':52} {'CPU us':>8} {'low':>8} {'high':>8}")
    for row in rows:
        print(f"{row['what']:52} {row['cost_us']:8.1f} {row['low_us']:8.1f} {row['high_us']:8.1f}")


if __name__ == "__main__":
    main()
