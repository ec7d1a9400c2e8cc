/* Programs of real layers: their rows lie within the buffers that were laid out for them, and no
 * row's function writes elsewhere.
 * SPDX-License-Identifier: MIT
 *
 *   program_models [--kinds] MODEL...
 *
 * A batch of one row less than the buffers have room for is computed, with all of them filled with
 * one number before: the last row, and the columns that no row names, must keep it.  Prints a line
 * a model: "ok", or what is wrong.
 *
 * --kinds: prints the kinds of rows of each model's programs instead, with tabs in between: model,
 * operation, work, what its pieces divide, when it runs, type of the matrix. */
#include "engine/context.h"
#include "layers/layer.h"
#include "layers/needs.h"

#include <math.h>
#include <stdio.h>

enum { ROOM = 14 };     /* rows of the batch; not a power of two */

#define UNTOUCHED 0x7fc12345u    /* a NaN that no arithmetic makes */

static int wrong(const char *path, const char *what, uint32_t layer, uint32_t row, uint32_t buffer)
{
    printf("%s: %s: layer %u, row %u, buffer %u\n", path, what, layer, row, buffer);
    return 1;
}

static bool view_fits(const qsf_context *c, qsf_view v)
{
    size_t ld;
    const float *x = qsf_buffer_of(&c->on_cpu.b, v.buffer, &ld);
    return !v.buffer || (x && (size_t)v.first + v.cols <= ld);
}

/* Whether views, matrices and buffers of the i-th row of a layer agree. */
static int row_check(const char *path, const qsf_context *c, uint32_t layer, const qsf_program *g, uint32_t i)
{
    const qsf_program_row *row = &g->rows[i];
    if (!view_fits(c, row->in)) return wrong(path, "reads past its buffer", layer, i, row->in.buffer);
    for (uint32_t k = 0; k < QSF_ROW_RESULTS; k++)
        if (!view_fits(c, row->to[k]))
            return wrong(path, "writes past its buffer", layer, i, row->to[k].buffer);
    for (uint32_t k = 0; k < row->n; k++) {
        const qsf_tensor *t = &g->w->m[row->kinds[k]].t;
        if (t->rows && t->cols > c->on_cpu.b.max_cols) return wrong(path, "has a wider matrix", layer, i, k);
        if (t->rows && row->work != QSF_WORK_HEAD_PRODUCT && t->cols != row->in.cols)
            return wrong(path, "multiplies rows of another length", layer, i, k);
    }
    return 0;
}

static int programs_check(const char *path, const qsf_context *c)
{
    const qsf_source *s = c->model->source;
    static qsf_weights w;
    static qsf_program g;
    for (uint32_t l = 0; l < s->hp.n_layers; l++)
        for (int fetched = 0; fetched < 2; fetched++) {
            qsf_weights_describe(s, l, &w);
            qsf_program_begin(&g, &s->hp, &w, fetched);
            qsf_layer_list(&s->layers[l], &g);
            for (uint32_t i = 0; i < g.n; i++)
                if (row_check(path, c, l, &g, i)) return 1;
        }
    return 0;
}

static bool untouched(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        if (bits != UNTOUCHED) return false;
    }
    return true;
}

static void buffers_fill(const qsf_context *c)
{
    const uint32_t bits = UNTOUCHED;
    for (uint32_t i = 1; i < QSF_N_BUFFERS; i++) {
        size_t ld;
        float *x = qsf_buffer_of(&c->on_cpu.b, (uint8_t)i, &ld);
        const size_t rows = i < QSF_BUF_SLOT_X ? ROOM : c->on_cpu.b.n_slots;
        for (size_t k = 0; x && k < rows * ld; k++) memcpy(x + k, &bits, sizeof bits);
    }
}

/* Of slots, a wave may take all; matrices after the pooling are computed in all of xn. */
static int writes_check(const char *path, const qsf_context *c, const qsf_needs *n)
{
    for (uint32_t i = 1; i < QSF_BUF_SLOT_X; i++) {
        size_t ld;
        const float *x = qsf_buffer_of(&c->on_cpu.b, (uint8_t)i, &ld);
        if (!x || (i == QSF_BUF_XN && c->hp->n_between)) continue;
        for (size_t r = 0; r + 1 < ROOM; r++)
            if (!untouched(x + r * ld + n->cols[i], ld - n->cols[i]))
                return wrong(path, "columns that no row names have changed", 0, (uint32_t)r, i);
        if (!untouched(x + (ROOM - 1) * ld, ld))
            return wrong(path, "the row after the last has changed", 0, 0, i);
    }
    return 0;
}

/* A batch of ROOM - 1 rows. */
static qsf_status batch_compute(qsf_context *c)
{
    static float embedding[4096];
    qsf_row rows[ROOM - 1];
    int32_t ids[ROOM - 1];
    for (int i = 0; i < ROOM - 1; i++) {
        ids[i] = 3 + i;
        rows[i] = (qsf_row){ .token = ids[i], .logits = i + 2 == ROOM };
    }
    if (c->hp->both_ways) return qsf_embed(c, 0, ids, ROOM - 1, QSF_POOL_MEAN, embedding);
    return qsf_compute(c, rows, ROOM - 1);
}

static int model_check(const char *path, bool f32)
{
    qsf_context_options o;
    qsf_model *m;
    qsf_context *c = NULL;
    qsf_needs needs;
    qsf_error err;
    int bad;
    qsf_context_defaults(&o);
    o.n_ctx = 64;
    o.n_batch = ROOM;
    o.n_threads = 2;
    o.f32 = f32;
    qsf_status st = qsf_model_open(path, NULL, &m, &err);
    if (!st) st = qsf_context_new(m, &o, &c, &err);
    if (st) {
        printf("%s: %s\n", path, err.text);
        return 1;
    }
    qsf_needs_of(m->source, &needs);
    bad = programs_check(path, c);
    buffers_fill(c);
    if (!bad && (st = batch_compute(c))) {
        printf("%s: %s\n", path, qsf_last_error(c));
        bad = 1;
    }
    if (!bad) bad = writes_check(path, c, &needs);
    qsf_context_free(c);
    qsf_model_close(m);
    return bad;
}

/* ---- kinds of rows ---- */

static const char *const works[] = {
    [QSF_WORK_PRODUCT] = "product", [QSF_WORK_HEAD_PRODUCT] = "product of heads",
    [QSF_WORK_EXPERT_PRODUCT] = "product of experts", [QSF_WORK_CODES] = "codes", [QSF_WORK_NORM] = "norm",
    [QSF_WORK_ADD] = "add", [QSF_WORK_ACTIVATE] = "activate", [QSF_WORK_COPY] = "copy",
    [QSF_WORK_PLACE] = "place", [QSF_WORK_ATTEND] = "attend", [QSF_WORK_SHIFT] = "shift",
    [QSF_WORK_CONVOLVE] = "convolve", [QSF_WORK_SCAN] = "scan", [QSF_WORK_ROUTE] = "route",
    [QSF_WORK_GATHER] = "gather", [QSF_WORK_REDUCE] = "reduce", [QSF_WORK_WATCH] = "watch",
};
static const char *const overs[QSF_N_OVERS] = {
    [QSF_OVER_ROWS] = "rows", [QSF_OVER_TILES] = "tiles", [QSF_OVER_FIRST_TILES] = "tiles of the first",
    [QSF_OVER_COLUMNS] = "columns", [QSF_OVER_HEADS] = "heads", [QSF_OVER_PLACES] = "rows and heads",
    [QSF_OVER_GROUPS] = "groups and heads", [QSF_OVER_MIX_HEADS] = "the mixer's heads",
    [QSF_OVER_SCAN] = "parts of heads", [QSF_OVER_SLOTS] = "slots",
    [QSF_OVER_HIDDEN_TILES] = "tiles of hidden rows", [QSF_OVER_OUT_TILES] = "tiles of outputs",
    [QSF_OVER_NOTHING] = "-",
};
static const char *const whens[QSF_N_ROW_WHENS] = {
    [QSF_ROW_ALWAYS] = "-", [QSF_ROW_GROUPS_MEET] = "groups meet", [QSF_ROW_GATHERED] = "gathered",
};

static int kinds_print(const char *path)
{
    enum { MOST = 256 };
    static qsf_row_kind list[MOST];
    static qsf_weights w;
    static qsf_program g;
    qsf_model *m;
    qsf_error err;
    uint32_t n = 0;
    if (qsf_model_open(path, NULL, &m, &err)) return 1;
    const qsf_source *s = m->source;
    for (uint32_t l = 0; l < s->hp.n_layers; l++) {
        qsf_weights_describe(s, l, &w);
        qsf_program_begin(&g, &s->hp, &w, false);
        qsf_layer_list(&s->layers[l], &g);
        n = qsf_program_kinds(&g, list, n, MOST);
    }
    for (uint32_t i = 0; i < n; i++) {
        const qsf_row_kind *k = &list[i];
        const char *type = k->multiplies ? qsf_type_get(k->type)->name : "-";
        const char *op = k->over == QSF_OVER_NOTHING ? "-" : qsf_ops[k->op].name;
        printf("%s\t%s\t%s\t%s\t%s\t%s\n", path, op, works[k->work], overs[k->over], whens[k->when], type);
    }
    qsf_model_close(m);
    return n == MOST;
}

int main(int argc, char **argv)
{
    int bad = 0;
    if (argc > 1 && !strcmp(argv[1], "--kinds")) {
        for (int i = 2; i < argc; i++) bad |= kinds_print(argv[i]);
        return bad;
    }
    for (int i = 1; i < argc; i++) {
        const int own = model_check(argv[i], false) || model_check(argv[i], true);
        if (!own) printf("ok %s\n", argv[i]);
        bad |= own;
    }
    return bad;
}
