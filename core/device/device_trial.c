/* A layer of the model on the device and on the CPU, measured.
 * SPDX-License-Identifier: MIT */
#include "device/device_trial.h"

#include "device/device_executor.h"
#include "device/device_life.h"

enum {
    TRIAL_MS = 1000 * 1000,
    TRIAL_RUNS = 4,                     /* that count, at most */
    TRIAL_WARM = 2,                     /* that do not: shaders are compiled, then the layer is listed once */
    TRIAL_MOST = 100 * TRIAL_MS,        /* of a measurement's runs; the last one may exceed it */
    TRIAL_LEAST = 2 * TRIAL_MS,         /* of a run on the CPU: clocks of browsers tick in tenths */
    TRIAL_TIMES = 200                   /* computations in such a run, at most */
};

static device_executor *trial_executor(const qsf_context *c)
{
    return (device_executor *)(void *)c->executor;
}

static bool trial_on_device(const qsf_context *c)
{
    return c->executor->does == &qsf_device_executor_table && trial_executor(c)->d;
}

static uint32_t trial_rows(const qsf_context *c, const qsf_device_trial *t)
{
    const bool prompt = t->kind == QSF_TRIAL_GPU_PROMPT || t->kind == QSF_TRIAL_CPU_PROMPT;
    return prompt ? QSF_MIN(c->o.n_batch, t->rows ? t->rows : QSF_TRIAL_ROWS) : 1;
}

/* A batch of the first positions of sequence 0, whose rows are made up. */
static void trial_batch(qsf_context *c, uint32_t n)
{
    device_executor *e = trial_executor(c);
    uint32_t random = 1;
    c->batch.n = n;
    c->batch.n_asked = 0;
    for (uint32_t r = 0; r < n; r++) c->batch.rows[r] = (qsf_batch_row){ 0, r, 0, -1 };
    qsf_batch_group(&c->batch);
    e->here = e->together = e->logits = e->came = e->few = false;
    e->stream.synced = true;
    e->stream.runs = e->stream.end > e->first;
    e->cpu_does->begin(e->cpu, false);
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t i = 0; i < c->hp->n_embd; i++) {
            random = random * 1664525 + 1013904223;
            e->rows[i] = (float)(random >> 8) / (1 << 23) - 1;
        }
        e->cpu_does->rows_in(e->cpu, r, e->rows, NULL);
    }
}

/* The sequence has blocks while the layer is computed. */
static void trial_sequence(qsf_context *c, uint32_t n)
{
    qsf_kv_seq *q = &c->tables.seqs[0];
    q->n = (n + QSF_KV_BLOCK - 1) / QSF_KV_BLOCK;
    q->length = n;
    for (uint32_t i = 0; i < q->n; i++) q->blocks[i] = q->places[i] = i;
}

static qsf_stage_work trial_work(qsf_context *c, const qsf_weights *w, uint32_t n)
{
    return (qsf_stage_work){ .stage = { QSF_STAGE_LAYER, trial_executor(c)->first }, .w = w,
                             .walk = &c->now.walk, .n_new = n, .hidden = true };
}

/* ---- the device ---- */

/* One layer, listed t->times times; QSF_PENDING as of a stage. */
static qsf_status trial_device_run(qsf_context *c, qsf_device_trial *t, const qsf_weights *w, uint32_t n)
{
    device_executor *e = trial_executor(c);
    const qsf_stage_work work = trial_work(c, w, n);
    if (!t->begun) {
        trial_batch(c, n);
        t->begun = true;
        t->begun_ns = qsf_now(c->platform);
    }
    e->trial_times = t->times;
    trial_sequence(c, n);
    const qsf_status st = e->base.does->stage(&e->base, &work, &c->error);
    trial_sequence(c, 0);
    if (!trial_on_device(c)) return QSF_OK;     /* it has failed */
    e->trial_times = 0;
    return st;
}

static double trial_of_layers(const qsf_device_trial *t, uint32_t n)
{
    if (t->times == n) return (double)t->best_ns;
    if (t->times == 1) return (double)t->best_ns * n;
    const double more = (double)t->best_ns - (double)t->one_ns;
    return (double)t->one_ns + QSF_MAX(more, 0) * (n - 1) / (t->times - 1);
}

/* The run is over.  Returns whether the measurement is. */
static bool trial_took(qsf_device_trial *t, uint64_t ns, uint32_t n_layers)
{
    const uint32_t run = t->run++;
    if (run + 1 < TRIAL_WARM) return false;
    if (run + 1 == TRIAL_WARM) {
        t->one_ns = QSF_MAX(ns, 1);
        t->times = (uint32_t)QSF_MIN(QSF_MAX(TRIAL_MOST / TRIAL_RUNS / t->one_ns, 1), n_layers);
        t->spent_ns = 0;
        t->best_ns = UINT64_MAX;
        return false;
    }
    t->spent_ns += ns;
    t->best_ns = QSF_MIN(t->best_ns, ns);
    return t->spent_ns >= TRIAL_MOST || t->run == TRIAL_WARM + TRIAL_RUNS;
}

static qsf_status trial_device(qsf_context *c, qsf_device_trial *t, const qsf_weights *w, uint32_t n,
                               uint32_t n_layers)
{
    qsf_status st;
    bool over;
    t->times = QSF_MAX(t->times, 1);
    do {
        while ((st = trial_device_run(c, t, w, n)) == QSF_PENDING)
            if (!trial_on_device(c) || !qsf_device_waits(trial_executor(c)->d)) return st;
        if (st || !trial_on_device(c)) return st;
        t->begun = false;
        over = trial_took(t, qsf_now(c->platform) - t->begun_ns, n_layers);
    } while (!over);
    t->ns[t->kind] = trial_of_layers(t, n_layers) / n;
    return QSF_OK;
}

/* ---- the CPU ---- */

/* The time of one computation; the layer is computed again until the clock can tell it. */
static uint64_t trial_cpu_run(qsf_context *c, const qsf_weights *w, uint32_t n)
{
    device_executor *e = trial_executor(c);
    const qsf_stage_work work = trial_work(c, w, n);
    qsf_error ignored;          /* damaged weights are found when a prompt is computed */
    uint64_t begin, took;
    uint32_t times = 0;
    trial_batch(c, n);
    trial_sequence(c, n);
    begin = qsf_now(c->platform);
    do {
        (void)e->cpu_does->stage(e->cpu, &work, &ignored);
        took = qsf_now(c->platform) - begin;
        times++;
    } while (took < TRIAL_LEAST && times < TRIAL_TIMES);
    trial_sequence(c, 0);
    return took / times;
}

static void trial_cpu(qsf_context *c, qsf_device_trial *t, const qsf_weights *w, uint32_t n,
                      uint32_t n_layers)
{
    const uint64_t begin = qsf_now(c->platform);
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i <= TRIAL_RUNS; i++) {
        const uint64_t ns = trial_cpu_run(c, w, n);
        best = QSF_MIN(best, ns);
        if (qsf_now(c->platform) - begin > TRIAL_MOST) break;
    }
    t->ns[t->kind] = (double)best * n_layers / n;
}

/* ---- both ---- */

/* What the trial has left in the layer's keys and values. */
static qsf_status trial_clear(qsf_context *c, uint32_t block)
{
    device_executor *e = trial_executor(c);
    const uint64_t n = e->b.bytes[QSF_DEVICE_SPARE];
    const qsf_device_layer *l = &e->layers[0];
    uint8_t *own;
    if (!l->kv) return QSF_OK;
    const uint32_t kv = qsf_layers_kept(c->model->source, c->o.quality, e->first);
    const qsf_status st = e->cpu_does->kv_map(e->cpu, kv, block, true, &own, &c->error);
    if (st) return st;
    memset(own, 0, (size_t)n);
    memset(e->words, 0, (size_t)n);
    return e->d->write(e->d->user, l->kv, block * n, e->words, n, &c->error);
}

static qsf_status trial_measure(qsf_context *c, qsf_device_trial *t, const qsf_weights *w)
{
    const device_executor *e = trial_executor(c);
    const uint32_t n = trial_rows(c, t), streamed = e->stream.end - e->first,
        n_layers = streamed ? streamed : e->end - e->first;
    qsf_status st = QSF_OK;
    if (t->kind < QSF_TRIAL_CPU_ROW) st = trial_device(c, t, w, n, n_layers);
    else trial_cpu(c, t, w, n, n_layers);
    if (st || !trial_on_device(c)) return st;
    t->kind++;
    t->run = t->times = 0;
    return QSF_OK;
}

qsf_status qsf_device_trial_step(qsf_context *c, qsf_device_trial *t, bool *reading)
{
    const qsf_weights *w;
    qsf_status st = QSF_OK;
    *reading = false;
    while (trial_on_device(c) && t->kind < QSF_N_TRIAL_KINDS) {
        device_executor *e = trial_executor(c);
        const qsf_unit_id layer = qsf_id_layer(e->first);
        st = qsf_fetch_unit(&c->fetch, layer, qsf_device_waits(e->d), &w, &c->error);
        *reading = st == QSF_PENDING;
        if (st || (st = trial_measure(c, t, w))) return st;
    }
    c->batch.n = 0;
    if (!trial_on_device(c)) return QSF_OK;
    trial_executor(c)->here = false;
    const uint32_t rows = QSF_MIN(c->o.n_batch, QSF_MAX(t->rows, QSF_TRIAL_ROWS));
    for (uint32_t i = 0; i < (rows + QSF_KV_BLOCK - 1) / QSF_KV_BLOCK && !st; i++) st = trial_clear(c, i);
    return st ? qsf_device_fall(trial_executor(c), &c->error) : QSF_OK;
}
