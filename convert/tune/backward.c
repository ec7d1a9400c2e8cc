/* The divergence of a network's predictions from another's, and its gradients: the backward pass.
 * SPDX-License-Identifier: MIT
 *
 * A tensor's gradient is passed to the sink once it is complete and no later step needs the
 * tensor: the sink may change the tensor at once, and only one gradient is in memory at a time. */
#include "tune/backward.h"

#include "tune/attend.h"
#include "tune/forward.h"

/* ---- parts ---- */

static void back_vector(const tune_part *p, const tune_sink *sink, uint32_t kind)
{
    const tune_tensor *t = tune_of(p->n, p->unit, kind);
    if (t && !t->frozen) sink->take(sink->user, t, p->r->g, NULL, 0);
}

/* Back through y = x W' + b: dx, unless NULL, and the gradients for the sink. */
static void back_matrix(const tune_part *p, const tune_sink *sink, uint32_t kind, float *dx, bool add,
                        const float *dy, const float *x)
{
    const tune_tensor *t = tune_of(p->n, p->unit, kind), *bias = qsf_tune_bias(p, kind);
    tune_team *team = p->r->team;
    if (bias && !bias->frozen) {
        qsf_tune_sum_rows(team, p->r->g, dy, p->rows, t->rows);
        sink->take(sink->user, bias, p->r->g, NULL, 0);
    }
    if (dx)
        qsf_tune_product(team, dx, t->cols, (tune_view){ dy, t->rows, 1 }, (tune_view){ t->w, t->cols, 1 },
                         p->rows, t->cols, t->rows, add);
    if (t->frozen) return;
    qsf_tune_product(team, p->r->g, t->cols, (tune_view){ dy, 1, t->rows }, (tune_view){ x, t->cols, 1 },
                     t->rows, t->cols, p->rows, false);
    sink->take(sink->user, t, p->r->g, x, p->rows);
}

/* Through a norm of whole rows, by the vector `kind`. */
static void back_norm(const tune_part *p, const tune_sink *sink, uint32_t kind, float *dx, const float *dy,
                      const float *x, bool add)
{
    const tune_tensor *t = tune_of(p->n, p->unit, kind);
    qsf_tune_norm_back(p->r->team, dx, dy, x, t->w, p->l->norm.eps, p->rows, p->embd, add, p->r->g,
                       p->r->inverse);
    back_vector(p, sink, kind);
}

/* Through rotation and norm of heads: d becomes the projection's. */
static void back_heads(const tune_part *p, const tune_sink *sink, float *d, const float *x, uint32_t heads,
                       uint32_t norm)
{
    const float *gain = tune_vector(p->n, p->unit, norm);
    qsf_tune_rotate(p, d, heads, true);
    if (!gain) return;
    qsf_tune_norm_back(p->r->team, d, d, x, gain, p->l->norm.eps, p->rows * heads, p->l->head_dim, false,
                       p->r->g, p->r->inverse);
    back_vector(p, sink, norm);
}

/* What a part has made, from the layer's gradient: that itself, or through a norm. */
static const float *back_join(const tune_part *p, const tune_sink *sink, uint32_t norm, const float *y)
{
    if (!tune_of(p->n, p->unit, norm)) return p->r->d;
    back_norm(p, sink, norm, p->r->dn, p->r->d, y, false);
    return p->r->dn;
}

static void back_feed(const tune_part *p, const tune_sink *sink)
{
    tune_run *r = p->r;
    const tune_kept *k = p->kept;
    const size_t n = p->rows * p->l->n_ff;
    const float *d = back_join(p, sink, QSF_K_FFN_POST_NORM, k->f);
    qsf_tune_gate(r->team, r->h, k->gate, k->up, p->l->act, n);
    back_matrix(p, sink, QSF_K_FFN_DOWN, r->dh, false, d, r->h);
    qsf_tune_gate_back(r->team, r->dg, r->dh, r->dh, k->gate, k->up, p->l->act, n);
    qsf_tune_norm(r->team, r->xn, k->x1, tune_vector(p->n, p->unit, QSF_K_FFN_NORM), p->l->norm.eps, p->rows,
                  p->embd);
    back_matrix(p, sink, QSF_K_FFN_GATE, r->dn, false, r->dg, r->xn);
    back_matrix(p, sink, QSF_K_FFN_UP, r->dn, true, r->dh, r->xn);
    back_norm(p, sink, QSF_K_FFN_NORM, r->d, r->dn, k->x1, true);
}

static void back_attention(const tune_part *p, const tune_sink *sink)
{
    tune_run *r = p->r;
    const tune_kept *k = p->kept;
    const qsf_layer *l = p->l;
    const float *d = back_join(p, sink, QSF_K_ATTN_POST_NORM, k->o);
    tune_attention a = { .team = r->team, .batch = p->b, .layer = l, .q = r->qr, .k = r->kr, .v = k->v,
                         .datt = r->datt, .dq = r->dq, .dk = r->dk, .dv = r->dv };
    back_matrix(p, sink, QSF_K_ATTN_OUT, r->datt, false, d, k->att);
    qsf_tune_place(p);
    qsf_tune_attend_back(&a);
    back_heads(p, sink, r->dq, k->q, l->n_heads, QSF_K_Q_NORM);
    back_heads(p, sink, r->dk, k->k, l->n_kv_heads, QSF_K_K_NORM);
    qsf_tune_norm(r->team, r->xn, k->x, tune_vector(p->n, p->unit, QSF_K_ATTN_NORM), l->norm.eps, p->rows,
                  p->embd);
    back_matrix(p, sink, QSF_K_ATTN_Q, r->dn, false, r->dq, r->xn);
    back_matrix(p, sink, QSF_K_ATTN_K, r->dn, true, r->dk, r->xn);
    back_matrix(p, sink, QSF_K_ATTN_V, r->dn, true, r->dv, r->xn);
    back_norm(p, sink, QSF_K_ATTN_NORM, r->d, r->dn, k->x, true);
}

/* ---- the head ---- */

typedef struct head_job {
    tune_run *r;
    size_t    first, n_vocab;
    float     by;
} head_job;

static void head_rows(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const head_job *k = arg;
    const size_t ld = k->r->ld_vocab;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *x = k->r->logits + i * ld, *t = k->r->wanted + i * ld;
        for (size_t j = k->n_vocab; j < ld; j++) x[j] = t[j] = -1e30f;
        k->r->kl[k->first + i] = k->r->team->lanes->divergence(x, t, ld, k->by);
    }
}

static void head_logits(tune_run *r, const tune_net *n, float *to, const float *x, size_t rows)
{
    const tune_tensor *head = qsf_tune_head(n);
    const float *bias = tune_vector(n, qsf_unit_final(n->s), QSF_K_OUTPUT_BIAS);
    qsf_tune_product(r->team, to, r->ld_vocab, (tune_view){ x, head->cols, 1 },
                     (tune_view){ head->w, 1, head->cols }, rows, head->rows, head->cols, false);
    for (size_t i = 0; bias && i < rows; i++)
        for (size_t j = 0; j < head->rows; j++) to[i * r->ld_vocab + j] += bias[j];
}

/* Some rows at a time; the gradient of the final norm's result goes to dn, that of the matrix is
 * added up in g. */
static double head_run(tune_run *r, const tune_net *n, const tune_net *teacher, const float *hidden,
                       size_t rows, float *g)
{
    const tune_tensor *head = qsf_tune_head(n);
    const size_t embd = head->cols, ld = r->ld_vocab;
    head_job k = { .r = r, .n_vocab = head->rows, .by = 1.0f / (float)rows };
    double kl = 0;
    for (; k.first < rows; k.first += TUNE_LOGITS) {
        const size_t some = QSF_MIN(TUNE_LOGITS, rows - k.first);
        const float *x = r->hidden + k.first * embd;
        head_logits(r, n, r->logits, x, some);
        head_logits(r, teacher, r->wanted, hidden + k.first * embd, some);
        qsf_tune_rows(r->team, some, head_rows, &k);
        if (g)
            qsf_tune_product(r->team, r->dn + k.first * embd, embd, (tune_view){ r->logits, ld, 1 },
                             (tune_view){ head->w, embd, 1 }, some, embd, head->rows, false);
        if (g && !head->frozen)
            qsf_tune_product(r->team, g, embd, (tune_view){ r->logits, 1, ld }, (tune_view){ x, embd, 1 },
                             head->rows, embd, some, k.first > 0);
    }
    for (size_t i = 0; i < rows; i++) kl += r->kl[i];
    return kl / (double)rows;
}

/* ---- the embedding ---- */

static void back_embedding(tune_run *r, const tune_net *n, const tune_batch *b, const tune_sink *sink)
{
    const tune_tensor *t = tune_of(n, qsf_unit_embd(n->s), QSF_K_TOKEN_EMBD);
    const size_t embd = t->cols;
    const bool tied = n->s->hp.tied;
    float *g = tied ? r->g_embd : r->g;
    if (t->frozen) return;
    if (!tied) memset(g, 0, (size_t)t->rows * embd * sizeof *g);
    for (size_t i = 0; i < b->n_rows; i++)
        for (size_t c = 0; c < embd; c++)
            g[(size_t)b->ids[i] * embd + c] += r->d[i * embd + c] * n->s->hp.embd_scale;
    sink->take(sink->user, t, g, tied ? r->hidden : NULL, tied ? b->n_rows : 0);
}

double qsf_tune_divergence(tune_run *r, const tune_net *n, const tune_net *teacher, const float *hidden,
                           const tune_batch *b, const tune_sink *sink)
{
    const qsf_source *s = n->s;
    const uint32_t final = qsf_unit_final(s);
    const bool tied = s->hp.tied;
    const double kl = head_run(r, n, teacher, hidden, b->n_rows, !sink ? NULL : tied ? r->g_embd : r->g);
    if (!sink) return kl;
    const tune_tensor *norm = tune_of(n, final, QSF_K_OUTPUT_NORM), *head = qsf_tune_head(n);
    if (!tied && !head->frozen) sink->take(sink->user, head, r->g, r->hidden, b->n_rows);
    qsf_tune_norm_back(r->team, r->d, r->dn, r->last, norm->w, qsf_norm_of(&s->hp).eps, b->n_rows,
                       s->hp.n_embd, false, r->g, r->inverse);
    if (!norm->frozen) sink->take(sink->user, norm, r->g, NULL, 0);
    for (uint32_t i = s->hp.n_layers; i-- > 0;) {
        const tune_part p = qsf_tune_part(r, n, b, i);
        back_feed(&p, sink);
        back_attention(&p, sink);
    }
    back_embedding(r, n, b, sink);
    return kl;
}
