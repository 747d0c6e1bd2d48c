"""A small real training job: a Llama-like model under FSDP2 or DDP, token shards on disk, AdamW, clipping, checkpoints, resume.

    torchrun --nproc-per-node 2 examples/train_fsdp.py --steps 20
    stepscope record -o job.run -- torchrun --nproc-per-node 2 examples/train_fsdp.py --steps 20

Runs on CPU over gloo, or on one GPU a rank over NCCL. The tokens are made up on the first start (a noisy rule that a model can
learn), so that the loss goes down and nothing has to be fetched. `--wrap ddp` or `plain` instead of FSDP2.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

VOCABULARY = 512
SHARD_TOKENS = 1 << 18
SHARDS = 4


class Tokens(Dataset[torch.Tensor]):
    """Windows of `length` + 1 tokens out of shards of uint16 on disk."""

    def __init__(self, folder: Path, length: int) -> None:
        self.shards = [np.memmap(path, dtype=np.uint16, mode="r") for path in sorted(folder.glob("shard-*.bin"))]
        self.length = length
        self.per_shard = (SHARD_TOKENS - 1) // length

    def __len__(self) -> int:
        return self.per_shard * len(self.shards)

    def __getitem__(self, at: int) -> torch.Tensor:
        shard, window = divmod(at, self.per_shard)
        start = window * self.length
        return torch.from_numpy(self.shards[shard][start : start + self.length + 1].astype(np.int64))


def make_tokens(folder: Path) -> None:
    """Each token follows from the one before by a rule, but for one in five."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(SHARDS):
        random = np.random.default_rng(number)
        tokens = np.empty(SHARD_TOKENS, dtype=np.uint16)
        noise, chance = random.integers(0, VOCABULARY, SHARD_TOKENS), random.random(SHARD_TOKENS)
        token = int(noise[0])
        for at in range(SHARD_TOKENS):
            token = int(noise[at]) if chance[at] < 0.2 else (5 * token + 17) % VOCABULARY
            tokens[at] = token
        part = folder / f".shard-{number}.part"
        tokens.tofile(part)
        part.replace(folder / f"shard-{number}.bin")


class Block(nn.Module):
    """Attention and a gated feed-forward, each behind an RMS norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before_attention(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        y = self.before_mlp(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """`layers` blocks between an embedding and a head."""

    def __init__(self, layers: int, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def wrapped(model: Llama, how: str) -> nn.Module:
    """The model as ranks share it."""
    if how == "fsdp2":
        for layer in model.layers:
            fully_shard(layer)
        return fully_shard(model)
    if how == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP1
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        return FSDP1(
            model,
            auto_wrap_policy=ModuleWrapPolicy({Block}),
            device_id=None if torch.cuda.is_available() else torch.device("cpu"),
        )
    return DistributedDataParallel(model) if how == "ddp" else model


class Saver:
    """Checkpoints of model and optimizer by DCP, in the loop or beside it; the last whole one is resumed from."""

    def __init__(self, folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, asynchronous: bool) -> None:
        self.folder, self.model, self.optimizer = folder, model, optimizer
        # An asynchronous save has collectives of its own: on the job's group they would mix with those of training.
        self.group = dist.new_group(backend="gloo") if asynchronous else None
        self.asynchronous, self.running = asynchronous, None

    def state(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def save(self, step: int) -> None:
        self.wait()
        target = self.folder / f"step-{step}"
        if self.asynchronous:
            self.running = dcp.async_save(self.state(), checkpoint_id=target, process_group=self.group)
        else:
            dcp.save(self.state(), checkpoint_id=target)

    def wait(self) -> None:
        if self.running is not None:
            self.running.result()
            self.running = None

    def resume(self) -> int:
        """The step after the last checkpoint that was finished; 0 without one."""
        done = sorted(int(p.name.removeprefix("step-")) for p in self.folder.glob("step-*") if (p / ".metadata").exists())
        if not done:
            return 0
        state = self.state()
        dcp.load(state, checkpoint_id=self.folder / f"step-{done[-1]}")
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        return done[-1] + 1


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wrap", choices=("fsdp2", "fsdp1", "ddp", "plain"), default="fsdp2")
    for name, value in (
        ("steps", 20),
        ("layers", 4),
        ("width", 256),
        ("heads", 4),
        ("length", 128),
        ("batch", 8),
        ("workers", 2),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--accumulate", type=int, default=1, help="batches before one update")
    parser.add_argument("--data", type=Path, default=Path("tokens"))
    parser.add_argument("--checkpoint", type=Path, help="folder of checkpoints; none without it")
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--async-save", action="store_true")
    return parser.parse_args()


def train(args: argparse.Namespace) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    if rank == 0 and not (args.data / f"shard-{SHARDS - 1}.bin").exists():
        make_tokens(args.data)
    dist.barrier()
    torch.manual_seed(0)
    model = wrapped(Llama(args.layers, args.width, args.heads, args.length).to(device), args.wrap)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = Tokens(args.data, args.length)
    sampler: DistributedSampler[torch.Tensor] = DistributedSampler(data, world, rank, seed=1)
    loader = DataLoader(data, args.batch, sampler=sampler, num_workers=args.workers, persistent_workers=args.workers > 0)
    saver = Saver(args.checkpoint, model, optimizer, args.async_save) if args.checkpoint else None
    step = saver.resume() if saver else 0
    began, batches = time.perf_counter(), iter(())
    while step < args.steps:
        for _ in range(args.accumulate):
            batch = next(batches, None)
            if batch is None:
                sampler.set_epoch(step)
                batches = iter(loader)
                batch = next(batches)
            batch = batch.to(device)
            logits = model(batch[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()) / args.accumulate
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if saver and (step + 1) % args.every == 0:
            saver.save(step)
        if rank == 0:
            print(f"step {step} loss {loss.item() * args.accumulate:.3f} at {time.perf_counter() - began:.2f} s", flush=True)
        step += 1
    if saver:
        saver.wait()


def main() -> None:
    args = options()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    else:
        torch.set_num_threads(1)
    try:
        train(args)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
