/* Tiles of the trellis forms times activations with AVX-512 VNNI: what sets with VBMI and without
 * it share.  Who includes it defines first, in a target region:
 * SPDX-License-Identifier: MIT
 *
 *   SET                     what names end in
 *   state_SET               tables, and what the steps of a group need
 *   tables_SET(state, k)    makes the tables
 *   begin_SET(state, u)     of the group before
 *   fetch_SET(state, g, k)  the next group
 *   step_SET(state, j, k)   columns 4j to 4j + 3 of it for all 16 rows: levels + 128
 *
 * No include guard: each set includes it once. */
#define JOIN2_TRELLIS(a, b) trellis_##a##_##b
#define JOIN_TRELLIS(a, b) JOIN2_TRELLIS(a, b)
#define NAMED(name) JOIN_TRELLIS(name, SET)

QSF_TEMPLATE __m512 NAMED(scales)(const uint8_t *w)
{
    const __m512i e = bytes16_avx512(w);
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(_mm512_test_epi32_mask(e, e),
                                                       _mm512_add_epi32(e, _mm512_set1_epi32(800)), 20));
}
/* acc + what 64 columns add; s: sums of the activations. */
QSF_TEMPLATE __m512 NAMED(add)(__m512 acc, __m512i sum, __m512 scale, const float *s, float d)
{
    const __m512 offset = _mm512_set1_ps(QSF_TRELLIS_OFFSET * (s[0] + s[1])),
        f = _mm512_sub_ps(_mm512_cvtepi32_ps(sum), offset);
    return _mm512_fmadd_ps(_mm512_set1_ps(d), _mm512_mul_ps(scale, f), acc);
}

QSF_TEMPLATE void NAMED(matvec)(int k, float *y, const uint8_t *w, const qsf_act *x, size_t tiles,
                                 size_t blocks)
{
    NAMED(state) state;
    NAMED(tables)(&state, k);
    for (size_t t = 0; t < tiles; t++, y += 16) {
        NAMED(begin)(&state, _mm512_setzero_si512());
        __m512 acc = _mm512_setzero_ps();
        for (size_t b = 0; b < blocks; b++, w += 16 + 128 * k) {
            const int8_t *q = x->q + 64 * b;
            __m512i sum[2] = { _mm512_setzero_si512(), _mm512_setzero_si512() };
            QSF_UNROLL
            for (int g = 0; g < 2; g++) {
                NAMED(fetch)(&state, w + 16 + 64 * k * g, k);
                QSF_UNROLL
                for (int j = 0; j < 8; j++)
                    sum[j % 2] = _mm512_dpbusd_epi32(sum[j % 2], NAMED(step)(&state, j, k),
                                                     quad_avx512(q, 8 * g + j));
            }
            acc = NAMED(add)(acc, _mm512_add_epi32(sum[0], sum[1]), NAMED(scales)(w), x->s + 2 * b,
                              x->d[b]);
        }
        _mm512_storeu_ps(y, acc);
    }
}

/* One tile row times T rows of activations, of which n are stored; the others repeat the last. */
QSF_TEMPLATE void NAMED(tile_row)(int k, int T, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                   size_t m, size_t n, size_t blocks, size_t ahead)
{
    const bool two = T <= 4;        /* few rows: two sums for each keep both multipliers busy */
    const int8_t *q[8];
    const float *d[8], *s[8];
    __m512 acc[8];
    NAMED(state) state;
    NAMED(tables)(&state, k);
    NAMED(begin)(&state, _mm512_setzero_si512());
    QSF_UNROLL
    for (int t = 0; t < T; t++) {
        const size_t row = m + QSF_MIN((size_t)t, n - 1);
        q[t] = x->q + row * x->cols;
        d[t] = x->d + row * (x->cols / 64);
        s[t] = x->s + row * (x->cols / 32);
        acc[t] = _mm512_setzero_ps();
    }
    for (size_t b = 0; b < blocks; b++, w += 16 + 128 * k) {
        __m512i sum[8], odd[8];
        prefetch_avx512(w + ahead, 16 + 128 * (size_t)k);
        QSF_UNROLL
        for (int t = 0; t < T; t++) sum[t] = odd[t] = _mm512_setzero_si512();
        QSF_UNROLL
        for (int g = 0; g < 2; g++) {
            NAMED(fetch)(&state, w + 16 + 64 * k * g, k);
            QSF_UNROLL
            for (int j = 0; j < 8; j++) {
                const __m512i c = NAMED(step)(&state, j, k);
                QSF_UNROLL
                for (int t = 0; t < T; t++) {
                    __m512i *to = two && j % 2 ? &odd[t] : &sum[t];
                    *to = _mm512_dpbusd_epi32(*to, c, quad_avx512(q[t] + 64 * b, 8 * g + j));
                }
            }
        }
        const __m512 scale = NAMED(scales)(w);
        QSF_UNROLL
        for (int t = 0; t < T; t++)
            acc[t] = NAMED(add)(acc[t], two ? _mm512_add_epi32(sum[t], odd[t]) : sum[t], scale,
                                 s[t] + 2 * b, d[t][b]);
    }
    QSF_UNROLL
    for (int t = 0; t < T; t++) if ((size_t)t < n) _mm512_storeu_ps(y + (size_t)t * ldy, acc[t]);
}

QSF_TEMPLATE void NAMED(unpack)(int k, qsf_panel *p, const uint8_t *w, size_t blocks)
{
    NAMED(state) state;
    NAMED(tables)(&state, k);
    /* u ends the tile before */
    NAMED(begin)(&state, p->first ? _mm512_setzero_si512() : load_avx512(w - 64));
    for (size_t b = 0; b < blocks; b++, w += 16 + 128 * k) {
        _mm512_storeu_ps(p->scale[b], NAMED(scales)(w));
        for (int g = 0; g < 2; g++) {
            NAMED(fetch)(&state, w + 16 + 64 * k * g, k);
            QSF_UNROLL
            for (int j = 0; j < 8; j++)
                _mm512_storeu_si512(p->code[16 * b + 8 * (size_t)g + (size_t)j],
                                    NAMED(step)(&state, j, k));
        }
    }
}

QSF_TEMPLATE void NAMED(matmul)(int k, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                 size_t tiles, size_t blocks, qsf_panel_unpack *unpack)
{
    const size_t row_bytes = blocks * (16 + 128 * (size_t)k);
    if (x->n >= QSF_PANEL_ROWS) {
        const qsf_panel_form f = { unpack, 64, QSF_TRELLIS_OFFSET, false, NULL };
        qsf_panel_matmul_avx512(&f, y, ldy, w, row_bytes, x, tiles, blocks, QSF_TRELLIS_BLOCK);
        return;
    }
    for (size_t t = 0; t < tiles; t++)
        for (size_t m = 0; m < x->n; m += 8) {
            const size_t n = QSF_MIN(x->n - m, (size_t)8), ahead = ahead_avx512(m, x->n, row_bytes);
            float *out = y + m * ldy + 16 * t;
            const uint8_t *row = w + t * row_bytes;
            if (n <= 2) NAMED(tile_row)(k, 2, out, ldy, row, x, m, n, blocks, ahead);
            else if (n <= 4) NAMED(tile_row)(k, 4, out, ldy, row, x, m, n, blocks, ahead);
            else NAMED(tile_row)(k, 8, out, ldy, row, x, m, n, blocks, ahead);
        }
}

#define TRELLIS_AVX512(K)                                                                                    \
    static void NAMED(matvec_TR##K)(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,              \
                                    size_t blocks, uint32_t block)                                           \
    {                                                                                                        \
        (void)block;                                                                                         \
        NAMED(matvec)(K, y, w, x, tiles, blocks);                                                            \
    }                                                                                                        \
    static void NAMED(unpack_TR##K)(qsf_panel *p, const uint8_t *w, size_t blocks, uint32_t block)           \
    {                                                                                                        \
        (void)block;                                                                                         \
        NAMED(unpack)(K, p, w, blocks);                                                                      \
    }                                                                                                        \
    static void NAMED(matmul_TR##K)(float *y, size_t ldy, const uint8_t *w, const qsf_act *x,                \
                                    size_t tiles, size_t blocks, uint32_t block)                             \
    {                                                                                                        \
        if (x->n == 1) NAMED(matvec_TR##K)(y, w, x, tiles, blocks, block);                                   \
        else NAMED(matmul)(K, y, ldy, w, x, tiles, blocks, NAMED(unpack_TR##K));                             \
    }
QSF_EACH_TRELLIS(TRELLIS_AVX512)
#undef TRELLIS_AVX512

QSF_TEMPLATE void NAMED(fill)(qsf_kernels *k)
{
#define TRELLIS_AVX512(K) \
    k->matvec[QSF_F_TR##K] = NAMED(matvec_TR##K), k->matmul[QSF_F_TR##K] = NAMED(matmul_TR##K);
    QSF_EACH_TRELLIS(TRELLIS_AVX512)
#undef TRELLIS_AVX512
}

#undef JOIN2_TRELLIS
#undef JOIN_TRELLIS
#undef NAMED
#undef SET
