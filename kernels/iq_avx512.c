/* GGUF's codebook types times activations with AVX-512 VNNI: codebooks are looked up 32 entries
 * at a time by permutations.
 * SPDX-License-Identifier: MIT */
#include "iq.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#include "tiles_avx512.h"

/* Entries of a table of n for 32 indices: all parts of 64 entries, then what the higher bits
 * choose. */
QSF_TEMPLATE __m512i iq_part_avx512(const uint16_t *grid, int n, __m512i index)
{
    __m512i t[8];
    QSF_UNROLL
    for (int k = 0; k < n / 64; k++)
        t[k] = _mm512_permutex2var_epi16(load_avx512(grid + 64 * k), index, load_avx512(grid + 64 * k + 32));
    QSF_UNROLL
    for (int m = n / 128, bit = 6; m; m /= 2, bit++) {
        const __mmask32 odd = _mm512_movepi16_mask(_mm512_slli_epi16(index, (unsigned)(15 - bit)));
        QSF_UNROLL
        for (int k = 0; k < m; k++) t[k] = _mm512_mask_blend_epi16(odd, t[2 * k], t[2 * k + 1]);
    }
    return t[0];
}
QSF_TEMPLATE void iq_lookup_avx512(uint32_t *entry, const uint16_t *grid, int n, __m512i index)
{
    if (n > 1024) {         /* one after another */
        uint16_t at[32];
        _mm512_storeu_si512(at, index);
        QSF_UNROLL
        for (int i = 0; i < 16; i++) {
            uint32_t two = grid[at[2 * i]] | (uint32_t)grid[at[2 * i + 1]] << 16;
            __asm__("" : "+r"(two));
            entry[i] = two;
        }
        return;
    }
    __m512i v = iq_part_avx512(grid, QSF_MIN(n, 512), index);
    QSF_UNROLL
    for (int k = 1; k < n / 512; k++) {
        const __mmask32 here =
            _mm512_cmpeq_epi16_mask(_mm512_srli_epi16(index, 9), _mm512_set1_epi16((short)k));
        v = _mm512_mask_blend_epi16(here, v, iq_part_avx512(grid + 512 * k, 512, index));
    }
    _mm512_storeu_si512(entry, v);
}
#define IQ_LOOKUP(entry, grid, n, index) iq_lookup_avx512(entry, grid, n, (__m512i)(index)[0])
#define IQ_SET(name) name##_avx512
#define IQ_WIDE 64
#include "iq_read.h"

/* rows of activations at a time, of all that pass by a few tiles that were read once */
enum { TOKENS_IQ_AVX512 = 8, TILES_IQ_AVX512 = 4 };

QSF_TEMPLATE __m512i iq_table_avx512(qsf_iq_kind kind, int high, __m512i nibbles)
{
    const __m128i table = _mm_loadu_si128((const __m128i *)(const void *)qsf_iq_codes[kind][high]);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), nibbles);
}

/* Sizes of 16 columns: see iq_sizes_avx2. */
QSF_TEMPLATE void iq_sizes_avx512(__m512i c[4], qsf_iq_kind kind, const uint32_t entry[2][16])
{
    const __m512i low4 = _mm512_set1_epi8(15), a = load_avx512(entry[0]);
    if (kind == QSF_IQ1 || kind == QSF_IQ2) {
        const __m512i low = _mm512_and_si512(a, low4), high = _mm512_and_si512(_mm512_srli_epi16(a, 4), low4);
        c[0] = iq_table_avx512(kind, 0, low);
        c[1] = iq_table_avx512(kind, 1, low);
        c[2] = iq_table_avx512(kind, 0, high);
        c[3] = iq_table_avx512(kind, 1, high);
        return;
    }
    const __m512i part =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
    const __m512i first = _mm512_shuffle_epi8(a, part),
                  second = _mm512_shuffle_epi8(load_avx512(entry[1]), part);
    const __m512i x = _mm512_mask_blend_epi16(0xaaaaaaaa, first, _mm512_slli_epi32(second, 16)),
        y = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(first, 16), second);
    c[0] = iq_table_avx512(kind, 0, _mm512_and_si512(x, low4));
    c[1] = iq_table_avx512(kind, 0, _mm512_and_si512(_mm512_srli_epi16(x, 4), low4));
    c[2] = iq_table_avx512(kind, 0, _mm512_and_si512(y, low4));
    c[3] = iq_table_avx512(kind, 0, _mm512_and_si512(_mm512_srli_epi16(y, 4), low4));
}

/* The running sums of up to TOKENS_IQ_AVX512 rows. */
typedef struct iq_avx512 {
    __m512 part[TOKENS_IQ_AVX512];      /* of 64 columns: whole numbers below 2^24 */
    __m512 acc[TOKENS_IQ_AVX512];
    int8_t q[TOKENS_IQ_AVX512][256];    /* activations of the tile's columns, turned */
} iq_avx512;

/* 16 columns.  signs: as iq_signs_avx2 has them; q, h: the first row's. */
QSF_TEMPLATE void iq_sub_avx512(iq_avx512 *a, qsf_iq_kind kind, const uint32_t entry[2][16], __m512i signs,
                                const uint8_t *scale, const int8_t *q, const int16_t *h, size_t ldh, size_t n,
                                bool add)
{
    const __m512i off = _mm512_set1_epi16(kind == QSF_IQ1 ? -QSF_IQ1_OFFSET : -128);
    const __m512 by =
        _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)scale)));
    __m512i c[4];
    iq_sizes_avx512(c, kind, entry);
    QSF_UNROLL
    for (int i = 3; i >= 0; i--) {
        if (kind == QSF_IQ1) {
            c[i] = _mm512_or_si512(c[i], signs);
        } else {
            c[i] = _mm512_xor_si512(
                _mm512_mask_sub_epi8(c[i], _mm512_movepi8_mask(signs), _mm512_setzero_si512(), c[i]),
                _mm512_set1_epi8(-128));
            signs = _mm512_add_epi8(signs, signs);
        }
    }
    for (size_t t = 0; t < n; t++, q += 256, h += ldh) {
        int32_t two;
        memcpy(&two, h, 4);
        __m512i sum = _mm512_madd_epi16(_mm512_set1_epi32(two), off);
        QSF_UNROLL
        for (int i = 0; i < 4; i++) sum = _mm512_dpbusd_epi32(sum, c[i], quad_avx512(q, i));
        const __m512 f = _mm512_cvtepi32_ps(sum);
        a->part[t] = add ? _mm512_fmadd_ps(f, by, a->part[t]) : _mm512_mul_ps(f, by);
    }
}

QSF_TEMPLATE void iq_tile_avx512(iq_avx512 *a, qsf_iq_kind kind, const qsf_iq_tile *w, const qsf_act *x,
                                 size_t m, size_t n, size_t at)
{
    const __m512i turn =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const size_t ldh = x->cols / 8, ldd = x->cols / 64;
    for (size_t t = 0; t < n; t++)
        for (int k = 0; k < 256; k += 64)
            _mm512_storeu_si512(a->q[t] + k,
                                _mm512_shuffle_epi8(load_avx512(x->q + (m + t) * x->cols + at + k), turn));
    for (int g = 0; g < 8; g++) {
        const int8_t *q = a->q[0] + 32 * g;
        const int16_t *h = x->h + m * ldh + (at + 32 * (size_t)g) / 8;
        const __m512i s = load_avx512(w->sign[g]), even = kind == QSF_IQ1 ? s : _mm512_slli_epi16(s, 4);
        const __m512 low = _mm512_castsi512_ps(_mm512_unpacklo_epi8(even, s)),
            high = _mm512_castsi512_ps(_mm512_unpackhi_epi8(even, s));
        iq_sub_avx512(a, kind, w->entry[g][0], _mm512_castps_si512(_mm512_shuffle_ps(low, high, 0x88)),
                      w->scale[2 * g], q, h, ldh, n, g % 2);
        iq_sub_avx512(a, kind, w->entry[g][1], _mm512_castps_si512(_mm512_shuffle_ps(low, high, 0xdd)),
                      w->scale[2 * g + 1], q + 16, h + 2, ldh, n, true);
        if (g % 2 == 0) continue;
        const float *d = x->d + m * ldd + at / 64 + g / 2;
        const __m512 by = _mm512_loadu_ps(w->d);
        for (size_t t = 0; t < n; t++, d += ldd)
            a->acc[t] = _mm512_fmadd_ps(_mm512_set1_ps(*d), _mm512_mul_ps(a->part[t], by), a->acc[t]);
    }
}

/* Up to TILES_IQ_AVX512 tiles of a row, read before, times n rows of activations; y has what the
 * tiles before them gave. */
QSF_TEMPLATE void iq_rows_avx512(float *y, size_t ldy, qsf_iq_kind kind, const qsf_iq_tile *w, size_t tiles,
                                 const qsf_act *x, size_t m, size_t n, size_t at)
{
    iq_avx512 a;
    for (size_t t = 0; t < n; t++) a.acc[t] = at ? _mm512_loadu_ps(y + t * ldy) : _mm512_setzero_ps();
    for (size_t i = 0; i < tiles; i++, at += 256) {
        if (n == 1) iq_tile_avx512(&a, kind, w + i, x, m, 1, at);
        else if (n == TOKENS_IQ_AVX512) iq_tile_avx512(&a, kind, w + i, x, m, TOKENS_IQ_AVX512, at);
        else iq_tile_avx512(&a, kind, w + i, x, m, n, at);
    }
    for (size_t t = 0; t < n; t++) _mm512_storeu_ps(y + t * ldy, a.acc[t]);
}
#define KIND_AVX512(K)                                                                                     \
      static void rows_##K##_avx512(float *y, size_t ldy, const qsf_iq_tile *w, size_t tiles,                \
                                    const qsf_act *x, size_t m, size_t n, size_t at)                         \
      {                                                                                                      \
          iq_rows_avx512(y, ldy, K, w, tiles, x, m, n, at);                                                  \
      }
KIND_AVX512(QSF_IQ1) KIND_AVX512(QSF_IQ2) KIND_AVX512(QSF_IQ3XXS) KIND_AVX512(QSF_IQ3S)
#undef KIND_AVX512

/* Whether one row of activations is faster without lookups: if these would be more than two lookups
 * of 512 entries. */
QSF_TEMPLATE bool iq_alone_avx512(qsf_form f)
{
    return f == QSF_F_IQ2S || f == QSF_F_IQ3S || qsf_iq_kind_of(f) == QSF_IQ1;
}

static void iq_any_avx512(qsf_form form, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                          size_t tiles, size_t blocks)
{
    static void (*const rows[4])(float *, size_t, const qsf_iq_tile *, size_t, const qsf_act *, size_t,
                                 size_t, size_t) = {
        [QSF_IQ1] = rows_QSF_IQ1_avx512,
        [QSF_IQ2] = rows_QSF_IQ2_avx512,
        [QSF_IQ3XXS] = rows_QSF_IQ3XXS_avx512,
        [QSF_IQ3S] = rows_QSF_IQ3S_avx512,
    };
    const size_t bytes = qsf_tile_bytes(form, 256), band = qsf_band_rows(x->cols);
    qsf_iq_tile part[TILES_IQ_AVX512];
    if (x->n == 1 && iq_alone_avx512(form)) {
        qsf_iq_matvec_avx2(form, y, w, x, tiles, blocks);
        return;
    }
    for (size_t from = 0; from < x->n; from += band)
        for (size_t t = 0; t < tiles; t++)
            for (size_t b = 0; b < blocks; b += TILES_IQ_AVX512) {
                const size_t here = QSF_MIN(blocks - b, (size_t)TILES_IQ_AVX512),
                             last = QSF_MIN(x->n, from + band);
                for (size_t i = 0; i < here; i++)
                    iq_read_avx512(part + i, form, w + (t * blocks + b + i) * bytes);
                for (size_t m = from; m < last; m += TOKENS_IQ_AVX512)
                    rows[qsf_iq_kind_of(form)](y + m * ldy + 16 * t, ldy, part, here, x, m,
                                               QSF_MIN(last - m, (size_t)TOKENS_IQ_AVX512), 256 * b);
            }
}

#define FORM_AVX512(F)                                                                                      \
    static void matmul_##F##_avx512(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                  size_t blocks, uint32_t block)                                          \
    { (void)block; iq_any_avx512(QSF_F_##F, y, ldy, w, x, tiles, blocks); }                                 \
    static void matvec_##F##_avx512(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,             \
                                  size_t blocks, uint32_t block)                                          \
    { (void)block; iq_any_avx512(QSF_F_##F, y, 16 * tiles, w, x, tiles, blocks); }
QSF_EACH_IQ_FORM(FORM_AVX512)
#undef FORM_AVX512

void qsf_iq_avx512(qsf_kernels *k)
{
#define FORM_AVX512(F) k->matvec[QSF_F_##F] = matvec_##F##_avx512; k->matmul[QSF_F_##F] = matmul_##F##_avx512;
    QSF_EACH_IQ_FORM(FORM_AVX512)
#undef FORM_AVX512
}

QSF_TARGET_END
#endif
