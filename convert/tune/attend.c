/* Attention of whole sequences, forwards and backwards: a sequence and a key-value head at a time.
 * SPDX-License-Identifier: MIT
 *
 * With S = scale q k', P = softmax(S), o = P v: dP = do v', dS = P (dP - sum(P dP)) scale, and the
 * rest are products of these. */
#include "tune/attend.h"

#include <math.h>

/* One head of one sequence: n rows, of which q, o, dq, do are ldq apart, the others ldk. */
typedef struct attend_head {
    const tune_lanes *l;
    size_t n, dim, ldq, ldk, window;
    float  scale;
    const float *q, *k, *v, *d_out;
    float *out, *dq, *dk, *dv;
    float *p, *dp;              /* [n][n] */
    float *scratch;
} attend_head;

static tune_view head_rows(const float *p, size_t ld) { return (tune_view){ p, ld, 1 }; }
static tune_view head_turned(const float *p, size_t ld) { return (tune_view){ p, 1, ld }; }

static void head_softmax(float *s, size_t first, size_t last, size_t n, float scale)
{
    float top = -INFINITY;
    double sum = 0;
    for (size_t j = first; j <= last; j++) top = QSF_MAX(top, s[j] * scale);
    for (size_t j = 0; j < n; j++) {
        if (j < first || j > last) s[j] = 0;
        else sum += (double)(s[j] = expf(s[j] * scale - top));
    }
    for (size_t j = first; j <= last; j++) s[j] = (float)(s[j] / sum);
}

static void head_weights(const attend_head *h)
{
    qsf_tune_product_own(h->l, h->p, h->n, head_rows(h->q, h->ldq), head_turned(h->k, h->ldk), h->n, h->n,
                         h->dim, false, h->scratch);
    for (size_t i = 0; i < h->n; i++)
        head_softmax(h->p + i * h->n, h->window && i + 1 > h->window ? i + 1 - h->window : 0, i, h->n,
                     h->scale);
}

static void head_forward(const attend_head *h)
{
    head_weights(h);
    qsf_tune_product_own(h->l, h->out, h->ldq, head_rows(h->p, h->n), head_rows(h->v, h->ldk), h->n, h->dim,
                         h->n, false, h->scratch);
}

/* add: to dk and dv, of query heads that share them. */
static void head_back(const attend_head *h, bool add)
{
    const size_t n = h->n, dim = h->dim;
    head_weights(h);
    qsf_tune_product_own(h->l, h->dv, h->ldk, head_turned(h->p, n), head_rows(h->d_out, h->ldq), n, dim, n,
                         add, h->scratch);
    qsf_tune_product_own(h->l, h->dp, n, head_rows(h->d_out, h->ldq), head_turned(h->v, h->ldk), n, n, dim,
                         false, h->scratch);
    for (size_t i = 0; i < n; i++) {
        const float *p = h->p + i * n;
        float *dp = h->dp + i * n;
        double sum = 0;
        for (size_t j = 0; j <= i; j++) sum += (double)p[j] * (double)dp[j];
        for (size_t j = 0; j < n; j++) dp[j] = p[j] * (dp[j] - (float)sum) * h->scale;
    }
    qsf_tune_product_own(h->l, h->dq, h->ldq, head_rows(h->dp, n), head_rows(h->k, h->ldk), n, dim, n, false,
                         h->scratch);
    qsf_tune_product_own(h->l, h->dk, h->ldk, head_turned(h->dp, n), head_rows(h->q, h->ldq), n, dim, n, add,
                         h->scratch);
}

static void attend_items(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const tune_attention *a = arg;
    const qsf_layer *l = a->layer;
    const size_t share = l->n_heads / l->n_kv_heads, dim = l->head_dim;
    float *own = a->team->own + thread * a->team->cap_own;
    const size_t square = (size_t)a->batch->longest * a->batch->longest;
    for (size_t i = begin; i < end; i++) {
        const size_t kv = i % l->n_kv_heads, s = i / l->n_kv_heads, row = a->batch->first[s];
        attend_head h = { .l = a->team->lanes, .n = a->batch->first[s + 1] - row, .dim = dim,
                          .ldq = l->n_heads * dim, .ldk = l->n_kv_heads * dim, .window = l->window,
                          .scale = l->attn_scale, .p = own, .dp = own + square };
        const size_t at_k = row * h.ldk + kv * dim;
        h.scratch = h.dp + square;
        h.k = a->k + at_k;
        h.v = a->v + at_k;
        for (size_t j = 0; j < share; j++) {
            const size_t at = row * h.ldq + (kv * share + j) * dim;
            h.q = a->q + at;
            if (!a->datt) {
                h.out = a->att + at;
                head_forward(&h);
                continue;
            }
            h.d_out = a->datt + at;
            h.dq = a->dq + at;
            h.dk = a->dk + at_k;
            h.dv = a->dv + at_k;
            head_back(&h, j > 0);
        }
    }
}

void qsf_tune_attend(tune_attention *a)
{
    a->datt = NULL;
    qsf_tune_rows(a->team, (size_t)a->batch->n_seqs * a->layer->n_kv_heads, attend_items, a);
}

void qsf_tune_attend_back(tune_attention *a)
{
    qsf_tune_rows(a->team, (size_t)a->batch->n_seqs * a->layer->n_kv_heads, attend_items, a);
}
