/* The tile forms as data: one row of facts for each, from which kernels take their constants and
 * shader text can be generated.
 * SPDX-License-Identifier: MIT
 *
 * The table is in the header, so that a compiler folds the facts of a constant form.  kernels.h
 * describes how codes lie in a tile. */
#ifndef QSF_FORMS_H
#define QSF_FORMS_H

#include "kernels.h"
#include "template.h"
#include "tensor/table.h"
#include "tensor/types_ggml.h"

/* What a code stands for.  Its value, times a scale: */
typedef enum qsf_codes {
    QSF_CODES_NUMBER,       /* code - offset */
    QSF_CODES_NEGATED,      /* offset - code */
    QSF_CODES_BIT,          /* 2 * code - offset */
    QSF_CODES_DIGIT,        /* digit - offset; stored as bytes of five digits to the base 3 */
    QSF_CODES_INT8,         /* the code as int8 */
    QSF_CODES_IQ4,          /* qsf_iq4[code], as int8 */
    /* tables whose entries are not negative: */
    QSF_CODES_FP4,          /* qsf_fp4_codes[code] - offset */
    QSF_CODES_QK256,        /* qsf_qk256[code] - offset */
    QSF_CODES_LEVELS,       /* qsf_table_levels[...][code] - offset */
    QSF_CODES_TRELLIS,      /* a level that the code determines together with the previous ones */
    QSF_CODES_CODEBOOK      /* GGUF's IQ1, IQ2, IQ3: see iq.h */
} qsf_codes;

/* What a tile's head holds; value = scale * the above. */
typedef enum qsf_scales {
    QSF_SCALES_NONE,        /* nothing: scales are 1 */
    QSF_SCALES_F16,         /* fp16 scale[16] */
    QSF_SCALES_F16_ZERO,    /* fp16 scale[16], zero[16]; value = scale * code + zero */
    QSF_SCALES_SUPER,       /* fp16 d[16], and integer scales of sub-blocks */
    QSF_SCALES_SUPER_MIN,   /* the same with dmin[16] and minimums, which are subtracted */
    QSF_SCALES_CODEBOOK,
    /* not fp16: */
    QSF_SCALES_E8M0,        /* u8 e[16]: 2^(e - 128) */
    QSF_SCALES_UE4M3,       /* u8 e[4][16]: half of 4 bits of exponent and 3 of mantissa */
    QSF_SCALES_F32,         /* fp32, its halves apart: u16 low[16], high[16] */
    QSF_SCALES_TRELLIS,     /* u8 e[16]: the float whose bits are (e + 800) << 20 (tensor/trellis.h) */
    QSF_SCALES_TABLE        /* u8 e[16]: the middle of an fp16 number (tensor/table.h) */
} qsf_scales;

typedef struct qsf_form_traits {
    /* Of a code in the groups that products walk: 8 if codes become bytes first (TQ1, IQ), 2 for
     * T5, whose codes become those of T2. */
    uint8_t  bits;
    /* Of a code as a factor: after its table, and with a single bit doubled, so that it is 1 with
     * an offset of 1. */
    uint8_t  width;
    uint8_t  offset;        /* subtracted from each code */
    uint8_t  sub;           /* columns that share a scale of a sub-block; 0: the tile has no sub-blocks */
    uint16_t block;         /* the only number of columns of a tile; 0: any multiple of 32 */
    uint16_t head;          /* bytes of a tile before its codes */
    uint16_t group;         /* bytes of 16 rows x 32 columns of codes in the file or in memory */
    uint8_t  codes;         /* qsf_codes */
    uint8_t  scales;        /* qsf_scales */
} qsf_form_traits;

/* X(form, bits, width, offset, sub, block, head, group, codes, scales) */
#define QSF_FORM_TRAITS(X) \
    X(2Z,      2, 2,  0,  0,   0,  64, 128, NUMBER,   F16_ZERO) \
    X(3Z,      3, 3,  0,  0,   0,  64, 192, NUMBER,   F16_ZERO) \
    X(4Z,      4, 4,  0,  0,   0,  64, 256, NUMBER,   F16_ZERO) \
    X(TERNARY, 2, 2,  1,  0,   0,  32, 128, NEGATED,  F16) \
    X(8,       8, 8,  0,  0,   0,  32, 512, INT8,     F16) \
    X(3,       3, 3,  4,  0,   0,  32, 192, NUMBER,   F16) \
    X(4,       4, 4,  8,  0,   0,  32, 256, NUMBER,   F16) \
    X(5,       5, 5, 16,  0,   0,  32, 320, NUMBER,   F16) \
    X(6,       6, 6, 32,  0,   0,  32, 384, NUMBER,   F16) \
    X(5Z,      5, 5,  0,  0,  32,  64, 320, NUMBER,   F16_ZERO) \
    X(IQ4,     4, 4,  0,  0,  32,  32, 256, IQ4,      F16) \
    X(Q4K,     4, 4,  0, 32, 256, 256, 256, NUMBER,   SUPER_MIN) \
    X(Q5K,     5, 5,  0, 32, 256, 256, 320, NUMBER,   SUPER_MIN) \
    X(Q6K,     6, 6, 32, 16, 256, 288, 384, NUMBER,   SUPER) \
    X(Q2K,     2, 2,  0, 16, 256, 320, 128, NUMBER,   SUPER_MIN) \
    X(Q3K,     3, 3,  4, 16, 256, 224, 192, NUMBER,   SUPER) \
    X(IQ4XS,   4, 4,  0, 32, 256, 128, 256, IQ4,      SUPER) \
    X(T2,      2, 2,  1,  0, 256,   0, 128, NUMBER,   NONE) \
    X(T5,      2, 2,  1,  0, 256,   0, 104, DIGIT,    NONE) \
    X(QK256,   2, 3,  2,  0, 256,   0, 128, QK256,    NONE) \
    X(2S,      2, 2,  2,  0,   0,  32, 128, NUMBER,   F16) \
    X(TQ1,     8, 2,  1,  0, 256,  32, 104, DIGIT,    F16) \
    X(MX4,     4, 5, 12,  0,  32,  16, 256, FP4,      E8M0) \
    X(NV4,     4, 5, 12, 16,  64,  64, 256, FP4,      UE4M3) \
    X(Q1,      1, 2,  1,  0, 128,  32,  64, BIT,      F16) \
    X(8K,      8, 8,  0,  0, 256, 576, 512, INT8,     F32) \
    X(IQ2XXS,  8, 8,  0, 16, 256,  32, 128, CODEBOOK, CODEBOOK) \
    X(IQ2XS,   8, 8,  0, 16, 256,  32, 144, CODEBOOK, CODEBOOK) \
    X(IQ2S,    8, 8,  0, 16, 256,  32, 160, CODEBOOK, CODEBOOK) \
    X(IQ3XXS,  8, 8,  0, 16, 256,  32, 192, CODEBOOK, CODEBOOK) \
    X(IQ3S,    8, 8,  0, 16, 256,  32, 216, CODEBOOK, CODEBOOK) \
    X(IQ1S,    8, 8,  0, 16, 256,  32,  96, CODEBOOK, CODEBOOK) \
    X(IQ1M,    8, 8,  0, 16, 256,   0, 112, CODEBOOK, CODEBOOK) \
    X(TR2,     2, 2,  0,  0,  64,  16, 128, TRELLIS,  TRELLIS) \
    X(TR3,     3, 3,  0,  0,  64,  16, 192, TRELLIS,  TRELLIS) \
    X(TR4,     4, 4,  0,  0,  64,  16, 256, TRELLIS,  TRELLIS) \
    X(TR5,     5, 5,  0,  0,  64,  16, 320, TRELLIS,  TRELLIS) \
    X(TB4,     4, 7, QSF_TABLE_OFFSET, 0, 0, 16, 256, LEVELS, TABLE) \
    X(TB3,     3, 7, QSF_TABLE_OFFSET, 0, 0, 16, 192, LEVELS, TABLE)

static const qsf_form_traits qsf_forms[] = {
#define X(F, bits, width, offset, sub, block, head, group, codes, scales) \
    [QSF_F_##F] = { bits, width, offset, sub, block, head, group, QSF_CODES_##codes, QSF_SCALES_##scales },
    QSF_FORM_TRAITS(X)
#undef X
};
#define X(F, bits, width, offset, sub, block, head, group, codes, scales) +1
_Static_assert(QSF_FORM_TRAITS(X) == QSF_N_FORMS && sizeof qsf_forms == QSF_N_FORMS * sizeof *qsf_forms,
               "a row for each form");
#undef X

QSF_TEMPLATE int      qsf_form_bits(qsf_form f) { return qsf_forms[f].bits; }
QSF_TEMPLATE int      qsf_form_width(qsf_form f) { return qsf_forms[f].width; }
QSF_TEMPLATE int      qsf_form_offset(qsf_form f) { return qsf_forms[f].offset; }
QSF_TEMPLATE uint32_t qsf_form_block(qsf_form f) { return qsf_forms[f].block; }
QSF_TEMPLATE size_t   qsf_form_head(qsf_form f) { return qsf_forms[f].head; }
/* 32 also for tiles without sub-blocks.  A choice of two: GCC then sees early that the loops over
 * sub-blocks are short, and needs fewer instructions for those of AVX-512. */
QSF_TEMPLATE int      qsf_form_sub(qsf_form f) { return qsf_forms[f].sub == 16 ? 16 : 32; }
/* Bytes of a group as products walk it. */
QSF_TEMPLATE size_t   qsf_form_group(qsf_form f) { return 64 * (size_t)qsf_form_bits(f); }

QSF_TEMPLATE bool qsf_form_bare(qsf_form f) { return qsf_forms[f].scales == QSF_SCALES_NONE; }
QSF_TEMPLATE bool qsf_form_has_zero(qsf_form f) { return qsf_forms[f].scales == QSF_SCALES_F16_ZERO; }
QSF_TEMPLATE bool qsf_form_has_min(qsf_form f) { return qsf_forms[f].scales == QSF_SCALES_SUPER_MIN; }
/* Scales that are not fp16. */
QSF_TEMPLATE bool qsf_form_own_scales(qsf_form f) { return qsf_forms[f].scales >= QSF_SCALES_E8M0; }

QSF_TEMPLATE bool qsf_form_negated(qsf_form f) { return qsf_forms[f].codes == QSF_CODES_NEGATED; }
QSF_TEMPLATE bool qsf_form_table(qsf_form f) { return qsf_forms[f].codes == QSF_CODES_IQ4; }
QSF_TEMPLATE bool qsf_form_fp4(qsf_form f) { return qsf_forms[f].codes == QSF_CODES_FP4; }
QSF_TEMPLATE bool qsf_form_mapped(qsf_form f) { return qsf_forms[f].codes == QSF_CODES_QK256; }
QSF_TEMPLATE bool qsf_form_levels(qsf_form f) { return qsf_forms[f].codes == QSF_CODES_LEVELS; }
QSF_TEMPLATE bool qsf_form_trellis(qsf_form f) { return qsf_forms[f].codes == QSF_CODES_TRELLIS; }
QSF_TEMPLATE bool qsf_form_iq(qsf_form f) { return qsf_forms[f].codes == QSF_CODES_CODEBOOK; }
/* Factors are int8, with a sign. */
QSF_TEMPLATE bool qsf_form_signed(qsf_form f)
{
    return qsf_forms[f].codes == QSF_CODES_INT8 || qsf_form_table(f);
}
/* Codes of 2 or 4 bits that are multiplied without conversion. */
QSF_TEMPLATE bool qsf_form_plain(qsf_form f)
{
    const int bits = qsf_form_bits(f);
    return (bits == 2 || bits == 4) && !qsf_form_table(f) && !qsf_form_fp4(f) && !qsf_form_mapped(f)
        && !qsf_form_levels(f);
}

extern const int8_t qsf_fp4_codes[16];
/* The levels of a form of QSF_CODES_LEVELS. */
QSF_TEMPLATE const int8_t *qsf_levels_of(qsf_form f) { return qsf_table_levels[qsf_form_bits(f) == 3]; }
/* The table that maps a form's codes to factors; NULL: they are numbers. */
QSF_TEMPLATE const int8_t *qsf_form_map(qsf_form f)
{
    return qsf_form_table(f) ? qsf_iq4 : qsf_form_fp4(f) ? qsf_fp4_codes : qsf_form_mapped(f) ? qsf_qk256
        : qsf_form_levels(f) ? qsf_levels_of(f) : NULL;
}

/* Whether a tile has half of the columns that share a scale of the activations; also correct for a
 * super-block. */
QSF_TEMPLATE bool qsf_form_small(qsf_form f, uint32_t block)
{
    return (qsf_form_block(f) ? qsf_form_block(f) : block) == 32;
}
#define QSF_SMALL(F, block) qsf_form_small(QSF_F_##F, block)

#endif
