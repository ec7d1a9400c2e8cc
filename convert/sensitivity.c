/* How much each matrix matters: the divergence that comes of a coarse form of it alone.
 * SPDX-License-Identifier: MIT
 *
 * The model is made twice, as nearly lossless and as coarse as the form says, with the same folding
 * of norms and channels, so that a matrix of one fits the network of the other.  Both are resident;
 * in turn each matrix of the first gives its place to the second's, and some texts are run, from
 * that matrix's layer on, or from one before it whose keys are read later.  They are made by the
 * calibration's rules, but by another seed: what errors were fitted to would be too kind.  Floats
 * throughout: codes of activations would hide small divergences. */
#include "sensitivity.h"

#include "calibrate/text.h"
#include "divergence.h"
#include "engine/sequence.h"
#include "plan/caller.h"
#include "sensitivity_file.h"

enum {
    SENS_SEQS = 8, SENS_LEN = 64,   /* of the texts */
    SENS_STRIDE = 4                 /* every fourth position's distribution is compared */
};

typedef struct sens_model {
    char        *path;              /* "" without a file */
    size_t       room;
    qsf_model   *m;
    qsf_context *c;
} sens_model;

typedef struct sens_work {
    input                     *in;
    const qsf_convert_options *o;
    sens_model                 fine, coarse;
    cal_text                   text;
    qsf_row                   *rows;
    uint32_t                   n_rows, n_asked, n_vocab, n_done;
    float                     *base;    /* [n_asked][n_vocab] log-probabilities of the fine model */
    float                     *x;       /* its rows at the input of the layer under way, */
    float                     *alt;     /* and their other streams, NULL if unused */
    size_t                     x_bytes, alt_bytes;
} sens_work;

/* ---- the two files ---- */

/* Of a weight, for how far channels are made alike: a matrix of one file takes another's place only
 * where their channels have the same scales. */
#define SENS_BITS 4.5

/* effort says how norms and channels are folded: the same in both.  Without Hessians 8 bits are
 * rounded plainly, which is quick and near enough.  Routers choose as they do in the file to be
 * made. */
static qsf_status sens_file(sens_work *k, convert_calibration *calibration, const char *type,
                            const char *beside, sens_model *to, qsf_error *err)
{
    const qsf_platform *p = k->in->platform;
    qsf_convert_options o = *k->o;
    const qsf_convert_rule rules[] = { { .pattern = "*", .type = type },
                                       { .pattern = qsf_kind_name(QSF_K_ROUTER), .type = "f16" } };
    convert_report report;
    qsf_status st;
    o.rules = rules;
    o.n_rules = k->in->hp.n_experts ? 2 : 1;
    o.block = 0;
    o.packing = 1;
    o.compression = QSF_CONVERT_NONE;
    o.progressive = false;
    o.target_bytes = 0;
    o.target_kl = 0;
    o.head_clusters = 0;
    to->room = strlen(beside) + 64;
    if (!(to->path = qsf_alloc(p, to->room, "a file's name", err))) return QSF_E_MEMORY;
    if ((st = qsf_host_between(p, beside, to->path, to->room, err))) return st;
    k->in->level_bits = SENS_BITS;
    st = qsf_conv_run_calibrated(k->in, calibration, &o, to->path, &report, err);
    k->in->level_bits = 0;
    return st;
}

static qsf_status sens_model_open(const sens_work *k, sens_model *to, qsf_error *err)
{
    qsf_model_options mo;
    qsf_model_defaults(&mo);
    mo.platform = k->in->platform;
    return qsf_model_open(to->path, &mo, &to->m, err);
}

static void sens_model_done(const qsf_platform *p, sens_model *k)
{
    qsf_context_free(k->c);
    qsf_model_close(k->m);
    if (k->path && *k->path) qsf_host_remove(p, k->path);
    qsf_dealloc(p, k->path, k->room);
}

/* ---- memory ---- */

static qsf_status sens_context(const sens_work *k, sens_model *to, qsf_error *err)
{
    const uint64_t base = (uint64_t)k->n_asked * k->n_vocab * sizeof *k->base, ram = k->o->ram_bytes;
    qsf_context_options co;
    qsf_context_defaults(&co);
    co.n_seqs = k->text.n_seqs;
    co.n_ctx = qsf_cal_positions(co.n_seqs, k->text.len);
    co.n_batch = k->n_rows;
    co.n_logits = k->n_asked;
    co.f32 = true;
    co.n_threads = k->o->n_threads;
    if (ram) co.ram_budget = ram > base + 1 ? (ram - base) / 2 : 1;
    const qsf_status st = qsf_context_new(to->m, &co, &to->c, err);
    if (st || (to->c->o.n_batch == co.n_batch && to->c->o.n_ctx == co.n_ctx)) return st;
    return qsf_fail(err, QSF_E_BUDGET, "ram_bytes (--ram) is too small for a batch of the texts");
}

/* The unit's matrices, which stay where they are for the context's life; NULL: they do not. */
static qsf_weights *sens_resident(qsf_context *c, uint32_t unit)
{
    const int32_t slot = c->fetch.slot_of[unit];
    return slot >= 0 && c->fetch.slots[slot].pinned ? c->fetch.slots[slot].w : NULL;
}

static qsf_status sens_load(const sens_model *m, uint32_t n_layers, bool *all, qsf_error *err)
{
    const qsf_weights *w;
    for (uint32_t u = 0; u < qsf_units_of(n_layers); u++) {
        const qsf_unit_id id = qsf_unit_id_at(n_layers, u);
        if (m->c->embedding.streamed || m->c->experts.fetch) *all = false;
        if (!*all) return QSF_OK;
        const qsf_status st = qsf_fetch_unit(&m->c->fetch, id, true, &w, err);
        if (st) return st;
        *all = sens_resident(m->c, u) != NULL;
    }
    return QSF_OK;
}

/* ---- one pass ---- */

static void sens_rows(sens_work *k, qsf_row *rows)
{
    const cal_text *t = &k->text;
    k->n_rows = k->n_asked = 0;
    for (uint32_t s = 0; s < t->n_seqs; s++)
        for (uint32_t i = 0; i < t->lens[s]; i++) {
            const bool asks = i % SENS_STRIDE == SENS_STRIDE - 1;
            if (rows) rows[k->n_rows] = (qsf_row){ (qsf_seq)s, t->ids[(size_t)s * t->len + i], asks };
            k->n_rows++;
            k->n_asked += asks;
        }
}

/* The layer that a unit's matrices first act in: layers before it compute what they always do.  The
 * head acts in the last one, for that is whose rows it takes. */
static uint32_t sens_layer(const sens_work *k, uint32_t unit)
{
    const uint32_t n_layers = k->in->hp.n_layers;
    if (unit == qsf_unit_number(n_layers, qsf_id_embd())) return 0;
    return QSF_MIN(unit, n_layers - 1);
}

/* The first layer of a pass whose first change is in `layer`, chosen so that the pass computes all
 * keys that its layers read: a new sequence may hold keys elsewhere. */
static uint32_t sens_start(const sens_work *k, uint32_t layer)
{
    const uint32_t n_layers = k->in->hp.n_layers;
    uint32_t start = layer;
    for (uint32_t l = layer; l < n_layers; l++) {
        const uint32_t from = qsf_source_layer(k->fine.m->source, l)->kv_from;
        if (from && from - 1 < start) l = start = from - 1;
    }
    return start;
}

/* The batch at the input of layer `from`, in the state k->x and k->alt. */
static qsf_status sens_begin(sens_work *k, uint32_t from)
{
    qsf_context *c = k->fine.c;
    qsf_status st = QSF_OK;
    qsf_batch_drop(c);
    for (uint32_t s = 0; !st && s < k->text.n_seqs; s++) st = qsf_seq_truncate(c, (qsf_seq)s, 0);
    if (!st) st = qsf_batch_begin(c, k->rows, k->n_rows);
    for (bool wait = false; !st && !c->now.stage;) {
        if ((st = qsf_step(c, &wait)) != QSF_PENDING) break;
        st = wait ? qsf_wait(c) : QSF_OK;
    }
    if (st || !from) return st;
    memcpy(c->b.x, k->x, k->x_bytes);
    if (k->alt) memcpy(c->b.alt, k->alt, k->alt_bytes);
    c->now.stage = 1 + from;
    return QSF_OK;
}

static qsf_status sens_end(sens_work *k)
{
    bool waiting;
    qsf_status st = QSF_OK;
    while (!st) {
        if ((st = qsf_step(k->fine.c, &waiting)) != QSF_PENDING) return st;
        st = waiting ? qsf_wait(k->fine.c) : QSF_OK;
    }
    return st;
}

/* All texts from layer `from` on; first: what the others are compared with. */
static qsf_status sens_pass(sens_work *k, uint32_t from, bool first, double *kl, qsf_error *err)
{
    qsf_context *c = k->fine.c;
    *kl = 0;
    if (qsf_conv_cancelled(k->o)) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
    qsf_status st = sens_begin(k, from);
    if (!st) st = sens_end(k);
    if (st) return qsf_fail(err, st, "%s", qsf_last_error(c));
    for (uint32_t i = 0; i < k->n_asked; i++)
        *kl += qsf_conv_divergence(qsf_logits(c, i), k->n_vocab, k->base + (size_t)i * k->n_vocab, first);
    *kl = QSF_MAX(*kl / QSF_MAX(k->n_asked, 1), 0.0);
    return QSF_OK;
}

static qsf_status sens_swap(sens_work *k, uint32_t i, double *kl, qsf_error *err)
{
    const input_tensor *t = &k->in->tensors[i];
    qsf_matrix *m = &sens_resident(k->fine.c, t->unit)->m[t->kind];
    const qsf_matrix own = *m;
    *m = sens_resident(k->coarse.c, t->unit)->m[t->kind];
    const qsf_status st = sens_pass(k, sens_start(k, sens_layer(k, t->unit)), false, kl, err);
    *kl = (float)*kl;                   /* as the file has it */
    *m = own;
    return st;
}

static qsf_status sens_unit(sens_work *k, uint32_t unit, const bool *asked, double *kl, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; !st && i < k->in->n_tensors; i++) {
        if (!asked[i] || k->in->tensors[i].unit != unit) continue;
        qsf_conv_progress(k->o, "measure", k->in->tensors[i].name, k->n_done++, k->in->n_tensors);
        st = sens_swap(k, i, &kl[i], err);
    }
    return st;
}

/* k->x and k->alt become the input of layer l + 1. */
static qsf_status sens_next(sens_work *k, uint32_t l, qsf_error *err)
{
    qsf_status st = sens_begin(k, l);
    while (!st && k->fine.c->now.stage <= 1 + l)
        if ((st = qsf_step(k->fine.c, NULL)) == QSF_PENDING) st = QSF_OK;
    if (st) return qsf_fail(err, st, "%s", qsf_last_error(k->fine.c));
    memcpy(k->x, k->fine.c->b.x, k->x_bytes);
    if (k->alt) memcpy(k->alt, k->fine.c->b.alt, k->alt_bytes);
    return QSF_OK;
}

static qsf_status sens_each(sens_work *k, const bool *asked, double *kl, qsf_error *err)
{
    const uint32_t n_layers = k->in->hp.n_layers;
    uint32_t at = 0;
    double none;
    qsf_status st = sens_pass(k, 0, true, &none, err);
    if (!st) st = sens_unit(k, qsf_unit_number(n_layers, qsf_id_embd()), asked, kl, err);
    for (uint32_t l = 0; !st && l < n_layers; l++) {
        while (!st && at < sens_start(k, l)) st = sens_next(k, at++, err);
        if (!st) st = sens_unit(k, l, asked, kl, err);
    }
    return st ? st : sens_unit(k, qsf_unit_number(n_layers, qsf_id_final()), asked, kl, err);
}

/* ---- the whole ---- */

static void sens_text_options(qsf_convert_options *to, const qsf_convert_options *from)
{
    *to = *from;
    if (!to->calibrate) to->calibrate = "self";
    to->calibrate_seed++;
    to->calibrate_seqs = SENS_SEQS;
    to->calibrate_len = SENS_LEN;
}

static qsf_status sens_text(sens_work *k, qsf_error *err)
{
    qsf_convert_options o;
    sens_text_options(&o, k->o);
    const qsf_status st = qsf_cal_text(&k->text, k->fine.m, &o, err);
    if (st) return st;
    /* A model that has learned its positions may not take all of them at once. */
    k->text.n_seqs = qsf_cal_seqs(k->fine.m, k->text.n_seqs, k->text.len);
    sens_rows(k, NULL);
    return QSF_OK;
}

static qsf_status sens_run(sens_work *k, convert_calibration *calibration, const char *path,
                           const bool *asked, double *kl, bool *known, qsf_error *err)
{
    const qsf_platform *p = k->in->platform;
    const uint32_t n_layers = k->in->hp.n_layers;
    qsf_status st;
    if ((st = sens_file(k, NULL, "8bit", path, &k->fine, err)) ||
        (st = sens_file(k, calibration, qsf_type_get(QSF_SENS_TYPE)->name, path, &k->coarse, err)) ||
        (st = sens_model_open(k, &k->fine, err)) || (st = sens_model_open(k, &k->coarse, err)) ||
        (st = sens_text(k, err)) || (st = sens_context(k, &k->fine, err)) ||
        (st = sens_context(k, &k->coarse, err)))
        return st;
    if ((st = sens_load(&k->fine, n_layers, known, err)) ||
        (st = sens_load(&k->coarse, n_layers, known, err)) || !*known)
        return st;
    k->rows = qsf_alloc_array(p, k->n_rows, sizeof *k->rows, "a batch", err);
    k->base = k->rows ? qsf_alloc_array(p, (uint64_t)k->n_asked * k->n_vocab, sizeof *k->base,
                                        "probabilities to compare with", err) : NULL;
    const qsf_buffers *b = &k->fine.c->b;
    k->x_bytes = (size_t)k->n_rows * b->ld_embd * sizeof *k->x;
    k->alt_bytes = b->alt ? (size_t)k->n_rows * b->ld_alt * sizeof *k->alt : 0;
    if (!k->base || !(k->x = qsf_alloc(p, k->x_bytes, "a layer's input", err)) ||
        (b->alt && !(k->alt = qsf_alloc(p, k->alt_bytes, "a layer's input", err))))
        return QSF_E_MEMORY;
    sens_rows(k, k->rows);
    return sens_each(k, asked, kl, err);
}

static qsf_status sens_measure(input *in, convert_calibration *calibration, const qsf_convert_options *o,
                               const char *path, const bool *asked, double *kl, bool *known, qsf_error *err)
{
    const qsf_platform *p = in->platform;
    sens_work k = { .in = in, .o = o, .n_vocab = in->hp.n_vocab };
    *known = true;
    qsf_status st = sens_run(&k, calibration, path, asked, kl, known, err);
    if (st == QSF_E_BUDGET) {
        *known = false;
        st = QSF_OK;
    }
    qsf_dealloc(p, k.alt, k.alt_bytes);
    qsf_dealloc(p, k.x, k.x_bytes);
    qsf_dealloc(p, k.base, (uint64_t)k.n_asked * k.n_vocab * sizeof *k.base);
    qsf_dealloc(p, k.rows, k.n_rows * sizeof *k.rows);
    sens_model_done(p, &k.coarse);
    sens_model_done(p, &k.fine);
    qsf_cal_text_free(&k.text);
    if (!*known)
        qsf_conv_warn(o, "ram_bytes (--ram) is too small to measure how much each matrix matters: using the "
                      "sensitivities that another model has for each kind of matrix");
    return st;
}

/* ---- kept ---- */

#define SENS_SUFFIX ".sensitivity"

/* What the numbers come of: the calibration, the texts, and how matrices are folded and made. */
static qsf_status sens_key(const input *in, const convert_calibration *calibration,
                           const qsf_convert_options *o, uint32_t *key, qsf_error *err)
{
    uint8_t bytes[28];
    uint32_t text;
    qsf_convert_options of_text;
    sens_text_options(&of_text, o);
    const qsf_status st = qsf_cal_settings(in->platform, &of_text, &text, err);
    if (st) return st;
    qsf_put32(bytes, qsf_cal_key(calibration));
    qsf_put32(bytes + 4, text);
    qsf_put32(bytes + 8, QSF_SENS_TYPE);
    qsf_put32(bytes + 12, (uint32_t)o->equalize);
    qsf_put32(bytes + 16, (uint32_t)o->effort);
    qsf_put32(bytes + 20, SENS_STRIDE);
    qsf_put32(bytes + 24, in->hp.tied);
    *key = qsf_crc32(0, bytes, sizeof bytes);
    return QSF_OK;
}

/* kept: the file's name. */
static qsf_status sens_kept(input *in, convert_calibration *calibration, const qsf_convert_options *o,
                            const char *path, const char *kept, const bool *asked, double *kl, bool *known,
                            qsf_error *err)
{
    uint32_t key;
    qsf_status st = sens_key(in, calibration, o, &key, err);
    if (st) return st;
    if (in->reads && in->reads(in, kept))       /* a model of that name stays what it is */
        return sens_measure(in, calibration, o, path, asked, kl, known, err);
    st = qsf_sens_file_read(in, kept, key, asked, kl, known, err);
    if (st == QSF_E_CORRUPT) {
        qsf_conv_warn(o, "%s: is damaged; sensitivities are measured again", kept);
        st = QSF_OK;
    }
    if (st || *known) return st;
    memset(kl, 0, in->n_tensors * sizeof *kl);
    st = sens_measure(in, calibration, o, path, asked, kl, known, err);
    return st || !*known ? st : qsf_sens_file_write(in, kept, key, asked, kl, err);
}

qsf_status qsf_sens_measure(input *in, convert_calibration *calibration, const qsf_convert_options *o,
                            const char *path, const bool *asked, double *kl, bool *known, qsf_error *err)
{
    memset(kl, 0, in->n_tensors * sizeof *kl);
    if (!o->calibration_file || !qsf_cal_key(calibration))
        return sens_measure(in, calibration, o, path, asked, kl, known, err);
    const uint64_t room = strlen(o->calibration_file) + sizeof SENS_SUFFIX;
    char *kept = qsf_alloc(in->platform, room, "a file's name", err);
    if (!kept) return QSF_E_MEMORY;
    qsf_format(kept, (size_t)room, "%s" SENS_SUFFIX, o->calibration_file);
    const qsf_status st = sens_kept(in, calibration, o, path, kept, asked, kl, known, err);
    qsf_dealloc(in->platform, kept, room);
    return st;
}

#undef SENS_BITS
#undef SENS_SUFFIX
