/* A share of every layer: some of its heads and of its feed-forward's columns, while other shares
 * have the rest (tensor parallelism).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SHARE_H
#define QSF_SHARE_H

#include "model/source.h"

#include "base/pool.h"

enum { QSF_MOST_SHARES = 256 };

#if defined(QSF_NO_SHARES)      /* of a program that always opens whole layers */
static inline qsf_status qsf_share_set(qsf_source *s, uint32_t i, uint32_t n, const uint32_t *sizes,
                                       qsf_error *err)
{
    (void)s, (void)i, (void)n, (void)sizes, (void)err;
    return QSF_OK;
}
static inline const qsf_layer *qsf_share_whole(const qsf_source *s, uint32_t unit)
{
    return qsf_source_layer(s, unit);
}
static inline void qsf_share_matrix(const qsf_source *s, uint32_t layer, uint32_t kind, qsf_range *rows,
                                    qsf_range *cols)
{
    (void)s, (void)layer, (void)kind;
    *rows = *cols = (qsf_range){ 0, 0 };
}
#else
/* Makes s share i of n of an open file: layer records describe its heads and columns, units have
 * its rows and columns of matrices and are read in pieces, and only the first share has a head.
 * sizes: [n] relative sizes of the shares, NULL: equal.  n < 2: the whole.
 *
 * QSF_E_ARGUMENT      the share does not exist QSF_E_UNSUPPORTED   layers of this model, or
 * matrices of this file, cannot be divided like this */
qsf_status qsf_share_set(qsf_source *s, uint32_t i, uint32_t n, const uint32_t *sizes, qsf_error *err);

/* The record of a whole layer; NULL: the unit is not a layer.  qsf_source_layer has the share's. */
const qsf_layer *qsf_share_whole(const qsf_source *s, uint32_t unit);
/* Which rows and columns the share has of a layer's matrix. */
void qsf_share_matrix(const qsf_source *s, uint32_t layer, uint32_t kind, qsf_range *rows, qsf_range *cols);
#endif

#endif
