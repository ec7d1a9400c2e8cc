/* Programs of real layers: their rows lie within the buffers that were laid out for them, and no
 * row's function writes elsewhere.
 * SPDX-License-Identifier: MIT
 *
 *   program_models MODEL...
 *
 * A batch of one row less than the buffers have room for is computed, with everything filled with
 * one number before: the last row, and the columns that no row names, must keep it.  Prints a line
 * a model: "ok", or what is wrong. */
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
    const float *x = qsf_buffer_of(&c->b, v.buffer, &ld);
    return !v.buffer || (x && (size_t)v.first + v.cols <= ld);
}

/* Whether views, matrices and buffers of the i-th row of a layer agree. */
static int row_check(const char *path, const qsf_context *c, uint32_t layer, const qsf_program *g, uint32_t i)
{
    const qsf_program_row *row = &g->rows[i];
    if (!view_fits(c, row->in)) return wrong(path, "reads past its buffer", layer, i, row->in.buffer);
    for (uint32_t k = 0; k < QSF_ROW_RESULTS; k++)
        if (!view_fits(c, row->to[k])) return wrong(path, "writes past its buffer", layer, i, row->to[k].buffer);
    for (uint32_t k = 0; k < row->n; k++) {
        const qsf_tensor *t = &g->w->m[row->kinds[k]].t;
        if (t->rows && t->cols > c->b.max_cols) return wrong(path, "has a wider matrix", layer, i, k);
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

/* Of slots, a wave may take all. */
static int writes_check(const char *path, const qsf_context *c, const qsf_needs *n)
{
    for (uint32_t i = 1; i < QSF_BUF_SLOT_X; i++) {
        size_t ld;
        const float *x = qsf_buffer_of(&c->b, (uint8_t)i, &ld);
        if (!x) continue;
        for (size_t r = 0; r + 1 < ROOM && i != QSF_BUF_X && i != QSF_BUF_PREDICTED && i != QSF_BUF_TMP; r++)
            if (!untouched(x + r * ld + n->cols[i], ld - n->cols[i]))
                return wrong(path, "columns that no row names have changed", 0, (uint32_t)r, i);
        if (!untouched(x + (ROOM - 1) * ld, ld)) return wrong(path, "the row after the last has changed", 0, 0, i);
    }
    return 0;
}

static int model_check(const char *path, bool f32)
{
    qsf_context_options o;
    qsf_model *m;
    qsf_context *c = NULL;
    qsf_needs needs;
    qsf_error err;
    qsf_row rows[ROOM];
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
    for (size_t i = 0; i < c->buffers_bytes / 4; i++) memcpy(c->buffers + 4 * i, &(uint32_t){ UNTOUCHED }, 4);
    for (int i = 0; i + 1 < ROOM; i++) rows[i] = (qsf_row){ .token = 3 + i, .logits = i + 2 == ROOM };
    if (!bad && (st = qsf_compute(c, rows, ROOM - 1))) {
        printf("%s: %s\n", path, qsf_last_error(c));
        bad = 1;
    }
    if (!bad) bad = writes_check(path, c, &needs);
    qsf_context_free(c);
    qsf_model_close(m);
    return bad;
}

int main(int argc, char **argv)
{
    int bad = 0;
    for (int i = 1; i < argc; i++) {
        const int own = model_check(argv[i], false) || model_check(argv[i], true);
        if (!own) printf("ok %s\n", argv[i]);
        bad |= own;
    }
    return bad;
}
