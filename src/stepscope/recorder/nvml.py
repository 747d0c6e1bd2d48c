"""What does the driver say of this rank's GPU? NVML, called in the library itself; nothing where there is none.

Clocks in Hz, power in W, memory in bytes, counters as they are. Written by NVML's documentation and tried against a stand-in
library only: no run of it on hardware is recorded here.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

from stepscope.recorder.signals import Signal

SM, MEMORY = 1, 2  # nvmlClockType_t
TEMPERATURE_GPU = 0
MOST_NVLINKS = 18


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class Nvml:
    """One device. Raises OSError where the library or the device is not there."""

    def __init__(self, local_rank: int, library: str = "libnvidia-ml.so.1") -> None:
        self._call = ctypes.CDLL(library)
        self._ask(self._call.nvmlInit_v2)
        self._device = ctypes.c_void_p()
        visible = [word.strip() for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
        chosen = visible[local_rank] if local_rank < len(visible) else str(local_rank)
        if chosen.isdecimal():
            self._ask(self._call.nvmlDeviceGetHandleByIndex_v2, ctypes.c_uint(int(chosen)), ctypes.byref(self._device))
        else:
            self._ask(self._call.nvmlDeviceGetHandleByUUID, chosen.encode(), ctypes.byref(self._device))

    def read(self) -> Iterator[Signal]:
        """What the device answers; what it does not know is left out."""
        for metric, unit, factor, function, extra in (
            ("sm_clock", "Hz", 1e6, "nvmlDeviceGetClockInfo", (ctypes.c_int(SM),)),
            ("memory_clock", "Hz", 1e6, "nvmlDeviceGetClockInfo", (ctypes.c_int(MEMORY),)),
            ("gpu_temperature", "C", 1, "nvmlDeviceGetTemperature", (ctypes.c_int(TEMPERATURE_GPU),)),
            ("power", "W", 1e-3, "nvmlDeviceGetPowerUsage", ()),
            ("power_limit", "W", 1e-3, "nvmlDeviceGetEnforcedPowerLimit", ()),
            ("pcie_replays", "count", 1, "nvmlDeviceGetPcieReplayCounter", ()),
        ):
            value = ctypes.c_uint()
            if self._answers(function, *extra, ctypes.byref(value)):
                yield "gpu", metric, unit, value.value * factor
        reasons = ctypes.c_ulonglong()
        if self._answers("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.byref(reasons)):
            yield "gpu", "clock_reasons", "mask", float(reasons.value)
        memory = _Memory()
        if self._answers("nvmlDeviceGetMemoryInfo", ctypes.byref(memory)):
            yield "gpu", "memory_used", "bytes", float(memory.used)
            yield "gpu", "memory_free", "bytes", float(memory.free)
        errors, links = 0, 0
        for link in range(MOST_NVLINKS):
            count = ctypes.c_ulonglong()
            if self._answers("nvmlDeviceGetNvLinkErrorCounter", ctypes.c_uint(link), ctypes.c_int(1), ctypes.byref(count)):
                errors, links = errors + count.value, links + 1
        if links:
            yield "gpu", "nvlink_errors", "count", float(errors)

    def _answers(self, function: str, *args: object) -> bool:
        call = getattr(self._call, function, None)
        return call is not None and call(self._device, *args) == 0

    @staticmethod
    def _ask(call: object, *args: object) -> None:
        if (code := call(*args)) != 0:  # type: ignore[operator]
            raise OSError(code, f"NVML says {code}")
