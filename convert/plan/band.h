/* Bands of rows: read, scaled, quantised; also on a sample, to measure what a form would cost.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_BAND_H
#define QSF_CONVERT_BAND_H

#include "plan/apart.h"
#include "plan/plan.h"

/* One thread's memory. */
typedef struct convert_band {
    float        *values;           /* [rows][cols] */
    uint8_t      *blocks;
    float        *weight, *back;    /* [cols] */
    uint32_t      rows;
    uint64_t      values_bytes, blocks_bytes, row_bytes;
    convert_found found;            /* of the last convert_rows */
} convert_band;

/* A multiple of 16, whatever the machine: results do not depend on threads. */
uint32_t   qsf_conv_band_rows(uint32_t cols);
/* n of them, for n threads; free takes NULL and what new has left after an error. */
qsf_status qsf_conv_bands_new(const qsf_platform *p, uint32_t n, uint32_t cols, convert_band **out,
                              qsf_error *err);
void       qsf_conv_bands_free(const qsf_platform *p, uint32_t n, convert_band *b);

/* Rows [row, row + n) of tensor i as floats, w[n][cols], with c's scales. */
qsf_status qsf_conv_read(input *in, uint32_t i, const convert_tensor *c, uint32_t row, uint32_t n, float *w,
                         qsf_error *err);
/* n rows of c's blocks to tiles. */
void       qsf_conv_pack(const input_tensor *t, const convert_tensor *c, uint32_t n, const uint8_t *blocks,
                         uint8_t *dst);
/* Rows [row, row + n) of tensor i, quantised in the form c, to dst (the bytes of these rows; NULL:
 * only measured); adds to *e. */
qsf_status qsf_conv_rows(input *in, uint32_t i, const convert_tensor *c, uint32_t row, uint32_t n,
                         convert_band *b, uint8_t *dst, qsf_quant_error *e, qsf_error *err);
/* The error of form c on rows from all over the matrix; *outliers
 * (may be NULL): their share of the weights. */
qsf_status qsf_conv_measure(input *in, uint32_t i, const convert_tensor *c, convert_band *b,
                            qsf_quant_error *e, double *outliers, qsf_error *err);

#endif
