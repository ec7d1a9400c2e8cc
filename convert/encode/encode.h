/* Bands of rows to codes with a factor: error feedback for types with a grid, and the trellis.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_ENCODE_H
#define QSF_CONVERT_ENCODE_H

#include "encode/factor.h"
#include "plan/band.h"

/* One thread's memory, in addition to its convert_band. */
typedef struct encode_band {
    float   *w, *copy;          /* [cols of the factor][16] */
    float   *scale;             /* [cols / 64][16] */
    uint8_t *scale_byte, *codes;
    uint32_t cols;
} encode_band;

/* What the errors of rows cost, and what it would cost to make all of them zero: tr(E H E') and
 * tr(W H W') with all that was added to H, in units of its mean. */
typedef struct encode_loss { double error, energy; } encode_loss;

/* n bands, for n threads and matrices with this many columns; free accepts NULL and what new leaves
 * after an error. */
qsf_status qsf_enc_bands_new(const qsf_platform *p, uint32_t n, uint32_t cols, encode_band **out,
                             qsf_error *err);
void       qsf_enc_bands_free(const qsf_platform *p, uint32_t n, encode_band *b);
uint64_t   qsf_enc_band_bytes(uint32_t cols);

/* Whether the type's columns go in the order of a trellis's steps. */
bool       qsf_enc_steps(uint32_t type);
/* Whether the type has an encoder: it is not a float type and has scales. */
bool       qsf_enc_can(uint32_t type);

typedef struct encode_rows {
    input                *in;
    uint32_t              tensor;
    const convert_tensor *c;
    const encode_factor  *f;    /* of the order that c's type wants */
    const encode_lanes   *lanes;
} encode_rows;

/* Rows [row, row + n) of a tensor to dst, which has the bytes of that many rows, all zero; row is a
 * multiple of 16. Adds to *e and *loss. */
qsf_status qsf_enc_rows(const encode_rows *k, uint32_t row, uint32_t n, convert_band *b, encode_band *own,
                        uint8_t *dst, qsf_quant_error *e, encode_loss *loss, qsf_error *err);

#endif
