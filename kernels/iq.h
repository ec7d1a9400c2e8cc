/* GGUF's codebook types (IQ1, IQ2, IQ3) inside kernels/: a tile's head and indices are decoded in
 * one way for all types, and the result is multiplied in three ways.
 * SPDX-License-Identifier: MIT
 *
 * A tile is 16 rows x 256 columns, the fields of 16 GGUF blocks interleaved: a field of f bytes at
 * byte n of a block begins at 16 n + f r for row r (core/tensor/iq_tiles.c).
 *
 * Products take 16 columns of a group at once, as four vectors: byte 4 r + b of vector i is column
 * 4 b + i of row r.  Activations are arranged the same way (qsf_iq_turn).  A vector is then one
 * field of each entry, whichever entry that is, and does not need to be moved to its column. */
#ifndef QSF_IQ_H
#define QSF_IQ_H

#include "sets.h"

/* A tile in the form used by the product: value = d * scale * code. */
typedef struct qsf_iq_tile {
    /* [group of 32][16 columns][row]: two entries of the codebook; IQ3 has four: the second two are
     * in [1] */
    uint32_t entry[8][2][2][16];
    /* [group][row]: bit c: column c is negative; IQ1: a byte for each 8 columns, 2 if their delta
     * is positive, 0 if it is negative */
    uint32_t sign[8][16];
    uint8_t  scale[16][16];     /* [16 columns][row]: 1, 3, ... 31 */
    float    d[16];
} qsf_iq_tile;

void qsf_iq_read(qsf_iq_tile *t, qsf_form f, const uint8_t *w);

/* How the entries of a form are multiplied, and the most that a code is. */
typedef enum qsf_iq_kind {
    QSF_IQ1,        /* 2 bits: code = 8 * field + delta's byte - 9: -9, -7, -1, 1, 7, 9 */
    QSF_IQ2,        /* 2 bits: 8, 25, 43, with a sign */
    QSF_IQ3XXS,     /* 4 bits: 4, 12, ... 62, with a sign */
    QSF_IQ3S        /* 4 bits: 1, 3, ... 15, with a sign */
} qsf_iq_kind;
QSF_TEMPLATE qsf_iq_kind qsf_iq_kind_of(qsf_form f)
{
    return f == QSF_F_IQ1S || f == QSF_F_IQ1M ? QSF_IQ1 : f == QSF_F_IQ3XXS ? QSF_IQ3XXS
        : f == QSF_F_IQ3S ? QSF_IQ3S : QSF_IQ2;
}
enum { QSF_IQ1_OFFSET = 9 };

/* Codes of a nibble: [kind][0]: of IQ1 and IQ2 its low field, of IQ3 all of it; [1]: its high
 * field. */
extern const int8_t qsf_iq_codes[4][2][16];

/* 256 activations in the order of the vectors. */
QSF_TEMPLATE void qsf_iq_turn(int8_t *to, const int8_t *q)
{
    for (int k = 0; k < 256; k += 16)
        for (int i = 0; i < 4; i++)
            for (int b = 0; b < 4; b++) to[k + 4 * i + b] = q[k + 4 * b + i];
}

#define QSF_EACH_IQ_FORM(X) X(IQ2XXS) X(IQ2XS) X(IQ2S) X(IQ3XXS) X(IQ3S) X(IQ1S) X(IQ1M)

/* k->matvec; the values are those that the row has among others. */
void qsf_iq_matvec_avx2(qsf_form f, float *y, const uint8_t *w, const qsf_act *x, size_t tiles,
                        size_t blocks);

void qsf_iq_scalar(qsf_kernels *k);
void qsf_iq_avx2(qsf_kernels *k);
void qsf_iq_avx512(qsf_kernels *k);

#endif
