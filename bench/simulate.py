"""How long does the engine take for one step, as ranks and units grow?

    python bench/simulate.py [--runs N] [--format text|json]

Engine alone, one core, at the granularity of units, FSDP, with noise. Each size runs in a process of its own, so that the peak is
its own; `seconds` is the median of N steps. The peer is the bare recurrence of the same size: for each unit and pass one maximum
and two additions on a vector over ranks, numpy, nothing else; `ratio_to_peer` is the engine's seconds over the peer's. `store`
cases are apart: a run of 16 ranks x 4 steps with every kernel, and of 1,024 ranks x 1 step by unit, written to disk.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

from case import KIB, Case

SIZES: Final = ((16, 32), (64, 32), (256, 80), (1024, 80), (4096, 126), (16384, 126))
AIMS: Final = {(16, 32): (0.003, None), (1024, 80): (0.05, None), (16384, 126): (0.5, 1e9)}
STORES: Final = (("store 16 x 32, kernels, 4 steps", 16, 4, False), ("store 1024 x 32, units, 1 step", 1024, 1, True))


def job(ranks: int, layers: int):  # a Job; imported late so that the parent stays small
    """FSDP of so many layers like Llama 3 8B's over so many H100."""
    import msgspec

    from stepscope.catalog.model import load_model
    from stepscope.catalog.stack import load_stack
    from stepscope.catalog.system import load_system
    from stepscope.model.plan import parse_plan
    from stepscope.model.workload import Workload
    from stepscope.simulator.job import job_on

    shape = load_model("llama3-8b").shape
    assert shape is not None
    shape = msgspec.structs.replace(shape, layers=layers)
    workload = Workload(model="bench", shape=shape, plan=parse_plan(f"fsdp={ranks},seq=2048"))
    return job_on(load_system("hgx-h100"), workload, load_stack())


def engine(ranks: int, layers: int, runs: int) -> tuple[float, float]:
    """Median wall and CPU seconds of one step."""
    from stepscope.simulator.noise import Noise
    from stepscope.simulator.simulation import Simulation

    one = job(ranks, layers)
    steps = Simulation(lambda _: one, noise=Noise()).steps(runs + 1, warm_up=1)
    next(steps)
    return timed(lambda: next(steps), runs)


def bare(ranks: int, layers: int, runs: int) -> tuple[float, float]:
    """The same of the bare recurrences: gather, compute and, in backward, scatter, as vectors over ranks."""
    import numpy as np

    compute, moving = np.zeros(ranks), np.zeros(ranks)

    def step() -> None:
        for _ in range(2 * layers):
            np.maximum(compute, moving, out=compute)
            np.add(compute, 1.0, out=compute)
            np.add(moving, 1.0, out=moving)

    return timed(step, runs)


def store(ranks: int, steps: int, units: bool) -> tuple[float, float]:
    """Wall and CPU seconds to write a simulated job as a Run."""
    from stepscope.analysis.attribution import RULES
    from stepscope.simulator.simulation import Simulation
    from stepscope.simulator.spans.run import write_run

    one = job(ranks, 32)
    ran = list(Simulation(lambda _: one).steps(steps))
    with tempfile.TemporaryDirectory() as folder:
        return timed(lambda: write_run(Path(folder), ran, nominal=one, rules=RULES, whole_units=units), 1)


def timed(call, runs: int) -> tuple[float, float]:
    """Median wall and CPU seconds of `runs` calls."""
    taken = []
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        taken.append((time.perf_counter() - wall, time.process_time() - cpu))
    return statistics.median(t[0] for t in taken), statistics.median(t[1] for t in taken)


def apart(*words: object) -> tuple[float, float, int]:
    """One case in a process of its own: wall and CPU seconds of its call, peak resident bytes of the process."""
    process = subprocess.Popen([sys.executable, __file__, "--one", *map(str, words)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    answer = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), list(map(str, words)))
    wall, cpu = json.loads(answer)
    return wall, cpu, usage.ru_maxrss * KIB


def measure(runs: int) -> list[Case]:
    """Every size with its peer, then the stores."""
    cases = []
    for ranks, layers in SIZES:
        peer = apart("bare", ranks, layers, runs)
        wall, cpu, peak = apart("engine", ranks, layers, runs)
        cases.append(Case(f"{ranks} ranks x {layers} units", wall, cpu, peak, wall / peer[0]))
    for name, ranks, steps, units in STORES:
        wall, cpu, peak = apart("store", ranks, steps, int(units))
        cases.append(Case(name, wall, cpu, peak))
    return cases


def main() -> int:
    """Print the table, or `cases` as JSON."""
    parser = argparse.ArgumentParser(description="How long the engine takes for one step.")
    parser.add_argument("--runs", type=int, default=9, metavar="N")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        what, *numbers = options.one
        first, second, third = map(int, numbers)
        call = {"engine": engine, "bare": bare}.get(what)
        print(json.dumps(call(first, second, third) if call else store(first, second, bool(third))))
        return 0
    cases = measure(options.runs)
    if options.format == "json":
        print(json.dumps({"schema": "bench.simulate/1", "runs": options.runs, "cases": [asdict(c) for c in cases]}, indent=2))
        return 0
    aims = {f"{ranks} ranks x {layers} units": aim for (ranks, layers), aim in AIMS.items()}
    print(f"{'case':34}  {'ms a step':>9}  {'CPU ms':>9}  {'peak MiB':>8}  {'x bare':>6}  aim")
    for case in cases:
        aim = aims.get(case.name)
        words = "" if aim is None else f"{aim[0] * 1e3:g} ms" + ("" if aim[1] is None else f", {aim[1] / 1e9:g} GB")
        ratio = "" if case.ratio_to_peer is None else f"{case.ratio_to_peer:6.1f}"
        row = f"{case.name:34}  {case.seconds * 1e3:9.2f}  {case.cpu_s * 1e3:9.2f}"
        print(f"{row}  {case.peak_rss_bytes / 2**20:8.0f}  {ratio:>6}  {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
