/* The AMX set (Sapphire Rapids and later): products of tiles of int8, over the AVX-512 BF16 set.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(QSF_AMX)
void qsf_kernels_amx(qsf_kernels *k)
{
    k->isa = "amx";
    qsf_matmul_amx(k);
}
#endif
