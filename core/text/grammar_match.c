/* A place in an answer under a grammar, and which tokens can come next.
 * SPDX-License-Identifier: MIT */
#include "text/grammar_own.h"

qsf_status qsf_matcher_new(const qsf_platform *p, qsf_grammar *g, const qsf_token_tree *tree,
                           qsf_matcher **out, qsf_error *err)
{
    qsf_matcher *m = *out = qsf_alloc(p, sizeof *m, "a matcher", err);
    if (!m) return QSF_E_MEMORY;
    *m = (qsf_matcher){ .grammar = g, .tree = tree, .at = g->root, .next = g->matchers };
    if (tree && !(m->stack = qsf_alloc_array(p, tree->depth + 1, sizeof *m->stack, "a matcher", err))) {
        qsf_dealloc(p, m, sizeof *m);
        *out = NULL;
        return QSF_E_MEMORY;
    }
    g->matchers = m;
    return QSF_OK;
}

void qsf_matcher_free(qsf_matcher *m)
{
    if (!m) return;
    const qsf_platform *p = m->grammar->platform;
    qsf_matcher **at = &m->grammar->matchers;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    if (m->stack) qsf_dealloc(p, m->stack, (m->tree->depth + 1) * (uint64_t)sizeof *m->stack);
    qsf_dealloc(p, m, sizeof *m);
}

void qsf_matcher_reset(qsf_matcher *m) { m->at = m->grammar->root; }
void qsf_matcher_copy(qsf_matcher *m, const qsf_matcher *from) { m->at = from->at; }

/* The node behind a byte; GRAM_NONE: it does not fit, or the grammar has failed. */
static uint32_t gram_step(qsf_grammar *g, uint32_t id, uint8_t byte)
{
    const uint32_t *row = gram_row(g, id);
    return row ? row[g->classes[byte]] : GRAM_NONE;
}

size_t qsf_matcher_bytes(qsf_matcher *m, const char *bytes, size_t n)
{
    uint32_t at;
    size_t i = 0;
    gram_tidy(m->grammar);
    at = m->at;
    while (i < n && (at = gram_step(m->grammar, at, (uint8_t)bytes[i])) != GRAM_NONE) i++;
    if (i == n) m->at = at;
    return i;
}

bool qsf_matcher_token(qsf_matcher *m, int32_t id)
{
    const char *bytes;
    if (qsf_tokenizer_is_end(m->tree->tokenizer, id)) return qsf_matcher_whole(m);
    const size_t n = qsf_tokenizer_piece(m->tree->tokenizer, id, false, &bytes);
    return n && qsf_matcher_bytes(m, bytes, n) == n;
}

bool qsf_matcher_whole(const qsf_matcher *m) { return gram_is(m->grammar, m->at, GF_NULLABLE); }
bool qsf_matcher_over(const qsf_matcher *m) { return m->at == GRAM_EMPTY; }

size_t qsf_matcher_forced(const qsf_matcher *m, char *out, size_t cap)
{
    qsf_grammar *g = m->grammar;
    size_t n = 0;
    for (uint32_t at = m->at; n < cap && !gram_is(g, at, GF_NULLABLE); n++) {
        const uint32_t *row = gram_row(g, at);
        uint32_t ways = 0, class = 0;
        for (uint32_t c = 0; row && c < g->n_classes && ways < 2; c++) {
            if (row[c] == GRAM_NONE) continue;
            ways += g->class_size[c] == 1 ? 1 : 2;
            class = c;
        }
        if (ways != 1) break;
        out[n] = (char)g->sample[class];
        at = row[class];
    }
    return n;
}

/* ---- masks ---- */

static void gram_put(uint32_t *mask, int32_t token) { mask[(uint32_t)token / 32] |= 1u << (uint32_t)token % 32; }

/* The tokens of the branches [at, end) that fit behind a node. */
static void gram_walk(const qsf_matcher *m, uint32_t id, uint32_t at, uint32_t end, uint32_t *mask)
{
    qsf_grammar *g = m->grammar;
    const token_node *nodes = m->tree->nodes;
    uint64_t *top = m->stack;
    const uint32_t *row = gram_row(g, id);
    *top = (uint64_t)end << 32 | id;
    while (row) {
        while (at >= *top >> 32) {
            if (top == m->stack) return;
            top--;
            row = gram_row(g, (uint32_t)*top);
            if (!row) return;
        }
        const token_node n = nodes[at];
        const uint32_t next = row[g->classes[n.skip_byte & 255]], skip = n.skip_byte >> 8;
        if (next == GRAM_NONE) {
            at += skip;
            continue;
        }
        if (n.token >= 0) gram_put(mask, n.token);
        if (skip > 1) {
            *++top = (uint64_t)(at + skip) << 32 | next;
            row = gram_row(g, next);
        }
        at++;
    }
}

qsf_status qsf_matcher_mask(qsf_matcher *m, uint32_t *mask, qsf_error *err)
{
    qsf_grammar *g = m->grammar;
    const qsf_token_tree *t = m->tree;
    const uint32_t words = (t->n_vocab + 31) / 32;
    uint32_t any = 0;
    gram_tidy(g);
    memset(mask, 0, words * sizeof *mask);
    gram_walk(m, m->at, 0, t->n_nodes, mask);
    if (g->status) {
        if (err) *err = g->err;
        return g->status;
    }
    if (qsf_matcher_whole(m)) {
        for (uint32_t i = 0; i < t->n_ends; i++) gram_put(mask, t->ends[i]);
        return QSF_OK;
    }
    for (uint32_t i = 0; i < words; i++) any |= mask[i];
    return any ? QSF_OK : qsf_fail(err, QSF_E_CORRUPT, "no token of the vocabulary fits the grammar here");
}

void gram_tidy(qsf_grammar *g) { (void)g; }
