/* The SSE4.2 set (Nehalem, Bulldozer and later).
 * SPDX-License-Identifier: MIT */
#include "lut.h"
#include "v128.h"

#if defined(__x86_64__)
void qsf_kernels_sse42(qsf_kernels *k)
{
    k->isa = "sse42";
    qsf_matmul_sse42(k);
    qsf_lut_v128(k);
    qsf_float_v128(k);
    qsf_narrow_v128(k);
    qsf_attention_v128(k);
    qsf_vector_v128(k);
    qsf_top_k_v128(k);
    qsf_convert_v128(k);
    qsf_scan_v128(k);
    qsf_sample_v128(k);
}
#endif
