"""Runs in a process of its own: one step of a small Llama under FSDPMemTracker; prints bytes as JSON."""

from __future__ import annotations

import json
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.optim import adam
from torch.testing._internal.distributed.fake_pg import FakeStore


class Block(nn.Module):
    """A layer: norm, attention with repeated KV heads, norm, SwiGLU."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, ffn: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.dim = heads, kv_heads, hidden // heads
        self.norms = nn.ModuleList(nn.RMSNorm(hidden, eps=1e-5) for _ in range(2))
        narrow = kv_heads * self.dim
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(hidden, n, bias=False) for n in (hidden, narrow, narrow, hidden))
        self.w1, self.w3 = nn.Linear(hidden, ffn, bias=False), nn.Linear(hidden, ffn, bias=False)
        self.w2 = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, hidden = x.shape
        y = self.norms[0](x)
        q = self.wq(y).view(batch, seq, self.heads, self.dim)
        k, v = (self._repeated(w(y).view(batch, seq, self.kv_heads, self.dim)) for w in (self.wk, self.wv))
        out = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        x = x + self.wo(out.transpose(1, 2).reshape(batch, seq, hidden))
        y = self.norms[1](x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))

    def _repeated(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, kv_heads, dim = x.shape
        many = self.heads // kv_heads
        return x[:, :, :, None, :].expand(batch, seq, kv_heads, many, dim).reshape(batch, seq, self.heads, dim)


class Model(nn.Module):
    """Embedding, layers, norm, output."""

    def __init__(self, layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, vocab: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleList(Block(hidden, heads, kv_heads, ffn) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden, eps=1e-5)
        self.output = nn.Linear(hidden, vocab, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def main() -> None:
    """One warm-up step, which makes the optimizer's states, and one that is looked at."""
    asked = json.loads(sys.argv[1])
    seq, ranks = asked.pop("seq"), asked.pop("ranks")
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    mesh = init_device_mesh("cpu", (ranks,))
    adam._get_value = lambda x: 1.0 if isinstance(x, torch.Tensor) else x  # a fake tensor has no value
    with FakeTensorMode():
        model = Model(**asked)
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for piece in (model.embedding, *model.layers):
            fully_shard(piece, mesh=mesh, mp_policy=policy)
        fully_shard([model.norm, model.output], mesh=mesh, mp_policy=policy, reshard_after_forward=False)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
        tracker = FSDPMemTracker(model, optimizer)
        with tracker:
            for _ in range(2):
                tokens, labels = (torch.randint(0, asked["vocab"], (1, seq)) for _ in range(2))
                predicted = model(tokens)
                loss = F.cross_entropy(predicted.flatten(0, 1).float(), labels.flatten())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        snapshot = next(iter(tracker.get_tracker_snapshot("peak").values()))
    found = {str(key).rsplit(".", 1)[-1]: value for key, value in snapshot.items()}
    print(json.dumps({"peak": found["Total"], "weights": found["SHARDED_PARAM"], "optimizer": found["OPT"]}))


if __name__ == "__main__":
    main()
