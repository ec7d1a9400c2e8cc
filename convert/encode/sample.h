/* What a form would cost a matrix, encoded on a sample of its rows: see sample.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_SAMPLE_H
#define QSF_CONVERT_SAMPLE_H

#include "encode/source.h"

/* *loss: tr(E H E') / tr(W H W') of tensor i in the form c, on tiles from all over the matrix (of
 * s->expert, over its rows); without a factor, the relative squared error of the weights. */
qsf_status qsf_enc_sample(encode_source *s, input *in, uint32_t i, const convert_tensor *c, double *loss,
                          qsf_error *err);

#endif
