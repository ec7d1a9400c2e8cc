/* The most likely tokens in place of the logits of a batch, for the executor.
 * SPDX-License-Identifier: MIT */
#include "device/device_few.h"

#include "device/device_life.h"

qsf_status qsf_device_few_begin(device_executor *e, uint32_t ld, qsf_error *err)
{
    const qsf_hparams *hp = e->c->hp;
    const qsf_device_logit_rows rows = {
        .range = { e->b.of[QSF_DEVICE_LOGITS], 0, e->b.bytes[QSF_DEVICE_LOGITS] },
        .rows = QSF_MIN(e->c->o.n_logits, QSF_DEVICE_KEPT_ROWS), .n_vocab = hp->n_vocab, .ld = ld,
        .scale = hp->logit_scale != 0 ? hp->logit_scale : 1, .cap = hp->final_softcap,
        .chooses = e->choice.embedding && !e->first, .bare = !qsf_device_waits(e->d),
    };
    if (rows.bare && !rows.chooses) return QSF_OK;
    const qsf_status st = qsf_device_candidates_begin(&e->candidates, &e->b, &rows, err);
    if (rows.chooses && e->candidates.rows) e->c->choices = e->choices;
    return st || !e->candidates.rows || !rows.chooses || QSF_WGSL_BARE(rows.bare) ? st
        : qsf_device_buffer_new(&e->b, (uint64_t)rows.rows * ld * sizeof(float), &e->ahead.logits, err);
}

qsf_status qsf_device_few_list(device_executor *e, qsf_error *err)
{
    const bool few = qsf_device_few_wanted(e);
    bool choose = false;
    e->ready.few = e->ready.chooses = false;
    qsf_status st = QSF_OK;
    if (few || QSF_WGSL_BARE(e->candidates.bare)) st = qsf_device_ahead_choose(e, &choose, err);
    if (!st && (few || choose))
        st = qsf_device_candidates_list(&e->candidates, &e->b, e->c->batch.n_asked, choose, e->list,
                                        &e->n_list, err);
    e->few = e->ready.few = few && !st;
    e->ready.chooses = choose;
    return st;
}

#if !defined(QSF_NO_CANDIDATES)

static device_executor *few_of(qsf_executor *x) { return (device_executor *)(void *)x; }

/* Whether all candidates of a row are 0, as if the row before the head had not been finite. */
static bool few_zeros(const qsf_candidates *k) { return k->logit[0] == 0 && k->logit[k->n - 1] == 0; }

/* What looks wrong is left to rows_out, which looks closer; it needs the device as the batch left
 * it. */
qsf_status qsf_device_few_out(qsf_executor *x, const qsf_candidates **out, qsf_error *err)
{
    device_executor *e = few_of(x);
    const uint32_t n = e->c->batch.n_asked;
    bool good;
    if (!e->logits || !e->few) return QSF_OK;
    qsf_status st = qsf_device_candidates_start(&e->candidates, &e->b, n, &e->read, err);
    if (!st) st = qsf_device_ahead_submit(e, err);
    if (!st) st = qsf_device_ready_make(e, err);
    if (!st) st = qsf_device_candidates_read(&e->candidates, &e->b, &e->read, n, &good, err);
    if (!st) st = qsf_device_verdict(e, err);
    if (st) return (st = qsf_device_fall(e, err)) ? st : QSF_PENDING;   /* the batch begins again */
    for (uint32_t i = 0; i < n && good; i++) good = !few_zeros(&e->candidates.found[i]);
    if (!good && e->ahead.flies) return qsf_device_ahead_repeat(e);
    for (uint32_t i = 0; i < n && good; i++)
        e->ahead.token[i] = qsf_device_candidates_chosen(&e->candidates, i);
    if (good) *out = e->candidates.found;
    return QSF_OK;
}

qsf_status qsf_device_few_row(qsf_executor *x, uint32_t i, const float **out, qsf_error *err)
{
    device_executor *e = few_of(x);
    qsf_rows rows;
    qsf_status st = e->cpu_does->rows_out(e->cpu, QSF_ROWS_LOGITS, &rows, err);
    if (st) return st;
    float *row = rows.x + i * rows.ld;
    const size_t bytes = rows.ld * sizeof *row;
    if (!e->came && !(e->rows_read >> i & 1)) {
        if (!e->d) return qsf_fail(err, QSF_E_IO, "the GPU was given up");
        if ((st = qsf_device_buffer_read(&e->b, qsf_device_logits_of(e), i * bytes, row, bytes, err)))
            return st;
        qsf_device_head_finish(&e->c->k, e->c->hp, row);
        e->rows_read |= 1u << i;
    }
    *out = row;
    return QSF_OK;
}

#endif
