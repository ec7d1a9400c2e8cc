/* What holds of nodes only together: which of them the root reaches, and what rules make of them.
 * SPDX-License-Identifier: MIT */
#include "grammar/grammar_own.h"

void qsf_gram_order(qsf_grammar *g)
{
    uint64_t *to = qsf_gram_push(g, &g->work, sizeof *to, 1);
    if (to) *to = GRAM_PAIR(g->root, 0);
    gram_at(g, g->root)->flags |= GF_SEEN;
    while (g->work.n && !g->status) {
        uint64_t *top = GRAM_U64(g->work) + g->work.n - 1;
        const uint32_t id = (uint32_t)(*top >> 32), part = qsf_gram_part(g, gram_at(g, id),
                                                                         (uint32_t)(*top)++);
        if (!part) {
            g->work.n--;
            if ((to = qsf_gram_push(g, &g->pairs, sizeof *to, 1)) != NULL) *to = id;
        } else if (!gram_is(g, part, GF_SEEN)) {
            gram_at(g, part)->flags |= GF_SEEN;
            if ((to = qsf_gram_push(g, &g->work, sizeof *to, 1)) != NULL) *to = GRAM_PAIR(part, 0);
        }
    }
    for (uint32_t i = 0; i < g->pairs.n; i++)
        gram_at(g, (uint32_t)GRAM_U64(g->pairs)[i])->flags &= (uint8_t)~GF_SEEN;
    g->work.n = 0;
}

/* Computes the flags as a fixed point, starting with no assumptions about rules.  The old flags of
 * a rule's body must not be used, so all other nodes come first.  Nodes that a search has found
 * dead stay dead; GF_SEEN marks them meanwhile. */
void qsf_gram_settle(qsf_grammar *g)
{
    const uint64_t *order = GRAM_U64(g->pairs);
    uint64_t steps = 0;
    for (uint32_t i = 0; i < g->pairs.n; i++) {
        gram_node *n = gram_at(g, (uint32_t)order[i]);
        if (n->kind == GK_RULE) n->flags = (uint8_t)((n->flags | GF_DEAD) & ~GF_NULLABLE);
        if (n->kind == GK_AND && n->flags & GF_DEAD) n->flags |= GF_SEEN;
    }
    for (bool first = true, changed = true; changed && !g->status; first = false, steps += g->pairs.n) {
        changed = first;
        for (uint32_t i = 0; i < g->pairs.n; i++) {
            gram_node *n = gram_at(g, (uint32_t)order[i]);
            const uint8_t before = n->flags;
            if (first && n->kind == GK_RULE) continue;
            qsf_gram_flags(g, n);
            if (n->flags & GF_SEEN) n->flags |= GF_DEAD;
            changed |= n->flags != before;
        }
        if (steps > 1 << 26)
            qsf_gram_fail(g, QSF_E_BUDGET, "the grammar's rules depend on each other in too many ways");
    }
    for (uint32_t i = 0; i < g->pairs.n; i++) gram_at(g, (uint32_t)order[i])->flags &= (uint8_t)~GF_SEEN;
}
