/* What the layers of a model need to be computed.
 * SPDX-License-Identifier: MIT */
#include "layers/needs.h"
#include "layers/layer.h"

static void needs_view(qsf_needs *n, qsf_view v)
{
    n->cols[v.buffer] = QSF_MAX(n->cols[v.buffer], v.first + v.cols);
}

static void needs_scratch(qsf_needs *n, qsf_scratch_fn *scratch)
{
    uint32_t i = 0;
    while (i < n->n_scratches && n->scratches[i] != scratch) i++;
    assert(i < QSF_SCRATCHES);
    n->scratches[i] = scratch;
    n->n_scratches = QSF_MAX(n->n_scratches, i + 1);
}

void qsf_needs_add(qsf_needs *n, const qsf_program *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const qsf_program_row *row = &g->rows[i];
        needs_view(n, row->in);
        for (uint32_t k = 0; k < QSF_ROW_RESULTS; k++) needs_view(n, row->to[k]);
        for (uint32_t k = 0; k < row->n; k++) n->widest = QSF_MAX(n->widest, g->w->m[row->kinds[k]].t.cols);
        if (row->scratch) needs_scratch(n, row->scratch);
    }
}

void qsf_needs_of(const qsf_source *s, qsf_needs *n)
{
    const qsf_hparams *hp = &s->hp;
    qsf_weights w;
    qsf_program g;
    *n = (qsf_needs){ .widest = hp->n_embd };
    n->cols[QSF_BUF_X] = n->cols[QSF_BUF_XN] = n->cols[QSF_BUF_TMP] = hp->n_embd;
    if (hp->n_embd_layer) n->cols[QSF_BUF_X0] = hp->n_embd;
    n->cols[QSF_BUF_TABLE] = hp->n_layers * hp->n_embd_layer;
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        qsf_weights_describe(s, i, &w);
        qsf_program_begin(&g, hp, &w, false);
        qsf_layer_list(&s->layers[i], &g);
        qsf_needs_add(n, &g);
    }
}

/* ---- kinds of rows ---- */

static uint32_t kinds_add(qsf_row_kind *list, uint32_t n, uint32_t most, qsf_row_kind k)
{
    for (uint32_t i = 0; i < n; i++) {
        const qsf_row_kind *o = &list[i];
        if (o->op == k.op && o->work == k.work && o->over == k.over && o->when == k.when &&
            o->multiplies == k.multiplies && o->type == k.type && o->form == k.form) return n;
    }
    if (n < most) list[n++] = k;
    return n;
}

uint32_t qsf_program_kinds(const qsf_program *g, qsf_row_kind *list, uint32_t n, uint32_t most)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const qsf_program_row *row = &g->rows[i];
        const bool multiplies = row->work == QSF_WORK_PRODUCT || row->work == QSF_WORK_HEAD_PRODUCT ||
                                row->work == QSF_WORK_EXPERT_PRODUCT;
        qsf_row_kind kind = { .op = row->op, .work = row->work, .over = row->over, .when = row->when,
                              .multiplies = multiplies, .form = -1 };
        if (!multiplies) n = kinds_add(list, n, most, kind);
        for (uint32_t k = 0; multiplies && k < row->n; k++) {
            const qsf_matrix *m = &g->w->m[row->kinds[k]];
            kind.type = m->t.type;
            kind.form = (int8_t)m->form;
            if (m->t.rows) n = kinds_add(list, n, most, kind);
        }
    }
    return n;
}
