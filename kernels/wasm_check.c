/* Checks that the engine running a module with relaxed SIMD computes the products of tiles
 * correctly.
 * SPDX-License-Identifier: MIT
 *
 * V8 11 (Node.js 20 and 21) does not: its first compiler uses the accumulator's register of
 * i32x4.relaxed_dot_i8x16_i7x16_add_s as scratch if the value is not needed elsewhere, so that a
 * sum is right in one function and wrong in the next.  A test of single instructions does not find
 * such a fault.  So every function that the engine will call runs here, on all of its paths (blocks
 * of 32 and of 64 columns; one row and several), and is compared with the scalar set's plain C. */
#include "sets.h"

#include <string.h>

#if defined(__wasm_relaxed_simd__)

enum { CHECK_ROWS = 4, CHECK_COLS = 256 };

/* Bytes that differ from lane to lane; `extreme`: the largest sums of either sign. */
typedef struct check_bytes { uint32_t state; bool extreme; } check_bytes;
static uint8_t check_next(check_bytes *b)
{
    b->state = b->state * 1664525u + 1013904223u;
    return (uint8_t)(b->state >> 24);
}

typedef struct check_input {
    uint8_t w[2][64 + 512 + 8 * 64 * 8];        /* two blocks of any form */
    int8_t  q[CHECK_ROWS * CHECK_COLS];
    int16_t h[CHECK_ROWS * CHECK_COLS / 8];
    float   d[CHECK_ROWS * CHECK_COLS / 64], s[CHECK_ROWS * CHECK_COLS / 32];
} check_input;

static void check_fill(check_input *in, check_bytes from)
{
    uint8_t *w = in->w[0];
    for (size_t i = 0; i < sizeof in->w; i++) w[i] = from.extreme ? 0xff : check_next(&from);
    memset(in->h, 0, sizeof in->h);
    memset(in->s, 0, sizeof in->s);
    for (size_t i = 0; i < CHECK_ROWS * CHECK_COLS; i++) {
        const int v = from.extreme ? 127 : check_next(&from) % 255 - 127;
        in->q[i] = (int8_t)(from.extreme && (i / CHECK_COLS & 1) ? -v : v);
        in->s[i / 32] += in->q[i];
        in->h[i / 16 * 2 + i / 2 % 2] = (int16_t)(in->h[i / 16 * 2 + i / 2 % 2] + in->q[i]);
    }
    for (size_t i = 0; i < CHECK_ROWS * CHECK_COLS / 64; i++) in->d[i] = 1;
}

static bool check_same(const float *a, const float *b, size_t n)
{
    float top = 0;
    for (size_t i = 0; i < n; i++) top = QSF_MAX(top, fabsf(a[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5f * top)) return false;
    return true;
}

/* One tile of a form in both sets. */
static bool check_form(const qsf_kernels *k, const qsf_kernels *plain, check_input *in, qsf_form form,
                       uint32_t block)
{
    static const uint16_t one = 0x3c00;
    float want[CHECK_ROWS * 16], got[CHECK_ROWS * 16];
    const size_t blocks = block == 256 ? 1 : 2;
    uint8_t *w = in->w[0];
    for (size_t b = 0; b < blocks; b++) {
        uint8_t *head = w + b * qsf_tile_bytes(form, block);
        /* scales of one, or of which all bits but a few are */
        if (form == QSF_F_MX4) memset(head, 128, 16);
        if (form == QSF_F_NV4) memset(head, 0x40, 64);
        if (qsf_form_trellis(form)) memset(head, 27 << 3, 16);
        if (qsf_form_levels(form)) memset(head, 15 << 3, 16);
        if (form == QSF_F_8K)
            for (int i = 0; i < 16; i++) qsf_put16(head + 2 * i, 0), qsf_put16(head + 32 + 2 * i, 0x3f80);
        for (int i = 0; form == QSF_F_IQ1M && i < 64; i++)      /* one's nibbles, lowest first */
            head[16 * 48 + 2 * i + 1] =
                (uint8_t)((head[16 * 48 + 2 * i + 1] & 15) | (one >> i / 16 * 4 & 15) << 4);
        const int halves = form == QSF_F_IQ1M || qsf_form_own_scales(form) || qsf_form_bare(form) ? 0
            : qsf_form_has_zero(form) || qsf_form_has_min(form) ? 32 : 16;
        for (int i = 0; i < halves; i++)
            memcpy(head + 2 * i, &one, 2);
    }
    qsf_act x = { .q = in->q, .d = in->d, .s = in->s, .h = in->h, .n = 1, .cols = CHECK_COLS };
    plain->matvec[form](want, w, &x, 1, blocks, block);
    k->matvec[form](got, w, &x, 1, blocks, block);
    if (!check_same(want, got, 16)) return false;
    x.n = CHECK_ROWS;
    plain->matmul[form](want, 16, w, &x, 1, blocks, block);
    k->matmul[form](got, 16, w, &x, 1, blocks, block);
    return check_same(want, got, CHECK_ROWS * 16);
}

bool qsf_wasm_agrees(uint32_t cpu, uint64_t forms)
{
    qsf_kernels k, plain;
    check_input in;
    qsf_kernels_scalar(&plain);
    qsf_kernels_scalar(&k);
    qsf_kernels_wasm(&k, cpu);
    for (int round = 0; round < 2; round++) {
        check_fill(&in, (check_bytes){ .state = 1, .extreme = round == 1 });
        for (int form = 0; form < QSF_N_FORMS; form++) {
            if (!(forms >> form & 1)) continue;
            const uint32_t only = qsf_form_block((qsf_form)form);
            if (!check_form(&k, &plain, &in, (qsf_form)form, only ? only : 64)) return false;
            if (!only && !check_form(&k, &plain, &in, (qsf_form)form, 32)) return false;
        }
    }
    return true;
}
#endif
