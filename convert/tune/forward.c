/* A network's way forwards, in floats, keeping what the way back needs.
 * SPDX-License-Identifier: MIT */
#include "tune/forward.h"

#include "tune/attend.h"

tune_part qsf_tune_part(tune_run *r, const tune_net *n, const tune_batch *b, uint32_t unit)
{
    return (tune_part){ .r = r, .n = n, .b = b, .l = &n->s->layers[unit], .kept = &r->kept[unit],
                        .unit = unit, .rows = b->n_rows, .embd = n->s->hp.n_embd };
}

tune_tensor *qsf_tune_bias(const tune_part *p, uint32_t kind)
{
    switch (kind) {
    case QSF_K_ATTN_Q: return tune_of(p->n, p->unit, QSF_K_ATTN_Q_BIAS);
    case QSF_K_ATTN_K: return tune_of(p->n, p->unit, QSF_K_ATTN_K_BIAS);
    case QSF_K_ATTN_V: return tune_of(p->n, p->unit, QSF_K_ATTN_V_BIAS);
    case QSF_K_ATTN_OUT: return tune_of(p->n, p->unit, QSF_K_ATTN_OUT_BIAS);
    case QSF_K_FFN_GATE: return tune_of(p->n, p->unit, QSF_K_FFN_GATE_BIAS);
    case QSF_K_FFN_UP: return tune_of(p->n, p->unit, QSF_K_FFN_UP_BIAS);
    case QSF_K_FFN_DOWN: return tune_of(p->n, p->unit, QSF_K_FFN_DOWN_BIAS);
    }
    return NULL;
}

void qsf_tune_times(const tune_part *p, uint32_t kind, float *y, const float *x)
{
    const tune_tensor *t = tune_of(p->n, p->unit, kind), *bias = qsf_tune_bias(p, kind);
    qsf_tune_product(p->r->team, y, t->rows, (tune_view){ x, t->cols, 1 }, (tune_view){ t->w, 1, t->cols },
                     p->rows, t->rows, t->cols, false);
    if (bias) qsf_tune_add_bias(p->r->team, y, bias->w, p->rows, t->rows);
}

static void forward_norm(const tune_part *p, float *y, const float *x, uint32_t kind)
{
    qsf_tune_norm(p->r->team, y, x, tune_vector(p->n, p->unit, kind), p->l->norm.eps, p->rows, p->embd);
}

void qsf_tune_rotate(const tune_part *p, float *x, uint32_t heads, bool back)
{
    const qsf_source *s = p->n->s;
    if (p->l->rope == QSF_NO_ROPE) return;
    const qsf_rope_record *rope = &s->ropes[p->l->rope];
    const size_t stride = s->most.head_dim / 2, at = p->l->rope * (size_t)p->r->longest * stride;
    const tune_turn k = { .x = x, .heads = heads, .dim = p->l->head_dim, .half = qsf_rope_half(rope),
                          .pairs = rope->kind == QSF_ROPE_PAIRS, .back = back, .cos = p->r->cos + at,
                          .sin = p->r->sin + at, .stride = stride, .pos = p->r->pos };
    qsf_tune_turn(p->r->team, &k, p->rows);
}

static void forward_heads(const tune_part *p, float *y, const float *x, uint32_t norm, uint32_t heads)
{
    const float *gain = tune_vector(p->n, p->unit, norm);
    const size_t dim = p->l->head_dim;
    if (gain) qsf_tune_norm(p->r->team, y, x, gain, p->l->norm.eps, p->rows * heads, dim);
    else memcpy(y, x, p->rows * heads * dim * sizeof *y);
    qsf_tune_rotate(p, y, heads, false);
}

void qsf_tune_place(const tune_part *p)
{
    forward_heads(p, p->r->qr, p->kept->q, QSF_K_Q_NORM, p->l->n_heads);
    forward_heads(p, p->r->kr, p->kept->k, QSF_K_K_NORM, p->l->n_kv_heads);
}

/* to = x + y, with y normalised if the model has the norm. */
static void forward_join(const tune_part *p, float *to, const float *x, const float *y, uint32_t norm)
{
    const float *gain = tune_vector(p->n, p->unit, norm);
    memcpy(to, x, p->rows * p->embd * sizeof *to);
    if (gain) qsf_tune_norm(p->r->team, p->r->xn, y, gain, p->l->norm.eps, p->rows, p->embd);
    qsf_tune_add(p->r->team, to, gain ? p->r->xn : y, p->rows * p->embd);
}

static void forward_attention(const tune_part *p)
{
    tune_kept *k = p->kept;
    tune_attention a = { .team = p->r->team, .batch = p->b, .layer = p->l, .q = p->r->qr, .k = p->r->kr,
                         .v = k->v, .att = k->att };
    forward_norm(p, p->r->xn, k->x, QSF_K_ATTN_NORM);
    qsf_tune_times(p, QSF_K_ATTN_Q, k->q, p->r->xn);
    qsf_tune_times(p, QSF_K_ATTN_K, k->k, p->r->xn);
    qsf_tune_times(p, QSF_K_ATTN_V, k->v, p->r->xn);
    qsf_tune_place(p);
    qsf_tune_attend(&a);
    qsf_tune_times(p, QSF_K_ATTN_OUT, k->o, k->att);
    forward_join(p, k->x1, k->x, k->o, QSF_K_ATTN_POST_NORM);
}

static void forward_feed(const tune_part *p, float *out)
{
    tune_kept *k = p->kept;
    forward_norm(p, p->r->xn, k->x1, QSF_K_FFN_NORM);
    qsf_tune_times(p, QSF_K_FFN_GATE, k->gate, p->r->xn);
    qsf_tune_times(p, QSF_K_FFN_UP, k->up, p->r->xn);
    qsf_tune_gate(p->r->team, p->r->h, k->gate, k->up, p->l->act, p->rows * p->l->n_ff);
    qsf_tune_times(p, QSF_K_FFN_DOWN, k->f, p->r->h);
    forward_join(p, out, k->x1, k->f, QSF_K_FFN_POST_NORM);
}

static void forward_embed(tune_run *r, const tune_net *n, const tune_batch *b, float *x)
{
    const float *table = tune_vector(n, qsf_unit_embd(n->s), QSF_K_TOKEN_EMBD);
    const size_t embd = n->s->hp.n_embd;
    for (uint32_t s = 0; s < b->n_seqs; s++)
        for (uint32_t i = b->first[s]; i < b->first[s + 1]; i++) r->pos[i] = i - b->first[s];
    for (size_t i = 0; i < b->n_rows; i++)
        for (size_t c = 0; c < embd; c++)
            x[i * embd + c] = table[(size_t)b->ids[i] * embd + c] * n->s->hp.embd_scale;
}

void qsf_tune_forward(tune_run *r, const tune_net *n, const tune_batch *b)
{
    const qsf_source *s = n->s;
    const uint32_t n_layers = s->hp.n_layers;
    const size_t embd = s->hp.n_embd;
    forward_embed(r, n, b, r->kept[0].x);
    for (uint32_t i = 0; i < n_layers; i++) {
        const tune_part p = qsf_tune_part(r, n, b, i);
        forward_attention(&p);
        forward_feed(&p, i + 1 < n_layers ? r->kept[i + 1].x : r->last);
    }
    qsf_tune_norm(r->team, r->hidden, r->last, tune_vector(n, qsf_unit_final(s), QSF_K_OUTPUT_NORM),
                  qsf_norm_of(&s->hp).eps, b->n_rows, embd);
}
