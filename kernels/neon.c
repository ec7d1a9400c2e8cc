/* The three 64-bit ARM sets, each over the one before it: plain NEON, the dot product (ARMv8.2),
 * 8-bit matrices (ARMv8.6).
 * SPDX-License-Identifier: MIT */
#include "lut.h"
#include "v128.h"

#if defined(QSF_V128) && defined(__aarch64__)
#include "neon_tile.h"

void qsf_kernels_neon(qsf_kernels *k, uint32_t cpu)
{
    k->isa = "neon";
    qsf_matmul_neon(k);
    qsf_lut_v128(k);
    qsf_float_v128(k);
    qsf_narrow_v128(k);
    qsf_attention_v128(k);
    qsf_vector_v128(k);
    qsf_top_k_v128(k);
    qsf_convert_v128(k);
    qsf_scan_v128(k);
    qsf_sample_v128(k);
    if (!(cpu & QSF_CPU_DOTPROD)) return;
    k->isa = "dotprod";
    qsf_matmul_dotprod(k);
    qsf_attention_dotprod(k);
    if (!(cpu & QSF_CPU_I8MM)) return;
    k->isa = "i8mm";
    qsf_matmul_i8mm(k);
}
#endif
