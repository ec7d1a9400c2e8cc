/* Runs a model on calibration data and sums up the inputs of its matrices.
 * SPDX-License-Identifier: MIT
 *
 * The model computes with floats, several whole sequences in a batch, and the watcher sums
 * (gram.c).  If the sums do not all fit the memory limit, several passes are made over the data,
 * each for the next inputs of the network; a pass ends with the layer of its last input.  The
 * batches are the same in every pass: neither the number of passes nor that of threads changes a
 * bit of the result. */
#include "calibrate/measure.h"

#include "engine/step.h"
#include "model/roles.h"
#include "plan/caller.h"
#include "plan/team.h"

enum { MEASURE_ROWS = 1024 };

typedef struct measure_work {
    const qsf_convert_options *o;
    const cal_text *t;
    qsf_context *c;
    cal_gram  *grams;           /* [n_grams] of all inputs, in the order of the network */
    uint32_t   n_grams, n_layers, max_cols;
    uint32_t   at_once;         /* sequences of a batch */
    qsf_row   *rows;            /* [n_rows] of a batch */
    uint32_t   n_rows;
    uint64_t   most;            /* bytes of sums in a pass */
    uint64_t   done, all;       /* batches, for the progress */
    cal_grams  pass;
} measure_work;

/* ---- inputs ---- */

static uint64_t measure_bytes(const cal_gram *g)
{
    return qsf_gram_floats(g->cols) * sizeof(float) + g->cols * sizeof(double);
}

/* Adds the next input; if the list does not exist yet, only counts it. */
static void measure_add(measure_work *k, uint32_t unit, uint32_t kind, uint32_t expert, uint32_t cols)
{
    if (k->grams)
        k->grams[k->n_grams] = (cal_gram){ .unit = unit, .kind = kind, .cols = cols, .expert = expert };
    k->max_cols = QSF_MAX(k->max_cols, cols);
    k->n_grams++;
}

/* The inputs of a layer's experts: first of all together, unless another input is the same, then of
 * each. */
static void measure_experts(measure_work *k, uint32_t i, const qsf_layer *l)
{
    if (l->experts_beside || l->experts_apart) measure_add(k, i, QSF_K_EXPERT_UP, 0, l->n_expert_embd);
    for (uint32_t e = 1; e <= l->n_experts; e++) measure_add(k, i, QSF_K_EXPERT_UP, e, l->n_expert_embd);
    for (uint32_t e = 0; e <= l->n_experts; e++) measure_add(k, i, QSF_K_EXPERT_DOWN, e, l->n_ff_expert);
    if (l->experts_apart) measure_add(k, i, QSF_K_EXPERTS_OUT, 0, l->n_expert_embd);
}

static void measure_list(measure_work *k, const qsf_source *s)
{
    k->n_grams = 0;
    for (uint32_t i = 0; i < k->n_layers; i++) {
        const qsf_layer *l = &s->layers[i];
        if (qsf_layer_attends(l)) {
            measure_add(k, i, QSF_K_ATTN_Q, 0, s->hp.n_embd);
            measure_add(k, i, QSF_K_ATTN_OUT, 0, (uint32_t)qsf_dim_size(&s->hp, l, QSF_DIM_SUMS));
        }
        if (l->n_experts) measure_add(k, i, QSF_K_ROUTER, 0, s->hp.n_embd);
        else if (l->n_ff) measure_add(k, i, QSF_K_FFN_UP, 0, s->hp.n_embd);
        if (l->n_ff) measure_add(k, i, QSF_K_FFN_DOWN, 0, l->n_ff);
        if (l->n_experts) measure_experts(k, i, l);
    }
    measure_add(k, qsf_unit_final(s), QSF_K_OUTPUT, 0, s->hp.n_embd);
}

uint32_t qsf_cal_inputs(const qsf_source *s)
{
    measure_work k = { .n_layers = s->hp.n_layers };
    measure_list(&k, s);
    return k.n_grams;
}

/* ---- memory ---- */

static qsf_context_options measure_options(const measure_work *k, uint64_t ram)
{
    qsf_context_options co;
    qsf_context_defaults(&co);
    co.n_seqs = k->at_once;
    co.n_ctx = qsf_cal_positions(co.n_seqs, k->t->len);
    co.n_batch = k->n_rows;
    co.n_logits = 1;
    co.f32 = true;
    co.n_threads = k->o->n_threads;
    co.ram_budget = ram;
    co.record = k->o->record;
    co.record_user = k->o->record_user;
    return co;
}

/* Whether the network runs in this much memory without smaller batches, which would round
 * differently. */
static bool measure_runs(const measure_work *k, const qsf_model *m, uint64_t ram)
{
    const qsf_context_options co = measure_options(k, ram);
    qsf_plan plan = { .size = sizeof plan };
    return !qsf_context_plan(m, &co, &plan, NULL) && plan.n_batch == co.n_batch && plan.n_ctx == co.n_ctx;
}

/* The least that it runs in, to a megabyte, given that it runs in `enough`. */
static uint64_t measure_least(const measure_work *k, const qsf_model *m, uint64_t enough)
{
    uint64_t little = 0;
    while (enough - little > 1 << 20) {
        const uint64_t ram = little + (enough - little) / 2;
        if (measure_runs(k, m, ram)) enough = ram;
        else little = ram;
    }
    return enough;
}

/* Of a limit the network takes the least that it can do with, even if its layers are read again for
 * each batch: a pass less over the text is worth more. */
static qsf_status measure_fit(measure_work *k, qsf_model *m, qsf_error *err)
{
    const uint32_t n_threads = qsf_conv_threads(m->platform, k->o);
    const uint64_t own = qsf_grams_bytes(k->n_rows, k->max_cols, n_threads);
    uint64_t all = 0, largest = 0, ram = k->o->ram_bytes;
    for (uint32_t i = 0; i < k->n_grams; i++) {
        all += measure_bytes(&k->grams[i]);
        largest = QSF_MAX(largest, measure_bytes(&k->grams[i]));
    }
    k->most = all;
    if (ram) {
        if (ram <= own + largest || !measure_runs(k, m, ram - own - largest))
            return qsf_fail(err, QSF_E_BUDGET,
                            "%llu MB (ram_bytes, --ram) are too few to calibrate with: one Hessian and its "
                            "working memory take %llu MB, and the network computes %u tokens at once",
                            (unsigned long long)(ram / 1000000),
                            (unsigned long long)((own + largest) / 1000000 + 1), (unsigned)k->n_rows);
        k->most = QSF_MIN(all, ram - own - measure_least(k, m, ram - own - largest));
        ram -= own + k->most;
    }
    const qsf_context_options co = measure_options(k, ram);
    return qsf_context_new(m, &co, &k->c, err);
}

/* ---- one pass ---- */

/* Sequences [from, from + n), as far as layers go that end with `last`; n_layers: the head too. */
static qsf_status measure_batch(measure_work *k, uint32_t from, uint32_t n, uint32_t last, qsf_error *err)
{
    qsf_context *c = k->c;
    const cal_text *t = k->t;
    uint32_t n_rows = 0;
    bool waiting;
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; !st && i < n; i++) {
        for (uint32_t j = 0; j < t->lens[from + i]; j++)
            k->rows[n_rows++] = (qsf_row){ (qsf_seq)i, t->ids[(size_t)(from + i) * t->len + j], false };
        st = qsf_seq_truncate(c, (qsf_seq)i, 0);
    }
    qsf_hidden_ask(c, last == k->n_layers);
    if (!st) st = qsf_batch_begin(c, k->rows, n_rows);
    while (!st && !(last < k->n_layers && qsf_stage_after(c->now.stage, last))) {
        if (!(st = qsf_step(c, &waiting))) return QSF_OK;
        if (st == QSF_PENDING) st = waiting ? qsf_wait(c) : QSF_OK;
    }
    return st ? qsf_fail(err, st, "%s", qsf_last_error(c)) : QSF_OK;
}

static qsf_status measure_texts(measure_work *k, uint32_t last, qsf_error *err)
{
    const uint32_t n = k->t->n_seqs;
    for (uint32_t s = 0; s < n; s += k->at_once) {
        if (qsf_conv_cancelled(k->o)) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
        qsf_conv_progress(k->o, "calibrate", "", k->done++, k->all);
        const qsf_status st = measure_batch(k, s, QSF_MIN(k->at_once, n - s), last, err);
        if (st) return st;
    }
    return QSF_OK;
}

/* Inputs [from, to). */
static qsf_status measure_pass(measure_work *k, uint32_t from, uint32_t to, cal_writer *w, qsf_error *err)
{
    const qsf_platform *p = k->c->platform;
    qsf_status st = QSF_OK;
    k->pass.list = k->grams + from;
    k->pass.n = to - from;
    for (uint32_t i = from; !st && i < to; i++) st = qsf_gram_init(p, &k->grams[i], err);
    k->c->watch = (qsf_watch){ qsf_grams_watch, &k->pass };
    if (!st) st = measure_texts(k, QSF_MIN(k->grams[to - 1].unit, k->n_layers), err);
    k->c->watch = (qsf_watch){ 0 };
    for (uint32_t i = from; !st && i < to; i++) st = qsf_hessian_write(w, &k->grams[i], err);
    for (uint32_t i = from; i < to; i++) qsf_gram_done(p, &k->grams[i]);
    return st;
}

/* The end of the pass that begins with input `from`. */
static uint32_t measure_end(const measure_work *k, uint32_t from)
{
    uint64_t bytes = measure_bytes(&k->grams[from]);
    uint32_t to = from + 1;
    while (to < k->n_grams && (bytes += measure_bytes(&k->grams[to])) <= k->most) to++;
    return to;
}

static qsf_status measure_passes(measure_work *k, cal_writer *w, qsf_error *err)
{
    const uint64_t batches = qsf_ceil_div(k->t->n_seqs, k->at_once);
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; i < k->n_grams; i = measure_end(k, i)) k->all += batches;
    for (uint32_t i = 0; !st && i < k->n_grams; i = measure_end(k, i))
        st = measure_pass(k, i, measure_end(k, i), w, err);
    return st;
}

/* ---- the whole ---- */

qsf_status qsf_cal_measure(qsf_model *m, const cal_text *t, const qsf_convert_options *o, cal_writer *w,
                           uint64_t *tokens, qsf_error *err)
{
    const qsf_platform *p = m->platform;
    const uint32_t n_layers = m->source->hp.n_layers, at_once = QSF_MAX(1, MEASURE_ROWS / t->len);
    measure_work k = { .o = o, .t = t, .n_layers = n_layers, .n_grams = qsf_cal_inputs(m->source) };
    k.at_once = qsf_cal_seqs(m, QSF_MIN(at_once, t->n_seqs), t->len);
    k.n_rows = k.at_once * t->len;
    qsf_status st = QSF_E_MEMORY;
    if (!(k.grams = qsf_alloc_array(p, k.n_grams, sizeof *k.grams, "Hessians", err)) ||
        !(k.rows = qsf_alloc_array(p, k.n_rows, sizeof *k.rows, "a batch", err))) goto done;
    measure_list(&k, m->source);
    if ((st = measure_fit(&k, m, err))) goto done;
    if (!(st = qsf_grams_init(&k.pass, p, k.n_rows, k.max_cols, k.c->o.n_threads, err)))
        st = measure_passes(&k, w, err);
    qsf_grams_done(&k.pass);
    *tokens = k.grams[0].tokens;
done:
    qsf_context_free(k.c);
    qsf_dealloc(p, k.rows, k.n_rows * sizeof *k.rows);
    qsf_dealloc(p, k.grams, k.n_grams * sizeof *k.grams);
    return st;
}
