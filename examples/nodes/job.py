"""One rank of the job: the model and the tokens of `train_fsdp.py`, in a loop that does what the launcher's words ask for.

Each sample is read past the page cache, in blocks of READ_BYTES, as a data set is that no memory holds: so storage can be slow.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler
from train_fsdp import Llama, Tokens, wrapped

import stepscope
from nodes import linux
from nodes.limits import Limits
from nodes.network import ADDRESSES, WIRE, Network
from nodes.words import HEAP, Words

RANKS: Final = 4
PER_NODE: Final = 2
LAYERS: Final = 3
WIDTH: Final = 256
LENGTH: Final = 32  # short: on two cores, four ranks would else do nothing but compute
BATCH: Final = 8
READ_BYTES: Final = 1 << 18  # a sample; 2 MiB a step and rank
PAGE: Final = mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class Job:
    """What all ranks are given. `stall` and `timeout` in seconds; without `network` all of them share one machine's loopback."""

    out: Path
    tokens: Path
    words: Words
    limits: Limits
    network: Network | None
    port: int
    stall: float
    timeout: float = 120.0


class Uncached(Tokens):
    """Windows of tokens, each read with its block from the device; through the page cache where the file system insists on it."""

    def __init__(self, folder: Path, words: Words, rank: int) -> None:
        super().__init__(folder, LENGTH)
        self.paths, self.words, self.rank = sorted(folder.glob("shard-*.bin")), words, rank
        self._files: dict[int, tuple[int, int, mmap.mmap]] = {}

    def __getitems__(self, places: list[int]) -> list[torch.Tensor]:
        """A batch; a slow reader sleeps once for all of it."""
        if wait := int(self.words.read_ms[self.rank]):
            time.sleep(wait / 1e3)
        return [self[at] for at in places]

    def __getitem__(self, at: int) -> torch.Tensor:
        shard, window = divmod(at, self.per_shard)
        if shard not in self._files:  # opened by the worker that reads
            self._files[shard] = _opened(self.paths[shard])
        file, size, block = self._files[shard]
        begins = window * self.length * 2
        offset = min(begins // PAGE * PAGE, size - READ_BYTES)
        os.preadv(file, [block], offset)
        found = np.frombuffer(block, dtype=np.uint16, count=self.length + 1, offset=begins - offset)
        return torch.from_numpy(found.astype(np.int64))


def _opened(path: Path) -> tuple[int, int, mmap.mmap]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
    except OSError:  # tmpfs and others
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return file, path.stat().st_size, mmap.mmap(-1, READ_BYTES)


def _worker(number: int) -> None:
    linux.die_with_parent()


def _batches(loader: DataLoader[torch.Tensor], sampler: DistributedSampler[torch.Tensor]) -> Iterator[torch.Tensor]:
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def run(job: Job, rank: int) -> None:
    """The whole life of a rank, in a process of its own."""
    if job.network is not None:
        job.network.enter(rank // PER_NODE)
    job.limits.enter(rank)
    address, device = (ADDRESSES[0], WIRE) if job.network is not None else ("127.0.0.1", "lo")
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank % PER_NODE if job.network else rank))
    os.environ.update(MASTER_ADDR=address, MASTER_PORT=str(job.port), GLOO_SOCKET_IFNAME=device)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=job.timeout))
    torch.manual_seed(0)
    model = wrapped(Llama(LAYERS, WIDTH, 4, LENGTH), "fsdp2")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = Uncached(job.tokens, job.words, rank)
    sampler: DistributedSampler[torch.Tensor] = DistributedSampler(data, RANKS, rank, seed=1)
    loader = DataLoader(data, BATCH, sampler=sampler, num_workers=1, persistent_workers=True, worker_init_fn=_worker)
    heap: list[Any] = []
    with stepscope.record(job.out, stall=job.stall) as recorder:
        for step, batch in enumerate(recorder.steps(_batches(loader, sampler), tokens=BATCH * LENGTH)):
            if step >= job.words.stop_at:
                break
            job.words.step[rank] = step
            heap = _asked(job.words, rank, step, heap)
            logits = model(batch[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if rank == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
    with suppress(RuntimeError):
        dist.destroy_process_group()


def _asked(words: Words, rank: int, step: int, heap: list[Any]) -> list[Any]:
    """Faults that a program has by itself: a large heap that is collected each step, a rank that stops, one that differs."""
    if words.collect[rank]:
        heap = heap or [[at] for at in range(HEAP)]
        gc.collect()
    elif heap:
        heap = []
        _give_back()
    if step == words.hang_at[rank]:
        print(f"rank {rank} stops in step {step}", flush=True)
        time.sleep(3600)
    if step == words.differ_at[rank]:
        print(f"rank {rank} does another collective in step {step}", flush=True)
        dist.all_reduce(torch.ones(1))
    return heap


def _give_back() -> None:
    """The freed heap to the system, so that the healthy steps after it are as those before."""
    gc.collect()
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
