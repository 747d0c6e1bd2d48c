"""The closed vocabularies: layers, phases, parts, span kinds, span flags.

Every table, every output and every page uses these words and no others.
"""

from __future__ import annotations

from typing import Final

LAYERS: Final = ("S", "L1", "L2/L3", "L4", "L5", "L6", "L7", "L8", "L9")
"""Storage, application, framework and parallelism, kernels, NCCL, transport, fabric, interconnect, GPU and HBM."""

PHASES: Final = ("input", "forward", "backward", "synchronization", "optimizer", "checkpoint")
"""Phases of a step; they overlap and are never added up."""

PARTS: Final = (
    "input_wait",
    "forward",
    "backward",
    "optimizer",
    "other_compute",
    "comm_wait",
    "comm_transfer",
    "comm_unsplit",
    "copy",
    "checkpoint",
    "host_bound",
    "idle",
)
"""Exclusive parts of one rank's step; they sum to its duration in integer ns."""

COMM_PARTS: Final = ("comm_wait", "comm_transfer", "comm_unsplit")

KINDS: Final = (
    "op",  # framework operator on a host thread (aten::…, autograd::…, c10d::…)
    "annotation",  # range named by the framework or the user (ProfilerStep#, FSDP::…, ## data ##)
    "runtime",  # CUDA/HIP runtime or driver call on a host thread
    "python",  # python frame: an overlay, never a part of its own
    "kernel",  # compute kernel on a device stream
    "collective",  # communication kernel on a device stream
    "memcpy",
    "memset",
    "sync",  # device-side synchronisation record
    "overlay",  # gpu_user_annotation, Trace rows and other drawings over the real work
)
"""Kinds of span. Device work is exactly `DEVICE_WORK`."""

DEVICE_WORK: Final = ("kernel", "collective", "memcpy", "memset")
HOST_KINDS: Final = ("op", "annotation", "runtime", "python")

LANES: Final = ("host", "device")
MATCHES: Final = ("sequence", "order", "order_with_gaps", "alone")
"""How a collective was matched across ranks, the surest first: by sequence number, by order, by order with losses, not."""

PASSES: Final = ("forward", "backward")

# Bits of the column `flags` of the span table.
CLIPPED: Final = 1  # duration overflowed and was cut at the next start on its in-order stream
REPAIRED: Final = 2  # the event's bytes were damaged and mended
NO_DURATION: Final = 4  # duration absent, negative or not a number: kept as a point, in no sum
