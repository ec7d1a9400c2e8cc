/* The AVX-VNNI set (Alder Lake and later): vpdpbusd without AVX-512, over the AVX2 set.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
void qsf_kernels_avxvnni(qsf_kernels *k)
{
    k->isa = "avxvnni";
    qsf_matmul_avxvnni(k);
}
#endif
