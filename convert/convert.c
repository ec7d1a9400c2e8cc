/* Makes the file: every tensor read in bands of rows, quantised on all threads, written in order.
 * SPDX-License-Identifier: MIT
 *
 * Memory: each thread holds one band of floats and of blocks, and there is one whole tensor in its
 * new form, so the need grows with the largest tensor, not with the model.  Bands have one size on
 * every machine and their errors are added in order: neither the file nor the report depends on the
 * number of threads. */
#include "convert.h"

#include "encode/encode.h"
#include "encode/source.h"
#include "model/qsf_write.h"
#include "output.h"
#include "plan/band.h"
#include "plan/caller.h"
#include "plan/choose.h"
#include "plan/clusters.h"
#include "plan/forms.h"
#include "plan/loss.h"
#include "plan/stored.h"
#include "plan/team.h"
#include "read/tie.h"

typedef struct convert_run {
    input                     *in;
    const qsf_convert_options *o;
    qsf_writer                *w;
    encode_source              source;
} convert_run;

/* ---- one tensor ---- */

typedef struct convert_task {
    input                *in;
    uint32_t              tensor, band_rows;
    uint32_t              first, rows;  /* those of the tensor that are this task's */
    const convert_tensor *c;
    convert_band         *bands;        /* one a thread */
    encode_rows           encode;       /* f: NULL if no factor is used */
    encode_band          *own;          /* then one a thread */
    uint8_t              *dst;
    uint64_t              band_bytes;   /* of the new form */
    qsf_quant_error      *errors;       /* one a band */
    encode_loss          *losses;       /* one a band */
    convert_found        *found;        /* one a band, where outliers are kept apart */
    bool                  copies;       /* measure only: the bytes are copied unchanged */
} convert_task;

/* A tensor that is copied has an error of 0. */
static qsf_status convert_measure_copy(convert_task *k, uint32_t row, uint32_t n, convert_band *band,
                                       qsf_quant_error *e, qsf_error *err)
{
    const input_tensor *t = &k->in->tensors[k->tensor];
    const uint64_t values = (uint64_t)n * t->cols;
    const qsf_status st = k->in->read(k->in, k->tensor, row, n, band->values, err);
    if (st) return st;
    if (!qsf_all_finite(band->values, (size_t)values))
        return qsf_fail(err, QSF_E_CORRUPT, "tensor %s: a weight of rows %u to %u is not finite", t->name,
                        (unsigned)row, (unsigned)(row + n - 1));
    for (uint64_t i = 0; i < values; i++) e->sum_sq += (double)band->values[i] * band->values[i];
    e->dot = e->deq_sq = e->sum_sq;
    return QSF_OK;
}

static qsf_status convert_one_band(void *user, uint32_t i, uint32_t thread, qsf_error *err)
{
    convert_task *k = user;
    const uint32_t at = i * k->band_rows, n = QSF_MIN(k->band_rows, k->rows - at), row = k->first + at;
    if (k->copies) return convert_measure_copy(k, row, n, &k->bands[thread], &k->errors[i], err);
    uint8_t *dst = k->dst + i * k->band_bytes;
    if (k->encode.f)
        return qsf_enc_rows(&k->encode, row, n, &k->bands[thread], &k->own[thread], dst, &k->errors[i],
                            &k->losses[i], err);
    qsf_status st = qsf_conv_rows(k->in, k->tensor, k->c, row, n, &k->bands[thread], dst, &k->errors[i], err);
    if (st == QSF_OK && k->c->keeps_outliers)
        st = qsf_conv_found_copy(k->in->platform, &k->bands[thread].found, &k->found[i], err);
    return st;
}

/* The bands of all threads must fit in memory together with the tensor; if they do not, fewer
 * threads are used. */
static qsf_status convert_fit(const input_tensor *t, const convert_task *k, const qsf_convert_options *o,
                              uint32_t *n_threads, qsf_error *err)
{
    const uint64_t band = (uint64_t)k->band_rows * ((uint64_t)t->cols * 2 + QSF_MAX_BLOCK) * sizeof(float) +
                          (k->encode.f ? qsf_enc_band_bytes(t->cols) : 0);
    const uint64_t bytes = k->c->bytes + (k->encode.f ? qsf_enc_factor_bytes(k->encode.f) : 0);
    if (!o->ram_bytes || bytes + *n_threads * band <= o->ram_bytes) return QSF_OK;
    if (bytes + band > o->ram_bytes)
        return qsf_fail(err, QSF_E_BUDGET, "tensor %s needs %llu MB at once, but ram_bytes (--ram) allows "
                                           "%llu MB",
                        t->name, (unsigned long long)((bytes + band) / 1000000 + 1),
                        (unsigned long long)(o->ram_bytes / 1000000));
    *n_threads = (uint32_t)((o->ram_bytes - bytes) / band);
    return QSF_OK;
}

/* The memory of all bands, which convert_free takes half-built, too. */
static qsf_status convert_new(const input_tensor *t, convert_task *k, uint32_t n, uint32_t n_threads,
                              qsf_error *err)
{
    const qsf_platform *p = k->in->platform;
    k->errors = qsf_alloc_array(p, n, sizeof *k->errors, "bands", err);
    k->losses = qsf_alloc_array(p, n, sizeof *k->losses, "bands", err);
    k->found = qsf_alloc_array(p, n, sizeof *k->found, "outliers", err);
    if (!k->errors || !k->losses || !k->found) return QSF_E_MEMORY;
    const qsf_status st = qsf_conv_bands_new(p, n_threads, t->cols, &k->bands, err);
    return st || !k->encode.f ? st : qsf_enc_bands_new(p, n_threads, t->cols, &k->own, err);
}

static void convert_free(convert_task *k, uint32_t n, uint32_t n_threads)
{
    const qsf_platform *p = k->in->platform;
    for (uint32_t b = 0; k->found && b < n; b++) qsf_conv_found_free(p, &k->found[b]);
    qsf_conv_bands_free(p, n_threads, k->bands);
    qsf_enc_bands_free(p, n_threads, k->own);
    qsf_dealloc(p, k->errors, (uint64_t)n * sizeof *k->errors);
    qsf_dealloc(p, k->losses, (uint64_t)n * sizeof *k->losses);
    qsf_dealloc(p, k->found, (uint64_t)n * sizeof *k->found);
}

/* Chooses how the tensor is encoded: with a factor, by the importance of its columns, or without
 * either. */
static qsf_status convert_prepare(encode_source *s, uint32_t i, convert_tensor *c, convert_task *k,
                                  bool *measured, qsf_error *err)
{
    const qsf_platform *p = k->in->platform;
    const encode_factor *f;
    const qsf_status st = qsf_enc_factor_of(s, i, c, &f, measured, err);
    c->importance = NULL;
    c->output_error = c->output_energy = 0;
    if (st || !f) return st;
    if (f->diagonal && !qsf_enc_steps(c->type)) c->importance = f->weight;
    else
        k->encode = (encode_rows){ .in = k->in, .tensor = i, .c = c, .f = f,
                                   .lanes = qsf_enc_lanes(p->cpu_features ? p->cpu_features(p->user) : 0) };
    return QSF_OK;
}

/* Fills dst with rows [first, first + rows) of tensor i in its new form, and *sparse with its
 * outliers if they are stored separately.  dst NULL: only measures them. */
static qsf_status convert_rows_to(convert_run *w, uint32_t i, uint32_t first, uint32_t rows,
                                  convert_tensor *c, uint8_t *dst, void **sparse, qsf_error *err)
{
    input *in = w->in;
    const qsf_platform *p = in->platform;
    const input_tensor *t = &in->tensors[i];
    convert_task k = { .in = in, .tensor = i, .band_rows = qsf_conv_band_rows(t->cols), .first = first,
                       .rows = rows, .c = c, .dst = dst };
    const uint32_t n = (uint32_t)qsf_ceil_div(rows, k.band_rows);
    uint32_t n_threads = QSF_MAX(1, QSF_MIN(qsf_conv_threads(p, w->o), n));
    bool measured = false;
    qsf_status st;
    if ((st = qsf_tensor_bytes(c->type, c->packing, c->block, k.band_rows, t->cols, &k.band_bytes, err)))
        return st;
    k.copies = !dst;
    if (!k.copies && (st = convert_prepare(&w->source, i, c, &k, &measured, err))) return st;
    if ((st = convert_fit(t, &k, w->o, &n_threads, err))) return st;
    st = convert_new(t, &k, n, n_threads, err);
    if (!st) st = qsf_conv_parallel(p, w->o, n_threads, n, convert_one_band, &k, err);
    for (uint32_t b = 0; !st && b < n; b++) {
        qsf_conv_add_error(&c->error, &k.errors[b]);
        if (!measured) continue;
        c->output_error += k.losses[b].error;
        c->output_energy += k.losses[b].energy;
    }
    if (!st && c->keeps_outliers && dst) st = qsf_conv_found_join(p, k.found, n, t->rows, c, sparse, err);
    convert_free(&k, n, n_threads);
    c->importance = NULL;
    return st;
}

/* Tensor i, in its parts. */
static qsf_status convert_tensor_to(convert_run *w, uint32_t i, convert_tensor *c, uint8_t *dst,
                                    void **sparse, qsf_error *err)
{
    const input_tensor *t = &w->in->tensors[i];
    const uint32_t n = qsf_enc_parts(&w->source, t, c), rows = t->rows / n;
    uint64_t bytes = 0;
    if (n == 1 || !dst) return convert_rows_to(w, i, 0, t->rows, c, dst, sparse, err);
    qsf_status st = qsf_tensor_bytes(c->type, c->packing, c->block, rows, t->cols, &bytes, err);
    for (uint32_t e = 0; !st && e < n; e++) {
        w->source.expert = e + 1;
        st = convert_rows_to(w, i, e * rows, rows, c, dst + e * bytes, sparse, err);
    }
    w->source.expert = 0;
    return st;
}

/* Sets *from to tensor i's stored bytes if it can be copied.  In a file made with the preset
 * `mixed` each tensor keeps its form, even if a low cosine had raised it. */
static qsf_status convert_copies(const convert_run *k, uint32_t i, convert_tensor *c, input_stored *from,
                                 qsf_error *err)
{
    input *in = k->in;
    const qsf_convert_options *o = k->o;
    const bool may_raise = in->stored && o->preset == QSF_CONVERT_MIXED && !o->target_bytes && !c->fixed &&
                           in->preset && !strcmp(in->preset, qsf_convert_preset_name(o->preset));
    convert_tensor to = *c;
    *from = (input_stored){ 0 };
    if (k->source.hessians) return QSF_OK;
    qsf_status st = may_raise ? in->stored(in, i, false, from, err) : QSF_OK;
    if (from->bytes > c->bytes && from->packing == c->packing) {
        to.type = from->type;
        to.block = from->block;
        to.bytes = from->bytes;
        to.raised = true;
    }
    if (!st) st = qsf_conv_stored(in, i, &to, from, err);
    if (st || !from->bytes || (from->sparse != NULL) != c->keeps_outliers) {
        *from = (input_stored){ 0 };
        return st;
    }
    to.n_outliers = from->n_outliers;
    to.outlier_bytes = from->sparse_bytes;
    *c = to;
    return in->stored(in, i, true, from, err);
}

static qsf_status convert_write_outliers(const input_tensor *t, const convert_tensor *c, const void *sparse,
                                         qsf_writer *w, qsf_error *err)
{
    const qsf_tensor out = { .kind = QSF_K_OUTLIERS | t->kind,
                             .type = QSF_T_SPARSE,
                             .packing = 0,
                             .block = 1,
                             .rows = t->rows,
                             .cols = (uint32_t)c->n_outliers,
                             .bytes = c->outlier_bytes,
                             .data = sparse };
    return qsf_writer_tensor(w, &out, err);
}

static qsf_status convert_write_scale(const input_tensor *t, const convert_tensor *c, qsf_writer *w,
                                      qsf_error *err)
{
    uint8_t bytes[4];
    const qsf_tensor out = { .kind = QSF_K_SCALE + t->kind, .type = QSF_T_F32, .block = 1, .rows = 1,
                             .cols = 1, .bytes = sizeof bytes, .data = bytes };
    qsf_put32(bytes, qsf_f32_bits(c->scale));
    return qsf_writer_tensor(w, &out, err);
}

/* mixed promises this cosine of every matrix that the user did not choose a type for. */
#define CONVERT_LEAST_COSINE 0.99

static qsf_status convert_write_tensor(convert_run *k, uint32_t i, convert_tensor *c, qsf_error *err)
{
    input *in = k->in;
    const qsf_convert_options *o = k->o;
    const input_tensor *t = &in->tensors[i];
    void *sparse = NULL;
    input_stored copy;
    qsf_status st = convert_copies(k, i, c, &copy, err);
    if (st) return st;
    const uint64_t bytes = c->bytes;
    uint8_t *data = copy.data ? copy.data : qsf_alloc(in->platform, bytes, t->name, err);
    if (!data) return QSF_E_MEMORY;
    st = convert_tensor_to(k, i, c, copy.data ? NULL : data, &sparse, err);
    const bool poor = o->preset == QSF_CONVERT_MIXED && !o->target_bytes && !c->fixed &&
                      qsf_conv_cosine(&c->error) < CONVERT_LEAST_COSINE;
    const bool again = st == QSF_OK && poor && qsf_conv_raise(t, o, c);
    if (st == QSF_OK && !again) {
        const qsf_tensor out = { .kind = t->kind,
                                 .type = (uint8_t)c->type,
                                 .packing = c->packing,
                                 .block = (uint16_t)c->block,
                                 .rows = t->rows,
                                 .cols = t->cols,
                                 .bytes = bytes,
                                 .data = data };
        st = qsf_writer_tensor(k->w, &out, err);
        if (st == QSF_OK && c->scale != 0) st = convert_write_scale(t, c, k->w, err);
        const void *outliers = copy.sparse ? copy.sparse : sparse;
        if (st == QSF_OK && outliers) st = convert_write_outliers(t, c, outliers, k->w, err);
    }
    qsf_dealloc(in->platform, data, bytes);
    qsf_dealloc(in->platform, sparse, c->outlier_bytes);
    if (!again) return st;
    memset(&c->error, 0, sizeof c->error);
    c->n_outliers = c->outlier_bytes = 0;
    return convert_write_tensor(k, i, c, err);       /* at most as deep as there are forms */
}

/* ---- the file ---- */

/* The header's type: the type of all layer matrices, if they have the same one and the original
 * format specification has it; otherwise mixed. */
static uint8_t convert_default_type(const input *in, const convert_tensor *c)
{
    int type = -1;
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        if (in->tensors[i].unit >= in->hp.n_layers || !qsf_input_is_matrix(&in->tensors[i])) continue;
        if (c[i].type > QSF_T_TERNARY || (type >= 0 && (uint32_t)type != c[i].type)) return QSF_T_MIXED;
        type = (int)c[i].type;
    }
    return type < 0 ? QSF_T_MIXED : (uint8_t)type;
}

/* Tensors [begin, end), which are a unit's.  Of a layer's, the matrices of experts come last: then
 * each expert can be read alone. */
static qsf_status convert_unit(convert_run *k, uint32_t begin, uint32_t end, convert_report *r,
                               uint64_t *done, qsf_error *err)
{
    const input *in = k->in;
    qsf_status st = qsf_writer_unit_begin(k->w, in->tensors[begin].unit, err);
    for (uint32_t j = 0; !st && j < 2 * (end - begin); j++) {
        const uint32_t i = begin + j % (end - begin);
        const input_tensor *t = &in->tensors[i];
        if (qsf_kind_is_experts(t->kind) != (j >= end - begin)) continue;
        if (qsf_conv_cancelled(k->o)) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
        qsf_conv_progress(k->o, "convert", t->name, *done, r->n_weights);
        st = convert_write_tensor(k, i, &r->tensors[i], err);
        r->tensor_bytes += r->tensors[i].bytes + r->tensors[i].outlier_bytes;
        *done += (uint64_t)t->rows * t->cols;
    }
    const uint32_t unit = in->tensors[begin].unit;
    const bool known = in->importance && unit < in->hp.n_layers;
    return st ? st : qsf_writer_unit_end(k->w, known ? in->importance[unit] : 1.0f, err);
}

static qsf_status convert_units(convert_run *k, convert_report *r, qsf_error *err)
{
    const input *in = k->in;
    uint64_t done = 0;
    qsf_status st;
    for (uint32_t i = 0, begin = 0; i < in->n_tensors; i++) {
        if (i + 1 < in->n_tensors && in->tensors[i + 1].unit == in->tensors[i].unit) continue;
        if ((st = convert_unit(k, begin, i + 1, r, &done, err))) return st;
        begin = i + 1;
    }
    const uint32_t final = in->hp.n_layers + 1;
    if (in->tensors[in->n_tensors - 1].unit != final &&        /* an encoder's may be empty */
        ((st = qsf_writer_unit_begin(k->w, final, err)) || (st = qsf_writer_unit_end(k->w, 1.0f, err))))
        return st;
    qsf_conv_progress(k->o, "write", "", done, r->n_weights);
    return QSF_OK;
}

static const char *meta_of(const input *in, const char *key)
{
    for (uint32_t i = 0; i < in->n_meta; i++)
        if (!strcmp(in->meta[i].key, key)) return in->meta[i].value;
    return NULL;
}

/* What was done, for --info: not when or on which machine, so that equal input gives equal files.
 * Adapters are matched to channels that were kept (core/model/adapter.c). */
static qsf_status convert_meta(input *in, const qsf_convert_options *o, bool equalized, qsf_meta **meta,
                               uint32_t *n_meta, qsf_error *err)
{
    const bool before = !meta_of(in, "qsf.convert.version") || meta_of(in, "qsf.convert.channels");
    const bool kept = !equalized && before;
    qsf_meta *m = qsf_arena_array(in->arena, (uint64_t)in->n_meta + 3, sizeof *m, "metadata", err);
    if (!m) return QSF_E_MEMORY;
    uint32_t n = 0;
    for (uint32_t i = 0; i < in->n_meta; i++)
        if (strncmp(in->meta[i].key, "qsf.convert.", 12)) m[n++] = in->meta[i];
    m[n++] = (qsf_meta){ "qsf.convert.version", QSF_VERSION };
    m[n++] = (qsf_meta){ "qsf.convert.quant_type", qsf_convert_preset_name(o->preset) };
    if (kept) m[n++] = (qsf_meta){ "qsf.convert.channels", "kept" };
    *meta = m;
    *n_meta = n;
    return QSF_OK;
}

/* What goes into the file and how; the writer is in k then. */
static qsf_status convert_plan(convert_run *k, const char *path, convert_report *r, qsf_error *err)
{
    input *in = k->in;
    const qsf_convert_options *o = k->o;
    const qsf_clusters *clusters;
    qsf_meta *meta;
    uint32_t n_meta;
    qsf_status st;
    if (in->hp.n_experts && (o->compression != QSF_CONVERT_NONE || o->progressive))
        qsf_conv_warn(o, "experts of a compressed or progressive file are read with their whole layer, not "
                      "individually: leave out --compress and --progressive if a budget will not hold the "
                      "model");
    if ((st = qsf_conv_embd_clusters(in, o, &r->embd_clusters, err))) return st;
    if ((st = qsf_conv_plan(in, o, r, err))) return st;
    if ((st = convert_meta(in, o, r->equalized, &meta, &n_meta, err))) return st;
    r->default_type = convert_default_type(in, r->tensors);
    if ((st = qsf_conv_clusters(in, o, r, &clusters, err))) return st;
    const qsf_write_options wo = { .default_type = r->default_type,
                                   .compression = (uint8_t)o->compression,
                                   .progressive = o->progressive,
                                   .max_tensors = 3 * in->n_tensors,
                                   .clusters = clusters,
                                   .embd_clusters = r->embd_clusters };
    return qsf_writer_new(in->platform, path, &in->hp, &in->vocab, meta, n_meta, &wo, &k->w, err);
}

qsf_status qsf_conv_run_with(input *in, const qsf_convert_options *options, const encode_hessians *hessians,
                             const char *path, convert_report *r, qsf_error *err)
{
    const qsf_platform *p = in->platform;
    const uint64_t start = qsf_now(p);
    qsf_convert_options o = *options;
    convert_run k = { .in = in, .o = &o, .source = { .in = in, .o = &o, .hessians = hessians } };
    qsf_status st;

    memset(r, 0, sizeof *r);
    if (o.effort < 0) o.effort = hessians ? 3 : 0;
    if ((st = qsf_conv_check_output(in, path, err))) return st;
    if (o.embd_clusters && (st = qsf_input_untie(in, err))) return st;
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        r->n_weights += (uint64_t)in->tensors[i].rows * in->tensors[i].cols;
        r->source_bytes += in->tensors[i].stored_bytes;
    }
    if ((st = convert_plan(&k, path, r, err))) return st;
    r->ns_plan = qsf_now(p) - start;
    st = convert_units(&k, r, err);
    qsf_enc_source_done(&k.source);
    if (st) {
        qsf_writer_abort(k.w);
        return st;
    }
    st = qsf_writer_commit(k.w, &r->file_bytes, err);
    r->ns_run = qsf_now(p) - start - r->ns_plan;
    return st;
}

static qsf_status convert_hessian(void *user, uint32_t unit, uint32_t kind, uint32_t cols, float *h,
                                  float *first, uint64_t *tokens, bool *diagonal, qsf_error *err)
{
    const qsf_status st = qsf_cal_hessian(user, unit, kind, cols, h, first, tokens, diagonal, err);
    if (st != QSF_E_NOT_FOUND) return st;
    *tokens = 0;
    return QSF_OK;
}

qsf_status qsf_conv_run_calibrated(input *in, convert_calibration *calibration, const qsf_convert_options *o,
                                   const char *path, convert_report *r, qsf_error *err)
{
    const encode_hessians h = { calibration, convert_hessian };
    return qsf_conv_run_with(in, o, calibration ? &h : NULL, path, r, err);
}

qsf_status qsf_conv_run(input *in, const qsf_convert_options *o, const char *path, convert_report *r,
                        qsf_error *err)
{
    return qsf_conv_run_with(in, o, NULL, path, r, err);
}
