/* Places of levels in trellis tiles with GFNI, 8 rows at a time: as trellis_avx2.h has them.
 * Included inside a target region.
 * SPDX-License-Identifier: MIT
 *
 * gf2p8affineqb makes each bit of a byte the parity of any bits of another one.  So the pairs of low
 * bits of four steps are one instruction, from a byte of u that begins three steps before them. */
#ifndef QSF_TRELLIS_GFNI_H
#define QSF_TRELLIS_GFNI_H

/* A matrix whose rows say of which bits the result's bits are the parity, r0 the lowest. */
#define MATRIX_GFNI(r0, r1, r2, r3, r4, r5, r6, r7)                                                      \
    ((int64_t)((uint64_t)(r0) << 56 | (uint64_t)(r1) << 48 | (uint64_t)(r2) << 40 | (uint64_t)(r3) << 32 \
               | (uint64_t)(r4) << 24 | (uint64_t)(r5) << 16 | (uint64_t)(r6) << 8 | (uint64_t)(r7)))
/* What P and Q of the step whose u is bit b of a byte are the parity of. */
#define P_GFNI(b) (13 << (b) >> 3)
#define Q_GFNI(b) (1 << (b) >> 2)
/* In the order of qsf_trellis_pairs those of four steps, the first u at bit b. */
#define PAIRS_GFNI(b)                                                                                    \
    MATRIX_GFNI(Q_GFNI(b + 1), P_GFNI(b + 1), Q_GFNI(b), P_GFNI(b), Q_GFNI(b + 3), P_GFNI(b + 3),        \
                Q_GFNI(b + 2), P_GFNI(b + 2))
/* Nibbles with P of two steps in all bits. */
#define TURNS_GFNI(b)                                                                                    \
    MATRIX_GFNI(P_GFNI(b), P_GFNI(b), P_GFNI(b), P_GFNI(b), P_GFNI(b + 1), P_GFNI(b + 1), P_GFNI(b + 1), \
                P_GFNI(b + 1))
/* The four bits of m from b on, as qsf_trellis_apart has them. */
#define APART_GFNI(b) MATRIX_GFNI(1 << (b), 0, 2 << (b), 0, 4 << (b), 0, 8 << (b), 0)
#define CHOOSE_GFNI(b) (P_GFNI(b) ^ Q_GFNI(b))

QSF_TEMPLATE __m256i parity_gfni(__m256i v, int64_t matrix)
{
    return _mm256_gf2p8affine_epi64_epi8(v, _mm256_set1_epi64x(matrix), 0);
}
QSF_TEMPLATE __m256i not_parity_gfni(__m256i v, int64_t matrix)
{
    return _mm256_gf2p8affine_epi64_epi8(v, _mm256_set1_epi64x(matrix), 0xff);
}

/* As trellis_fetch_avx2, without signs of activations.  *last: u of the group before. */
QSF_TEMPLATE void trellis_fetch_gfni(__m256i *to, __m256i *last, const trellis_tables_avx2 *tables,
                                     const uint8_t *g, const trellis_columns_avx2 *x, int k)
{
    (void)tables, (void)x;
    const __m256i u = fetch_avx2(g + 64 * (k - 1)),
        before = _mm256_or_si256(_mm256_slli_epi32(u, 3), _mm256_srli_epi32(*last, 29));
    *last = u;
    if (k == 5) {
        QSF_UNROLL
        for (int i = 0; i < 4; i++)
            to[i] = _mm256_xor_si256(fetch_avx2(g + 64 * i),
                                     i == 0 ? not_parity_gfni(before, TURNS_GFNI(3))
                                     : i == 1 ? not_parity_gfni(before, TURNS_GFNI(5))
                                     : i == 2 ? not_parity_gfni(u, TURNS_GFNI(4))
                                              : not_parity_gfni(u, TURNS_GFNI(6)));
        const int64_t low = MATRIX_GFNI(CHOOSE_GFNI(3), CHOOSE_GFNI(4), CHOOSE_GFNI(5), CHOOSE_GFNI(6),
                                        0, 0, 0, 0),
            high = MATRIX_GFNI(0, 0, 0, 0, CHOOSE_GFNI(4), CHOOSE_GFNI(5), CHOOSE_GFNI(6), CHOOSE_GFNI(7));
        to[4] = _mm256_xor_si256(not_parity_gfni(before, low), parity_gfni(u, high));
        return;
    }
    if (k == 4) to[4] = fetch_avx2(g + 128);
    const __m256i first = fetch_avx2(g);
    QSF_UNROLL
    for (int i = 0; i < 2; i++) {
        const __m256i pairs = i ? parity_gfni(u, PAIRS_GFNI(4)) : parity_gfni(before, PAIRS_GFNI(3)),
            m = k == 2 ? i ? parity_gfni(first, APART_GFNI(4)) : parity_gfni(first, APART_GFNI(0))
                : i ? fetch_avx2(g + 64) : first,
            other = _mm256_and_si256(_mm256_xor_si256(pairs, m), _mm256_set1_epi8((char)0xcc));
        to[2 * i] = _mm256_xor_si256(m, other);
        to[2 * i + 1] = _mm256_xor_si256(pairs, other);
    }
}

#undef MATRIX_GFNI
#undef P_GFNI
#undef Q_GFNI
#undef PAIRS_GFNI
#undef TURNS_GFNI
#undef APART_GFNI
#undef CHOOSE_GFNI

#endif
