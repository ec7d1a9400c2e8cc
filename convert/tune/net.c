/* A network's weights as floats, and the memory that it is run in.
 * SPDX-License-Identifier: MIT */
#include "tune/net.h"

#include <assert.h>

/* ---- which networks ---- */

static const char *net_lacks(const qsf_source *s)
{
    const qsf_hparams *hp = &s->hp;
    if (hp->learned_pos) return "learned positions";
    if (s->embd_clusters) return "an embedding in clusters";
    if (hp->final_softcap != 0 || hp->attn_softcap != 0) return "soft caps";
    if (hp->logit_scale != 0 && hp->logit_scale != 1) return "scaled logits";
    if (hp->residual_scale != 0 && hp->residual_scale != 1) return "scaled residuals";
    if (hp->qkv_clamp != 0 || hp->alibi != 0 || hp->temp_scale != 0) return "clamps or biases of positions";
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        const qsf_layer *l = &s->layers[i];
        if (l->mixer != QSF_MIXER_ATTENTION || l->flow != QSF_FLOW_SERIAL) return "another order of layer "
                                                                                  "parts";
        if (l->feed_forward != QSF_FEED_FORWARD_GATED || l->act > QSF_ACT_SILU) return "another feed-forward";
        if (l->norm.kind != QSF_NORM_RMS) return "norms other than RMS norms";
        if (l->qk_norm != QSF_QK_HEAD) return "another norm of queries and keys";
        if (l->v_norm) return "normed values";
    }
    return NULL;
}

static bool net_knows(uint32_t kind)
{
    switch (kind) {
    case QSF_K_ATTN_Q: case QSF_K_ATTN_K: case QSF_K_ATTN_V: case QSF_K_ATTN_OUT:
    case QSF_K_FFN_GATE: case QSF_K_FFN_UP: case QSF_K_FFN_DOWN:
    case QSF_K_ATTN_NORM: case QSF_K_FFN_NORM: case QSF_K_ATTN_POST_NORM: case QSF_K_FFN_POST_NORM:
    case QSF_K_ATTN_Q_BIAS: case QSF_K_ATTN_K_BIAS: case QSF_K_ATTN_V_BIAS:
    case QSF_K_ATTN_OUT_BIAS: case QSF_K_FFN_GATE_BIAS: case QSF_K_FFN_UP_BIAS: case QSF_K_FFN_DOWN_BIAS:
    case QSF_K_Q_NORM: case QSF_K_K_NORM: case QSF_K_TOKEN_EMBD: case QSF_K_OUTPUT_NORM: case QSF_K_OUTPUT:
    case QSF_K_OUTPUT_BIAS:
        return true;
    }
    return false;
}

qsf_status qsf_tune_can(const qsf_source *s, qsf_error *err)
{
    const char *lacks = net_lacks(s);
    if (lacks)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "effort 4 (--effort) cannot tune networks with %s; effort 3 "
                        "can", lacks);
    for (uint32_t i = 0; i < s->n_tensors; i++)
        if (!net_knows(s->tensors[i].kind))
            return qsf_fail(err, QSF_E_UNSUPPORTED, "effort 4 (--effort) cannot tune networks with tensors "
                            "of kind %u, or with separate outliers or scales; effort 3 can",
                            (unsigned)s->tensors[i].kind);
    return QSF_OK;
}

/* ---- weights ---- */

static qsf_status net_new(tune_net *n, const qsf_source *s, qsf_error *err)
{
    const qsf_platform *p = s->platform;
    *n = (tune_net){ .platform = p, .s = s, .n = s->n_tensors };
    n->tensors = qsf_alloc_array(p, n->n, sizeof *n->tensors, "a network", err);
    n->of = n->tensors ? qsf_alloc_array(p, (uint64_t)s->n_units * QSF_N_KINDS, sizeof *n->of, "a network",
                                         err) : NULL;
    if (!n->of) return QSF_E_MEMORY;
    for (uint32_t u = 0; u < s->n_units; u++)
        for (uint32_t j = 0; j < s->units[u].n_tensors; j++) {
            const uint32_t i = s->units[u].first_tensor + j;
            const qsf_tensor *t = &s->tensors[i];
            tune_tensor *to = &n->tensors[i];
            *to = (tune_tensor){ .unit = u, .kind = t->kind, .rows = t->rows, .cols = t->cols };
            n->of[(size_t)u * QSF_N_KINDS + t->kind] = to;
            const uint64_t weights = (uint64_t)t->rows * t->cols;
            if (!(to->w = qsf_alloc_array(p, weights, sizeof *to->w, "a network's weights", err)))
                return QSF_E_MEMORY;
        }
    return QSF_OK;
}

void qsf_tune_net_free(tune_net *n)
{
    const qsf_platform *p = n->platform;
    if (!p) return;
    for (uint32_t i = 0; n->tensors && i < n->n; i++)
        qsf_dealloc(p, n->tensors[i].w, (uint64_t)n->tensors[i].rows * n->tensors[i].cols * sizeof(float));
    qsf_dealloc(p, n->of, (uint64_t)n->s->n_units * QSF_N_KINDS * sizeof *n->of);
    qsf_dealloc(p, n->tensors, n->n * sizeof *n->tensors);
    *n = (tune_net){ 0 };
}

qsf_status qsf_tune_net_load(tune_net *n, const qsf_source *s, qsf_error *err)
{
    qsf_status st = net_new(n, s, err);
    for (uint32_t u = 0; !st && u < s->n_units; u++)
        for (uint32_t j = 0; !st && j < s->units[u].n_tensors; j++) {
            const uint32_t i = s->units[u].first_tensor + j;
            qsf_tensor t = s->tensors[i];
            void *data;
            if ((st = qsf_source_load(s, u, j, &data, err))) return st;
            t.data = data;
            qsf_dequant_rows(&t, 0, t.rows, n->tensors[i].w);
            qsf_dealloc(s->platform, data, t.bytes);
        }
    return st;
}

static const input_tensor *net_find(const input *in, const tune_tensor *t, uint32_t *i)
{
    for (*i = 0; *i < in->n_tensors; ++*i) {
        const input_tensor *it = &in->tensors[*i];
        if (it->unit == t->unit && it->kind == t->kind && it->rows == t->rows && it->cols == t->cols)
            return it;
    }
    return NULL;
}

qsf_status qsf_tune_net_read(tune_net *n, const qsf_source *s, input *in, qsf_error *err)
{
    qsf_status st = net_new(n, s, err);
    assert(in->hp.rope == s->hp.rope);          /* else rows of queries and keys are in another order */
    for (uint32_t j = 0; !st && j < n->n; j++) {
        uint32_t i;
        if (!net_find(in, &n->tensors[j], &i))
            return qsf_fail(err, QSF_E_UNSUPPORTED, "effort 4 (--effort): the input has no tensor of unit "
                            "%u, kind %u as the output has", (unsigned)n->tensors[j].unit,
                            (unsigned)n->tensors[j].kind);
        st = in->read(in, i, 0, n->tensors[j].rows, n->tensors[j].w, err);
    }
    return st;
}

tune_tensor *qsf_tune_head(const tune_net *n)
{
    tune_tensor *t = tune_of(n, qsf_unit_final(n->s), QSF_K_OUTPUT);
    return t ? t : tune_of(n, qsf_unit_embd(n->s), QSF_K_TOKEN_EMBD);
}

/* ---- memory of a run ---- */

typedef struct run_room { qsf_arena *arena; size_t rows; qsf_error *err; bool failed; } run_room;

static float *run_floats(run_room *k, size_t rows, size_t cols)
{
    float *p = k->failed ? NULL : qsf_arena_array(k->arena, (uint64_t)rows * cols, sizeof *p,
                                                  "a network's rows", k->err);
    k->failed |= !p;
    return p;
}

static void run_keep(run_room *k, tune_kept *to, const qsf_layer_most *m, size_t embd)
{
    *to = (tune_kept){
        .x = run_floats(k, k->rows, embd), .q = run_floats(k, k->rows, m->q),
        .k = run_floats(k, k->rows, m->kv), .v = run_floats(k, k->rows, m->kv),
        .att = run_floats(k, k->rows, m->q), .o = run_floats(k, k->rows, embd),
        .x1 = run_floats(k, k->rows, embd), .gate = run_floats(k, k->rows, m->n_ff),
        .up = run_floats(k, k->rows, m->n_ff), .f = run_floats(k, k->rows, embd),
    };
}

static void run_ropes(tune_run *r, const qsf_source *s)
{
    const size_t half = s->most.head_dim / 2;
    double freq[QSF_MAX_HEAD_DIM / 2];
    for (uint32_t i = 0; i < s->n_ropes; i++) {
        qsf_rope rope = { 0 };
        qsf_rope_init(&rope, &s->ropes[i], freq, r->longest, r->longest);
        for (uint32_t pos = 0; pos < r->longest; pos++) {
            const size_t at = (i * (size_t)r->longest + pos) * half;
            qsf_rope_angles(&rope, pos, r->cos + at, r->sin + at);
        }
    }
}

/* Scratch that only the way back needs. */
static void run_back(tune_run *r, run_room *k, const tune_net *n)
{
    const qsf_layer_most *m = &n->s->most;
    const size_t embd = n->s->hp.n_embd, rows = k->rows;
    size_t most = 0;
    for (uint32_t i = 0; i < n->n; i++) most = QSF_MAX(most, (size_t)n->tensors[i].rows * n->tensors[i].cols);
    r->d = run_floats(k, rows, embd);
    r->dn = run_floats(k, rows, embd);
    r->datt = run_floats(k, rows, m->q);
    r->dq = run_floats(k, rows, m->q);
    r->dk = run_floats(k, rows, m->kv);
    r->dv = run_floats(k, rows, m->kv);
    r->dh = run_floats(k, rows, m->n_ff);
    r->dg = run_floats(k, rows, m->n_ff);
    r->g = run_floats(k, 1, most);
    if (n->s->hp.tied) r->g_embd = run_floats(k, n->s->hp.n_vocab, embd);
}

qsf_status qsf_tune_run_new(tune_run *r, const tune_net *n, tune_team *t, uint32_t most, uint32_t longest,
                            bool backward, qsf_error *err)
{
    const qsf_source *s = n->s;
    const qsf_layer_most *m = &s->most;
    const size_t embd = s->hp.n_embd, angles = (size_t)s->n_ropes * longest * (m->head_dim / 2);
    *r = (tune_run){ .team = t, .most = most, .longest = longest };
    r->ld_vocab = qsf_round_up(s->hp.n_vocab, TUNE_ROWS);
    const qsf_status st = qsf_arena_new(s->platform, &r->arena, err);
    if (st) return st;
    run_room k = { .arena = r->arena, .rows = most, .err = err };
    if (!(r->kept = qsf_arena_array(r->arena, s->hp.n_layers, sizeof *r->kept, "a network's rows", err)))
        return QSF_E_MEMORY;
    for (uint32_t i = 0; i < s->hp.n_layers; i++) {
        if (backward || !i) run_keep(&k, &r->kept[i], m, embd);
        else r->kept[i] = r->kept[0];
    }
    r->last = run_floats(&k, most, embd);
    r->hidden = run_floats(&k, most, embd);
    r->xn = run_floats(&k, most, embd);
    r->h = run_floats(&k, most, m->n_ff);
    r->qr = run_floats(&k, most, m->q);
    r->kr = run_floats(&k, most, m->kv);
    r->logits = run_floats(&k, TUNE_LOGITS, r->ld_vocab);
    r->wanted = run_floats(&k, TUNE_LOGITS, r->ld_vocab);
    r->inverse = run_floats(&k, most, QSF_MAX(1, m->n_heads));
    r->cos = run_floats(&k, 1, angles + 1);
    r->sin = run_floats(&k, 1, angles + 1);
    if (backward) run_back(r, &k, n);
    r->kl = k.failed ? NULL : qsf_arena_array(r->arena, most, sizeof *r->kl, "a network's rows", err);
    r->pos = r->kl ? qsf_arena_array(r->arena, most, sizeof *r->pos, "a network's rows", err) : NULL;
    if (!r->pos) return QSF_E_MEMORY;
    run_ropes(r, s);
    return QSF_OK;
}

void qsf_tune_run_done(tune_run *r)
{
    if (r->arena) qsf_arena_free(r->arena);
    *r = (tune_run){ 0 };
}

size_t qsf_tune_own(const tune_net *n, uint32_t longest)
{
    const size_t l = longest, hd = n->s->most.head_dim;
    return 3 * l * l + qsf_tune_scratch(QSF_MAX(l, hd), QSF_MAX(l, hd), QSF_MAX(l, hd));
}
