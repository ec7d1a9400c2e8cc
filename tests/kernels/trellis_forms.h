/* What tiles of the trellis forms mean, by the words of kernels.h and core/tensor/trellis.h, one
 * step after another.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_TRELLIS_FORMS_H
#define KERNELS_TRELLIS_FORMS_H

#include "harness.h"
#include "tensor/trellis.h"

#include <math.h>

static bool form_trellis(int form) { return form >= QSF_F_TR2 && form <= QSF_F_TR5; }

/* The group of a tile row at w that step `step` is in. */
static const uint8_t *trellis_group(const uint8_t *w, int k, int step)
{
    return w + (size_t)(step / 64) * (size_t)(16 + 128 * k) + 16 + step / 32 % 2 * 64 * k;
}
static unsigned trellis_u(const uint8_t *w, int k, int r, int step)
{
    if (step < 0) return 0;
    return trellis_group(w, k, step)[64 * (k - 1) + 4 * r + step % 32 / 8] >> step % 8 & 1u;
}
/* Of row r's column c of a tile row. */
static int trellis_level(const uint8_t *w, int form, int r, uint32_t c)
{
    const int k = 2 + form - QSF_F_TR2, f = (int)(c % 32 / 4), b = (int)(c % 4),
        step = (int)(c / 32 * 32) + 8 * b + f;
    const uint8_t *g = trellis_group(w, k, step) + 4 * r + b;
    const unsigned low = k == 2 ? g[0] >> f & 1u : k == 5 ? g[64 * (f / 2)] >> 4 * (f % 2) & 15u
        : g[64 * (f / 4)] >> 2 * (f % 4) & 3u, m = k == 4 ? low | (g[128] >> f & 1u) << 2 : low;
    const unsigned parity = trellis_u(w, k, r, step) ^ trellis_u(w, k, r, step - 1)
        ^ trellis_u(w, k, r, step - 3);
    return qsf_trellis_levels[k - 2][4 * m + 2 * parity + trellis_u(w, k, r, step - 2)];
}
static double trellis_value(const uint8_t *w, int form, int r, uint32_t c)
{
    const int e = w[c / 64 * (size_t)(16 + 128 * (2 + form - QSF_F_TR2)) + (size_t)r];
    return e ? ldexp(8 + e % 8, e / 8 - 30) * trellis_level(w, form, r, c) : 0;
}

/* The scales of a tile; unit: one. */
static void trellis_scales(table_test *t, uint8_t *tile, bool unit)
{
    for (int i = 0; i < 16; i++) {
        const uint32_t r = (uint32_t)(rng_next(t) >> 32);
        tile[i] = (uint8_t)(unit ? 27 << 3 : t->round == 1 ? 255 : t->round == 2 ? r % 4 : 160 + r % 64);
    }
}

#endif
