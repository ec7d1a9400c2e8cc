/* Rules that begin with themselves, of which a derivative would never end: they are found, and
 * written as what they begin with and what may follow that any number of times.
 * SPDX-License-Identifier: MIT */
#include "grammar/grammar_own.h"

enum { LEFT_RULES = 32 };           /* that begin with each other */

/* Circles of the nodes that can come first, by Tarjan's algorithm. */
typedef struct left_finder {
    qsf_grammar *g;
    uint32_t n_nodes, *seen, *low;  /* [n_nodes] when a node was met, 1 and up; the oldest it leads back to */
    uint32_t *circle;               /* [n_nodes] 0: not known, else a number for each circle */
    uint32_t n_seen, n_circles;
} left_finder;

/* Part i of what a node can begin with; 0: past the last one. */
static uint32_t left_part(const qsf_grammar *g, const gram_node *n, uint32_t i)
{
    if (n->kind == GK_AND || n->kind == GK_NEG) return 0;
    if (n->kind == GK_SEQ && i == 1 && !gram_is(g, n->a, GF_NULLABLE)) return 0;
    return qsf_gram_part(g, n, i);
}

/* (e, k): e begins the text and is not empty, k follows. */
static void left_todo(qsf_grammar *g, uint32_t e, uint32_t k)
{
    uint64_t *to = k ? qsf_gram_push(g, &g->work, sizeof *to, 1) : NULL;
    if (to) *to = (uint64_t)e << 32 | k;
}

static uint32_t left_either(qsf_grammar *g, uint32_t x, uint32_t y)
{
    const uint32_t from = g->alts.n;
    qsf_gram_alt(g, x);
    qsf_gram_alt(g, y);
    return qsf_gram_union(g, from);
}

/* A rule as start | rule[0] after[0] | rule[1] after[1] ... of its circle's rules. */
typedef struct left_rule { uint32_t rule, start, after[LEFT_RULES]; } left_rule;

static void left_take_apart(left_finder *f, left_rule *rules, uint32_t n, uint32_t which)
{
    qsf_grammar *g = f->g;
    left_rule *r = &rules[which];
    const uint32_t circle = f->circle[r->rule];
    const uint32_t bottom = g->work.n;
    r->start = GRAM_NONE;
    for (uint32_t i = 0; i < n; i++) r->after[i] = GRAM_NONE;
    qsf_gram_forget(g);
    left_todo(g, qsf_gram_part(g, gram_at(g, r->rule), 0), GRAM_EMPTY);
    while (g->work.n > bottom && !g->status) {
        const uint64_t pair = GRAM_U64(g->work)[--g->work.n];
        const uint32_t e = (uint32_t)(pair >> 32), k = (uint32_t)pair;
        const gram_node x = *gram_at(g, e);
        if (!qsf_gram_new(g, pair)) continue;
        if (f->circle[e] != circle) {
            r->start = left_either(g, r->start, qsf_gram_seq(g, qsf_gram_one(g, GK_FULL, e), k));
        } else if (x.kind == GK_RULE) {
            uint32_t i = 0;
            while (rules[i].rule != e) i++;
            r->after[i] = left_either(g, r->after[i], k);
        } else if (x.kind == GK_SEQ) {
            left_todo(g, x.a, qsf_gram_seq(g, x.b, k));
            if (gram_is(g, x.a, GF_NULLABLE)) left_todo(g, x.b, k);
        } else if (x.kind == GK_REP) {
            const uint32_t rest = qsf_gram_rep(g, x.a, x.b - (x.b > 0), x.c - (x.c != QSF_G_NO_MOST));
            left_todo(g, x.a, qsf_gram_seq(g, rest, k));
        } else {
            for (uint32_t i = 0, part; (part = qsf_gram_part(g, &x, i)) != 0; i++) left_todo(g, part, k);
        }
    }
    g->work.n = bottom;
}

/* The rules of a circle, by elimination: x = s | x a | y b is x = (s | y b) a*. */
static void left_solve(left_finder *f, left_rule *r, uint32_t n)
{
    qsf_grammar *g = f->g;
    for (uint32_t i = 0; i < n; i++) left_take_apart(f, r, n, i);
    for (uint32_t i = 0; i < n && !g->status; i++) {
        const uint32_t again = qsf_gram_rep(g, r[i].after[i], 0, QSF_G_NO_MOST);
        r[i].after[i] = GRAM_NONE;
        r[i].start = qsf_gram_seq(g, r[i].start, again);
        for (uint32_t j = 0; j < n; j++) r[i].after[j] = qsf_gram_seq(g, r[i].after[j], again);
        for (uint32_t m = 0; m < n && !g->status; m++) {
            const uint32_t by = r[m].after[i];
            if (m == i || by == GRAM_NONE) continue;
            r[m].after[i] = GRAM_NONE;
            r[m].start = left_either(g, r[m].start, qsf_gram_seq(g, r[i].start, by));
            for (uint32_t j = 0; j < n; j++)
                r[m].after[j] = left_either(g, r[m].after[j], qsf_gram_seq(g, r[i].after[j], by));
        }
    }
    for (uint32_t i = 0; i < n && !g->status; i++)
        GRAM_U32(g->rules)[gram_at(g, r[i].rule)->a] =
            left_either(g, r[i].start, gram_is(g, r[i].rule, GF_NULLABLE) ? GRAM_EMPTY : GRAM_NONE);
}

/* A circle is complete: its nodes are the last ones of alts, from the place `from` on. */
static bool left_circle(left_finder *f, uint32_t from)
{
    qsf_grammar *g = f->g;
    left_rule *rules = NULL;
    uint32_t n = 0;
    f->n_circles++;
    for (uint32_t i = from; i < g->alts.n; i++) {
        const uint32_t id = (uint32_t)GRAM_U64(g->alts)[i];
        f->circle[id] = f->n_circles;
        n += gram_at(g, id)->kind == GK_RULE;
    }
    const uint32_t first = (uint32_t)GRAM_U64(g->alts)[from];
    if (g->alts.n - from == 1 && !(n && qsf_gram_part(g, gram_at(g, first), 0) == first)) {
        g->alts.n = from;
        return false;
    }
    if (n > LEFT_RULES) {
        qsf_gram_fail(g, QSF_E_BUDGET, "more than %d rules of the grammar are left-recursive together",
                                   LEFT_RULES);
    } else if ((rules = qsf_alloc_array(g->platform, n, sizeof *rules, "a grammar", &g->err)) == NULL) {
        g->status = QSF_E_MEMORY;
    } else {
        for (uint32_t i = from, k = 0; i < g->alts.n; i++) {
            const uint32_t id = (uint32_t)GRAM_U64(g->alts)[i];
            if (gram_at(g, id)->kind == GK_RULE) rules[k++].rule = id;
        }
        g->alts.n = from;
        left_solve(f, rules, n);
    }
    if (rules) qsf_dealloc(g->platform, rules, n * (uint64_t)sizeof *rules);
    return true;
}

/* From the node that pairs has last, which was not met yet. */
static bool left_search(left_finder *f)
{
    qsf_grammar *g = f->g;
    bool found = false;
    const uint32_t bottom = g->pairs.n - 1;
    while (g->pairs.n > bottom && !g->status) {
        uint64_t *top = GRAM_U64(g->pairs) + g->pairs.n - 1;
        const uint32_t id = (uint32_t)(*top >> 32), i = (uint32_t)(*top)++;
        if (i == 0) {
            uint64_t *to = qsf_gram_push(g, &g->alts, sizeof *to, 1);
            if (to) *to = id;
            f->seen[id] = f->low[id] = ++f->n_seen;
        }
        const uint32_t part = left_part(g, gram_at(g, id), i);
        if (part && !f->seen[part]) {
            uint64_t *to = qsf_gram_push(g, &g->pairs, sizeof *to, 1);
            if (to) *to = (uint64_t)part << 32;
        } else if (part) {
            if (!f->circle[part]) f->low[id] = QSF_MIN(f->low[id], f->seen[part]);
        } else {
            if (--g->pairs.n > bottom) {
                const uint32_t over = (uint32_t)(GRAM_U64(g->pairs)[g->pairs.n - 1] >> 32);
                f->low[over] = QSF_MIN(f->low[over], f->low[id]);
            }
            if (f->low[id] != f->seen[id]) continue;
            uint32_t from = g->alts.n - 1;
            while (GRAM_U64(g->alts)[from] != id) from--;
            found |= left_circle(f, from);
        }
    }
    return found;
}

void qsf_gram_unleft(qsf_grammar *g)
{
    left_finder f = { .g = g, .n_nodes = g->nodes.n };
    bool found = false;
    const uint32_t n_order = g->pairs.n;
    f.seen = qsf_alloc_array(g->platform, 3 * (uint64_t)f.n_nodes, sizeof *f.seen, "a grammar", &g->err);
    if (!f.seen) {
        g->status = QSF_E_MEMORY;
        return;
    }
    f.low = f.seen + f.n_nodes;
    f.circle = f.low + f.n_nodes;
    for (uint32_t i = 0; i < n_order && !g->status; i++) {
        const uint32_t id = (uint32_t)GRAM_U64(g->pairs)[i];
        uint64_t *to = f.seen[id] ? NULL : qsf_gram_push(g, &g->pairs, sizeof *to, 1);
        if (!to) continue;
        *to = (uint64_t)id << 32;
        found |= left_search(&f);
    }
    qsf_dealloc(g->platform, f.seen, 3 * (uint64_t)f.n_nodes * sizeof *f.seen);
    if (found && !g->status) {
        g->pairs.n = 0;
        qsf_gram_order(g);
        qsf_gram_settle(g);
    }
}
