"""Names of kernels as recorded traces have them."""

import pytest

from stepscope.analysis.precision import precision


@pytest.mark.parametrize(
    ("kernel", "word"),
    [
        ("volta_sgemm_64x64_nt", "fp32"),
        ("volta_scudnn_128x64_relu_interior_nn_v1", "fp32"),
        ("void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>(int, int)", "fp32"),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align1>(Params)", "tf32"),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16", "tf32"),
        ("void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(Params)", "bf16"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute", "bf16"),
        ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16>", "bf16"),
        ("Cijk_Ailk_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT128x256x32_MI16x16x1_SN", "bf16"),
        ("Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN", "fp32"),
        ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8", "bf16"),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", "bf16"),
        ("nvjet_sm90_hss_320x128", "fp16"),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "fp16"),
        ("void split_embedding_codegen_forward_unweighted_kernel<c10::Half, float>", "fp16"),
        ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n", "fp8"),
        ("volta_dgemm_64x64_nn", "fp64"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >", None),
        ("triton_poi_fused_add_0", None),
    ],
)
def test_the_format_is_in_the_name(kernel: str, word: str | None) -> None:
    assert precision(kernel) == word
