/* Deliberately wrong kernels that the checks must catch: the test is tested.  Each is the scalar
 * kernel with one fault.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_BROKEN_H
#define KERNELS_BROKEN_H

#include "attention.h"
#include "convert.h"
#include "matmul.h"
#include "scan.h"
#include "sample.h"
#include "top_k.h"
#include "vector.h"

static qsf_kernels sound;       /* the scalar table */

/* An integer sum that is off by one, in one lane of one shape. */
static void matmul_off_by_one(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                              size_t blocks, uint32_t block)
{
    sound.matmul[QSF_F_4](y, ldy, w, x, tiles, blocks, block);
    if (x->n > 2 && block == 128) y[2 * ldy + 5] += x->d[0];
}
static void matmul_tail_skipped(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                                size_t blocks, uint32_t block)
{
    qsf_act less = *x;
    less.n = x->n > 8 ? x->n / 8 * 8 : x->n;
    sound.matmul[QSF_F_4](y, ldy, w, &less, tiles, blocks, block);
}
static void matmul_past_end(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                            size_t blocks, uint32_t block)
{
    sound.matmul[QSF_F_4](y, ldy, w, x, tiles, blocks, block);
    y[(x->n - 1) * ldy + 16 * tiles] = 0;
}
static void matmul_between_rows(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                                size_t blocks, uint32_t block)
{
    sound.matmul[QSF_F_4](y, ldy, w, x, tiles, blocks, block);
    for (size_t m = 0; m + 1 < x->n; m++) if (ldy > 16 * tiles) y[m * ldy + 16 * tiles] = 0;
}
#if GUARD_PAGES
static volatile uint8_t read_sink;
static void matvec_reads_on(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                            uint32_t block)
{
    sound.matvec[QSF_F_4](y, w, x, tiles, blocks, block);
    read_sink = w[tiles * blocks * qsf_tile_bytes(QSF_F_4, block)];
}
#endif
static void matvec_saturates(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                             uint32_t block)
{
    sound.matvec[QSF_F_8](y, w, x, tiles, blocks, block);
    /* only extreme input shows it */
    for (size_t i = 0; i < 16 * tiles; i++) if (fabsf(y[i]) > 2e6f) y[i] *= 0.9999f;
}
/* Super-blocks: what each part of their head may go wrong in. */
/* a minimum too little in one row */
static void matmul_q4k_least(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                             size_t blocks, uint32_t block)
{
    sound.matmul[QSF_F_Q4K](y, ldy, w, x, tiles, blocks, block);
    if (blocks > 1 && x->n > 1)
        y[ldy + 7] += x->d[x->cols / 64 + 4] * x->s[x->cols / 32 + 8]
            * qsf_f16_to_f32(qsf_le16(w + qsf_tile_bytes(QSF_F_Q4K, 256) + 32 + 14));
}
/* 16-bit sums that only extreme input fills */
static void matvec_q6k_wraps(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                             uint32_t block)
{
    sound.matvec[QSF_F_Q6K](y, w, x, tiles, blocks, block);
    for (size_t i = 0; i < blocks * 32; i++) if (x->h[i] == 8 * 127) y[0] *= 1.001f;
}
/* the neighbour's 16 columns */
static void matvec_q3k_other_half(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                                  uint32_t block)
{
    qsf_act other = *x;
    other.q += x->q[0] == x->q[16] ? 0 : 16;
    if (other.q == x->q || blocks < 2) sound.matvec[QSF_F_Q3K](y, w, x, tiles, blocks, block);
    else sound.matvec[QSF_F_Q3K](y, w, &other, tiles, blocks - 1, block);
}
/* a table value rounded */
static void matvec_iq4_rounds(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                              uint32_t block)
{
    sound.matvec[QSF_F_IQ4](y, w, x, tiles, blocks, block);
    for (size_t i = 0; i < 16 * tiles; i++) y[i] += 1e-3f * fabsf(y[i]);
}
static void narrow_cut(float *y, size_t ldy, const uint8_t *w, size_t depth, size_t tiles, const int8_t *q,
                       size_t ldq, const float *d, size_t ldd, size_t n)
{
    sound.add_narrow(y, ldy, w, depth, tiles, q, ldq, d, ldd, n - n % 4);
}
static void narrow_other_row(float *y, size_t ldy, const uint8_t *w, size_t depth, size_t tiles,
                             const int8_t *q, size_t ldq, const float *d, size_t ldd, size_t n)
{
    sound.add_narrow(y, ldy, w, depth, tiles, q, ldq, d, ldd > 1 ? ldd - 1 : ldd, n);
}
static void matmul_f32_tail(float *y, size_t ldy, const float *w, const float *x, size_t ldx, size_t n,
                            size_t rows, size_t cols)
{
    sound.matmul_f32(y, ldy, w, x, ldx, n, rows, cols);
    if (cols % 8 == 1) y[0] -= w[cols - 1] * x[cols - 1];
}
/* small weights are lost */
static void matmul_f16_cut(float *y, size_t ldy, const uint16_t *w, const float *x, size_t ldx, size_t n,
                           size_t rows, size_t cols, float *scratch)
{
    sound.matmul_f16(y, ldy, w, x, ldx, n, rows, cols, scratch);
    for (size_t i = 0; i < cols; i++) if (!(w[i] & 0x7c00)) y[0] -= qsf_f16_to_f32(w[i]) * x[i];
}
static void matmul_bf16_unrounded(float *y, size_t ldy, const uint16_t *w, const float *x, size_t ldx,
                                  size_t n, size_t rows, size_t cols, float *scratch)
{
    sound.matmul_bf16(y, ldy, w, x, ldx, n, rows, cols, scratch);
    y[0] = 0;
    for (size_t i = 0; i < cols; i++) y[0] += qsf_bf16_to_f32(w[i]) * x[i];
}
static void scores_wrong_stride(float *s, size_t lds, const int8_t *q, const float *qd, const int32_t *qs,
                                const int8_t *k, const float *kd, size_t n, size_t dim, size_t rep,
                                float scale, const int8_t *ahead)
{
    (void)lds;
    sound.attention_scores_q8(s, n, q, qd, qs, k, kd, n, dim, rep, scale, ahead);
}
static void codes_behind_the_end(uint8_t *p, float *pd, float *s, size_t lds, const float *vd, size_t n,
                                 size_t rep, float *factor, float *m, float *l)
{
    sound.attention_softmax_q8(p, pd, s, lds, vd, n, rep, factor, m, l);
    if (n < QSF_KV_BLOCK) p[n] = 1;
}
static void codes_without_scales(uint8_t *p, float *pd, float *s, size_t lds, const float *vd, size_t n,
                                 size_t rep, float *factor, float *m, float *l)
{
    float first[QSF_KV_BLOCK];
    for (size_t i = 0; i < n; i++) first[i] = vd[0];
    sound.attention_softmax_q8(p, pd, s, lds, first, n, rep, factor, m, l);
}
static void softmax_mask_leaks(float *s, size_t lds, size_t n, size_t rep, float *factor, float *m, float *l)
{
    for (size_t i = 0; i < n; i++) if (s[i] == -INFINITY) s[i] = -80;
    sound.attention_softmax_inplace(s, lds, n, rep, factor, m, l);
}
static void softmax_shares_top(float *s, size_t lds, size_t n, size_t rep, float *factor, float *m, float *l)
{
    for (size_t r = 1; r < rep; r++) m[r] = QSF_MAX(m[r], m[r - 1]);
    sound.attention_softmax_inplace(s, lds, n, rep, factor, m, l);
}
static void weighted_reads_garbage(float *o, const float *factor, const float *s, size_t lds,
                                   const uint16_t *v, size_t n, size_t head_dim, size_t rep)
{
    for (size_t i = 0; i < head_dim; i++) o[i] *= factor[0];
    const float one = 1;
    sound.attention_weighted_sum_f16(o, &one, s, lds, v, n, head_dim, 1);
    if (rep > 1)
        sound.attention_weighted_sum_f16(o + head_dim, factor + 1, s + lds, lds, v, n, head_dim, rep - 1);
}
static void mask_off_by_one(float *s, size_t n, uint32_t first, uint32_t current, uint32_t window)
{
    sound.causal_mask_apply(s, n, first, current, window ? window + 1 : 0);
}
static void layer_norm_one_pass(float *y, const float *x, const float *weight, const float *bias,
                                size_t n, float eps)
{
    float sum = 0, sq = 0;
    for (size_t i = 0; i < n; i++) sum += x[i], sq += x[i] * x[i];
    const float mean = sum / (float)n, f = 1 / sqrtf(sq / (float)n - mean * mean + eps);
    for (size_t i = 0; i < n; i++) y[i] = (x[i] - mean) * f * weight[i] + (bias ? bias[i] : 0);
}
static void rms_norm_overflows(float *y, const float *x, const float *weight, size_t n, float eps)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
    for (size_t i = 0; i < n; i++) y[i] = x[i] / sqrtf(sum / (float)n + eps) * (weight ? weight[i] : 1);
}
static void rope_other_pairs(float *x, size_t heads, size_t head_dim, size_t half, const float *c,
                             const float *s, bool pairs)
{
    sound.rope_apply(x, heads, head_dim, half, c, s, !pairs);
}
static void silu_tail_skipped(float *x, size_t n) { sound.silu_inplace(x, n / 8 * 8); }
static void silu_past_end(float *x, size_t n) { sound.silu_inplace(x, (n + 7) / 8 * 8); }
static void relu_before_start(float *x, size_t n)
{
    sound.relu_inplace(x, n);
    uint8_t *before = (uint8_t *)x - 1;
    *before = 0;
}
static void gelu_of_erf(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
}
static void vec_add_last_doubled(float *y, const float *a, const float *b, size_t n)
{
    sound.vec_add(y, a, b, n);
    if (n % 8 && n > 8) y[n - 1] += b[n - 1];
}
static void scan_forgets_keep(float *after, const float *before, size_t rows, const qsf_scan *s)
{
    qsf_scan wrong = *s;        /* decays after the correction, not before it */
    float gain[SCAN_TOKENS], ones[SCAN_TOKENS];
    for (size_t t = 0; t < s->tokens; t++) gain[t] = s->gain[t], ones[t] = s->correct ? 1 : s->keep[t];
    wrong.gain = gain, wrong.keep = ones;
    sound.scan_rows(after, before, rows, &wrong);
}
static void scan_loses_last_rows(float *after, const float *before, size_t rows, const qsf_scan *s)
{
    sound.scan_rows(after, before, rows > 4 ? rows / 4 * 4 : rows, s);
}
static void scan_of_second_token(float *after, const float *before, size_t rows, const qsf_scan *s)
{
    sound.scan_rows(after, before, rows, s);
    if (s->tokens > 1) s->y[s->ld_y] *= 1.001f;
}
static void scan_decays_half(float *after, const float *before, size_t rows, const float *decay,
                             const float *skip, const qsf_scan *s)
{
    sound.scan_steps(after, before, rows, decay, skip, s);
    if (s->n > 8) after[8] *= 0.999f;
}
static void softplus_is_relu(float *x, size_t n) { sound.relu_inplace(x, n); }
static void convolve_forgets_oldest(float *x, size_t ld, size_t tokens, size_t channels, float *after,
                                    const float *before, size_t ld_state, const float *w, const float *bias,
                                    size_t taps)
{
    sound.convolve_inplace(x, ld, tokens, channels, after, before, ld_state, w, bias, taps);
    if (taps > 2) after[channels - 1] = 0;
}
static void top_k_ties(float *x, size_t n, size_t k)       /* all of the equals stay */
{
    float *y = malloc(4 * n + 1);
    memcpy(y, x, 4 * n);
    sound.top_k_filter(y, n, k);
    float least = INFINITY;
    for (size_t i = 0; i < n; i++) if (y[i] > -INFINITY && y[i] < least) least = y[i];
    for (size_t i = 0; i < n; i++) if (!(x[i] >= least)) x[i] = -INFINITY;
    free(y);
}
static void exp_weights_drifts(float *w, float *sums, const float *x, size_t n, const qsf_exp_weights *e)
{
    sound.exp_weights(w, sums, x, n, e);
    for (size_t i = 0; w && i < n; i++) if (w[i] < 1e-3f) w[i] *= 1.000001f;
}
static void weight_sums_in_order(float *sums, const float *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i % QSF_SAMPLE_BLOCK == 0) sums[i / QSF_SAMPLE_BLOCK] = 0;
        sums[i / QSF_SAMPLE_BLOCK] += w[i];
    }
}
static void weight_levels_reached(float *mass, const float *key, const float *w, size_t n,
                                  const float *levels)
{
    sound.weight_levels(mass, key, w, n, levels);
    for (size_t i = 0; i < n; i++) if (key[i] == levels[1]) mass[1] += w ? w[i] : 1;
}
static size_t weights_within_both(uint32_t *at, const float *w, size_t n, float over, float most)
{
    return sound.weights_within(at, w, n, over, most > over ? nextafterf(most, -INFINITY) : most);
}
static float weighted_logs_of_nothing(const float *w, const float *x, size_t n, float top, float scale)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += w[i] * (x[i] - top) * scale;
    return sum;
}
static void moments_of_all(float out[3], const float *x, size_t n, float top)
{
    sound.logit_moments(out, x, n, top);
    out[0] = (float)n;
}
static size_t largest_is_last(const float *x, size_t n)
{
    size_t best = sound.largest_logit(x, n);
    for (size_t i = best; i < n; i++) if (x[i] == x[best]) best = i;
    return best;
}
/* ties away from zero, sums not */
static void quantize_act_away(qsf_act *a, size_t m, const float *x, size_t cols)
{
    sound.quantize_act(a, m, x, cols);
    for (size_t i = 0; i < cols; i++) {
        const float d = a->d[m * (a->cols / 64) + i / 64];
        if (d > 0 && isfinite(x[i])) a->q[m * a->cols + i] = (int8_t)roundf(x[i] * (1 / d));
    }
}
static void quantize_act_dirty_tail(qsf_act *a, size_t m, const float *x, size_t cols)
{
    sound.quantize_act(a, m, x, cols);
    if (cols < a->cols) a->q[m * a->cols + cols] = 1;
}
static void fp16_truncates(uint16_t *out, const float *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = qsf_f32_to_f16(in[i]);
        if (fabsf(qsf_f16_to_f32(out[i])) > fabsf(in[i]) && (out[i] & 0x7fff) < 0x7c00) out[i]--;
    }
}
static void fp16_flushes(float *out, const uint16_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = in[i] & 0x7c00 ? qsf_f16_to_f32(in[i]) : 0;
}
static void levels_forget_padding(uint8_t *out, uint16_t *scale, const float *in, size_t n, unsigned bits)
{
    sound.quantize_kv_levels(out, scale, in, qsf_kv_dim(n), bits);
}
static void levels_scale_beside(uint8_t *out, uint16_t *scale, const float *in, size_t n, unsigned bits)
{
    sound.quantize_kv_levels(out, scale, in, n, bits);
    if (*scale) *scale += 1;
}
static void unpack_other_field(int8_t *out, const uint8_t *in, size_t n, size_t part, unsigned bits)
{
    sound.unpack_kv_levels(out, in, n, part, bits);
    for (size_t i = 0; bits == 2 && part == 16 && i < 4 * n; i += 64) {
        int8_t fields[16];
        memcpy(fields, out + i + 16, 16);
        memcpy(out + i + 16, out + i + 32, 16);
        memcpy(out + i + 32, fields, 16);
    }
}
static void hadamard_tail_skipped(float *x, size_t n, size_t apart)
{
    sound.hadamard_inplace(x, n > 64 ? 64 : n, apart);
}

/* Puts one fault into the table and expects the check to see it. */
#define CAUGHT(member, fault, check_name, of_form) do {                                     \
        qsf_kernels wrong = sound;                                                          \
        wrong.member = fault;                                                               \
        table_test t = { .rng = seed, .entry = #fault, .form = of_form, .quiet = true };    \
        if (!run_check(&t, check_name, &sound, &wrong)) {                                   \
            test_fail(__FILE__, __LINE__, "not caught: " #fault);                           \
        }                                                                                   \
        faults++;                                                                           \
    } while (0)

static int broken_kernels_caught(uint64_t seed)
{
    int faults = 0;
    qsf_kernels_scalar(&sound);
    CAUGHT(matmul[QSF_F_4], matmul_off_by_one, check_matmul, QSF_F_4);
    CAUGHT(matmul[QSF_F_4], matmul_tail_skipped, check_matmul, QSF_F_4);
    CAUGHT(matmul[QSF_F_4], matmul_past_end, check_matmul, QSF_F_4);
    CAUGHT(matmul[QSF_F_4], matmul_between_rows, check_matmul, QSF_F_4);
#if GUARD_PAGES
    CAUGHT(matvec[QSF_F_4], matvec_reads_on, check_matvec, QSF_F_4);
#endif
    CAUGHT(matvec[QSF_F_8], matvec_saturates, check_matvec, QSF_F_8);
    CAUGHT(matmul[QSF_F_Q4K], matmul_q4k_least, check_matmul, QSF_F_Q4K);
    CAUGHT(matvec[QSF_F_Q6K], matvec_q6k_wraps, check_matvec, QSF_F_Q6K);
    CAUGHT(matvec[QSF_F_Q3K], matvec_q3k_other_half, check_matvec, QSF_F_Q3K);
    CAUGHT(matvec[QSF_F_IQ4], matvec_iq4_rounds, check_matvec, QSF_F_IQ4);
    CAUGHT(matmul_f32, matmul_f32_tail, check_matmul_f32, 0);
    CAUGHT(matmul_f16, matmul_f16_cut, check_matmul_f16, 0);
    CAUGHT(matmul_bf16, matmul_bf16_unrounded, check_matmul_bf16, 0);
    CAUGHT(add_narrow, narrow_cut, check_add_narrow, 0);
    CAUGHT(add_narrow, narrow_other_row, check_add_narrow, 0);
    CAUGHT(attention_scores_q8, scores_wrong_stride, check_attention_scores_q8, 0);
    CAUGHT(attention_softmax_q8, codes_behind_the_end, check_attention_softmax_q8, 0);
    CAUGHT(attention_softmax_q8, codes_without_scales, check_attention_softmax_q8, 0);
    CAUGHT(attention_softmax_inplace, softmax_mask_leaks, check_attention_softmax, 0);
    CAUGHT(attention_softmax_inplace, softmax_shares_top, check_attention_softmax, 0);
    CAUGHT(attention_weighted_sum_f16, weighted_reads_garbage, check_attention_weighted_sum_f16, 0);
    CAUGHT(causal_mask_apply, mask_off_by_one, check_causal_mask, 0);
    CAUGHT(layer_norm, layer_norm_one_pass, check_layer_norm, 0);
    CAUGHT(rms_norm, rms_norm_overflows, check_rms_norm, 0);
    CAUGHT(rope_apply, rope_other_pairs, check_rope_apply, 0);
    CAUGHT(silu_inplace, silu_tail_skipped, check_silu, 0);
    CAUGHT(silu_inplace, silu_past_end, check_silu, 0);
    CAUGHT(relu_inplace, relu_before_start, check_relu, 0);
    CAUGHT(gelu_inplace, gelu_of_erf, check_gelu, 0);
    CAUGHT(vec_add, vec_add_last_doubled, check_vec_add, 0);
    CAUGHT(scan_rows, scan_forgets_keep, check_scan_rows, 0);
    CAUGHT(scan_rows, scan_loses_last_rows, check_scan_rows, 0);
    CAUGHT(scan_rows, scan_of_second_token, check_scan_rows, 0);
    CAUGHT(scan_steps, scan_decays_half, check_scan_steps, 0);
    CAUGHT(softplus_inplace, softplus_is_relu, check_softplus, 0);
    CAUGHT(convolve_inplace, convolve_forgets_oldest, check_convolve, 0);
    CAUGHT(top_k_filter, top_k_ties, check_top_k, 0);
    CAUGHT(exp_weights, exp_weights_drifts, check_exp_weights, 0);
    CAUGHT(weight_sums, weight_sums_in_order, check_weight_sums, 0);
    CAUGHT(weight_levels, weight_levels_reached, check_weight_levels, 0);
    CAUGHT(weights_within, weights_within_both, check_weights_within, 0);
    CAUGHT(weighted_logs, weighted_logs_of_nothing, check_weighted_logs, 0);
    CAUGHT(logit_moments, moments_of_all, check_logit_moments, 0);
    CAUGHT(largest_logit, largest_is_last, check_largest_logit, 0);
    CAUGHT(quantize_act, quantize_act_away, check_quantize_act, 0);
    CAUGHT(quantize_act, quantize_act_dirty_tail, check_quantize_act, 0);
    CAUGHT(quantize_kv_levels, levels_forget_padding, check_quantize_kv_levels, 0);
    CAUGHT(quantize_kv_levels, levels_scale_beside, check_quantize_kv_levels, 0);
    CAUGHT(unpack_kv_levels, unpack_other_field, check_unpack_kv_levels, 0);
    CAUGHT(hadamard_inplace, hadamard_tail_skipped, check_hadamard, 0);
    CAUGHT(fp32_to_fp16_array, fp16_truncates, check_fp32_to_fp16, 0);
    CAUGHT(fp16_to_fp32_array, fp16_flushes, check_fp16_to_fp32, 0);
    return faults;
}

#endif
