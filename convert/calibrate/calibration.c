/* A conversion's calibration: measured and written to a file, or read from one.
 * SPDX-License-Identifier: MIT
 *
 * Hessians always pass through a file, the user's or one that is there for a while: there are as
 * many bytes of them as of the weights, or more. */
#include "calibrate/calibration.h"

#include "calibrate/imatrix.h"
#include "calibrate/measure.h"

struct convert_calibration {
    const qsf_platform *platform;
    input       *in;
    cal_file     file;
    cal_imatrix *imatrix;       /* not NULL: in the file's stead */
    char        *between;       /* name of a file to remove, "" or NULL: none */
    size_t       room;
};

/* ---- which model ---- */

static void model_mix(uint32_t *crc, uint32_t n)
{
    uint8_t bytes[4];
    qsf_put32(bytes, n);
    *crc = qsf_crc32(*crc, bytes, sizeof bytes);
}

/* Three rows of each tensor, as values: the same whatever file they are in. */
static qsf_status model_fingerprint(input *in, uint32_t *crc, qsf_error *err)
{
    uint32_t max_cols = 0;
    *crc = 0;
    for (uint32_t i = 0; i < in->n_tensors; i++) max_cols = QSF_MAX(max_cols, in->tensors[i].cols);
    float *row = qsf_alloc_array(in->platform, max_cols, sizeof *row, "a row", err);
    if (!row) return QSF_E_MEMORY;
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; !st && i < in->n_tensors; i++) {
        const input_tensor *t = &in->tensors[i];
        const uint32_t at[3] = { 0, t->rows / 2, t->rows - 1 };
        model_mix(crc, t->unit);
        model_mix(crc, t->kind);
        model_mix(crc, t->rows);
        model_mix(crc, t->cols);
        for (int j = 0; !st && j < 3; j++) {
            st = in->read(in, i, at[j], 1, row, err);
            for (uint32_t c = 0; !st && c < t->cols; c++) model_mix(crc, qsf_f32_bits(row[c]));
        }
    }
    qsf_dealloc(in->platform, row, max_cols * sizeof *row);
    return st;
}

/* ---- reading ---- */

static qsf_status calibration_about(input *in, const qsf_convert_options *o, cal_about *about,
                                    qsf_error *err)
{
    *about = (cal_about){ .n_layers = in->hp.n_layers };
    const qsf_status st = model_fingerprint(in, &about->model, err);
    return st || !o->calibrate ? st : qsf_cal_settings(in->platform, o, &about->settings, err);
}

static qsf_status calibration_check(const convert_calibration *c, const qsf_convert_options *o,
                                    qsf_error *err)
{
    cal_about mine;
    const cal_about *its = &c->file.about;
    const qsf_status st = calibration_about(c->in, o, &mine, err);
    if (st) return st;
    if (its->model != mine.model || its->n_layers != mine.n_layers)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: is the calibration of another model; give another name, or "
                        "remove it", o->calibration_file);
    if (o->calibrate && its->settings != mine.settings)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: is a calibration with a different text or options; leave "
                        "them out to use it, or remove it", o->calibration_file);
    return QSF_OK;
}

static bool calibration_there(const qsf_platform *p, const char *path)
{
    qsf_file *f;
    if (p->open(p->user, path, &f) == QSF_E_NOT_FOUND) return false;
    p->close(p->user, f);               /* other faults are reported by reading */
    return true;
}

static qsf_status calibration_is_ours(const qsf_platform *p, const char *path, bool *ours, qsf_error *err)
{
    char magic[CAL_MAGIC];
    qsf_file *f;
    uint64_t length;
    qsf_status st = qsf_host_open(p, path, &f, &length, err);
    if (st) return st;
    *ours = false;
    if (length >= sizeof magic && !(st = qsf_read_all(p, f, path, 0, magic, sizeof magic, err)))
        *ours = !memcmp(magic, qsf_hessian_magic, sizeof magic);
    p->close(p->user, f);
    return st;
}

static qsf_status calibration_read(convert_calibration *c, const qsf_convert_options *o, qsf_error *err)
{
    const char *path = o->calibration_file;
    bool ours;
    qsf_status st = calibration_is_ours(c->platform, path, &ours, err);
    if (st) return st;
    if (ours) {
        st = qsf_hessian_open(c->platform, path, &c->file, err);
        return st ? st : calibration_check(c, o, err);
    }
    if ((st = qsf_imatrix_open(c->platform, path, &c->imatrix, err)) || !o->calibrate) return st;
    return qsf_fail(err, QSF_E_ARGUMENT, "%s: is an importance matrix: leave out --calibrate to use it, or "
                    "choose another file for the measurements", path);
}

/* ---- making ---- */

static qsf_status calibration_run(const convert_calibration *c, const char *model, const char *path,
                                  const qsf_convert_options *o, qsf_error *err)
{
    qsf_model_options mo;
    qsf_model *m = NULL;
    cal_text t = { 0 };
    cal_writer *w = NULL;
    cal_about about;
    qsf_model_defaults(&mo);
    mo.platform = c->platform;
    mo.log = o->log;
    mo.log_user = o->user;
    mo.i2s_layout = c->in->i2s_layout;
    qsf_status st = calibration_about(c->in, o, &about, err);
    if (st || (st = qsf_model_open(model, &mo, &m, err))) return st;
    if (!(st = qsf_hessian_create(c->platform, path, qsf_cal_inputs(m->source), &w, err)) &&
        !(st = qsf_cal_text(&t, m, o, err)) && !(st = qsf_cal_measure(m, &t, o, w, &about.tokens, err))) {
        st = qsf_hessian_commit(w, &about, err);
        w = NULL;
    }
    qsf_hessian_abort(w);
    qsf_cal_text_free(&t);
    qsf_model_close(m);
    return st;
}

static qsf_status calibration_make(convert_calibration *c, const char *model, const char *beside,
                                   const qsf_convert_options *o, qsf_error *err)
{
    const char *path = o->calibration_file;
    qsf_status st = QSF_OK;
    if (!path) {
        c->room = strlen(beside) + 64;
        if (!(c->between = qsf_alloc(c->platform, c->room, "a file's name", err))) return QSF_E_MEMORY;
        if ((st = qsf_host_between(c->platform, beside, c->between, c->room, err))) return st;
        path = c->between;
    }
    if ((st = calibration_run(c, model, path, o, err))) return st;
    return qsf_hessian_open(c->platform, path, &c->file, err);
}

bool qsf_cal_runs(const qsf_platform *p, const qsf_convert_options *o)
{
    if (!o->calibrate) return false;
    return !o->calibration_file || !calibration_there(p, o->calibration_file);
}

qsf_status qsf_cal_open(input *in, const char *model, const char *beside, const qsf_convert_options *o,
                        convert_calibration **out, qsf_error *err)
{
    qsf_status st;
    *out = NULL;
    if (!o->calibrate && !o->calibration_file) return QSF_OK;
    const bool runs = qsf_cal_runs(in->platform, o);
    if (!runs && !calibration_there(in->platform, o->calibration_file))
        return qsf_fail(err, QSF_E_NOT_FOUND, "%s: no such file; --calibrate makes it",
                        o->calibration_file);
    convert_calibration *c = qsf_alloc(in->platform, sizeof *c, "a calibration", err);
    if (!c) return QSF_E_MEMORY;
    c->platform = in->platform;
    c->in = in;
    if (runs) st = calibration_make(c, model, beside, o, err);
    else st = calibration_read(c, o, err);
    if (st) qsf_cal_free(c);
    else *out = c;
    return st;
}

void qsf_cal_free(convert_calibration *c)
{
    if (!c) return;
    const qsf_platform *p = c->platform;
    qsf_hessian_close(&c->file);
    qsf_imatrix_close(c->imatrix);
    if (c->between && *c->between) qsf_host_remove(p, c->between);
    qsf_dealloc(p, c->between, c->room);
    qsf_dealloc(p, c, sizeof *c);
}

/* ---- asking ---- */

uint32_t qsf_cal_key(const convert_calibration *c)
{
    uint32_t key = 0;
    if (c->imatrix) return 0;
    model_mix(&key, c->file.about.model);
    model_mix(&key, c->file.about.settings);
    return QSF_MAX(key, 1);
}

static qsf_status calibration_diagonal(const convert_calibration *c, uint32_t unit, uint32_t kind,
                                       uint32_t cols, float *h, float *first, uint64_t *tokens,
                                       qsf_error *err)
{
    const int32_t layer = unit < c->in->hp.n_layers ? (int32_t)unit : -1;
    const qsf_status st = qsf_imatrix_read(c->imatrix, layer, kind, c->in->hp.n_experts, cols, first, tokens,
                                           err);
    if (st) return st;
    memset(h, 0, (size_t)cols * cols * sizeof *h);
    for (size_t i = 0; i < cols; i++) h[i * cols + i] = first[i];
    memset(first, 0, cols * sizeof *first);
    return QSF_OK;
}

/* The record of an expert, if enough rows were routed to it; else the layer's. */
static cal_record *calibration_find(const cal_file *f, uint32_t unit, uint32_t kind, uint32_t expert)
{
    cal_record *r = expert ? qsf_hessian_find(f, unit, kind + expert * CAL_EXPERT) : NULL;
    if (!r) r = qsf_hessian_find(f, unit, kind);
    /* Without a norm in between, experts and the shared feed-forward have the router's input. */
    if (!r && (kind == QSF_K_EXPERT_UP || kind == QSF_K_FFN_UP)) r = qsf_hessian_find(f, unit, QSF_K_ROUTER);
    return r;
}

static bool calibration_has_input(const convert_calibration *c, uint32_t kind)
{
    return qsf_gram_kind(kind % CAL_EXPERT) != CAL_NO_INPUT && (kind != QSF_K_TOKEN_EMBD || c->in->hp.tied);
}

static cal_record *calibration_record(const convert_calibration *c, uint32_t unit, uint32_t kind)
{
    const uint32_t input_kind = qsf_gram_kind(kind % CAL_EXPERT);
    if (input_kind == QSF_K_OUTPUT) unit = qsf_unit_number(c->in->hp.n_layers, qsf_id_final());
    return calibration_find(&c->file, unit, input_kind, kind / CAL_EXPERT);
}

qsf_status qsf_cal_hessian(convert_calibration *c, uint32_t unit, uint32_t kind, uint32_t cols, float *h,
                           float *first, uint64_t *tokens, bool *diagonal, qsf_error *err)
{
    *diagonal = c->imatrix != NULL;
    if (!calibration_has_input(c, kind)) return QSF_E_NOT_FOUND;
    if (c->imatrix) return calibration_diagonal(c, unit, kind, cols, h, first, tokens, err);
    const cal_record *r = calibration_record(c, unit, kind);
    if (!r) return QSF_E_NOT_FOUND;
    if (r->cols != cols)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: has a Hessian of %u columns for a matrix of %u: it belongs "
                        "to another model", c->file.path, (unsigned)r->cols, (unsigned)cols);
    *tokens = c->file.about.tokens;
    return qsf_hessian_read(&c->file, r, h, first, err);
}

/* A plan asks for each matrix, and a conversion makes several plans: what was read is kept. */
qsf_status qsf_cal_sizes(void *user, uint32_t unit, uint32_t kind, uint32_t cols, float *size, bool *known,
                         qsf_error *err)
{
    convert_calibration *c = user;
    cal_record *r = c->imatrix || !calibration_has_input(c, kind) ? NULL : calibration_record(c, unit, kind);
    *known = r && r->cols == cols && r->size;
    if (*known) return memcpy(size, r->size, cols * sizeof *size), QSF_OK;
    const uint64_t n = (uint64_t)cols * cols;
    float *h = qsf_alloc_array(c->platform, n + cols, sizeof *h, "a matrix of inputs", err);
    uint64_t tokens = 0;
    bool diagonal;
    if (!h) return QSF_E_MEMORY;
    const qsf_status st = qsf_cal_hessian(c, unit, kind, cols, h, h + n, &tokens, &diagonal, err);
    *known = !st && tokens;
    for (size_t i = 0; *known && i < cols; i++) size[i] = sqrtf(QSF_MAX(h[i * cols + i], 0));
    qsf_dealloc(c->platform, h, (n + cols) * sizeof *h);
    if (*known && r && (r->size = qsf_arena_array(c->file.arena, cols, sizeof *size, "channel sizes", NULL)))
        memcpy(r->size, size, cols * sizeof *size);
    return st == QSF_E_NOT_FOUND ? QSF_OK : st;
}
