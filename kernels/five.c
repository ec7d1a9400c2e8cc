/* The walk over tiles of TERNARY5 that all sets share.
 * SPDX-License-Identifier: MIT */
#include "five.h"

/* rows whose sums are added to what there is, and tile rows at once: AVX-512 multiplies two */
#if defined(__x86_64__)
enum { FIVE_ROWS = 64, FIVE_TILES = 2 };
#else
enum { FIVE_ROWS = 64, FIVE_TILES = 1 };
#endif

/* A tile with its head: TQ1 has fp16 scales, which ternary tiles have with the opposite sign,
 * TERNARY5 does not have a head. */
static void five_tile(uint8_t *two, const uint8_t *five, size_t head, qsf_five_unpack *unpack)
{
    for (size_t i = 0; i < head; i++) two[i] = i % 2 ? five[i] ^ 0x80 : five[i];
    unpack(two + head, five + head);
}

/* y += two . x for `tiles` tile rows. */
static void five_add(float *y, size_t ldy, const uint8_t *two, const qsf_act *x, size_t m, size_t n,
                     size_t at, size_t tiles, size_t blocks, qsf_five_multiply *multiply)
{
    float part[FIVE_ROWS * FIVE_TILES * QSF_TILE_ROWS];
    const size_t rows = tiles * QSF_TILE_ROWS;
    for (size_t i = 0; i < n; i += FIVE_ROWS) {
        const size_t some = QSF_MIN(n - i, (size_t)FIVE_ROWS);
        const qsf_act a = qsf_act_part(x, m + i, some, at);
        multiply(part, rows, two, &a, tiles, blocks, 256);
        for (size_t t = 0; t < some; t++)
            for (size_t r = 0; r < rows; r++) y[(i + t) * ldy + r] += part[rows * t + r];
    }
}

static void five_any(float *y, size_t ldy, const uint8_t *w, size_t head, const qsf_act *x, size_t tiles,
                     size_t blocks, qsf_five_unpack *unpack, qsf_five_multiply *multiply)
{
    _Alignas(64) uint8_t two[FIVE_TILES * QSF_FIVE_BLOCKS * (QSF_FIVE_TWO + QSF_FIVE_HEAD)];
    const size_t band = qsf_band_rows(x->cols);
    for (size_t m = 0; m < x->n; m += band)
        for (size_t t = 0; t < tiles; t += FIVE_TILES)
            for (size_t b = 0; b < blocks; b += QSF_FIVE_BLOCKS) {
                const size_t some = QSF_MIN(blocks - b, (size_t)QSF_FIVE_BLOCKS), n = QSF_MIN(x->n - m, band),
                    here = QSF_MIN(tiles - t, (size_t)FIVE_TILES);
                float *to = y + m * ldy + 16 * t;
                for (size_t i = 0; i < here * some; i++)
                    five_tile(two + i * (QSF_FIVE_TWO + head),
                              w + ((t + i / some) * blocks + b + i % some) * (QSF_FIVE_TILE + head), head,
                              unpack);
                if (b) {
                    five_add(to, ldy, two, x, m, n, 256 * b, here, some, multiply);
                } else {
                    const qsf_act a = qsf_act_part(x, m, n, 0);
                    multiply(to, ldy, two, &a, here, some, 256);
                }
            }
}

void qsf_five_matmul(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                     qsf_five_unpack *unpack, qsf_five_multiply *multiply)
{
    five_any(y, ldy, w, 0, x, tiles, blocks, unpack, multiply);
}

void qsf_tq1_matmul(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                    qsf_five_unpack *unpack, qsf_five_multiply *multiply)
{
    five_any(y, ldy, w, QSF_FIVE_HEAD, x, tiles, blocks, unpack, multiply);
}
