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

/* What an executor must be able to do for a row, besides what the layer's record says. */
typedef struct qsf_row_kind {
    uint8_t op, work, over, when;       /* as of qsf_program_row */
    bool    multiplies;                 /* a matrix of */
    uint8_t type;                       /* this type, as it lies in memory (qsf_type), */
    int8_t  form;                       /* and this form of its tiles; -1: it is not in tiles */
} qsf_row_kind;

/* Adds the kinds of a program's rows, one for each type of a row's matrices, to list[n] unless they
 * are there.  Returns how many it has then; they are cut off at `most`. */
uint32_t qsf_program_kinds(const qsf_program *g, qsf_row_kind *list, uint32_t n, uint32_t most);

#endif
