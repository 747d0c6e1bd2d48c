"""torch memory snapshots (`torch.cuda.memory._dump_snapshot`): what was live when it was written, and the highest before.

Format: a pickle of `segments` (address, total_size, blocks with size and state) and `device_traces` (alloc, free_completed,
segment_alloc, segment_free, ...), torch 2.1 to 2.13, opened by the restricted unpickler. Blocks are told apart by the Python
frames that asked for them, where history was recorded; that is a rule of thumb. The file says nothing of the context and of NCCL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from stepscope.model.errors import BadInput
from stepscope.model.snapshot import MeasuredMemory
from stepscope.sources import plain_pickle

LIVE: Final = ("active_allocated", "active_pending_free", "active_awaiting_free")
MAX_EVENTS: Final = 5_000_000
FRAMES: Final = (
    ("optimizer", ("/optim/", "optimizer.py", "_init_group")),
    ("reduce-scatter input", ("foreach_reduce", "reduce_scatter")),
    ("unsharded units", ("all_gather", "foreach_all_gather", "init_unsharded_param", "unshard")),
    ("loss head", ("cross_entropy", "nll_loss", "log_softmax")),
    ("gradients", ("backward", "accumulate_grad")),
    ("weights", ("_apply", "to_empty", "init_weights", "reset_parameters", "load_state_dict")),
    ("activations", ("forward", "_call_impl", "modules/")),
)
"""Term, and words of which one stands in a frame's file or function; the first term that matches wins."""


def read_snapshot(path: Path) -> MeasuredMemory:
    """What a snapshot says of its fullest device. Raises BadInput where it is none, damaged, or more than data."""
    data = plain_pickle.contents(path, "is opened; dump with fewer max_entries", "; check the path")
    found = plain_pickle.load(data, str(path))
    if not isinstance(found, dict) or not isinstance(found.get("segments"), list):
        raise BadInput(f"{path}: no memory snapshot (it has no segments); dump one with torch.cuda.memory._dump_snapshot")
    segments = [s for s in found["segments"] if isinstance(s, dict)]
    devices = sorted({_int(s.get("device")) for s in segments}) or [0]
    each = [_device(path, d, [s for s in segments if _int(s.get("device")) == d], found.get("device_traces")) for d in devices]
    return max(each, key=lambda m: m.reserved_bytes or 0)


def _device(path: Path, device: int, segments: list[Mapping[str, Any]], traces: Any) -> MeasuredMemory:
    reserved = sum(_int(s.get("total_size")) for s in segments)
    terms: dict[str, int] = {}
    live = 0
    for block in _blocks(segments):
        if block.get("state") in LIVE:
            size = _int(block.get("size"))
            live += size
            terms[_term(block)] = terms.get(_term(block), 0) + size
    events = traces[device] if isinstance(traces, list) and device < len(traces) and isinstance(traces[device], list) else []
    most_live, most_reserved = _highest(events, live, reserved)
    notes = [] if events else ["no history was recorded: the figures are those of the moment at which it was written"]
    return MeasuredMemory(
        source=f"{path.name}, GPU {device}",
        allocated_bytes=most_live,
        reserved_bytes=most_reserved,
        now_allocated_bytes=live,
        terms=dict(sorted(terms.items(), key=lambda t: -t[1])),
        notes=tuple(notes),
    )


def _blocks(segments: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for segment in segments:
        blocks = segment.get("blocks")
        if isinstance(blocks, list):
            yield from (b for b in blocks if isinstance(b, dict))


def _highest(events: list[Any], live: int, reserved: int) -> tuple[int, int]:
    """The most that was live and reserved: the history walked backwards from the end."""
    most_live, most_reserved = live, reserved
    for event in reversed(events[-MAX_EVENTS:]):
        if not isinstance(event, dict):
            continue
        action, size = event.get("action"), _int(event.get("size"))
        if action == "alloc":
            live -= size
        elif action == "free_completed":
            live += size
        elif action == "segment_alloc" or action == "segment_map":
            reserved -= size
        elif action == "segment_free" or action == "segment_unmap":
            reserved += size
        most_live, most_reserved = max(most_live, live), max(most_reserved, reserved)
    return most_live, most_reserved


def _term(block: Mapping[str, Any]) -> str:
    frames = block.get("frames")
    if not isinstance(frames, list):
        history = block.get("history")
        frames = history[0].get("frames") if isinstance(history, list) and history and isinstance(history[0], dict) else None
    if not isinstance(frames, list) or not frames:
        return "not recorded"
    words = [f"{f.get('filename', '')} {f.get('name', '')}" for f in frames if isinstance(f, dict)]
    for term, marks in FRAMES:
        if any(mark in word for word in words for mark in marks):
            return term
    return "other"


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 50 else 0
