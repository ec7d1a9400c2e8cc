/* The AVX-512 set: F, BW, DQ, VL and VNNI (Ice Lake, Zen 4 and later), over the AVX2 set.
 * SPDX-License-Identifier: MIT */
#include "five.h"

#if defined(__x86_64__)
void qsf_kernels_avx512(qsf_kernels *k)
{
    k->isa = "avx512";
    qsf_matmul_avx512(k);
    qsf_five_fill_avx512(k);
    qsf_float_avx512(k);
    qsf_narrow_avx512(k);
    qsf_attention_avx512(k);
    qsf_vector_avx512(k);
    qsf_convert_avx512(k);
    qsf_scan_avx512(k);
    qsf_sample_avx512(k);
}
#endif
