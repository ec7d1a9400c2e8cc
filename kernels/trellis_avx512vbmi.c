/* Tiles of the trellis forms times activations with AVX-512 VNNI, VBMI and VBMI2: levels come from
 * a table of 64 bytes by one vpermb.
 * SPDX-License-Identifier: MIT
 *
 * Most of the work would be moving the parts of an index side by side.  But vpermb takes its six
 * bits in any order, if the table is in that order: each of a group's eight steps has a table of
 * its own, and parts are moved only where they would overlap or lie in bits 6 and 7. */
#include "panel_avx512.h"
#include "tensor/trellis.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512vbmi2,avx2,fma,f16c")

#include "tiles_avx512.h"

enum { TRELLIS_OFFSET = 128 };      /* makes levels unsigned */

/* [k - 2][step]: the lowest bit that m (with k = 4 its two low bits), m's third bit (k = 4), and
 * the pair of the index's low bits have in the order of that step's table. */
static const struct trellis_order { uint8_t m[8], third[8], low[8]; } trellis_orders[4] = {
    { { 2, 3, 4, 5, 2, 3, 4, 5 }, { 0 }, { 0, 0, 2, 2, 4, 4, 0, 0 } },
    { { 2, 2, 4, 4, 0, 2, 4, 4 }, { 0 }, { 0, 0, 2, 2, 4, 4, 0, 0 } },
    { { 2, 2, 4, 4, 0, 2, 4, 4 }, { 4, 5, 0, 1, 2, 1, 2, 3 }, { 0, 0, 2, 2, 4, 4, 0, 0 } },
    { { 0, 2, 0, 2, 0, 0, 0, 0 }, { 0 }, { 4, 0, 4, 0, 4, 4, 4, 4 } },
};
/* Bits of m that lie side by side. */
QSF_TEMPLATE int trellis_m_bits(int k) { return k == 2 ? 1 : k == 5 ? 4 : 2; }

/* The steps' tables. */
QSF_TEMPLATE void trellis_tables(__m512i table[8], int k)
{
    static const uint8_t numbers[64] = {
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63
    };
    const struct trellis_order *o = &trellis_orders[k - 2];
    const __m512i i = load_avx512(numbers), m_mask = _mm512_set1_epi8((char)((1 << trellis_m_bits(k)) - 1)),
        levels = _mm512_xor_si512(load_avx512(qsf_trellis_levels[k - 2]), _mm512_set1_epi8((char)0x80));
    QSF_UNROLL
    for (int j = 0; j < 8; j++) {
        const __m512i low = _mm512_and_si512(shift_avx512(i, -o->low[j]), _mm512_set1_epi8(3)),
            m = shift_avx512(_mm512_and_si512(shift_avx512(i, -o->m[j]), m_mask), 2);
        __m512i index = _mm512_or_si512(low, m);
        if (k == 4)
            index = _mm512_or_si512(index, shift_avx512(_mm512_and_si512(shift_avx512(i, -o->third[j]),
                                                                         _mm512_set1_epi8(1)), 4));
        table[j] = _mm512_permutexvar_epi8(index, levels);
    }
}

/* What the steps of a group need: planes of m, of m's third bit, and the pairs of low bits of even
 * and of odd steps.  last: u of the group before. */
typedef struct trellis_source { __m512i m[4], third, pair[2], last; } trellis_source;

QSF_TEMPLATE void trellis_fetch(trellis_source *s, const uint8_t *g, int k)
{
    const int planes = trellis_m_bits(k);
    QSF_UNROLL
    for (int i = 0; i < planes; i++) s->m[i] = fetch_avx512(g + 64 * i);
    if (k == 4) s->third = fetch_avx512(g + 128);
    const __m512i u = fetch_avx512(g + 64 * (k - 1)), even = _mm512_set1_epi8(0x55);
    const __m512i high = _mm512_ternarylogic_epi32(u, _mm512_shldi_epi32(u, s->last, 1),
                                                   _mm512_shldi_epi32(u, s->last, 3), 0x96),
        low = _mm512_shldi_epi32(u, s->last, 2);
    s->pair[0] = select_avx512(even, low, _mm512_add_epi8(high, high));
    s->pair[1] = select_avx512(even, shift_avx512(low, -1), high);
    s->last = u;
}

/* Columns 4j to 4j + 3 of a group for all 16 rows: levels + 128. */
QSF_TEMPLATE __m512i trellis_step(const trellis_source *s, const __m512i table[8], int j, int k)
{
    const struct trellis_order *o = &trellis_orders[k - 2];
    const int bits = trellis_m_bits(k), each = 8 / bits;
    const __m512i m = shift_avx512(s->m[j / each], o->m[j] - bits * (j % each)),
        low = shift_avx512(s->pair[j % 2], o->low[j] - j / 2 * 2);
    __m512i index = select_avx512(_mm512_set1_epi8((char)(3 << o->low[j])), low, m);
    if (k == 4)
        index = select_avx512(_mm512_set1_epi8((char)(1 << o->third[j])),
                              shift_avx512(s->third, o->third[j] - j), index);
    return _mm512_permutexvar_epi8(index, table[j]);
}

QSF_TEMPLATE __m512 trellis_scales(const uint8_t *w)
{
    const __m512i e = bytes16_avx512(w);
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(_mm512_test_epi32_mask(e, e),
                                                       _mm512_add_epi32(e, _mm512_set1_epi32(800)), 20));
}
/* acc + what 64 columns add; s: sums of the activations. */
QSF_TEMPLATE __m512 trellis_add(__m512 acc, __m512i sum, __m512 scale, const float *s, float d)
{
    const __m512 f = _mm512_sub_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(TRELLIS_OFFSET * (s[0] + s[1])));
    return _mm512_fmadd_ps(_mm512_set1_ps(d), _mm512_mul_ps(scale, f), acc);
}

QSF_TEMPLATE void trellis_matvec(int k, float *y, const uint8_t *w, const qsf_act *x, size_t tiles,
                                 size_t blocks)
{
    __m512i table[8];
    trellis_tables(table, k);
    for (size_t t = 0; t < tiles; t++, y += 16) {
        trellis_source source = { .last = _mm512_setzero_si512() };
        __m512 acc = _mm512_setzero_ps();
        for (size_t b = 0; b < blocks; b++, w += 16 + 128 * k) {
            const int8_t *q = x->q + 64 * b;
            __m512i sum[2] = { _mm512_setzero_si512(), _mm512_setzero_si512() };
            QSF_UNROLL
            for (int g = 0; g < 2; g++) {
                trellis_fetch(&source, w + 16 + 64 * k * g, k);
                QSF_UNROLL
                for (int j = 0; j < 8; j++)
                    sum[j % 2] = _mm512_dpbusd_epi32(sum[j % 2], trellis_step(&source, table, j, k),
                                                     quad_avx512(q, 8 * g + j));
            }
            acc = trellis_add(acc, _mm512_add_epi32(sum[0], sum[1]), trellis_scales(w), x->s + 2 * b,
                              x->d[b]);
        }
        _mm512_storeu_ps(y, acc);
    }
}

/* One tile row times T rows of activations, of which n are stored; the others repeat the last. */
QSF_TEMPLATE void trellis_tile_row(int k, int T, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                   size_t m, size_t n, size_t blocks, size_t ahead)
{
    const bool two = T <= 4;        /* few rows: two sums for each keep both multipliers busy */
    const int8_t *q[8];
    const float *d[8], *s[8];
    __m512 acc[8];
    __m512i table[8];
    trellis_source source = { .last = _mm512_setzero_si512() };
    trellis_tables(table, k);
    QSF_UNROLL
    for (int t = 0; t < T; t++) {
        const size_t row = m + QSF_MIN((size_t)t, n - 1);
        q[t] = x->q + row * x->cols;
        d[t] = x->d + row * (x->cols / 64);
        s[t] = x->s + row * (x->cols / 32);
        acc[t] = _mm512_setzero_ps();
    }
    for (size_t b = 0; b < blocks; b++, w += 16 + 128 * k) {
        __m512i sum[8], odd[8];
        prefetch_avx512(w + ahead, 16 + 128 * (size_t)k);
        QSF_UNROLL
        for (int t = 0; t < T; t++) sum[t] = odd[t] = _mm512_setzero_si512();
        QSF_UNROLL
        for (int g = 0; g < 2; g++) {
            trellis_fetch(&source, w + 16 + 64 * k * g, k);
            QSF_UNROLL
            for (int j = 0; j < 8; j++) {
                const __m512i c = trellis_step(&source, table, j, k);
                QSF_UNROLL
                for (int t = 0; t < T; t++) {
                    __m512i *to = two && j % 2 ? &odd[t] : &sum[t];
                    *to = _mm512_dpbusd_epi32(*to, c, quad_avx512(q[t] + 64 * b, 8 * g + j));
                }
            }
        }
        const __m512 scale = trellis_scales(w);
        QSF_UNROLL
        for (int t = 0; t < T; t++)
            acc[t] = trellis_add(acc[t], two ? _mm512_add_epi32(sum[t], odd[t]) : sum[t], scale,
                                 s[t] + 2 * b, d[t][b]);
    }
    QSF_UNROLL
    for (int t = 0; t < T; t++) if ((size_t)t < n) _mm512_storeu_ps(y + (size_t)t * ldy, acc[t]);
}

QSF_TEMPLATE void trellis_unpack(int k, qsf_panel *p, const uint8_t *w, size_t blocks)
{
    trellis_source source = { .last = _mm512_setzero_si512() };
    __m512i table[8];
    trellis_tables(table, k);
    if (!p->first) source.last = load_avx512(w - 64);   /* u ends the tile before */
    for (size_t b = 0; b < blocks; b++, w += 16 + 128 * k) {
        _mm512_storeu_ps(p->scale[b], trellis_scales(w));
        for (int g = 0; g < 2; g++) {
            trellis_fetch(&source, w + 16 + 64 * k * g, k);
            QSF_UNROLL
            for (int j = 0; j < 8; j++)
                _mm512_storeu_si512(p->code[16 * b + 8 * (size_t)g + (size_t)j],
                                    trellis_step(&source, table, j, k));
        }
    }
}

QSF_TEMPLATE void trellis_matmul(int k, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                 size_t tiles, size_t blocks, qsf_panel_unpack *unpack)
{
    const size_t row_bytes = blocks * (16 + 128 * (size_t)k);
    if (x->n >= QSF_PANEL_ROWS) {
        const qsf_panel_form f = { unpack, 64, TRELLIS_OFFSET, false };
        qsf_panel_matmul_avx512(&f, y, ldy, w, row_bytes, x, tiles, blocks, QSF_TRELLIS_BLOCK);
        return;
    }
    for (size_t t = 0; t < tiles; t++)
        for (size_t m = 0; m < x->n; m += 8) {
            const size_t n = QSF_MIN(x->n - m, (size_t)8), ahead = ahead_avx512(m, x->n, row_bytes);
            float *out = y + m * ldy + 16 * t;
            const uint8_t *row = w + t * row_bytes;
            if (n <= 2) trellis_tile_row(k, 2, out, ldy, row, x, m, n, blocks, ahead);
            else if (n <= 4) trellis_tile_row(k, 4, out, ldy, row, x, m, n, blocks, ahead);
            else if (n <= 6) trellis_tile_row(k, 6, out, ldy, row, x, m, n, blocks, ahead);
            else trellis_tile_row(k, 8, out, ldy, row, x, m, n, blocks, ahead);
        }
}

#define TRELLIS_AVX512(K)                                                                                    \
    static void matvec_TR##K##_avx512vbmi(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,        \
                                          size_t blocks, uint32_t block)                                     \
    {                                                                                                        \
        (void)block;                                                                                         \
        trellis_matvec(K, y, w, x, tiles, blocks);                                                           \
    }                                                                                                        \
    static void unpack_TR##K##_avx512vbmi(qsf_panel *p, const uint8_t *w, size_t blocks, uint32_t block)     \
    {                                                                                                        \
        (void)block;                                                                                         \
        trellis_unpack(K, p, w, blocks);                                                                     \
    }                                                                                                        \
    static void matmul_TR##K##_avx512vbmi(float *y, size_t ldy, const uint8_t *w, const qsf_act *x,          \
                                          size_t tiles, size_t blocks, uint32_t block)                       \
    {                                                                                                        \
        if (x->n == 1) matvec_TR##K##_avx512vbmi(y, w, x, tiles, blocks, block);                             \
        else trellis_matmul(K, y, ldy, w, x, tiles, blocks, unpack_TR##K##_avx512vbmi);                      \
    }
QSF_EACH_TRELLIS(TRELLIS_AVX512)
#undef TRELLIS_AVX512

/* Ice Lake, Zen 4 and later; over the AVX-512 set. */
void qsf_kernels_avx512vbmi(qsf_kernels *k)
{
    k->isa = "avx512vbmi";
#define TRELLIS_AVX512(K) \
    k->matvec[QSF_F_TR##K] = matvec_TR##K##_avx512vbmi; k->matmul[QSF_F_TR##K] = matmul_TR##K##_avx512vbmi;
    QSF_EACH_TRELLIS(TRELLIS_AVX512)
#undef TRELLIS_AVX512
}

QSF_TARGET_END
#endif
