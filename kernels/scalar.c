/* The scalar set: every entry of the kernel table in plain C, the reference that all others are
 * checked against.
 * SPDX-License-Identifier: MIT */
#include "lut.h"

void qsf_kernels_scalar(qsf_kernels *k)
{
    memset(k, 0, sizeof *k);
    k->isa = "scalar";
    qsf_matmul_scalar(k);
    qsf_lut_scalar(k);
    qsf_narrow_scalar(k);
    qsf_attention_scalar(k);
    qsf_vector_scalar(k);
    qsf_top_k_scalar(k);
    qsf_convert_scalar(k);
    qsf_scan_scalar(k);
#if !(defined(QSF_SMALL_CODE) && defined(__wasm_simd128__))     /* qsf_sample_v128 replaces them all */
    qsf_sample_scalar(k);
#endif
}
