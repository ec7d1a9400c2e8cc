/* The size of each column of the hidden state before the head, measured on text that the model
 * itself generates.
 * SPDX-License-Identifier: MIT
 *
 * Several sequences of random text by the model are close enough to its later use, and do not need
 * a file. */
#include "plan/activations.h"

#include "engine/context.h"
#include "plan/caller.h"

/* the first positions of a sequence differ from all others */
enum { ACTIVATION_TEXTS = 8, ACTIVATION_TOKENS = 96, ACTIVATION_SKIPPED = 2 };

static void activation_add(const qsf_context *c, double *sums)
{
    const float scale = c->hp->logit_scale;
    for (uint32_t s = 0; s < ACTIVATION_TEXTS; s++) {
        const float *hidden = qsf_hidden(c, s);
        for (uint32_t j = 0; j < c->hp->n_embd; j++) {
            const float x = scale != 0 ? hidden[j] * scale : hidden[j];
            sums[j] += (double)x * x;
        }
    }
}

static qsf_status activation_run(qsf_context *c, qsf_sampler *sampler, const qsf_convert_options *o,
                                 double *sums, qsf_error *err)
{
    const qsf_vocab *v = &c->model->source->vocab;
    int32_t token[ACTIVATION_TEXTS];
    qsf_row rows[ACTIVATION_TEXTS];
    qsf_hidden_ask(c, true);
    for (int s = 0; s < ACTIVATION_TEXTS; s++) token[s] = v->bos >= 0 ? v->bos : v->eos >= 0 ? v->eos : 0;
    for (uint32_t i = 0; i < ACTIVATION_TOKENS; i++) {
        if (qsf_conv_cancelled(o)) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
        qsf_conv_progress(o, "measure", "", i, ACTIVATION_TOKENS);
        for (int s = 0; s < ACTIVATION_TEXTS; s++) rows[s] = (qsf_row){ s, token[s], true };
        const qsf_status st = qsf_compute(c, rows, ACTIVATION_TEXTS);
        if (st) return qsf_fail(err, st, "%s", qsf_last_error(c));
        if (i >= ACTIVATION_SKIPPED) activation_add(c, sums);
        for (size_t s = 0; s < ACTIVATION_TEXTS; s++) token[s] = qsf_sampler_pick(sampler, qsf_logits(c, s));
    }
    return QSF_OK;
}

static qsf_status activation_model(const input *in, const qsf_convert_options *o, double *sums,
                                   qsf_error *err)
{
    qsf_model_options mo;
    qsf_context_options co;
    qsf_sampler_options so;
    qsf_model *m = NULL;
    qsf_context *c = NULL;
    qsf_sampler *sampler = NULL;
    qsf_status st;
    qsf_model_defaults(&mo);
    qsf_context_defaults(&co);
    qsf_sampler_defaults(&so);
    mo.platform = in->platform;
    mo.log = o->log;
    mo.log_user = o->user;
    mo.i2s_layout = in->i2s_layout;
    co.n_ctx = ACTIVATION_TEXTS * QSF_MAX(ACTIVATION_TOKENS, 2 * QSF_KV_BLOCK);
    co.n_seqs = co.n_batch = co.n_logits = ACTIVATION_TEXTS;
    co.n_threads = o->n_threads;
    co.ram_budget = o->ram_bytes;
    co.record = o->record;
    co.record_user = o->record_user;
    so.temperature = 1;
    so.top_p = 1;
    so.top_k = 0;
    so.seed = 1;
    if (!(st = qsf_model_open(in->model_path, &mo, &m, err)) && !(st = qsf_context_new(m, &co, &c, err)) &&
        !(st = qsf_sampler_new(m, &so, &sampler, err)))
        st = activation_run(c, sampler, o, sums, err);
    qsf_sampler_free(sampler);
    qsf_context_free(c);
    qsf_model_close(m);
    return st;
}

qsf_status qsf_conv_activations(const input *in, const qsf_convert_options *o, float *size, qsf_error *err)
{
    const qsf_platform *p = in->platform;
    const uint32_t n_embd = in->hp.n_embd;
    double *sums = qsf_alloc_array(p, n_embd, sizeof *sums, "activations", err), mean = 0;
    if (!sums) return QSF_E_MEMORY;
    const qsf_status st = activation_model(in, o, sums, err);
    for (uint32_t j = 0; j < n_embd; j++) mean += sums[j] / n_embd;
    /* A column that was never used is not free: others' texts may use it. */
    for (uint32_t j = 0; j < n_embd; j++) size[j] = mean > 0 ? (float)sqrt(QSF_MAX(sums[j] / mean, 1e-4)) : 1;
    qsf_dealloc(p, sums, n_embd * sizeof *sums);
    return st;
}
