/* A layer for multi-token prediction: its rows begin with the embedding of a token and the model's
 * hidden state at the position before it (DeepSeek-V3 technical report, arXiv:2412.19437, section
 * 2.2).  An EAGLE 3 head, whose rows begin with features instead (Li et al. 2025,
 * arXiv:2503.01840).
 * SPDX-License-Identifier: MIT */
#include "layers/mtp.h"
#include "layers/product.h"

static void join_norms(const qsf_pass *p, const qsf_task *t)
{
    const size_t n = p->hp->n_embd;
    for (size_t r = t->begin; r < t->end; r++) {
        float *y = p->b->joined + r * p->b->ld_joined, *x = p->b->x + r * p->b->ld_embd;
        qsf_pass_check(p, y + n, n);
        qsf_pass_norm(p, p->layer->norm, y, x, p->w->v[QSF_K_MTP_EMBD_NORM], NULL, n);
        qsf_pass_norm(p, p->layer->norm, y + n, y + n, p->w->v[QSF_K_MTP_STATE_NORM], NULL, n);
    }
}

static void begin_stream(const qsf_pass *p, const qsf_task *t)
{
    for (size_t r = t->begin; r < t->end; r++)
        memcpy(p->b->x + r * p->b->ld_embd, p->b->tmp + r * p->b->ld_embd, p->hp->n_embd * sizeof(float));
}

static void norm_before_head(const qsf_pass *p, const qsf_task *t)
{
    for (size_t r = t->begin; r < t->end; r++) {
        float *x = p->b->x + r * p->b->ld_embd;
        qsf_pass_norm(p, p->layer->norm, x, x, p->w->v[QSF_K_MTP_NORM], NULL, p->hp->n_embd);
    }
}

/* ---- an EAGLE 3 head ---- */

static void norm_features(const qsf_pass *p, const qsf_task *t)
{
    const size_t n = p->hp->n_features;
    for (size_t r = t->begin; r < t->end; r++) {
        float *x = p->b->features + r * p->b->ld_features;
        qsf_pass_check(p, x, n);
        if (p->hp->features_normed)
            qsf_pass_norm(p, p->layer->norm, x, x, p->w->v[QSF_K_FEATURES_NORM], NULL, n);
    }
}

static void join_state(const qsf_pass *p, const qsf_task *t)
{
    const size_t n = p->hp->n_embd;
    for (size_t r = t->begin; r < t->end; r++) {
        float *y = p->b->joined + r * p->b->ld_joined, *state = y + n, *x = p->b->x + r * p->b->ld_embd;
        if (!p->batch->own_states) memcpy(state, p->b->tmp + r * p->b->ld_embd, n * sizeof *state);
        qsf_pass_check(p, state, n);
        qsf_pass_norm(p, p->layer->norm, y, x, p->w->v[QSF_K_MTP_EMBD_NORM], NULL, n);
        memcpy(x, state, n * sizeof *x);
        qsf_pass_norm(p, p->layer->norm, state, state, p->w->v[QSF_K_MTP_STATE_NORM], NULL, n);
        if (p->hp->eagle_normed) memcpy(x, state, n * sizeof *x);
    }
}

void qsf_eagle_list_begin(qsf_program *g)
{
    const qsf_view x = qsf_stream_view(g, QSF_BUF_X), tmp = qsf_stream_view(g, QSF_BUF_TMP);
    const qsf_view joined = { .buffer = QSF_BUF_JOINED, .cols = 2 * g->hp->n_embd };
    const qsf_view features = { .buffer = QSF_BUF_FEATURES, .cols = g->hp->n_features };
    QSF_ADD(g, .op = QSF_OP_MTP, .work = QSF_WORK_NORM, .over = QSF_OVER_ROWS, .to = { features },
            .when = QSF_ROW_FEATURES, .fn = norm_features);
    QSF_ADD(g, .op = QSF_OP_MTP, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES, .in = features,
            .codes = QSF_OP_MTP, .watch = 1 + QSF_K_MTP_PROJ, .n = 1, .kinds = { QSF_K_MTP_PROJ },
            .to = { tmp }, .when = QSF_ROW_FEATURES, .fn = qsf_product_row);
    QSF_ADD(g, .op = QSF_OP_MTP, .work = QSF_WORK_NORM, .over = QSF_OVER_ROWS, .in = tmp, .to = { joined, x },
            .fn = join_state);
}

/* ---- a layer for multi-token prediction ---- */

void qsf_mtp_list_begin(qsf_program *g)
{
    const qsf_view x = qsf_stream_view(g, QSF_BUF_X), tmp = qsf_stream_view(g, QSF_BUF_TMP);
    const qsf_view joined = { .buffer = QSF_BUF_JOINED, .cols = 2 * g->hp->n_embd };
    QSF_ADD(g, .op = QSF_OP_MTP, .work = QSF_WORK_NORM, .over = QSF_OVER_ROWS, .in = x, .to = { joined },
            .fn = join_norms);
    QSF_ADD(g, .op = QSF_OP_MTP, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES, .in = joined,
            .codes = QSF_OP_MTP, .watch = 1 + QSF_K_MTP_PROJ, .n = 1, .kinds = { QSF_K_MTP_PROJ },
            .to = { tmp }, .fn = qsf_product_row);
    QSF_ADD(g, .op = QSF_OP_MTP, .work = QSF_WORK_COPY, .over = QSF_OVER_ROWS, .in = tmp, .to = { x },
            .fn = begin_stream);
}

void qsf_mtp_list_end(qsf_program *g)
{
    QSF_ADD(g, .op = QSF_OP_MTP, .work = QSF_WORK_NORM, .over = QSF_OVER_ROWS,
            .to = { qsf_stream_view(g, QSF_BUF_X) }, .fn = norm_before_head);
}
