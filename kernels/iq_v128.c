/* GGUF's codebook types over vectors of 128 bits: codes of 4 rows at a time, whose sums of
 * products are the set's.
 * SPDX-License-Identifier: MIT */
#include "iq_v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

typedef uint32_t v4u __attribute__((vector_size(16)));
enum { TILES_IQ_V128 = 2 };     /* read before all rows of activations pass by */

QSF_TEMPLATE v4u words_v128(const uint32_t *p)
{
    v4u v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Fields of 2 bits: byte 4 r + b of c[i] is column 4 b + i. */
QSF_TEMPLATE void iq_pairs_v128(v16b c[4], qsf_iq_kind kind, v4u entry)
{
    const v16b low = (v16b)(entry & 0x0f0f0f0f), high = (v16b)(entry >> 4 & 0x0f0f0f0f);
    c[0] = v16_table(qsf_iq_codes[kind][0], low);
    c[1] = v16_table(qsf_iq_codes[kind][1], low);
    c[2] = v16_table(qsf_iq_codes[kind][0], high);
    c[3] = v16_table(qsf_iq_codes[kind][1], high);
}
/* Fields of 4 bits. */
QSF_TEMPLATE void iq_nibbles_v128(v16b c[4], qsf_iq_kind kind, v4u a, v4u b)
{
    const v4u first = (a & 0xff) | (a >> 8 & 0xff00) | (b & 0xff) << 16 | (b << 8 & 0xff000000),
        second = (a >> 8 & 0xff) | (a >> 16 & 0xff00) | (b << 8 & 0xff0000) | (b & 0xff000000);
    c[0] = v16_table(qsf_iq_codes[kind][0], (v16b)(first & 0x0f0f0f0f));
    c[1] = v16_table(qsf_iq_codes[kind][0], (v16b)(first >> 4 & 0x0f0f0f0f));
    c[2] = v16_table(qsf_iq_codes[kind][0], (v16b)(second & 0x0f0f0f0f));
    c[3] = v16_table(qsf_iq_codes[kind][0], (v16b)(second >> 4 & 0x0f0f0f0f));
}
/* 16 signs of each row. */
QSF_TEMPLATE void iq_negate_v128(v16b c[4], v4u signs)
{
    signs = (signs | signs << 8) & 0x00ff00ff;
    signs = (signs | signs << 4) & 0x0f0f0f0f;
    QSF_UNROLL
    for (int i = 0; i < 4; i++) {
        /* no byte of c is zero, so bytes do not carry into the next */
        const v4u one = signs >> i & 0x01010101;
        c[i] = (v16b)(((v4u)c[i] ^ ((one << 8) - one)) + one);
    }
}

/* 32 columns of 4 rows, one function a kind: called once for several rows of activations. */
typedef void iq_codes_fn(v16b c[8], const qsf_iq_tile *w, int g, int quarter);
#define KIND_V128(K, SIZES)                                                                     \
    static QSF_NOINLINE void iq_codes_##K(v16b c[8], const qsf_iq_tile *w, int g, int quarter)  \
    {                                                                                           \
        const v4u signs = words_v128(w->sign[g] + 4 * quarter);                                 \
        QSF_UNROLL                                                                              \
        for (int s = 0; s < 2; s++) {                                                           \
            const v4u a = words_v128(w->entry[g][s][0] + 4 * quarter);                          \
            SIZES;                                                                              \
            iq_negate_v128(c + 4 * s, signs >> 16 * s & 0xffff);                                \
        }                                                                                       \
    }
KIND_V128(QSF_IQ2, iq_pairs_v128(c + 4 * s, QSF_IQ2, a))
KIND_V128(QSF_IQ3XXS, iq_nibbles_v128(c + 4 * s, QSF_IQ3XXS, a, words_v128(w->entry[g][s][1] + 4 * quarter)))
KIND_V128(QSF_IQ3S, iq_nibbles_v128(c + 4 * s, QSF_IQ3S, a, words_v128(w->entry[g][s][1] + 4 * quarter)))
#undef KIND_V128
static QSF_NOINLINE void iq_codes_QSF_IQ1(v16b c[8], const qsf_iq_tile *w, int g, int quarter)
{
    const v4u signs = words_v128(w->sign[g] + 4 * quarter);
    QSF_UNROLL
    for (int s = 0; s < 2; s++) {
        v4u delta = signs >> 16 * s;
        delta = (delta & 0xff) | (delta & 0xff00) << 8;
        delta |= delta << 8;
        iq_pairs_v128(c + 4 * s, QSF_IQ1, words_v128(w->entry[g][s][0] + 4 * quarter));
        QSF_UNROLL
        for (int i = 0; i < 4; i++)
            c[4 * s + i] = v16_minus((v16b)((v4u)c[4 * s + i] | delta), v16_set1(QSF_IQ1_OFFSET));
    }
}
static iq_codes_fn *const iq_codes[] = {
    [QSF_IQ1] = iq_codes_QSF_IQ1, [QSF_IQ2] = iq_codes_QSF_IQ2, [QSF_IQ3XXS] = iq_codes_QSF_IQ3XXS,
    [QSF_IQ3S] = iq_codes_QSF_IQ3S,
};

/* A tile times n rows of activations; y has what the tiles before it gave. */
static void iq_tile_v128(float *y, size_t ldy, qsf_iq_kind kind, const qsf_iq_tile *w, const qsf_act *x,
                         size_t m, size_t n, size_t at, qsf_iq_sums *sums)
{
    int8_t q[TOKENS_SUPER_V128][256];
    v4i sum[TOKENS_SUPER_V128];
    for (size_t t = 0; t < n; t++) qsf_iq_turn(q[t], x->q + (m + t) * x->cols + at);
    for (int g = 0; g < 8; g += 2) {
        v4i scale[4][4];
        QSF_UNROLL
        for (int k = 0; k < 4; k++) v16_factors(scale[k], v16_load(w->scale[2 * g + k]));
        for (int i = 0; i < 4; i++) {
            const v4f by = v4_load(w->d + 4 * i);
            for (int k = 0; k < 2; k++) {
                const v4i two[2] = { scale[2 * k][i], scale[2 * k + 1][i] };
                v16b c[8];
                iq_codes[kind](c, w, g + k, i);
                sums(sum, c, q[0] + 32 * (g + k), x->h, n, two, k);
            }
            const float *d = x->d + m * (x->cols / 64) + at / 64 + g / 2;
            for (size_t t = 0; t < n; t++, d += x->cols / 64) {
                float *to = y + t * ldy + 4 * i;
                const v4f p = v4_float(sum[t]) * by;
                v4_store(to, v4_fma(v4_set1(*d), p, at + (size_t)g ? v4_load(to) : v4_set1(0)));
            }
        }
    }
}

void qsf_iq_any_v128(qsf_form form, float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                     size_t blocks, qsf_iq_sums *sums)
{
    const size_t bytes = qsf_tile_bytes(form, 256);
    qsf_iq_tile part[TILES_IQ_V128];
    for (size_t t = 0; t < tiles; t++)
        for (size_t b = 0; b < blocks; b += TILES_IQ_V128) {
            const size_t here = QSF_MIN(blocks - b, (size_t)TILES_IQ_V128);
            for (size_t i = 0; i < here; i++) qsf_iq_read(part + i, form, w + (t * blocks + b + i) * bytes);
            for (size_t m = 0; m < x->n; m += TOKENS_SUPER_V128)
                for (size_t i = 0; i < here; i++)
                    iq_tile_v128(y + m * ldy + 16 * t, ldy, qsf_iq_kind_of(form), part + i, x, m,
                                 QSF_MIN(x->n - m, (size_t)TOKENS_SUPER_V128), 256 * (b + i), sums);
        }
}

QSF_V128_END
#endif
