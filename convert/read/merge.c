/* Adapters merged into an input's weights, row by row as these are read.
 * SPDX-License-Identifier: MIT */
#include "read/merge.h"

#include "model/lora_file.h"
#include "model/roles.h"
#include "model/source_formats.h"
#include "read/tie.h"

/* What is added to one tensor: from [rank][cols] or, of the embedding, [rows][rank]. */
typedef struct merge_part {
    struct merge_part *next;            /* of the same tensor, or while files are read of any */
    uint32_t     unit, kind, rank, rows, cols;
    uint32_t     first, all;            /* the rows from `first` on, out of `all` */
    bool         embd;
    float        scale;
    const float *a, *b;
} merge_part;

typedef struct merged {
    input        base;
    merge_part  *parts, **last;         /* in the order of reading */
    merge_part **of;                    /* [n_tensors] then */
    float        scale;                 /* of the adapter that is being read */
    qsf_arena   *arena;                 /* in's */
} merged;

/* ---- what is read ---- */

/* w[n][cols] of rows from `row` on, of the part's. */
static void merge_add(const merge_part *k, uint32_t row, uint32_t n, float *w)
{
    for (uint32_t r = 0; r < n; r++, w += k->cols) {
        const float *b = k->b + (size_t)(row + r) * k->rank;
        for (uint32_t i = 0; i < k->rank; i++) {
            const float by = k->scale * b[i], *a = k->a + (size_t)i * k->cols;
            for (uint32_t c = 0; c < k->cols; c++) w[c] += by * a[c];
        }
    }
}

/* The same of the embedding, whose A has a row for each token. */
static void merge_add_embd(const merge_part *k, uint32_t row, uint32_t n, float *w)
{
    for (uint32_t r = 0; r < n; r++, w += k->cols) {
        const float *a = k->a + (size_t)(row + r) * k->rank;
        for (uint32_t c = 0; c < k->cols; c++) {
            float sum = 0;
            for (uint32_t i = 0; i < k->rank; i++) sum += k->b[(size_t)c * k->rank + i] * a[i];
            w[c] += k->scale * sum;
        }
    }
}

static qsf_status merged_read(input *in, uint32_t i, uint32_t row, uint32_t n, float *out, qsf_error *err)
{
    merged *m = in->own;
    const qsf_status st = m->base.read(&m->base, i, row, n, out, err);
    for (const merge_part *k = m->of[i]; k && !st; k = k->next) {
        const uint32_t begin = QSF_MAX(row, k->first), end = QSF_MIN(row + n, k->first + k->rows);
        if (begin >= end) continue;
        (k->embd ? merge_add_embd : merge_add)(k, begin - k->first, end - begin,
                                               out + (size_t)(begin - row) * k->cols);
    }
    return st;
}

static qsf_status merged_stored(input *in, uint32_t i, bool load, input_stored *out, qsf_error *err)
{
    merged *m = in->own;
    *out = (input_stored){ 0 };
    return m->of[i] || !m->base.stored ? QSF_OK : m->base.stored(&m->base, i, load, out, err);
}

static bool merged_reads(input *in, const char *path)
{
    merged *m = in->own;
    return m->base.reads && m->base.reads(&m->base, path);
}

static void merged_close(input *in)
{
    const merged *m = in->own;
    *in = m->base;              /* which owns the arena that m is in */
    in->close(in);
}

/* ---- adapters ---- */

static const float *merge_copy(merged *m, const float *v, uint64_t n, qsf_error *err)
{
    float *to = qsf_arena_array(m->arena, n, sizeof *to, "an adapter", err);
    return to ? memcpy(to, v, (size_t)n * sizeof *to) : NULL;
}

static qsf_status merge_take(void *user, const qsf_lora_group *g, qsf_error *err)
{
    merged *m = user;
    const float *a = merge_copy(m, g->a, (uint64_t)g->rank * g->cols, err);
    uint64_t row = 0;
    if (!a) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < g->n; row += g->rows[i++]) {
        merge_part *k = qsf_arena_alloc(m->arena, sizeof *k, "an adapter", err);
        const float *b = merge_copy(m, g->b + row * g->rank, (uint64_t)g->rows[i] * g->rank, err);
        if (!k || !b) return QSF_E_MEMORY;
        *k = (merge_part){ .unit = g->unit, .kind = g->kinds[i], .rank = g->rank, .embd = g->embd,
                           .rows = g->embd ? g->cols : g->rows[i], .cols = g->embd ? g->rows[i] : g->cols,
                           .scale = m->scale * g->scale, .a = a, .b = b };
        k->first = g->expert * k->rows;
        k->all = QSF_MAX(g->n_experts, 1) * k->rows;
        *m->last = k;
        m->last = &k->next;
    }
    return QSF_OK;
}

/* What the reader of adapters looks at of a model: sizes, layers and which tensors there are. */
static qsf_status merge_model(const input *in, qsf_source *s, qsf_error *err)
{
    *s = (qsf_source){ .platform = in->platform, .arena = in->arena, .path = "the input", .hp = in->hp,
                       .n_units = qsf_units_of(in->hp.n_layers), .n_tensors = in->n_tensors,
                       .n_meta = in->n_meta, .meta = in->meta };
    const qsf_status st = qsf_layers_fill(s, err);
    if (st) return st;
    s->units = qsf_arena_array(in->arena, s->n_units, sizeof *s->units, "units", err);
    s->tensors = qsf_arena_array(in->arena, s->n_tensors, sizeof *s->tensors, "tensors", err);
    if (!s->units || !s->tensors) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        qsf_unit *u = &s->units[in->tensors[i].unit];
        if (!u->n_tensors++) u->first_tensor = i;
        s->tensors[i].kind = in->tensors[i].kind;
    }
    return QSF_OK;
}

static qsf_status merge_read_all(merged *m, const qsf_source *model, const qsf_convert_adapter *list,
                                 size_t n, const peft_warn *warn, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (size_t i = 0; i < n && !st; i++) {
        qsf_lora_file f = { .model = model, .user = m, .take = merge_take, .warn = *warn };
        m->scale = list[i].scale;
        if (!(st = qsf_lora_file_open(&f, model->platform, list[i].path, NULL, err)))
            st = qsf_lora_file_read(&f, err);
        qsf_lora_file_close(&f);
    }
    return st;
}

/* Each part goes to its tensor; what is read of that is no longer what the file has. */
static qsf_status merge_place(merged *m, input *in, qsf_error *err)
{
    if (!(m->of = qsf_arena_array(m->arena, in->n_tensors, sizeof(merge_part *), "an adapter", err)))
        return QSF_E_MEMORY;
    for (merge_part *k = m->parts, *next; k; k = next) {
        uint32_t i = 0;
        next = k->next;
        while (i < in->n_tensors && (in->tensors[i].unit != k->unit || in->tensors[i].kind != k->kind)) i++;
        if (i == in->n_tensors || in->tensors[i].rows != k->all || in->tensors[i].cols != k->cols)
            return qsf_fail(err, QSF_E_CORRUPT, "an adapter changes %s, which the input does not have, or "
                            "has in another size", qsf_kind_name(k->kind));
        in->tensors[i].scale = 0;
        in->tensors[i].source_type = QSF_T_F32;
        k->next = m->of[i];
        m->of[i] = k;
    }
    return QSF_OK;
}

qsf_status qsf_input_merge(input *in, const qsf_convert_adapter *list, size_t n,
                           void (*warn)(void *user, const char *line), void *user, qsf_error *err)
{
    const peft_warn say = { user, warn };
    qsf_source model;
    bool ends = false;
    qsf_status st;
    if (!n) return QSF_OK;
    merged *m = qsf_arena_alloc(in->arena, sizeof *m, "adapters", err);
    if (!m) return QSF_E_MEMORY;
    m->arena = in->arena;
    m->last = &m->parts;
    if ((st = merge_model(in, &model, err))) return st;
    if (in->model_path) model.path = (char *)(uintptr_t)in->model_path;
    if ((st = merge_read_all(m, &model, list, n, &say, err))) return st;
    for (const merge_part *k = m->parts; k; k = k->next)
        ends |= k->kind == QSF_K_TOKEN_EMBD || k->kind == QSF_K_OUTPUT;
    if (ends && (st = qsf_input_untie(in, err))) return st;
    if ((st = merge_place(m, in, err))) return st;
    m->base = *in;
    in->read = merged_read;
    in->stored = merged_stored;
    in->reads = merged_reads;
    in->close = merged_close;
    in->model_path = NULL;
    in->own = m;
    return QSF_OK;
}
