/* Quantisers: floats to blocks.  The search for scale and zero decides a file's quality; see
 * docs/quantisers.md.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_QUANT_H
#define QSF_QUANT_H

#include "tensor/quant_search.h"
#include "tensor/types.h"

/* of w, w - w', w . w', w' */
typedef struct qsf_quant_error { double sum_sq, err_sq, dot, deq_sq; } qsf_quant_error;

/* One row of cols floats to ceil(cols / block) packing 0 blocks of a QSF type at dst.
 * importance[cols]: weight of each column's squared error (mean squared activation), or NULL:
 * without calibration.  Types without scales take values in steps, near -1, 0 and 1 (QK256: -2, -1,
 * 1 and 2), and know no importance.  Adds to *e if not NULL. */
qsf_status qsf_quantize_row(uint32_t type, uint32_t block, const float *w, uint32_t cols,
                            const float *importance, void *dst, qsf_quant_error *e, qsf_error *err);

/* How the type's grid is searched; NULL: it has no scales, or is none of QSF's quantised types. */
const qsf_quant_rule *qsf_quant_rule_of(uint32_t type);
/* Whether blocks have scales that are searched for: there is a rule, or it is a table. */
bool qsf_quant_fits(uint32_t type);
/* The best scale and zero of one of these for x[n], and their codes; see qsf_quant_search. */
qsf_quant_fit qsf_quant_fit_of(uint32_t type, const float *x, const float *w, size_t n, uint8_t *code);
/* The largest weight that a type can have, of either sign. */
float qsf_quant_most(uint32_t type);
/* The value of a code. */
float qsf_quant_value(uint32_t type, const qsf_quant_fit *f, uint8_t code);
/* Writes a packing 0 block of such a type: the fit's scale and zero, then n codes.  Returns the
 * position after it. */
uint8_t *qsf_quant_put_block(uint8_t *out, uint32_t type, const qsf_quant_fit *f, const uint8_t *code,
                             size_t n);

#endif
