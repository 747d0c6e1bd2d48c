"""Do the recorder's parts agree with a profiler's of the same steps? A real job of two ranks over gloo, both at once.

    python bench/recorder_and_profiler.py [--steps 8] [--wrap fsdp2] [--format json]

Needs torch. Both see the same steps with the same slow-down; parts are means over ranks and whole steps, and differences are
shares of the step. What stepscope calls `host_bound` in a profile is time between operators; the recorder's hooks stand around
whole phases, so there that time is the phase's. Both views are printed: part by part, and with host_bound given to nobody.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile, schedule

import stepscope

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import train_fsdp as job

WORLD = 2
SKIP = 3  # steps before the profiler looks


def train(folder: Path, args: argparse.Namespace, rank: int) -> None:
    """SKIP steps, then `--steps` under the profiler; the recorder sees all of them."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = job.wrapped(job.Llama(args.layers, args.width, 4, 128), args.wrap)
    optimizer = torch.optim.AdamW(model.parameters())
    data = [torch.randint(0, job.VOCABULARY, (129,)) for _ in range(8 * (SKIP + args.steps + 2))]
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    plan = schedule(wait=SKIP - 2, warmup=2, active=args.steps)
    with (
        stepscope.record(folder / "live.run", stall=0) as recorder,
        profile(activities=[ProfilerActivity.CPU], schedule=plan) as profiler,
    ):
        for step, batch in enumerate(recorder.steps(loader)):
            if step == SKIP + args.steps:
                break
            if step:
                profiler.step()
            loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    profiler.export_chrome_trace(str(folder / "traces" / f"rank{rank}.json"))
    dist.barrier()


def job_of(folder: Path, args: argparse.Namespace) -> None:
    """Two ranks, forked."""
    (folder / "traces").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]), WORLD_SIZE=str(WORLD))
    children = []
    for rank in range(WORLD):
        if (child := os.fork()) == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
            with suppress(KeyboardInterrupt):
                train(folder, args, rank)
            os._exit(0)
        children.append(child)
    if any(os.waitpid(child, 0)[1] for child in children):
        raise SystemExit("a rank failed")


def means(path: Path, wanted: set[int]) -> tuple[dict[str, float], float]:
    """Mean ns of each part and of the step, over ranks and the wanted steps."""
    with stepscope.read(path) as run:
        steps = [s for s in stepscope.breakdown(run).steps if s.step in wanted]
    parts = {part: sum(s.parts_ns[part] for s in steps) / len(steps) for part in steps[0].parts_ns}
    return parts, sum(s.duration_ns for s in steps) / len(steps)


def compared(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The profiler's steps are numbered from the loop's second; its last one is cut at its own end."""
    with stepscope.read(folder / "traces") as run:
        numbers = sorted({s.step for info in run.info.ranks for s in info.steps})[:-1]
    traced, step = means(folder / "traces", set(numbers))
    noted, own = means(folder / "live.run", set(numbers))
    rows = [
        {"part": p, "profiler_s": traced[p] / 1e9, "recorder_s": noted[p] / 1e9, "share": (noted[p] - traced[p]) / step}
        for p in traced
    ]
    comm = ("comm_wait", "comm_transfer", "comm_unsplit")
    together = {"communication": comm, "compute and host": ("forward", "backward", "optimizer", "other_compute", "host_bound")}
    for name, members in together.items():
        a, b = (sum(side[p] for p in members) for side in (traced, noted))
        rows.append({"part": name, "profiler_s": a / 1e9, "recorder_s": b / 1e9, "share": (b - a) / step})
    return {
        "bench": "recorder_and_profiler",
        "wrap": args.wrap,
        "steps": numbers,
        "step_s": step / 1e9,
        "recorder_step_s": own / 1e9,
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wrap", choices=("fsdp2", "fsdp1", "ddp"), default="fsdp2")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        job_of(Path(name), args)
        found = compared(Path(name), args)
    if args.format == "json":
        print(json.dumps(found, indent=1))
        return
    times = f"{found['step_s']:.3f} s by the profiler, {found['recorder_step_s']:.3f} s by the recorder"
    print(f"{found['wrap']}, steps {found['steps']}: {times}")
    print(f"{'part':18} {'profiler ms':>12} {'recorder ms':>12} {'% of step':>10}")
    for row in found["rows"]:
        print(f"{row['part']:18} {row['profiler_s'] * 1e3:12.1f} {row['recorder_s'] * 1e3:12.1f} {row['share'] * 100:10.1f}")


if __name__ == "__main__":
    main()
