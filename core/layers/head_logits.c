/* The head's products, its bias and its soft cap.
 * SPDX-License-Identifier: MIT */
#include "layers/head_logits.h"
#include "layers/lora.h"

void qsf_head_product(const qsf_pass *p, const qsf_matrix *m, uint32_t j, uint32_t n, float *y, size_t ldy,
                      qsf_range tiles, uint32_t thread)
{
    const qsf_matrix_in in = qsf_matrix_input(p, p->b->xn, p->b->ld_embd, p->hp->n_embd, j, n);
    qsf_matrix_multiply(p, m, NULL, &in, y, ldy, tiles, thread);
}

void qsf_head_logits(const qsf_pass *p, const qsf_head_part *part, uint32_t j, uint32_t n, qsf_range tiles,
                     uint32_t thread)
{
    const qsf_matrix_in in = qsf_matrix_input(p, p->b->xn, p->b->ld_embd, p->hp->n_embd, j, n);
    const size_t begin = tiles.begin * QSF_TILE_ROWS;
    const size_t end = QSF_MIN(tiles.end * QSF_TILE_ROWS, part->m.t.rows);
    const float cap = p->hp->final_softcap;
    float *logits = qsf_head_row(p, j) + part->row;
    qsf_matrix_multiply(p, &part->m, part->bias, &in, logits, p->b->ld_vocab, tiles, thread);
    if (p->cpu->lora) qsf_lora_logits(p, part->row, j, n, logits, p->b->ld_vocab, tiles);
    for (size_t i = 0; cap > 0 && begin < end && i < n; i++)
        p->k->softcap_inplace(logits + i * p->b->ld_vocab + begin, cap, end - begin);
}

void qsf_head_logits_of(const qsf_pass *p, const qsf_head_part *part, uint32_t j, const uint32_t *tiles,
                        qsf_range which, uint32_t thread)
{
    for (size_t i = which.begin; i < which.end; i++)
        qsf_head_logits(p, part, j, 1, (qsf_range){ tiles[i], tiles[i] + 1 }, thread);
}

typedef struct logits_job {
    const qsf_pass      *p;
    const qsf_head_part *part;
    uint32_t             n, n_pieces;
} logits_job;

static void logits_piece(void *arg, uint32_t thread, uint32_t piece)
{
    const logits_job *job = arg;
    const qsf_range tiles = qsf_range_of(qsf_matrix_tiles(&job->part->m), piece, job->n_pieces);
    qsf_head_logits(job->p, job->part, 0, job->n, tiles, thread);
}

uint64_t qsf_head_logits_all(const qsf_pass *p, const qsf_head_part *part, uint32_t n, qsf_op op,
                             uint64_t begin)
{
    logits_job job = { p, part, n, qsf_pool_pieces(p->cpu->pool, qsf_matrix_tiles(&part->m)) };
    qsf_op_run run = { .op = op, .begin = begin, .n_pieces = job.n_pieces, .size = n, .fn = logits_piece,
                       .arg = &job, .n_products = 1, .products = { { &part->m, part->m.t.rows, n, 0 } } };
    return qsf_pass_share(p, &run);
}
