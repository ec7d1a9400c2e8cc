/* Tiles times activations in WebAssembly: what the sets share.  Each matmul_wasm*.c defines how its
 * set sums products, then includes this.
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
 *   quads_SET(out, q)                   16 of them
 *   expand_SET(out, code, bits)         a vector of codes as add_SET takes it
 *   zero_SET()       no sums
 *   add_SET(sum, codes, quad, j, n, fresh, bits)       the j-th of n products in a row, n is 4, 8
 *   or 16; fresh: the sums are zero before
 *   settle_SET(sum)  has the products up to here added: compilers would make all first, which are
 *                    more than there are registers
 *   end_SET(sum, bits)                  the sums
 *   SET_TRELLIS_QUADS, trellis_add_SET  as trellis_v128.h has them
 *   SET_PANEL        whether products of 16 bits suit trellises better than tiles of 8 bits
 *   alike_SET(bits)                     4, 5, 6 or 8: bits whose 8 products add_SET and end_SET
 *   treat the same
 *
 * No include guard: each set includes it once.  Its functions are static: the including file puts
 * matvec_FORM_SET and matmul_FORM_SET into the table. */
#define JOIN2_WASM(a, b) a##_##b
#define JOIN_WASM(a, b) JOIN2_WASM(a, b)
#define NAMED(name) JOIN_WASM(name, SET)

/* ---- codes ---- */
/* Codes that share a vector of low bits. */
QSF_TEMPLATE int NAMED(fields)(int bits) { return bits == 1 ? 8 : bits < 4 ? 4 : bits < 8 ? 2 : 1; }
/* The high bits of columns 4j... of the quarter at g. */
QSF_TEMPLATE v128_t NAMED(high)(const uint8_t *g, int j, int bits)
{
    if (bits == 3 || bits == 5) return wasm_v128_load(g + 64 * (bits - 1));
    return bits == 6 ? wasm_v128_load(g + 64 * (4 + j / 4)) : wasm_i32x4_splat(0);
}
/* Bits of a code in the form used by the product; 8: signed. */
QSF_TEMPLATE int NAMED(width)(qsf_form form)
{
    /* levels are unsigned, but are rare, and the 8-bit product already exists */
    return signed_v128(form) || qsf_form_levels(form) ? 8 : qsf_form_width(form);
}

/* ---- values ---- */
/* Scales are finite: their exponent moves by a multiplication alone. */
QSF_TEMPLATE v4f NAMED(half4)(const uint8_t *p)
{
    const v128_t bits = wasm_v128_and(wasm_i32x4_shl(wasm_i32x4_load16x4(p), 13),
                                      wasm_i32x4_splat((int32_t)0x8fffe000));
    return (v4f)bits * v4_set1(0x1p112f);
}

QSF_TEMPLATE v4f NAMED(scale4)(const uint8_t *p, qsf_form form)
{
    return qsf_form_bare(form) ? v4_set1(1) : NAMED(half4)(p);
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
            v4f own[4];
            if (qsf_form_own_scales(form)) scales_v128(own, head, form);
            w += qsf_form_head(form);
            for (const uint8_t *end = w + block / 32 * group; w < end; part++) {
                SET_SUM sum[4] = { NAMED(zero)(), NAMED(zero)(), NAMED(zero)(), NAMED(zero)() };
                QSF_LOOP    /* short code, and faster than long code */
                for (size_t g = 0; g < groups; g++, w += group, q += 32) {
                    QSF_UNROLL
                    for (int j = 0; j < 8; j += fields) {
                        SET_QUAD a[8];
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
                    const v4f scale = qsf_form_own_scales(form) ? own[i] : NAMED(scale4)(head + 8 * i, form),
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
enum { NAMED(TOKENS) = 32 };        /* rows that share one unpacking */

typedef struct NAMED(row) {
    v4f   acc[4];
    v4i   sum;                      /* of a quarter's first group */
    float d, sq;                    /* activations' scale; their sum, without a zero point times the offset */
} NAMED(row);

typedef struct NAMED(part) {
    v128_t codes[16][4][SET_WIDTH]; /* [4 columns][quarter] */
    v4f    scale[4], zero[4];
    int    groups;
    const qsf_act *x;
    const int8_t  *q;               /* the first row's activations */
    size_t m, n;                    /* rows of x; n <= TOKENS */
    bool   has_zero;
    const uint8_t *w;               /* the codes in the tile */
    NAMED(row) row[NAMED(TOKENS)];
} NAMED(part);

typedef void NAMED(part_fn)(NAMED(part) *p);

QSF_TEMPLATE void NAMED(unpack)(NAMED(part) *p, qsf_form form)
{
    const uint8_t *w = p->w;
    const int bits = qsf_form_bits(form), fields = NAMED(fields)(bits);
    for (int g = 0; g < p->groups; g++, w += 64 * bits)
        for (int i = 0; i < 4; i++)
            QSF_UNROLL
            for (int j = 0; j < 8; j++)
                NAMED(expand)(p->codes[8 * g + j][i],
                              code_of_v128(wasm_v128_load(w + 64 * (j / fields) + 16 * i),
                                           NAMED(high)(w + 16 * i, j, bits), j, form), NAMED(width)(form));
}

/* One for all forms whose codes have the same bit layout and stand for the same numbers. */
#define UNPACK_WASM(F) static void NAMED(unpack_##F)(NAMED(part) *p) { NAMED(unpack)(p, QSF_F_##F); }
UNPACK_WASM(2Z) UNPACK_WASM(3Z) UNPACK_WASM(4Z) UNPACK_WASM(5) UNPACK_WASM(6) UNPACK_WASM(8)
UNPACK_WASM(Q1) UNPACK_WASM(QK256) UNPACK_WASM(IQ4) UNPACK_WASM(MX4)
UNPACK_WASM(TB4) UNPACK_WASM(TB3)
#undef UNPACK_WASM
QSF_TEMPLATE NAMED(part_fn) *NAMED(unpack_of)(qsf_form form)
{
    if (qsf_form_mapped(form)) return NAMED(unpack_QK256);
    if (qsf_form_table(form)) return NAMED(unpack_IQ4);
    if (qsf_form_fp4(form)) return NAMED(unpack_MX4);
    if (qsf_form_levels(form)) return form == QSF_F_TB4 ? NAMED(unpack_TB4) : NAMED(unpack_TB3);
    switch (qsf_form_bits(form)) {
    case 1:  return NAMED(unpack_Q1);
    case 2:  return NAMED(unpack_2Z);
    case 3:  return NAMED(unpack_3Z);
    case 4:  return NAMED(unpack_4Z);
    case 5:  return NAMED(unpack_5);
    case 6:  return NAMED(unpack_6);
    default: return NAMED(unpack_8);
    }
}

/* A group of a quarter, whose codes stay in registers while all rows pass by. */
QSF_TEMPLATE v4i NAMED(group_sum)(SET_SUM sum, v128_t codes[8][SET_WIDTH], const int8_t *q, int width)
{
    QSF_UNROLL
    for (int j = 0; j < 8; j += 4) {
        SET_QUAD a[4];
        NAMED(quads)(a, q + 4 * j);
        QSF_UNROLL
        for (int k = 0; k < 4; k++) {
            NAMED(add)(&sum, codes[j + k], a[k], j + k, 8, true, width);
            NAMED(settle)(&sum);
        }
    }
    return (v4i)NAMED(end)(&sum, width);
}
QSF_TEMPLATE void NAMED(fetch)(v128_t to[8][SET_WIDTH], const NAMED(part) *p, int g, int i)
{
    QSF_UNROLL
    for (int j = 0; j < 8; j++)
        QSF_UNROLL
        for (int k = 0; k < SET_WIDTH; k++) to[j][k] = p->codes[8 * g + j][i][k];
}
/* Quarter i's sums of the first of two groups. */
QSF_TEMPLATE void NAMED(first)(NAMED(part) *p, int i, int width)
{
    const SET_SUM none = NAMED(zero)();
    const size_t ldq = p->x->cols, n = p->n;
    const int8_t *q = p->q;
    NAMED(row) *row = p->row;
    v128_t c[8][SET_WIDTH];
    NAMED(fetch)(c, p, 0, i);
    QSF_LOOP
    for (size_t t = 0; t < n; t++, q += ldq, row++) row->sum = NAMED(group_sum)(none, c, q, width);
}
/* Its values after the last one; `second`: there are sums of the first. */
QSF_TEMPLATE void NAMED(values)(NAMED(part) *p, int i, bool second, bool has_zero, int width)
{
    const SET_SUM none = NAMED(zero)();
    const v4f scale = p->scale[i], zero = p->zero[i];
    const size_t ldq = p->x->cols, n = p->n;
    const int8_t *q = p->q + 32 * second;
    NAMED(row) *row = p->row;
    v128_t c[8][SET_WIDTH];
    NAMED(fetch)(c, p, second, i);
    QSF_LOOP
    for (size_t t = 0; t < n; t++, q += ldq, row++) {
        const v4i sum = NAMED(group_sum)(none, c, q, width);
        const v4f f = v4_float(second ? sum + row->sum : sum), d = v4_set1(row->d), sq = v4_set1(row->sq);
        row->acc[i] += has_zero ? d * (scale * f + zero * sq) : scale * d * (f - sq);
    }
}
QSF_TEMPLATE void NAMED(multiply)(NAMED(part) *p, int width)
{
    for (int i = 0; i < 4; i++) {
        if (p->groups == 1) {
            if (p->has_zero) NAMED(values)(p, i, false, true, width);
            else NAMED(values)(p, i, false, false, width);
            continue;
        }
        NAMED(first)(p, i, width);
        if (p->has_zero) NAMED(values)(p, i, true, true, width);
        else NAMED(values)(p, i, true, false, width);
    }
}
/* One for all forms that are alike, not one for each. */
static void NAMED(multiply_4)(NAMED(part) *p) { NAMED(multiply)(p, 4); }
static void NAMED(multiply_5)(NAMED(part) *p) { NAMED(multiply)(p, 5); }
static void NAMED(multiply_6)(NAMED(part) *p) { NAMED(multiply)(p, 6); }
static void NAMED(multiply_8)(NAMED(part) *p) { NAMED(multiply)(p, 8); }

QSF_TEMPLATE NAMED(part_fn) *NAMED(multiply_of)(qsf_form form)
{
    switch (NAMED(alike)(NAMED(width)(form))) {
    case 4:  return NAMED(multiply_4);
    case 5:  return NAMED(multiply_5);
    case 6:  return NAMED(multiply_6);
    default: return NAMED(multiply_8);
    }
}

/* The rows' activations from column `at` on. */
QSF_TEMPLATE void NAMED(rows)(NAMED(part) *p, size_t at, float factor)
{
    const size_t cols = p->x->cols;
    const float *d = p->x->d + p->m * (cols / 64) + at / 64, *s = p->x->s + p->m * (cols / 32) + at / 32;
    p->q = p->x->q + p->m * cols + at;
    for (size_t t = 0; t < p->n; t++, d += cols / 64, s += cols / 32) {
        p->row[t].d = *d;
        p->row[t].sq = factor * (p->groups == 1 ? s[0] : s[0] + s[1]);
    }
}

/* How a form is unpacked and multiplied. */
typedef struct NAMED(way) { qsf_form form; NAMED(part_fn) *unpack, *multiply; } NAMED(way);

QSF_TEMPLATE void NAMED(tile_row)(NAMED(part) *p, float *y, size_t ldy, const NAMED(way) *way,
                                  const uint8_t *w, size_t blocks, uint32_t block)
{
    const qsf_form form = way->form;
    const size_t step = (size_t)p->groups * qsf_form_group(form), head = qsf_form_head(form);
    const bool own = qsf_form_own_scales(form);
    const float factor = p->has_zero ? 1 : (float)qsf_form_offset(form);
    size_t column = 0;
    memset(p->row, 0, p->n * sizeof *p->row);
    for (size_t b = 0; b < blocks; b++) {
        if (own) scales_v128(p->scale, w, form);
        for (int i = 0; i < 4; i++) {
            if (!own) p->scale[i] = NAMED(scale4)(w + 8 * i, form);
            p->zero[i] = p->has_zero ? NAMED(half4)(w + 32 + 8 * i) : p->scale[i];
        }
        w += head;
        for (uint32_t at = 0; at < block; at += 32 * (uint32_t)p->groups, w += step) {
            p->w = w;
            NAMED(rows)(p, column, factor);
            way->unpack(p);
            way->multiply(p);
            column += 32 * (size_t)p->groups;
        }
    }
    for (size_t t = 0; t < p->n; t++)
        for (int i = 0; i < 4; i++) store_v128(y + t * ldy + 4 * i, p->row[t].acc[i], form);
}

/* One for all forms: what differs is called once for 64 columns. */
static QSF_NOINLINE void NAMED(matmul_any)(const NAMED(way) *way, float *y, size_t ldy, const uint8_t *w,
                                           const qsf_act *x, size_t tiles, size_t blocks, uint32_t block)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(way->form, block), band = qsf_band_rows(x->cols);
    NAMED(part) p;
    p.x = x;
    p.groups = qsf_form_small(way->form, block) ? 1 : 2;
    p.has_zero = qsf_form_has_zero(way->form);
    for (size_t from = 0; from < x->n; from += band)
        for (size_t t = 0; t < tiles; t++)
            for (size_t m = from; m < x->n && m < from + band; m += NAMED(TOKENS)) {
                p.m = m, p.n = QSF_MIN(x->n - m, (size_t)NAMED(TOKENS));
                NAMED(tile_row)(&p, y + m * ldy + 16 * t, ldy, way, w + t * row_bytes, blocks, block);
            }
}
/* The rows of activations, or the one. */
QSF_TEMPLATE void NAMED(matmul_form)(qsf_form form, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                     size_t tiles, size_t blocks, uint32_t block)
{
    const NAMED(way) way = { form, NAMED(unpack_of)(form), NAMED(multiply_of)(form) };
    NAMED(matmul_any)(&way, y, ldy, w, x, tiles, blocks, block);
}

#define FORM_WASM(F)                                                                                         \
    static void NAMED(matvec_##F)(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks, \
                                  uint32_t block)                                                            \
    {                                                                                                        \
        if (QSF_SMALL(F, block)) NAMED(matvec_any)(QSF_F_##F, true, y, w, x, tiles, blocks, block);          \
        else NAMED(matvec_any)(QSF_F_##F, false, y, w, x, tiles, blocks, block);                             \
    }                                                                                                        \
    static void NAMED(matmul_##F)(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,    \
                                  size_t blocks, uint32_t block)                                             \
    {                                                                                                        \
        if (x->n == 1) NAMED(matvec_##F)(y, w, x, tiles, blocks, block);                                     \
        else NAMED(matmul_form)(QSF_F_##F, y, ldy, w, x, tiles, blocks, block);                              \
    }
FORM_WASM(2Z) FORM_WASM(3Z) FORM_WASM(4Z) FORM_WASM(TERNARY) FORM_WASM(8) FORM_WASM(3) FORM_WASM(4)
FORM_WASM(5) FORM_WASM(T2) FORM_WASM(QK256)
#undef FORM_WASM
/* Rare ones: a row is unpacked like several. */
#define FORM_WASM(F)                                                                                         \
    static void NAMED(matmul_##F)(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,    \
                                  size_t blocks, uint32_t block)                                             \
    { NAMED(matmul_form)(QSF_F_##F, y, ldy, w, x, tiles, blocks, block); }                                   \
    static void NAMED(matvec_##F)(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks, \
                                  uint32_t block)                                                            \
    { NAMED(matmul_##F)(y, 16 * tiles, w, x, tiles, blocks, block); }
FORM_WASM(6) FORM_WASM(2S) FORM_WASM(TB4) FORM_WASM(TB3) QSF_EACH_GGML_FORM(FORM_WASM)
#undef FORM_WASM
static void NAMED(matmul_T5)(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                             size_t blocks, uint32_t block)
{
    (void)block;
    qsf_five_matmul(y, ldy, w, x, tiles, blocks, five_v128, NAMED(matmul_T2));
}
static void NAMED(matvec_T5)(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                             uint32_t block)
{ NAMED(matmul_T5)(y, 16 * tiles, w, x, tiles, blocks, block); }

/* ---- GGUF's super-blocks: super_v128.h walks over them ---- */
QSF_TEMPLATE void NAMED(sums)(v4i *sum, const v16b *c, const int8_t *q, const int16_t *h, size_t ldx,
                              size_t n, const v4i *scale, qsf_form form, bool add)
{
    const int cols = qsf_form_sub(form), quads = cols / 4, width = NAMED(width)(form);
    v128_t codes[8][SET_WIDTH];
    const SET_SUM none = NAMED(zero)();
    const bool one = __builtin_constant_p(n);   /* a row alone, which has registers enough */
    QSF_UNROLL
    for (int j = 0; j < super_sums_cols(form) / 4; j++) NAMED(expand)(codes[j], c[j], width);
    for (size_t t = 0; t < n; t++, q += ldx, h += ldx / 8) {
        v4i s = add ? sum[t] : v4_set1i(0);
        QSF_UNROLL
        for (int i = 0; i < super_sums_cols(form) / cols; i++) {
            SET_SUM part = one ? NAMED(zero)() : none;
            QSF_UNROLL
            for (int j = 0; j < quads; j++) {
                NAMED(add)(&part, codes[quads * i + j], NAMED(quad)(q + cols * i + 4 * j), j, quads, true,
                           width);
                if (!one) NAMED(settle)(&part);
            }
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
FORM_WASM(Q4K) FORM_WASM(Q5K) FORM_WASM(Q6K)
#undef FORM_WASM
/* Of rare ones a set has the sums alone. */
#define FORM_WASM(F)                                                                                         \
    static void NAMED(sums_##F)(v4i *sum, const v16b *c, const int8_t *q, const int16_t *h, size_t ldx,      \
                                size_t n, const v4i *scale, qsf_form form, bool add)                         \
    { (void)form; NAMED(sums)(sum, c, q, h, ldx, n, scale, QSF_F_##F, add); }                                \
    static void NAMED(matmul_##F)(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,    \
                                  size_t blocks, uint32_t block)                                             \
    { (void)block; super_rare_##F(y, ldy, w, x, tiles, blocks, NAMED(sums_##F)); }                           \
    static void NAMED(matvec_##F)(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks, \
                                  uint32_t block)                                                            \
    { NAMED(matmul_##F)(y, 16 * tiles, w, x, tiles, blocks, block); }
FORM_WASM(Q2K) FORM_WASM(Q3K) FORM_WASM(IQ4XS)
FORM_WASM(NV4)
#undef FORM_WASM
/* TQ1 is multiplied as ternary tiles; a single row is not handled separately. */
static void NAMED(matmul_TQ1)(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                              size_t blocks, uint32_t block)
{
    (void)block;
    qsf_tq1_matmul(y, ldy, w, x, tiles, blocks, five_v128, NAMED(matmul_TERNARY));
}
static void NAMED(matvec_TQ1)(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                              uint32_t block)
{
    NAMED(matmul_TQ1)(y, 16 * tiles, w, x, tiles, blocks, block);
}

/* ---- GGUF's codebook types: iq_v128.c walks over them ---- */
static void NAMED(iq_sums)(v4i *sum, const v16b *c, const int8_t *q, const int16_t *h, size_t n,
                           const v4i *scale, bool add)
{
    NAMED(sums)(sum, c, q, h, 256, n, scale, QSF_F_IQ2S, add);
}
/* Trellises: a single row is multiplied while it is decoded. */
#define FORM_WASM(K)                                                                                         \
    static void NAMED(matvec_TR##K)(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,              \
                                    size_t blocks, uint32_t block)                                           \
    {                                                                                                        \
        (void)block;                                                                                         \
        trellis_matvec_v128(K, y, w, x, tiles, blocks, NAMED(trellis_add), SET_TRELLIS_QUADS);               \
    }                                                                                                        \
    static void NAMED(matmul_TR##K)(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,  \
                                    size_t blocks, uint32_t block)                                           \
    {                                                                                                        \
        if (x->n == 1) NAMED(matvec_TR##K)(y, w, x, tiles, blocks, block);                                   \
        else if (SET_PANEL) qsf_trellis_panel_v128(K, y, ldy, w, x, tiles, blocks);                          \
        else                                                                                                 \
            qsf_trellis_matmul(K, y, ldy, w, x, tiles, blocks, qsf_trellis_eight_v128, NAMED(matmul_8));     \
    }
QSF_EACH_TRELLIS(FORM_WASM)
#undef FORM_WASM

#define FORM_WASM(F)                                                                                         \
    static void NAMED(matvec_##F)(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks, \
                                  uint32_t block)                                                            \
    { (void)block; qsf_iq_any_v128(QSF_F_##F, y, 16 * tiles, w, x, tiles, blocks, NAMED(iq_sums)); }         \
    static void NAMED(matmul_##F)(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,    \
                                  size_t blocks, uint32_t block)                                             \
    { (void)block; qsf_iq_any_v128(QSF_F_##F, y, ldy, w, x, tiles, blocks, NAMED(iq_sums)); }
QSF_EACH_IQ_FORM(FORM_WASM)
#undef FORM_WASM

#undef JOIN2_WASM
#undef JOIN_WASM
#undef NAMED
#undef SET
#undef SET_WIDTH
#undef SET_QUAD
#undef SET_SUM
#undef SET_TRELLIS_QUADS
#undef SET_PANEL
