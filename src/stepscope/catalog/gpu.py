"""What is one GPU capable of, by its maker's word and by measurement?

`*_gbps` is 1e9 bytes a second each way, TFLOP/s are dense. What is not known is None, never 0; a dtype the GPU has no fast path
for is None too (bf16 on a V100 is emulated).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from stepscope.catalog import document
from stepscope.catalog.bounds import Bytes, Count, Name, Nanoseconds, Rate, Text
from stepscope.catalog.document import Sourced

Dtype = Literal["fp32", "tf32", "bf16", "fp16", "fp8"]


class Memory(Sourced, frozen=True, kw_only=True):
    """Device memory: `bytes` as the driver reports the total, `gbps` the peak."""

    bytes: Bytes
    gbps: Rate


class Throughput(Sourced, frozen=True, kw_only=True):
    """TFLOP/s of matrix products by dtype (fp32: the plain units)."""

    fp32: Rate | None = None
    tf32: Rate | None = None
    bf16: Rate | None = None
    fp16: Rate | None = None
    fp8: Rate | None = None


class Compute(Sourced, frozen=True, kw_only=True):
    """`units`: streaming multiprocessors (NVIDIA) or compute units (AMD)."""

    units: Count


class Clock(Sourced, frozen=True, kw_only=True):
    """MHz: `boost` the highest, `base` the guaranteed one, `peak` that at which the peak TFLOP/s are stated (else boost)."""

    boost_mhz: Rate
    base_mhz: Rate | None = None
    peak_mhz: Rate | None = None


class Cache(Sourced, frozen=True, kw_only=True):
    """`l2_bytes` of the whole GPU; `last_level_bytes` behind it where there is one (AMD's Infinity Cache)."""

    l2_bytes: Bytes
    last_level_bytes: Bytes | None = None


class Power(Sourced, frozen=True, kw_only=True):
    """Power cap of the board in watts."""

    cap_w: Rate


class Pcie(Sourced, frozen=True, kw_only=True):
    """The slot: generation, lanes, and what a copy gets each way (`payload_gbps`, below the line rate)."""

    generation: Count
    lanes: Count
    payload_gbps: Rate


class Port(Sourced, frozen=True, kw_only=True):
    """NVLink or xGMI of one GPU: `gbps` over all its `links`; `nccl_link_gbps` is what NCCL's planner takes a link for."""

    kind: Literal["nvlink", "xgmi"]
    links: Count
    gbps: Rate
    generation: Count | None = None
    nccl_link_gbps: Rate | None = None


class Launch(Sourced, frozen=True, kw_only=True):
    """From a kernel's launch on an idle stream to its start."""

    latency_ns: Nanoseconds


class Gpu(Sourced, frozen=True, kw_only=True):
    """A GPU of the catalog, or of a user's file."""

    name: Name
    title: Text
    vendor: Literal["nvidia", "amd"]
    arch: Name
    memory: Memory
    peak_tflops: Throughput
    matmul_tflops: Throughput = Throughput()
    compute: Compute
    clock: Clock
    cache: Cache | None = None
    power: Power | None = None
    pcie: Pcie
    scale_up: Port | None = None
    launch: Launch | None = None

    @property
    def memory_bytes(self) -> int:
        """Total device memory."""
        return self.memory.bytes

    @property
    def memory_bytes_per_s(self) -> float:
        """Peak bandwidth of the device memory."""
        return self.memory.gbps * 1e9

    def peak_flops(self, dtype: Dtype) -> float | None:
        """Dense peak in FLOP/s, None where the GPU has no units for that dtype."""
        value: float | None = getattr(self.peak_tflops, dtype)
        return None if value is None else value * 1e12

    def matmul_flops(self, dtype: Dtype) -> float | None:
        """FLOP/s that the best matrix product was measured to reach, None where nobody measured."""
        value: float | None = getattr(self.matmul_tflops, dtype)
        return None if value is None else value * 1e12


def gpu_names() -> tuple[str, ...]:
    """GPUs of the catalog, sorted."""
    return document.names("gpus")


def load_gpu(wanted: str | Path) -> Gpu:
    """A GPU by name, or from a user's TOML file by path. UsageMistake for an unknown name, BadInput for a bad file."""
    return document.load(wanted, "gpus", "GPU", Gpu)[1]
