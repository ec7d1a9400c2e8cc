/* The walk over tiles of the trellis forms that sets without products of their own share.
 * SPDX-License-Identifier: MIT */
#include "trellis.h"

enum { TRELLIS_ROWS = 64 };     /* whose sums are added to what there is at once */

/* y (= or +=) eight . x. */
static void trellis_stretch(float *y, size_t ldy, const uint8_t *eight, const qsf_act *x, size_t n,
                            size_t blocks, bool first, qsf_trellis_multiply *multiply)
{
    float part[TRELLIS_ROWS * QSF_TILE_ROWS];
    for (size_t m = 0; m < n; m += TRELLIS_ROWS) {
        const size_t some = QSF_MIN(n - m, (size_t)TRELLIS_ROWS);
        const qsf_act a = qsf_act_part(x, m, some, 0);
        multiply(part, QSF_TILE_ROWS, eight, &a, 1, blocks, QSF_TRELLIS_BLOCK);
        for (size_t t = 0; t < some; t++)
            for (size_t r = 0; r < QSF_TILE_ROWS; r++) {
                const float v = part[QSF_TILE_ROWS * t + r] * 0x1p-11f;
                float *to = y + (m + t) * ldy + r;
                *to = first ? v : *to + v;
            }
    }
}

void qsf_trellis_matmul(unsigned k, float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                        size_t blocks, qsf_trellis_unpack *unpack, qsf_trellis_multiply *multiply)
{
    _Alignas(64) uint8_t eight[QSF_TRELLIS_STRETCH * QSF_TRELLIS_EIGHT];
    const size_t band = qsf_band_rows(x->cols), tile = 16 + 128 * (size_t)k;
    for (size_t m = 0; m < x->n; m += band)
        for (size_t t = 0; t < tiles; t++)
            for (size_t b = 0; b < blocks; b += QSF_TRELLIS_STRETCH) {
                const size_t some = QSF_MIN(blocks - b, (size_t)QSF_TRELLIS_STRETCH),
                             n = QSF_MIN(x->n - m, band);
                const qsf_act a = qsf_act_part(x, m, n, b * QSF_TRELLIS_BLOCK);
                for (size_t i = 0; i < some; i++)
                    unpack(eight + i * QSF_TRELLIS_EIGHT, w + (t * blocks + b + i) * tile, k, b + i == 0);
                trellis_stretch(y + m * ldy + 16 * t, ldy, eight, &a, n, some, b == 0, multiply);
            }
}
