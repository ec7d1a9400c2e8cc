/* Pooling of hidden states, as embeddings of one text and of many share it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_EMBED_H
#define QSF_EMBED_H

#include "engine/context.h"
#include "model/part.h"

/* Most texts in one batch. */
enum { EMBED_PARTS = 64 };

/* What a caller means by a pooling: the file's where it says none, else the mean. */
qsf_pooling qsf_pooling_of(const qsf_hparams *hp, qsf_pooling asked);
/* Which rows it takes: what is ranked is a mean or one token. */
qsf_pooling qsf_pooling_rows(const qsf_hparams *hp, qsf_pooling how);
/* Brings x to the length 1; zeros stay what they are. */
void qsf_hidden_unit(float *x, size_t n);

#endif
