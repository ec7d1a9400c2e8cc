/* 8-bit attention with NEON's dot product: sdot by element over the tiles of a block, as for the
 * weights.
 * SPDX-License-Identifier: MIT */
#include "neon_tile.h"

#if defined(QSF_NEON_TILE)
QSF_TARGET_BEGIN(QSF_TARGET_DOTPROD)

/* Scores of 16 positions for R vectors, n of the positions stored: 4 * R sums in registers. */
QSF_TEMPLATE void scores16_dotprod(float *s, size_t lds, const int8_t *q, const float *qd, const int8_t *k,
                                   const float *kd, size_t n, size_t dim, float scale, int R)
{
    int32x4_t sum[4][4];
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int i = 0; i < 4; i++) sum[r][i] = vdupq_n_s32(0);
    for (size_t d = 0; d < dim; d += 16) {
        int8x16_t a[4];
        QSF_UNROLL
        for (int r = 0; r < R; r++) a[r] = vld1q_s8(q + (size_t)r * dim + d);
        QSF_UNROLL
        for (int j = 0; j < 4; j++, k += 64)
            QSF_UNROLL
            for (int i = 0; i < 4; i++) {
                const int8x16_t c = vld1q_s8(k + 16 * i);
                QSF_UNROLL
                for (int r = 0; r < R; r++) sum[r][i] = sdot_neon(sum[r][i], c, a[r], j);
            }
    }
    float scales[16] = { 0 }, out[16];
    for (size_t i = 0; i < n; i++) scales[i] = kd[i];
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        float *to = n == 16 ? s + (size_t)r * lds : out;
        QSF_UNROLL
        for (int i = 0; i < 4; i++)
            vst1q_f32(to + 4 * i, vmulq_f32(vcvtq_f32_s32(sum[r][i]),
                                            vmulq_n_f32(vld1q_f32(scales + 4 * i), qd[r] * scale)));
        for (size_t i = 0; n < 16 && i < n; i++) s[(size_t)r * lds + i] = out[i];
    }
}
static void attention_scores_q8_dotprod(float *s, size_t lds, const int8_t *q, const float *qd,
                                        const int32_t *qs, const int8_t *k, const float *kd, size_t n,
                                        size_t dim, size_t rep, float scale, const int8_t *ahead)
{
    (void)qs;
    for (size_t i = 0; i < n; i += 16) {
        const int8_t *at = k + qsf_kv_k_at(i, 0, dim);
        const size_t here = QSF_MIN(n - i, (size_t)16);
        size_t r = 0;
        if (ahead) qsf_kv_bring(ahead + i * dim, 16 * dim);
        for (; r + 4 <= rep; r += 4)
            scores16_dotprod(s + r * lds + i, lds, q + r * dim, qd + r, at, kd + i, here, dim, scale, 4);
        if (rep - r == 3)
            scores16_dotprod(s + r * lds + i, lds, q + r * dim, qd + r, at, kd + i, here, dim, scale, 3);
        if (rep - r == 2)
            scores16_dotprod(s + r * lds + i, lds, q + r * dim, qd + r, at, kd + i, here, dim, scale, 2);
        if (rep - r == 1)
            scores16_dotprod(s + r * lds + i, lds, q + r * dim, qd + r, at, kd + i, here, dim, scale, 1);
    }
}

/* Sixteen columns of R vectors, n of them stored.  sdot takes signed bytes, weights go to 255: 128
 * is taken off them, and added again times the plain sum of the values, which all vectors share. */
QSF_TEMPLATE void weighted16_dotprod(float *o, const float *factor, const uint8_t *p, const float *pd,
                                     const int8_t *v, size_t n, size_t head_dim, int R)
{
    const int8x16_t lots = vdupq_n_s8(64);
    int32x4_t sum[4][4], plain[4];
    int8x16_t a[4][2];
    QSF_UNROLL
    for (int i = 0; i < 4; i++) plain[i] = vdupq_n_s32(0);
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        QSF_UNROLL
        for (int i = 0; i < 4; i++) sum[r][i] = vdupq_n_s32(0);
        QSF_UNROLL
        for (int i = 0; i < 2; i++)
            a[r][i] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p + (size_t)r * QSF_KV_BLOCK + 16 * i),
                                                   vdupq_n_u8(0x80)));
    }
    QSF_UNROLL
    for (int j = 0; j < QSF_KV_BLOCK / 4; j++)
        QSF_UNROLL
        for (int i = 0; i < 4; i++) {
            const int8x16_t c = vld1q_s8(v + 64 * j + 16 * i);
            plain[i] = sdot_neon(plain[i], c, lots, 0);
            QSF_UNROLL
            for (int r = 0; r < R; r++) sum[r][i] = sdot_neon(sum[r][i], c, a[r][j / 4], j % 4);
        }
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        float *to = o + (size_t)r * head_dim, part[16] = { 0 };
        if (n < 16) {
            for (size_t i = 0; i < n && factor[r] != 0; i++) part[i] = to[i];
            to = part;
        }
        QSF_UNROLL
        for (int i = 0; i < 4; i++) {
            const int32x4_t whole = vaddq_s32(sum[r][i], vaddq_s32(plain[i], plain[i]));
            const float32x4_t old = factor[r] == 0 ? vdupq_n_f32(0)
                : vmulq_n_f32(vld1q_f32(to + 4 * i), factor[r]);
            vst1q_f32(to + 4 * i, vfmaq_n_f32(old, vcvtq_f32_s32(whole), pd[r]));
        }
        for (size_t i = 0; n < 16 && i < n; i++) o[(size_t)r * head_dim + i] = part[i];
    }
}
static void attention_weighted_sum_q8_dotprod(float *o, const float *factor, const uint8_t *p,
                                              const float *pd, const int8_t *v, size_t head_dim, size_t rep,
                                              const int8_t *ahead)
{
    if (ahead) qsf_kv_bring(ahead + qsf_kv_dim(head_dim) * QSF_KV_BLOCK, QSF_KV_SCALES);
    for (size_t d = 0; d < head_dim; d += 16, v += 16 * QSF_KV_BLOCK) {
        const size_t here = QSF_MIN(head_dim - d, (size_t)16);
        size_t r = 0;
        if (ahead) qsf_kv_bring(ahead + d * QSF_KV_BLOCK, 16 * QSF_KV_BLOCK);
        for (; r + 3 <= rep; r += 3)
            weighted16_dotprod(o + r * head_dim + d, factor + r, p + r * QSF_KV_BLOCK, pd + r, v, here,
                               head_dim, 3);
        if (rep - r == 2)
            weighted16_dotprod(o + r * head_dim + d, factor + r, p + r * QSF_KV_BLOCK, pd + r, v, here,
                               head_dim, 2);
        if (rep - r == 1)
            weighted16_dotprod(o + r * head_dim + d, factor + r, p + r * QSF_KV_BLOCK, pd + r, v, here,
                               head_dim, 1);
    }
}

void qsf_attention_dotprod(qsf_kernels *k)
{
    k->attention_scores_q8 = attention_scores_q8_dotprod;
    k->attention_weighted_sum_q8 = attention_weighted_sum_q8_dotprod;
}

QSF_TARGET_END
#endif
