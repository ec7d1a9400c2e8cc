/* TL1 and TL2: weights in the order in which bitnet.cpp's lookup kernels read them.
 * SPDX-License-Identifier: MIT
 *
 * A matrix of m rows and k columns is divided into blocks of bm rows; these into bk columns, these
 * into groups of 32 or 64 rows (`step`), and these into a few columns, for which each byte of a
 * vector holds one or two indices.  TL1's index is a pair of weights, 3 a + b + 4, two in a byte.
 * TL2's is a triple, |9 a + 3 b + c|; the signs follow all indices, and columns that bk does not
 * divide are stored as pairs after the signs.  bm, bk and step are chosen when the kernels are
 * generated, and files do not record them.  The table has those of the kernels that come with
 * bitnet.cpp, by shape. */
#include "tensor/stored_tl.h"

typedef struct tl_kernel { uint16_t m, k, bm, bk, step; } tl_kernel;
static const tl_kernel tl1_kernels[] = {
    { 1536, 4096, 256, 128, 32 }, { 1536, 1536, 128, 64, 64 }, { 4096, 1536, 256, 128, 32 },
    { 3200, 8640, 160, 64, 32 }, { 3200, 3200, 320, 128, 64 }, { 8640, 3200, 320, 64, 32 },
    { 4096, 14336, 256, 128, 32 },
};
static const tl_kernel tl2_kernels[] = {
    { 1536, 4096, 256, 96, 32 }, { 1536, 1536, 128, 192, 32 }, { 4096, 1536, 256, 96, 32 },
    { 3200, 8640, 160, 96, 32 }, { 3200, 3200, 320, 96, 32 }, { 8640, 3200, 320, 96, 32 },
    { 14336, 4096, 256, 96, 32 }, { 4096, 14336, 128, 96, 32 }, { 1024, 4096, 256, 96, 32 },
    { 4096, 4096, 128, 96, 32 },
};

int qsf_tl_find(bool tl2, uint32_t rows, uint32_t cols)
{
    const tl_kernel *list = tl2 ? tl2_kernels : tl1_kernels;
    const size_t n = tl2 ? QSF_ARRAY_LEN(tl2_kernels) : QSF_ARRAY_LEN(tl1_kernels);
    for (size_t i = 0; i < n; i++)
        if (list[i].m == rows && list[i].k == cols) return (int)i;
    return -1;
}

uint64_t qsf_tl2_bytes(uint32_t rows, uint32_t cols)
{
    /* the fork's formula, with room for 256 columns of pairs, whatever they are */
    return cols < 256 ? 0 : (uint64_t)(cols - 256) * rows / 3 * 5 / 8 + (uint64_t)rows * 64;
}

/* ---- TL1 ---- */

/* Pairs [pair, pair + n) of a row: indices of 4 bits. */
static void tl1_pairs(const tl_kernel *t, const uint8_t *data, uint32_t row, uint32_t pair, uint32_t n,
                      uint8_t *out)
{
    const uint32_t by = 256 / t->step, half = t->bk / 2, s = row % t->bm % t->step;
    const size_t across = t->k / t->bk, steps = t->bm / t->step, deep = t->bk / by;
    const size_t above = (size_t)(row / t->bm) * across, step = row % t->bm / t->step;
    for (uint32_t i = pair; i < pair + n; i++) {
        const uint32_t p = i % half, u = p % (by / 2);
        const size_t cell = ((above + i / half) * steps + step) * deep + p / (by / 2);
        const size_t at = ((cell * (t->step / 16) + s / 16) * (by / 4) + u / 2) * 16 + s % 16;
        out[i - pair] = data[at] >> (u % 2 ? 0 : 4) & 15;
    }
}

/* ---- TL2 ---- */

/* Eights of a step of 32 rows: the second and the third change places. */
static uint32_t tl2_place(uint32_t s) { return s / 8 == 1 ? s + 8 : s / 8 == 2 ? s - 8 : s; }

/* The columns that are triples. */
static uint32_t tl2_threes(const tl_kernel *t) { return t->k - t->k % t->bk; }

/* Triple `i` of a row: three codes. */
static void tl2_triple(const tl_kernel *t, const uint8_t *data, uint32_t row, uint32_t i, uint8_t out[3])
{
    enum { STEP = 32, BY = 6 };
    const uint32_t each = t->bk / 3, p = i % each, s = row % STEP, threes = tl2_threes(t);
    const size_t block = ((size_t)(row / t->bm) * (threes / t->bk) + i / each) * (t->bm / STEP) +
                         row % t->bm / STEP;
    const uint8_t byte = data[(block * (t->bk / BY) + p / 2) * STEP + tl2_place(s)];
    const uint8_t *signs = data + (size_t)t->m * threes / 6;
    const uint32_t sign = qsf_le16(signs + 2 * ((block * (t->bk / (4 * BY)) + p / 8) * (STEP / 2) + s % 16));
    int v = p % 2 ? byte & 15 : byte >> 4;
    if (sign >> (15 - 2 * (p % 8) - s / 16) & 1) v = -v;
    v += 13;                            /* 9 (a + 1) + 3 (b + 1) + c + 1 */
    if (v < 0) v = 0;                   /* damage: no triple is less than -13 */
    out[0] = (uint8_t)(v / 9);
    out[1] = (uint8_t)(v / 3 % 3);
    out[2] = (uint8_t)(v % 3);
}

/* Pair `i` of a row after the triples: an index of 4 bits. */
static uint8_t tl2_pair(const tl_kernel *t, const uint8_t *data, uint32_t row, uint32_t i)
{
    enum { STEP = 32, BK = 32 };
    const uint32_t threes = tl2_threes(t), p = i % (BK / 2);
    const size_t block = ((size_t)(row / t->bm) * ((t->k - threes) / BK) + i / (BK / 2)) * (t->bm / STEP) +
                         row % t->bm / STEP;
    const uint8_t *pairs = data + (size_t)t->m * threes / 6 + (size_t)t->m * threes / 24;
    const uint8_t byte = pairs[(block * (BK / 4) + p / 2) * STEP + tl2_place(row % STEP)];
    return p % 2 ? byte & 15 : byte >> 4;
}

static void tl2_codes(const tl_kernel *t, const uint8_t *data, uint32_t row, uint32_t col, uint32_t n,
                      uint8_t *out)
{
    const uint32_t threes = tl2_threes(t);
    uint8_t triple[3];
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t c = col + i, behind = c - threes;
        if (c < threes) {
            if (i == 0 || c % 3 == 0) tl2_triple(t, data, row, c / 3, triple);
            out[i] = triple[c % 3];
        } else {
            const uint8_t pair = tl2_pair(t, data, row, behind / 2);
            out[i] = behind % 2 ? pair % 3 : pair / 3 & 3;
        }
    }
}

void qsf_tl_codes(bool tl2, uint32_t kernel, const uint8_t *data, uint32_t rows, uint32_t row,
                  uint32_t col, uint32_t n, uint8_t *out)
{
    const tl_kernel *t = tl2 ? &tl2_kernels[kernel] : &tl1_kernels[kernel];
    assert(t->m == rows && col % 2 == 0 && n % 2 == 0);
    (void)rows;
    if (tl2) {
        tl2_codes(t, data, row, col, n, out);
        return;
    }
    tl1_pairs(t, data, row, col / 2, n / 2, out);
    for (uint32_t i = n / 2; i-- > 0;) {        /* from the end: it grows where it is */
        const uint8_t pair = out[i];
        out[2 * i] = pair / 3 & 3;      /* a damaged one may be more than 8 */
        out[2 * i + 1] = pair % 3;
    }
}
