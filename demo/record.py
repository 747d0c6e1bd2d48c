"""Record the demo traces: a small real FSDP2 training job on CPU, profiled on each of its ranks.

    python -m venv .venv-record && .venv-record/bin/pip install torch==2.13.0 numpy
    .venv-record/bin/python demo/record.py demo/healthy
    .venv-record/bin/python demo/record.py demo/slow-rank --slow-rank 2

What it records. Four ranks (processes) train a two-layer Llama-like model over gloo: each layer and the root are
wrapped with `fully_shard`, batches come from a DataLoader, AdamW updates the shards. One matmul thread per rank. After
a wait and a warm-up, torch.profiler writes `OUT_DIR/rankN.pt.trace.json.gz` with the CPU activity of `--steps` steps.

With `--slow-rank N` that rank multiplies matrices of its own in every layer's forward and backward: real extra compute,
while its parameters, batches and collectives stay those of the healthy job. So the others wait for it.

The only edits of what the profiler wrote: the host's name becomes `demo-host`, the path of the trace is left out, the JSON
is written without spaces and compressed with gzip -9. The recordings kept here come from two cores that four ranks shared:
they take turns, so even the healthy job waits much. Steps vary with what else the machine does; the script prints them, so
that a quiet pair can be kept.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

VOCABULARY, WIDTH, HEADS, LAYERS, TOKENS, SEQUENCES = 256, 64, 4, 2, 64, 2
WAIT, WARMUP = 1, 3


class OwnWork(torch.autograd.Function):
    """Hands `x` through, and multiplies matrices `times` times in forward and twice as often in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ballast: Tensor, times: int) -> Tensor:
        ctx.ballast, ctx.times = ballast, times
        for _ in range(times):
            torch.mm(ballast, ballast)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        for _ in range(2 * ctx.times):
            torch.mm(ctx.ballast, ctx.ballast)
        return gradient, None, None


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up = nn.Linear(WIDTH, 6 * WIDTH, bias=False)
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Block(nn.Module):
    """One transformer layer; `own_work` > 0 makes this rank multiply that many matrices more."""

    def __init__(self, own_work: int) -> None:
        super().__init__()
        self.own_work = own_work
        self.ballast = torch.ones(512, 512) / 512  # a plain tensor: neither a parameter nor communicated
        self.attention_norm = nn.RMSNorm(WIDTH)
        self.attention = Attention()
        self.feed_forward_norm = nn.RMSNorm(WIDTH)
        self.feed_forward = FeedForward()

    def forward(self, x: Tensor) -> Tensor:
        if self.own_work:
            x = OwnWork.apply(x, self.ballast, self.own_work)
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class Transformer(nn.Module):
    def __init__(self, own_work: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block(own_work) for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH)
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


class Text(Dataset[Tensor]):
    """Random tokens, the same on each try; each rank reads its own."""

    def __init__(self, rank: int, batches: int) -> None:
        generator = torch.Generator().manual_seed(rank)
        self.tokens = torch.randint(VOCABULARY, (batches * SEQUENCES, TOKENS + 1), generator=generator)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> Tensor:
        return self.tokens[index]


def train(rank: int, world_size: int, steps: int, own_work: int, meeting: str, out: str) -> None:
    """The job of one rank: train, and leave the profiler's file in `out`."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
    mesh = init_device_mesh("cpu", (world_size,), mesh_dim_names=("fsdp",))

    model = Transformer(own_work)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    batches = DataLoader(Text(rank, WAIT + WARMUP + steps + 1), batch_size=SEQUENCES)

    plan = schedule(wait=WAIT, warmup=WARMUP, active=steps, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan) as profiler:
        for batch in batches:
            logits = model(batch[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            profiler.step()
    profiler.export_chrome_trace(f"{out}/rank{rank}.json")
    dist.barrier()
    dist.destroy_process_group()


def publish(written: Path, target: Path) -> tuple[int, list[float]]:
    """Write the profiler's file as a demo trace; return its size in bytes and its steps in ms."""
    trace = json.loads(written.read_text())
    trace.pop("traceName", None)
    if "host_name" in trace:
        trace["host_name"] = "demo-host"
    packed = gzip.compress(json.dumps(trace, separators=(",", ":")).encode(), compresslevel=9, mtime=0)
    target.write_bytes(packed)
    return len(packed), [e["dur"] / 1000 for e in trace["traceEvents"] if e["name"].startswith("ProfilerStep#")]


def main() -> int:
    """Record into OUT_DIR and print each rank's size and steps."""
    parser = argparse.ArgumentParser(description="Record the demo traces: a small FSDP2 job on CPU, four ranks.")
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--slow-rank", type=int, default=None, metavar="N", help="this rank computes more than its share")
    parser.add_argument("--own-work", type=int, default=3, metavar="N", help="extra matmuls a layer of the slow rank")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()

    options.out_dir.mkdir(parents=True, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    spawn = mp.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(options.ranks):
            own_work = options.own_work if rank == options.slow_rank else 0
            job = (rank, options.ranks, options.steps, own_work, f"{folder}/meeting", folder)
            ranks.append(spawn.Process(target=train, args=job))
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        if any(process.exitcode for process in ranks):
            print("record: a rank failed; its message is above", file=sys.stderr)
            return 1
        for rank in range(options.ranks):
            size, steps = publish(Path(folder, f"rank{rank}.json"), options.out_dir / f"rank{rank}.pt.trace.json.gz")
            shown = " ".join(f"{ms:.1f}" for ms in steps)
            print(f"rank {rank}: {size / 1000:.0f} kB, median step {statistics.median(steps):.1f} ms ({shown})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
