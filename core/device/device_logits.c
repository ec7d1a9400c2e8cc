/* Logits on a device: they, or the most likely tokens, come to the CPU.
 * SPDX-License-Identifier: MIT */
#include "device/device_logits.h"

#include "layers/head.h"

enum { LOGITS_NS = 1000 * 1000 * 1000 };        /* of one wait */

/* ---- logits ---- */

/* Rows [first, first + n) come to where the CPU has them. */
static qsf_status logits_read(qsf_device_logits *l, const qsf_rows *to, uint32_t first, uint32_t n,
                              qsf_error *err)
{
    const qsf_device *d = l->b->d;
    const qsf_hparams *hp = l->c->hp;
    const float scale = hp->logit_scale, cap = hp->final_softcap;
    const size_t row = to->ld * sizeof *to->x;
    float *x = to->x + first * to->ld;
    const qsf_device_id from = l->b->of[QSF_DEVICE_LOGITS];
    qsf_status st = l->read ? QSF_OK : d->read_start(d->user, from, first * row, x, n * row, &l->read, err);
    if (st) return st;
    if (!d->wait) st = d->poll(d->user, l->read, err);
    else while ((st = d->wait(d->user, l->read, LOGITS_NS, err)) == QSF_PENDING) { }
    if (st == QSF_PENDING) return st;
    l->read = 0;
    for (uint32_t i = 0; i < n && !st; i++) {
        if (scale != 0 && scale != 1) l->c->k.vec_scale(x + i * to->ld, scale, hp->n_vocab);
        if (cap > 0) l->c->k.softcap_inplace(x + i * to->ld, cap, hp->n_vocab);
    }
    return st;
}

qsf_status qsf_device_logits_out(qsf_device_logits *l, qsf_rows *out, qsf_error *err)
{
    qsf_status st = l->cpu->does->rows_out(l->cpu, QSF_ROWS_LOGITS, out, err);
    if (st || l->came) return st;
    st = logits_read(l, out, 0, out->n, err);
    l->came = !st;
    return st;
}

void qsf_device_logits_drop(qsf_device_logits *l)
{
    if (!l->b) return;
    l->b->d->release(l->b->d->user, l->read);
    l->read = l->rows = 0;
    l->came = l->few = false;
}

/* ---- candidates ---- */

#if defined(QSF_NO_CANDIDATES)

qsf_status qsf_device_logits_begin(qsf_device_logits *l, qsf_context *c, qsf_executor *cpu,
                                   qsf_device_buffers *b, uint32_t ld, qsf_error *err)
{
    (void)ld, (void)err;
    *l = (qsf_device_logits){ .c = c, .cpu = cpu, .b = b };
    return QSF_OK;
}

void qsf_device_logits_done(qsf_device_logits *l) { qsf_device_logits_drop(l); }

qsf_status qsf_device_logits_list(qsf_device_logits *l, qsf_device_dispatch *list, size_t *len,
                                  qsf_error *err)
{
    (void)l, (void)list, (void)len, (void)err;
    return QSF_OK;
}

#else

/* Rows that are read one by one later need a host that may block. */
qsf_status qsf_device_logits_begin(qsf_device_logits *l, qsf_context *c, qsf_executor *cpu,
                                   qsf_device_buffers *b, uint32_t ld, qsf_error *err)
{
    const qsf_hparams *hp = c->hp;
    const qsf_device_logit_rows rows = {
        .range = { b->of[QSF_DEVICE_LOGITS], 0, b->bytes[QSF_DEVICE_LOGITS] },
        .rows = QSF_MIN(c->o.n_logits, QSF_DEVICE_KEPT_ROWS), .n_vocab = hp->n_vocab, .ld = ld,
        .scale = hp->logit_scale != 0 ? hp->logit_scale : 1, .cap = hp->final_softcap,
    };
    *l = (qsf_device_logits){ .c = c, .cpu = cpu, .b = b };
    return b->d->wait ? qsf_device_candidates_begin(&l->candidates, b, &rows, err) : QSF_OK;
}

void qsf_device_logits_done(qsf_device_logits *l)
{
    qsf_device_logits_drop(l);
    if (l->b) qsf_device_candidates_done(&l->candidates, l->b);
}

qsf_status qsf_device_logits_list(qsf_device_logits *l, qsf_device_dispatch *list, size_t *len,
                                  qsf_error *err)
{
    const uint32_t n = l->c->batch.n_asked;
    if (!l->c->now.few || n > l->candidates.rows) return QSF_OK;
    const qsf_status st = qsf_device_candidates_list(&l->candidates, l->b, n, list, len, err);
    l->few = !st;
    return st;
}

qsf_status qsf_device_logits_few(qsf_device_logits *l, const qsf_candidates **out, qsf_error *err)
{
    bool finite;
    if (!l->few) return QSF_OK;
    const qsf_status st = qsf_device_candidates_read(&l->candidates, l->b, l->c->batch.n_asked, &finite, err);
    if (st) return st;
    if (!finite) return qsf_head_not_finite(l->c->model->source, err);
    *out = l->candidates.found;
    return QSF_OK;
}

qsf_status qsf_device_logits_row(qsf_device_logits *l, uint32_t i, const float **out, qsf_error *err)
{
    qsf_rows rows;
    qsf_status st = l->cpu->does->rows_out(l->cpu, QSF_ROWS_LOGITS, &rows, err);
    if (!st && !l->came && !(l->rows >> i & 1)) {
        if ((st = logits_read(l, &rows, i, 1, err))) return st;
        l->rows |= 1u << i;
    }
    *out = st ? NULL : rows.x + i * rows.ld;
    return st;
}

#endif
