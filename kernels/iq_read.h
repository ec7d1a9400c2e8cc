/* Reads tiles of GGUF's codebook types: indices to entries, signs, scales.
 * SPDX-License-Identifier: MIT
 *
 * A template without an include guard: each set with instructions for these loops defines the
 * macros and includes it; the macros are undefined at its end.  It defines one function, named
 * after the set:
 *
 *     IQ_SET(name)     the name with the set's appended; includers call iq_read
 *     IQ_WIDE          bytes of the vectors that hold 16 rows: 16, 32 or 64
 *     IQ_LOOKUP        (entry, grid, n, index), if the set has a lookup for 32 entries
 *
 * An index never has more bits than its table has entries for, so any bytes are a valid tile. */
#include "iq.h"
#include "tensor/codebooks.h"

/* Every name in here is one of the set's own: in the single-file build all sets are one file. */
#define rows_u32 IQ_SET(rows_u32)
#define rows_u16 IQ_SET(rows_u16)
#define rows_u8 IQ_SET(rows_u8)
#define all_u8 IQ_SET(all_u8)
#define words_of IQ_SET(words_of)
#define put_words IQ_SET(put_words)
#define halves_of IQ_SET(halves_of)
#define bytes_of IQ_SET(bytes_of)
#define read_entries IQ_SET(read_entries)
#define read_byte_entries IQ_SET(read_byte_entries)
#define all_signs IQ_SET(all_signs)
#define put_scales IQ_SET(put_scales)
#define read_word IQ_SET(read_word)
#define read_nibbles IQ_SET(read_nibbles)
#define read_iq2xxs IQ_SET(read_iq2xxs)
#define read_iq2xs IQ_SET(read_iq2xs)
#define read_iq2s IQ_SET(read_iq2s)
#define read_iq3xxs IQ_SET(read_iq3xxs)
#define read_iq3s IQ_SET(read_iq3s)
#define read_iq1s IQ_SET(read_iq1s)
#define read_iq1m IQ_SET(read_iq1m)
#define half_of IQ_SET(half_of)
#define factor_of IQ_SET(factor_of)

/* Where a field at byte n of a block begins in the tile. */
#define FIELDS(n) (w + 16 * (n))
/* 16 rows are RUNS vectors. */
#define LANES (IQ_WIDE / 4)
#define RUNS (16 / LANES)
typedef uint32_t rows_u32 __attribute__((vector_size(IQ_WIDE)));
typedef uint16_t rows_u16 __attribute__((vector_size(IQ_WIDE / 2)));
typedef uint8_t  rows_u8 __attribute__((vector_size(IQ_WIDE / 4)));
typedef uint8_t  all_u8 __attribute__((vector_size(16)));
#if defined(QSF_SMALL_CODE)
#  define RUN_UNROLL QSF_LOOP
#else
#  define RUN_UNROLL QSF_UNROLL
#endif
#define EACH_RUN RUN_UNROLL for (int r = 0; r < RUNS; r++)

/* Fields of four bytes as numbers, of two, of one. */
QSF_TEMPLATE void words_of(rows_u32 *to, const uint8_t *p)
{
    EACH_RUN memcpy(to + r, p + IQ_WIDE * r, IQ_WIDE);
}
QSF_TEMPLATE void put_words(uint32_t *to, const rows_u32 *v)
{
    EACH_RUN memcpy(to + LANES * r, v + r, sizeof *v);
}
QSF_TEMPLATE void halves_of(rows_u32 *to, const uint8_t *p)
{
    EACH_RUN {
        rows_u16 v;
        memcpy(&v, p + sizeof v * (size_t)r, sizeof v);
        to[r] = __builtin_convertvector(v, rows_u32);
    }
}
QSF_TEMPLATE void bytes_of(rows_u32 *to, const uint8_t *p)
{
    EACH_RUN {
        rows_u8 v;
        memcpy(&v, p + sizeof v * (size_t)r, sizeof v);
        to[r] = __builtin_convertvector(v, rows_u32);
    }
}
/* What the readers share: in small code a function. */
#if defined(QSF_SMALL_CODE)
#  define QSF_PART static QSF_NOINLINE
#else
#  define QSF_PART QSF_TEMPLATE
#endif

/* Bytes 0 and 1 of a word, or 2 and 3, as two halves. */
#define LOW_BYTES(w) (((w) & 0xff) | ((w) & 0xff00) << 8)
#define HIGH_BYTES(w) (((w) >> 16 & 0xff) | ((w) >> 8 & 0xff0000))

#if !defined(IQ_LOOKUP)
/* Compilers would gather these into vectors, word by word. */
#if defined(__GNUC__) && !defined(__wasm__)
#  define ALONE(v) __asm__("" : "+r"(v))
#else
#  define ALONE(v) (void)0
#endif
/* index[r]: two indices of 16 bits. */
QSF_PART void read_entries(uint32_t *restrict entry, const uint16_t *restrict grid, int n,
                               const rows_u32 *index)
{
    uint16_t at[32];
    (void)n;
    EACH_RUN memcpy(at + 2 * LANES * r, index + r, sizeof *index);
    RUN_UNROLL
    for (int r = 0; r < 16; r++) {
        uint32_t v = grid[at[2 * r]] | (uint32_t)grid[at[2 * r + 1]] << 16;
        ALONE(v);
        entry[r] = v;
    }
}
/* The same of 256 entries, whose indices are the first two bytes of a row's four, or the last
 * two. */
QSF_PART void read_byte_entries(uint32_t *restrict entry, const uint16_t *restrict grid,
                                    const uint8_t *restrict index, int last)
{
    RUN_UNROLL
    for (int r = 0; r < 16; r++) {
        uint32_t v = grid[index[4 * r + 2 * last]] | (uint32_t)grid[index[4 * r + 2 * last + 1]] << 16;
        ALONE(v);
        entry[r] = v;
    }
}
#undef ALONE
#else
/* n entries, 32 at a time, by instructions of the set's own. */
QSF_PART void read_entries(uint32_t *entry, const uint16_t *grid, int n, const rows_u32 *index)
{
    IQ_LOOKUP(entry, grid, n, index);
}
QSF_PART void read_byte_entries(uint32_t *entry, const uint16_t *grid, const uint8_t *index, int last)
{
    rows_u32 at[RUNS];
    words_of(at, index);
    EACH_RUN at[r] = last ? HIGH_BYTES(at[r]) : LOW_BYTES(at[r]);
    read_entries(entry, grid, 256, at);
}
#endif

/* Four times seven signs to four bytes; the eighth makes a byte's number of ones even. */
QSF_PART void all_signs(uint32_t *sign, const rows_u32 *sevens)
{
    EACH_RUN {
        rows_u32 p = sevens[r] ^ sevens[r] >> 4;
        p ^= p >> 2;
        p ^= p >> 1;
        p = sevens[r] | (p & 0x01010101) << 7;
        memcpy(sign + LANES * r, &p, sizeof p);
    }
}
/* Scales of 3 or 4 bits; 2 n + 1 is one. */
QSF_PART void put_scales(uint8_t *scale, const rows_u32 *n)
{
    EACH_RUN {
        const rows_u8 s = __builtin_convertvector(2 * n[r] + 1, rows_u8);
        memcpy(scale + LANES * r, &s, sizeof s);
    }
}
/* The word of IQ2_XXS and IQ3_XXS: four times seven signs, and the scale of 32 columns. */
QSF_PART void read_word(qsf_iq_tile *restrict t, int g, const uint8_t *restrict p)
{
    rows_u32 w[RUNS], s[RUNS];
    words_of(w, p);
    EACH_RUN s[r] = (w[r] & 0x7f) | (w[r] & 0x3f80) << 1 | (w[r] & 0x1fc000) << 2 | (w[r] & 0xfe00000) << 3;
    all_signs(t->sign[g], s);
    EACH_RUN s[r] = w[r] >> 28;
    put_scales(t->scale[2 * g], s);
    put_scales(t->scale[2 * g + 1], s);
}
/* Nibbles of one byte: the scales of two times 16 columns. */
QSF_PART void read_nibbles(uint8_t (*scale)[16], const uint8_t *p)
{
    all_u8 v, low, high;
    memcpy(&v, p, 16);
    low = 2 * (v & 15) + 1;
    high = 2 * (v >> 4) + 1;
    memcpy(scale[0], &low, 16);
    memcpy(scale[1], &high, 16);
}

QSF_TEMPLATE void read_iq2xxs(qsf_iq_tile *restrict t, const uint8_t *restrict w)
{
    for (int g = 0; g < 8; g++) {
        read_byte_entries(t->entry[g][0][0], qsf_iq2_xxs_grid, FIELDS(2 + 8 * g), 0);
        read_byte_entries(t->entry[g][1][0], qsf_iq2_xxs_grid, FIELDS(2 + 8 * g), 1);
        read_word(t, g, FIELDS(6 + 8 * g));
    }
}

QSF_TEMPLATE void read_iq2xs(qsf_iq_tile *restrict t, const uint8_t *restrict w)
{
    for (int g = 0; g < 8; g++) {
        rows_u32 a[RUNS], b[RUNS], at[RUNS];
        words_of(a, FIELDS(2 + 8 * g));
        words_of(b, FIELDS(6 + 8 * g));
        EACH_RUN at[r] = a[r] & 0x1ff01ff;
        read_entries(t->entry[g][0][0], qsf_iq2_xs_grid, 512, at);
        EACH_RUN at[r] = b[r] & 0x1ff01ff;
        read_entries(t->entry[g][1][0], qsf_iq2_xs_grid, 512, at);
        EACH_RUN at[r] = (a[r] >> 9 & 0x7f) | (a[r] >> 17 & 0x7f00) | (b[r] << 7 & 0x7f0000)
            | (b[r] >> 1 & 0x7f000000);
        all_signs(t->sign[g], at);
        read_nibbles(t->scale + 2 * g, FIELDS(66 + g));
    }
}

QSF_TEMPLATE void read_iq2s(qsf_iq_tile *restrict t, const uint8_t *restrict w)
{
    for (int g = 0; g < 8; g++) {
        rows_u32 i[RUNS], h[RUNS], at[RUNS];
        words_of(i, FIELDS(2 + 4 * g));
        bytes_of(h, FIELDS(66 + g));
        EACH_RUN at[r] = LOW_BYTES(i[r]) | (h[r] << 8 & 0x300) | (h[r] << 22 & 0x3000000);
        read_entries(t->entry[g][0][0], qsf_iq2_s_grid, 1024, at);
        EACH_RUN at[r] = HIGH_BYTES(i[r]) | (h[r] << 4 & 0x300) | (h[r] << 18 & 0x3000000);
        read_entries(t->entry[g][1][0], qsf_iq2_s_grid, 1024, at);
        words_of(i, FIELDS(34 + 4 * g));
        put_words(t->sign[g], i);
        read_nibbles(t->scale + 2 * g, FIELDS(74 + g));
    }
}

QSF_TEMPLATE void read_iq3xxs(qsf_iq_tile *restrict t, const uint8_t *restrict w)
{
    for (int g = 0; g < 8; g++) {
        for (int k = 0; k < 4; k++)
            read_byte_entries(t->entry[g][k / 2][k % 2], qsf_iq3_xxs_grid, FIELDS(2 + 8 * g + 4 * (k / 2)),
                              k % 2);
        read_word(t, g, FIELDS(66 + 4 * g));
    }
}

QSF_TEMPLATE void read_iq3s(qsf_iq_tile *restrict t, const uint8_t *restrict w)
{
    for (int g = 0; g < 8; g++) {
        rows_u32 h[RUNS];
        bytes_of(h, FIELDS(66 + g));
        for (int k = 0; k < 2; k++) {
            rows_u32 i[RUNS], at[RUNS];
            words_of(i, FIELDS(2 + 8 * g + 4 * k));
            EACH_RUN at[r] = LOW_BYTES(i[r]) | (h[r] << 8 & 0x100) | (h[r] << 23 & 0x1000000);
            read_entries(t->entry[g][k][0], qsf_iq3_s_grid, 512, at);
            EACH_RUN at[r] = HIGH_BYTES(i[r]) | (h[r] << 6 & 0x100) | (h[r] << 21 & 0x1000000);
            read_entries(t->entry[g][k][1], qsf_iq3_s_grid, 512, at);
            EACH_RUN h[r] >>= 4;
        }
        words_of(h, FIELDS(74 + 4 * g));
        put_words(t->sign[g], h);
        bytes_of(h, FIELDS(106 + g / 2));
        EACH_RUN h[r] = h[r] >> 4 * (g % 2) & 15;
        put_scales(t->scale[2 * g], h);
        put_scales(t->scale[2 * g + 1], h);
    }
}

QSF_TEMPLATE void read_iq1s(qsf_iq_tile *restrict t, const uint8_t *restrict w)
{
    for (int g = 0; g < 8; g++) {
        rows_u32 i[RUNS], h[RUNS], at[RUNS];
        words_of(i, FIELDS(2 + 4 * g));
        halves_of(h, FIELDS(34 + 2 * g));
        EACH_RUN at[r] = LOW_BYTES(i[r]) | (h[r] << 8 & 0x700) | (h[r] << 21 & 0x7000000);
        read_entries(t->entry[g][0][0], qsf_iq1_grid, 2048, at);
        EACH_RUN at[r] = HIGH_BYTES(i[r]) | (h[r] << 2 & 0x700) | (h[r] << 15 & 0x7000000);
        read_entries(t->entry[g][1][0], qsf_iq1_grid, 2048, at);
        EACH_RUN at[r] = ((h[r] >> 15) - 1) & 0x02020202;
        put_words(t->sign[g], at);
        EACH_RUN h[r] = h[r] >> 12 & 7;
        put_scales(t->scale[2 * g], h);
        put_scales(t->scale[2 * g + 1], h);
    }
}

QSF_TEMPLATE void read_iq1m(qsf_iq_tile *restrict t, const uint8_t *restrict w)
{
    for (int g = 0; g < 8; g++) {
        rows_u32 i[RUNS], h[RUNS], at[RUNS], s[RUNS];
        words_of(i, FIELDS(4 * g));
        halves_of(h, FIELDS(32 + 2 * g));
        halves_of(s, FIELDS(48 + 2 * (g / 2)));
        EACH_RUN at[r] = LOW_BYTES(i[r]) | (h[r] << 8 & 0x700) | (h[r] << 20 & 0x7000000);
        read_entries(t->entry[g][0][0], qsf_iq1_grid, 2048, at);
        EACH_RUN at[r] = HIGH_BYTES(i[r]) | (h[r] & 0x700) | (h[r] << 12 & 0x7000000);
        read_entries(t->entry[g][1][0], qsf_iq1_grid, 2048, at);
        EACH_RUN at[r] = 0x02020202 ^ ((h[r] >> 2 & 2) | (h[r] << 2 & 0x200) | (h[r] << 6 & 0x20000)
                                       | (h[r] << 10 & 0x2000000));
        put_words(t->sign[g], at);
        EACH_RUN at[r] = s[r] >> 6 * (g % 2) & 7;
        put_scales(t->scale[2 * g], at);
        EACH_RUN at[r] = s[r] >> (6 * (g % 2) + 3) & 7;
        put_scales(t->scale[2 * g + 1], at);
    }
}

/* The fp16 of a row; IQ1_M keeps its nibbles on top of the scales. */
QSF_TEMPLATE uint32_t half_of(qsf_form f, const uint8_t *w, int r)
{
    if (f != QSF_F_IQ1M) return qsf_le16(w + 2 * r);
    uint32_t half = 0;
    for (int i = 0; i < 4; i++) half |= (uint32_t)qsf_le16(FIELDS(48 + 2 * i) + 2 * r) >> 12 << 4 * i;
    return half;
}
/* What is left of the factors in types_iq.c when scales are odd numbers. */
QSF_TEMPLATE float factor_of(qsf_form f) { return f == QSF_F_IQ3S ? 1 : f == QSF_F_IQ3XXS ? 0.25f : 0.125f; }

static QSF_NOINLINE void IQ_SET(iq_read)(qsf_iq_tile *t, qsf_form f, const uint8_t *w)
{
    switch (f) {
    case QSF_F_IQ2XXS: read_iq2xxs(t, w); break;
    case QSF_F_IQ2XS:  read_iq2xs(t, w); break;
    case QSF_F_IQ2S:   read_iq2s(t, w); break;
    case QSF_F_IQ3XXS: read_iq3xxs(t, w); break;
    case QSF_F_IQ3S:   read_iq3s(t, w); break;
    case QSF_F_IQ1S:   read_iq1s(t, w); break;
    default:           read_iq1m(t, w);
    }
    for (int r = 0; r < 16; r++) t->d[r] = factor_of(f) * qsf_f16_to_f32((uint16_t)half_of(f, w, r));
}

#undef FIELDS
#undef EACH_RUN
#undef RUN_UNROLL
#undef LOW_BYTES
#undef HIGH_BYTES
#undef LANES
#undef RUNS
#undef rows_u32
#undef rows_u16
#undef rows_u8
#undef all_u8
#undef words_of
#undef put_words
#undef halves_of
#undef bytes_of
#undef read_entries
#undef read_byte_entries
#undef all_signs
#undef put_scales
#undef read_word
#undef read_nibbles
#undef read_iq2xxs
#undef read_iq2xs
#undef read_iq2s
#undef read_iq3xxs
#undef read_iq3s
#undef read_iq1s
#undef read_iq1m
#undef half_of
#undef factor_of
#undef IQ_SET
#undef IQ_WIDE
#undef IQ_LOOKUP
#undef QSF_PART
