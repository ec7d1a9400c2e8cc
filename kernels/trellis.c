/* The walk over tiles of the trellis forms that sets without products of their own share.
 * SPDX-License-Identifier: MIT */
#include "trellis.h"

/* x: u of eight steps; of the later four. */
#define PAIR(x, i) \
    (2 * (((x) >> (4 + (i)) ^ (x) >> (3 + (i)) ^ (x) >> (1 + (i))) & 1) + ((x) >> (2 + (i)) & 1))
#define PAIRS(x) (PAIR(x, 0) << 2 | PAIR(x, 1) | PAIR(x, 2) << 6 | PAIR(x, 3) << 4)
#define FOUR(x, by) \
    PAIRS((x) * (by)), PAIRS(((x) + 1) * (by)), PAIRS(((x) + 2) * (by)), PAIRS(((x) + 3) * (by))
#define SIXTEEN(by) { FOUR(0, by), FOUR(4, by), FOUR(8, by), FOUR(12, by) }
const uint8_t qsf_trellis_pairs[2][16] = { SIXTEEN(16), SIXTEEN(1) };
const uint8_t qsf_trellis_apart[16] = { 0, 1, 4, 5, 16, 17, 20, 21, 64, 65, 68, 69, 80, 81, 84, 85 };
#undef PAIR
#undef PAIRS
#undef FOUR
#undef SIXTEEN

void qsf_trellis_tables_make(qsf_trellis_tables *to, unsigned k)
{
    for (int i = 0; i < 64; i++) {
        const int8_t level = qsf_trellis_levels[k - 2][i];
        if (k == 5) to->level[i % 4][i / 4] = level;
        else if (i < 32) {
            to->level[i / 16 * 2][i % 4 * 4 + i / 4 % 4] = level;
            to->level[i / 16 * 2 + 1][i % 16] = level;
        }
    }
}

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
    qsf_trellis_tables tables;
    qsf_trellis_tables_make(&tables, k);
    const size_t band = qsf_band_rows(x->cols), tile = 16 + 128 * (size_t)k;
    for (size_t m = 0; m < x->n; m += band)
        for (size_t t = 0; t < tiles; t++)
            for (size_t b = 0; b < blocks; b += QSF_TRELLIS_STRETCH) {
                const size_t some = QSF_MIN(blocks - b, (size_t)QSF_TRELLIS_STRETCH),
                             n = QSF_MIN(x->n - m, band);
                const qsf_act a = qsf_act_part(x, m, n, b * QSF_TRELLIS_BLOCK);
                for (size_t i = 0; i < some; i++)
                    unpack(eight + i * QSF_TRELLIS_EIGHT, w + (t * blocks + b + i) * tile, &tables, k,
                           b + i == 0);
                trellis_stretch(y + m * ldy + 16 * t, ldy, eight, &a, n, some, b == 0, multiply);
            }
}
