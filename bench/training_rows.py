"""What was run to get a published training throughput? A row of a ground-truth file as a configuration that can be predicted.

Rows are read by their own fields (model dimensions, GPU, layout, precision, checkpointing), never by their id or their value.
What a row leaves open is filled from what its text says of the software; what cannot be filled makes it unmapped, with a reason.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stepscope.catalog.gpu import load_gpu
from stepscope.catalog.model import load_model, model_names
from stepscope.model.plan import Plan
from stepscope.model.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One configuration. `plan` has no pipeline: `pp` and `virtual` stand beside it, for a closed formula.

    `socket`: NCCL over plain TCP. `async_tp`: tensor-parallel collectives cut into pieces that overlap. `alternate`: every
    second layer is checkpointed whole. `algorithm` that NCCL was forced to take. `slow_gpu`: clock of one GPU, as a share.
    """

    shape: Shape
    gpu: str
    system: str
    nodes: int
    plan: Plan
    stack: str
    pp: int = 1
    virtual: int = 1
    socket: bool = False
    async_tp: bool = False
    alternate: bool = False
    algorithm: Literal["ring", "tree"] | None = None
    slow_gpu: float = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """A measured step and its configuration; `setup` is None where `why` says what is missing. `measured` in s. `page` is what
    published it, `source` the file; slow-downs are against rows of the same `group`."""

    id: str
    source: str
    page: str
    group: str
    measured: float
    setup: Setup | None
    why: str = ""


def read(folder: Path) -> Iterator[Row]:
    """Every training row of the files in a folder (or of one file)."""
    for path in sorted(folder.glob("training-*.json")) if folder.is_dir() else [folder]:
        for raw in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            row = _row(raw, path.stem.removeprefix("training-"))
            if row is not None:
                yield row


def _row(raw: dict[str, Any], source: str) -> Row | None:
    """None where the row measured no throughput (it failed, or ran out of memory)."""
    if raw.get("status") not in (None, "Success"):
        return None
    rate = raw.get("tokens_per_s_per_gpu")
    step = raw.get("step_time_s") or raw.get("step_time_s_derived")
    if not rate and not step:
        return None
    name, page = str(raw["id"]), str(raw.get("source") or source)
    try:
        setup = _setup(raw)
    except _Unmapped as reason:
        return Row(name, source, page, _group(raw), step or 0.0, None, str(reason))
    tokens = setup.plan.data_ranks * setup.plan.mbs * setup.plan.ga * (setup.plan.seq or 0)
    world = setup.plan.world_size * setup.pp
    measured = tokens / world / rate if rate else step
    return Row(name, source, page, _group(raw), measured, setup)


class _Unmapped(Exception):
    """Says what the row does not tell."""


def _group(raw: dict[str, Any]) -> str:
    """Rows whose slow-downs are compared with each other: one source, model, GPU, size and micro-batch."""
    fields = ("source", "model", "gpu", "n_gpus", "seq", "microbatch", "act_ckpt", "precision")
    return json.dumps([raw.get(field) for field in fields])


def _setup(raw: dict[str, Any]) -> Setup:
    said = " ".join(str(raw.get(k) or "") for k in ("source", "gpu", "nic", "sharding", "act_ckpt", "precision", "notes")).lower()
    parallel = dict(raw.get("parallel") or {})
    if raw.get("notes") and "raw cells with alternatives" in str(raw["notes"]) and not {"tp", "pp"} & parallel.keys():
        raise _Unmapped("layout: the cell names alternatives")
    if (parallel.get("ep") or 1) > 1:
        raise _Unmapped("a mixture of experts: not modelled yet")
    if re.search(r"\blora\b", said):
        raise _Unmapped("adapters alone are trained: not modelled")
    stack = _stack(said, raw)
    shape = _shape(raw, stack)
    gpu = _gpu(str(raw.get("gpu") or ""))
    world = int(raw["n_gpus"])
    tp, pp, cp = (int(parallel.get(axis) or 1) for axis in ("tp", "pp", "cp"))
    if world % (tp * pp * cp):
        raise _Unmapped(f"{world} GPUs do not divide by tp x pp x cp")
    data = world // (tp * pp * cp)
    seq = int(raw.get("seq") or 0)
    if not seq:
        raise _Unmapped("seq: not given")
    mbs = int(raw.get("microbatch") or 1)
    ga = raw.get("grad_accum") or parallel.get("ga")
    whole = raw.get("global_batch_seqs")
    if whole and not (ga and abs(whole - data * mbs * ga) < 1):
        ga = max(1, round(whole / (data * mbs)))
    if pp > 1 and stack.startswith("torchtitan"):
        mbs, ga = 1, mbs  # its local batch is cut into micro-batches by the pipeline
    ac, alternate = _checkpointing(str(raw.get("act_ckpt") or "none").lower())
    plan = Plan(
        **_strategy(parallel, data, stack),
        tp=tp,
        cp=cp,
        mbs=mbs,
        ga=int(ga or 1),
        seq=seq,
        ac=ac,
        precision=_precision(str(raw.get("precision") or "bf16").lower()),
        reduce="bf16" if "pure" in said or stack == "hf-fsdp1" else "fp32",
        reshard=0 if pp > 1 else 1,
        sync="every" if stack == "llm-foundry" else "last",
    )
    per_node = min(world, 8)
    return Setup(
        shape=shape,
        gpu=gpu,
        system=_system(gpu, said),
        nodes=int(raw.get("nodes") or -(-world // per_node)),
        plan=plan,
        stack=stack,
        pp=pp,
        virtual=int(parallel.get("vp") or 1),
        socket="socket" in str(raw.get("nic") or "").lower(),
        async_tp=str(parallel.get("async_tp", parallel.get("tp_async", "False"))).lower() == "true",
        alternate=alternate,
        algorithm=_algorithm(str(raw.get("notes") or "")),
        slow_gpu=_slow_gpu(str(raw.get("fault") or ""), str(raw.get("notes") or ""), gpu),
    )


def _algorithm(notes: str) -> Literal["ring", "tree"] | None:
    found = re.search(r"NCCL_ALGO=(Ring|Tree)", notes)
    return None if found is None else "tree" if found[1] == "Tree" else "ring"


THERMAL_MHZ = 345.0
"""Where the clock of an H100 ends under hardware thermal slowdown, for rows that say thermal and no clock. Assumed: the lowest
clock that nvidia-smi offers on it, and the one that stuck GPUs are commonly reported at."""


def _slow_gpu(fault: str, notes: str, gpu: str) -> float:
    """Clock of the one slowed GPU as a share of its highest, where the row says by how much; 1 where none is slowed."""
    text = fault.lower()
    if not re.search(r"throttl|thermal|clock|straggler|power cap|slow gpu", text):
        return 1.0
    boost = load_gpu(gpu).clock.boost_mhz
    for said in (text, notes.lower()):
        clocks = [int(word) for word in re.findall(r"(\d{3,4})\s*mhz", said)]
        if clocks:
            return min(1.0, min(clocks) / (max(clocks) if len(clocks) > 1 else boost))
    share = re.search(r"(\d{1,2}(?:\.\d+)?)\s*%(\s*(?:slower|lower|less|below))?", text)
    if share:
        return 1 - float(share[1]) / 100 if share[2] else float(share[1]) / 100
    if "therm" in text:
        return THERMAL_MHZ / boost
    raise _Unmapped("fault: it does not say how slow the GPU ran")


def _stack(said: str, raw: dict[str, Any]) -> str:
    compiled = raw.get("compile")
    if "llm-foundry" in said:
        return "llm-foundry"
    if "nanotron" in said:
        return "nanotron"
    if "megatron-bridge" in said or "nemo" in said:
        return "megatron"
    if "megatron" in said:
        return "megatron-2022"
    if "torchtitan" in said:
        return "torchtitan-compile" if compiled else "torchtitan"
    if "fsdp1" in said or "full_shard" in said or "hybrid_shard" in said:
        return "hf-fsdp1"
    return "torch-compile" if compiled else "torch-eager"


def _shape(raw: dict[str, Any], stack: str) -> Shape:
    if raw.get("hidden") and raw.get("layers"):
        hidden, heads = int(raw["hidden"]), int(raw.get("heads") or max(1, int(raw["hidden"]) // 128))
        kv, ffn = int(raw.get("kv_heads") or heads), raw.get("ffn")
        if not ffn:
            raise _Unmapped("ffn: not given")
        name = str(raw.get("model") or "").lower()
        family: dict[str, Any]
        if re.search(r"\b(mpt|gpt|opt)\b|^(mpt|gpt|opt)", name):
            family = {"activation": "gelu", "norm": "layernorm", "positions": "learned", "bias": "mpt" not in name}
        else:
            family = {"activation": "swiglu", "norm": "rmsnorm", "positions": "rope", "qkv_bias": "qwen" in name}
        return Shape(
            layers=int(raw["layers"]),
            hidden=hidden,
            heads=heads,
            kv_heads=kv,
            ffn=int(ffn),
            vocab=int(raw.get("vocab") or 50304),
            context=int(raw.get("seq") or 2048),
            # nanotron's sweep: allocated bytes at tp = pp = 1 are 20 a parameter only with one table and a KV head per head
            tied_embeddings=family["activation"] == "gelu" or stack == "nanotron",
            attention="mha" if kv == heads else "mqa" if kv == 1 else "gqa",
            head_dim_given=None if hidden % heads == 0 else 128,
            **family,
        )
    found = _known(str(raw.get("model") or ""))
    if found is None:
        raise _Unmapped(f"model: no dimensions, and the catalog has no {str(raw.get('model'))[:40]}")
    return found


def _known(name: str) -> Shape | None:
    """The catalog's model of that name, written in any way: family, version's first number, size."""
    wanted = re.sub(r"[^a-z0-9.]+", "", name.lower())
    for known in model_names():
        plain = re.sub(r"[^a-z0-9.]+", "", known)
        if plain == wanted or re.sub(r"(llama\d)\.\d", r"\1", wanted) == plain:
            return load_model(known).shape
    return None


def _gpu(name: str) -> str:
    text = name.lower()
    if "gb200" in text or "gb300" in text or "b300" in text:
        raise _Unmapped(f"GPU: {name[:40]} is not in the catalog")
    for word, found in (("b200", "b200-sxm"), ("h200", "h200-sxm"), ("h100", "h100-sxm"), ("a100", "a100-sxm-80gb")):
        if word in text:
            if found == "h100-sxm" and re.search(r"\b96 ?gb", text):
                return "h100-sxm-96gb"
            return "a100-sxm-40gb" if found.startswith("a100") and "40" in text else found
    for word, found in (("v100", "v100-sxm2-32gb"), ("mi300x", "mi300x"), ("l40s", "l40s")):
        if word in text:
            return found
    raise _Unmapped(f"GPU: {name[:40]} is not in the catalog")


def _system(gpu: str, said: str) -> str:
    if "p4d" in said:
        return "p4d"
    if re.search(r"\bp5\b|\befa\b|\bp5\.", said) or "nanotron" in said:
        return "p5" if gpu.startswith("h") else "p4d"
    if "azure" in said and gpu == "h100-sxm":
        return "nd-h100-v5"
    if "a3-mega" in said:
        return "a3-mega"
    return {
        "a100-sxm-80gb": "dgx-a100",
        "a100-sxm-40gb": "dgx-a100",
        "h200-sxm": "hgx-h200",
        "b200-sxm": "hgx-b200",
        "v100-sxm2-32gb": "dgx-1v",
        "mi300x": "nd-mi300x-v5",
        "l40s": "l40s-pcie",
    }.get(gpu, "hgx-h100")


def _precision(text: str) -> str:
    if "nvfp4" in text:
        raise _Unmapped("precision: 4-bit is not modelled")
    if "fp8" in text or "float8" in text:
        return "fp8-rowwise" if "row" in text else "fp8"
    if "fp32" in text and "bf16" not in text and "fp16" not in text:
        return "fp32"
    return "fp16" if "fp16" in text and "bf16" not in text else "bf16"


def _checkpointing(text: str) -> tuple[Literal["none", "selective", "full"], bool]:
    if "selective layer" in text:
        return "full", True
    if "selective" in text or "op" in text.split():
        return "selective", False
    return ("full", False) if "full" in text or text in ("true", "yes") else ("none", False)


def _strategy(parallel: dict[str, Any], data: int, stack: str) -> dict[str, Any]:
    shard = int(parallel.get("fsdp") or 0)
    if stack == "nanotron":
        return {"strategy": "zero1" if parallel.get("zero_stage") else "ddp", "replicate": data}
    if stack.startswith("megatron") and shard <= 1:
        return {"strategy": "zero1" if stack == "megatron" else "ddp", "replicate": data}
    if "ddp" in parallel and not shard:
        return {"strategy": "ddp", "replicate": data}
    shard = min(shard or data, data)
    return {"strategy": "hsdp" if data > shard else "fsdp", "replicate": data // shard, "shard": shard}


def is_plain(setup: Setup) -> bool:
    """Whether nothing is known to be wrong with it or forced: what slow-downs are measured against."""
    return not setup.socket and setup.slow_gpu == 1 and setup.algorithm is None and setup.plan.strategy != "hsdp"


FITTED_SOURCES = ("llm-foundry-mpt", "torchtitan")


def is_fitted(row: Row) -> bool:
    """Whether calibration may look at it: at most half of two sources, by a checksum of the id; pipelines, contexts never."""
    if row.setup is None or row.source not in FITTED_SOURCES or row.setup.pp > 1 or row.setup.plan.cp > 1:
        return False
    return zlib.crc32(row.id.encode()) % 2 == 0
