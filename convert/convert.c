/* Makes the file: every tensor read in strips of rows, quantised on all threads, written in order.
 * SPDX-License-Identifier: MIT
 *
 * Memory: each thread holds one strip of floats and of blocks, and there is one whole tensor in its new form, so the
 * need grows with the largest tensor, not with the model.  Strips have one size on every machine and their errors are
 * added in order: neither the file nor the report depends on the number of threads. */
#include "budget.h"
#include "model/qsf_write.h"

#include <math.h>

void convert_defaults(convert_options *o)
{
    *o = (convert_options){ .preset = CONVERT_4BIT, .packing = 1 };
}

double convert_relative_error(const qsf_quant_error *e) { return e->sum_sq > 0 ? e->err_sq / e->sum_sq : 0; }
double convert_cosine(const qsf_quant_error *e)
{
    const double n = sqrt(e->sum_sq) * sqrt(e->deq_sq);
    return n > 0 ? e->dot / n : e->sum_sq > 0 ? 0 : 1;
}

/* ---- one tensor ---- */

typedef struct convert_task {
    input                *in;
    uint32_t              tensor, strip_rows;
    const convert_tensor *c;
    convert_strip        *strips;       /* one a thread */
    uint8_t              *dst;
    uint64_t              strip_bytes;  /* of the new form */
    qsf_quant_error      *errors;       /* one a strip */
    convert_found        *found;        /* one a strip, where outliers are kept apart */
} convert_task;

static qsf_status convert_one_strip(void *user, uint32_t i, uint32_t thread, qsf_error *err)
{
    convert_task *k = user;
    const uint32_t row = i * k->strip_rows, rows = k->in->tensors[k->tensor].rows;
    qsf_status st = convert_rows(k->in, k->tensor, k->c, row, QSF_MIN(k->strip_rows, rows - row), &k->strips[thread],
                                 k->dst + i * k->strip_bytes, &k->errors[i], err);
    if (st == QSF_OK && k->c->keeps_outliers) st = convert_found_copy(k->in->platform, &k->strips[thread].found, &k->found[i], err);
    return st;
}

static void convert_add_error(qsf_quant_error *sum, const qsf_quant_error *e)
{
    sum->sum_sq += e->sum_sq;
    sum->err_sq += e->err_sq;
    sum->dot += e->dot;
    sum->deq_sq += e->deq_sq;
}

/* Fills dst with tensor i in its new form, and *sparse with its outliers where they are kept apart. */
static qsf_status convert_tensor_to(input *in, uint32_t i, const convert_options *o, convert_tensor *c, uint8_t *dst, void **sparse, qsf_error *err)
{
    const qsf_platform *p = in->platform;
    const input_tensor *t = &in->tensors[i];
    uint32_t n_threads = convert_threads(p, o), ready = 0;
    convert_task k = { .in = in, .tensor = i, .strip_rows = convert_strip_rows(t->cols), .c = c, .dst = dst };
    const uint32_t n = (uint32_t)qsf_ceil_div(t->rows, k.strip_rows);
    qsf_status st = qsf_tensor_bytes(c->type, c->packing, c->block, k.strip_rows, t->cols, &k.strip_bytes, err);
    if (st) return st;
    n_threads = QSF_MAX(1, QSF_MIN(n_threads, n));
    /* Strips of all threads must fit beside the tensor: fewer threads rather than none. */
    const uint64_t strip = (uint64_t)k.strip_rows * ((uint64_t)t->cols * 2 + QSF_MAX_BLOCK) * sizeof(float);
    if (o->ram_bytes && c->bytes + n_threads * strip > o->ram_bytes) {
        if (c->bytes + strip > o->ram_bytes)
            return qsf_fail(err, QSF_E_BUDGET, "tensor %s needs %llu MB at once, --ram gives %llu MB", t->name,
                            (unsigned long long)((c->bytes + strip) / 1000000 + 1), (unsigned long long)(o->ram_bytes / 1000000));
        n_threads = (uint32_t)((o->ram_bytes - c->bytes) / strip);
    }
    k.strips = qsf_alloc_array(p, n_threads, sizeof *k.strips, "strips", err);
    k.errors = qsf_alloc_array(p, n, sizeof *k.errors, "strips", err);
    k.found = qsf_alloc_array(p, n, sizeof *k.found, "outliers", err);
    if (!k.strips || !k.errors || !k.found) st = QSF_E_MEMORY;
    for (; st == QSF_OK && ready < n_threads; ready++) st = convert_strip_new(p, t->cols, &k.strips[ready], err);
    if (st == QSF_OK) st = convert_parallel(p, n_threads, n, convert_one_strip, &k, o->cancelled, err);
    for (uint32_t s = 0; st == QSF_OK && s < n; s++) convert_add_error(&c->error, &k.errors[s]);
    if (st == QSF_OK && c->keeps_outliers) st = convert_found_join(p, k.found, n, t->rows, c, sparse, err);
    for (uint32_t s = 0; k.found && s < n; s++) convert_found_free(p, &k.found[s]);
    while (k.strips && ready > 0) convert_strip_free(p, &k.strips[--ready]);
    qsf_dealloc(p, k.strips, (uint64_t)n_threads * sizeof *k.strips);
    qsf_dealloc(p, k.errors, (uint64_t)n * sizeof *k.errors);
    qsf_dealloc(p, k.found, (uint64_t)n * sizeof *k.found);
    return st;
}

static qsf_status convert_write_outliers(const input_tensor *t, const convert_tensor *c, const void *sparse, qsf_writer *w, qsf_error *err)
{
    const qsf_tensor out = { .kind = QSF_K_OUTLIERS | t->kind, .type = QSF_T_SPARSE, .packing = 0, .block = 1, .rows = t->rows,
                             .cols = (uint32_t)c->n_outliers, .bytes = c->outlier_bytes, .data = sparse };
    return qsf_writer_tensor(w, &out, err);
}

/* mixed promises this cosine of every matrix that the user did not choose a type for. */
#define CONVERT_LEAST_COSINE 0.99

static qsf_status convert_write_tensor(input *in, uint32_t i, const convert_options *o, convert_tensor *c, qsf_writer *w, qsf_error *err)
{
    const input_tensor *t = &in->tensors[i];
    const uint64_t bytes = c->bytes;
    void *sparse = NULL;
    uint8_t *data = qsf_alloc(in->platform, bytes, t->name, err);
    if (!data) return QSF_E_MEMORY;
    qsf_status st = convert_tensor_to(in, i, o, c, data, &sparse, err);
    const bool poor = o->preset == CONVERT_MIXED && !o->target_bytes && !c->fixed && convert_cosine(&c->error) < CONVERT_LEAST_COSINE;
    const bool again = st == QSF_OK && poor && convert_raise(t, o, c);
    if (st == QSF_OK && !again) {
        const qsf_tensor out = { .kind = t->kind, .type = (uint8_t)c->type, .packing = c->packing, .block = (uint16_t)c->block,
                                 .rows = t->rows, .cols = t->cols, .bytes = bytes, .data = data };
        st = qsf_writer_tensor(w, &out, err);
        if (st == QSF_OK && sparse) st = convert_write_outliers(t, c, sparse, w, err);
    }
    qsf_dealloc(in->platform, data, bytes);
    qsf_dealloc(in->platform, sparse, c->outlier_bytes);
    if (!again) return st;
    memset(&c->error, 0, sizeof c->error);
    c->n_outliers = c->outlier_bytes = 0;
    return convert_write_tensor(in, i, o, c, w, err);       /* at most as deep as there are forms */
}

/* ---- the file ---- */

/* The header's type: the one type of all layer matrices where it is one of the founding document's, else mixed. */
static uint8_t convert_default_type(const input *in, const convert_tensor *c)
{
    int type = -1;
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        if (in->tensors[i].unit >= in->hp.n_layers || !convert_is_matrix(&in->tensors[i])) continue;
        if (c[i].type > QSF_T_TERNARY || (type >= 0 && (uint32_t)type != c[i].type)) return QSF_T_MIXED;
        type = (int)c[i].type;
    }
    return type < 0 ? QSF_T_MIXED : (uint8_t)type;
}

static qsf_status convert_units(input *in, const convert_options *o, convert_report *r, qsf_writer *w, qsf_error *err)
{
    uint64_t done = 0;
    qsf_status st;
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        const input_tensor *t = &in->tensors[i];
        if (o->cancelled && *o->cancelled) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
        if (o->progress) o->progress(o->progress_user, "convert", t->name, done, r->n_weights);
        if ((i == 0 || in->tensors[i - 1].unit != t->unit) && (st = qsf_writer_unit_begin(w, t->unit, err))) return st;
        if ((st = convert_write_tensor(in, i, o, &r->tensors[i], w, err))) return st;
        if ((i + 1 == in->n_tensors || in->tensors[i + 1].unit != t->unit) && (st = qsf_writer_unit_end(w, 1.0f, err))) return st;
        r->tensor_bytes += r->tensors[i].bytes + r->tensors[i].outlier_bytes;
        done += (uint64_t)t->rows * t->cols;
    }
    if (o->progress) o->progress(o->progress_user, "write", "", done, r->n_weights);
    return QSF_OK;
}

/* What was done, for --info: not when or where, so that equal input gives equal files. */
static qsf_status convert_meta(input *in, const convert_options *o, qsf_meta **meta, uint32_t *n_meta, qsf_error *err)
{
    qsf_meta *m = qsf_arena_array(in->arena, (uint64_t)in->n_meta + 2, sizeof *m, "metadata", err);
    if (!m) return QSF_E_MEMORY;
    uint32_t n = 0;
    for (uint32_t i = 0; i < in->n_meta; i++)
        if (strncmp(in->meta[i].key, "qsf.convert.", 12)) m[n++] = in->meta[i];
    m[n++] = (qsf_meta){ "qsf.convert.version", QSF_VERSION };
    m[n++] = (qsf_meta){ "qsf.convert.quant_type", convert_preset_name(o->preset) };
    *meta = m;
    *n_meta = n;
    return QSF_OK;
}

qsf_status convert_run(input *in, const convert_options *o, const char *path, convert_report *r, qsf_error *err)
{
    const qsf_platform *p = in->platform;
    const uint64_t start = qsf_now(p);
    qsf_writer *w = NULL;
    qsf_meta *meta;
    uint32_t n_meta;
    const qsf_clusters *clusters;
    qsf_status st;

    memset(r, 0, sizeof *r);
    if ((st = convert_check_output(in, path, err))) return st;
    if (o->embd_clusters && (st = input_untie(in, err))) return st;
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        r->n_weights += (uint64_t)in->tensors[i].rows * in->tensors[i].cols;
        r->source_bytes += in->tensors[i].stored_bytes;
    }
    if ((st = convert_embd_clusters(in, o, &r->embd_clusters, err))) return st;
    if ((st = convert_plan(in, o, r, err))) return st;
    if ((st = convert_meta(in, o, &meta, &n_meta, err))) return st;
    r->default_type = convert_default_type(in, r->tensors);
    if ((st = convert_clusters(in, o, r, &clusters, err))) return st;
    r->ns_plan = qsf_now(p) - start;

    const qsf_write_options wo = { .default_type = r->default_type, .compression = o->compression, .max_tensors = 2 * in->n_tensors, .clusters = clusters,
                                   .embd_clusters = r->embd_clusters };
    if ((st = qsf_writer_new(p, path, &in->hp, &in->vocab, meta, n_meta, &wo, &w, err))) return st;
    if ((st = convert_units(in, o, r, w, err))) {
        qsf_writer_abort(w);
        return st;
    }
    st = qsf_writer_commit(w, &r->file_bytes, err);
    r->ns_run = qsf_now(p) - start - r->ns_plan;
    return st;
}
