/* From nodes to an automaton: what follows a byte, made when it is asked for.
 * SPDX-License-Identifier: MIT */
#include "grammar/grammar_own.h"

void qsf_gram_forget(qsf_grammar *g)
{
    g->n_seen = 0;
    g->turn++;
}

bool qsf_gram_new(qsf_grammar *g, uint64_t pair)
{
    typedef struct { uint64_t pair; uint64_t turn; } seen;
    seen *table = g->seen.p;
    if (2 * g->n_seen >= g->seen.n) {
        const uint32_t size = g->seen.n ? 2 * g->seen.n : 64;
        gram_mem old = g->seen;
        g->seen = (gram_mem){ 0 };
        table = qsf_gram_push(g, &g->seen, sizeof *table, size);
        g->n_seen = 0;
        if (table)
            for (uint32_t i = 0; i < old.n; i++)
                if (((seen *)old.p)[i].turn == g->turn) qsf_gram_new(g, ((seen *)old.p)[i].pair);
        qsf_gram_release(g, &old, sizeof *table);
        if (!table) return false;
    }
    const uint64_t h = pair * 0x9e3779b97f4a7c15u;
    uint32_t i = (uint32_t)(h >> 32) & (g->seen.n - 1);
    for (; table[i].turn == g->turn; i = (i + 1) & (g->seen.n - 1))
        if (table[i].pair == pair) return false;
    table[i] = (seen){ pair, g->turn };
    g->n_seen++;
    return true;
}

static void gram_todo(qsf_grammar *g, uint32_t e, uint32_t k)
{
    uint64_t *to = e && k && !gram_is(g, e, GF_DEAD) && !gram_is(g, k, GF_DEAD)
                 ? qsf_gram_push(g, &g->work, sizeof *to, 1) : NULL;
    if (to) *to = GRAM_PAIR(e, k);
}

static void gram_atom(qsf_grammar *g, uint64_t pair)
{
    uint64_t *to = NULL;
    const bool alike = g->pairs.n && (uint32_t)GRAM_U64(g->pairs)[g->pairs.n - 1] == (uint32_t)pair;
    g->ways += !alike;                          /* of alternatives that continue alike, there may be more */
    if (g->ways < GRAM_MAX_WAYS) to = qsf_gram_push(g, &g->pairs, sizeof *to, 1);
    if (to) *to = pair;
    else qsf_gram_fail(g, QSF_E_BUDGET, "the grammar is ambiguous in more than %d ways at once; use fewer "
                       "optional or repeated parts in a row", GRAM_MAX_WAYS);
}

void qsf_gram_expand(qsf_grammar *g, uint32_t id, bool heads)
{
    const uint32_t bottom = g->work.n, first = g->pairs.n;
    g->ways = 0;
    qsf_gram_forget(g);
    gram_todo(g, id, GRAM_EMPTY);
    while (g->work.n > bottom && !g->status) {
        const uint64_t pair = GRAM_U64(g->work)[--g->work.n];
        const uint32_t e = (uint32_t)(pair >> 32), k = (uint32_t)pair;
        const gram_node n = *gram_at(g, e);
        if (!qsf_gram_new(g, pair)) continue;
        switch (n.kind) {
        case GK_SEQ:
            if (gram_is(g, n.a, GF_NULLABLE)) gram_todo(g, n.b, k);
            gram_todo(g, n.a, qsf_gram_seq(g, n.b, k));
            break;
        case GK_CHOICE:
            for (uint32_t i = 0; i < n.b; i++) gram_todo(g, qsf_gram_part(g, &n, i), k);
            break;
        case GK_REP:
            if (heads && n.c > 1) {
                gram_atom(g, pair);
                break;
            }
            gram_todo(g, n.a, qsf_gram_seq(g, qsf_gram_rep(g, n.a, n.b - (n.b > 0),
                                                           n.c - (n.c != QSF_G_NO_MOST)), k));
            break;
        case GK_FULL:
            if (heads) gram_atom(g, pair);      /* its parts are not to be empty, which heads may be */
            else gram_todo(g, n.a, k);
            break;
        case GK_RULE: gram_todo(g, qsf_gram_part(g, &n, 0), k); break;
        case GK_EMPTY: case GK_NONE: break;
        default: gram_atom(g, pair);
        }
    }
    g->work.n = bottom;
    if (g->ways <= GRAM_FEW_WAYS) return;
    g->effort += GRAM_WAY_EFFORT * g->ways + g->pairs.n - first;
    if (g->effort > GRAM_MAX_EFFORT)
        qsf_gram_fail(g, QSF_E_BUDGET, "the grammar is ambiguous in too many ways at once (%u); use fewer "
                      "optional or repeated parts in a row", (unsigned)g->ways);
}

/* x{a,b}t or x{c,d}t as one, if the counts touch. */
static bool gram_join(qsf_grammar *g, uint64_t *into, uint64_t with)
{
    const gram_node *x = gram_at(g, (uint32_t)(*into >> 32)), *y = gram_at(g, (uint32_t)(with >> 32));
    if ((uint32_t)*into != (uint32_t)with || x->a != y->a) return false;
    const uint64_t lo = QSF_MAX(x->b, y->b), hi = QSF_MIN(x->c, y->c);
    if (lo > hi + 1) return false;
    const uint32_t id = qsf_gram_rep(g, x->a, QSF_MIN(x->b, y->b), QSF_MAX(x->c, y->c));
    if (id) *into = GRAM_PAIR(id, (uint32_t)with);
    return id != 0;
}

static bool gram_is_rep(const qsf_grammar *g, uint64_t alt)
{
    return gram_at(g, (uint32_t)(alt >> 32))->kind == GK_REP;
}

/* Joins what is repeated among alts[from..from+n), as (head, tail): what keeps counted texts small.
 * What was joined to another one becomes (GRAM_NONE, ...). */
static void gram_join_all(qsf_grammar *g, uint32_t from, uint32_t n)
{
    const uint32_t above = g->alts.n;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t alt = GRAM_U64(g->alts)[from + i];
        if (!gram_is_rep(g, alt)) continue;
        /* a number for what is repeated and the tail: those with the same one lie together */
        const uint32_t of = qsf_gram_seq(g, gram_at(g, (uint32_t)(alt >> 32))->a, (uint32_t)alt);
        uint64_t *to = qsf_gram_push(g, &g->alts, sizeof *to, 1);
        if (to) *to = GRAM_PAIR(of, from + i);
    }
    qsf_gram_sort(GRAM_U64(g->alts) + above, g->alts.n - above);
    for (uint32_t i = above, first = above; i < g->alts.n && !g->status; i++) {
        const uint64_t x = GRAM_U64(g->alts)[i];
        uint64_t *mine = &GRAM_U64(g->alts)[(uint32_t)x];
        if (GRAM_U64(g->alts)[first] >> 32 != x >> 32) first = i;
        for (uint32_t k = first; k < i; k++) {
            uint64_t *other = &GRAM_U64(g->alts)[(uint32_t)GRAM_U64(g->alts)[k]];
            if (*other >> 32 != GRAM_NONE && gram_join(g, mine, *other)) *other = GRAM_PAIR(GRAM_NONE, 0);
        }
    }
    g->alts.n = above;
}

/* Whether alternatives with this head have their tails together: not where texts are counted, which
 * gram_join_all is for. */
static bool gram_groups(const qsf_grammar *g, uint64_t alt)
{
    return !gram_is_rep(g, alt) || gram_at(g, (uint32_t)(alt >> 32))->c == QSF_G_NO_MOST;
}

uint32_t qsf_gram_choice(qsf_grammar *g, uint32_t from)
{
    const uint32_t n = g->alts.n - from;
    if (g->status) return 0;
    if (n <= 1) return qsf_gram_union(g, from);
    for (uint32_t i = from; i < g->alts.n; i++) {
        const uint32_t id = (uint32_t)GRAM_U64(g->alts)[i];
        const bool seq = gram_at(g, id)->kind == GK_SEQ;
        GRAM_U64(g->alts)[i] = GRAM_PAIR(seq ? gram_at(g, id)->a : id, seq ? gram_at(g, id)->b : GRAM_EMPTY);
    }
    qsf_gram_sort(GRAM_U64(g->alts) + from, n);
    gram_join_all(g, from, n);
    qsf_gram_sort(GRAM_U64(g->alts) + from, n);
    uint32_t kept = 0;
    for (uint32_t i = 0, k; i < n && !g->status; i = k) {
        const uint64_t first = GRAM_U64(g->alts)[from + i];
        uint32_t tail = (uint32_t)first;
        k = i + 1;
        if (gram_groups(g, first)) while (k < n && GRAM_U64(g->alts)[from + k] >> 32 == first >> 32) k++;
        if (k > i + 1) {
            const uint32_t above = g->alts.n;
            for (uint32_t j = i; j < k; j++) qsf_gram_alt(g, (uint32_t)GRAM_U64(g->alts)[from + j]);
            /* tails too, or what is ambiguous would have ever more forms */
            g->deep++;
            tail = g->deep < GRAM_DEEP ? qsf_gram_choice(g, above) : qsf_gram_union(g, above);
            g->deep--;
        }
        const uint32_t id = qsf_gram_seq(g, (uint32_t)(first >> 32), tail);
        if (id && id != GRAM_NONE) GRAM_U64(g->alts)[from + kept++] = id;
    }
    g->alts.n = from + kept;
    return qsf_gram_union(g, from);
}

static const uint32_t *gram_row_of(qsf_grammar *g, uint32_t id, bool raw);

/* The derivatives of atoms by a byte, appended to alts as (atom's index, derivative); for GK_AND
 * and GK_NEG those of their parts.  The atoms are in memo: literals from *next to `others`, sorted
 * as (class, atom), and the rest from there to `end`.  raw: a search is running, and the row of a
 * rule that may lead back to the searched node must not start another. */
static void gram_left(qsf_grammar *g, uint32_t *next, uint32_t others, uint32_t end, uint32_t class, bool raw)
{
    uint64_t *to;
    for (; *next < others && GRAM_U64(g->memo)[*next] >> 32 == class; ++*next)
        if ((to = qsf_gram_push(g, &g->alts, sizeof *to, 1)) != NULL) *to = GRAM_U64(g->memo)[*next] << 32;
    for (uint32_t i = others; i < end; i++) {
        const uint32_t which = (uint32_t)GRAM_U64(g->memo)[i];
        const gram_node n = *gram_at(g, (uint32_t)(GRAM_U64(g->pairs)[which] >> 32));
        if (n.kind == GK_SET) {
            to = gram_has_byte(g, n.a, g->sample[class]) ? qsf_gram_push(g, &g->alts, sizeof *to, 1) : NULL;
            if (to) *to = GRAM_PAIR(which, 0);
            continue;
        }
        for (uint32_t k = 0, part; (part = qsf_gram_part(g, &n, k)) != 0; k++) {
            const uint32_t *row = gram_row_of(g, part, raw && gram_is(g, part, GF_RULES));
            to = row ? qsf_gram_push(g, &g->alts, sizeof *to, 1) : NULL;
            if (to) *to = GRAM_PAIR(which, row[class]);
        }
    }
}

/* The derivative, from what gram_left has said, n items at this place in memo. */
static uint32_t gram_derive(qsf_grammar *g, uint32_t at, uint32_t n, bool raw)
{
    const uint32_t from = g->alts.n;
    for (uint32_t i = 0, k; i < n && !g->status; i = k) {
        const uint32_t which = (uint32_t)(GRAM_U64(g->memo)[at + i] >> 32), above = g->alts.n;
        const uint64_t pair = GRAM_U64(g->pairs)[which];
        const gram_node x = *gram_at(g, (uint32_t)(pair >> 32));
        uint32_t rest = GRAM_EMPTY;
        for (k = i; k < n && GRAM_U64(g->memo)[at + k] >> 32 == which; k++) {
            uint64_t *to = qsf_gram_push(g, &g->alts, sizeof *to, 1);
            if (to) *to = (uint32_t)GRAM_U64(g->memo)[at + k];
        }
        if (x.kind == GK_AND) {
            rest = qsf_gram_and(g, above);
            if (!raw && rest && gram_at(g, rest)->kind == GK_AND && !qsf_gram_live(g, rest)) continue;
        } else {
            if (x.kind == GK_NEG && !g->status)
                rest = qsf_gram_one(g, GK_NEG, (uint32_t)GRAM_U64(g->alts)[above]);
            if (x.kind == GK_LIT) rest = qsf_gram_lit(g, x.a + 1, x.b - 1);
            g->alts.n = above;
        }
        qsf_gram_alt(g, qsf_gram_seq(g, rest, (uint32_t)pair));
    }
    return qsf_gram_choice(g, from);
}

/* The derivative by each class; classes with equal lists of what is left are done once. */
static void gram_fill(qsf_grammar *g, uint32_t row, uint32_t first, bool raw)
{
    const uint32_t from = g->alts.n, bottom = g->memo.n;
    for (uint32_t i = first; i < g->pairs.n; i++) {
        const gram_node *n = gram_at(g, (uint32_t)(GRAM_U64(g->pairs)[i] >> 32));
        const uint32_t class = n->kind == GK_LIT ? g->classes[((uint8_t *)g->bytes.p)[n->a]] : 256;
        uint64_t *to = qsf_gram_push(g, &g->memo, sizeof *to, 1);
        if (to) *to = GRAM_PAIR(class, i);
    }
    const uint32_t memo = g->memo.n;
    uint32_t next = bottom, others = bottom;
    qsf_gram_sort(GRAM_U64(g->memo) + bottom, memo - bottom);
    while (others < memo && GRAM_U64(g->memo)[others] >> 32 < 256) others++;
    for (uint32_t c = 0; c < g->n_classes && !g->status; c++) {
        gram_left(g, &next, others, memo, c, raw);
        const uint32_t n = g->alts.n - from;
        if (n == 0) continue;                   /* stays GRAM_NONE */
        uint32_t at = memo, id = 0;
        for (const uint64_t *m; !id && at < g->memo.n; at += (uint32_t)m[0] + 2) {
            m = GRAM_U64(g->memo) + at;
            if (m[0] == n && !memcmp(m + 2, GRAM_U64(g->alts) + from, n * sizeof *m)) id = (uint32_t)m[1];
        }
        if (!id) {
            uint64_t *m = qsf_gram_push(g, &g->memo, sizeof *m, n + 2);
            if (!m) return;
            memcpy(m + 2, GRAM_U64(g->alts) + from, n * sizeof *m);
            m[0] = n;
            m[1] = 0;                           /* not yet: what lies deeper works above */
            g->alts.n = from;
            id = gram_derive(g, at + 2, n, raw);
            GRAM_U64(g->memo)[at + 1] = id;
        }
        g->alts.n = from;
        GRAM_U32(g->rows)[row + c] = id;
    }
    g->alts.n = from;
    g->memo.n = bottom;
}

static const uint32_t *gram_row_of(qsf_grammar *g, uint32_t id, bool raw)
{
    uint32_t row = gram_at(g, id)->row;
    if (row && !raw && gram_is(g, id, GF_RAW) && gram_is(g, id, GF_RULES)) {    /* rebuild it */
        gram_at(g, id)->flags &= (uint8_t)~GF_RAW;
        row = 0;
    }
    if (!row) {
        const uint32_t first = g->pairs.n;
        row = g->rows.n;
        uint32_t *to = qsf_gram_push(g, &g->rows, sizeof *to, g->n_classes);
        if (!to) return NULL;
        for (uint32_t c = 0; c < g->n_classes; c++) to[c] = GRAM_NONE;
        qsf_gram_expand(g, id, false);
        if (g->pairs.n == first + 1) {          /* a literal: one derivative, found at once */
            const uint64_t pair = GRAM_U64(g->pairs)[first];
            const gram_node n = *gram_at(g, (uint32_t)(pair >> 32));
            if (n.kind == GK_LIT) {
                const uint32_t next = qsf_gram_seq(g, qsf_gram_lit(g, n.a + 1, n.b - 1), (uint32_t)pair);
                GRAM_U32(g->rows)[row + g->classes[((uint8_t *)g->bytes.p)[n.a]]] = next;
                g->pairs.n = first;
            }
        }
        if (g->pairs.n > first) gram_fill(g, row, first, raw);
        g->pairs.n = first;
        if (g->status) return NULL;
        gram_at(g, id)->row = row;
        if (raw) gram_at(g, id)->flags |= GF_RAW;
    } else if (!raw && gram_is(g, id, GF_RAW)) {
        gram_at(g, id)->flags &= (uint8_t)~GF_RAW;
        for (uint32_t c = 0; c < g->n_classes; c++) {
            const uint32_t next = GRAM_U32(g->rows)[row + c];
            if (gram_at(g, next)->kind == GK_AND && !qsf_gram_live(g, next))
                GRAM_U32(g->rows)[row + c] = GRAM_NONE;
        }
    }
    return g->status ? NULL : GRAM_U32(g->rows) + row;
}

const uint32_t *qsf_gram_row_make(qsf_grammar *g, uint32_t id) { return gram_row_of(g, id, false); }

/* Whether a node that a search has reached proves that the language is not empty.  With rules,
 * nothing inside the node is known yet, so only the empty string does. */
static bool gram_found(const gram_node *n, bool rules)
{
    return n->flags & GF_NULLABLE || (!rules && (n->kind != GK_AND || n->flags & GF_LIVE));
}

/* A search, whose result stays. */
bool qsf_gram_live(qsf_grammar *g, uint32_t id)
{
    const uint32_t bottom = g->work.n;
    bool live = false;
    if (gram_is(g, id, GF_LIVE | GF_NULLABLE) || gram_is(g, id, GF_DEAD)) return !gram_is(g, id, GF_DEAD);
    uint64_t *to = qsf_gram_push(g, &g->work, sizeof *to, 1);
    if (!to) return true;
    const bool rules = gram_is(g, id, GF_RULES);
    const uint8_t search = ++g->searches;       /* searches are in each other as deep as levels are */
    *to = GRAM_PAIR(0, id);             /* where it was reached from, as its place in work; the node */
    gram_at(g, id)->search = search;
    for (uint32_t at = bottom; at < g->work.n && !live && !g->status; at++) {
        const uint32_t node = (uint32_t)GRAM_U64(g->work)[at];
        const uint32_t *row = gram_row_of(g, node, !rules || gram_is(g, node, GF_RULES));
        for (uint32_t c = 0; row && c < g->n_classes && !live; c++) {
            gram_node *next = gram_at(g, row[c]);
            if (next->search == search || next->flags & GF_DEAD) continue;
            if (gram_found(next, rules)) {
                live = true;
                for (uint32_t up = at + 1; up; up = (uint32_t)(GRAM_U64(g->work)[up - 1] >> 32))
                    gram_at(g, (uint32_t)GRAM_U64(g->work)[up - 1])->flags |= GF_LIVE;
            } else if ((to = qsf_gram_push(g, &g->work, sizeof *to, 1)) != NULL) {
                *to = GRAM_PAIR(at + 1, row[c]);
                next->search = search;
            }
        }
        if (g->work.n - bottom > GRAM_MAX_SEARCH)
            qsf_gram_fail(g, QSF_E_BUDGET,
                          "the intersection of two parts of the grammar is too large to search");
    }
    for (uint32_t i = bottom; i < g->work.n; i++) {
        gram_node *n = gram_at(g, (uint32_t)GRAM_U64(g->work)[i]);
        n->search = 0;
        if (!live && !g->status) n->flags |= GF_DEAD;
    }
    g->work.n = bottom;
    g->searches--;
    return live || g->status;
}
