/* Stands in for the automaton until that is here: patterns of bytes.
 * SPDX-License-Identifier: MIT */
#include "text/grammar.h"

struct qsf_grammar { const char *pattern; };
qsf_grammar *qsf_grammar_pending(const char *pattern);
qsf_grammar *qsf_grammar_pending(const char *pattern)
{
    static qsf_grammar g[8];
    static int n;
    g[n % 8].pattern = pattern;
    return &g[n++ % 8];
}
struct qsf_token_tree { const qsf_platform *p; const qsf_tokenizer *t; uint32_t n_vocab; };
struct qsf_matcher { const qsf_platform *p; const char *pattern; const qsf_token_tree *tree; uint64_t at; };

qsf_status qsf_token_tree_new(const qsf_platform *p, const qsf_tokenizer *t, uint32_t n_vocab,
                              qsf_token_tree **out, qsf_error *err)
{
    if (!(*out = qsf_alloc(p, sizeof **out, "tree", err))) return QSF_E_MEMORY;
    **out = (qsf_token_tree){ p, t, n_vocab };
    return QSF_OK;
}
void qsf_token_tree_free(qsf_token_tree *t) { if (t) qsf_dealloc(t->p, t, sizeof *t); }
uint64_t qsf_token_tree_memory(const qsf_token_tree *t) { return sizeof *t; }

/* states: bit i: pattern[i] comes next */
static uint64_t pending_close(const char *p, uint64_t at)
{
    for (size_t i = 0; p[i]; i++) if ((at >> i & 1) && p[i] == '~') at |= 2ull << i;
    return at;
}
static uint64_t pending_step(const char *p, uint64_t at, unsigned char c)
{
    uint64_t to = 0;
    for (size_t i = 0; p[i]; i++) {
        if (!(at >> i & 1)) continue;
        if (p[i] == '~') to |= (c >= 'a' && c <= 'z') || c == ' ' ? 1ull << i : 0;
        else if (p[i] == '#' ? c >= '0' && c <= '9' : p[i] != '|' && (unsigned char)p[i] == c) to |= 2ull << i;
    }
    return pending_close(p, to);
}
qsf_status qsf_matcher_new(const qsf_platform *p, qsf_grammar *g, const qsf_token_tree *tree,
                           qsf_matcher **out, qsf_error *err)
{
    if (!(*out = qsf_alloc(p, sizeof **out, "matcher", err))) return QSF_E_MEMORY;
    **out = (qsf_matcher){ p, g->pattern, tree, 0 };
    qsf_matcher_reset(*out);
    return QSF_OK;
}
void qsf_matcher_free(qsf_matcher *m) { if (m) qsf_dealloc(m->p, m, sizeof *m); }
void qsf_matcher_reset(qsf_matcher *m)
{
    m->at = 1;
    for (size_t i = 0; m->pattern[i]; i++) if (m->pattern[i] == '|') m->at |= 2ull << i;
    m->at = pending_close(m->pattern, m->at);
}
size_t qsf_matcher_bytes(qsf_matcher *m, const char *bytes, size_t n)
{
    uint64_t at = m->at;
    for (size_t i = 0; i < n; i++)
        if (!(at = pending_step(m->pattern, at, (unsigned char)bytes[i]))) return i;
    m->at = at;
    return n;
}
static bool pending_whole(const char *p, uint64_t at)
{
    for (size_t i = 0;; i++) {
        if ((at >> i & 1) && (!p[i] || p[i] == '|')) return true;
        if (!p[i]) return false;
    }
}
bool qsf_matcher_whole(const qsf_matcher *m) { return pending_whole(m->pattern, m->at); }
static int pending_next(const char *p, uint64_t at, int *only)
{
    int n = 0;
    for (int c = 0; c < 256; c++) if (pending_step(p, at, (unsigned char)c)) n++, *only = c;
    return n;
}
bool qsf_matcher_over(const qsf_matcher *m)
{
    int c;
    return qsf_matcher_whole(m) && !pending_next(m->pattern, m->at, &c);
}
size_t qsf_matcher_forced(const qsf_matcher *m, char *out, size_t cap)
{
    uint64_t at = m->at;
    size_t n = 0;
    for (int c; n < cap && !pending_whole(m->pattern, at) && pending_next(m->pattern, at, &c) == 1; n++) {
        out[n] = (char)c;
        at = pending_step(m->pattern, at, (unsigned char)c);
    }
    return n;
}
qsf_status qsf_matcher_mask(qsf_matcher *m, uint32_t *mask, qsf_error *err)
{
    bool any = false;
    memset(mask, 0, (m->tree->n_vocab + 31) / 32 * 4);
    for (uint32_t i = 0; i < m->tree->n_vocab; i++) {
        const char *piece;
        const size_t n = qsf_tokenizer_piece(m->tree->t, (int32_t)i, false, &piece);
        uint64_t at = m->at;
        for (size_t k = 0; k < n && at; k++) at = pending_step(m->pattern, at, (unsigned char)piece[k]);
        if (qsf_tokenizer_is_end(m->tree->t, (int32_t)i) ? !qsf_matcher_whole(m) : !n || !at) continue;
        mask[i / 32] |= 1u << i % 32;
        any = true;
    }
    return any ? QSF_OK : qsf_fail(err, QSF_E_CORRUPT, "no token fits");
}
