/* Grammars under construction, as their readers build them.
 * SPDX-License-Identifier: MIT */
#include "grammar/grammar_own.h"

static uint32_t gram_byte_range(qsf_grammar *g, uint32_t from, uint32_t to)
{
    uint32_t bits[8] = { 0 };
    for (uint32_t i = from; i <= to; i++) bits[i / 32] |= 1u << i % 32;
    return qsf_gram_set(g, bits);
}

qsf_status qsf_grammar_begin(const qsf_platform *p, qsf_grammar_builder **out, qsf_error *err)
{
    static const uint32_t all[1][2] = { { 0, 0x10ffff } };
    qsf_grammar_builder *b = *out = qsf_alloc(p, sizeof *b, "a grammar", err);
    if (!b) return QSF_E_MEMORY;
    qsf_grammar *g = &b->g;
    g->platform = p;
    g->most_memory = GRAM_MAX_MEMORY;
    g->keep_memory = GRAM_KEEP_MEMORY;
    if (qsf_gram_rehash(g, 256) && qsf_gram_push(g, &g->nodes, sizeof(gram_node), 1)) {
        qsf_gram_node_of(g, GK_NONE, 0, 0, 0);
        qsf_gram_node_of(g, GK_EMPTY, 0, 0, 0);
        qsf_gram_rep(g, gram_byte_range(g, 0, 255), 0, QSF_G_NO_MOST);
        /* GRAM_UTF8 is a place of its own */
        gram_node *n = qsf_gram_push(g, &g->nodes, sizeof *n, 1);
        const uint32_t any = qsf_g_class(b, all, 1, false);
        if (n && any) {
            *gram_at(g, GRAM_UTF8) = (gram_node){ .kind = GK_REP, .a = any, .c = QSF_G_NO_MOST };
            qsf_gram_flags(g, gram_at(g, GRAM_UTF8));
            qsf_gram_rehash(g, g->nodes.n);
        }
    }
    if (!g->status) return QSF_OK;
    if (err) *err = g->err;
    const qsf_status st = g->status;
    qsf_grammar_drop(g);
    *out = NULL;
    return st;
}

const qsf_platform *qsf_grammar_platform(const qsf_grammar_builder *b) { return b->g.platform; }
uint64_t qsf_grammar_most(const qsf_grammar_builder *b) { return b->g.most_memory; }

void qsf_grammar_limit(qsf_grammar_builder *b, uint64_t bytes)
{
    qsf_grammar *g = &b->g;
    if (!bytes || bytes >= g->most_memory) return;
    g->most_memory = bytes;
    g->keep_memory = QSF_MIN(g->keep_memory, bytes / 4);
}

qsf_gnode qsf_g_fail(qsf_grammar_builder *b, qsf_status st, const char *fmt, ...)
{
    char text[sizeof b->g.err.text];
    va_list args;
    va_start(args, fmt);
    qsf_vformat(text, sizeof text, fmt, args);
    va_end(args);
    qsf_gram_fail(&b->g, st, "%s", text);
    return QSF_G_FAILED;
}

qsf_gnode qsf_g_fail_at(qsf_grammar_builder *b, qsf_status st, const char *text, size_t len, size_t at,
                        const char *why)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < len; i++) {
        column = text[i] == '\n' ? 1 : column + ((text[i] & 0xc0) != 0x80);
        line += text[i] == '\n';
    }
    return qsf_g_fail(b, st, "grammar: line %llu, column %llu: %s", (unsigned long long)line,
                      (unsigned long long)column, why);
}

bool qsf_g_failed(const qsf_grammar_builder *b) { return b->g.status != QSF_OK; }

void qsf_g_locate(qsf_grammar_builder *b, const char *where)
{
    const qsf_error was = b->g.err;
    qsf_fail(&b->g.err, b->g.status, "%s%s", where, was.text);
}

char *qsf_g_note(qsf_grammar_builder *b, qsf_gnode x)
{
    qsf_grammar *g = &b->g;
    gram_note *note = g->notes.p;
    if (g->status || gram_at(g, x)->kind != GK_AND || g->notes.n == 64) return NULL;
    for (uint32_t i = 0; i < g->notes.n; i++) if (note[i].node == x) return NULL;
    if (!(note = qsf_gram_push(g, &g->notes, sizeof *note, 1))) return NULL;
    note->node = x;
    return note->where;
}

qsf_gnode qsf_g_all(qsf_grammar_builder *b) { return b->g.status ? 0 : GRAM_ALL; }

qsf_gnode qsf_g_bytes(qsf_grammar_builder *b, const char *bytes, size_t n)
{
    return qsf_gram_bytes(&b->g, bytes, n);
}

qsf_gnode qsf_g_sequence(qsf_grammar_builder *b, const qsf_gnode *parts, size_t n)
{
    qsf_gnode id = b->g.status ? 0 : GRAM_EMPTY;
    while (n-- > 0) id = qsf_gram_seq(&b->g, parts[n], id);
    return id;
}

qsf_gnode qsf_g_choice(qsf_grammar_builder *b, const qsf_gnode *parts, size_t n)
{
    qsf_grammar *g = &b->g;
    const uint32_t from = g->alts.n;
    uint32_t bits[8] = { 0 }, kept = from;
    if (g->status) return 0;
    for (size_t i = 0; i < n; i++) {
        if (!parts[i]) return 0;
        qsf_gram_alt(g, parts[i]);
    }
    /* single bytes are one set */
    bool single = false, utf8 = true;
    for (uint32_t i = from; i < g->alts.n; i++) {
        const gram_node *x = gram_at(g, (uint32_t)GRAM_U64(g->alts)[i]);
        if (x->kind == GK_SET) {
            for (int k = 0; k < 8; k++) bits[k] |= GRAM_U32(g->sets)[8 * (size_t)x->a + (size_t)k];
        } else if (x->kind == GK_LIT && x->b == 1) {
            const uint8_t byte = ((uint8_t *)g->bytes.p)[x->a];
            bits[byte / 32] |= 1u << byte % 32;
        } else {
            GRAM_U64(g->alts)[kept++] = GRAM_U64(g->alts)[i];
            continue;
        }
        single = true;
        utf8 &= (x->flags & GF_UTF8) != 0;
    }
    g->alts.n = kept;
    if (single) {
        const uint32_t set = qsf_gram_set(g, bits);
        if (set && utf8) gram_at(g, set)->flags |= GF_UTF8;
        qsf_gram_alt(g, set);
    }
    return qsf_gram_union(g, from);
}

qsf_gnode qsf_g_repeat(qsf_grammar_builder *b, qsf_gnode part, uint32_t least, uint32_t most)
{
    return qsf_gram_rep(&b->g, part, least, most);
}

/* "Both" and "not" ask what follows; of a rule that is not known yet. */
static bool gram_without_rules(qsf_grammar_builder *b, qsf_gnode x)
{
    if (x && gram_is(&b->g, x, GF_RULES))
        qsf_g_fail(b, QSF_E_ARGUMENT, "\"both\" and \"not\" cannot contain rules");
    return x && !b->g.status;
}

bool qsf_g_has_rules(const qsf_grammar_builder *b, qsf_gnode x) { return x && gram_is(&b->g, x, GF_RULES); }

qsf_gnode qsf_g_both(qsf_grammar_builder *b, qsf_gnode x, qsf_gnode y)
{
    qsf_grammar *g = &b->g;
    const uint32_t from = g->alts.n;
    const qsf_gnode of[] = { x, y };
    if (!x || !y) return 0;
    for (size_t k = 0; k < 2; k++) {
        const bool list = gram_at(g, of[k])->kind == GK_AND;
        const uint32_t n = list ? gram_at(g, of[k])->b : 1;
        uint64_t *to = qsf_gram_push(g, &g->alts, sizeof *to, n);
        for (uint32_t i = 0; to && i < n; i++) to[i] = list ? qsf_gram_part(g, gram_at(g, of[k]), i) : of[k];
    }
    return qsf_gram_and(g, from);
}

qsf_gnode qsf_g_not(qsf_grammar_builder *b, qsf_gnode x)
{
    if (!gram_without_rules(b, x)) return 0;
    const uint32_t n = qsf_gram_one(&b->g, GK_NEG, x);
    return n == GRAM_ALL ? (qsf_gnode)GRAM_UTF8 : qsf_g_both(b, GRAM_UTF8, n);
}

qsf_gnode qsf_g_rule(qsf_grammar_builder *b)
{
    qsf_grammar *g = &b->g;
    uint32_t *rule = qsf_gram_push(g, &g->rules, sizeof *rule, 1);
    return rule ? qsf_gram_node_of(g, GK_RULE, g->rules.n - 1, 0, 0) : 0;
}

void qsf_g_define(qsf_grammar_builder *b, qsf_gnode rule, qsf_gnode body)
{
    if (rule && body && gram_at(&b->g, rule)->kind == GK_RULE)
        GRAM_U32(b->g.rules)[gram_at(&b->g, rule)->a] = body;
}
