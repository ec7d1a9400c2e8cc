/* Pipelines by the hash of their shader's text.
 * SPDX-License-Identifier: MIT */
#include "device/pipelines.h"

enum { RESULT_NS = 1000 * 1000 * 1000 };        /* of one wait */

qsf_status qsf_device_result(const qsf_device *d, qsf_device_id id, qsf_error *err)
{
    qsf_status st;
    if (!qsf_device_waits(d)) return d->poll(d->user, id, err);
    while ((st = d->wait(d->user, id, RESULT_NS, err)) == QSF_PENDING) { }
    return st;
}

qsf_status qsf_pipelines_init(qsf_pipelines *p, const qsf_platform *platform, const qsf_device *d,
                              qsf_error *err)
{
    *p = (qsf_pipelines){ .platform = platform, .d = d };
    p->text = qsf_alloc(platform, QSF_PIPELINE_TEXT, "shaders", err);
    return p->text ? QSF_OK : QSF_E_MEMORY;
}

void qsf_pipelines_done(qsf_pipelines *p)
{
    for (uint32_t i = 0; i < p->n; i++) p->d->release(p->d->user, p->id[i]);
    if (p->text) qsf_dealloc(p->platform, p->text, QSF_PIPELINE_TEXT);
    *p = (qsf_pipelines){ 0 };
}

void qsf_pipeline_begin(qsf_pipelines *p, qsf_wgsl_text *t) { qsf_wgsl_begin(t, p->text, QSF_PIPELINE_TEXT); }

qsf_status qsf_pipeline_end(qsf_pipelines *p, const qsf_wgsl_text *t, const char *name, qsf_device_id *out,
                            qsf_error *err)
{
    qsf_status st = qsf_wgsl_end(t, err);
    if (st) return st;
    uint64_t hash = QSF_FNV1A;
    for (size_t i = 0; i < t->len; i++) hash = (hash ^ (uint8_t)p->text[i]) * 1099511628211u;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->hash[i] == hash) { *out = p->id[i]; return QSF_OK; }
    if (p->n == QSF_PIPELINES) return qsf_fail(err, QSF_E_UNSUPPORTED, "the model needs too many shaders");
    const qsf_device_shader s = { .name = name, .wgsl = p->text, .entry = "main", .bindings = t->access,
                                  .n_bindings = t->n_bindings };
    if ((st = p->d->pipeline_new(p->d->user, &s, out, err))) return st;
    p->hash[p->n] = hash;
    p->id[p->n++] = *out;
    return QSF_OK;
}

qsf_status qsf_pipeline_wait(qsf_pipelines *p, qsf_device_id id, qsf_error *err)
{
    uint32_t i = 0;
    while (i < p->n && p->id[i] != id) i++;
    assert(i < p->n);
    const qsf_status st = p->ready[i] ? QSF_OK : qsf_device_result(p->d, id, err);
    p->ready[i] = !st;
    return st;
}
