/* Effort 4: tunes the codes, norms and biases of a file so that its predictions match the input's.
 * SPDX-License-Identifier: MIT
 *
 * The input model generates training data, as for a calibration but with another seed, and is run
 * on it once; the output of its final norm is kept.  Then, step by step, the output's network is
 * run on a few sequences, and the tuned values (train.c) follow the negative gradient of the
 * divergence of its predictions.  An eighth of the data is held out: if the divergence on it has
 * not fallen, nothing is changed.  With a calibration file, the progress is saved in a second file,
 * from which an interrupted run resumes. */
#include "tune/tune.h"

#include "calibrate/text.h"
#include "engine/context.h"
#include "model/qsf_write.h"
#include "plan/caller.h"
#include "plan/team.h"
#include "tune/backward.h"
#include "tune/forward.h"
#include "tune/progress.h"

enum {
    TUNE_AT_ONCE = 256,         /* rows of a step */
    TUNE_OUT = 8,               /* one sequence in this many is held out */
    TUNE_STEPS = 150,
    TUNE_SAVE = 50,             /* steps after which what was done is kept */
    TUNE_WARM = 5
};
#define TUNE_CODE_RATE 0.02f
#define TUNE_VECTOR_RATE 0.01f

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
    char         *path;         /* of the file that keeps where tuning is; NULL: none does */
    size_t        room;
    uint32_t      key;          /* of that file */
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
        st = qsf_fail(err, QSF_E_ARGUMENT, "effort 4 (--effort) needs text of %d sequences; this one has %u",
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
    const float by = QSF_MIN(1, (float)(step + 1) / TUNE_WARM) * (1 - (float)step / (float)k->n_steps);
    k->train.rate = TUNE_CODE_RATE * by;
    k->train.vector_rate = TUNE_VECTOR_RATE * by;
    const tune_batch b = tune_gather(k, seqs, some);
    qsf_tune_forward(&k->run, &k->net, &b);
    *kl = qsf_tune_divergence(&k->run, &k->net, &k->teacher, k->wanted, &b, &sink);
}

/* ---- what was done ---- */

#define TUNE_SUFFIX ".tune"

/* Where progress is kept, and a number of all that it depends on. */
static qsf_status tune_keep(tune_work *k, qsf_error *err)
{
    const qsf_platform *p = k->in->platform;
    const char *beside = k->o->calibration_file;
    uint8_t bytes[8];
    if (!beside) return QSF_OK;
    k->room = strlen(beside) + sizeof TUNE_SUFFIX;
    if (!(k->path = qsf_alloc(p, k->room, "a file's name", err))) return QSF_E_MEMORY;
    qsf_format(k->path, k->room, "%s" TUNE_SUFFIX, beside);
    if (k->in->reads && k->in->reads(k->in, k->path))
        return qsf_fail(err, QSF_E_ARGUMENT, "%s is where tuning would save its progress, but it belongs to "
                        "the input", k->path);
    qsf_put32(bytes, k->n_steps);
    qsf_put32(bytes + 4, k->at_once << 1 | k->o->tune_codes);
    k->key = qsf_crc32(0, bytes, sizeof bytes);
    k->key = qsf_crc32(k->key, k->text.ids, (size_t)k->text.n_seqs * k->text.len * sizeof *k->text.ids);
    for (uint32_t i = 0; i < k->net.n; i++) {
        const tune_tensor *t = &k->net.tensors[i];
        k->key = qsf_crc32(k->key, t->w, (size_t)t->rows * t->cols * sizeof *t->w);
    }
    return QSF_OK;
}

static qsf_status tune_save(tune_work *k, uint32_t step, double before, qsf_error *err)
{
    return k->path ? qsf_progress_write(&k->train, k->path, k->key, step, before, err) : QSF_OK;
}

/* The step where tuning begins: 0, or the one where it was interrupted. */
static qsf_status tune_begin(tune_work *k, uint32_t *step, double *before, qsf_error *err)
{
    *step = 0;
    qsf_status st = tune_keep(k, err);
    if (!st && k->path) st = qsf_progress_read(&k->train, k->path, k->key, step, before, err);
    if (st || !*step) return st ? st : tune_measure(k, before, err);
    for (uint32_t i = 0; i < k->net.n; i++) {
        const tune_tensor *t = &k->net.tensors[i];
        if (k->train.t[i].scale) qsf_train_values(&k->train, i, NULL);
        else if (k->train.t[i].shadow) memcpy(t->w, k->train.t[i].shadow, t->cols * sizeof *t->w);
    }
    return QSF_OK;
}

static qsf_status tune_steps(tune_work *k, double *before, double *after, qsf_error *err)
{
    uint32_t step;
    double kl = 0;
    qsf_status st = tune_begin(k, &step, before, err);
    while (!st && step < k->n_steps) {
        char name[32];
        const bool stops = qsf_conv_cancelled(k->o);
        if (step && (stops || step % TUNE_SAVE == 0)) st = tune_save(k, step, *before, err);
        if (stops && !st) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
        if (st) break;
        tune_step(k, step++, &kl);
        qsf_format(name, sizeof name, "divergence %.4f", kl);
        qsf_conv_progress(k->o, "tune", name, step, k->n_steps);
    }
    return st ? st : tune_measure(k, after, err);
}

/* ---- the file ---- */

/* Stores the current values of one tensor: its bytes are at `to`. */
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
    qsf_status st = qsf_writer_unit_begin(w, unit, err);
    for (uint32_t j = 0; !st && j < u->n_tensors; j++) {
        qsf_tensor t = s->tensors[u->first_tensor + j];
        void *data;
        if ((st = qsf_source_load(s, unit, j, &data, err))) return st;
        if (changes) tune_put(k, u->first_tensor + j, data);
        t.data = data;
        st = qsf_writer_tensor(w, &t, err);
        qsf_dealloc(s->platform, data, t.bytes);
    }
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
    if (!(k->hidden = qsf_alloc(p, k->hidden_bytes, "predictions", err)) ||
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
    for (uint32_t u = 0; u < s->n_units; u++)
        for (uint32_t j = 0; j < s->units[u].n_tensors; j++) {
            const uint32_t i = s->units[u].first_tensor + j;
            void *data;
            if (!k->train.t[i].scale) continue;
            const qsf_status st = qsf_source_load(s, u, j, &data, err);
            if (st) return st;
            qsf_train_scales(&k->train, i, data);
            qsf_dealloc(s->platform, data, s->tensors[i].bytes);
        }
    return QSF_OK;
}

/* Two networks, shadows where codes are tuned, and rows of a step in all layers. */
static qsf_status tune_fits(const tune_work *k, const qsf_source *s, qsf_error *err)
{
    const qsf_layer_most *m = &s->most;
    const uint64_t row = 4 * (uint64_t)s->hp.n_embd + 2 * (uint64_t)m->q + 2 * (uint64_t)m->kv +
                         2 * (uint64_t)m->n_ff;
    const uint64_t weights = (k->o->tune_codes ? 3 : 2) * s->n_params;
    const uint64_t bytes = sizeof(float) * (weights + row * TUNE_AT_ONCE * s->hp.n_layers);
    if (!k->o->ram_bytes || bytes <= k->o->ram_bytes) return QSF_OK;
    return qsf_fail(err, QSF_E_BUDGET, "effort 4 (--effort) needs %llu MB, but ram_bytes (--ram) allows %llu "
                    "MB; effort 3 needs less", (unsigned long long)(bytes / 1000000 + 1),
                    (unsigned long long)(k->o->ram_bytes / 1000000));
}

static qsf_status tune_all(tune_work *k, const char *model, const char *to, uint64_t *bytes, qsf_error *err)
{
    const qsf_source *s = k->m->source;
    double before, after;
    qsf_status st;
    k->n_steps = k->o->tune_steps ? k->o->tune_steps : TUNE_STEPS;
    if ((st = qsf_tune_can(s, err)) || (st = tune_fits(k, s, err)) || (st = tune_text(k, model, err)) ||
        (st = qsf_tune_net_load(&k->net, s, err)) || (st = qsf_tune_net_read(&k->teacher, s, k->in, err)) ||
        (st = qsf_train_new(&k->train, &k->net, k->o->tune_codes, err)) || (st = tune_scales(k, err)) ||
        (st = tune_memory(k, err)) || (st = tune_teach(k, err)) ||
        (st = tune_steps(k, &before, &after, err)))
        return st;
    if (!(after < before))
        qsf_conv_warn(k->o, "tuning (--effort 4) changed the divergence on held-out text from %.4f to %.4f: "
                      "the file keeps the result of effort 3", before, after);
    st = tune_write(k, to, after < before, bytes, err);
    if (!st && k->path) qsf_host_remove(k->in->platform, k->path);
    return st;
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
    qsf_dealloc(p, k.path, k.room);
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

#undef TUNE_CODE_RATE
#undef TUNE_VECTOR_RATE
#undef TUNE_SUFFIX
