/* Layouts of 2-bit weights from other engines' files: packings of a tensor in memory in addition to
 * rows and tiles, of the types TERNARY2, QK256 and 2BIT_S.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_STORED_H
#define QSF_STORED_H

#include "tensor/types.h"

/* docs/format.md, "BitNet files", draws them. */
typedef enum qsf_stored {
    QSF_STORED_I2S_128 = 2,     /* TERNARY2: groups of 128 weights in 32 bytes, as x86 builds write them */
    QSF_STORED_I2S_64,          /* TERNARY2: groups of 64 weights in 16 bytes, as ARM builds do */
    QSF_STORED_I2S_ROWS4,       /* TERNARY2: four rows in a byte a column */
    QSF_STORED_QK256,           /* QK256: rows of blocks */
    QSF_STORED_BITNET32,        /* 2BIT_S: codes, then an fp16 scale */
    /* 2BIT_S: all codes, then all scales of that type */
    QSF_STORED_SPLIT32_F32, QSF_STORED_SPLIT32_F16, QSF_STORED_SPLIT32_BF16,
    QSF_STORED_TL1 = 32,        /* TERNARY2: + a row of the table of TL1's kernels */
    QSF_STORED_TL2 = 64         /* TERNARY2: + a row of the table of TL2's kernels */
} qsf_stored;

/* Bytes of the codes (BITNET32: and scales) of rows x cols weights; 0: the layout does not allow
 * this shape. */
uint64_t qsf_stored_codes_bytes(uint32_t packing, uint32_t rows, uint32_t cols);
/* The layout of a TL1 or TL2 (base) matrix by its shape; 0: no kernels are known for the shape, or
 * several with different layouts. */
uint32_t qsf_stored_tl(uint32_t base, uint32_t rows, uint32_t cols);

/* Where codes, and scales apart from them, begin in the tensor's bytes: layouts that cannot become
 * tiles where they are have room for those in front.  Sets t->bytes, type and block. */
void     qsf_stored_place(qsf_tensor *t);
uint64_t qsf_stored_codes_at(const qsf_tensor *t);
uint64_t qsf_stored_scales_at(const qsf_tensor *t);
/* Whether all scales apart from the codes are finite as fp16; *bad: the first that is not. */
bool     qsf_stored_scales_ok(const qsf_tensor *t, float *bad);

/* As qsf_dequant_rows. */
void     qsf_stored_rows(const qsf_tensor *t, uint32_t row, uint32_t n, float *out);

/* ---- tiles: t->data has room for them ---- */
uint64_t qsf_stored_tiled_bytes(const qsf_tensor *t);
/* Scratch for one strip. */
size_t   qsf_stored_strip_bytes(const qsf_tensor *t);
/* Whether strips of 16 rows can become tiles in any order. */
bool     qsf_stored_shares(const qsf_tensor *t);
/* Strips [from, until), the last first. */
void     qsf_stored_to_tiles(const qsf_tensor *t, uint8_t *data, uint64_t from, uint64_t until,
                             uint8_t *strip);

#endif
