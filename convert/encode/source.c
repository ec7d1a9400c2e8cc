/* Turns a calibration into factors for the encoders.  Matrices that read the same input are
 * consecutive in a model: the last factor is kept for the next of them.
 * SPDX-License-Identifier: MIT */
#include "encode/source.h"

#include "encode/encode.h"

/* Recipes that experiments have found (docs/quantisers.md): how much is added to the diagonal.  A
 * head that is the embedding, too, must also be near its own weights, whatever the head reads. */
#define SOURCE_DAMPING      0.01
#define SOURCE_TIED         0.1
#define SOURCE_TIED_DAMPING 1e-4

/* The first of the kinds that read the same input. */
static uint32_t source_input(const input *in, uint32_t kind)
{
    if (kind == QSF_K_ATTN_K || kind == QSF_K_ATTN_V) return QSF_K_ATTN_Q;
    if (kind == QSF_K_FFN_UP && in->hp.gated) return QSF_K_FFN_GATE;
    if (kind == QSF_K_EXPERT_UP && in->hp.gated) return QSF_K_EXPERT_GATE;
    return kind == QSF_K_TOKEN_EMBD ? QSF_K_OUTPUT : kind;
}

static void source_forget(encode_source *s)
{
    qsf_enc_factor_free(s->in->platform, s->last);
    s->last = NULL;
}

/* From h and first, which the caller has allocated. */
static qsf_status source_make(encode_source *s, const input_tensor *t, const convert_tensor *c, float *h,
                              float *first, qsf_error *err)
{
    const bool head = source_input(s->in, t->kind) == QSF_K_OUTPUT, tied = t->kind == QSF_K_TOKEN_EMBD;
    const size_t cols = t->cols;
    uint64_t tokens = 0;
    bool diagonal = false;
    qsf_error why;
    qsf_status st = s->hessians->read(s->hessians->user, t->unit, t->kind + (s->expert << 16), t->cols, h,
                                      first, &tokens, &diagonal, err);
    if (st || !tokens) return st;
    if (diagonal || s->o->effort == 1) {
        for (size_t i = 0; i < cols; i++) h[i] = h[i * cols + i];
        diagonal = true;
    }
    const encode_inputs inputs = { .cols = t->cols,
                                   .diagonal = diagonal,
                                   .h = h,
                                   .first = head ? NULL : first,
                                   .col_scale = c->col_scale,
                                   .identity = tied ? SOURCE_TIED : 0,
                                   .damping = tied ? SOURCE_TIED_DAMPING : SOURCE_DAMPING,
                                   .steps = s->steps };
    st = qsf_enc_factor_new(s->in->platform, s->o, &inputs, &s->last, &why);
    return st ? qsf_fail(err, st, "tensor %s: %s", t->name, why.text) : QSF_OK;
}

static qsf_status source_read(encode_source *s, const input_tensor *t, const convert_tensor *c,
                              qsf_error *err)
{
    const qsf_platform *p = s->in->platform;
    const uint64_t n = (uint64_t)t->cols * t->cols;
    float *h = qsf_alloc_array(p, n, sizeof *h, "a matrix of inputs", err);
    float *first = h ? qsf_alloc_array(p, t->cols, sizeof *first, "a first position", err) : NULL;
    const qsf_status st = first ? source_make(s, t, c, h, first, err) : QSF_E_MEMORY;
    qsf_dealloc(p, h, n * sizeof *h);
    qsf_dealloc(p, first, (uint64_t)t->cols * sizeof *first);
    s->measured = s->last != NULL;
    return st;
}

/* An embedding that is not also the head is looked up, not multiplied. */
static bool source_knows(const encode_source *s, const input_tensor *t)
{
    return s->hessians && s->o->effort > 0 && (t->kind != QSF_K_TOKEN_EMBD || s->in->hp.tied);
}

qsf_status qsf_enc_factor_of(encode_source *s, uint32_t i, const convert_tensor *c,
                             const encode_factor **out, bool *measured, qsf_error *err)
{
    const input_tensor *t = &s->in->tensors[i];
    const bool steps = qsf_enc_steps(c->type), asks = source_knows(s, t);
    const uint32_t what = source_input(s->in, t->kind) + (s->expert << 16);
    qsf_status st = QSF_OK;
    *out = NULL;
    *measured = false;
    if (!qsf_enc_can(c->type) || c->scale != 0 || c->clusters || (!steps && !asks)) return QSF_OK;
    const bool same = s->last && s->unit == t->unit && s->input == what && s->steps == steps &&
                      s->col_scale == c->col_scale && s->last->cols >= t->cols &&
                      s->last->cols - t->cols < ENCODE_GROUP;
    if (!same) {
        source_forget(s);
        s->unit = t->unit;
        s->input = what;
        s->steps = steps;
        s->col_scale = c->col_scale;
        s->measured = false;
        if (asks) st = source_read(s, t, c, err);
        if (!st && !s->last && steps)
            st = qsf_enc_factor_none(s->in->platform, t->cols, steps, &s->last, err);
    }
    if (st) return st;
    *out = s->last;
    *measured = s->measured;
    return QSF_OK;
}

uint32_t qsf_enc_parts(const encode_source *s, const input_tensor *t, const convert_tensor *c)
{
    const uint32_t n = qsf_kind_is_experts(t->kind) && s->hessians ? s->in->hp.n_experts : 1;
    return t->rows / n % QSF_TILE_ROWS || c->keeps_outliers ? 1 : n;
}

void qsf_enc_source_done(encode_source *s) { source_forget(s); }

#undef SOURCE_DAMPING
#undef SOURCE_TIED
#undef SOURCE_TIED_DAMPING
