/* Tiles of the trellis forms times activations with AVX2: a single row is multiplied while it is
 * decoded, several rows with tiles of 8 bits.
 * SPDX-License-Identifier: MIT */
#include "trellis.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")

#include "tiles_avx2.h"
#include "trellis_avx2.h"

/* Pairs of products are at most 2 * 127 * 127.  Four products are at the same stage, since each
 * waits for the one before it; GCC would go through them one by one, and add later. */
QSF_TEMPLATE void trellis_together_avx2(__m256i v[4])
{
    __asm__ volatile("" : "+x"(v[0]), "+x"(v[1]), "+x"(v[2]), "+x"(v[3]));
}
QSF_TEMPLATE void trellis_pairs_avx2(__m256i sum[2], __m256i u[4], __m256i s[4])
{
    __m256i v[4];
    trellis_together_avx2(s);
    QSF_UNROLL
    for (int i = 0; i < 4; i++) v[i] = _mm256_maddubs_epi16(u[i], s[i]);
    trellis_together_avx2(v);
    QSF_UNROLL
    for (int i = 0; i < 4; i++) v[i] = widen_avx2(v[i]);
    trellis_together_avx2(v);
    QSF_UNROLL
    for (int i = 0; i < 4; i++) sum[i % 2] = _mm256_add_epi32(sum[i % 2], v[i]);
    __asm__ volatile("" : "+x"(sum[0]), "+x"(sum[1]));
}

QSF_TEMPLATE void trellis_expand_avx2(uint8_t *eight, const uint8_t *tile, const qsf_trellis_tables *levels,
                                      int k, bool first)
{
    trellis_tables_avx2 tables;
    trellis_tables_load_avx2(&tables, levels, k, 0);
    for (int i = 0; i < 2 && k == 5; i++)       /* turned once more */
        tables.level[i] = _mm256_sub_epi8(_mm256_setzero_si256(), tables.level[i]);
    for (int i = 0; i < 64; i += 32) {
        __m256i places[5], last = first ? _mm256_setzero_si256() : load_avx2(tile - 64 + i);
        for (int g = 0; g < 2; g++) {
            const uint8_t *from = tile + 16 + 64 * k * g + i;
            trellis_fetch_avx2(places, &last, &tables, from, NULL, k);
            QSF_UNROLL
            for (int j = 0; j < 8; j++) {
                const int step = trellis_step_avx2(j / 2, j % 2, k);
                __m256i v = trellis_level_avx2(places, &tables, j / 2, j % 2, k);
                if (k == 5) v = trellis_sign_avx2(v, load_avx2(from + 64 * (j / 2)), j % 2);
                _mm256_storeu_si256((__m256i *)(void *)(eight + 32 + 512 * g + 64 * step + i), v);
            }
        }
    }
}

void qsf_trellis_eight_avx2(uint8_t *eight, const uint8_t *tile, const qsf_trellis_tables *tables, unsigned k,
                            bool first)
{
    for (int r = 0; r < 16; r++) qsf_put16(eight + 2 * r, qsf_trellis_half(tile[r]));
    switch (k) {
    case 2:  trellis_expand_avx2(eight, tile, tables, 2, first); break;
    case 3:  trellis_expand_avx2(eight, tile, tables, 3, first); break;
    case 4:  trellis_expand_avx2(eight, tile, tables, 4, first); break;
    default: trellis_expand_avx2(eight, tile, tables, 5, first); break;
    }
}

#define TRELLIS_AVX2(K)                                                                                     \
    static void matvec_TR##K##_avx2(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,             \
                                    size_t blocks, uint32_t block)                                          \
    {                                                                                                       \
        (void)block;                                                                                        \
        trellis_matvec_avx2(K, K < 5, y, w, x, tiles, blocks, trellis_fetch_avx2, trellis_pairs_avx2);      \
    }                                                                                                       \
    static void matmul_TR##K##_avx2(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                    size_t blocks, uint32_t block)                                          \
    {                                                                                                       \
        if (x->n == 1) matvec_TR##K##_avx2(y, w, x, tiles, blocks, block);                                  \
        else qsf_trellis_matmul(K, y, ldy, w, x, tiles, blocks, qsf_trellis_eight_avx2, qsf_matmul_8_avx2); \
    }
QSF_EACH_TRELLIS(TRELLIS_AVX2)
#undef TRELLIS_AVX2

void qsf_trellis_avx2(qsf_kernels *k)
{
#define TRELLIS_AVX2(K) \
    k->matvec[QSF_F_TR##K] = matvec_TR##K##_avx2; k->matmul[QSF_F_TR##K] = matmul_TR##K##_avx2;
    QSF_EACH_TRELLIS(TRELLIS_AVX2)
#undef TRELLIS_AVX2
}

QSF_TARGET_END
#endif
