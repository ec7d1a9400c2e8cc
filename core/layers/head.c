/* The head's final norm, and which of its rows are computed.
 * SPDX-License-Identifier: MIT */
#include "layers/head.h"
#include "layers/lora.h"

qsf_status qsf_head_bytes(const qsf_source *s, const qsf_context_options *o, uint64_t *bytes, qsf_error *err)
{
    *bytes = 0;
    if (o->head == QSF_HEAD_EXACT) return QSF_OK;
    if (o->f32)
        return qsf_fail(err, QSF_E_ARGUMENT, "f32 is for exact logits: it cannot be combined with an "
                        "approximate head");
    return o->head == QSF_HEAD_SCREEN ? qsf_screen_bytes(s, bytes, err) : qsf_clusters_bytes(s, bytes, err);
}

qsf_status qsf_head_init(qsf_head *h, const qsf_source *s, const qsf_platform *mem,
                         const qsf_context_options *o, qsf_error *err)
{
    *h = (qsf_head){ .mode = o->head };
    if (o->head == QSF_HEAD_SCREEN) return qsf_screen_init(&h->screen, s, mem, err);
    return o->head == QSF_HEAD_CLUSTERS ? qsf_clusters_init(&h->clusters, s, mem, err) : QSF_OK;
}

void qsf_head_done(qsf_head *h)
{
    if (h->mode == QSF_HEAD_SCREEN) qsf_screen_done(&h->screen);
    if (h->mode == QSF_HEAD_CLUSTERS) qsf_clusters_done(&h->clusters);
}

qsf_status qsf_head_not_finite(const qsf_source *s, qsf_error *err)
{
    return qsf_fail(err, QSF_E_CORRUPT, "%s: the output head computes logits that are not finite: its "
                    "weights are damaged; get or convert the file again", s->path);
}

static void norm_row(const qsf_pass *p, float *y, uint32_t r)
{
    const float *const *v = p->w->v;
    if (p->hp->flow == QSF_FLOW_SUMS || p->hp->mtp_norm) {
        memcpy(y, p->b->x + r * p->b->ld_embd, p->hp->n_embd * sizeof *y);
        return;
    }
    qsf_pass_norm(p, qsf_norm_of(p->hp), y, p->b->x + r * p->b->ld_embd, v[QSF_K_OUTPUT_NORM],
                  v[QSF_K_OUTPUT_NORM_BIAS], p->hp->n_embd);
}

void qsf_head_hidden(const qsf_pass *p, uint32_t r, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float *y = p->b->tmp + i * p->b->ld_embd;
        norm_row(p, y, r + i);
        qsf_pass_check(p, y, p->hp->n_embd);
    }
    qsf_pass_watch(p, QSF_K_OUTPUT, p->b->tmp, p->b->ld_embd, p->hp->n_embd, r, n);
}

/* Norms the rows that asked, side by side, and makes their codes. */
static void head_norm(const qsf_pass *p, bool codes)
{
    const uint32_t n_asked = p->batch->n_asked;
    const float scale = p->hp->logit_scale;
    uint32_t j = 0;
    for (uint32_t r = 0; r < p->batch->n; r++) {
        if (p->batch->rows[r].logits < 0) continue;
        float *y = p->b->xn + j++ * p->b->ld_embd;
        norm_row(p, y, r);
        if (scale != 0 && scale != 1) p->k->vec_scale(y, scale, p->hp->n_embd);
    }
    const qsf_matrix_in in = qsf_matrix_input(p, p->b->xn, p->b->ld_embd, p->hp->n_embd, 0, n_asked);
    const qsf_range rows = { 0, n_asked };
    if (codes || (p->cpu->lora && !p->o->f32)) qsf_matrix_quantize(p, &in, rows);
    qsf_lora_down(p, p->hp->n_layers + 1, (const uint8_t[]){ QSF_K_OUTPUT }, 1, &in, rows, 0);
}

void qsf_head_compute(qsf_head *h, const qsf_pass *p, const qsf_head_part *part, bool first)
{
    uint64_t begin = qsf_now(p->cpu->platform);
    const bool few = qsf_head_leaves_out(h, p->batch->n_asked);
    const bool screen = h->mode == QSF_HEAD_SCREEN;
    if (first) {
        head_norm(p, few || qsf_matrix_takes_codes(p, &part->m));
        begin = qsf_pass_alone(p, QSF_OP_HEAD_NORM, begin);
    }
    if (few && !h->ready) {
        if (screen) begin = qsf_screen_make(&h->screen, p, &part->m, begin);
        else begin = qsf_clusters_make(&h->clusters, p, part, begin);
        h->ready = true;
    }
    if (!few) (void)qsf_head_logits_all(p, part, p->batch->n_asked, QSF_OP_HEAD, begin);
    else if (screen) qsf_screen_run(&h->screen, p, part, begin);
    else qsf_clusters_run(&h->clusters, p, part, begin);
    if (!few && qsf_head_places(h)) qsf_clusters_unsort(&h->clusters, p);
}

/* ---- given rows ---- */

typedef struct head_rows_job {
    const qsf_head      *h;
    const qsf_pass      *p;
    const qsf_head_part *part;
    const uint32_t      *mask;
    uint32_t             row, n_pieces;
    atomic_uint          tiles;         /* computed */
} head_rows_job;

/* The token whose row stands at place r of the head. */
static uint32_t head_token(const qsf_head *h, uint32_t r)
{
    return h->mode == QSF_HEAD_CLUSTERS ? h->clusters.k->order[r] : r;
}

static void head_rows_piece(void *arg, uint32_t thread, uint32_t piece)
{
    head_rows_job *job = arg;
    const qsf_matrix *m = &job->part->m;
    const qsf_range mine = qsf_range_of(qsf_matrix_tiles(m), piece, job->n_pieces);
    float *logits = qsf_head_row(job->p, job->row);
    for (size_t t = mine.begin; t < mine.end; t++) {
        const uint32_t begin = (uint32_t)t * QSF_TILE_ROWS, end = QSF_MIN(begin + QSF_TILE_ROWS, m->t.rows);
        bool wanted = false;
        for (uint32_t r = begin; r < end; r++) {
            const uint32_t id = head_token(job->h, r);
            wanted |= (job->mask[id / 32] >> id % 32 & 1) && logits[id] == -INFINITY;
        }
        if (!wanted) continue;
        atomic_fetch_add_explicit(&job->tiles, 1, memory_order_relaxed);
        if (job->h->mode == QSF_HEAD_CLUSTERS)
            qsf_clusters_tile(&job->h->clusters, job->p, job->part, job->row, (uint32_t)t, thread);
        else
            qsf_head_logits(job->p, job->part, job->row, 1, (qsf_range){ t, t + 1 }, thread);
    }
}

void qsf_head_rows(const qsf_head *h, const qsf_pass *p, const qsf_head_part *part, uint32_t j,
                   const uint32_t *mask)
{
    head_rows_job job = { h, p, part, mask, j, qsf_pool_pieces(p->cpu->pool, qsf_matrix_tiles(&part->m)), 0 };
    qsf_op_run run = { .op = QSF_OP_HEAD, .begin = qsf_now(p->cpu->platform),
                       .n_pieces = job.n_pieces, .size = 1, .fn = head_rows_piece, .arg = &job,
                       .n_products = 1, .products = { { &part->m, 0, 1, 0 } }, .tiles = &job.tiles };
    (void)qsf_pass_share(p, &run);
}

bool qsf_head_leaves_out(const qsf_head *h, uint32_t n_asked)
{
    return h->mode != QSF_HEAD_EXACT && n_asked <= QSF_HEAD_ROWS;
}

const uint32_t *qsf_head_places(const qsf_head *h)
{
    return h->mode == QSF_HEAD_CLUSTERS && h->ready ? qsf_clusters_places(&h->clusters) : NULL;
}
