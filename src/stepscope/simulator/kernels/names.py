"""What would a profiler call the kernel? Names as the vendor's libraries give them, by architecture and kind.

They are for believable traces: the shape of the tile in a GEMM's name is the usual one, not what a library would choose.
"""

from __future__ import annotations

from typing import Final

_GEMM: Final[dict[str, dict[str, str]]] = {
    "sm_70": {"fp16": "volta_fp16_s884gemm_fp16_128x256_ldg8_f2f_tn", "fp32": "volta_sgemm_128x64_tn"},
    "sm_80": {
        "bf16": "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
        "fp16": "ampere_fp16_s16816gemm_fp16_128x256_ldg8_f2f_stages_64x3_tn",
        "tf32": "ampere_tf32_s1688gemm_tf32_256x128_ldg8_stages_32x3_tn",
        "fp32": "ampere_sgemm_128x64_tn",
    },
    "sm_90": {
        "bf16": "nvjet_tst_256x128_64x4_2x1_v_bz_coopA_TNT",
        "fp16": "nvjet_hsh_256x128_64x4_2x1_v_bz_coopA_TNT",
        "tf32": "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_cublas",
        "fp32": "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_cublas",
        "fp8": "nvjet_qqtst_128x256_128x6_1x2_h_bz_coopB_TNT",
        "fp8-rowwise": "cutlass::device_kernel<enable_3x_kernel_for_sm9x<cutlass::gemm::kernel::GemmUniversal>>",
    },
}
_ATTENTION: Final[dict[str, tuple[str, str, str, str]]] = {
    "triton-flash": ("FlashAttnFunc", "_fwd_kernel", "FlashAttnFuncBackward", "_bwd_kernel"),
    "flash2": (
        "flash_attn::_flash_attn_forward",
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>>",
        "flash_attn::_flash_attn_backward",
        "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8, 2, 4, 2, false, false>>",
    ),
    "flash3": (
        "flash_attn_3::fwd",
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90>>",
        "flash_attn_3::bwd",
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnBwdSm90>>",
    ),
    "sdpa": (
        "aten::_scaled_dot_product_flash_attention",
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t>>",
        "aten::_scaled_dot_product_flash_attention_backward",
        "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, cutlass::bfloat16_t>>",
    ),
    "cudnn": (
        "aten::_scaled_dot_product_cudnn_attention",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0",
        "aten::_scaled_dot_product_cudnn_attention_backward",
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_27_64x64x128_1x1x1_kernel0_0",
    ),
}
POINTWISE: Final = "void at::native::vectorized_elementwise_kernel<4, at::native::{}>"
FUSED: Final = "triton_poi_fused_{}"
REDUCED: Final = "triton_red_fused_{}"


def gemm(arch: str, precision: str) -> str:
    """Name of a matrix product."""
    if arch.startswith("gfx"):
        return "Cijk_Alik_Bljk_BBS_BH_MT256x128x64_MI16x16x1_SN"
    near = arch if arch in _GEMM else "sm_80" if arch in ("sm_86", "sm_89") else "sm_90"
    return _GEMM[near].get(precision) or _GEMM["sm_90"].get(precision, "gemm")


def attention(kernel: str) -> tuple[str, str, str, str]:
    """Operator and kernel forward, operator and kernel backward, of a fused attention."""
    return _ATTENTION[kernel]
