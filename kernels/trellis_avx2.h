/* Levels out of trellis tiles with AVX2, 8 rows at a time.  Included inside a target region.
 * SPDX-License-Identifier: MIT
 *
 * vpshufb looks up 16 levels.  With up to four bits, their places lie in nibbles, two bits of m
 * beside the pair of low bits; pairs come four at a time from u's nibbles, and lie so that they
 * change places with m under one mask: nibbles of even steps have m in the lower bits, those of odd
 * ones in the upper.  The fifth bit of a place chooses one of two tables.  With five bits each pair
 * has a table of its own for m, and its two bits choose. */
#ifndef QSF_TRELLIS_AVX2_H
#define QSF_TRELLIS_AVX2_H

/* Those of qsf_trellis_tables, and qsf_trellis_pairs. */
typedef struct trellis_tables_avx2 { __m256i level[4], pairs[2]; } trellis_tables_avx2;

QSF_TEMPLATE __m256i trellis_table_avx2(const void *p)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}
/* flip: 0, or 128 for levels that are unsigned by 128 more. */
QSF_TEMPLATE void trellis_tables_load_avx2(trellis_tables_avx2 *to, const qsf_trellis_tables *from, int k,
                                           int flip)
{
    const int n = k < 4 ? 2 : 4;
    QSF_UNROLL
    for (int i = 0; i < n; i++)
        to->level[i] = _mm256_xor_si256(trellis_table_avx2(from->level[i]), _mm256_set1_epi8((char)flip));
    QSF_UNROLL
    for (int i = 0; i < 2; i++) to->pairs[i] = trellis_table_avx2(qsf_trellis_pairs[i]);
}

/* Of a group's half.  Up to four bits: place[2 * (j / 4) + j % 2] has in its nibbles those of
 * steps j and j + 2, choose[0] the fifth bits.  Five bits: place[j / 2] is m of steps j and j + 1,
 * choose the pairs' low and high bits.  last: u of the group before; with up to four bits its upper
 * nibbles, moved to where the next group begins. */
typedef struct trellis_half_avx2 { __m256i place[4], choose[2], last; } trellis_half_avx2;

/* From u of the last group.  choose is set for compilers that do not follow which k has it. */
QSF_TEMPLATE void trellis_begin_avx2(trellis_half_avx2 *s, __m256i u, int k)
{
    s->choose[0] = s->choose[1] = _mm256_setzero_si256();
    s->last = k == 5 ? u : _mm256_srli_epi32(u, 28);
}

/* 32 activations.  Levels are the same from both ends, so a column's weights change their signs
 * when all bits of their places do: masks of the columns below zero, as bits of a step are, and as
 * places. */
typedef struct trellis_columns_avx2 {
    uint8_t  size[32];
    uint32_t place[4], bit;
} trellis_columns_avx2;

QSF_TEMPLATE void trellis_columns_make_avx2(trellis_columns_avx2 *to, const int8_t *q, int k)
{
    const __m256i a = load_avx2(q), n = _mm256_and_si256(_mm256_srli_epi16(a, 7), _mm256_set1_epi8(1)),
        four = _mm256_sub_epi8(_mm256_slli_epi16(n, 4), n),
        by = k == 5 ? _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4) : _mm256_setr_epi32(0, 0, 4, 4, 0, 0, 4, 4),
        places = _mm256_sllv_epi32(four, by),
        other = k == 5 ? _mm256_shuffle_epi32(places, 0xb1) : _mm256_shuffle_epi32(places, 0x4e),
        both = _mm256_permutevar8x32_epi32(_mm256_or_si256(places, other),
                                           k == 5 ? _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)
                                                  : _mm256_setr_epi32(0, 1, 4, 5, 0, 1, 4, 5));
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

/* x: NULL, or what changes signs. */
QSF_TEMPLATE void trellis_fetch_avx2(trellis_half_avx2 *s, const trellis_tables_avx2 *tables,
                                     const uint8_t *g, const trellis_columns_avx2 *x, int k)
{
    const __m256i u = fetch_avx2(g + 64 * (k - 1)), last = s->last, nibble = _mm256_set1_epi8(15);
    if (k == 5) {
        const __m256i one = _mm256_or_si256(_mm256_slli_epi32(u, 1), _mm256_srli_epi32(last, 31)),
            three = _mm256_or_si256(_mm256_slli_epi32(u, 3), _mm256_srli_epi32(last, 29));
        const __m256i two = _mm256_or_si256(_mm256_slli_epi32(u, 2), _mm256_srli_epi32(last, 30));
        const uint32_t *bit = x ? &x->bit : NULL;
        s->choose[0] = trellis_turn_avx2(two, bit);
        s->choose[1] = trellis_turn_avx2(_mm256_xor_si256(u, _mm256_xor_si256(one, three)), bit);
        s->last = u;
        QSF_UNROLL
        for (int i = 0; i < 4; i++)
            s->place[i] = trellis_turn_avx2(fetch_avx2(g + 64 * i), x ? &x->place[i] : NULL);
        return;
    }
    const __m256i low = _mm256_and_si256(u, nibble),
        high = _mm256_and_si256(_mm256_srli_epi16(u, 4), nibble),
        before = _mm256_or_si256(_mm256_slli_epi32(high, 8), last);
    __m256i m[2] = { fetch_avx2(g), _mm256_setzero_si256() };
    s->last = _mm256_srli_epi32(high, 24);
    if (k == 2) {       /* a bit for each step becomes the lower of two */
        const __m256i apart = trellis_table_avx2(qsf_trellis_apart);
        m[1] = _mm256_shuffle_epi8(apart, _mm256_and_si256(_mm256_srli_epi16(m[0], 4), nibble));
        m[0] = _mm256_shuffle_epi8(apart, _mm256_and_si256(m[0], nibble));
    } else m[1] = fetch_avx2(g + 64);
    if (k == 4) s->choose[0] = trellis_turn_avx2(fetch_avx2(g + 128), x ? &x->bit : NULL);
    QSF_UNROLL
    for (int i = 0; i < 2; i++) {
        const __m256i pairs = _mm256_xor_si256(_mm256_shuffle_epi8(tables->pairs[0], i ? high : low),
                                               _mm256_shuffle_epi8(tables->pairs[1], i ? low : before)),
            other = _mm256_and_si256(_mm256_xor_si256(pairs, m[i]), _mm256_set1_epi8((char)0xcc));
        s->place[2 * i] = trellis_turn_avx2(_mm256_xor_si256(m[i], other), x ? &x->place[2 * i] : NULL);
        s->place[2 * i + 1] = trellis_turn_avx2(_mm256_xor_si256(pairs, other),
                                                x ? &x->place[2 * i + 1] : NULL);
    }
}

/* Columns 4j to 4j + 3 of a group: levels. */
QSF_TEMPLATE __m256i trellis_step_avx2(const trellis_half_avx2 *s, const trellis_tables_avx2 *tables, int j,
                                       int k)
{
    const bool upper = k == 5 ? j % 2 : j / 2 % 2;
    const __m256i *t = tables->level, from = s->place[k == 5 ? j / 2 : 2 * (j / 4) + j % 2],
        place = _mm256_and_si256(shift_avx2(from, upper ? -4 : 0), _mm256_set1_epi8(15));
    if (k < 4) return _mm256_shuffle_epi8(t[j % 2], place);
    /* vpblendvb looks at the top bits */
    const __m256i choose = shift_avx2(s->choose[0], 7 - j);
    if (k == 4)
        return _mm256_blendv_epi8(_mm256_shuffle_epi8(t[j % 2], place),
                                  _mm256_shuffle_epi8(t[2 + j % 2], place), choose);
    return _mm256_blendv_epi8(_mm256_blendv_epi8(_mm256_shuffle_epi8(t[0], place),
                                                 _mm256_shuffle_epi8(t[1], place), choose),
                              _mm256_blendv_epi8(_mm256_shuffle_epi8(t[2], place),
                                                 _mm256_shuffle_epi8(t[3], place), choose),
                              shift_avx2(s->choose[1], 7 - j));
}

/* The scales of half h of a tile. */
QSF_TEMPLATE __m256 trellis_scales_avx2(const uint8_t *w, int h)
{
    const __m256i e = bytes8_avx2(w + 8 * h),
        bits = _mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(800)), 20);
    return _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_cmpgt_epi32(e, _mm256_setzero_si256())));
}

/* sum + c times four columns; levels c, and columns with the columns' sizes or with themselves. */
typedef __m256i trellis_add_avx2(__m256i sum, __m256i c, __m256i four);

/* Half h of a tile's `some` blocks of a stretch: what they add.  columns: NULL for levels that are
 * unsigned by 128 more. */
QSF_TEMPLATE __m256 trellis_stretch_avx2(int k, trellis_half_avx2 *half, const trellis_tables_avx2 *tables,
                                         const uint8_t *w, const qsf_act *x, size_t at,
                                         const trellis_columns_avx2 *columns, size_t some, int h,
                                         trellis_add_avx2 *add)
{
    __m256 acc = _mm256_setzero_ps();
    for (size_t b = at; b < at + some; b++, w += 16 + 128 * k) {
        /* with five bits the next stretch would be waited for */
        for (int i = 0; k == 5 && h && i < 16 + 128 * k; i += 64)
            _mm_prefetch((const char *)w + QSF_TRELLIS_STRETCH * (16 + 128 * k) + i, _MM_HINT_T0);
        __m256i sum[4] = { _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                           _mm256_setzero_si256() };
        for (int g = 0; g < 2; g++) {
            const trellis_columns_avx2 *c = columns ? columns++ : NULL;
            const void *q = c ? (const void *)c->size : x->q + 64 * b + 32 * g;
            trellis_fetch_avx2(half, tables, w + 16 + 64 * k * g + 32 * h, c, k);
            QSF_UNROLL
            for (int j = 0; j < 8; j++)
                sum[j % 4] = add(sum[j % 4], trellis_step_avx2(half, tables, j, k), quad_avx2(q, j));
        }
        sum[0] = _mm256_add_epi32(_mm256_add_epi32(sum[0], sum[1]), _mm256_add_epi32(sum[2], sum[3]));
        const __m256 by = _mm256_mul_ps(trellis_scales_avx2(w, h), _mm256_set1_ps(x->d[b]));
        /* exact, as is the sum */
        const float more = columns ? 0 : -128 * (x->s[2 * b] + x->s[2 * b + 1]);
        acc = _mm256_fmadd_ps(by, _mm256_add_ps(_mm256_cvtepi32_ps(sum[0]), _mm256_set1_ps(more)), acc);
    }
    return acc;
}

/* Columns that are prepared at once. */
enum { TRELLIS_COLUMNS_AVX2 = 8192 };

/* fold: levels have signs, and the activations' are put into the places of levels. */
QSF_TEMPLATE void trellis_matvec_avx2(int k, bool fold, float *y, const uint8_t *w, const qsf_act *x,
                                      size_t tiles, size_t blocks, trellis_add_avx2 *add)
{
    const size_t tile = 16 + 128 * (size_t)k;
    trellis_columns_avx2 columns[TRELLIS_COLUMNS_AVX2 / 32];
    qsf_trellis_tables levels;
    trellis_tables_avx2 tables;
    qsf_trellis_tables_make(&levels, (unsigned)k);
    trellis_tables_load_avx2(&tables, &levels, k, fold ? 0 : 128);
    for (size_t from = 0, end; from < blocks; from = end) {
        end = QSF_MIN(blocks, from + TRELLIS_COLUMNS_AVX2 / QSF_TRELLIS_BLOCK);
        for (size_t i = 0; fold && i < 2 * (end - from); i++)
            trellis_columns_make_avx2(&columns[i], x->q + 64 * from + 32 * i, k);
        for (size_t t = 0; t < tiles; t++) {
            const uint8_t *row = w + t * blocks * tile;
            for (int h = 0; h < 2; h++) {
                float *to = y + 16 * t + 8 * h;
                _mm256_storeu_ps(to, from ? _mm256_loadu_ps(to) : _mm256_setzero_ps());
            }
            for (size_t b = from; b < end; b += QSF_TRELLIS_STRETCH)
                for (int h = 0; h < 2; h++) {
                    const uint8_t *at = row + b * tile;
                    float *to = y + 16 * t + 8 * h;
                    trellis_half_avx2 half;
                    const size_t some = QSF_MIN(end - b, (size_t)QSF_TRELLIS_STRETCH);
                    trellis_begin_avx2(&half, b ? load_avx2(at - 64 + 32 * h) : _mm256_setzero_si256(), k);
                    const __m256 part = trellis_stretch_avx2(k, &half, &tables, at, x, b,
                                                             fold ? columns + 2 * (b - from) : NULL, some, h,
                                                             add);
                    _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), part));
                }
        }
    }
}

#endif
