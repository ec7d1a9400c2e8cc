/* A tied model as one whose head is a matrix of its own, and the other way round.
 * SPDX-License-Identifier: MIT */
#include "read/tie.h"
#include "model/roles.h"

typedef struct tie_own {
    input    base;
    uint32_t embd, head;        /* indices in the list: base's if it was untied, else the new one's */
    bool     tied;              /* embd is read from base's head, which is no longer a tensor */
} tie_own;

/* Of base's list. */
static uint32_t tie_place(const tie_own *k, uint32_t i)
{
    if (k->tied) return i == k->embd ? k->head : i + (i >= k->head);
    return i == k->head ? k->embd : i - (i > k->head);
}

static qsf_status tie_read(input *in, uint32_t i, uint32_t row, uint32_t n, float *out, qsf_error *err)
{
    tie_own *k = in->own;
    return k->base.read(&k->base, tie_place(k, i), row, n, out, err);
}

static qsf_status tie_stored(input *in, uint32_t i, bool load, input_stored *out, qsf_error *err)
{
    tie_own *k = in->own;
    return k->base.stored(&k->base, tie_place(k, i), load, out, err);
}

static bool tie_reads(input *in, const char *path)
{
    tie_own *k = in->own;
    return k->base.reads(&k->base, path);
}

static void tie_close(input *in)
{
    const tie_own *k = in->own;
    *in = k->base;              /* which owns the arena that k is in */
    in->close(in);
}

static void tie_take(input *in, tie_own *k, input_tensor *tensors, uint32_t n)
{
    k->base = *in;
    in->tensors = tensors;
    in->n_tensors = n;
    in->hp.tied = k->tied;
    in->untied = !k->tied;
    in->read = tie_read;
    in->stored = k->base.stored ? tie_stored : NULL;
    in->reads = k->base.reads ? tie_reads : NULL;
    in->close = tie_close;
    in->own = k;
}

/* n_tensors: not found. */
static uint32_t tie_find(const input *in, uint32_t kind)
{
    uint32_t i = 0;
    while (i < in->n_tensors && in->tensors[i].kind != kind) i++;
    return i;
}

qsf_status qsf_input_untie(input *in, qsf_error *err)
{
    const uint32_t final = qsf_unit_number(in->hp.n_layers, qsf_id_final());
    if (!in->hp.tied) return QSF_OK;
    tie_own *k = qsf_arena_alloc(in->arena, sizeof *k, "a head", err);
    input_tensor *t = qsf_arena_array(in->arena, (uint64_t)in->n_tensors + 1, sizeof *t, "tensor list", err);
    if (!k || !t) return QSF_E_MEMORY;
    k->embd = tie_find(in, QSF_K_TOKEN_EMBD);
    while (k->head < in->n_tensors &&
           (in->tensors[k->head].unit != final || in->tensors[k->head].kind < QSF_K_OUTPUT))
        k->head++;
    if (k->embd == in->n_tensors) return qsf_fail(err, QSF_E_CORRUPT, "the model has no embedding");
    for (uint32_t i = 0; i < in->n_tensors; i++) t[i + (i >= k->head)] = in->tensors[i];
    t[k->head] = in->tensors[k->embd];
    t[k->head].unit = final;
    t[k->head].kind = QSF_K_OUTPUT;
    t[k->head].name = qsf_kind_name(QSF_K_OUTPUT);
    t[k->head].stored_bytes = 0;
    tie_take(in, k, t, in->n_tensors + 1);
    return QSF_OK;
}

/* ---- the other way round ---- */

/* The squared difference: a table in 4 bits is 0.005 to 0.01 from what it was made of, tables that
 * were trained apart are 2.  A token whose rows differ by more was trained apart, or is new. */
#define TIE_APART     0.01
#define TIE_ROW_APART 0.25

enum { TIE_ROWS = 64 };         /* read at once */

typedef struct tie_sums { double apart, squares, worst; } tie_sums;

static void tie_add(const float *embd, const float *head, uint32_t rows, uint32_t cols, tie_sums *s)
{
    for (uint32_t r = 0; r < rows; r++) {
        double apart = 0, squares = 0;
        for (uint32_t i = 0; i < cols; i++) {
            const double h = head[(size_t)r * cols + i], d = embd[(size_t)r * cols + i] - h;
            apart += d * d;
            squares += h * h;
        }
        s->apart += apart;
        s->squares += squares;
        if (apart > TIE_ROW_APART * squares) s->worst = QSF_MAX(s->worst, apart);
    }
}

static qsf_status tie_compare(input *in, uint32_t embd, uint32_t head, float *rows, tie_sums *s,
                              qsf_error *err)
{
    const input_tensor *t = &in->tensors[head];
    float *other = rows + (size_t)TIE_ROWS * t->cols;
    qsf_status st = QSF_OK;
    for (uint32_t row = 0; !st && row < t->rows; row += TIE_ROWS) {
        const uint32_t n = QSF_MIN(TIE_ROWS, t->rows - row);
        st = in->read(in, embd, row, n, rows, err);
        if (!st) st = in->read(in, head, row, n, other, err);
        if (!st) tie_add(rows, other, n, t->cols, s);
    }
    return st;
}

/* Rows of tokens that are never used may be close to zero, and differ by all of their size. */
static bool tie_same(const tie_sums *s, uint32_t rows)
{
    return s->apart <= TIE_APART * s->squares && s->worst <= TIE_APART * s->squares / rows;
}

static qsf_status tie_measure(input *in, uint32_t embd, uint32_t head, bool *same, double *apart,
                              qsf_error *err)
{
    const uint64_t n = 2 * (uint64_t)TIE_ROWS * in->tensors[head].cols;
    float *rows = qsf_alloc_array(in->platform, n, sizeof *rows, "rows to compare", err);
    tie_sums s = { 0 };
    const qsf_status st = rows ? tie_compare(in, embd, head, rows, &s, err) : QSF_E_MEMORY;
    qsf_dealloc(in->platform, rows, n * sizeof *rows);
    *same = tie_same(&s, in->tensors[head].rows);
    *apart = s.squares > 0 ? s.apart / s.squares : 0;
    return st;
}

qsf_status qsf_input_tie(input *in, double *apart, qsf_error *err)
{
    const uint32_t embd = tie_find(in, QSF_K_TOKEN_EMBD), head = tie_find(in, QSF_K_OUTPUT);
    bool same;
    *apart = 0;
    if (in->hp.tied || embd == in->n_tensors || head == in->n_tensors) return QSF_OK;
    const input_tensor *e = &in->tensors[embd], *h = &in->tensors[head];
    if (e->rows != h->rows || e->cols != h->cols || e->scale != 0 || h->scale != 0) return QSF_OK;
    const qsf_status st = tie_measure(in, embd, head, &same, apart, err);
    if (st || !same) return st;
    tie_own *k = qsf_arena_alloc(in->arena, sizeof *k, "a head", err);
    input_tensor *t = qsf_arena_array(in->arena, in->n_tensors, sizeof *t, "tensor list", err);
    if (!k || !t) return QSF_E_MEMORY;
    for (uint32_t i = 0, n = 0; i < in->n_tensors; i++)
        if (i != head) t[n++] = in->tensors[i];
    t[embd].stored_bytes += h->stored_bytes;
    t[embd].source_type = h->source_type;
    k->embd = embd;             /* which comes before the head, in either list */
    k->head = head;
    k->tied = true;
    tie_take(in, k, t, in->n_tensors - 1);
    return QSF_OK;
}

#undef TIE_APART
#undef TIE_ROW_APART
