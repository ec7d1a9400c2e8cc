/* Look-ups of 2-bit weights over vectors of 128 bits.
 * SPDX-License-Identifier: MIT */
#include "lut.h"
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

typedef int16_t  lut_int16_v128 __attribute__((vector_size(16)));
typedef uint16_t lut_word_v128 __attribute__((vector_size(16)));
typedef uint8_t  lut_byte_v128 __attribute__((vector_size(16)));

/* The sums of two columns, bits 0 to 6, so that two add up in a byte without a sign; then the rest,
 * -4 to 3, so that 32 add up in one with a sign. */
typedef struct lut_table_v128 { int8_t low[16], high[16]; } lut_table_v128;

static void lut_fill_v128(lut_table_v128 *to, const int8_t *q, size_t cols, bool four)
{
    lut_int16_v128 a, b[2];
    for (int j = 0; j < 8; j++) {
        a[j] = (int16_t)qsf_lut_value(four, j & 3);
        b[0][j] = (int16_t)qsf_lut_value(four, j / 4);
        b[1][j] = (int16_t)qsf_lut_value(four, 2 + j / 4);
    }
    for (size_t i = 0; i < cols / 2; i++) {
        const lut_int16_v128 first = a * (int16_t)q[2 * i], t0 = first + b[0] * (int16_t)q[2 * i + 1],
                             t1 = first + b[1] * (int16_t)q[2 * i + 1];
        v16_store(to[i].low, v16_even((v16b)(t0 & 127), (v16b)(t1 & 127)));
        v16_store(to[i].high, v16_even((v16b)(t0 >> 7), (v16b)(t1 >> 7)));
    }
}

/* acc + d * sums of 16 rows over 64 columns.  16-bit lanes of two bytes: a second sum, of
 * the odd rows alone, is subtracted from the first. */
QSF_TEMPLATE void lut_sum_v128(v4f acc[4], const uint8_t *w, const lut_table_v128 *t, v4f d)
{
    lut_word_v128 both = { 0 }, odd = { 0 };
    lut_byte_v128 high = { 0 };
    QSF_LOOP
    for (int v = 0; v < 16; v += 4) {
        QSF_UNROLL
        for (int u = v; u < v + 4; u++) {
            const v16b c = v16_load(w + 16 * u), i = v16_cut(c, 4, false),
                       j = v16_cut(v16_shift(c, -4), 4, true);
            const lut_byte_v128 low = (lut_byte_v128)v16_table(t[2 * u].low, i)
                                      + (lut_byte_v128)v16_table(t[2 * u + 1].low, j);
            both += (lut_word_v128)low;
            odd += (lut_word_v128)low >> 8;
            high += (lut_byte_v128)v16_table(t[2 * u].high, i)
                    + (lut_byte_v128)v16_table(t[2 * u + 1].high, j);
        }
    }
    const lut_int16_v128 even_high = (lut_int16_v128)((lut_word_v128)high << 8) >> 1,
                         odd_high = ((lut_int16_v128)high >> 8) * 128;
    const v16b even_rows = (v16b)((lut_int16_v128)(both - (odd << 8)) + even_high),
               odd_rows = (v16b)((lut_int16_v128)odd + odd_high);
    const v16b rows[2] = { v8_zip_low(even_rows, odd_rows), v8_zip_high(even_rows, odd_rows) };
    QSF_UNROLL
    for (int h = 0; h < 2; h++) {
        acc[2 * h] = v4_fma(d, v4_float((v4i)v8_zip_low(rows[h], rows[h]) >> 16), acc[2 * h]);
        acc[2 * h + 1] = v4_fma(d, v4_float((v4i)v8_zip_high(rows[h], rows[h]) >> 16), acc[2 * h + 1]);
    }
}

static void lut_part_v128(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t at, size_t n,
                          size_t blocks, bool four)
{
    lut_table_v128 tables[QSF_LUT_COLS / 2];
    lut_fill_v128(tables, x->q + 256 * at, 256 * n, four);
    w += at * QSF_LUT_TILE;
    for (size_t t = 0; t < tiles; t++, y += 16, w += blocks * QSF_LUT_TILE) {
        v4f acc[4];
        for (int i = 0; i < 4; i++) acc[i] = at ? v4_load(y + 4 * i) : v4_set1(0);
        for (size_t p = 0; p < 4 * n; p++)
            lut_sum_v128(acc, w + 256 * p, tables + 32 * p, v4_set1(x->d[4 * at + p]));
        for (int i = 0; i < 4; i++) v4_store(y + 4 * i, acc[i]);
    }
}

static void matvec_lut_v128(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                            bool four)
{
    qsf_lut_parts(y, w, x, tiles, blocks, four, lut_part_v128);
}

void qsf_lut_v128(qsf_kernels *k) { k->matvec_lut = matvec_lut_v128; }

QSF_V128_END
#endif
