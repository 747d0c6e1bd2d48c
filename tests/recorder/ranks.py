"""A real job of two ranks over gloo for the tests: torch is imported once, then the ranks are forked.

    python -m tests.recorder.ranks OUT WHAT [KEY=VALUE ...]

Prints a line per finished step (`rank 0 step 3`), so that a test knows what must be readable afterwards. WHAT is what happens.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import socket
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import stepscope
from stepscope.recorder import segment

WORLD = 2


class Numbers(torch.utils.data.Dataset[torch.Tensor]):
    """Random rows; those of rank 1 come late where the job says so."""

    def __init__(self, late_s: float) -> None:
        self.late_s = late_s

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, at: int) -> torch.Tensor:
        if self.late_s and at % 8 == 0:
            time.sleep(self.late_s)
        return torch.randn(64)


def model_of(what: str) -> torch.nn.Module:
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)), torch.nn.Linear(64, 1))
    if what in ("ddp", "kill"):
        return DistributedDataParallel(model)
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)


def train(out: Path, what: str, words: dict[str, str]) -> None:
    rank = int(os.environ["RANK"])
    steps = int(words.get("steps", "6"))
    if what == "full":
        segment.PART_BYTES = 1 << 14  # so that a handful of steps needs another file
    dist.init_process_group("gloo")
    model = model_of(what)
    optimizer = torch.optim.AdamW(model.parameters())
    late = float(words.get("late", "0")) if rank == 1 else 0.0
    loader = torch.utils.data.DataLoader(Numbers(late), batch_size=8)
    settings: dict[str, Any] = {"stall": float(words.get("stall", "0")), "keep": 4 << 20}
    own = stepscope.record(out, **settings) if words.get("record") != "no" else None
    with own or nullcontext() as recorder:
        batches = recorder.steps(loader, tokens=8) if recorder is not None else iter(loader)
        for step, batch in enumerate(batches):
            if step == steps:
                break
            if what == "hang" and rank == 1 and step == 3:
                time.sleep(600)
            model(batch).square().mean().backward()
            if what == "fsdp2":
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if what == "fsdp2" and step == 2:
                dcp.save({"model": model.state_dict()}, checkpoint_id=out.with_name("checkpoint"))
            if what == "ddp" and step == 2 and rank == 0:
                torch.save(model.state_dict(), out.with_name("model.pt"))
            print(f"rank {rank} step {step}", flush=True)
            if what == "kill" and step == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "full" and step == 2:  # as a disk that has room for nothing more
                resource.setrlimit(resource.RLIMIT_FSIZE, (segment.PART_BYTES // 2, resource.RLIM_INFINITY))
            if what == "full" and step == steps - 10:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                time.sleep(1.2)  # the recorder looks again once a second
            if what == "forks" and step == 2 and (child := os.fork()) == 0:
                torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
                os._exit(0)
            elif what == "forks" and step == 2:
                os.waitpid(child, 0)
    dist.destroy_process_group()


def run(out: Path, what: str, words: dict[str, str]) -> int:
    """All ranks to their end; the worst exit code."""
    torch.set_num_threads(1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(WORLD))
    children = []
    for rank in range(WORLD):
        if (child := os.fork()) == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
            faulthandler.register(signal.SIGUSR1)  # a test that runs out of time asks where its ranks stand
            train(out, what, words)
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return max((abs(code) for code in codes), default=0)


def serve() -> None:
    """Jobs as they are asked for, `OUT WHAT [KEY=VALUE ...]` a line: answers with the process group, to `wait` with the code."""
    for line in sys.stdin:
        if line.strip() == "wait":
            print(os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1]), flush=True)
            continue
        out, what, *rest = line.split()
        if (job := os.fork()) == 0:
            os.setsid()
            said = os.open(f"{out}.said", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(said, 1)
            os.dup2(said, 2)
            os._exit(run(Path(out), what, dict(word.split("=") for word in rest)))
        print(job, flush=True)


def main() -> int:
    if sys.argv[1:] == ["serve"]:
        serve()
        return 0
    out, what, *rest = sys.argv[1:]
    return run(Path(out), what, dict(word.split("=") for word in rest))


if __name__ == "__main__":
    sys.exit(main())
