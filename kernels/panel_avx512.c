/* Panels of unpacked weights times activations: 16 sums in flight, two for each of 8 rows of
 * activations.  Eight alone leave the multipliers a fifth of their time idle; more than 16 leave no
 * registers for the rows' totals, and a burst of stores costs more than it brings.
 * SPDX-License-Identifier: MIT */
#include "panel_avx512.h"
#include "tensor/types.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#include "tiles_avx512.h"

enum { PANEL_BAND = 256 };

/* What the rows of a band contribute to the columns of a panel besides their codes: the sums of the
 * codes, multiplied by the zero point, or by -offset as the initial value of the sums of products.
 * For zero points of 32 columns, x already has them in this form. */
typedef struct panel_side { int32_t sum[PANEL_BAND][QSF_PANEL_SUBS]; } panel_side;
QSF_TEMPLATE bool side_is_there(int sub, bool zero) { return zero && sub == 32; }

/* 256 columns at a time, as x's rows are made of. */
static void panel_side_read(panel_side *side, const qsf_panel_form *f, const qsf_act *x, size_t row, size_t n,
                            size_t at, size_t cols)
{
    const int times_all = f->zero ? 1 : -f->offset;
    const __m512i by = f->sub == 16 ? _mm512_set1_epi16((short)times_all) : _mm512_set1_epi32(times_all);
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    for (size_t r = 0; r < n && !side_is_there(f->sub, f->zero); r++) {
        const float *s = x->s + (row + r) * (x->cols / 32) + at / 32;
        const int16_t *h = x->h + (row + r) * (x->cols / 8) + at / 8;
        int32_t *to = side->sum[r];
        for (size_t c = 0; c < cols; c += 256, s += 8, h += 32, to += 256 / f->sub) {
            const __m512i sum = _mm512_castsi256_si512(_mm256_cvtps_epi32(_mm256_loadu_ps(s)));
            if (f->sub == 16) {
                _mm512_storeu_si512(to, _mm512_madd_epi16(load_avx512(h), by));
            } else if (f->sub == 32) {
                const __m512i times = _mm512_mullo_epi32(sum, by);
                _mm256_storeu_si256((__m256i *)(void *)to, _mm512_castsi512_si256(times));
            } else {
                const __m512i low = _mm512_permutexvar_epi32(even, sum);
                const __m512i high = _mm512_permutexvar_epi32(odd, sum);
                const __m512i times = _mm512_mullo_epi32(_mm512_add_epi32(low, high), by);
                _mm_storeu_si128((__m128i *)(void *)to, _mm512_castsi512_si128(times));
            }
        }
    }
}

/* Two sums for each of T rows: `cols` columns from column c on, and the same number after them. */
QSF_TEMPLATE void panel_sums(__m512i sum[8][2], int T, const uint8_t *w, const int8_t *const q[8],
                             size_t c, int cols)
{
    QSF_UNROLL
    for (int j = 0; j < cols / 4; j++) {
        const __m512i a = load_avx512(w + 64 * j), b = load_avx512(w + 64 * (cols / 4 + j));
        QSF_UNROLL
        for (int t = 0; t < T; t++) {
            sum[t][0] = _mm512_dpbusd_epi32(sum[t][0], a, quad_avx512(q[t] + c, j));
            sum[t][1] = _mm512_dpbusd_epi32(sum[t][1], b, quad_avx512(q[t] + c, cols / 4 + j));
        }
    }
}

/* T rows of activations against a panel's columns, which begin at column `at`:
 * the same steps as in matmul_avx512.c. */
QSF_TEMPLATE void panel_rows_avx512(int sub, bool has_zero, int T, float *y, size_t ldy, const qsf_panel *p,
                                    const panel_side *side, size_t band_row, const qsf_act *x, size_t row,
                                    size_t at, size_t cols)
{
    const int n_sums = sub == 64 ? 1 : 64 / sub, half = sub == 16 ? 16 : 32;
    const bool there = side_is_there(sub, has_zero);
    const uint8_t *w = p->code[0];
    const float *scale = p->scale[0], *zero = p->zero[0], *d = x->d + row * (x->cols / 64) + at / 64,
        *sums = x->s + row * (x->cols / 32) + at / 32;
    const int32_t *s = side->sum[band_row];
    const int8_t *q[8];
    __m512 acc[8];
    QSF_UNROLL
    for (int t = 0; t < T; t++) {
        q[t] = x->q + (row + (size_t)t) * x->cols + at;
        acc[t] = at ? _mm512_loadu_ps(y + (size_t)t * ldy) : _mm512_setzero_ps();
    }
    for (size_t c = 0; c < cols; c += 64, d++) {
        __m512 part[8];
        QSF_UNROLL
        for (int t = 0; t < T; t++) part[t] = _mm512_setzero_ps();
        QSF_UNROLL
        for (int k = 0; k < n_sums; k += 2, w += 32 * half) {
            __m512i sum[8][2];
            QSF_UNROLL
            for (int t = 0; t < T; t++) {
                sum[t][0] = has_zero ? _mm512_setzero_si512() : _mm512_set1_epi32(s[t * QSF_PANEL_SUBS + k]);
                sum[t][1] = has_zero || sub == 64 ? _mm512_setzero_si512()
                    : _mm512_set1_epi32(s[t * QSF_PANEL_SUBS + k + 1]);
            }
            panel_sums(sum, T, w, q, c + (size_t)(k * sub), half);
            for (int i = 0; i < (sub == 64 ? 1 : 2); i++) {
                const __m512 by = _mm512_loadu_ps(scale + 16 * (k + i)),
                    z = _mm512_loadu_ps(zero + 16 * (k + i));
                QSF_UNROLL
                for (int t = 0; t < T; t++) {
                    const __m512 v = _mm512_cvtepi32_ps(sub == 64 ? _mm512_add_epi32(sum[t][0], sum[t][1])
                                                        : sum[t][i]);
                    part[t] = k + i ? _mm512_fmadd_ps(by, v, part[t]) : _mm512_mul_ps(by, v);
                    if (!has_zero) continue;
                    const float *float_sum = sums + (size_t)t * (x->cols / 32) + k + i;
                    const __m512 all = there ? _mm512_set1_ps(*float_sum)
                        : _mm512_cvtepi32_ps(_mm512_set1_epi32(s[t * QSF_PANEL_SUBS + k + i]));
                    part[t] = _mm512_fmadd_ps(z, all, part[t]);
                }
            }
        }
        QSF_UNROLL
        for (int t = 0; t < T; t++)
            acc[t] = _mm512_fmadd_ps(_mm512_set1_ps(d[(size_t)t * (x->cols / 64)]), part[t], acc[t]);
        s += n_sums, sums += n_sums, scale += 16 * n_sums, zero += 16 * n_sums;
    }
    QSF_UNROLL
    for (int t = 0; t < T; t++) _mm512_storeu_ps(y + (size_t)t * ldy, acc[t]);
}

typedef void panel_rows_fn(float *y, size_t ldy, const qsf_panel *p, const panel_side *side, size_t band_row,
                           const qsf_act *x, size_t row, size_t at, size_t cols);
#define PANEL_ROWS(SUB, ZERO, T)                                                                          \
    static void panel_rows_##SUB##_##ZERO##_##T(float *y, size_t ldy, const qsf_panel *p,                 \
                                                const panel_side *side,                                   \
                                                size_t band_row, const qsf_act *x, size_t row, size_t at, \
                                                size_t cols)                                              \
    {                                                                                                     \
        panel_rows_avx512(SUB, ZERO, T, y, ldy, p, side, band_row, x, row, at, cols);                     \
    }
#define PANEL_ALL(SUB, ZERO) PANEL_ROWS(SUB, ZERO, 8) PANEL_ROWS(SUB, ZERO, 4) PANEL_ROWS(SUB, ZERO, 2) \
    PANEL_ROWS(SUB, ZERO, 1)
PANEL_ALL(16, 0) PANEL_ALL(16, 1) PANEL_ALL(32, 0) PANEL_ALL(32, 1) PANEL_ALL(64, 0) PANEL_ALL(64, 1)
#undef PANEL_ALL
#undef PANEL_ROWS

enum { PANEL_COUNTS = 4 };
static const size_t panel_counts[PANEL_COUNTS] = { 8, 4, 2, 1 };

/* All rows of a band against a panel. */
static void panel_band(const qsf_panel_form *f, float *y, size_t ldy, const qsf_panel *p,
                       const panel_side *side, const qsf_act *x, size_t row, size_t n, size_t at, size_t cols,
                       const qsf_panel_next *next)
{
#define PANEL_ALL(SUB, ZERO) \
    { panel_rows_##SUB##_##ZERO##_8, panel_rows_##SUB##_##ZERO##_4, panel_rows_##SUB##_##ZERO##_2, \
      panel_rows_##SUB##_##ZERO##_1 }
    static panel_rows_fn *const all[3][2][PANEL_COUNTS] = {
        { PANEL_ALL(16, 0), PANEL_ALL(16, 1) }, { PANEL_ALL(32, 0), PANEL_ALL(32, 1) },
        { PANEL_ALL(64, 0), PANEL_ALL(64, 1) },
    };
#undef PANEL_ALL
    panel_rows_fn *const *rows = all[f->sub / 32][f->zero];
    for (size_t r = 0, i = 0; r < n; r += panel_counts[i]) {
        while (n - r < panel_counts[i]) i++;
        qsf_panel_ask(next, r, panel_counts[i], n);
        rows[i](y + (row + r) * ldy, ldy, p, side, r, x, row + r, at, cols);
    }
}

/* ---- two tile rows at once, if 64 columns share a scale and have no zero point ----
 * A broadcast of activations then serves two products: with one broadcast per product, loading
 * takes as long as multiplying.  Six rows of activations: 12 sums, 12 totals, 2 codes, 1
 * broadcast. */
enum { PAIR_ROWS = 6, PAIR_COLS = 512 };        /* two panels of which stay in the first cache */

QSF_TEMPLATE void panel_pair_avx512(int T, float *y, size_t ldy, const qsf_panel *p, const panel_side *side,
                                    size_t band_row, const qsf_act *x, size_t row, size_t at, size_t cols)
{
    const float *d = x->d + row * (x->cols / 64) + at / 64;
    const int32_t *s = side->sum[band_row];
    const int8_t *q[PAIR_ROWS];
    __m512 acc[PAIR_ROWS][2];
    QSF_UNROLL
    for (int t = 0; t < T; t++) {
        q[t] = x->q + (row + (size_t)t) * x->cols + at;
        QSF_UNROLL
        for (int h = 0; h < 2; h++)
            acc[t][h] = at ? _mm512_loadu_ps(y + (size_t)t * ldy + 16 * h) : _mm512_setzero_ps();
    }
    for (size_t c = 0; c < cols; c += 64, d++, s++) {
        const uint8_t *first = p[0].code[c / 4], *second = p[1].code[c / 4];
        __m512i sum[PAIR_ROWS][2];
        QSF_UNROLL
        for (int t = 0; t < T; t++) sum[t][0] = sum[t][1] = _mm512_set1_epi32(s[t * QSF_PANEL_SUBS]);
        QSF_UNROLL
        for (int j = 0; j < 16; j++) {
            const __m512i a = load_avx512(first + 64 * j), b = load_avx512(second + 64 * j);
            QSF_UNROLL
            for (int t = 0; t < T; t++) {
                __m512i quad = quad_avx512(q[t] + c, j);
                __asm__("" : "+v"(quad));       /* left to itself, the compiler loads it twice */
                sum[t][0] = _mm512_dpbusd_epi32(sum[t][0], a, quad);
                sum[t][1] = _mm512_dpbusd_epi32(sum[t][1], b, quad);
            }
        }
        QSF_UNROLL
        for (int h = 0; h < 2; h++) {
            const __m512 by = _mm512_loadu_ps(p[h].scale[c / 64]);
            QSF_UNROLL
            for (int t = 0; t < T; t++)
                acc[t][h] = _mm512_fmadd_ps(_mm512_set1_ps(d[(size_t)t * (x->cols / 64)]),
                                            _mm512_mul_ps(by, _mm512_cvtepi32_ps(sum[t][h])), acc[t][h]);
        }
    }
    QSF_UNROLL
    for (int t = 0; t < T; t++)
        QSF_UNROLL
        for (int h = 0; h < 2; h++) _mm512_storeu_ps(y + (size_t)t * ldy + 16 * h, acc[t][h]);
}

static void panel_pair_band(float *y, size_t ldy, const qsf_panel *p, const panel_side *side,
                            const qsf_act *x, size_t row, size_t n, size_t at, size_t cols,
                            const qsf_panel_next *next)
{
    size_t r = 0;
    for (; n - r >= 6; r += 6) {
        qsf_panel_ask(next, r, 6, n);
        panel_pair_avx512(6, y + (row + r) * ldy, ldy, p, side, r, x, row + r, at, cols);
    }
    for (; n - r >= 2; r += 2)
        panel_pair_avx512(2, y + (row + r) * ldy, ldy, p, side, r, x, row + r, at, cols);
    if (r < n) panel_pair_avx512(1, y + (row + r) * ldy, ldy, p, side, r, x, row + r, at, cols);
}

void qsf_panel_matmul_avx512(const qsf_panel_form *f, float *y, size_t ldy, const uint8_t *w,
                             size_t row_bytes, const qsf_act *x, size_t tiles, size_t blocks, uint32_t block)
{
    qsf_panel panel[2];
    panel_side side;
    const bool pairs = f->sub == 64 && !f->zero && !f->band && tiles > 1;
    const size_t most = pairs ? PAIR_COLS : (size_t)QSF_MIN(QSF_PANEL_COLS, QSF_PANEL_SUBS * f->sub),
        tile_bytes = row_bytes / blocks;
    const size_t cols = (size_t)qsf_round_up(blocks * block, 64);
    for (size_t from = 0; from < x->n; from += PANEL_BAND) {
        const size_t n = QSF_MIN(x->n - from, (size_t)PANEL_BAND);
        for (size_t at = 0; at < cols; at += most) {
            const size_t here = QSF_MIN(most, cols - at), b = QSF_MIN(here / block, blocks - at / block);
            if (!f->band) panel_side_read(&side, f, x, from, n, at, here);
            panel[0].first = panel[1].first = at == 0;
            for (size_t t = 0, two; t < tiles; t += 1 + two) {
                const uint8_t *tile = w + t * row_bytes + at / block * tile_bytes;
                two = pairs && t + 1 < tiles;
                qsf_panel_next next = { tile + (1 + two) * row_bytes, b * tile_bytes, row_bytes, 1 + two };
                if (t + 1 + two >= tiles && at + here < cols) next.w = w + (at + here) / block * tile_bytes;
                f->unpack(&panel[0], tile, b, block);
                if (two) {
                    f->unpack(&panel[1], tile + row_bytes, b, block);
                    panel_pair_band(y + 16 * t, ldy, panel, &side, x, from, n, at, here, &next);
                } else if (f->band) f->band(f, y + 16 * t, ldy, &panel[0], x, from, n, at, here, &next);
                else panel_band(f, y + 16 * t, ldy, &panel[0], &side, x, from, n, at, here, &next);
            }
        }
    }
}

QSF_TARGET_END
#endif
