/* The AVX-VNNI products compiled for AVX-512's encoding of vpdpbusd, so that the many machines that
 * have only that one check them.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_AVXVNNI_H
#define KERNELS_AVXVNNI_H

#include "sets.h"

#if defined(__x86_64__)
#  define QSF_AVXVNNI_BY_EVEX 1
#  define qsf_matmul_avxvnni avxvnni_by_evex
static void avxvnni_by_evex(qsf_kernels *k);
#  include "matmul_avxvnni.c"
#  undef qsf_matmul_avxvnni
#endif

#endif
