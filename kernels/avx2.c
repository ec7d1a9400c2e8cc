/* The AVX2 set: AVX2, FMA and F16C (Haswell, Zen 1 and later).
 * SPDX-License-Identifier: MIT */
#include "five.h"
#include "lut.h"

#if defined(__x86_64__)
void qsf_kernels_avx2(qsf_kernels *k)
{
    k->isa = "avx2";
    qsf_matmul_avx2(k);
    qsf_five_fill_avx2(k);
    qsf_trellis_avx2(k);
    qsf_lut_avx2(k);
    qsf_float_avx2(k);
    qsf_narrow_avx2(k);
    qsf_attention_avx2(k);
    qsf_vector_avx2(k);
    qsf_top_k_avx2(k);
    qsf_convert_avx2(k);
    qsf_scan_avx2(k);
    qsf_sample_avx2(k);
}
#endif
