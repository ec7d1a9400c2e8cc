/* What the layers of a model need to be computed, derived from the rows of their programs.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_NEEDS_H
#define QSF_NEEDS_H

#include "layers/program.h"

enum { QSF_SCRATCHES = 4 };

typedef struct qsf_needs {
    uint32_t cols[QSF_N_BUFFERS];       /* of each buffer, those that rows read or write; 0: not used */
    uint32_t widest;                    /* columns of the widest matrix, which a row of codes has, too */
    uint32_t n_scratches;
    qsf_scratch_fn *scratches[QSF_SCRATCHES];   /* all that rows ask for */
} qsf_needs;

/* Adds what a program needs. */
void qsf_needs_add(qsf_needs *n, const qsf_program *g);
/* Of all layers of a model, its embedding and its head; no weights have to be in memory. */
void qsf_needs_of(const qsf_source *s, qsf_needs *n);

#endif
