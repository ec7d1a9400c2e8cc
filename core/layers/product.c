/* A product of all rows of a batch as jobs of their own: codes, if the matrix takes them, then
 * it.
 * SPDX-License-Identifier: MIT */
#include "layers/lora.h"
#include "layers/product.h"

typedef struct product_job {
    qsf_pass_job job;           /* first: its pieces get this */
    qsf_matrix_in in;
    const qsf_product_to *to;
} product_job;

static void product_codes(void *arg, uint32_t thread, uint32_t piece)
{
    const product_job *a = arg;
    const uint8_t kinds[] = { (uint8_t)a->to->kind };
    qsf_rows_ready(a->job.p, kinds, 1, &a->in, qsf_pass_mine(&a->job, piece), thread);
}

static void product_multiply(void *arg, uint32_t thread, uint32_t piece)
{
    const product_job *a = arg;
    const qsf_pass *p = a->job.p;
    qsf_matrix_multiply(p, &p->w->m[a->to->kind], a->to->bias, &a->in, a->to->y, a->to->ldy,
                        qsf_pass_mine(&a->job, piece), thread);
}

void qsf_product_run(qsf_pass_job *job, const qsf_product_to *to)
{
    const qsf_pass *p = job->p;
    const qsf_matrix *m = &p->w->m[to->kind];
    const uint32_t n = p->batch->n;
    product_job a = { .job = *job, .to = to, .in = qsf_matrix_input(p, to->x, to->ld, to->cols, 0, n) };
    if (qsf_rows_need(p, to->kind)) qsf_pass_run(&a.job, to->codes, n, product_codes);
    qsf_pass_watch(p, to->kind, to->x, to->ld, to->cols, 0, n);
    qsf_pass_run(&a.job, to->op, qsf_matrix_tiles(m), product_multiply);
    *job = a.job;
}
