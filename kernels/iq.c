/* What the sets share of GGUF's codebook types; the products are in iq_avx2.c and its siblings.
 * SPDX-License-Identifier: MIT */
#include "iq.h"

#define IQ_SET(name) name##_plain
#define IQ_WIDE 16
#include "iq_read.h"

const int8_t qsf_iq_codes[4][2][16] = {
    [QSF_IQ1] = { { 0, 8, 16, 24, 0, 8, 16, 24, 0, 8, 16, 24, 0, 8, 16, 24 },
                  { 0, 0, 0, 0, 8, 8, 8, 8, 16, 16, 16, 16, 24, 24, 24, 24 } },
    [QSF_IQ2] = { { 8, 25, 43, 0, 8, 25, 43, 0, 8, 25, 43, 0, 8, 25, 43, 0 },
                  { 8, 8, 8, 8, 25, 25, 25, 25, 43, 43, 43, 43, 0, 0, 0, 0 } },
    [QSF_IQ3XXS] = { { 4, 12, 20, 28, 36, 44, 52, 62 }, { 0 } },
    [QSF_IQ3S] = { { 1, 3, 5, 7, 9, 11, 13, 15 }, { 0 } },
};

void qsf_iq_read(qsf_iq_tile *t, qsf_form f, const uint8_t *w) { iq_read_plain(t, f, w); }
