/* The search for a block's scale and zero: the grid that loses least of the block's weights.
 * SPDX-License-Identifier: MIT
 *
 * A grid is n_levels equal steps; its lowest level is lo steps from zero: value = step * (lo +
 * code).  lo is an integer if zero is a level, and an integer and a half if zero lies between two
 * levels (the half-step grid of 2 bits). */
#ifndef QSF_QUANT_SEARCH_H
#define QSF_QUANT_SEARCH_H

#include "base/base.h"

typedef struct qsf_quant_rule {
    uint8_t n_levels;
    bool    has_zero;      /* the type stores one: lo * step must be an fp16 number, too */
    bool    any_lo;        /* lo is searched for among the integers: zero stays exactly a level */
    bool    free_zero;     /* the grid may lie anywhere (2 bits; calibrated data) */
    bool    both_signs;    /* the step may be negative: for grids with one more level on one side */
    float   lo;            /* its value if it is not searched for */
    float   narrow;        /* smallest step tried, as a share of the step that clips nothing */
    uint8_t n_steps;       /* how many steps are tried from there to a little above 1 */
} qsf_quant_rule;

enum { QSF_QUANT_MOST = 256 };   /* weights in a block */

/* value = scale * code + zero, both exactly fp16 numbers.
 * If the zero is not free, zero == lo * scale exactly. */
typedef struct qsf_quant_fit { float scale, zero, lo; } qsf_quant_fit;

/* x[n], w[n]: values and the weights (>= 0) of their squared errors; n is a multiple of 8, at most
 * QSF_QUANT_MOST, both finite.
 * Writes code[n] and returns the fit.  All-zero input gives scale 0 if the rule has no zero. */
qsf_quant_fit qsf_quant_search(const qsf_quant_rule *rule, const float *x, const float *w, size_t n,
                               uint8_t *code);

#endif
