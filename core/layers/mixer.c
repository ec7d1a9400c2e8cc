/* What mixers with state share: their matrices, a convolution over positions, sums of heads.
 * SPDX-License-Identifier: MIT */
#include "layers/mixer.h"
#include "layers/lora.h"

static const uint8_t mixer_inputs[4] = { QSF_K_MIX_IN, QSF_K_MIX_GATE, QSF_K_MIX_BETA, QSF_K_MIX_ALPHA };

void qsf_mixer_fill(const qsf_pass_job *job, const uint8_t *kinds, size_t n, uint32_t thread, uint32_t piece)
{
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = qsf_matrix_input(p, p->b->xn, p->b->ld_embd, p->hp->n_embd, 0, p->batch->n);
    const qsf_range mine = qsf_pass_mine(job, piece);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const qsf_matrix *m = &p->w->m[kinds[i]];
        if (!m->t.data) continue;
        const qsf_range tiles = qsf_range_cut(mine, at, qsf_matrix_tiles(m));
        qsf_matrix_multiply(p, m, NULL, &in, p->b->mix + at * QSF_TILE_ROWS, p->b->ld_mix, tiles, thread);
        at += qsf_matrix_tiles(m);
    }
}

static void widen(void *arg, uint32_t thread, uint32_t piece)
{
    qsf_mixer_fill(arg, mixer_inputs, QSF_ARRAY_LEN(mixer_inputs), thread, piece);
}

void qsf_mixer_in(qsf_pass_job *job)
{
    size_t tiles = 0;
    for (size_t i = 0; i < QSF_ARRAY_LEN(mixer_inputs); i++)
        tiles += qsf_matrix_tiles(&job->p->w->m[mixer_inputs[i]]);
    qsf_pass_run(job, QSF_OP_MIX_IN, tiles, widen);
}

static qsf_matrix_in mixed(const qsf_pass *p)
{
    return qsf_matrix_input(p, p->b->att, p->b->ld_q, p->layer->mix_inner, 0, p->batch->n);
}

static void ready_mixed(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_matrix_in in = mixed(job->p);
    qsf_rows_ready(job->p, (const uint8_t[]){ QSF_K_MIX_OUT }, 1, &in, qsf_pass_mine(job, piece), thread);
}

static void narrow_mixed(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = mixed(p);
    qsf_matrix_multiply(p, &p->w->m[QSF_K_MIX_OUT], NULL, &in, p->b->tmp, p->b->ld_embd,
                        qsf_pass_mine(job, piece), thread);
}

void qsf_mixer_out(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    const qsf_matrix *out = &p->w->m[QSF_K_MIX_OUT];
    if (qsf_rows_need(p, QSF_K_MIX_OUT)) qsf_pass_run(job, QSF_OP_MIX_CODES, p->batch->n, ready_mixed);
    qsf_pass_watch(p, QSF_K_MIX_OUT, p->b->att, p->b->ld_q, p->layer->mix_inner, 0, p->batch->n);
    qsf_pass_run(job, QSF_OP_MIX_OUT, qsf_matrix_tiles(out), narrow_mixed);
}

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

qsf_range qsf_mixer_mine(const qsf_pass_job *job, uint32_t piece, size_t columns)
{
    const qsf_range tiles = qsf_pass_mine(job, piece);
    return (qsf_range){ tiles.begin * QSF_TILE_ROWS, QSF_MIN(tiles.end * QSF_TILE_ROWS, columns) };
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

static size_t scan_parts(const qsf_layer *l) { return qsf_ceil_div(l->mix_inner / l->mix_heads, SCAN_ROWS); }

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

void qsf_mixer_scan_piece(const qsf_pass_job *job, uint32_t piece,
                          qsf_mixer_head (*head_of)(const qsf_pass *p, size_t head))
{
    const qsf_pass *p = job->p;
    const qsf_range mine = qsf_pass_mine(job, piece);
    const size_t parts = scan_parts(p->layer), cols = p->layer->mix_inner / p->layer->mix_heads;
    for (size_t i = mine.begin; i < mine.end; i++) {
        const size_t head = i / parts, first = i % parts * SCAN_ROWS;
        const qsf_mixer_head h = head_of(p, head);
        scan_part(p, &h, head, first, QSF_MIN(cols - first, SCAN_ROWS));
    }
}

void qsf_mixer_scan(qsf_pass_job *job, void (*piece)(void *job, uint32_t thread, uint32_t piece))
{
    const qsf_layer *l = job->p->layer;
    qsf_pass_run(job, QSF_OP_MIX, l->mix_heads * scan_parts(l), piece);
}
