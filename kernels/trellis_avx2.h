/* Levels out of trellis tiles with AVX2, 8 rows at a time.  Included inside a target region.
 * SPDX-License-Identifier: MIT
 *
 * vpshufb looks up 16 levels, and takes the four bits of their places in any order: with the pair
 * of low bits below two bits of m, or above them, whichever moves less.  The bits of m beyond two
 * choose among two or four tables. */
#ifndef QSF_TRELLIS_AVX2_H
#define QSF_TRELLIS_AVX2_H

/* [order][m / 4]: levels; order 1 has m in the lowest bits. */
typedef struct trellis_tables_avx2 { __m256i t[2][4]; } trellis_tables_avx2;

/* flip: 0, or 128 for levels that are unsigned by 128 more. */
QSF_TEMPLATE void trellis_tables_make_avx2(trellis_tables_avx2 *to, int k, int flip)
{
    /* with 2 bits, m is either of two bits */
    const __m128i two[2] = { _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7),
                             _mm_setr_epi8(0, 4, 4, 4, 1, 5, 5, 5, 2, 6, 6, 6, 3, 7, 7, 7) },
        more[2] = { _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                    _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15) };
    const int n = k < 4 ? 1 : k == 4 ? 2 : 4;
    QSF_UNROLL
    for (int i = 0; i < n; i++) {
        const int8_t *level = qsf_trellis_levels[k - 2] + 16 * i;
        const __m128i here = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)level),
                                           _mm_set1_epi8((char)flip));
        QSF_UNROLL
        for (int o = 0; o < 2; o++)
            to->t[o][i] = _mm256_broadcastsi128_si256(_mm_shuffle_epi8(here, k == 2 ? two[o] : more[o]));
    }
}

/* Of a group's half: planes of m, of m's third bit, and the pairs of low bits of even and of odd
 * steps.  last: u of the group before. */
typedef struct trellis_half_avx2 { __m256i m[4], third, pair[2], last; } trellis_half_avx2;

QSF_TEMPLATE void trellis_fetch_avx2(trellis_half_avx2 *s, const uint8_t *g, int k)
{
    const int planes = k == 2 ? 1 : k == 5 ? 4 : 2;
    QSF_UNROLL
    for (int i = 0; i < planes; i++) s->m[i] = fetch_avx2(g + 64 * i);
    if (k == 4) s->third = fetch_avx2(g + 128);
    const __m256i u = fetch_avx2(g + 64 * (k - 1)), last = s->last, even = _mm256_set1_epi8(0x55);
    const __m256i one = _mm256_or_si256(_mm256_slli_epi32(u, 1), _mm256_srli_epi32(last, 31)),
        three = _mm256_or_si256(_mm256_slli_epi32(u, 3), _mm256_srli_epi32(last, 29)),
        low = _mm256_or_si256(_mm256_slli_epi32(u, 2), _mm256_srli_epi32(last, 30)),
        high = _mm256_xor_si256(u, _mm256_xor_si256(one, three));
    s->pair[0] = _mm256_or_si256(_mm256_and_si256(low, even),
                                 _mm256_andnot_si256(even, _mm256_add_epi8(high, high)));
    s->pair[1] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(low, 1), even),
                                 _mm256_andnot_si256(even, high));
    s->last = u;
}

/* Columns 4j to 4j + 3 of a group: levels. */
QSF_TEMPLATE __m256i trellis_step_avx2(const trellis_half_avx2 *s, const trellis_tables_avx2 *tables, int j,
                                       int k)
{
    const int bits = k == 2 ? 1 : k == 5 ? 4 : 2, each = 8 / bits, from = bits * (j % each),
        order = j / 2 % 2, m_to = (order ? 0 : 2) + (k == 2 ? j % 2 : 0), low_to = order ? 2 : 0;
    const __m256i *t = tables->t[order], plane = s->m[j / each],
        m = _mm256_and_si256(shift_avx2(plane, m_to - from),
                             _mm256_set1_epi8((char)((k == 2 ? 1 : 3) << m_to))),
        low = _mm256_and_si256(shift_avx2(s->pair[j % 2], low_to - j / 2 * 2),
                               _mm256_set1_epi8((char)(3 << low_to))),
        place = _mm256_or_si256(m, low), first = _mm256_shuffle_epi8(t[0], place);
    if (k < 4) return first;
    /* vpblendvb looks at the top bits */
    if (k == 4)
        return _mm256_blendv_epi8(first, _mm256_shuffle_epi8(t[1], place), shift_avx2(s->third, 7 - j));
    const __m256i third = shift_avx2(plane, 5 - from), fourth = shift_avx2(plane, 4 - from);
    const __m256i low4 = _mm256_blendv_epi8(first, _mm256_shuffle_epi8(t[1], place), third),
        high4 = _mm256_blendv_epi8(_mm256_shuffle_epi8(t[2], place), _mm256_shuffle_epi8(t[3], place), third);
    return _mm256_blendv_epi8(low4, high4, fourth);
}

/* Ends a stretch of blocks, as qsf_trellis_matmul adds them up. */
QSF_TEMPLATE void trellis_stretch_avx2(__m256 total[2], __m256 acc[2])
{
    QSF_UNROLL
    for (int h = 0; h < 2; h++) {
        total[h] = _mm256_add_ps(total[h], acc[h]);
        acc[h] = _mm256_setzero_ps();
    }
}

/* The scales of half h of a tile. */
QSF_TEMPLATE __m256 trellis_scales_avx2(const uint8_t *w, int h)
{
    const __m256i e = bytes8_avx2(w + 8 * h),
        bits = _mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(800)), 20);
    return _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_cmpgt_epi32(e, _mm256_setzero_si256())));
}

#endif
