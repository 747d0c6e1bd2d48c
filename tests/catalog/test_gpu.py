"""GPUs: units, and what is not known."""

from __future__ import annotations

import pytest

from stepscope.catalog.gpu import gpu_names, load_gpu
from stepscope.model.errors import UsageMistake


def test_base_units() -> None:
    h100 = load_gpu("h100-sxm")

    assert h100.memory_bytes == 81559 * 1024 * 1024
    assert h100.memory_bytes_per_s == 3.35e12
    assert h100.peak_flops("bf16") == 989.4e12
    assert h100.matmul_flops("bf16") == 794.5e12
    assert (h100.compute.units, h100.clock.boost_mhz, h100.clock.peak_mhz) == (132, 1980, 1830)
    assert h100.scale_up is not None
    assert (h100.scale_up.kind, h100.scale_up.links, h100.scale_up.gbps) == ("nvlink", 18, 450)


def test_what_is_not_known_or_not_there_is_none() -> None:
    v100 = load_gpu("v100-sxm2-32gb")

    assert v100.peak_flops("bf16") is None
    assert v100.matmul_flops("fp16") is None
    assert load_gpu("l40s").scale_up is None


@pytest.mark.parametrize("name", gpu_names())
def test_a_narrower_dtype_is_never_slower_and_nothing_beats_the_peak(name: str) -> None:
    gpu = load_gpu(name)
    peaks = [gpu.peak_flops(dtype) for dtype in ("fp32", "tf32", "bf16", "fp8")]
    known = [peak for peak in peaks if peak is not None]

    assert known == sorted(known)
    for dtype in ("bf16", "fp8"):
        best, peak = gpu.matmul_flops(dtype), gpu.peak_flops(dtype)
        assert best is None or (peak is not None and 0.4 * peak < best < peak)


def test_a_name_that_is_almost_one() -> None:
    with pytest.raises(UsageMistake, match=r"^h100-smx: no such GPU; did you mean h100-sxm\? known: a100-sxm-40gb, "):
        load_gpu("h100-smx")
