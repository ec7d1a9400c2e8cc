/* Tiles times activations with AVX-VNNI: a tile is read as two halves of 8 rows, vpdpbusd
 * multiplies four columns of each row.  For processors that have vpdpbusd without AVX-512 (Alder
 * Lake and later).
 * SPDX-License-Identifier: MIT */
#include "trellis.h"
#include "trellis_gfni.h"
#include "tensor/types.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#if defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11
#include <immintrin.h>

/* tests/kernels/avxvnni.h compiles this file once more with AVX-512's encoding of the same
 * instruction, for machines that have only that. */
#if defined(QSF_AVXVNNI_BY_EVEX)
QSF_TARGET_BEGIN("avx512f,avx512vl,avx512vnni,gfni,avx2,fma,f16c")
#  define DPBUSD_AVXVNNI _mm256_dpbusd_epi32
#else
QSF_TARGET_BEGIN("avxvnni,gfni,avx2,fma,f16c")
#  define DPBUSD_AVXVNNI _mm256_dpbusd_avx_epi32
#endif

#include "tiles_avx2.h"
#include "trellis_avx2.h"

/* 8-bit codes become unsigned by adding 128. */
QSF_TEMPLATE int offset_avxvnni(qsf_form form) { return qsf_form_signed(form) ? 128 : qsf_form_offset(form); }

/* As code_avx2 has them, but never with a sign. */
QSF_TEMPLATE __m256i code_avxvnni(source_avx2 *s, const uint8_t *g, int j, qsf_form form)
{
    const __m256i c = code_avx2(s, g, j, form);
    return qsf_form_signed(form) ? _mm256_xor_si256(c, _mm256_set1_epi8((char)0x80)) : c;
}

/* acc + d * (value of the integer sums); sq is the plain sum of the activations. */
QSF_TEMPLATE __m256 value_avxvnni(__m256 acc, __m256i sum, __m256 scale, __m256 zero, float d, float sq,
                                  qsf_form form)
{
    const __m256 f = _mm256_cvtepi32_ps(sum);
    if (qsf_form_has_zero(form))
        return _mm256_fmadd_ps(_mm256_set1_ps(d),
                               _mm256_fmadd_ps(scale, f, _mm256_mul_ps(zero, _mm256_set1_ps(sq))), acc);
    /* exact, as is the sum with f */
    const __m256 c = _mm256_set1_ps(-(float)offset_avxvnni(form) * sq);
    return _mm256_fmadd_ps(_mm256_mul_ps(scale, _mm256_set1_ps(d)), _mm256_add_ps(f, c), acc);
}
QSF_TEMPLATE void store_avxvnni(float *y, __m256 v, qsf_form form)
{
    _mm256_storeu_ps(y, qsf_form_negated(form) ? _mm256_sub_ps(_mm256_setzero_ps(), v) : v);
}

/* ---- one row of activations ---- */
/* Integer sums of both halves over `groups` groups.  2- and 4-bit fields stay where they are in
 * their bytes: sums of each place come together at the end, which is exact. */
QSF_TEMPLATE void dot_avxvnni(__m256i sum[2], const uint8_t *w, const int8_t *q, int groups, qsf_form form)
{
    const bool stay = qsf_form_plain(form);
    const int bits = qsf_form_bits(form), fields = stay ? 8 / bits : 2;
    __m256i a[2][4];
    source_avx2 from[2];
    QSF_UNROLL
    for (int h = 0; h < 2; h++) {
        QSF_UNROLL
        for (int f = 0; f < 4; f++) a[h][f] = _mm256_setzero_si256();
        from[h].low = from[h].high = a[h][0];
    }
    QSF_UNROLL
    for (int j = 0; j < 8 * groups; j++) {
        const __m256i quad = quad_avx2(q, j);
        QSF_UNROLL
        for (int h = 0; h < 2; h++) {
            __m256i c;
            if (stay) {
                if (j % fields == 0) from[h].low = fetch_avx2(w + 64 * (j / fields) + 32 * h);
                c = _mm256_and_si256(from[h].low,
                                     _mm256_set1_epi8((char)(((1 << bits) - 1) << bits * (j % fields))));
            } else c = code_avxvnni(&from[h], w + (size_t)(j / 8) * 64 * (size_t)bits + 32 * h, j % 8, form);
            a[h][j % fields] = DPBUSD_AVXVNNI(a[h][j % fields], c, quad);
        }
    }
    QSF_UNROLL
    for (int h = 0; h < 2; h++) {
        if (stay && bits == 2) {
            const __m256i low = _mm256_add_epi32(a[h][0], _mm256_srai_epi32(a[h][1], 2));
            sum[h] = _mm256_add_epi32(low, _mm256_add_epi32(_mm256_srai_epi32(a[h][2], 4),
                                                            _mm256_srai_epi32(a[h][3], 6)));
        } else sum[h] = _mm256_add_epi32(a[h][0], stay ? _mm256_srai_epi32(a[h][1], 4) : a[h][1]);
    }
}

QSF_TEMPLATE void matvec_any_avxvnni(qsf_form form, bool small, float *y, const uint8_t *w, const qsf_act *x,
                                     size_t tiles, size_t blocks, uint32_t block)
{
    const int groups = small ? 1 : 2;
    const size_t group = qsf_form_group(form);
    for (size_t t = 0; t < tiles; t++, y += 16) {
        __m256 acc0 = _mm256_setzero_ps(), acc1 = acc0;
        const int8_t *q = x->q;
        const float *s = x->s;
        size_t part = 0;
        for (size_t b = 0; b < blocks; b++) {
            const __m256 scale0 = scale8_avx2(w, 0, form), scale1 = scale8_avx2(w, 1, form);
            const __m256 zero0 = qsf_form_has_zero(form) ? half8_avx2(w + 32) : scale0,
                zero1 = qsf_form_has_zero(form) ? half8_avx2(w + 48) : scale1;
            w += qsf_form_head(form);
            for (const uint8_t *end = w + block / 32 * group; w < end; part++) {
                const float d = x->d[small ? part / 2 : part], sq = small ? s[0] : s[0] + s[1];
                __m256i sum[2];
                dot_avxvnni(sum, w, q, groups, form);
                acc0 = value_avxvnni(acc0, sum[0], scale0, zero0, d, sq, form);
                acc1 = value_avxvnni(acc1, sum[1], scale1, zero1, d, sq, form);
                w += (size_t)groups * group, q += 32 * groups, s += groups;
            }
        }
        store_avxvnni(y, acc0, form);
        store_avxvnni(y + 8, acc1, form);
    }
}

/* ---- several rows of activations ---- */
/* with both halves 12 sums, two codes and a quad: registers for all but the source of the codes */
enum { TOKENS_AVXVNNI = 6 };

/* One tile row times T rows of activations, of which n are stored; the others repeat the last. */
QSF_TEMPLATE void tile_row_avxvnni(float *y, size_t ldy, qsf_form form, bool small, int T, const uint8_t *w,
                                   const qsf_act *x, size_t m, size_t n, size_t blocks, uint32_t block)
{
    const int groups = small ? 1 : 2;
    const size_t group = qsf_form_group(form);
    size_t row[TOKENS_AVXVNNI];
    __m256 acc[TOKENS_AVXVNNI][2];
    QSF_UNROLL
    for (int t = 0; t < T; t++) {
        row[t] = m + QSF_MIN((size_t)t, n - 1);
        acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    }
    size_t at = 0;
    for (size_t b = 0; b < blocks; b++) {
        __m256 scale[2], zero[2];
        for (int h = 0; h < 2; h++) {
            scale[h] = scale8_avx2(w, h, form);
            zero[h] = qsf_form_has_zero(form) ? half8_avx2(w + 32 + 16 * h) : scale[h];
        }
        w += qsf_form_head(form);
        for (const uint8_t *end = w + block / 32 * group; w < end; w += (size_t)groups * group,
             at += 32 * (size_t)groups) {
            __m256i sum[TOKENS_AVXVNNI][2];
            const int8_t *q[TOKENS_AVXVNNI];
            source_avx2 from[2] = { { _mm256_setzero_si256(), _mm256_setzero_si256() },
                                    { _mm256_setzero_si256(), _mm256_setzero_si256() } };
            QSF_UNROLL
            for (int t = 0; t < T; t++) {
                q[t] = x->q + row[t] * x->cols + at;
                sum[t][0] = sum[t][1] = _mm256_setzero_si256();
            }
            QSF_UNROLL
            for (int j = 0; j < 8 * groups; j++) {
                const uint8_t *g = w + (size_t)(j / 8) * group;
                const __m256i c0 = code_avxvnni(&from[0], g, j % 8, form),
                    c1 = code_avxvnni(&from[1], g + 32, j % 8, form);
                QSF_UNROLL
                for (int t = 0; t < T; t++) {
                    const __m256i quad = quad_avx2(q[t], j);
                    sum[t][0] = DPBUSD_AVXVNNI(sum[t][0], c0, quad);
                    sum[t][1] = DPBUSD_AVXVNNI(sum[t][1], c1, quad);
                }
            }
            QSF_UNROLL
            for (int t = 0; t < T; t++) {
                const float d = x->d[row[t] * (x->cols / 64) + at / 64],
                    *s = x->s + row[t] * (x->cols / 32) + at / 32;
                const float sq = small ? s[0] : s[0] + s[1];
                acc[t][0] = value_avxvnni(acc[t][0], sum[t][0], scale[0], zero[0], d, sq, form);
                acc[t][1] = value_avxvnni(acc[t][1], sum[t][1], scale[1], zero[1], d, sq, form);
            }
        }
    }
    QSF_UNROLL
    for (int t = 0; t < T; t++)
        if ((size_t)t < n) {
            store_avxvnni(y + (size_t)t * ldy, acc[t][0], form);
            store_avxvnni(y + (size_t)t * ldy + 8, acc[t][1], form);
        }
}

QSF_TEMPLATE void matmul_any_avxvnni(qsf_form form, bool small, float *y, size_t ldy, const uint8_t *w,
                                     const qsf_act *x, size_t tiles, size_t blocks, uint32_t block)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(form, block), band = qsf_band_rows(x->cols);
    for (size_t from = 0; from < x->n; from += band)
        for (size_t t = 0; t < tiles; t++) {
            const size_t end = QSF_MIN((size_t)x->n, from + band);
            for (size_t m = from; m < end; m += TOKENS_AVXVNNI) {
                const size_t n = QSF_MIN(end - m, (size_t)TOKENS_AVXVNNI);
                float *out = y + m * ldy + 16 * t;
                const uint8_t *row = w + t * row_bytes;
                if (n <= 2) tile_row_avxvnni(out, ldy, form, small, 2, row, x, m, n, blocks, block);
                else if (n <= 4) tile_row_avxvnni(out, ldy, form, small, 4, row, x, m, n, blocks, block);
                else tile_row_avxvnni(out, ldy, form, small, 6, row, x, m, n, blocks, block);
            }
        }
}

#    define FORM_AVXVNNI(F)                                                                                  \
        static void matvec_##F##_avxvnni(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,         \
                                         size_t blocks, uint32_t block)                                      \
        {                                                                                                    \
            if (QSF_SMALL(F, block))                                                                         \
                matvec_any_avxvnni(QSF_F_##F, true, y, w, x, tiles, blocks, block);                          \
            else                                                                                             \
                matvec_any_avxvnni(QSF_F_##F, false, y, w, x, tiles, blocks, block);                         \
        }                                                                                                    \
        static void matmul_##F##_avxvnni(float *y, size_t ldy, const uint8_t *w, const qsf_act *x,           \
                                         size_t tiles, size_t blocks, uint32_t block)                        \
        {                                                                                                    \
            if (x->n == 1)                                                                                   \
                matvec_##F##_avxvnni(y, w, x, tiles, blocks, block);                                         \
            else if (QSF_SMALL(F, block))                                                                    \
                matmul_any_avxvnni(QSF_F_##F, true, y, ldy, w, x, tiles, blocks, block);                     \
            else                                                                                             \
                matmul_any_avxvnni(QSF_F_##F, false, y, ldy, w, x, tiles, blocks, block);                    \
        }
QSF_EACH_FORM(FORM_AVXVNNI)
QSF_EACH_GGML_FORM(FORM_AVXVNNI)
#undef FORM_AVXVNNI

/* ---- trellises: as in trellis_avx2.c, with levels made unsigned ---- */
QSF_TEMPLATE __m256i parity_avxvnni(__m256i v, uint64_t matrix)
{
    return _mm256_gf2p8affine_epi64_epi8(v, _mm256_set1_epi64x((int64_t)matrix), 0);
}
QSF_TEMPLATE __m256i not_parity_avxvnni(__m256i v, uint64_t matrix)
{
    return _mm256_gf2p8affine_epi64_epi8(v, _mm256_set1_epi64x((int64_t)matrix), 0xff);
}
/* As trellis_fetch_avx2.  before: u that begins three steps earlier. */
QSF_TEMPLATE void trellis_fetch_avxvnni(__m256i *to, __m256i *last, const trellis_tables_avx2 *tables,
                                        const uint8_t *g, const trellis_columns_avx2 *x, int k)
{
    (void)tables, (void)x;
    const __m256i u = fetch_avx2(g + 64 * (k - 1)),
        before = _mm256_or_si256(_mm256_slli_epi32(u, 3), _mm256_srli_epi32(*last, 29));
    *last = u;
    if (k == 5) {
        QSF_UNROLL
        for (int i = 0; i < 4; i++) {
            const uint64_t turns = turns_gfni(i < 2 ? 3 + 2 * i : 2 * i);
            to[i] = _mm256_xor_si256(fetch_avx2(g + 64 * i), not_parity_avxvnni(i < 2 ? before : u, turns));
        }
        to[4] = _mm256_xor_si256(not_parity_avxvnni(before, choose_gfni(0, 3)),
                                 parity_avxvnni(u, choose_gfni(4, 4)));
        return;
    }
    if (k == 4) to[4] = fetch_avx2(g + 128);
    const __m256i first = fetch_avx2(g);
    QSF_UNROLL
    for (int i = 0; i < 2; i++) {
        const __m256i pairs = parity_avxvnni(i ? u : before, pairs_gfni(3 + i)),
            m = k == 2 ? parity_avxvnni(first, apart_gfni(4 * i)) : i ? fetch_avx2(g + 64) : first,
            other = _mm256_and_si256(_mm256_xor_si256(pairs, m), _mm256_set1_epi8((char)0xcc));
        to[2 * i] = _mm256_xor_si256(m, other);
        to[2 * i + 1] = _mm256_xor_si256(pairs, other);
    }
}
QSF_TEMPLATE void trellis_dot_avxvnni(__m256i sum[2], __m256i u[4], __m256i s[4])
{
    QSF_UNROLL
    for (int i = 0; i < 4; i++) sum[i % 2] = DPBUSD_AVXVNNI(sum[i % 2], u[i], s[i]);
}
#    define FORM_AVXVNNI(K)                                                                                  \
        static void matvec_TR##K##_avxvnni(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,       \
                                           size_t blocks, uint32_t block)                                    \
        {                                                                                                    \
            (void)block;                                                                                     \
            trellis_matvec_avx2(K, false, y, w, x, tiles, blocks, trellis_fetch_avxvnni,            \
                                trellis_dot_avxvnni);                                                \
        }                                                                                                    \
        static void matmul_TR##K##_avxvnni(float *y, size_t ldy, const uint8_t *w, const qsf_act *x,         \
                                           size_t tiles, size_t blocks, uint32_t block)                      \
        {                                                                                                    \
            if (x->n == 1)                                                                                   \
                matvec_TR##K##_avxvnni(y, w, x, tiles, blocks, block);                                       \
            else                                                                                             \
                qsf_trellis_matmul(K, y, ldy, w, x, tiles, blocks, qsf_trellis_eight_avx2,                   \
                                   matmul_8_avxvnni);                                                        \
        }
QSF_EACH_TRELLIS(FORM_AVXVNNI)
#undef FORM_AVXVNNI

void qsf_matmul_avxvnni(qsf_kernels *k)
{
#define FORM_AVXVNNI(F)                                  \
    k->matvec[QSF_F_##F] = matvec_##F##_avxvnni;         \
    k->matmul[QSF_F_##F] = matmul_##F##_avxvnni;
    QSF_EACH_FORM(FORM_AVXVNNI)
    QSF_EACH_GGML_FORM(FORM_AVXVNNI)
    FORM_AVXVNNI(TR2) FORM_AVXVNNI(TR3) FORM_AVXVNNI(TR4) FORM_AVXVNNI(TR5)
#undef FORM_AVXVNNI
}

#undef DPBUSD_AVXVNNI
QSF_TARGET_END
#else
void qsf_matmul_avxvnni(qsf_kernels *k) { (void)k; }       /* a compiler that does not know it: AVX2 stays */
#endif
#endif
