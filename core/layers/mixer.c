/* What mixers with state share: their matrices, a convolution over positions, sums of heads.
 * SPDX-License-Identifier: MIT */
#include "layers/mixer.h"
#include "layers/product.h"

/* ---- rows of a program ---- */

void qsf_mixer_list_in(qsf_program *g)
{
    QSF_ADD(g, .op = QSF_OP_MIX_IN, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
            .in = qsf_stream_view(g, QSF_BUF_XN), .codes = QSF_OP_MIX_CODES, .watch = 1 + QSF_K_MIX_IN,
            .n = 4, .kinds = { QSF_K_MIX_IN, QSF_K_MIX_GATE, QSF_K_MIX_BETA, QSF_K_MIX_ALPHA },
            .to = { qsf_mixer_view(0, 0), qsf_mixer_view(0, 0), qsf_mixer_view(0, 0), qsf_mixer_view(0, 0) },
            .fn = qsf_product_row);
}

void qsf_mixer_list_out(const qsf_layer *l, qsf_program *g)
{
    QSF_ADD(g, .op = QSF_OP_MIX_OUT, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
            .in = qsf_mixer_result(l), .codes = QSF_OP_MIX_CODES, .watch = 1 + QSF_K_MIX_OUT, .n = 1,
            .kinds = { QSF_K_MIX_OUT }, .to = { { .buffer = QSF_BUF_TMP } }, .fn = qsf_product_row);
}

void qsf_mixer_list_columns(qsf_program *g, uint8_t work, qsf_view to, qsf_row_fn *fn)
{
    QSF_ADD(g, .op = QSF_OP_MIX, .work = work, .over = QSF_OVER_COLUMNS, .cols = to.cols, .to = { to },
            .fn = fn);
}

void qsf_mixer_list_scan(const qsf_layer *l, qsf_program *g, qsf_row_fn *fn)
{
    QSF_ADD(g, .op = QSF_OP_MIX, .work = QSF_WORK_SCAN, .over = QSF_OVER_SCAN, .to = { qsf_mixer_result(l) },
            .fn = fn);
}

void qsf_mixer_list_rows(qsf_program *g, uint8_t work, qsf_view to, qsf_view also, qsf_row_fn *fn)
{
    QSF_ADD(g, .op = QSF_OP_MIX, .work = work, .over = QSF_OVER_ROWS, .to = { to, also }, .fn = fn);
}

/* ---- state and columns ---- */

const float *qsf_mixer_before(const qsf_pass *p, size_t r)
{
    const qsf_batch_row *row = &p->batch->rows[r];
    const uint8_t *before = qsf_state_before(p->cpu->state, row->seq, row->pos);
    return (const float *)(const void *)(before + p->place.state);
}

float *qsf_mixer_after(const qsf_pass *p, size_t r)
{
    return (float *)(void *)(qsf_state_after(p->cpu->state, p->batch->rows[r].seq) + p->place.state);
}

qsf_range qsf_mixer_mine(const qsf_task *t)
{
    return (qsf_range){ t->begin * QSF_TILE_ROWS, QSF_MIN(t->end * QSF_TILE_ROWS, t->row->cols) };
}

size_t qsf_mixer_run(const qsf_pass *p, size_t r)
{
    const qsf_batch_row *rows = p->batch->rows;
    size_t n = 1;
    while (n < QSF_MIXER_ROWS && r + n < p->batch->n && rows[r + n].seq == rows[r].seq) n++;
    return n;
}

void qsf_mixer_convolve(const qsf_pass *p, float *x, size_t ld, qsf_range channels, bool silu)
{
    const size_t at = channels.begin, n = channels.end - at, taps = p->layer->mix_conv;
    const float *w = p->w->v[QSF_K_MIX_CONV] + at * taps, *bias = p->w->v[QSF_K_MIX_CONV_BIAS];
    if (bias) bias += at;
    x += at;
    for (size_t r = 0, some; r < p->batch->n; r += some) {
        some = qsf_mixer_run(p, r);
        p->k->convolve_inplace(x + r * ld, ld, some, n, qsf_mixer_after(p, r) + at,
                               qsf_mixer_before(p, r) + at, p->layer->mix_channels, w, bias, taps);
        for (size_t t = r; silu && t < r + some; t++) p->k->silu_inplace(x + t * ld, n);
    }
}

/* ---- sums ---- */

enum { SCAN_ROWS = 64 };        /* of a head, at most, that are an item of the job */

size_t qsf_mixer_scan_parts(const qsf_layer *l)
{
    return qsf_ceil_div(l->mix_inner / l->mix_heads, SCAN_ROWS);
}

/* Rows of a head's sums, from `first` on. */
static void scan_part(const qsf_pass *p, const qsf_mixer_head *h, size_t head, size_t first, size_t rows)
{
    const qsf_layer *l = p->layer;
    const size_t cols = l->mix_inner / l->mix_heads, ld = p->b->ld_mix;
    const size_t at = (size_t)(l->mix_conv - 1) * l->mix_channels + (head * cols + first) * l->mix_state;
    float keep[QSF_MIXER_ROWS], gain[QSF_MIXER_ROWS];
    qsf_scan s = { .keep = keep, .gain = gain, .ld = ld, .ld_y = p->b->ld_q, .n = l->mix_state,
                   .skip = h->skip, .correct = h->correct };
    for (size_t r = 0; r < p->batch->n; r += s.tokens) {
        s.tokens = qsf_mixer_run(p, r);
        for (size_t t = 0; t < s.tokens; t++) h->gates(p, r + t, head, &keep[t], &gain[t]);
        s.k = h->k + r * ld;
        s.q = h->q + r * ld;
        s.v = h->v + r * ld + first;
        s.y = p->b->att + r * s.ld_y + head * cols + first;
        p->k->scan_rows(qsf_mixer_after(p, r) + at, qsf_mixer_before(p, r) + at, rows, &s);
    }
}

void qsf_mixer_scan(const qsf_pass *p, const qsf_task *t,
                    qsf_mixer_head (*head_of)(const qsf_pass *p, size_t head))
{
    const size_t parts = qsf_mixer_scan_parts(p->layer), cols = p->layer->mix_inner / p->layer->mix_heads;
    for (size_t i = t->begin; i < t->end; i++) {
        const size_t head = i / parts, first = i % parts * SCAN_ROWS;
        const qsf_mixer_head h = head_of(p, head);
        scan_part(p, &h, head, first, QSF_MIN(cols - first, SCAN_ROWS));
    }
}
