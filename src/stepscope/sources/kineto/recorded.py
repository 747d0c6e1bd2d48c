"""What the profiler wrote into a trace and what it did not: the facts that decide which questions can be answered."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from stepscope.model import words
from stepscope.sources.kineto.columns import Columns
from stepscope.sources.kineto.document import Reading
from stepscope.sources.kineto.identify import Identity
from stepscope.sources.kineto.links import Links

_LAUNCHES: Final = r"^(?:cuda|hip|cu|ur|ze)\w*Launch\w*(?:Kernel|Graph)|^hipExtModuleLaunch|^urEnqueueKernel"
_FORWARD: Final = r"^FSDP::(?:root_)?pre_forward|^(?:Distributed|FullySharded)DataParallel\.forward|^## ?forward ?##$"

# A few launches near the window's edges never get their kernel; more than this share were lost by the profiler.
LOST_LAUNCH_SHARE: Final = 0.02


def what_was_recorded(
    spans: pl.DataFrame, links: Links, collectives: pl.DataFrame, columns: Columns, reading: Reading, identity: Identity
) -> dict[str, bool]:
    """Facts by name; True where the trace has it."""
    names = spans.select("name", "kind").unique(maintain_order=True)
    device = names["kind"].is_in(words.DEVICE_WORK).any()
    annotations = names.filter(pl.col("kind") == "annotation")["name"]
    host = names.filter(pl.col("kind").is_in(["op", "annotation"]))["name"]
    python = names.filter(pl.col("kind") == "python")["name"]
    kind = names["kind"]
    args = list(columns.collectives.values())
    return {
        "device_kernels": bool(device),
        "launches": bool((kind == "runtime").any()),
        "correlation": links.by == "correlation",
        "operators": bool((kind == "op").any()),
        "sequence_numbers": bool((spans["sequence"].fill_null(-1) >= 0).any()),
        "evaluate_function": bool(host.str.starts_with("autograd::engine::evaluate_function").any()),
        "forward_ranges": bool(host.str.contains(_FORWARD).any() or python.str.starts_with("nn.Module: ").any()),
        "module_frames": bool(python.str.starts_with("nn.Module: ").any()),
        "python_stacks": bool(python.len() > 0 or "call_stacks" in columns.seen),
        "shapes": "shapes" in columns.seen,
        "memory": bool(columns.memory),
        "flops": bool((spans["flops"].fill_null(0) > 0).any()),
        "step_markers": bool(annotations.str.starts_with("ProfilerStep#").any()),
        "loader": bool(host.str.starts_with("enumerate(DataLoader)#").any()),
        "optimizer_ranges": bool(host.str.starts_with("Optimizer.step#").any()),
        "saves": bool(python.len() > 0),
        "collectives": collectives.height > 0,
        "collective_metadata": any(a.collective is not None for a in args),
        "collective_sequence": any(a.collective_seq is not None for a in args),
        "group_ranks": bool(identity.groups) or any(a.group_ranks is not None for a in args),
        "units": bool(host.str.contains(r"^FSDP::").any()),
        "warmup": _kernels_complete(spans, links),
        "complete_window": not any("ends" in finding or "gzip" in finding for finding in reading.findings),
        "stream_sync": bool((kind == "sync").any()),
    }


def _kernels_complete(spans: pl.DataFrame, links: Links) -> bool:
    """False where launches are missing their kernels: the profiler was started without warm-up, or its buffer wrapped."""
    launches = spans.filter(pl.col("kind") == "runtime").filter(pl.col("name").str.contains(_LAUNCHES))["id"].to_numpy()
    if not len(launches) or not spans["kind"].is_in(words.DEVICE_WORK).any():
        return True
    answered = np.zeros(spans.height, dtype=bool)
    answered[links.launch[links.launch >= 0]] = True
    return int((~answered[launches]).sum()) <= LOST_LAUNCH_SHARE * len(launches)
