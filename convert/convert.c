/* Makes the file: every tensor read in strips of rows, quantised on all threads, written in order.
 * SPDX-License-Identifier: MIT
 *
 * Memory: each thread holds one strip of floats and of blocks, and there is one whole tensor in its new form, so the
 * need grows with the largest tensor, not with the model.  Strips have one size on every machine and their errors are
 * added in order: neither the file nor the report depends on the number of threads. */
#include "budget.h"
#include "qsf_write.h"

#include <math.h>
#include <stdatomic.h>

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

/* ---- threads ---- */

typedef struct convert_team {
    convert_job         fn;
    void               *user;
    uint32_t            n;
    atomic_uint         next;
    atomic_bool         stop;
    const volatile int *cancelled;
} convert_team;

typedef struct convert_member {
    convert_team *team;
    uint32_t      thread, failed_at;
    qsf_status    st;
    qsf_error     err;
    qsf_thread   *handle;
} convert_member;

static void convert_work(void *arg)
{
    convert_member *m = arg;
    convert_team *t = m->team;
    for (;;) {
        const uint32_t i = atomic_fetch_add(&t->next, 1);
        if (i >= t->n || atomic_load(&t->stop)) return;
        if (t->cancelled && *t->cancelled) m->st = qsf_fail(&m->err, QSF_E_CANCELLED, "interrupted");
        else m->st = t->fn(t->user, i, m->thread, &m->err);
        if (m->st) {
            m->failed_at = i;
            atomic_store(&t->stop, true);
            return;
        }
    }
}

uint32_t convert_threads(const qsf_platform *p, const convert_options *o)
{
    if (!p->thread_start) return 1;
    const uint32_t n = o->n_threads ? o->n_threads : p->cpu_count ? p->cpu_count(p->user) : 1;
    return QSF_MAX(1, QSF_MIN(n, CONVERT_MAX_THREADS));
}

qsf_status convert_parallel(const qsf_platform *p, uint32_t n_threads, uint32_t n, convert_job fn, void *user,
                            const volatile int *cancelled, qsf_error *err)
{
    convert_team team = { .fn = fn, .user = user, .n = n, .cancelled = cancelled };
    n_threads = QSF_MAX(1, QSF_MIN(n_threads, n));
    convert_member *m = qsf_alloc_array(p, n_threads, sizeof *m, "threads", err);
    if (!m) return QSF_E_MEMORY;
    uint32_t started = 1;
    for (; started < n_threads; started++) {
        m[started] = (convert_member){ .team = &team, .thread = started };
        if (p->thread_start(p->user, convert_work, &m[started], &m[started].handle)) break;    /* fewer do the work as well */
    }
    m[0].team = &team;
    convert_work(&m[0]);
    const convert_member *first = NULL;
    for (uint32_t i = 0; i < started; i++) {
        if (i) p->thread_join(p->user, m[i].handle);
        if (m[i].st && (!first || m[i].failed_at < first->failed_at)) first = &m[i];
    }
    const qsf_status st = first ? first->st : QSF_OK;
    if (first && err) *err = first->err;
    qsf_dealloc(p, m, (uint64_t)n_threads * sizeof *m);
    return st;
}

/* ---- strips ---- */

/* About 64 Ki weights: enough to hide the hand-over, little enough to stay in the cache. */
uint32_t convert_strip_rows(uint32_t cols)
{
    const uint32_t n = 65536 / QSF_MAX(cols, 1) / QSF_TILE_ROWS * QSF_TILE_ROWS;
    return QSF_MAX(n, QSF_TILE_ROWS);
}

qsf_status convert_strip_new(const qsf_platform *p, uint32_t cols, convert_strip *s, qsf_error *err)
{
    memset(s, 0, sizeof *s);
    s->rows = convert_strip_rows(cols);
    s->values_bytes = (uint64_t)s->rows * cols * sizeof(float);
    /* No type takes more than 32 bits a weight, and padding to a block adds less than 256 columns. */
    s->blocks_bytes = (uint64_t)s->rows * ((uint64_t)cols + QSF_MAX_BLOCK) * sizeof(float);
    s->values = qsf_alloc(p, s->values_bytes, "a strip of weights", err);
    s->blocks = qsf_alloc(p, s->blocks_bytes, "a strip of blocks", err);
    if (s->values && s->blocks) return QSF_OK;
    convert_strip_free(p, s);
    return QSF_E_MEMORY;
}

void convert_strip_free(const qsf_platform *p, convert_strip *s)
{
    qsf_dealloc(p, s->values, s->values_bytes);
    qsf_dealloc(p, s->blocks, s->blocks_bytes);
    memset(s, 0, sizeof *s);
}

static qsf_status convert_row_failed(const input_tensor *t, uint32_t row, qsf_status st, const qsf_error *why, qsf_error *err)
{
    return qsf_fail(err, st, "tensor %s, row %u: %s", t->name, (unsigned)row, why->text);
}

static void convert_scale(const convert_tensor *c, uint32_t row, uint32_t n, uint32_t cols, float *w)
{
    for (uint32_t r = 0; r < n; r++, w += cols) {
        if (c->row_scale)
            for (uint32_t j = 0; j < cols; j++) w[j] *= c->row_scale[row + r];
        if (c->col_scale)
            for (uint32_t j = 0; j < cols; j++) w[j] *= c->col_scale[j];
    }
}

qsf_status convert_rows(input *in, uint32_t i, const convert_tensor *c, uint32_t row, uint32_t n, convert_strip *s,
                        uint8_t *dst, qsf_quant_error *e, qsf_error *err)
{
    const input_tensor *t = &in->tensors[i];
    uint64_t row_bytes;
    qsf_error why;
    qsf_status st;
    if ((st = in->read(in, i, row, n, s->values, err))) return st;
    if ((st = qsf_tensor_bytes(c->type, 0, c->block, 1, t->cols, &row_bytes, err))) return st;
    convert_scale(c, row, n, t->cols, s->values);
    uint8_t *blocks = c->packing || !dst ? s->blocks : dst;
    for (uint32_t k = 0; k < n; k++) {
        st = qsf_quantize_row(c->type, c->block, s->values + (size_t)k * t->cols, t->cols, c->importance, blocks + k * row_bytes, e, &why);
        if (st) return convert_row_failed(t, row + k, st, &why, err);
    }
    if (c->packing && dst) {
        const qsf_tensor plain = { .kind = t->kind, .type = (uint8_t)c->type, .packing = 0, .block = (uint16_t)c->block,
                                   .rows = n, .cols = t->cols, .bytes = n * row_bytes, .data = blocks };
        qsf_pack_tiles(&plain, dst);
    }
    return QSF_OK;
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
} convert_task;

static qsf_status convert_one_strip(void *user, uint32_t i, uint32_t thread, qsf_error *err)
{
    convert_task *k = user;
    const uint32_t row = i * k->strip_rows, rows = k->in->tensors[k->tensor].rows;
    return convert_rows(k->in, k->tensor, k->c, row, QSF_MIN(k->strip_rows, rows - row), &k->strips[thread],
                        k->dst + i * k->strip_bytes, &k->errors[i], err);
}

static void convert_add_error(qsf_quant_error *sum, const qsf_quant_error *e)
{
    sum->sum_sq += e->sum_sq;
    sum->err_sq += e->err_sq;
    sum->dot += e->dot;
    sum->deq_sq += e->deq_sq;
}

/* Fills dst with tensor i in its new form. */
static qsf_status convert_tensor_to(input *in, uint32_t i, const convert_options *o, convert_tensor *c, uint8_t *dst, qsf_error *err)
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
    if (!k.strips || !k.errors) st = QSF_E_MEMORY;
    for (; st == QSF_OK && ready < n_threads; ready++) st = convert_strip_new(p, t->cols, &k.strips[ready], err);
    if (st == QSF_OK) st = convert_parallel(p, n_threads, n, convert_one_strip, &k, o->cancelled, err);
    for (uint32_t s = 0; st == QSF_OK && s < n; s++) convert_add_error(&c->error, &k.errors[s]);
    while (k.strips && ready > 0) convert_strip_free(p, &k.strips[--ready]);
    qsf_dealloc(p, k.strips, (uint64_t)n_threads * sizeof *k.strips);
    qsf_dealloc(p, k.errors, (uint64_t)n * sizeof *k.errors);
    return st;
}

/* mixed promises this cosine of every matrix that the user did not choose a type for. */
#define CONVERT_LEAST_COSINE 0.99

static qsf_status convert_write_tensor(input *in, uint32_t i, const convert_options *o, convert_tensor *c, qsf_writer *w, qsf_error *err)
{
    const input_tensor *t = &in->tensors[i];
    uint8_t *data = qsf_alloc(in->platform, c->bytes, t->name, err);
    if (!data) return QSF_E_MEMORY;
    qsf_status st = convert_tensor_to(in, i, o, c, data, err);
    const uint64_t before = c->bytes;
    if (st == QSF_OK && o->preset == CONVERT_MIXED && !o->target_bytes && !c->fixed && convert_cosine(&c->error) < CONVERT_LEAST_COSINE && convert_raise(t, o, c)) {
        qsf_dealloc(in->platform, data, before);
        memset(&c->error, 0, sizeof c->error);
        return convert_write_tensor(in, i, o, c, w, err);       /* at most as deep as there are types */
    }
    if (st == QSF_OK) {
        const qsf_tensor out = { .kind = t->kind, .type = (uint8_t)c->type, .packing = c->packing, .block = (uint16_t)c->block,
                                 .rows = t->rows, .cols = t->cols, .bytes = c->bytes, .data = data };
        st = qsf_writer_tensor(w, &out, err);
    }
    qsf_dealloc(in->platform, data, c->bytes);
    return st;
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
    qsf_status st;

    memset(r, 0, sizeof *r);
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        r->n_weights += (uint64_t)in->tensors[i].rows * in->tensors[i].cols;
        r->source_bytes += in->tensors[i].stored_bytes;
    }
    if ((st = convert_plan(in, o, r, err))) return st;
    if ((st = convert_meta(in, o, &meta, &n_meta, err))) return st;
    r->default_type = convert_default_type(in, r->tensors);
    r->ns_plan = qsf_now(p) - start;

    const qsf_write_options wo = { .default_type = r->default_type, .compression = o->compression, .max_tensors = 2 * in->n_tensors };
    if ((st = qsf_writer_new(p, path, &in->hp, &in->vocab, meta, n_meta, &wo, &w, err))) return st;
    if ((st = convert_units(in, o, r, w, err))) {
        qsf_writer_abort(w);
        return st;
    }
    st = qsf_writer_commit(w, &r->file_bytes, err);
    r->ns_run = qsf_now(p) - start - r->ns_plan;
    return st;
}
