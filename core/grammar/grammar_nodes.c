/* Nodes of a grammar: made once each, in a form that makes equal sets of texts equal nodes where
 * that is cheap.
 * SPDX-License-Identifier: MIT */
#include "grammar/grammar_own.h"
#include "text/unicode.h"

qsf_status qsf_gram_fail(qsf_grammar *g, qsf_status st, const char *fmt, ...)
{
    char text[sizeof g->err.text];
    va_list args;
    if (g->status) return g->status;
    va_start(args, fmt);
    qsf_vformat(text, sizeof text, fmt, args);
    va_end(args);
    return g->status = qsf_fail(&g->err, st, "%s", text);
}

void *qsf_gram_push(qsf_grammar *g, gram_mem *m, size_t size, uint32_t n)
{
    if (g->status) return NULL;
    if (n > m->cap - m->n) {
        uint64_t cap = m->cap ? m->cap : 64;
        while (cap < (uint64_t)m->n + n) cap *= 2;
        if (cap * size > g->most_memory || g->memory + (cap - m->cap) * size > g->most_memory) {
            qsf_gram_fail(g, QSF_E_BUDGET,
                          "the grammar's automaton takes more than %u MB; simplify the grammar",
                          (unsigned)((g->most_memory + 0xfffff) >> 20));
            return NULL;
        }
        void *p = qsf_alloc_array(g->platform, cap, size, "a grammar", &g->err);
        if (!p) {
            g->status = QSF_E_MEMORY;
            return NULL;
        }
        if (m->n) memcpy(p, m->p, m->n * size);
        qsf_dealloc(g->platform, m->p, m->cap * (uint64_t)size);
        g->memory += (cap - m->cap) * size;
        m->p = p;
        m->cap = (uint32_t)cap;
    }
    void *at = (char *)m->p + m->n * size;
    m->n += n;
    return at;
}

void qsf_gram_release(qsf_grammar *g, gram_mem *m, size_t size)
{
    qsf_dealloc(g->platform, m->p, m->cap * (uint64_t)size);
    g->memory -= m->cap * (uint64_t)size;
    *m = (gram_mem){ 0 };
}

void qsf_gram_sort(uint64_t *v, size_t n)
{
    for (size_t gap = n; gap > 1; ) {
        gap = gap < 5 ? 1 : gap * 5 / 11;
        for (size_t i = gap; i < n; i++) {
            const uint64_t x = v[i];
            size_t k = i;
            for (; k >= gap && v[k - gap] > x; k -= gap) v[k] = v[k - gap];
            v[k] = x;
        }
    }
}

/* ---- each node once ---- */

static uint64_t gram_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

enum { GRAM_LIT_HASHED = 32 };      /* longer literals are known by their place, not by their bytes */

static bool gram_is_list(int kind) { return kind == GK_CHOICE || kind == GK_AND; }

static uint64_t gram_hash(const qsf_grammar *g, const gram_node *n)
{
    uint64_t h = gram_mix(n->kind, n->b);
    if (gram_is_list(n->kind)) {
        for (uint32_t i = 0; i < n->b; i++) h = gram_mix(h, GRAM_U32(g->lists)[n->a + i]);
    } else if (n->kind == GK_LIT && n->b <= GRAM_LIT_HASHED) {
        for (uint32_t i = 0; i < n->b; i++) h = gram_mix(h, ((uint8_t *)g->bytes.p)[n->a + i]);
    } else {
        h = gram_mix(gram_mix(h, n->a), n->c);
    }
    return h ^ h >> 32;
}

static bool gram_same(const qsf_grammar *g, const gram_node *x, const gram_node *y)
{
    if (x->kind != y->kind || x->b != y->b || x->c != y->c) return false;
    if (x->a == y->a) return true;
    if (gram_is_list(x->kind))
        return !memcmp(GRAM_U32(g->lists) + x->a, GRAM_U32(g->lists) + y->a, x->b * sizeof(uint32_t));
    return x->kind == GK_LIT && x->b <= GRAM_LIT_HASHED
        && !memcmp((char *)g->bytes.p + x->a, (char *)g->bytes.p + y->a, x->b);
}

bool qsf_gram_rehash(qsf_grammar *g, uint32_t least)
{
    uint32_t size = 256;
    while (size < 2 * least) size *= 2;
    if (size != g->table_mask + 1) {
        uint32_t *table = qsf_alloc_array(g->platform, size, sizeof *table, "a grammar", &g->err);
        if (!table) {
            g->status = QSF_E_MEMORY;
            return false;
        }
        if (g->table) qsf_dealloc(g->platform, g->table, (g->table_mask + 1) * (uint64_t)sizeof *table);
        g->memory += size * (uint64_t)sizeof *table;
        if (g->table) g->memory -= (g->table_mask + 1) * (uint64_t)sizeof *table;
        g->table = table;
        g->table_mask = size - 1;
    } else {
        memset(g->table, 0, size * sizeof *g->table);
    }
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        uint32_t i = (uint32_t)gram_hash(g, gram_at(g, id)) & g->table_mask;
        while (g->table[i]) i = (i + 1) & g->table_mask;
        g->table[i] = id;
    }
    return true;
}

uint32_t qsf_gram_part(const qsf_grammar *g, const gram_node *n, uint32_t i)
{
    if (gram_is_list(n->kind)) return i < n->b ? GRAM_U32(g->lists)[n->a + i] : 0;
    if (i) return i == 1 && n->kind == GK_SEQ ? n->b : 0;
    if (n->kind == GK_RULE) return GRAM_U32(g->rules)[n->a];
    return n->kind >= GK_SEQ ? n->a : 0;
}

void qsf_gram_flags(const qsf_grammar *g, gram_node *n)
{
    int f = 0, all = 0xff, any = 0;
    uint8_t level = 0;
    for (uint32_t i = 0, part; (part = qsf_gram_part(g, n, i)) != 0; i++) {
        const gram_node *x = gram_at(g, part);
        all &= x->flags;
        any |= x->flags;
        level = QSF_MAX(level, x->level);
    }
    switch (n->kind) {
    case GK_NONE: f = GF_DEAD | GF_UTF8; break;
    case GK_EMPTY: f = GF_NULLABLE | GF_UTF8; break;
    case GK_SEQ: f = (all & (GF_NULLABLE | GF_UTF8)) | (any & (GF_DEAD | GF_RULES)); break;
    case GK_CHOICE: f = (any & (GF_NULLABLE | GF_RULES)) | (all & (GF_DEAD | GF_UTF8)); break;
    case GK_AND: f = (all & GF_NULLABLE) | (any & (GF_DEAD | GF_RULES | GF_UTF8)); break;
    case GK_NEG: f = (~any & GF_NULLABLE) | (any & GF_RULES); break;
    case GK_REP:
        f = (n->b ? any & (GF_NULLABLE | GF_DEAD) : GF_NULLABLE) | (any & (GF_RULES | GF_UTF8));
        break;
    case GK_FULL: f = any & (GF_DEAD | GF_RULES | GF_UTF8); break;
    case GK_RULE: f = GF_RULES | (any & (GF_NULLABLE | GF_DEAD)); break;
    default: break;
    }
    n->flags = (uint8_t)(f | (n->flags & (GF_UTF8 | GF_LIVE | GF_SEEN | GF_RAW)));
    n->level = n->kind == GK_RULE ? 0 : (uint8_t)(level + (n->kind == GK_AND || n->kind == GK_NEG));
}

uint32_t qsf_gram_node_of(qsf_grammar *g, gram_kind kind, uint32_t a, uint32_t b, uint32_t c)
{
    gram_node x = { .kind = (uint8_t)kind, .a = a, .b = b, .c = c }, *n;
    if (g->status) return 0;
    if (g->nodes.n >= (g->base_nodes ? 2 : 1) * (uint32_t)GRAM_MAX_NODES) {
        qsf_gram_fail(g, QSF_E_BUDGET, "the grammar has more than %u nodes, the maximum",
                      (unsigned)GRAM_MAX_NODES);
        return 0;
    }
    if (g->nodes.n > g->table_mask / 2 && !qsf_gram_rehash(g, g->nodes.n + 1)) return 0;
    uint32_t i = (uint32_t)gram_hash(g, &x) & g->table_mask;
    for (; g->table[i]; i = (i + 1) & g->table_mask)
        if (gram_same(g, gram_at(g, g->table[i]), &x)) return g->table[i];
    qsf_gram_flags(g, &x);
    if (x.level > GRAM_LEVELS)
        qsf_gram_fail(g, QSF_E_BUDGET, "\"both\" and \"not\" are nested more than %d levels deep",
                      GRAM_LEVELS);
    if (!(n = qsf_gram_push(g, &g->nodes, sizeof *n, 1))) return 0;
    *n = x;
    g->table[i] = g->nodes.n - 1;
    return g->nodes.n - 1;
}

/* ---- kinds ---- */

uint32_t qsf_gram_lit(qsf_grammar *g, uint32_t at, uint32_t n)
{
    return n ? qsf_gram_node_of(g, GK_LIT, at, n, 0) : GRAM_EMPTY;
}

uint32_t qsf_gram_seq(qsf_grammar *g, uint32_t a, uint32_t b)
{
    if (!a || !b) return 0;
    if (gram_is(g, a, GF_DEAD) || gram_is(g, b, GF_DEAD)) return GRAM_NONE;
    if (a == GRAM_EMPTY) return b;
    if (b == GRAM_EMPTY) return a;
    return qsf_gram_node_of(g, GK_SEQ, a, b, 0);
}

uint32_t qsf_gram_one(qsf_grammar *g, gram_kind kind, uint32_t a)
{
    if (!a) return 0;
    if (kind == GK_FULL) return gram_is(g, a, GF_NULLABLE) ? qsf_gram_node_of(g, GK_FULL, a, 0, 0) : a;
    if (gram_at(g, a)->kind == GK_NEG) return gram_at(g, a)->a;
    if (a == GRAM_ALL) return GRAM_NONE;
    return gram_is(g, a, GF_DEAD) ? GRAM_ALL : qsf_gram_node_of(g, GK_NEG, a, 0, 0);
}

static uint32_t gram_times(uint32_t x, uint32_t y)
{
    if (!x || !y) return 0;
    if (x == QSF_G_NO_MOST || y == QSF_G_NO_MOST) return QSF_G_NO_MOST;
    return (uint64_t)x * y < QSF_G_NO_MOST ? x * y : 0;
}

uint32_t qsf_gram_rep(qsf_grammar *g, uint32_t part, uint32_t least, uint32_t most)
{
    if (!part) return 0;
    if (least > most) return GRAM_NONE;
    if (most == 0 || part == GRAM_EMPTY) return GRAM_EMPTY;
    if (gram_is(g, part, GF_DEAD)) return least ? GRAM_NONE : GRAM_EMPTY;
    if (least == 1 && most == 1) return part;
    const gram_node *n = gram_at(g, part);
    if (n->kind == GK_REP && n->b <= 1 && gram_times(n->c, most))     /* (x{0,n}){k,m} is x{0,nm} */
        return qsf_gram_node_of(g, GK_REP, n->a, n->b * least, gram_times(n->c, most));
    return qsf_gram_node_of(g, GK_REP, part, least, most);
}

void qsf_gram_alt(qsf_grammar *g, uint32_t id)
{
    if (!id) return;
    const bool choice = gram_at(g, id)->kind == GK_CHOICE;
    const uint32_t n = choice ? gram_at(g, id)->b : gram_is(g, id, GF_DEAD) ? 0 : 1;
    uint64_t *to = qsf_gram_push(g, &g->alts, sizeof *to, n);
    for (uint32_t i = 0; to && i < n; i++) to[i] = choice ? qsf_gram_part(g, gram_at(g, id), i) : id;
}

/* The list alts[from..), each number once, as a node. */
static uint32_t gram_list(qsf_grammar *g, gram_kind kind, uint32_t from)
{
    uint64_t *alts = GRAM_U64(g->alts) + from;
    const uint32_t at = g->lists.n, before = g->nodes.n;
    uint32_t n = 0, id;
    if (g->status) return 0;
    qsf_gram_sort(alts, g->alts.n - from);
    for (uint32_t i = from; i < g->alts.n; i++)
        if (!n || alts[n - 1] != alts[i - from]) alts[n++] = alts[i - from];
    g->alts.n = from;
    if (n <= 1) return n ? (uint32_t)alts[0] : kind == GK_AND ? GRAM_ALL : GRAM_NONE;
    uint32_t *list = qsf_gram_push(g, &g->lists, sizeof *list, n);
    if (!list) return 0;
    for (uint32_t i = 0; i < n; i++) list[i] = (uint32_t)alts[i];
    id = qsf_gram_node_of(g, kind, at, n, 0);
    if (g->nodes.n == before) g->lists.n = at;
    return id;
}

uint32_t qsf_gram_union(qsf_grammar *g, uint32_t from)
{
    for (uint32_t i = from; i < g->alts.n; i++)
        if (GRAM_U64(g->alts)[i] == GRAM_ALL) {
            g->alts.n = from;
            return GRAM_ALL;
        }
    return gram_list(g, GK_CHOICE, from);
}

/* Whether x is x{a,b} of something small, and y{0,} takes all that x{0,} takes. */
static bool gram_within(qsf_grammar *g, uint32_t x, uint32_t y)
{
    const gram_node *a = gram_at(g, x), *b = gram_at(g, y);
    if (a->kind != GK_REP || b->kind != GK_REP || b->b || b->c != QSF_G_NO_MOST || a->level || b->level
        || (a->flags | b->flags) & GF_RULES) return false;
    const uint32_t from = g->alts.n, not_y = qsf_gram_one(g, GK_NEG, y);
    qsf_gram_alt(g, qsf_gram_rep(g, gram_at(g, x)->a, 0, QSF_G_NO_MOST));
    qsf_gram_alt(g, not_y);
    const uint32_t both = gram_list(g, GK_AND, from);
    return both && !qsf_gram_live(g, both);
}

/* Replaces each GK_AND of alts[from..) by its members: nested, they would take ever more forms. */
static void gram_flatten(qsf_grammar *g, uint32_t from)
{
    for (uint32_t i = from, n; i < g->alts.n && !g->status; i++) {
        const gram_node x = *gram_at(g, (uint32_t)GRAM_U64(g->alts)[i]);
        if (x.kind != GK_AND || x.flags & GF_DEAD) continue;
        if (!qsf_gram_push(g, &g->alts, sizeof(uint64_t), n = x.b - 1)) return;
        GRAM_U64(g->alts)[i] = qsf_gram_part(g, &x, 0);
        for (uint32_t k = 0; k < n; k++) GRAM_U64(g->alts)[g->alts.n - n + k] = qsf_gram_part(g, &x, k + 1);
    }
}

uint32_t qsf_gram_and(qsf_grammar *g, uint32_t from)
{
    gram_flatten(g, from);
    uint64_t *alts = GRAM_U64(g->alts) + from;
    const uint32_t n = g->alts.n - from;
    uint32_t kept = 0;
    bool dead = false, utf8 = false, empty = false, nullable = true;
    if (g->status) return 0;
    for (uint32_t i = 0; i < n; i++) {
        const gram_node *x = gram_at(g, (uint32_t)alts[i]);
        dead |= (x->flags & GF_DEAD) != 0;
        empty |= alts[i] == GRAM_EMPTY;
        nullable &= (x->flags & GF_NULLABLE) != 0;
        utf8 |= alts[i] != GRAM_UTF8 && (x->flags & GF_UTF8);
    }
    g->alts.n = from;
    if (dead || (empty && !nullable)) return GRAM_NONE;
    if (empty) return GRAM_EMPTY;
    for (uint32_t i = 0; i < n; i++)
        if (alts[i] != GRAM_ALL && !(alts[i] == GRAM_UTF8 && utf8)) alts[kept++] = alts[i];
    g->alts.n = from + kept;
    /* "any characters" and "these characters" are the latter; known once bytes have classes */
    for (uint32_t i = 0; i < kept && g->n_classes; i++) {
        const uint32_t y = (uint32_t)GRAM_U64(g->alts)[from + i];
        bool wide = false;
        for (uint32_t k = 0; k < kept && !wide; k++) {
            const uint32_t x = (uint32_t)GRAM_U64(g->alts)[from + k];
            wide = x != y && gram_within(g, x, y);
        }
        if (!wide) continue;
        GRAM_U64(g->alts)[from + i--] = GRAM_U64(g->alts)[from + --kept];
        g->alts.n = from + kept;
    }
    return gram_list(g, GK_AND, from);
}

uint32_t qsf_gram_bytes(qsf_grammar *g, const char *bytes, size_t n)
{
    const uint32_t at = g->bytes.n, before = g->nodes.n;
    if (n == 0) return g->status ? 0 : GRAM_EMPTY;
    char *to = n > UINT32_MAX / 2 ? NULL : qsf_gram_push(g, &g->bytes, 1, (uint32_t)n);
    if (!to) {
        qsf_gram_fail(g, QSF_E_BUDGET, "a string of the grammar is too long");
        return 0;
    }
    memcpy(to, bytes, n);
    const uint32_t id = qsf_gram_lit(g, at, (uint32_t)n);
    if (g->nodes.n == before) {
        g->bytes.n = at;
    } else if (id) {
        bool utf8 = true;
        for (size_t i = 0, used; i < n && utf8; i += used) {
            const uint32_t c = qsf_utf8_decode(bytes + i, n - i, &used);
            char back[4];
            utf8 = qsf_utf8_encode(c, back) == used && !memcmp(back, bytes + i, used);
        }
        if (utf8) gram_at(g, id)->flags |= GF_UTF8;
    }
    return id;
}

uint32_t qsf_gram_set(qsf_grammar *g, const uint32_t bits[8])
{
    uint32_t n = 0, at = 0;
    for (uint32_t i = 0; i < 256; i++)
        if (bits[i / 32] >> i % 32 & 1) {
            n++;
            at = i;
        }
    if (n == 0) return GRAM_NONE;
    if (n == 1) return qsf_gram_bytes(g, (const char[]){ (char)at }, 1);
    for (at = 0; at < g->sets.n && memcmp(GRAM_U32(g->sets) + 8 * (size_t)at, bits, 32); at++) {}
    if (at == g->sets.n) {
        uint32_t *to = qsf_gram_push(g, &g->sets, 32, 1);
        if (!to) return 0;
        memcpy(to, bits, 32);
    }
    return qsf_gram_node_of(g, GK_SET, at, 0, 0);
}
