/* The codebooks of GGUF's IQ types: an index in a block stands for the magnitudes of 8 or 4
 * columns.
 * SPDX-License-Identifier: MIT
 *
 * Entries are packed: IQ2's and IQ1's have eight fields of 2 bits, column i in bits 2i; IQ3's four
 * fields of 4 bits, column i in bits 4i (the highest bit of a field is 0).  What a field stands for
 * is in the comments; signs are apart.  9 KB in all. */
#ifndef QSF_CODEBOOKS_H
#define QSF_CODEBOOKS_H

#include "base/base.h"

#if defined(QSF_SMALL_CODE)     /* where 7 KB in a download matter, the platform makes them */
#  define QSF_CODEBOOK uint16_t
#else
#  define QSF_CODEBOOK const uint16_t
#endif

/* 8, 25, 43 of fields 0, 1, 2: qsf_iq2[field].  Value = d * (scale + 0.5) / 4 * magnitude. */
extern QSF_CODEBOOK qsf_iq2_xxs_grid[256], qsf_iq2_xs_grid[512], qsf_iq2_s_grid[1024];
/* 4, 12, 20, 28, 36, 44, 52, 62: qsf_iq3_xxs[field].  Value = d * (scale + 0.5) / 2 * magnitude. */
extern QSF_CODEBOOK qsf_iq3_xxs_grid[256];
/* 2 * field + 1.  Value = d * (2 * scale + 1) * magnitude. */
extern QSF_CODEBOOK qsf_iq3_s_grid[512];
/* field - 1.  Value = d * (2 * scale + 1) * (field - 1 +- 1/8); IQ1_S and IQ1_M share it. */
extern QSF_CODEBOOK qsf_iq1_grid[2048];

/* The same a byte a column, if kernels take entries whole: 8 times the field of IQ1.  33 KB. */
#if defined(__x86_64__)
extern const uint64_t qsf_iq2_xxs_codes[256], qsf_iq2_xs_codes[512], qsf_iq2_s_codes[1024];
extern const uint32_t qsf_iq3_xxs_codes[256], qsf_iq3_s_codes[512];
extern const uint64_t qsf_iq1_codes[2048];
#endif

extern const int8_t qsf_iq2[4], qsf_iq3_xxs[8];

/* Signs of eight columns, bit i set: column i is negative.  IQ2_XXS, IQ2_XS and IQ3_XXS store
 * seven; the eighth makes their number even. */
static inline uint32_t qsf_iq_signs(uint32_t seven)
{
    const uint32_t folded = seven ^ seven >> 4;
    return seven | (0x6996u >> (folded & 15) & 1) << 7;
}

#endif
