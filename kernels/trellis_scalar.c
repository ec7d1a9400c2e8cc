/* Tiles of the trellis forms times activations in plain C.
 * SPDX-License-Identifier: MIT */
#include "tensor/trellis.h"
#include "tiles_scalar.h"

/* m of byte i's step f: the planes before that of u. */
QSF_TEMPLATE unsigned trellis_m_scalar(const uint8_t *g, unsigned k, int i, int f)
{
    if (k == 2) return g[i] >> f & 1u;
    if (k == 5) return g[64 * (f / 2) + i] >> 4 * (f % 2) & 15u;
    const unsigned low = g[64 * (f / 4) + i] >> 2 * (f % 4) & 3u;
    return k == 3 ? low : low | (g[128 + i] >> f & 1u) << 2;
}

/* One group to levels c[8][64]: byte 4*r + b of vector j is row r's column 4j + b.  last: each
 * row's u of the 32 steps before, as a number. */
static void trellis_unpack_scalar(uint8_t c[8][64], const uint8_t *g, unsigned k, uint32_t last[16])
{
    const int8_t *level = qsf_trellis_levels[k - 2];
    for (int r = 0; r < 16; r++) {
        const uint32_t u = qsf_le32(g + 64 * (k - 1) + 4 * r),
            p = u ^ (u << 1 | last[r] >> 31) ^ (u << 3 | last[r] >> 29), q = u << 2 | last[r] >> 30;
        for (int t = 0; t < 32; t++) {
            const int i = 4 * r + t / 8, f = t % 8;
            const unsigned index = 4 * trellis_m_scalar(g, k, i, f) + 2 * (p >> t & 1) + (q >> t & 1);
            c[f][i] = (uint8_t)level[index];
        }
        last[r] = u;
    }
}

/* One tile row times n <= TOKENS_SCALAR rows from m on: y[n][ldy], 16 values each. */
static void trellis_row_scalar(float *y, size_t ldy, unsigned k, const uint8_t *w, const qsf_act *x,
                               size_t m, size_t n, size_t blocks)
{
    float acc[TOKENS_SCALAR][16] = { { 0 } };
    uint32_t last[16] = { 0 };
    for (size_t b = 0; b < blocks; b++, w += 16 + 128 * k) {
        uint8_t c[2][8][64];
        for (unsigned g = 0; g < 2; g++) trellis_unpack_scalar(c[g], w + 16 + 64 * k * g, k, last);
        for (size_t t = 0; t < n; t++) {
            const int8_t *q = x->q + (m + t) * x->cols + 64 * b;
            const float d = x->d[(m + t) * (x->cols / 64) + b];
            int32_t sum[16] = { 0 };
            for (int g = 0; g < 2; g++) dot_scalar(sum, (const uint8_t (*)[64])c[g], 8, q + 32 * g, true);
            for (int r = 0; r < 16; r++) acc[t][r] += d * (qsf_trellis_scale(w[r]) * (float)sum[r]);
        }
    }
    for (size_t t = 0; t < n; t++) memcpy(y + t * ldy, acc[t], sizeof acc[t]);
}

static void matmul_trellis_scalar(unsigned k, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                  size_t tiles, size_t blocks)
{
    const size_t row_bytes = blocks * (16 + 128 * k);
    for (size_t m = 0; m < x->n; m += TOKENS_SCALAR)
        for (size_t t = 0; t < tiles; t++)
            trellis_row_scalar(y + m * ldy + 16 * t, ldy, k, w + t * row_bytes, x, m,
                               QSF_MIN(x->n - m, (size_t)TOKENS_SCALAR), blocks);
}

#define TRELLIS_SCALAR(K)                                                                                  \
    static void matmul_TR##K##_scalar(float *y, size_t ldy, const uint8_t *w, const qsf_act *x,            \
                                      size_t tiles, size_t blocks, uint32_t block)                         \
    {                                                                                                      \
        (void)block;                                                                                       \
        matmul_trellis_scalar(K, y, ldy, w, x, tiles, blocks);                                             \
    }                                                                                                      \
    static void matvec_TR##K##_scalar(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,          \
                                      size_t blocks, uint32_t block)                                       \
    { matmul_TR##K##_scalar(y, 16 * tiles, w, x, tiles, blocks, block); }
QSF_EACH_TRELLIS(TRELLIS_SCALAR)
#undef TRELLIS_SCALAR

void qsf_trellis_scalar(qsf_kernels *k)
{
#define TRELLIS_SCALAR(K) \
    k->matvec[QSF_F_TR##K] = matvec_TR##K##_scalar; k->matmul[QSF_F_TR##K] = matmul_TR##K##_scalar;
    QSF_EACH_TRELLIS(TRELLIS_SCALAR)
#undef TRELLIS_SCALAR
}
