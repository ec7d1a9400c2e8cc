/* Effort 4: the codes, norms and biases of a file are tuned to its input's predictions.
 * SPDX-License-Identifier: MIT
 *
 * The input makes a text, as for a calibration but of another seed, and is run on it once; what
 * its final norm gives is kept.  Then, step by step, the output's network is run on a few sequences,
 * and what it tunes (train.c) goes against the gradient of the divergence of its predictions.  An
 * eighth of the text is held out: if its divergence has not become smaller, nothing is changed. */
#include "tune/tune.h"

#include "calibrate/text.h"
#include "engine/context.h"
#include "model/qsf_write.h"
#include "plan/caller.h"
#include "plan/team.h"
#include "tune/train.h"
#include "unit.h"

enum {
    TUNE_AT_ONCE = 512,         /* rows of a step */
    TUNE_OUT = 8,               /* one sequence of so many is held out */
    TUNE_STEPS = 400,
    TUNE_SAVE = 50,             /* steps after which what was done is kept */
    TUNE_WARM = 20
};
#define TUNE_RATE 0.02f

typedef struct tune_work {
    const qsf_convert_options *o;
    input        *in;
    qsf_model    *m;            /* of the file to be tuned */
    cal_text      text;
    tune_net      net, teacher;
    tune_team     team;
    tune_run      run;
    train         train;
    uint32_t      n_steps, at_once, n_out;
    float        *hidden;       /* [n_seqs][len][n_embd] of the teacher's */
    uint64_t      hidden_bytes;
    int32_t      *ids;          /* [at_once][len] of a batch */
    uint32_t     *first;        /* [at_once + 1] */
    float        *wanted;       /* [at_once][len][n_embd] */
} tune_work;

/* ---- texts ---- */

static qsf_status tune_text(tune_work *k, const char *model, qsf_error *err)
{
    qsf_convert_options o = *k->o;
    qsf_model_options mo;
    qsf_model *m;
    qsf_model_defaults(&mo);
    mo.platform = k->in->platform;
    mo.i2s_layout = o.i2s_layout;
    if (!o.calibrate) o.calibrate = "self";
    o.calibrate_seed += 2;              /* the sensitivities' is the one between */
    qsf_status st = qsf_model_open(model, &mo, &m, err);
    if (st) return st;
    st = qsf_cal_text(&k->text, m, &o, err);
    qsf_model_close(m);
    if (!st && k->text.n_seqs < TUNE_OUT)
        st = qsf_fail(err, QSF_E_ARGUMENT, "effort 4 (--effort) needs a text of %d sequences; this one has %u",
                      (int)TUNE_OUT, (unsigned)k->text.n_seqs);
    return st;
}

/* Sequences seqs[n] as a batch. */
static tune_batch tune_gather(tune_work *k, const uint32_t *seqs, uint32_t n)
{
    const size_t len = k->text.len, embd = k->net.s->hp.n_embd;
    tune_batch b = { .ids = k->ids, .n_seqs = n, .longest = k->text.len, .first = k->first };
    for (uint32_t i = 0; i < n; i++) {
        const size_t at = seqs[i] * len, n_ids = k->text.lens[seqs[i]];
        k->first[i] = b.n_rows;
        memcpy(k->ids + b.n_rows, k->text.ids + at, n_ids * sizeof *k->ids);
        memcpy(k->wanted + b.n_rows * embd, k->hidden + at * embd, n_ids * embd * sizeof *k->wanted);
        b.n_rows += (uint32_t)n_ids;
    }
    k->first[n] = b.n_rows;
    return b;
}

/* What the teacher's final norm gives, for all of the text. */
static qsf_status tune_teach(tune_work *k, qsf_error *err)
{
    const size_t len = k->text.len, embd = k->net.s->hp.n_embd;
    for (uint32_t s = 0; s < k->text.n_seqs; s += k->at_once) {
        const uint32_t n = QSF_MIN(k->at_once, k->text.n_seqs - s);
        uint32_t seqs[TUNE_AT_ONCE];
        if (qsf_conv_cancelled(k->o)) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
        qsf_conv_progress(k->o, "teach", "", s, k->text.n_seqs);
        for (uint32_t i = 0; i < n; i++) seqs[i] = s + i;
        const tune_batch b = tune_gather(k, seqs, n);
        qsf_tune_forward(&k->run, &k->teacher, &b);
        for (uint32_t i = 0; i < n; i++)
            memcpy(k->hidden + (s + i) * len * embd, k->run.hidden + (size_t)b.first[i] * embd,
                   k->text.lens[s + i] * embd * sizeof(float));
    }
    return QSF_OK;
}

/* ---- steps ---- */

/* The mean divergence of the sequences held out, the last ones. */
static qsf_status tune_measure(tune_work *k, double *kl, qsf_error *err)
{
    const uint32_t from = k->text.n_seqs - k->n_out;
    double sum = 0;
    size_t rows = 0;
    for (uint32_t s = from; s < k->text.n_seqs; s += k->at_once) {
        const uint32_t n = QSF_MIN(k->at_once, k->text.n_seqs - s);
        uint32_t seqs[TUNE_AT_ONCE];
        if (qsf_conv_cancelled(k->o)) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
        for (uint32_t i = 0; i < n; i++) seqs[i] = s + i;
        const tune_batch b = tune_gather(k, seqs, n);
        qsf_tune_forward(&k->run, &k->net, &b);
        sum += b.n_rows * qsf_tune_divergence(&k->run, &k->net, &k->teacher, k->wanted, &b, NULL);
        rows += b.n_rows;
    }
    *kl = rows ? sum / (double)rows : 0;
    return QSF_OK;
}

/* A whole number of n that i and the round choose: each of them once in a round. */
static uint32_t tune_pick(uint32_t i, uint32_t n)
{
    const uint32_t round = i / n;
    uint32_t by = (uint32_t)((double)n * 0.6180339887) | 1, a = n, b = by;
    for (;; a = n, b = ++by) {                  /* the next one without a common divisor */
        while (b) {
            const uint32_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) break;
    }
    return (uint32_t)(((uint64_t)(i % n) * by + round * 7919u) % n);
}

static void tune_step(tune_work *k, uint32_t step, double *kl)
{
    const uint32_t n = k->text.n_seqs - k->n_out, some = QSF_MIN(k->at_once, n);
    const tune_sink sink = { &k->train, qsf_train_take };
    uint32_t seqs[TUNE_AT_ONCE];
    for (uint32_t i = 0; i < some; i++) seqs[i] = tune_pick(step * some + i, n);
    const float warm = QSF_MIN(1, (float)(step + 1) / TUNE_WARM);
    k->train.rate = TUNE_RATE * warm * (1 - (float)step / (float)k->n_steps);
    const tune_batch b = tune_gather(k, seqs, some);
    qsf_tune_forward(&k->run, &k->net, &b);
    *kl = qsf_tune_divergence(&k->run, &k->net, &k->teacher, k->wanted, &b, &sink);
}

static qsf_status tune_steps(tune_work *k, double *before, double *after, qsf_error *err)
{
    uint32_t step = 0;
    double kl;
    qsf_status st = tune_measure(k, before, err);
    *after = *before;
    for (; !st && step < k->n_steps; step++) {
        char name[32];
        if (qsf_conv_cancelled(k->o)) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
        tune_step(k, step, &kl);
        qsf_format(name, sizeof name, "divergence %.4f", kl);
        qsf_conv_progress(k->o, "tune", name, step + 1, k->n_steps);
    }
    return st ? st : tune_measure(k, after, err);
}

/* ---- the file ---- */

/* One tensor as it is now: its bytes are at `to`. */
static void tune_put(tune_work *k, uint32_t i, uint8_t *to)
{
    const qsf_tensor *t = &k->net.s->tensors[i];
    const float *w = k->net.tensors[i].w;
    if (!k->train.t[i].shadow) return;
    if (k->train.t[i].scale) {
        memset(to, 0, (size_t)t->bytes);
        qsf_train_values(&k->train, i, to);
        return;
    }
    for (uint32_t c = 0; c < t->cols; c++) {
        if (t->type == QSF_T_F32) qsf_put32(to + 4 * (size_t)c, qsf_f32_bits(w[c]));
        else if (t->type == QSF_T_F16) qsf_put16(to + 2 * (size_t)c, qsf_f32_to_f16(w[c]));
    }
}

static qsf_status tune_unit(tune_work *k, qsf_writer *w, uint32_t unit, bool changes, qsf_error *err)
{
    const qsf_source *s = k->net.s;
    const qsf_unit *u = &s->units[unit];
    uint8_t *mem;
    qsf_status st = qsf_conv_unit_load(s, unit, &mem, err);
    if (!st) st = qsf_writer_unit_begin(w, unit, err);
    for (uint32_t j = 0; !st && j < u->n_tensors; j++) {
        const uint32_t i = u->first_tensor + j;
        qsf_tensor t = s->tensors[i];
        if (changes) tune_put(k, i, mem + s->places[i]);
        t.data = mem + s->places[i];
        st = qsf_writer_tensor(w, &t, err);
    }
    qsf_dealloc(s->platform, mem, u->raw);
    return st ? st : qsf_writer_unit_end(w, u->importance, err);
}

static qsf_status tune_write(tune_work *k, const char *to, bool changes, uint64_t *bytes, qsf_error *err)
{
    const qsf_source *s = k->net.s;
    qsf_write_options wo = { .default_type = QSF_T_MIXED, .max_tensors = s->n_tensors,
                             .clusters = s->clusters };
    qsf_writer *w;
    for (uint32_t i = 0; i < s->hp.n_layers; i++)
        wo.compression = QSF_MAX(wo.compression, s->units[i].compression);
    qsf_status st = qsf_writer_new(s->platform, to, &s->hp, &s->vocab, s->meta, s->n_meta, &wo, &w, err);
    if (st) return st;
    st = tune_unit(k, w, qsf_unit_embd(s), changes, err);
    for (uint32_t i = 0; !st && i < s->hp.n_layers; i++) {
        qsf_conv_progress(k->o, "write", "", i, s->hp.n_layers);
        st = tune_unit(k, w, i, changes, err);
    }
    if (!st) st = tune_unit(k, w, qsf_unit_final(s), changes, err);
    if (!st) return qsf_writer_commit(w, bytes, err);
    qsf_writer_abort(w);
    return st;
}

/* ---- the whole ---- */

static qsf_status tune_memory(tune_work *k, qsf_error *err)
{
    const qsf_platform *p = k->in->platform;
    const size_t embd = k->net.s->hp.n_embd, len = k->text.len;
    k->at_once = (uint32_t)QSF_MAX(1, TUNE_AT_ONCE / len);
    k->n_out = k->text.n_seqs / TUNE_OUT;
    k->hidden_bytes = (uint64_t)k->text.n_seqs * len * embd * sizeof *k->hidden;
    if (!(k->hidden = qsf_alloc(p, k->hidden_bytes, "a text's predictions", err)) ||
        !(k->ids = qsf_alloc_array(p, k->at_once * len, sizeof *k->ids, "a batch", err)) ||
        !(k->first = qsf_alloc_array(p, k->at_once + 1, sizeof *k->first, "a batch", err)) ||
        !(k->wanted = qsf_alloc_array(p, k->at_once * len * embd, sizeof *k->wanted, "a batch", err)))
        return QSF_E_MEMORY;
    const size_t own = QSF_MAX(qsf_tune_own(&k->net, k->text.len), qsf_train_own(&k->net));
    qsf_status st = qsf_tune_team_new(&k->team, p, qsf_conv_threads(p, k->o), own, err);
    if (!st)
        st = qsf_tune_run_new(&k->run, &k->net, &k->team, k->at_once * k->text.len, k->text.len, true, err);
    k->train.r = &k->run;
    return st;
}

static qsf_status tune_scales(tune_work *k, qsf_error *err)
{
    const qsf_source *s = k->net.s;
    for (uint32_t u = 0; u < s->n_units; u++) {
        uint8_t *mem;
        const qsf_status st = qsf_conv_unit_load(s, u, &mem, err);
        if (st) return st;
        qsf_train_scales(&k->train, u, mem);
        qsf_dealloc(s->platform, mem, s->units[u].raw);
    }
    return QSF_OK;
}

static qsf_status tune_all(tune_work *k, const char *model, const char *to, uint64_t *bytes, qsf_error *err)
{
    const qsf_source *s = k->m->source;
    double before, after;
    qsf_status st;
    k->n_steps = k->o->tune_steps ? k->o->tune_steps : TUNE_STEPS;
    if ((st = qsf_tune_can(s, err)) || (st = tune_text(k, model, err)) ||
        (st = qsf_tune_net_load(&k->net, s, err)) || (st = qsf_tune_net_read(&k->teacher, s, k->in, err)) ||
        (st = qsf_train_new(&k->train, &k->net, err)) || (st = tune_scales(k, err)) ||
        (st = tune_memory(k, err)) || (st = tune_teach(k, err)) ||
        (st = tune_steps(k, &before, &after, err)))
        return st;
    if (!(after < before))
        qsf_conv_warn(k->o, "tuning (--effort 4) took the divergence of text held out from %.4f to %.4f: the "
                      "file stays as effort 3 makes it", before, after);
    return tune_write(k, to, after < before, bytes, err);
}

qsf_status qsf_tune_run_file(input *in, const char *model, const char *from, const char *to,
                             const qsf_convert_options *o, uint64_t *bytes, qsf_error *err)
{
    const qsf_platform *p = in->platform;
    tune_work k = { .o = o, .in = in };
    qsf_model_options mo;
    qsf_model_defaults(&mo);
    mo.platform = p;
    qsf_status st = qsf_model_open(from, &mo, &k.m, err);
    if (st) return st;
    st = tune_all(&k, model, to, bytes, err);
    const uint64_t rows = (uint64_t)k.at_once * k.text.len;
    qsf_dealloc(p, k.wanted, rows * k.m->source->hp.n_embd * sizeof *k.wanted);
    qsf_dealloc(p, k.first, (k.at_once + 1) * sizeof *k.first);
    qsf_dealloc(p, k.ids, rows * sizeof *k.ids);
    qsf_dealloc(p, k.hidden, k.hidden_bytes);
    qsf_train_done(&k.train);
    qsf_tune_run_done(&k.run);
    qsf_tune_team_done(&k.team);
    qsf_tune_net_free(&k.teacher);
    qsf_tune_net_free(&k.net);
    qsf_cal_text_free(&k.text);
    qsf_model_close(k.m);
    return st;
}

#undef TUNE_RATE
