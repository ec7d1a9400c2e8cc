/* A grammar's memory, and its end.
 * SPDX-License-Identifier: MIT */
#include "grammar/grammar_own.h"

const qsf_platform *qsf_grammar_host(const qsf_grammar *g) { return g->platform; }
uint64_t qsf_grammar_memory(const qsf_grammar *g) { return sizeof *g + g->memory; }

void qsf_grammar_drop(qsf_grammar *g)
{
    if (!g) return;
    qsf_gram_forget_masks(g);
    qsf_gram_release(g, &g->nodes, sizeof(gram_node));
    qsf_gram_release(g, &g->lists, sizeof(uint32_t));
    qsf_gram_release(g, &g->bytes, 1);
    qsf_gram_release(g, &g->sets, 32);
    qsf_gram_release(g, &g->rules, sizeof(uint32_t));
    qsf_gram_release(g, &g->notes, sizeof(gram_note));
    qsf_gram_release(g, &g->rows, sizeof(uint32_t));
    qsf_gram_release(g, &g->plain, GRAM_PLAIN_STEP);
    qsf_gram_release(g, &g->work, sizeof(uint64_t));
    qsf_gram_release(g, &g->pairs, sizeof(uint64_t));
    qsf_gram_release(g, &g->alts, sizeof(uint64_t));
    qsf_gram_release(g, &g->memo, sizeof(uint64_t));
    qsf_gram_release(g, &g->seen, 2 * sizeof(uint64_t));
    if (g->table) qsf_dealloc(g->platform, g->table, (g->table_mask + 1) * (uint64_t)sizeof *g->table);
    qsf_dealloc(g->platform, g, sizeof *g);
}
