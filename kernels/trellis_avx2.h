/* Decodes the levels of trellis tiles with AVX2, 8 rows at a time, and multiplies them with one row
 * of activations.  Included inside a target region.
 * SPDX-License-Identifier: MIT
 *
 * vpshufb looks up 16 levels.  With up to four bits, the indices are nibbles: two bits of m next to
 * the pair of low bits.  Pairs come four at a time from u's nibbles, arranged so that one mask
 * separates them from m: nibbles of even steps have m in the lower bits, those of odd steps in the
 * upper.  The fifth bit of an index chooses one of two tables.
 *
 * With five bits, a level is 4 m + 2 P + Q of its table, and the table is symmetric except for
 * signs: if P is 0, the magnitudes are those at the index with all bits inverted.  So two tables of
 * magnitudes, indexed by m or by inverted m, are enough; Q, or inverted Q, chooses between them.
 * The level's sign is m's upper bit, and is applied to the activation. */
#ifndef QSF_TRELLIS_AVX2_H
#define QSF_TRELLIS_AVX2_H

/* Those of qsf_trellis_tables, and qsf_trellis_pairs.  Five bits: two of sizes, and what turns two
 * steps' m. */
typedef struct trellis_tables_avx2 { __m256i level[4], pairs[2]; } trellis_tables_avx2;

QSF_TEMPLATE __m256i trellis_table_avx2(const void *p)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}
/* [i]: nibbles with all bits inverted if bits 2i and 2i + 1 of four are 0. */
static const uint8_t trellis_turns_avx2[2][16] = {
    { 0xff, 0xf0, 0x0f, 0, 0xff, 0xf0, 0x0f, 0, 0xff, 0xf0, 0x0f, 0, 0xff, 0xf0, 0x0f, 0 },
    { 0xff, 0xff, 0xff, 0xff, 0xf0, 0xf0, 0xf0, 0xf0, 0x0f, 0x0f, 0x0f, 0x0f, 0, 0, 0, 0 },
};

/* flip: 0, or 128 for levels that are unsigned by 128 more. */
QSF_TEMPLATE void trellis_tables_load_avx2(trellis_tables_avx2 *to, const qsf_trellis_tables *from, int k,
                                           int flip)
{
    const int n = k == 4 ? 4 : 2;
    QSF_UNROLL
    for (int i = 0; i < n; i++) {
        const __m256i level = trellis_table_avx2(from->level[k == 5 ? 2 + i : i]);
        to->level[i] = k == 5 ? _mm256_abs_epi8(level)
                              : _mm256_xor_si256(level, _mm256_set1_epi8((char)flip));
    }
    QSF_UNROLL
    for (int i = 0; i < 2; i++)
        to->pairs[i] = trellis_table_avx2(k == 5 ? trellis_turns_avx2[i] : qsf_trellis_pairs[i]);
}

/* What a group's half becomes.  Up to four bits: [2 * (j / 4) + j % 2] has in its nibbles the
 * places of steps j and j + 2, [4] the fifth bits.  Five bits: [j / 2] is m of steps j and j + 1,
 * turned where P is 0, [4] what chooses. */
QSF_TEMPLATE int trellis_places_avx2(int k) { return k < 4 ? 4 : 5; }

/* 32 activations.  Levels are the same from both ends, so a column's weights change their signs
 * when all bits of their places do: masks of the columns below zero, as bits of a step are, and as
 * places. */
typedef struct trellis_columns_avx2 {
    uint8_t  size[32];
    uint32_t place[4], bit;
} trellis_columns_avx2;

QSF_TEMPLATE void trellis_columns_make_avx2(trellis_columns_avx2 *to, const int8_t *q)
{
    const __m256i a = load_avx2(q), n = _mm256_and_si256(_mm256_srli_epi16(a, 7), _mm256_set1_epi8(1)),
        four = _mm256_sub_epi8(_mm256_slli_epi16(n, 4), n),
        places = _mm256_sllv_epi32(four, _mm256_setr_epi32(0, 0, 4, 4, 0, 0, 4, 4)),
        both = _mm256_permutevar8x32_epi32(_mm256_or_si256(places, _mm256_shuffle_epi32(places, 0x4e)),
                                           _mm256_setr_epi32(0, 1, 4, 5, 0, 1, 4, 5));
    __m256i bit = _mm256_sllv_epi32(n, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    bit = _mm256_or_si256(bit, _mm256_shuffle_epi32(bit, 0x4e));
    bit = _mm256_or_si256(bit, _mm256_shuffle_epi32(bit, 0xb1));
    _mm256_storeu_si256((__m256i *)(void *)to->size, _mm256_abs_epi8(a));
    _mm_storeu_si128((__m128i *)(void *)to->place, _mm256_castsi256_si128(both));
    to->bit = (uint32_t)_mm256_extract_epi32(bit, 0) | (uint32_t)_mm256_extract_epi32(bit, 4);
}
QSF_TEMPLATE __m256i trellis_turn_avx2(__m256i v, const uint32_t *mask)
{
    return mask ? _mm256_xor_si256(v, _mm256_set1_epi32((int32_t)*mask)) : v;
}

/* *last: u of the group before.  x: NULL, or what changes signs. */
QSF_TEMPLATE void trellis_fetch_avx2(__m256i *to, __m256i *last, const trellis_tables_avx2 *tables,
                                     const uint8_t *g, const trellis_columns_avx2 *x, int k)
{
    const __m256i u = fetch_avx2(g + 64 * (k - 1)), nibble = _mm256_set1_epi8(15);
    if (k == 5) {
        const __m256i one = _mm256_or_si256(_mm256_slli_epi32(u, 1), _mm256_srli_epi32(*last, 31)),
            three = _mm256_or_si256(_mm256_slli_epi32(u, 3), _mm256_srli_epi32(*last, 29));
        const __m256i two = _mm256_or_si256(_mm256_slli_epi32(u, 2), _mm256_srli_epi32(*last, 30));
        const __m256i high = _mm256_xor_si256(u, _mm256_xor_si256(one, three)),
            nibbles[2] = { _mm256_and_si256(high, nibble),
                           _mm256_and_si256(_mm256_srli_epi16(high, 4), nibble) };
        to[4] = _mm256_xor_si256(_mm256_xor_si256(two, high), _mm256_set1_epi8(-1));
        QSF_UNROLL
        for (int i = 0; i < 4; i++)
            to[i] = _mm256_xor_si256(fetch_avx2(g + 64 * i),
                                     _mm256_shuffle_epi8(tables->pairs[i % 2], nibbles[i / 2]));
        *last = u;
        return;
    }
    const __m256i low = _mm256_and_si256(u, nibble),
        high = _mm256_and_si256(_mm256_srli_epi16(u, 4), nibble),
        before = _mm256_or_si256(_mm256_slli_epi32(high, 8), _mm256_srli_epi32(*last, 28));
    __m256i m[2] = { fetch_avx2(g), _mm256_setzero_si256() };
    *last = u;
    if (k == 2) {       /* a bit for each step becomes the lower of two */
        const __m256i apart = trellis_table_avx2(qsf_trellis_apart);
        m[1] = _mm256_shuffle_epi8(apart, _mm256_and_si256(_mm256_srli_epi16(m[0], 4), nibble));
        m[0] = _mm256_shuffle_epi8(apart, _mm256_and_si256(m[0], nibble));
    } else m[1] = fetch_avx2(g + 64);
    if (k == 4) to[4] = trellis_turn_avx2(fetch_avx2(g + 128), x ? &x->bit : NULL);
    QSF_UNROLL
    for (int i = 0; i < 2; i++) {
        const __m256i pairs = _mm256_xor_si256(_mm256_shuffle_epi8(tables->pairs[0], i ? high : low),
                                               _mm256_shuffle_epi8(tables->pairs[1], i ? low : before)),
            other = _mm256_and_si256(_mm256_xor_si256(pairs, m[i]), _mm256_set1_epi8((char)0xcc));
        to[2 * i] = trellis_turn_avx2(_mm256_xor_si256(m[i], other), x ? &x->place[2 * i] : NULL);
        to[2 * i + 1] = trellis_turn_avx2(_mm256_xor_si256(pairs, other), x ? &x->place[2 * i + 1] : NULL);
    }
}

/* The step that a nibble of places[i] belongs to. */
QSF_TEMPLATE int trellis_step_avx2(int i, bool upper, int k)
{
    return k == 5 ? 2 * i + upper : 4 * (i / 2) + i % 2 + 2 * upper;
}
/* Its levels, with five bits their sizes: columns 4j to 4j + 3 of a group. */
QSF_TEMPLATE __m256i trellis_level_avx2(const __m256i *places, const trellis_tables_avx2 *tables, int i,
                                        bool upper, int k)
{
    const int j = trellis_step_avx2(i, upper, k);
    const __m256i *t = tables->level + (k == 5 ? 0 : j % 2),
        place = _mm256_and_si256(shift_avx2(places[i], upper ? -4 : 0), _mm256_set1_epi8(15));
    if (k < 4) return _mm256_shuffle_epi8(t[0], place);
    /* vpblendvb looks at the top bits */
    return _mm256_blendv_epi8(_mm256_shuffle_epi8(t[0], place), _mm256_shuffle_epi8(t[k == 5 ? 1 : 2], place),
                              shift_avx2(places[4], 7 - j));
}
/* v with the signs of five-bit levels applied: m of steps j and j + 1, in the tile's layout.  No
 * byte may be 0, since vpsignb would make the result 0. */
QSF_TEMPLATE __m256i trellis_sign_avx2(__m256i v, __m256i m, bool upper)
{
    return _mm256_sign_epi8(v, shift_avx2(_mm256_or_si256(m, _mm256_set1_epi8(0x11)), upper ? 0 : 4));
}

/* The scales of half h of a tile. */
QSF_TEMPLATE __m256 trellis_scales_avx2(const uint8_t *w, int h)
{
    const __m256i e = bytes8_avx2(w + 8 * h),
        bits = _mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(800)), 20);
    return _mm256_castsi256_ps(_mm256_sign_epi32(bits, e));      /* 0 where e is */
}

/* sum[0] += u[0] * s[0] + u[2] * s[2], sum[1] the same with the others: of two steps of both halves
 * levels and columns, or columns and levels. */
typedef void trellis_add_avx2(__m256i sum[2], __m256i u[4], __m256i s[4]);
/* trellis_fetch_avx2, or what does the same. */
typedef void trellis_find_avx2(__m256i *to, __m256i *last, const trellis_tables_avx2 *tables,
                               const uint8_t *g, const trellis_columns_avx2 *x, int k);

/* acc + what 64 columns add; s: NULL, or their sums where levels are unsigned by 128 more.  turned:
 * the sum has the other sign. */
QSF_TEMPLATE __m256 trellis_value_avx2(__m256 acc, __m256i sum, __m256 scale, float d, const float *s,
                                       bool turned)
{
    __m256 v = _mm256_cvtepi32_ps(sum);
    if (turned) return _mm256_fnmadd_ps(_mm256_mul_ps(scale, _mm256_set1_ps(d)), v, acc);
    if (s) v = _mm256_sub_ps(v, _mm256_set1_ps(128 * (s[0] + s[1])));   /* exact, as is the sum */
    return _mm256_fmadd_ps(_mm256_mul_ps(scale, _mm256_set1_ps(d)), v, acc);
}

/* y += a tile's n blocks of a stretch times x.  All places are found before levels are looked up:
 * processors look only so far ahead, and in one loop each would wait for the other.  columns: NULL
 * for levels that are unsigned by 128 more, or sizes. */
QSF_TEMPLATE void trellis_stretch_avx2(int k, float *y, __m256i last[2], const trellis_tables_avx2 *tables,
                                       const uint8_t *w, const qsf_act *x, size_t at,
                                       const trellis_columns_avx2 *columns, size_t n,
                                       trellis_find_avx2 *find, trellis_add_avx2 *add)
{
    const int n_places = trellis_places_avx2(k);
    __m256i places[QSF_TRELLIS_STRETCH * 4 * 5], *to = places, last0 = last[0], last1 = last[1];
    __m256 acc0 = _mm256_setzero_ps(), acc1 = acc0;
    const uint8_t *from = w;
    const trellis_columns_avx2 *c = columns;
    for (size_t i = 0; i < n; i++) {
        from += 16;
        QSF_LOOP
        for (const uint8_t *end = from + 128 * k; from < end; from += 64 * k, to += 2 * n_places) {
            find(to, &last0, tables, from, c, k);
            find(to + n_places, &last1, tables, from + 32, c, k);
            if (columns) c++;
        }
    }
    to = places, c = columns;
    for (size_t i = at; i < at + n; i++) {
        const __m256 scale0 = trellis_scales_avx2(w, 0), scale1 = trellis_scales_avx2(w, 1);
        const int8_t *q = x->q + 64 * i;
        /* with four bits or more the next stretch would be waited for */
        for (int p = 0; k > 3 && p < 16 + 128 * k; p += 64)
            _mm_prefetch((const char *)w + QSF_TRELLIS_STRETCH * (16 + 128 * k) + p, _MM_HINT_T0);
        __m256i sum[2] = { _mm256_setzero_si256(), _mm256_setzero_si256() };
        w += 16;
        QSF_LOOP
        for (const uint8_t *end = w + 128 * k; w < end; w += 64 * k, q += 32, to += 2 * n_places) {
            QSF_UNROLL
            for (int p = 0; p < 4; p++) {
                __m256i level[4], four[4];
                QSF_UNROLL
                for (int e = 0; e < 4; e++) {
                    level[e] = trellis_level_avx2(to + n_places * (e % 2), tables, p, e / 2, k);
                    four[e] = quad_avx2(columns ? (const void *)c->size : q, trellis_step_avx2(p, e / 2, k));
                    if (k == 5)
                        four[e] = trellis_sign_avx2(four[e], load_avx2(w + 64 * p + 32 * (e % 2)), e / 2);
                }
                if (columns) add(sum, four, level);
                else add(sum, level, four);
            }
            if (columns) c++;
        }
        const float *s = columns || k == 5 ? NULL : x->s + 2 * i;
        acc0 = trellis_value_avx2(acc0, sum[0], scale0, x->d[i], s, k == 5);
        acc1 = trellis_value_avx2(acc1, sum[1], scale1, x->d[i], s, k == 5);
    }
    _mm256_storeu_ps(y, _mm256_add_ps(_mm256_loadu_ps(y), acc0));
    _mm256_storeu_ps(y + 8, _mm256_add_ps(_mm256_loadu_ps(y + 8), acc1));
}

/* Columns that are prepared at once. */
enum { TRELLIS_COLUMNS_AVX2 = 8192 };

/* fold: levels have signs, and the activations' are put into the places of levels; not with five
 * bits. */
QSF_TEMPLATE void trellis_matvec_avx2(int k, bool fold, float *y, const uint8_t *w, const qsf_act *x,
                                      size_t tiles, size_t blocks, trellis_find_avx2 *find,
                                      trellis_add_avx2 *add)
{
    const size_t tile = 16 + 128 * (size_t)k;
    trellis_columns_avx2 columns[TRELLIS_COLUMNS_AVX2 / 32];
    qsf_trellis_tables levels;
    trellis_tables_avx2 tables;
    qsf_trellis_tables_make(&levels, (unsigned)k);
    trellis_tables_load_avx2(&tables, &levels, k, fold ? 0 : 128);
    memset(y, 0, 16 * tiles * sizeof *y);
    for (size_t from = 0, end; from < blocks; from = end) {
        end = QSF_MIN(blocks, from + TRELLIS_COLUMNS_AVX2 / QSF_TRELLIS_BLOCK);
        for (size_t i = 0; fold && i < 2 * (end - from); i++)
            trellis_columns_make_avx2(&columns[i], x->q + 64 * from + 32 * i);
        for (size_t t = 0; t < tiles; t++)
            for (size_t b = from; b < end; b += QSF_TRELLIS_STRETCH) {
                const uint8_t *at = w + (t * blocks + b) * tile;
                __m256i last[2] = { _mm256_setzero_si256(), _mm256_setzero_si256() };
                for (int h = 0; h < 2 && b; h++) last[h] = load_avx2(at - 64 + 32 * h);
                trellis_stretch_avx2(k, y + 16 * t, last, &tables, at, x, b,
                                     fold ? columns + 2 * (b - from) : NULL,
                                     QSF_MIN(end - b, (size_t)QSF_TRELLIS_STRETCH), find, add);
            }
    }
}

#endif
