/* Whether layers that pass through a device are worth their way.
 * SPDX-License-Identifier: MIT */
#include "device/device_pays.h"

#include "device/device_executor.h"
#include "device/device_trial.h"

enum { UPLOADS = 3 };                   /* of which the fastest counts */
#define PAYS 0.9                        /* of the CPU's time, at most, as in the trial of a device */

static device_executor *pays_executor(const qsf_context *c)
{
    return (device_executor *)(void *)c->executor;
}

/* Nanoseconds of the layer's weights to its slot. */
static qsf_status upload_time(qsf_context *c, const qsf_weights *w, double *ns)
{
    device_executor *e = pays_executor(c);
    qsf_status st = QSF_OK;
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < UPLOADS && !st; i++) {
        const uint64_t begin = qsf_now(c->platform);
        st = qsf_device_layer_again(&e->b, &e->layers[0], w, &c->error);
        if (!st) st = qsf_device_stream_used(e, e->first, &c->error);
        if (!st) st = qsf_device_stream_free(e, e->first, &c->error);
        best = QSF_MIN(best, qsf_now(c->platform) - begin);
    }
    *ns = (double)QSF_MAX(best, 1);
    return st;
}

/* Nanoseconds of a batch of n rows, between those of one row and of `most`. */
static double batch_time(double one, double all, uint32_t n, uint32_t most)
{
    return most < 2 ? one : one + (all - one) * (n - 1) / (most - 1);
}

/* The smallest batch that is faster on the device; UINT32_MAX: none is. */
static uint32_t least_rows(const qsf_device_trial *t, double upload)
{
    const uint32_t most = t->rows;
    for (uint32_t n = 1; n <= most; n++) {
        const double gpu = batch_time(t->ns[QSF_TRIAL_GPU_ROW], t->ns[QSF_TRIAL_GPU_PROMPT] * most, n, most),
            cpu = batch_time(t->ns[QSF_TRIAL_CPU_ROW], t->ns[QSF_TRIAL_CPU_PROMPT] * most, n, most);
        if (QSF_MAX(gpu, upload) < PAYS * cpu) return n;
    }
    return UINT32_MAX;
}

static qsf_status pays_failed(qsf_context *c)
{
    return qsf_fail(&c->error, QSF_E_IO, "%s", pays_executor(c)->choice.left);
}

/* What was measured, and what comes of it. */
static void pays_decide(qsf_context *c, const qsf_device_trial *t, double upload)
{
    device_executor *e = pays_executor(c);
    qsf_device_stream *x = &e->stream;
    const uint32_t n_layers = x->end - e->first;
    const double ms = 1e-6, all = upload * n_layers;
    char *out = e->choice.stream;
    x->upload = (double)e->layers[0].slot_at / upload * 1e9;
    x->least = least_rows(t, all);
    qsf_device_stream_say(out, sizeof e->choice.stream, e->first, x->end, x->least);
    const size_t len = strlen(out);
    qsf_format(out + len, sizeof e->choice.stream - len, ": %.1f ms there, 1 token %.1f, %u %.1f; CPU %.1f, "
               "%.1f", all * ms, t->ns[QSF_TRIAL_GPU_ROW] * ms, (unsigned)t->rows,
               t->ns[QSF_TRIAL_GPU_PROMPT] * t->rows * ms, t->ns[QSF_TRIAL_CPU_ROW] * ms,
               t->ns[QSF_TRIAL_CPU_PROMPT] * t->rows * ms);
}

qsf_status qsf_device_stream_trial(qsf_context *c, bool *pays)
{
    device_executor *e = pays_executor(c);
    qsf_device_trial t = { .rows = c->o.n_batch };
    const qsf_weights *w;
    double upload = 1;
    bool reading;
    const uint32_t first = e->first;
    qsf_status st;
    *pays = false;
    st = qsf_fetch_unit(&c->fetch, qsf_id_layer(first), true, &w, &c->error);
    if (!qsf_device_waits(e->d) || st == QSF_E_UNSUPPORTED) {       /* a host that must not block */
        e->choice.stream[0] = 0;
        return QSF_OK;
    }
    while (!st && (st = qsf_device_trial_step(c, &t, &reading)) == QSF_PENDING) st = QSF_OK;
    if (!st) st = qsf_fetch_unit(&c->fetch, qsf_id_layer(first), true, &w, &c->error);
    if (!st && e->d) st = upload_time(c, w, &upload);
    if (!st && !e->d) return pays_failed(c);
    if (st) return st;
    pays_decide(c, &t, upload);
    *pays = e->stream.least != UINT32_MAX;
    qsf_log(c->model, QSF_LOG_INFO, "%s", e->choice.stream);
    return QSF_OK;
}
