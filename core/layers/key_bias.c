/* Biases of keys, which may be far larger than what tokens add to them (Qwen 2): codes should not
 * be spent on them.
 * SPDX-License-Identifier: MIT
 *
 * With 8 bits, the part that the rotation leaves in place is subtracted.  With fewer, keys are
 * stored without their bias b, and its contribution to the score of position p is computed: for
 * each rotated pair (x, y) of the query and (u, w) of b, at an angle of a = p * frequency,
 *   cos(a) * (x u + y w) + sin(a) * (y u - x w).
 * These factors of cosine and sine, rotated back by the angle of a block's first position, are
 * multiplied by the cosines and sines of the positions in a block, which are the same for all
 * blocks, layers and heads. */
#include "layers/key_bias.h"
#include "layers/kv.h"

/* A vector that is the same for all positions changes no softmax. */
void qsf_bias_still(float *x, const float *bias, size_t n, const qsf_rope *r)
{
    const size_t half = r ? r->half : 0;
    if (!r) {
        for (size_t i = 0; i < n; i++) x[i] -= bias[i];
    } else if (r->pairs) {
        for (size_t i = 2 * r->slow; i < 2 * half; i++) x[i] -= r->mscale * bias[i];
    } else {
        for (size_t i = r->slow; i < half; i++) {
            x[i] -= r->mscale * bias[i];
            x[half + i] -= r->mscale * bias[half + i];
        }
    }
}

/* ---- keys without their bias ---- */

bool qsf_bias_apart(const qsf_source *s, qsf_kv_type type)
{
    qsf_kv_layout l;
    qsf_kv_layout_init(&l, type, s->hp.n_layers, s->most.n_kv_heads, s->most.head_dim);
    return qsf_kv_packed(l.k_bits) && s->n_ropes == 1;
}

/* The angles by which the factors of a block are rotated back. */
static void bias_back(const qsf_rope *r, uint32_t place, float *cos_out, float *sin_out)
{
    qsf_rope_angles(r, place * QSF_KV_BLOCK, cos_out, sin_out);
    for (uint32_t i = 0; i < r->half; i++) sin_out[i] = -sin_out[i];
}

void qsf_bias_init(qsf_key_bias *t, const qsf_rope *rope, const qsf_kernels *k, uint32_t n_ctx)
{
    t->rope = rope;
    t->k = k;
    t->n_places = (uint32_t)qsf_ceil_div(n_ctx, QSF_KV_BLOCK);
    if (!t->steps) return;
    const size_t half = rope->half;
    qsf_rope unit = *rope;
    for (uint32_t place = 0; place < t->n_places; place++) {
        float *back = t->back + place * 2 * half;
        bias_back(&unit, place, back, back + half);
    }
    unit.mscale = 1;
    for (uint32_t i = 0; i < QSF_KV_BLOCK; i++) {
        float step[QSF_MAX_HEAD_DIM];
        qsf_rope_angles(&unit, i, step, step + half);
        k->fp32_to_fp16_array(t->steps + i * 2 * half, step, 2 * half);
    }
}

void qsf_bias_factors(const qsf_key_bias *t, float *factors, float *q, size_t vectors, size_t head_dim,
                      const float *bias, float scale)
{
    const bool pairs = t->rope->pairs;
    const size_t half = t->rope->half, step = pairs ? 2 : 1, apart = pairs ? 1 : half;
    for (size_t v = 0; v < vectors; v++, q += head_dim, factors += 2 * half) {
        t->k->hadamard_inplace(q, head_dim, 1);     /* back from the mixture that codes are multiplied with */
        for (size_t i = 0; i < half; i++) {
            const float x = scale * q[step * i], y = scale * q[step * i + apart];
            const float u = bias[step * i], w = bias[step * i + apart];
            factors[i] = x * u + y * w;
            factors[half + i] = y * u - x * w;
        }
    }
}

void qsf_bias_scores(const qsf_key_bias *t, float *s, const float *factors, float *turned, float *work,
                     size_t vectors, uint32_t place, size_t n)
{
    const size_t half = t->rope->half;
    float *back = t->back + place * 2 * half, *more = work;
    if (place >= t->n_places) {         /* positions beyond the table: the window has slid */
        back = work + vectors * QSF_KV_BLOCK;
        bias_back(t->rope, place, back, back + half);
    }
    memcpy(turned, factors, vectors * 2 * half * sizeof *turned);
    t->k->rope_apply(turned, vectors, 2 * half, half, back, back + half, false);
    t->k->attention_scores_f16(more, QSF_KV_BLOCK, turned, t->steps, n, 2 * half, vectors, 1);
    for (size_t v = 0; v < vectors; v++, s += QSF_KV_BLOCK, more += QSF_KV_BLOCK)
        t->k->vec_add(s, s, more, n);
}
