"""How each vendor's profiler names things: categories of events, communication kernels, operations, data types.

Categories are compared without case (`Kernel`, `kernel`); kernel families by their library's prefix.
"""

from __future__ import annotations

import re
from typing import Final

CATEGORY: Final = {
    "cpu_op": "op",
    "operator": "op",
    "user_annotation": "annotation",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "runtime": "runtime",
    "driver": "runtime",
    "hip_runtime": "runtime",
    "xpu_runtime": "runtime",
    "xpu_driver": "runtime",
    "mtia_runtime": "runtime",
    "glow_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "privateuse1_driver": "runtime",
    "hpu_op": "kernel",
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "mtia_ccp_events": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cuda_sync": "sync",
    "python_function": "python",
    "gpu_user_annotation": "overlay",
    "mtia_user_annotation": "overlay",
    "overhead": "overlay",
    "trace": "overlay",
    "collective_comm": "overlay",
    "mtia_insight": "overlay",
    "cuda_profiler_range": "overlay",
    "critical_path": "overlay",
}
"""Category (lower case) -> kind of span. From libkineto's ActivityType names, 2020 to 2026."""

RUNTIME_VENDOR: Final = (("hip", "hip"), ("cu", "cuda"), ("ur", "xpu"), ("ze", "xpu"), ("sycl", "xpu"), ("mtia", "mtia"))
"""Prefix of a runtime call's name -> device family."""

# Communication kernels: NCCL (ncclKernel_, ncclDevKernel_, ncclSymkDevKernel_), RCCL (same names, or rccl…), HCCL,
# oneCCL, MSCCL(++), NVSHMEM and the symmetric-memory and custom all-reduce kernels of PyTorch and vLLM.
COMMUNICATION: Final = re.compile(
    r"(?:^|[^a-z])(?:nccl|rccl|hccl|oneccl|msccl|nvshmem)|^(?:void )?(?:\w+::)*(?:multimem_|(?:one|two)_shot_all_reduce)"
    r"|cross_device_reduce|symmetric_memory",
    re.IGNORECASE,
)

# Names of ranges that old profilers (cat `Operator`) did not tell from operators.
ANNOTATION: Final = re.compile(
    r"^(?:ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)#|## |\[param\||DistributedDataParallel\.|FullyShardedDataParallel\."
    r"|FSDP::|(?:nccl|gloo|rccl|hccl|ucc|mpi|xccl):)"
)

_OPERATIONS: Final = (
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("sendrecv", "send_recv"),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("reduce", "reduce"),
    ("send", "send_recv"),
    ("recv", "send_recv"),
)
_IN_KERNEL: Final = re.compile("(allreduce|allgather|reducescatter|alltoall|sendrecv|broadcast|reduce)", re.IGNORECASE)
SYMMETRIC: Final = ("all_reduce", "all_gather", "reduce_scatter", "barrier")

DTYPE_BYTES: Final = {
    "float": 4, "float32": 4, "c10::half": 2, "half": 2, "float16": 2, "c10::bfloat16": 2, "bfloat16": 2, "double": 8,
    "float64": 8, "long int": 8, "long": 8, "int64": 8, "int": 4, "int32": 4, "short": 2, "char": 1, "signed char": 1,
    "unsigned char": 1, "byte": 1, "bool": 1, "uint8": 1, "int8": 1, "c10::float8_e4m3fn": 1, "c10::float8_e5m2": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "c10::complex<float>": 8, "c10::complex<double>": 16,
}  # fmt: skip
"""Bytes of an element, by the names that torch's profiler writes for tensors and for collectives (lower case)."""


def operation(name: str) -> str | None:
    """The collective operation that a kernel, annotation or call names; None where it names none (`…_Generic`)."""
    text = name.lower().replace("_", "")
    for needle, op in _OPERATIONS:
        if needle in text:
            return op
    return None


def is_generic(name: str) -> bool:
    """RCCL's one kernel for everything: its name says nothing of the operation."""
    return "_generic" in name.lower()


def kernel_operation(name: str) -> str | None:
    """Operation from a kernel's own name, without the reduction and type that follow it."""
    head = name.split("(", 1)[0]
    match = _IN_KERNEL.search(head.replace("_", ""))
    return None if is_generic(head) else operation(match.group(1) if match else head)
