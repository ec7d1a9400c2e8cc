/* Tiles times activations with SSE4.2: a tile is read as four quarters of 4 rows, products are summed by pmaddubsw in 16 bits.
 * SPDX-License-Identifier: MIT */
#include "v128.h"

#if defined(__x86_64__)
QSF_V128_BEGIN

enum { TOKENS_SSE42 = 8 };      /* rows of activations that share one unpacking of the weights */

/* How many pmaddubsw results an int16 lane can add up: 2 * (2^bits - 1) * 127 each, 2 * 128 * 127 for 8 bits. */
QSF_TEMPLATE int sums16_sse42(int bits) { return bits < 4 ? 16 : bits == 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1; }

/* v moved left by n bits, or right where n is negative, inside 16-bit lanes. */
QSF_TEMPLATE __m128i shift_sse42(__m128i v, int n) { return n < 0 ? _mm_srli_epi16(v, -n) : n > 0 ? _mm_slli_epi16(v, n) : v; }

/* The vectors that the codes come from, loaded once: left to itself, GCC loads them again for each field. */
typedef struct source_sse42 { __m128i low, high; } source_sse42;
QSF_TEMPLATE __m128i fetch_sse42(const uint8_t *p)
{
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    __asm__("" : "+x"(v));
    return v;
}

/* Columns 4j..4j+3 of a group for the 4 rows whose quarter begins at g: codes as bytes.  To be called with j = 0..7 in turn. */
QSF_TEMPLATE __m128i code_sse42(source_sse42 *s, const uint8_t *g, int j, int bits)
{
    if (bits == 8) return fetch_sse42(g + 64 * j);
    const int low = bits < 4 ? 2 : 4, fields = 8 / low;
    const uint8_t *high = g + 64 * low;
    if (j % fields == 0) s->low = fetch_sse42(g + 64 * (j / fields));
    if ((bits == 3 || bits == 5) && j == 0) s->high = fetch_sse42(high);
    if (bits == 6 && j % 4 == 0) s->high = fetch_sse42(high + 64 * (j / 4));
    const __m128i c = _mm_and_si128(shift_sse42(s->low, -low * (j % fields)), _mm_set1_epi8((1 << low) - 1));
    if (bits == 3) return _mm_or_si128(c, _mm_and_si128(shift_sse42(s->high, 2 - j), _mm_set1_epi8(4)));
    if (bits == 5) return _mm_or_si128(c, _mm_and_si128(shift_sse42(s->high, 4 - j), _mm_set1_epi8(16)));
    if (bits == 6) return _mm_or_si128(c, _mm_and_si128(shift_sse42(s->high, 4 - 2 * (j % 4)), _mm_set1_epi8(48)));
    return c;
}

/* Pairs of products in 16 bits.  Signed codes: |c| times q with c's sign; |-128| is 128 as an unsigned byte, and q is never -128. */
QSF_TEMPLATE __m128i products_sse42(__m128i c, __m128i q, int bits)
{
    if (bits == 8) return _mm_maddubs_epi16(_mm_abs_epi8(c), _mm_sign_epi8(q, c));
    return _mm_maddubs_epi16(c, q);
}
QSF_TEMPLATE __m128i widen_sse42(__m128i s16) { return _mm_madd_epi16(s16, _mm_set1_epi16(1)); }
QSF_TEMPLATE __m128i quad_sse42(const int8_t *q, int j)
{
    int32_t a;
    memcpy(&a, q + 4 * j, 4);
    return _mm_set1_epi32(a);
}

/* A running sum: 16-bit lanes that go into 32-bit lanes when they are full. */
typedef struct sum_sse42 { __m128i s16, s32; } sum_sse42;
QSF_TEMPLATE void sum_add_sse42(sum_sse42 *s, __m128i products, int j, int bits)
{
    const int full = sums16_sse42(bits);
    s->s16 = j % full == 0 ? products : _mm_add_epi16(s->s16, products);
    if (j % full == full - 1) s->s32 = j < full ? widen_sse42(s->s16) : _mm_add_epi32(s->s32, widen_sse42(s->s16));
}
QSF_TEMPLATE __m128i sum_end_sse42(const sum_sse42 *s, int n, int bits)
{
    return n % sums16_sse42(bits) ? widen_sse42(s->s16) : s->s32;     /* n < full only where nothing has been widened */
}

/* Scales or zeros of the 16 rows. */
QSF_TEMPLATE void halves16_sse42(v4f out[4], const uint8_t *p)
{
    v8_halves(out, p);
    v8_halves(out + 2, p + 16);
}
/* acc + d * (value of the integer sums); sq is the plain sum of the activations. */
QSF_TEMPLATE v4f value_sse42(v4f acc, __m128i sum, v4f scale, v4f zero, v4f d, v4f sq, qsf_form form)
{
    const v4f f = v4_float((v4i)sum);
    if (qsf_form_has_zero(form)) return acc + d * (scale * f + zero * sq);
    if (!qsf_form_offset(form)) return acc + scale * d * f;
    return acc + scale * d * (f - v4_set1((float)qsf_form_offset(form)) * sq);
}
QSF_TEMPLATE void store_sse42(float *y, v4f v, qsf_form form) { v4_store(y, form == QSF_F_TERNARY ? v4_set1(0) - v : v); }

/* ---- one row of activations: two quarters at a time, so that codes and sums are registers ---- */
QSF_TEMPLATE void matvec_any_sse42(qsf_form form, bool small, float *y, const uint8_t *w, const qsf_act *x, size_t tiles,
                                   size_t blocks, uint32_t block)
{
    const int bits = qsf_form_bits(form), groups = small ? 1 : 2;
    const size_t group = qsf_form_group(form);
    for (size_t t = 0; t < tiles; t++, y += 16) {
        v4f acc[4] = { v4_set1(0), v4_set1(0), v4_set1(0), v4_set1(0) };
        const int8_t *q = x->q;
        const float *s = x->s;
        size_t part = 0;
        for (size_t b = 0; b < blocks; b++) {
            v4f scale[4], zero[4];
            halves16_sse42(scale, w);
            halves16_sse42(zero, qsf_form_has_zero(form) ? w + 32 : w);
            w += qsf_form_head(form);
            for (const uint8_t *end = w + block / 32 * group; w < end; part++) {
                const v4f d = v4_set1(x->d[small ? part / 2 : part]), sq = v4_set1(small ? s[0] : s[0] + s[1]);
                QSF_UNROLL
                for (int i = 0; i < 4; i += 2) {
                    sum_sse42 s0 = { 0 }, s1 = { 0 };
                    source_sse42 from0 = { 0 }, from1 = { 0 };
                    QSF_UNROLL
                    for (int j = 0; j < 8 * groups; j++) {
                        const uint8_t *g = w + (size_t)(j / 8) * group + 16 * i;
                        const __m128i a = quad_sse42(q, j);
                        sum_add_sse42(&s0, products_sse42(code_sse42(&from0, g, j % 8, bits), a, bits), j, bits);
                        sum_add_sse42(&s1, products_sse42(code_sse42(&from1, g + 16, j % 8, bits), a, bits), j, bits);
                    }
                    acc[i] = value_sse42(acc[i], sum_end_sse42(&s0, 8 * groups, bits), scale[i], zero[i], d, sq, form);
                    acc[i + 1] = value_sse42(acc[i + 1], sum_end_sse42(&s1, 8 * groups, bits), scale[i + 1], zero[i + 1], d, sq, form);
                }
                w += (size_t)groups * group, q += 32 * groups, s += groups;
            }
        }
        for (int i = 0; i < 4; i++) store_sse42(y + 4 * i, acc[i], form);
    }
}

/* ---- several rows of activations: a group of one quarter is unpacked into registers, then all rows pass by ---- */
typedef struct strip_sse42 {
    v4f     acc[4][TOKENS_SSE42];
    __m128i sum[TOKENS_SSE42];
} strip_sse42;

/* Sums of the group at g times n rows of q; the second group of 64 columns goes on from the first. */
QSF_TEMPLATE void group_sse42(__m128i *sum, const uint8_t *g, const int8_t *q, size_t ldq, size_t n, int bits, bool second)
{
    __m128i c[8];
    source_sse42 from = { 0 };
    QSF_UNROLL
    for (int j = 0; j < 8; j++) c[j] = code_sse42(&from, g, j, bits);
    for (size_t t = 0; t < n; t++, q += ldq) {
        sum_sse42 s = { 0 };
        QSF_UNROLL
        for (int j = 0; j < 8; j++) sum_add_sse42(&s, products_sse42(c[j], quad_sse42(q, j), bits), j, bits);
        if (sums16_sse42(bits) == 16) sum[t] = second ? _mm_add_epi16(sum[t], s.s16) : s.s16;
        else sum[t] = second ? _mm_add_epi32(sum[t], s.s32) : s.s32;
    }
}

QSF_TEMPLATE void part_sse42(strip_sse42 *a, int quarter, const uint8_t *w, const qsf_act *x, size_t m, size_t n, size_t at,
                             v4f scale, v4f zero, qsf_form form, bool small)
{
    const int bits = qsf_form_bits(form);
    const int8_t *q = x->q + m * x->cols + at;
    const float *d = x->d + m * (x->cols / 64) + at / 64, *s = x->s + m * (x->cols / 32) + at / 32;
    group_sse42(a->sum, w, q, x->cols, n, bits, false);
    if (!small) group_sse42(a->sum, w + qsf_form_group(form), q + 32, x->cols, n, bits, true);
    for (size_t t = 0; t < n; t++, d += x->cols / 64, s += x->cols / 32) {
        const __m128i sum = sums16_sse42(bits) == 16 ? widen_sse42(a->sum[t]) : a->sum[t];
        a->acc[quarter][t] = value_sse42(a->acc[quarter][t], sum, scale, zero, v4_set1(*d), v4_set1(small ? s[0] : s[0] + s[1]), form);
    }
}

QSF_TEMPLATE void tile_row_sse42(float *y, size_t ldy, qsf_form form, bool small, const uint8_t *w, const qsf_act *x, size_t m,
                                 size_t n, size_t blocks, uint32_t block)
{
    const size_t groups = small ? 1 : 2;
    strip_sse42 a;
    memset(&a.acc, 0, sizeof a.acc);
    size_t at = 0;
    for (size_t b = 0; b < blocks; b++) {
        v4f scale[4], zero[4];
        halves16_sse42(scale, w);
        halves16_sse42(zero, qsf_form_has_zero(form) ? w + 32 : w);
        w += qsf_form_head(form);
        for (uint32_t g = 0; g < block / 32; g += (uint32_t)groups, at += 32 * groups, w += groups * qsf_form_group(form))
            for (int i = 0; i < 4; i++) part_sse42(&a, i, w + 16 * i, x, m, n, at, scale[i], zero[i], form, small);
    }
    for (size_t t = 0; t < n; t++, y += ldy)
        for (int i = 0; i < 4; i++) store_sse42(y + 4 * i, a.acc[i][t], form);
}

QSF_TEMPLATE void matmul_any_sse42(qsf_form form, bool small, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                   size_t tiles, size_t blocks, uint32_t block)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(form, block), strip = qsf_strip_rows(x->cols);
    for (size_t from = 0; from < x->n; from += strip)
        for (size_t t = 0; t < tiles; t++)
            for (size_t m = from; m < x->n && m < from + strip; m += TOKENS_SSE42)
                tile_row_sse42(y + m * ldy + 16 * t, ldy, form, small, w + t * row_bytes, x, m, QSF_MIN(x->n - m, (size_t)TOKENS_SSE42), blocks, block);
}

#define FORM_SSE42(F)                                                                                                         \
    static void matvec_##F##_sse42(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks, uint32_t block) \
    {                                                                                                                         \
        if (block == 32) matvec_any_sse42(QSF_F_##F, true, y, w, x, tiles, blocks, block);                                    \
        else matvec_any_sse42(QSF_F_##F, false, y, w, x, tiles, blocks, block);                                               \
    }                                                                                                                         \
    static void matmul_##F##_sse42(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,     \
                                   uint32_t block)                                                                            \
    {                                                                                                                         \
        if (x->n == 1) matvec_##F##_sse42(y, w, x, tiles, blocks, block);                                                     \
        else if (block == 32) matmul_any_sse42(QSF_F_##F, true, y, ldy, w, x, tiles, blocks, block);                          \
        else matmul_any_sse42(QSF_F_##F, false, y, ldy, w, x, tiles, blocks, block);                                          \
    }
QSF_EACH_FORM(FORM_SSE42)
#undef FORM_SSE42

static void attention_qkv_project_sse42(float *const y[3], qsf_form form, const uint8_t *const w[3], const size_t tiles[3],
                                        const qsf_act *x, size_t blocks, uint32_t block)
{
    qsf_kernels k;
    qsf_matmul_scalar(&k);
    qsf_matmul_sse42(&k);
    for (int i = 0; i < 3; i++) k.matmul[form](y[i], 16 * tiles[i], w[i], x, tiles[i], blocks, block);
}

void qsf_matmul_sse42(qsf_kernels *k)
{
#define FORM_SSE42(F) k->matvec[QSF_F_##F] = matvec_##F##_sse42; k->matmul[QSF_F_##F] = matmul_##F##_sse42;
    QSF_EACH_FORM(FORM_SSE42)
#undef FORM_SSE42
    k->attention_qkv_project = attention_qkv_project_sse42;
}

QSF_V128_END
#endif
