/* Biases of keys, which may be far larger than what tokens add to them (Qwen 2): codes are not to be spent on them.
 * SPDX-License-Identifier: MIT
 *
 * With 8 bits the part that the rotation leaves in place is taken off.  With fewer, keys are stored without their bias b, and what it adds to the score of
 * position p is computed: for each rotated pair (x, y) of the query and (u, w) of b, at an angle of a = p * frequency,
 *   cos(a) * (x u + y w) + sin(a) * (y u - x w).
 * These factors of cosine and sine, turned back by the angle of a block's first position, are multiplied with the cosines and sines of the positions in a
 * block, which are the same for all blocks, layers and heads. */
#include "engine/context.h"

/* A vector that is the same for all positions changes no softmax. */
void qsf_bias_still(const qsf_context *c, float *x, const float *bias, const qsf_rope *r)
{
    const size_t half = r->half;
    if (c->hp->rope == QSF_ROPE_NONE) {
        for (size_t i = 0; i < c->hp->head_dim; i++) x[i] -= bias[i];
    } else if (c->hp->rope == QSF_ROPE_PAIRS) {
        for (size_t i = 2 * r->slow; i < 2 * half; i++) x[i] -= r->mscale * bias[i];
    } else {
        for (size_t i = r->slow; i < half; i++) {
            x[i] -= r->mscale * bias[i];
            x[half + i] -= r->mscale * bias[half + i];
        }
    }
}

/* ---- keys without their bias ---- */

bool qsf_bias_apart(const qsf_hparams *hp, qsf_kv_type type)
{
    qsf_kv_layout l;
    qsf_kv_layout_init(&l, type, hp->n_layers, hp->n_kv_heads, hp->head_dim);
    return qsf_kv_packed(l.k_bits) && hp->rope != QSF_ROPE_NONE && !(hp->rope_base_local > 0);
}

const float *qsf_bias_of(const qsf_context *c, uint32_t kv)
{
    const float *bias = c->b.bias_steps && !c->w->v[QSF_K_K_NORM] ? c->w->v[QSF_K_ATTN_K_BIAS] : NULL;
    return bias ? bias + (size_t)kv * c->hp->head_dim : NULL;
}

/* The angles by which the factors of a block are turned back. */
static void bias_back(const qsf_rope *r, uint32_t place, float *cos_out, float *sin_out)
{
    qsf_rope_angles(r, place * QSF_KV_BLOCK, cos_out, sin_out);
    for (uint32_t i = 0; i < r->half; i++) sin_out[i] = -sin_out[i];
}

void qsf_bias_init(qsf_context *c)
{
    const size_t half = c->rope[0].half;
    qsf_rope unit = c->rope[0];
    if (!c->b.bias_steps) return;
    for (uint32_t place = 0; place < qsf_ceil_div(c->o.n_ctx, QSF_KV_BLOCK); place++) {
        float *back = c->b.bias_back + place * 2 * half;
        bias_back(&unit, place, back, back + half);
    }
    unit.mscale = 1;
    for (uint32_t i = 0; i < QSF_KV_BLOCK; i++) {
        float step[QSF_MAX_HEAD_DIM];
        qsf_rope_angles(&unit, i, step, step + half);
        c->k.fp32_to_fp16_array(c->b.bias_steps + i * 2 * half, step, 2 * half);
    }
}

void qsf_bias_factors(const qsf_context *c, float *factors, float *q, size_t vectors, const float *bias, float scale)
{
    const size_t hd = c->hp->head_dim, half = c->rope[0].half;
    const bool pairs = c->hp->rope == QSF_ROPE_PAIRS;
    const size_t step = pairs ? 2 : 1, apart = pairs ? 1 : half;
    for (size_t v = 0; v < vectors; v++, q += hd, factors += 2 * half) {
        c->k.hadamard_inplace(q, hd, 1);        /* back from the mixture that codes are multiplied with */
        for (size_t i = 0; i < half; i++) {
            const float x = scale * q[step * i], y = scale * q[step * i + apart], u = bias[step * i], w = bias[step * i + apart];
            factors[i] = x * u + y * w;
            factors[half + i] = y * u - x * w;
        }
    }
}

void qsf_bias_scores(const qsf_context *c, float *s, const float *factors, float *turned, float *work, size_t vectors, uint32_t place, size_t n)
{
    const size_t half = c->rope[0].half;
    float *back = c->b.bias_back + place * 2 * half, *more = work;
    if (place >= qsf_ceil_div(c->o.n_ctx, QSF_KV_BLOCK)) {       /* a text that has left its window behind */
        back = work + vectors * QSF_KV_BLOCK;
        bias_back(&c->rope[0], place, back, back + half);
    }
    memcpy(turned, factors, vectors * 2 * half * sizeof *turned);
    c->k.rope_apply(turned, vectors, 2 * half, half, back, back + half, false);
    c->k.attention_scores_f16(more, QSF_KV_BLOCK, turned, c->b.bias_steps, n, 2 * half, vectors, 1);
    for (size_t v = 0; v < vectors; v++, s += QSF_KV_BLOCK, more += QSF_KV_BLOCK) c->k.vec_add(s, s, more, n);
}
