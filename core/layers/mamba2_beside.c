/* Falcon-H1's mixer: Mamba-2 and attention read the same normed rows, and their outputs are added.
 * SPDX-License-Identifier: MIT */
#include "layers/mamba2_beside.h"
#include "layers/attention.h"
#include "layers/mamba2.h"
#include "layers/matrix.h"

static float *beside_row(const qsf_pass *p, size_t r) { return p->b->mix + r * p->b->ld_mix; }

/* Mamba-2's output goes to the buffer of its input, and the normed rows get their codes back. */
static void keep_first(void *arg, uint32_t thread, uint32_t piece)
{
    static const uint8_t kinds[3] = { QSF_K_ATTN_Q, QSF_K_ATTN_K, QSF_K_ATTN_V };
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_range rows = qsf_pass_mine(job, piece);
    const qsf_matrix_in in = qsf_matrix_input(p, p->b->xn, p->b->ld_embd, p->hp->n_embd, 0, p->batch->n);
    bool codes = false;
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++)
        memcpy(beside_row(p, r), p->b->tmp + r * p->b->ld_embd, p->hp->n_embd * sizeof(float));
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++) codes |= qsf_matrix_takes_codes(p, &p->w->m[kinds[i]]);
    if (codes) qsf_matrix_quantize(p, &in, rows);
}

static void add_first(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        float *y = p->b->tmp + r * p->b->ld_embd;
        p->k->vec_add(y, y, beside_row(p, r), p->hp->n_embd);
    }
}

void qsf_mamba2_beside_run(qsf_pass_job *job)
{
    const uint32_t n = job->p->batch->n;
    qsf_mamba2_run(job);
    qsf_pass_run(job, QSF_OP_MIX_CODES, n, keep_first);
    qsf_attention_run(job);
    qsf_pass_run(job, QSF_OP_MIX_CODES, n, add_first);
}
