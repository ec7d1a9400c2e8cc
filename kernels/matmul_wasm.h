/* Tiles times activations in WebAssembly: what the sets share.  matmul_wasm*.c say how a set sums
 * products, then include this.
 * SPDX-License-Identifier: MIT
 *
 * A tile is read as four quarters of 4 rows: a vector holds 4 columns of each, and a 32-bit lane of
 * sums is a row.
 *
 *   SET              what names end in; bits are 2 to 6, or 8 for codes that have a sign
 *   SET_WIDTH        vectors that 16 unpacked codes take
 *   SET_QUAD         four activations for all rows of a quarter, a struct
 *   SET_SUM          sums of four rows, a struct with s32
 *   quad_SET(q)      four activations from q on
 *   expand_SET(out, code, bits)         a vector of codes as add_SET takes it
 *   zero_SET()       no sums
 *   add_SET(sum, codes, quad, j, n, fresh, bits)       the j-th of n products in a row, n is 4, 8
 *   or 16; fresh: the sums are zero before
 *   end_SET(sum, bits)                  the sums
 *   alike_SET(bits)                     4, 5, 6 or 8: bits whose 8 products add_SET and end_SET
 *   treat the same
 *
 * No include guard: each set includes it once.  Nothing of it is visible outside: who includes it
 * puts matvec_FORM_SET and matmul_FORM_SET into the table. */
#define JOIN2_WASM(a, b) a##_##b
#define JOIN_WASM(a, b) JOIN2_WASM(a, b)
#define NAMED(name) JOIN_WASM(name, SET)

/* ---- codes ---- */
/* Codes that share a vector of low bits. */
QSF_TEMPLATE int NAMED(fields)(int bits) { return bits < 4 ? 4 : bits < 8 ? 2 : 1; }
/* The high bits of columns 4j... of the quarter at g. */
QSF_TEMPLATE v128_t NAMED(high)(const uint8_t *g, int j, int bits)
{
    if (bits == 3 || bits == 5) return wasm_v128_load(g + 64 * (bits - 1));
    return bits == 6 ? wasm_v128_load(g + 64 * (4 + j / 4)) : wasm_i32x4_splat(0);
}
/* Bits of a code as it is multiplied; 8: with a sign. */
QSF_TEMPLATE int NAMED(width)(qsf_form form) { return signed_v128(form) ? 8 : qsf_form_bits(form); }

/* ---- values ---- */
/* Scales are finite: their exponent moves by a multiplication alone. */
QSF_TEMPLATE v4f NAMED(half4)(const uint8_t *p)
{
    const v128_t bits = wasm_v128_and(wasm_i32x4_shl(wasm_i32x4_load16x4(p), 13),
                                      wasm_i32x4_splat((int32_t)0x8fffe000));
    return (v4f)bits * v4_set1(0x1p112f);
}

/* ---- one row of activations: quarters take turns, so that no sum waits for another ---- */
QSF_TEMPLATE void NAMED(matvec_any)(qsf_form form, bool small, float *y, const uint8_t *w, const qsf_act *x,
                                    size_t tiles, size_t blocks, uint32_t block)
{
    const int bits = qsf_form_bits(form), width = NAMED(width)(form), fields = NAMED(fields)(bits);
    const size_t group = qsf_form_group(form), groups = small ? 1 : 2;
    for (size_t t = 0; t < tiles; t++, y += 16) {
        v4f acc[4] = { v4_set1(0), v4_set1(0), v4_set1(0), v4_set1(0) };
        const int8_t *q = x->q;
        const float *s = x->s;
        size_t part = 0;
        for (size_t b = 0; b < blocks; b++) {
            const uint8_t *head = w;
            w += qsf_form_head(form);
            for (const uint8_t *end = w + block / 32 * group; w < end; part++) {
                SET_SUM sum[4] = { NAMED(zero)(), NAMED(zero)(), NAMED(zero)(), NAMED(zero)() };
                QSF_LOOP    /* short code, and faster than long code */
                for (size_t g = 0; g < groups; g++, w += group, q += 32) {
                    QSF_UNROLL
                    for (int j = 0; j < 8; j += fields) {
                        SET_QUAD a[4];
                        QSF_UNROLL
                        for (int f = 0; f < fields; f++) a[f] = NAMED(quad)(q + 4 * (j + f));
                        QSF_UNROLL
                        for (int i = 0; i < 4; i++) {
                            const v128_t low = wasm_v128_load(w + 64 * (j / fields) + 16 * i),
                                high = NAMED(high)(w + 16 * i, j, bits);
                            QSF_UNROLL
                            for (int f = 0; f < fields; f++) {
                                v128_t c[SET_WIDTH];
                                NAMED(expand)(c, code_of_v128(low, high, j + f, form), width);
                                NAMED(add)(&sum[i], c, a[f], j + f, 8, small, width);
                            }
                        }
                    }
                }
                const v4f d = v4_set1(x->d[small ? part / 2 : part]),
                    sq = v4_set1(small ? s[0] : s[0] + s[1]);
                QSF_UNROLL
                for (int i = 0; i < 4; i++) {
                    const v4f scale = NAMED(half4)(head + 8 * i),
                        zero = qsf_form_has_zero(form) ? NAMED(half4)(head + 32 + 8 * i) : scale;
                    acc[i] = value_v128(acc[i], (v4i)NAMED(end)(&sum[i], width), scale, zero, d, sq, form);
                }
                s += groups;
            }
        }
        QSF_UNROLL
        for (int i = 0; i < 4; i++) store_v128(y + 4 * i, acc[i], form);
    }
}

/* ---- several rows of activations: 64 columns are unpacked, then a band passes by ---- */
enum { NAMED(TOKENS) = 16 };        /* rows that share one unpacking */

typedef struct NAMED(part) {
    v128_t codes[16][4][SET_WIDTH]; /* [4 columns][quarter] */
    v4f    scale[4], zero[4];
    int    groups;
    size_t at;                      /* the first column */
    const qsf_act *x;
    size_t m, n;                    /* rows of x; n <= TOKENS */
    bool   has_zero;
    float  offset;                  /* what codes have too much, where no zero says it */
    v4f    acc[NAMED(TOKENS)][4];
} NAMED(part);

QSF_TEMPLATE void NAMED(unpack)(NAMED(part) *p, const uint8_t *w, qsf_form form)
{
    const int bits = qsf_form_bits(form), fields = NAMED(fields)(bits);
    for (int g = 0; g < p->groups; g++, w += 64 * bits)
        for (int i = 0; i < 4; i++)
            QSF_UNROLL
            for (int j = 0; j < 8; j++)
                NAMED(expand)(p->codes[8 * g + j][i],
                              code_of_v128(wasm_v128_load(w + 64 * (j / fields) + 16 * i),
                                           NAMED(high)(w + 16 * i, j, bits), j, form), NAMED(width)(form));
}

QSF_TEMPLATE void NAMED(values)(NAMED(part) *p, SET_SUM sum[4][2], size_t t, int T, int half, int width,
                                bool has_zero)
{
    QSF_UNROLL
    for (int r = 0; r < T; r++) {
        if (t + (size_t)r >= p->n) continue;
        const size_t row = p->m + t + (size_t)r;
        const float *s = p->x->s + row * (p->x->cols / 32) + p->at / 32;
        const v4f d = v4_set1(p->x->d[row * (p->x->cols / 64) + p->at / 64]),
            sq = v4_set1(p->groups == 1 ? s[0] : s[0] + s[1]);
        QSF_UNROLL
        for (int h = 0; h < 2; h++) {
            v4f *acc = &p->acc[t + (size_t)r][half + h];
            const v4f f = v4_float((v4i)NAMED(end)(&sum[r][h], width)), scale = p->scale[half + h];
            if (has_zero) *acc = *acc + d * (scale * f + p->zero[half + h] * sq);
            else *acc = *acc + scale * d * (f - v4_set1(p->offset) * sq);
        }
    }
}

/* Two quarters of an unpacked part times T rows: 2 * T sums are all the registers
 * that x86 can spare. */
QSF_TEMPLATE void NAMED(multiply_some)(NAMED(part) *p, size_t t, int T, int width)
{
    const int groups = p->groups;
    const int8_t *q[4];
    QSF_UNROLL
    for (int r = 0; r < T; r++)
        q[r] = p->x->q + (p->m + QSF_MIN(t + (size_t)r, p->n - 1)) * p->x->cols + p->at;
    for (int half = 0; half < 4; half += 2) {
        SET_SUM sum[4][2];
        QSF_UNROLL
        for (int r = 0; r < T; r++)
            QSF_UNROLL
            for (int h = 0; h < 2; h++) sum[r][h] = NAMED(zero)();
        /* a loop: in one long block engines run out of registers */
        for (int k = 0; k < 8 * groups; k += 8)
            QSF_UNROLL
            for (int j = 0; j < 8; j++)
                QSF_UNROLL
                for (int r = 0; r < T; r++) {
                    const SET_QUAD a = NAMED(quad)(q[r] + 4 * (k + j));
                    QSF_UNROLL
                    for (int h = 0; h < 2; h++)
                        NAMED(add)(&sum[r][h], p->codes[k + j][half + h], a, j, 8, false, width);
                }
        if (p->has_zero) NAMED(values)(p, sum, t, T, half, width, true);
        else NAMED(values)(p, sum, t, T, half, width, false);
    }
}
QSF_TEMPLATE void NAMED(multiply)(NAMED(part) *p, int width)
{
    for (size_t t = 0; t < p->n; t += 4) {
        if (p->n - t <= 2) NAMED(multiply_some)(p, t, 2, width);
        else NAMED(multiply_some)(p, t, 4, width);
    }
}
/* One for all forms that are alike, not one for each. */
typedef void NAMED(multiply_fn)(NAMED(part) *p);
static void NAMED(multiply_4)(NAMED(part) *p) { NAMED(multiply)(p, 4); }
static void NAMED(multiply_5)(NAMED(part) *p) { NAMED(multiply)(p, 5); }
static void NAMED(multiply_6)(NAMED(part) *p) { NAMED(multiply)(p, 6); }
static void NAMED(multiply_8)(NAMED(part) *p) { NAMED(multiply)(p, 8); }

QSF_TEMPLATE NAMED(multiply_fn) *NAMED(multiply_of)(qsf_form form)
{
    switch (NAMED(alike)(NAMED(width)(form))) {
    case 4:  return NAMED(multiply_4);
    case 5:  return NAMED(multiply_5);
    case 6:  return NAMED(multiply_6);
    default: return NAMED(multiply_8);
    }
}

QSF_TEMPLATE void NAMED(tile_row)(NAMED(part) *p, float *y, size_t ldy, qsf_form form, const uint8_t *w,
                                  size_t blocks, uint32_t block)
{
    p->groups = block == 32 ? 1 : 2, p->at = 0;
    p->has_zero = qsf_form_has_zero(form), p->offset = (float)qsf_form_offset(form);
    memset(p->acc, 0, sizeof p->acc);
    for (size_t b = 0; b < blocks; b++) {
        for (int i = 0; i < 4; i++) {
            p->scale[i] = NAMED(half4)(w + 8 * i);
            p->zero[i] = qsf_form_has_zero(form) ? NAMED(half4)(w + 32 + 8 * i) : p->scale[i];
        }
        w += qsf_form_head(form);
        for (const uint8_t *end = w + block / 32 * qsf_form_group(form); w < end;
             w += (size_t)p->groups * qsf_form_group(form)) {
            NAMED(unpack)(p, w, form);
            NAMED(multiply_of)(form)(p);
            p->at += 32 * (size_t)p->groups;
        }
    }
    for (size_t t = 0; t < p->n; t++)
        for (int i = 0; i < 4; i++) store_v128(y + t * ldy + 4 * i, p->acc[t][i], form);
}

QSF_TEMPLATE void NAMED(matmul_any)(qsf_form form, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                    size_t tiles, size_t blocks, uint32_t block)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(form, block), band = qsf_band_rows(x->cols);
    NAMED(part) p;
    p.x = x;
    for (size_t from = 0; from < x->n; from += band)
        for (size_t t = 0; t < tiles; t++)
            for (size_t m = from; m < x->n && m < from + band; m += NAMED(TOKENS)) {
                p.m = m, p.n = QSF_MIN(x->n - m, (size_t)NAMED(TOKENS));
                NAMED(tile_row)(&p, y + m * ldy + 16 * t, ldy, form, w + t * row_bytes, blocks, block);
            }
}

#define FORM_WASM(F)                                                                                         \
    static void NAMED(matvec_##F)(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks, \
                                  uint32_t block)                                                            \
    {                                                                                                        \
        if (block == 32) NAMED(matvec_any)(QSF_F_##F, true, y, w, x, tiles, blocks, block);                  \
        else NAMED(matvec_any)(QSF_F_##F, false, y, w, x, tiles, blocks, block);                             \
    }                                                                                                        \
    static void NAMED(matmul_##F)(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,    \
                                  size_t blocks, uint32_t block)                                             \
    {                                                                                                        \
        if (x->n == 1) NAMED(matvec_##F)(y, w, x, tiles, blocks, block);                                     \
        else NAMED(matmul_any)(QSF_F_##F, y, ldy, w, x, tiles, blocks, block);                               \
    }
QSF_EACH_FORM(FORM_WASM)
QSF_EACH_GGML_FORM(FORM_WASM)
#undef FORM_WASM

/* ---- GGUF's super-blocks: super_v128.h walks over them ---- */
QSF_TEMPLATE void NAMED(sums)(v4i *sum, const v16b *c, const int8_t *q, const int16_t *h, size_t ldx,
                              size_t n, const v4i *scale, qsf_form form, bool add)
{
    const int cols = qsf_form_sub(form), quads = cols / 4, width = NAMED(width)(form);
    v128_t codes[8][SET_WIDTH];
    QSF_UNROLL
    for (int j = 0; j < 8; j++) NAMED(expand)(codes[j], c[j], width);
    for (size_t t = 0; t < n; t++, q += ldx, h += ldx / 8) {
        v4i s = add ? sum[t] : v4_set1i(0);
        QSF_UNROLL
        for (int i = 0; i < 32 / cols; i++) {
            SET_SUM part = NAMED(zero)();
            QSF_UNROLL
            for (int j = 0; j < quads; j++)
                NAMED(add)(&part, codes[quads * i + j], NAMED(quad)(q + cols * i + 4 * j), j, quads,
                           true, width);
            v4i whole = (v4i)NAMED(end)(&part, width);
            if (qsf_form_offset(form)) whole -= qsf_form_offset(form) * (h[2 * i] + h[2 * i + 1]);
            s += whole * scale[i];
        }
        sum[t] = s;
    }
}
#define FORM_WASM(F)                                                                                         \
    static void NAMED(matvec_##F)(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks, \
                                  uint32_t block)                                                            \
    { (void)block; super_one_v128(QSF_F_##F, y, w, x, tiles, blocks, NAMED(sums)); }                         \
    static void NAMED(matmul_##F)(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,    \
                                  size_t blocks, uint32_t block)                                             \
    {                                                                                                        \
        if (x->n == 1) NAMED(matvec_##F)(y, w, x, tiles, blocks, block);                                     \
        else super_any_v128(QSF_F_##F, y, ldy, w, x, tiles, blocks, NAMED(sums));                            \
    }
QSF_EACH_SUPER_FORM(FORM_WASM)
#undef FORM_WASM

#undef JOIN2_WASM
#undef JOIN_WASM
#undef NAMED
#undef SET
#undef SET_WIDTH
#undef SET_QUAD
#undef SET_SUM
