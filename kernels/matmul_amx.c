/* Tiles times many rows of activations with AMX: one instruction multiplies 16 rows of activations
 * by 16 rows of weights, 64 columns.
 * SPDX-License-Identifier: MIT
 *
 * A panel of AVX-512 (panel_avx512.h) has the layout that AMX asks of its second operand, the
 * activations that of its first.  Integer sums leave the tile registers wherever scales change;
 * scaling takes the steps of AVX-512, so both have the same bits, and what has fewer than AMX_LEAST
 * rows, answers above all, is left to AVX-512.
 *
 * With QSF_TILE_MODEL the includer has defined the TILE_ macros: tests/kernels/amx.h. */
#include "panel_avx512.h"
#include "trellis.h"

#if defined(QSF_AMX)
#include <immintrin.h>

/* The compiler does not know that tile instructions read this, and must have stored it. */
#define AMX_STORED(p) __asm__ volatile("" : : "r"(p) : "memory")
#if defined(QSF_TILE_MODEL)
QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#else
QSF_TARGET_BEGIN("amx-tile,amx-int8,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#  define TILE_CONFIG(config) _tile_loadconfig(config)
#  define TILE_RELEASE() _tile_release()
#  define TILE_ZERO(t) _tile_zero(t)
#  define TILE_LOAD(t, from, apart) _tile_loadd(t, from, apart)
#  define TILE_STORE(t, to, apart) _tile_stored(t, to, apart)
#  define TILE_DOT(to, a, b) _tile_dpbssd(to, a, b)
#endif
#include "tiles_avx512.h"

enum {
    AMX_LEAST = 32,     /* rows of activations */
    AMX_ROWS = 16
};

/* Tile registers: 0 sums, 1 activations, 2 weights. */
typedef struct amx_config {
    uint8_t  palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t  rows[16];
} amx_config;

static void amx_begin(int sub)
{
    const uint16_t bytes = (uint16_t)sub;
    const _Alignas(64) amx_config c = { .palette = 1, .row_bytes = { 64, bytes, 64 },
                                        .rows = { AMX_ROWS, AMX_ROWS, (uint8_t)(bytes / 4) } };
    AMX_STORED(&c);
    TILE_CONFIG(&c);
}

/* Codes with their offset subtracted, as int8: sums then need no correction. */
static void amx_subtract(qsf_panel *p, int offset, size_t cols)
{
    const __m512i by = _mm512_set1_epi8((char)offset);
    for (size_t i = 0; i < cols / 4 && offset; i++)
        _mm512_store_si512(p->code[i], _mm512_sub_epi8(_mm512_load_si512(p->code[i]), by));
    AMX_STORED(p->code);
}

/* Sums of 16 rows over 64 columns, those that share a scale by themselves. */
typedef int32_t amx_sums[2][AMX_ROWS][16];
QSF_TEMPLATE void amx_multiply(amx_sums sum, int sub, const int8_t *q, size_t ldq, const uint8_t *code)
{
    QSF_UNROLL
    for (int i = 0; i < 64 / sub; i++, q += sub, code += 16 * sub) {
        TILE_ZERO(0);
        TILE_LOAD(1, q, ldq);
        TILE_LOAD(2, code, 64);
        TILE_DOT(0, 1, 2);
        TILE_STORE(0, sum[i], 64);
    }
}

/* 16 rows of activations against a panel's columns.  The first `done` have been here before: their
 * results are in y, and are not stored again. */
QSF_TEMPLATE void amx_rows(int sub, bool has_zero, float *y, size_t ldy, const qsf_panel *p,
                           const qsf_act *x, size_t row, size_t done, size_t at, size_t cols)
{
    _Alignas(64) amx_sums sums[2];      /* of these columns, and of the next, multiplied meanwhile */
    const qsf_act a = qsf_act_part(x, row, AMX_ROWS, at);
    const size_t each = a.cols / 64;
    __m512 acc[AMX_ROWS];
    QSF_UNROLL
    for (size_t t = 0; t < AMX_ROWS; t++) acc[t] = at ? _mm512_loadu_ps(y + t * ldy) : _mm512_setzero_ps();
    amx_multiply(sums[0], sub, a.q, a.cols, p->code[0]);
    for (size_t c = 0; c < cols; c += 64) {
        amx_sums *sum = &sums[c / 64 % 2], *next = &sums[(c / 64 + 1) % 2];
        if (c + 64 < cols) amx_multiply(*next, sub, a.q + c + 64, a.cols, p->code[c / 4 + 16]);
        const float (*scale)[16] = &p->scale[c / (size_t)sub], (*zero)[16] = &p->zero[c / (size_t)sub];
        const float *d = a.d + c / 64, *s = a.s + c / 32;
        QSF_UNROLL
        for (size_t t = 0; t < AMX_ROWS; t++, d += each, s += 2 * each) {
            __m512 part = _mm512_setzero_ps();
            QSF_UNROLL
            for (int i = 0; i < 64 / sub; i++) {
                const __m512 by = _mm512_load_ps(scale[i]),
                    v = _mm512_cvtepi32_ps(_mm512_load_si512((*sum)[i][t]));
                part = i ? _mm512_fmadd_ps(by, v, part) : _mm512_mul_ps(by, v);
                if (has_zero)
                    part = _mm512_fmadd_ps(_mm512_load_ps(zero[i]),
                                           _mm512_set1_ps(sub == 64 ? s[0] + s[1] : s[i]), part);
            }
            acc[t] = _mm512_fmadd_ps(_mm512_set1_ps(*d), part, acc[t]);
        }
    }
    QSF_UNROLL
    for (size_t t = 0; t < AMX_ROWS; t++) if (t >= done) _mm512_storeu_ps(y + t * ldy, acc[t]);
}

/* The last 16 rows may begin in those before. */
static void amx_band(const qsf_panel_form *f, float *y, size_t ldy, qsf_panel *p, const qsf_act *x,
                     size_t row, size_t n, size_t at, size_t cols, const qsf_panel_next *next)
{
    amx_subtract(p, f->offset, cols);
    for (size_t r = 0; r < n; r += AMX_ROWS) {
        const size_t m = QSF_MIN(row + r, x->n - AMX_ROWS), done = row + r - m;
        float *to = y + m * ldy;
        qsf_panel_ask(next, r, QSF_MIN(n - r, (size_t)AMX_ROWS), n);
        if (f->sub == 64 && !f->zero) amx_rows(64, false, to, ldy, p, x, m, done, at, cols);
        else if (f->sub == 64) amx_rows(64, true, to, ldy, p, x, m, done, at, cols);
        else if (!f->zero) amx_rows(32, false, to, ldy, p, x, m, done, at, cols);
        else amx_rows(32, true, to, ldy, p, x, m, done, at, cols);
    }
}

static QSF_NOINLINE void amx_matmul(const qsf_panel_use *use, qsf_form form, float *y, size_t ldy,
                                    const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                                    uint32_t block)
{
    if (x->n < AMX_LEAST) {
        use->matmul(y, ldy, w, x, tiles, blocks, block);
        return;
    }
    const qsf_panel_form f = {
        use->unpack, qsf_forms[form].sub || qsf_form_small(form, block) ? 32 : 64,
        qsf_form_trellis(form) ? QSF_TRELLIS_OFFSET : offset_avx512(form),
        qsf_form_has_zero(form) || qsf_form_has_min(form), amx_band,
    };
    amx_begin(f.sub);
    qsf_panel_matmul_avx512(&f, y, ldy, w, blocks * qsf_tile_bytes(form, block), x, tiles, blocks, block);
    TILE_RELEASE();
}

#define FORM_AMX(F)                                                                                       \
    static void matmul_##F##_amx(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,  \
                                 size_t blocks, uint32_t block)                                           \
    {                                                                                                     \
        amx_matmul(&qsf_panel_use_##F, QSF_F_##F, y, ldy, w, x, tiles, blocks, block);                    \
    }
QSF_EACH_PANEL_USE(FORM_AMX)
#undef FORM_AMX

void qsf_matmul_amx(qsf_kernels *k)
{
#define FORM_AMX(F) k->matmul[QSF_F_##F] = matmul_##F##_amx;
    QSF_EACH_PANEL_USE(FORM_AMX)
#undef FORM_AMX
}

/* ---- the test at the start ----
 * One product with scales of 64 columns, one with scales and zero points of 32, of which there is
 * an odd number; rows are not a multiple of 16. */
enum { AMX_TEST_ROWS = AMX_LEAST + 5, AMX_TEST_COLS = 256 };

typedef struct amx_test {
    uint8_t w[AMX_TEST_COLS * 16];
    int8_t  q[AMX_TEST_ROWS * AMX_TEST_COLS];
    int16_t h[AMX_TEST_ROWS * AMX_TEST_COLS / 8];
    float   d[AMX_TEST_ROWS * AMX_TEST_COLS / 64], s[AMX_TEST_ROWS * AMX_TEST_COLS / 32];
    float   y[2][AMX_TEST_ROWS * 16];
} amx_test;

static bool amx_test_form(amx_test *t, const qsf_kernels *amx, const qsf_kernels *below, qsf_form form,
                          size_t blocks, uint32_t block)
{
    const size_t tile = qsf_tile_bytes(form, block);
    const qsf_act x = { t->q, t->d, t->s, t->h, AMX_TEST_ROWS, AMX_TEST_COLS };
    uint32_t seed = 1;
    for (size_t i = 0; i < sizeof t->w; i++) t->w[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
    for (size_t i = 0; i < blocks; i++)
        for (size_t r = 0; r < qsf_form_head(form) / 2; r++)
            qsf_put16(t->w + i * tile + 2 * r, (uint16_t)(0x2c00 + 37 * r + 5 * i));    /* 0.06 and more */
    memset(t->s, 0, sizeof t->s);
    memset(t->h, 0, sizeof t->h);
    for (size_t i = 0; i < sizeof t->q; i++) {
        const bool tail = i % AMX_TEST_COLS >= blocks * block;
        t->q[i] = (int8_t)(tail ? 0 : (int)((seed = seed * 1664525 + 1013904223) >> 16) % 255 - 127);
        t->s[i / 32] += t->q[i];
    }
    for (size_t i = 0; i < sizeof t->q / 64; i++) t->d[i] = 0.01f + 0.001f * (float)(i % 13);
    below->matmul[form](t->y[0], 16, t->w, &x, 1, blocks, block);
    amx->matmul[form](t->y[1], 16, t->w, &x, 1, blocks, block);
    return !memcmp(t->y[0], t->y[1], sizeof t->y[0]);
}

bool qsf_amx_agrees(const qsf_kernels *below)
{
    qsf_kernels amx = *below;
    amx_test t;
    qsf_matmul_amx(&amx);
    return amx_test_form(&t, &amx, below, QSF_F_4, 3, 64) && amx_test_form(&t, &amx, below, QSF_F_4Z, 5, 32);
}

QSF_TARGET_END
#endif
