/* What mixers with state share: their matrices, and a convolution over positions.
 * SPDX-License-Identifier: MIT */
#include "engine/mixer.h"
#include "engine/lora.h"

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
    return (const float *)(const void *)(qsf_state_before(p->state, row->seq, row->pos) + p->state_place);
}

float *qsf_mixer_after(const qsf_pass *p, size_t r)
{
    return (float *)(void *)(qsf_state_after(p->state, p->batch->rows[r].seq) + p->state_place);
}

void qsf_mixer_convolve(const qsf_pass *p, size_t r, float *x, qsf_range channels)
{
    const uint32_t back = p->layer->mix_conv - 1, n = p->layer->mix_channels;
    const float *before = qsf_mixer_before(p, r), *w = p->w->v[QSF_K_MIX_CONV];
    const float *bias = p->w->v[QSF_K_MIX_CONV_BIAS];
    float *after = qsf_mixer_after(p, r);
    for (size_t c = channels.begin; c < channels.end; c++) {
        const float *taps = w + c * p->layer->mix_conv;
        float sum = taps[back] * x[c];
        for (uint32_t k = 0; k < back; k++) sum += taps[k] * before[k * n + c];
        for (uint32_t k = 0; k + 1 < back; k++) after[k * n + c] = before[(k + 1) * n + c];
        after[(back - 1) * n + c] = x[c];
        x[c] = bias ? sum + bias[c] : sum;
    }
}

void qsf_mixer_convolve_rows(const qsf_pass *p, float *x, qsf_range channels)
{
    for (size_t r = 0; r < p->batch->n; r++, x += p->b->ld_mix) {
        qsf_mixer_convolve(p, r, x, channels);
        for (size_t c = channels.begin; c < channels.end; c++) x[c] /= 1 + (float)exp(-x[c]);
    }
}
