"""How fast do traces become a Run, and a Run an answer, beside a named peer and beside bare decoding?

    python bench/ingest.py [--trace DIR] [--ranks 8] [--mb 77] [--format text|json] [--without-peer]

Makes `--ranks` files of about `--mb` MB from one real trace: its window is repeated, later each time, with ids moved along,
and every rank's copy is shifted a little. Then, each in processes of its own and with the same number of workers:

- `bare decode`: typed msgspec decode of the same bytes into one event type with seven arguments, nothing done with them
- `stepscope import`: the whole path from JSON to Parquet
- `traceinsight load`: the peer (PyPI traceinsight 0.6.1, module `hta`) reads the same files
- `stepscope breakdown`: parts, overlap, arrivals and units, from the Run on disk, in one process
- `traceinsight breakdowns`: its temporal, overlap, idle-time and kernel breakdowns, from what it holds in memory

`ratio_to_peer` is the peer's seconds over ours, except for `stepscope import / bare decode`, where it is the bare decode's.
Peak memory is that of the largest single process. Absolute seconds are this machine's; compare ratios of one run.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from case import KIB, Case

ROOT: Final = Path(__file__).resolve().parents[1]
DEFAULT: Final = ROOT.parent / "shared/traces/hta-ddp-a100-control"

BARE = """
import gc, sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
import msgspec
Value = int | float | str | None
NAMES = {"external_id": "External id", "sequence": "Sequence number", "forward_thread": "Fwd thread id"}
class Args(msgspec.Struct, gc=False, rename=NAMES):
    correlation: Value = None
    stream: Value = None
    device: Value = None
    bytes: Value = None
    external_id: Value = None
    sequence: Value = None
    forward_thread: Value = None
class Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str | None = None
    name: Value = ""
    pid: Value = None
    tid: Value = None
    ts: Value = None
    dur: Value = None
    args: Args | None = None
class Document(msgspec.Struct):
    traceEvents: list[Event]
def decode(path):
    gc.disable()
    return len(msgspec.json.decode(Path(path).read_bytes(), type=Document).traceEvents)
if __name__ == "__main__":
    with ProcessPoolExecutor(int(sys.argv[1])) as pool:
        print(sum(pool.map(decode, sys.argv[2:])))
"""

ANSWER = """
import sys, time
import stepscope
run = stepscope.read(sys.argv[1])
begin = time.perf_counter()
result = stepscope.breakdown(run)
print("TIMES", time.perf_counter() - begin, len(result.steps))
"""

PEER_LOAD = """
import os, sys, time
begin = time.perf_counter()
import multiprocessing
multiprocessing.cpu_count = lambda: int(sys.argv[1])
from hta.trace_analysis import TraceAnalysis
if __name__ == "__main__":
    analysis = TraceAnalysis(trace_dir=sys.argv[2])
    loaded = time.perf_counter()
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_comm_comp_overlap(visualize=False)
    analysis.get_idle_time_breakdown(ranks=sorted(analysis.t.traces), visualize=False)
    analysis.get_gpu_kernel_breakdown(visualize=False)
    print("RANKS", len(analysis.t.traces), "")
    print("TIMES", loaded - begin, time.perf_counter() - loaded)
"""


def make(source: Path, folder: Path, ranks: int, megabytes: float) -> int:
    """Writes the files; the number of bytes in all."""
    path = next(p for p in sorted(source.iterdir()) if ".json" in p.name)
    raw = path.read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    events = [e for e in document["traceEvents"] if isinstance(e.get("ts"), int | float)]
    named = [e for e in document["traceEvents"] if not isinstance(e.get("ts"), int | float)]
    compact = {"separators": (",", ":")}
    size = len(json.dumps(events, **compact))
    repeats = max(1, round(megabytes * 1e6 / size))
    start, end = min(e["ts"] for e in events if e["ts"] > 0), max(e["ts"] + e.get("dur", 0) for e in events)
    span = int(end - start) + 1000
    total = 0
    for rank in range(ranks):
        out: list[Any] = list(named)
        for again in range(repeats):
            out += [_moved(e, again, span, rank) for e in events]
        head = {k: v for k, v in document.items() if k != "traceEvents"}
        head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": ranks}
        # A line per entry, as profilers write them: the peer looks for the rank in such a line.
        lines = "".join(f"  {json.dumps(k)}: {json.dumps(v)},\n" for k, v in head.items())
        text = "{\n" + lines + '  "traceEvents": ' + json.dumps(out, **compact) + "\n}\n"
        (folder / f"rank{rank}.json").write_text(text)
        total += len(text)
    return total


def _moved(event: dict[str, Any], again: int, span: int, rank: int) -> dict[str, Any]:
    """The event in a later copy of the window, ids moved along; each rank a few µs apart."""
    moved = {**event, "ts": event["ts"] + again * span + rank * 7}
    if "id" in moved and isinstance(moved["id"], int):
        moved["id"] += again * 10_000_000
    if str(moved.get("name", "")).startswith("ProfilerStep#"):
        moved["name"] = f"ProfilerStep#{int(moved['name'].split('#')[1]) + 100 * again}"
    args = event.get("args")
    if again and isinstance(args, dict):
        moved["args"] = {
            k: v + again * 10_000_000
            if k in ("correlation", "External id", "external id", "Sequence number") and isinstance(v, int) and v > 0
            else v
            for k, v in args.items()
        }
    return moved


def run(command: list[str]) -> tuple[float, float, int, str]:
    """Wall seconds, CPU seconds, peak bytes of the largest process, output. Raises CalledProcessError where it fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output)
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * KIB, output


def measure(options: argparse.Namespace, folder: Path) -> tuple[list[Case], int]:
    """All cases on the same files."""
    traces = folder / "traces"
    traces.mkdir()
    # In a process of its own: the kernel counts a child's memory from its parent's, and making the files takes much.
    with ProcessPoolExecutor(1) as pool:
        size = pool.submit(make, options.trace, traces, options.ranks, options.mb).result()
    files = sorted(str(p) for p in traces.iterdir())
    jobs = str(options.jobs)
    script = folder / "bare.py"
    script.write_text(BARE)
    bare = run([sys.executable, str(script), jobs, *files])
    ours = run(
        [sys.executable, "-m", "stepscope", "import", str(traces), "-o", str(folder / "x.run"), "-j", jobs, "--format", "json"]
    )
    script = folder / "answer.py"
    script.write_text(ANSWER)
    whole = run([sys.executable, str(script), str(folder / "x.run")])
    answer = (float(whole[3].split()[1]), *whole[1:3])  # seconds of the analysis alone, as the peer's
    cases = [
        Case("bare decode", *bare[:3], None),
        Case("stepscope import / bare decode", *ours[:3], bare[0] / ours[0]),
    ]
    if options.without_peer:
        return [*cases, Case("stepscope breakdown", *answer, None)], size
    script = folder / "peer.py"
    script.write_text(PEER_LOAD)
    peer = run([options.peer_python, str(script), jobs, str(traces)])
    if f"RANKS {options.ranks} " not in peer[3]:
        raise SystemExit("the peer did not read every rank; the comparison would not be one")
    load, analyses = (float(v) for v in next(line for line in peer[3].splitlines() if line.startswith("TIMES")).split()[1:])
    cases += [
        Case("stepscope import / traceinsight load", *ours[:3], load / ours[0]),
        Case("stepscope breakdown / traceinsight breakdowns", *answer, analyses / answer[0]),
        Case("traceinsight load", load, peer[1], peer[2], None),
        Case("traceinsight breakdowns", analyses, peer[1], peer[2], None),
    ]
    return cases, size


def main() -> int:
    """Print the table, or `cases` as JSON."""
    parser = argparse.ArgumentParser(description="How fast traces become a Run, beside a named peer and bare decoding.")
    parser.add_argument("--trace", type=Path, default=DEFAULT, metavar="DIR", help="folder with the real trace to repeat")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--mb", type=float, default=77.0, help="MB of JSON per rank")
    parser.add_argument("--jobs", type=int, default=2, help="processes, the same for all")
    parser.add_argument("--peer-python", default=sys.executable, metavar="PYTHON", help="an interpreter with traceinsight 0.6.1")
    parser.add_argument("--without-peer", action="store_true")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    if not options.trace.is_dir():
        parser.error(f"{options.trace}: no such folder; name one with a real trace: --trace DIR (demo/healthy will do)")
    if (
        not options.without_peer
        and subprocess.run([options.peer_python, "-c", "import hta"], check=False, capture_output=True).returncode
    ):
        parser.error("traceinsight is not there: pip install -e '.[bench]', or name its interpreter, or say --without-peer")
    with tempfile.TemporaryDirectory() as scratch:
        cases, size = measure(options, Path(scratch))
    if options.format == "json":
        print(
            json.dumps(
                {"schema": "bench.ingest/1", "bytes": size, "jobs": options.jobs, "cases": [asdict(c) for c in cases]}, indent=2
            )
        )
        return 0
    print(f"{options.ranks} ranks, {size / 1e6:.0f} MB of JSON, {options.jobs} processes")
    print(f"{'case':<48} {'seconds':>8} {'cpu s':>8} {'MB/s':>7} {'peak MB':>8} {'ratio':>6}")
    for case in cases:
        ratio = "-" if case.ratio_to_peer is None else f"{case.ratio_to_peer:.2f}"
        figures = f"{case.seconds:>8.2f} {case.cpu_s:>8.2f} {size / 1e6 / case.seconds:>7.0f} {case.peak_rss_bytes / 1e6:>8.0f}"
        print(f"{case.name:<48} {figures} {ratio:>6}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
