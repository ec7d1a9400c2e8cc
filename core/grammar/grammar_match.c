/* A position in an answer under a grammar, and the tokens that can come next.
 * SPDX-License-Identifier: MIT */
#include "grammar/grammar_own.h"

enum { GRAM_CONTROL = 256 };     /* bytes of a control token's text, which a grammar may name */

qsf_status qsf_matcher_new(const qsf_platform *p, qsf_grammar *g, const qsf_token_tree *tree,
                           qsf_matcher **out, qsf_error *err)
{
    qsf_matcher *m = *out = qsf_alloc(p, sizeof *m, "a matcher", err);
    if (!m) return QSF_E_MEMORY;
    *m = (qsf_matcher){ .grammar = g, .tree = tree, .at = g->root, .next = g->matchers };
    if (tree && !(m->stack = qsf_alloc_array(p, tree->depth + 1, GRAM_FRAME, "a matcher", err))) {
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
    if (m->stack) qsf_dealloc(p, m->stack, (m->tree->depth + 1) * (uint64_t)GRAM_FRAME);
    qsf_dealloc(p, m, sizeof *m);
}

void qsf_matcher_reset(qsf_matcher *m) { m->at = m->grammar->root; }
void qsf_matcher_copy(qsf_matcher *m, const qsf_matcher *from) { m->at = from->at; }

/* The node after a byte; GRAM_NONE: the byte does not fit, or the grammar has failed. */
static uint32_t gram_step(qsf_grammar *g, uint32_t id, uint8_t byte)
{
    const uint32_t *row = gram_row(g, id);
    return row ? row[g->classes[byte]] : GRAM_NONE;
}

size_t qsf_matcher_bytes(qsf_matcher *m, const char *bytes, size_t n)
{
    uint32_t at;
    size_t i = 0;
    qsf_gram_tidy(m->grammar);
    at = m->at;
    for (; i < n && (at = gram_step(m->grammar, at, (uint8_t)bytes[i])) != GRAM_NONE; i++)
        m->grammar->effort -= QSF_MIN(m->grammar->effort, GRAM_BYTE_EFFORT);
    if (i == n) m->at = at;
    return i;
}

bool qsf_matcher_token(qsf_matcher *m, int32_t id)
{
    const char *bytes;
    if (qsf_tokenizer_is_end(m->tree->tokenizer, id)) return qsf_matcher_whole(m);
    char control[GRAM_CONTROL];
    size_t n = qsf_tokenizer_piece(m->tree->tokenizer, id, false, &bytes);
    if (n) return qsf_matcher_bytes(m, bytes, n) == n;
    n = qsf_tokenizer_piece(m->tree->tokenizer, id, true, &bytes);
    if (!n || n >= sizeof control) return false;
    control[0] = '\xff';
    memcpy(control + 1, bytes, n);
    return qsf_matcher_bytes(m, control, n + 1) == n + 1;
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

/* ---- what can be made again ---- */

/* A number that is asked for: marks it, or with a map brings it to where its node is now. */
static void gram_root(qsf_grammar *g, uint32_t *id, const uint64_t *map)
{
    if (*id < g->base_nodes) return;
    if (map) *id = (uint32_t)map[*id - g->base_nodes];
    else gram_at(g, *id)->flags |= GF_SEEN;
}

static void gram_roots(qsf_grammar *g, const uint64_t *map)
{
    for (qsf_matcher *m = g->matchers; m; m = m->next) gram_root(g, &m->at, map);
    for (int i = 0; i < GRAM_HEADS; i++) gram_root(g, &g->heads[i].key, map);
    for (int i = 0; i < GRAM_MASKS; i++) gram_root(g, &g->masks[i].key, map);
}

void qsf_gram_tidy(qsf_grammar *g)
{
    const uint32_t base = g->base_nodes;
    uint32_t n = base, n_lists = g->base_lists;
    g->effort = 0;
    if (g->status || g->nodes.n * (uint64_t)sizeof(gram_node) + (g->rows.n + g->lists.n) * (uint64_t)4
                     < g->keep_memory) return;
    uint64_t *map = qsf_gram_push(g, &g->work, sizeof *map, g->nodes.n - base);
    if (!map) return;
    gram_roots(g, NULL);
    for (uint32_t id = g->nodes.n; id-- > base; ) {     /* parts have smaller numbers */
        if (!gram_is(g, id, GF_SEEN)) continue;
        for (uint32_t i = 0, part; (part = qsf_gram_part(g, gram_at(g, id), i)) != 0; i++)
            gram_root(g, &part, NULL);
    }
    for (uint32_t id = base; id < g->nodes.n; id++) {
        gram_node x = *gram_at(g, id);
        if (!(x.flags & GF_SEEN)) continue;
        if (x.kind == GK_CHOICE || x.kind == GK_AND) {
            uint32_t *to = GRAM_U32(g->lists) + n_lists;
            memmove(to, GRAM_U32(g->lists) + x.a, x.b * sizeof *to);
            for (uint32_t i = 0; i < x.b; i++) gram_root(g, &to[i], map);
            x.a = n_lists;
            n_lists += x.b;
        } else if (x.kind >= GK_SEQ && x.kind != GK_RULE) {
            gram_root(g, &x.a, map);
            if (x.kind == GK_SEQ) gram_root(g, &x.b, map);
        }
        x.flags &= (uint8_t)~GF_SEEN;
        map[id - base] = n;
        *gram_at(g, n++) = x;
    }
    gram_roots(g, map);
    memset(g->plain_of, 0, sizeof g->plain_of);
    g->work.n = 0;
    g->nodes.n = n;
    g->lists.n = n_lists;
    g->rows.n = 1;
    for (uint32_t id = 1; id < n; id++) {
        gram_at(g, id)->row = 0;
        gram_at(g, id)->flags &= (uint8_t)~GF_RAW;
    }
    qsf_gram_rehash(g, n);
}
