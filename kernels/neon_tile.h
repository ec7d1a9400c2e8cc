/* What the three NEON files of tiles times activations share: codes out of tiles, scales, and the
 * walk over tiles and rows.
 * SPDX-License-Identifier: MIT
 *
 * A tile is read as four quarters of 4 rows: 16 bytes, 4 columns of each row, are one vector.  For
 * one row of activations every set multiplies codes as it unpacks them.  For several, 64 columns of
 * a tile are unpacked into a kilobyte on the stack, and a function of the set multiplies them with
 * all rows of a band: unpacking then costs little, and is the same code in every set. */
#ifndef QSF_NEON_TILE_H
#define QSF_NEON_TILE_H

#include "tiles_v128.h"

#if defined(__aarch64__) && !defined(__AARCH64EB__)
#define QSF_NEON_TILE 1
void qsf_matmul_neon(qsf_kernels *k);
void qsf_matmul_dotprod(qsf_kernels *k);
void qsf_matmul_i8mm(qsf_kernels *k);
void qsf_super_neon(qsf_kernels *k);
void qsf_super_dotprod(qsf_kernels *k);
void qsf_super_i8mm(qsf_kernels *k);
void qsf_attention_dotprod(qsf_kernels *k);

/* Named apart because the compilers do not agree: GCC's dotprod belongs to ARMv8.2,
 * Clang takes the extension alone. */
#if defined(__clang__)
#  define QSF_TARGET_DOTPROD "dotprod"
#  define QSF_TARGET_I8MM "i8mm"
#else
#  define QSF_TARGET_DOTPROD "arch=armv8.2-a+dotprod"
#  define QSF_TARGET_I8MM "arch=armv8.2-a+i8mm"
#endif

/* ---- values ---- */
QSF_TEMPLATE float32x4_t half4_neon(const uint8_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}
QSF_TEMPLATE float32x4_t scale4_neon(const uint8_t *p, qsf_form form)
{
    return qsf_form_bare(form) ? vdupq_n_f32(1) : half4_neon(p);
}

/* acc + d * (value of the integer sums); sq is the plain sum of the activations. */
QSF_TEMPLATE float32x4_t value_neon(float32x4_t acc, int32x4_t sum, float32x4_t scale, float32x4_t zero,
                                    float d, float sq, bool zeros, float offset)
{
    const float32x4_t f = vcvtq_f32_s32(sum);
    if (zeros) return vfmaq_n_f32(acc, vfmaq_f32(vmulq_n_f32(zero, sq), scale, f), d);
    /* exact, as is the product inside */
    return vfmaq_f32(acc, vmulq_n_f32(scale, d), vsubq_f32(f, vdupq_n_f32(offset * sq)));
}
QSF_TEMPLATE void store_neon(float *y, float32x4_t v, qsf_form form)
{
    vst1q_f32(y, qsf_form_negated(form) ? vnegq_f32(v) : v);
}

/* ---- products ---- */
/* How many products an int16 lane can add up: (2^bits - 1) * 127 each, 128 * 127 for signed
 * codes. */
QSF_TEMPLATE int sums16_neon(qsf_form form)
{
    const int bits = qsf_form_width(form);
    return signed_v128(form) ? 2 : bits <= 4 ? 16 : bits == 5 ? 8 : bits == 6 ? 4 : 2;
}

/* Only for functions of QSF_TARGET_DOTPROD. */
QSF_TARGET_BEGIN(QSF_TARGET_DOTPROD)
/* Assembly, because Clang before 16 hides vdotq_laneq_s32 unless the whole file is
 * compiled for it. */
#define SDOT_NEON(lane) __asm__("sdot %0.4s, %1.16b, %2.4b[" #lane "]" : "+w"(acc) : "w"(c), "w"(q))
QSF_TEMPLATE int32x4_t sdot_neon(int32x4_t acc, int8x16_t c, int8x16_t q, int lane)
{
    switch (lane) {
    case 0:  SDOT_NEON(0); break;
    case 1:  SDOT_NEON(1); break;
    case 2:  SDOT_NEON(2); break;
    default: SDOT_NEON(3); break;
    }
    return acc;
}
#undef SDOT_NEON
QSF_TARGET_END

/* Only for functions of QSF_TARGET_I8MM; assembly for the same reason. */
QSF_TARGET_BEGIN(QSF_TARGET_I8MM)
QSF_TEMPLATE int32x4_t smmla_neon(int32x4_t acc, int8x16_t c, int8x16_t q)
{
    __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(c), "w"(q));
    return acc;
}
QSF_TARGET_END

/* ---- several rows of activations ---- */
enum { TOKENS_NEON = 16 };      /* rows that share one unpacking */

/* 64 (or 32) columns of a tile, unpacked, and what turns their sums into values. */
typedef struct part_neon {
    /* [4 columns][quarter]; for i8mm [8 columns][4 rows of 2] with 8 columns each */
    int8_t      codes[16][4][16];
    float32x4_t scale[4], zero[4];
    float       offset;
    bool        zeros;
    int         groups;
    size_t      at;                         /* the first column */
    const qsf_act *x;
    size_t      m, n;                       /* rows of x; n <= TOKENS_NEON */
    float32x4_t acc[TOKENS_NEON][4];
} part_neon;
typedef void part_fn_neon(part_neon *p);

QSF_TEMPLATE void unpack_neon(part_neon *p, const uint8_t *w, qsf_form form, bool by8)
{
    for (int g = 0; g < p->groups; g++, w += qsf_form_group(form))
        for (int q = 0; q < 4; q++) {
            source_v128 s = { vdupq_n_s8(0), vdupq_n_s8(0) };
            int8x16_t even = vdupq_n_s8(0);
            QSF_UNROLL
            for (int j = 0; j < 8; j++) {
                const int8x16_t c = code_v128(&s, w + 16 * q, j, form);
                if (!by8) vst1q_s8(p->codes[8 * g + j][q], c);
                else if (j % 2 == 0) even = c;
                else {                      /* rows 0, 1 and rows 2, 3 of the quarter, 8 columns each */
                    const int32x4_t a = vreinterpretq_s32_s8(even), b = vreinterpretq_s32_s8(c);
                    int8_t *to = p->codes[8 * g + j - 1 + q / 2][2 * (q % 2)];
                    vst1q_s8(to, vreinterpretq_s8_s32(vzip1q_s32(a, b)));
                    vst1q_s8(to + 16, vreinterpretq_s8_s32(vzip2q_s32(a, b)));
                }
            }
        }
}

/* acc of row t += the sums of its four quarters. */
QSF_TEMPLATE void finish_neon(part_neon *p, size_t t, const int32x4_t sum[4])
{
    const size_t row = p->m + t;
    const float d = p->x->d[row * (p->x->cols / 64) + p->at / 64],
        *s = p->x->s + row * (p->x->cols / 32) + p->at / 32;
    const float sq = p->groups == 1 ? s[0] : s[0] + s[1];
    QSF_UNROLL
    for (int q = 0; q < 4; q++)
        p->acc[t][q] = value_neon(p->acc[t][q], sum[q], p->scale[q], p->zero[q], d, sq, p->zeros, p->offset);
}

QSF_TEMPLATE void tile_row_neon(part_neon *p, float *y, size_t ldy, qsf_form form, const uint8_t *w,
                                size_t blocks, uint32_t block, bool by8, part_fn_neon *multiply)
{
    p->groups = qsf_form_small(form, block) ? 1 : 2, p->at = 0;
    p->zeros = qsf_form_has_zero(form), p->offset = (float)qsf_form_offset(form);
    memset(p->acc, 0, sizeof p->acc);
    for (size_t b = 0; b < blocks; b++) {
        if (qsf_form_own_scales(form)) scales_v128(p->scale, w, form);
        for (int q = 0; q < 4; q++) {
            if (!qsf_form_own_scales(form)) p->scale[q] = scale4_neon(w + 8 * q, form);
            p->zero[q] = qsf_form_has_zero(form) ? half4_neon(w + 32 + 8 * q) : p->scale[q];
        }
        w += qsf_form_head(form);
        for (const uint8_t *end = w + block / 32 * qsf_form_group(form); w < end;
             w += (size_t)p->groups * qsf_form_group(form)) {
            unpack_neon(p, w, form, by8);
            multiply(p);
            p->at += 32 * (size_t)p->groups;
        }
    }
    for (size_t t = 0; t < p->n; t++)
        for (int q = 0; q < 4; q++) store_neon(y + t * ldy + 4 * q, p->acc[t][q], form);
}

QSF_TEMPLATE void matmul_any_neon(qsf_form form, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                  size_t tiles, size_t blocks, uint32_t block, bool by8,
                                  part_fn_neon *multiply)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(form, block), band = qsf_band_rows(x->cols);
    part_neon p;
    p.x = x;
    for (size_t from = 0; from < x->n; from += band)
        for (size_t t = 0; t < tiles; t++)
            for (size_t m = from; m < x->n && m < from + band; m += TOKENS_NEON) {
                p.m = m, p.n = QSF_MIN(x->n - m, (size_t)TOKENS_NEON);
                tile_row_neon(&p, y + m * ldy + 16 * t, ldy, form, w + t * row_bytes, blocks, block,
                              by8, multiply);
            }
}

#endif
#endif
