"""How long does stepscope take to start, and how much memory, beside the bare interpreter?

    python bench/startup.py [--runs N] [--format text|json]

Each case is a fresh process; figures are medians of N runs after one that warms the disk's cache. `ratio_to_peer` is
seconds over those of `python -c pass` on the same machine. Not measured: a first start with cold caches. The kernel
counts what a process was before it became python, so no peak is below this script's own, about that of the bare interpreter.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict
from typing import Final

from case import KIB, Case

PEER: Final = "python -c pass"
CASES: Final = {
    PEER: ["-c", "pass"],
    "import stepscope": ["-c", "import stepscope"],
    "stepscope --help": ["-m", "stepscope", "--help"],
    "stepscope --version": ["-m", "stepscope", "--version"],
}


def once(arguments: list[str]) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds and peak resident bytes of one process. CalledProcessError where it fails."""
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments)
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * KIB


def measure(runs: int) -> list[Case]:
    """Every case, the peer first; the cases take turns, so that a busy moment falls on all of them."""
    for arguments in CASES.values():
        once(arguments)
    taken = {name: [] for name in CASES}
    for _ in range(runs):
        for name, arguments in CASES.items():
            taken[name].append(once(arguments))
    medians = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in taken.items()}
    peer = medians[PEER][0]
    return [Case(name, wall, cpu, int(peak), wall / peer) for name, (wall, cpu, peak) in medians.items()]


def main() -> int:
    """Print the table, or `cases` as JSON."""
    parser = argparse.ArgumentParser(description="How long stepscope takes to start, beside the bare interpreter.")
    parser.add_argument("--runs", type=int, default=15, metavar="N")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be 1 or more")
    cases = measure(options.runs)
    if options.format == "json":
        print(
            json.dumps({"schema": "bench.startup/1", "runs": options.runs, "cases": [asdict(case) for case in cases]}, indent=2)
        )
        return 0
    print(f"{'case':20}  {'ms':>7}  {'CPU ms':>7}  {'peak MiB':>8}  {'x bare':>6}")
    for case in cases:
        row = f"{case.name:20}  {case.seconds * 1e3:7.1f}  {case.cpu_s * 1e3:7.1f}"
        print(f"{row}  {case.peak_rss_bytes / 2**20:8.1f}  {case.ratio_to_peer:6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
