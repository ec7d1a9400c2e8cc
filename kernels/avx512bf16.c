/* The AVX-512 BF16 set (Zen 4, Cooper Lake, Sapphire Rapids and later): vdpbf16ps, over the AVX-512
 * set.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
void qsf_kernels_avx512bf16(qsf_kernels *k)
{
    k->isa = "avx512bf16";
    qsf_float_avx512bf16(k);
}
#endif
