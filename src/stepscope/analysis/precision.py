"""Which number format does a kernel compute in, as far as its name says?

Names are those of cuBLAS, cuDNN, CUTLASS, rocBLAS, MIOpen and PyTorch as they stand in recorded traces (V100, A100, H100,
MI250, MI300X). What decides is the format of the inputs: accumulation in float is usual for all of them.
"""

from __future__ import annotations

import re
from typing import Final

FORMATS: Final = ("fp8", "bf16", "fp16", "tf32", "fp64", "fp32")

_NAMED: Final = (
    # nvjet_<A><B><C>: cuBLAS from CUDA 12 on; q e4m3, t bfloat16, h half
    ("fp8", r"e4m3|e5m2|fp8|_f8_|_F8|nvjet_(?:sm\d+_)?q"),
    # cutlass_80_tensorop_bf16_s16816gemm, sm90_xmma_gemm_bf16bf16_…, c10::BFloat16, __nv_bfloat16, Cijk_…_BBS_BH (rocBLAS)
    ("bf16", r"bf16|bfloat16|nvjet_(?:sm\d+_)?t|Cijk_\w*?_(?:BBS|BSS|B_BS|BB)_"),
    # ampere_fp16_s16816gemm, volta_h884gemm, turing_h1688gemm, sm80_xmma_…_f16f16_…, c10::Half, __half, Cijk_…_HHS / _HB
    ("fp16", r"fp16|_f16|h884|h1688|h16816|hgemm|c10::Half|__half|_half\b|nvjet_(?:sm\d+_)?h|Cijk_\w*?_(?:HHS|HSS|H_HS|HB)_"),
    # sm80_xmma_…_tf32f32_…, cutlass_80_tensorop_s1688gemm (float inputs on tensor cores are TF32), ampere_…_tf32
    ("tf32", r"tf32|tensorop_s1688"),
    ("fp64", r"dgemm|d884|<double\b|f64f64"),
    # ampere_sgemm, volta_scudnn, implicit_convolve_sgemm<float…>, Cijk_…_SB
    ("fp32", r"sgemm|scudnn|\bfloat\b|f32f32|Cijk_\w*?_SB_"),
)
# Kernels that only change the format, and scalars among a template's arguments, say nothing of what is computed in.
_CONVERSION: Final = re.compile(r"(?:float|half|bfloat16)_to_h?fp8|h?fp8\w*_to_(?:float|half|bfloat16)|_to_hfp8", re.IGNORECASE)
_OPTION: Final = re.compile(r"optional<\w+>")
_PATTERNS: Final = tuple((word, re.compile(pattern, re.IGNORECASE if word == "bf16" else 0)) for word, pattern in _NAMED)


def precision(kernel: str) -> str | None:
    """A word of FORMATS; None where the name says nothing (copies, conversions, integer work, kernels that a compiler named)."""
    if _CONVERSION.search(kernel):
        return None
    kernel = _OPTION.sub("", kernel)
    return next((word for word, pattern in _PATTERNS if pattern.search(kernel)), None)
