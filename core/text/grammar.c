/* From nodes to an automaton: what is checked when a grammar is finished, derivatives, and matchers.
 * SPDX-License-Identifier: MIT */
#include "text/grammar_own.h"

#define GRAM_PAIR(h, l) ((uint64_t)(h) << 32 | (l))

/* ---- derivatives ---- */

void gram_forget(qsf_grammar *g)
{
    g->n_seen = 0;
    g->turn++;
}

bool gram_new(qsf_grammar *g, uint64_t pair)
{
    typedef struct { uint64_t pair; uint64_t turn; } seen;
    seen *table = g->seen.p;
    if (2 * g->n_seen >= g->seen.n) {
        const uint32_t size = g->seen.n ? 2 * g->seen.n : 64;
        gram_mem old = g->seen;
        g->seen = (gram_mem){ 0 };
        table = gram_push(g, &g->seen, sizeof *table, size);
        g->n_seen = 0;
        if (table)
            for (uint32_t i = 0; i < old.n; i++)
                if (((seen *)old.p)[i].turn == g->turn) gram_new(g, ((seen *)old.p)[i].pair);
        gram_release(g, &old, sizeof *table);
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
                 ? gram_push(g, &g->work, sizeof *to, 1) : NULL;
    if (to) *to = GRAM_PAIR(e, k);
}

static void gram_atom(qsf_grammar *g, uint64_t pair)
{
    uint64_t *to = g->pairs.n < GRAM_MAX_PAIRS ? gram_push(g, &g->pairs, sizeof *to, 1) : NULL;
    if (to) *to = pair;
    else gram_fail(g, QSF_E_BUDGET, "more than %d things can come next in the grammar", GRAM_MAX_PAIRS);
}

void gram_expand(qsf_grammar *g, uint32_t id, bool heads)
{
    const uint32_t bottom = g->work.n;
    gram_forget(g);
    gram_todo(g, id, GRAM_EMPTY);
    while (g->work.n > bottom && !g->status) {
        const uint64_t pair = GRAM_U64(g->work)[--g->work.n];
        const uint32_t e = (uint32_t)(pair >> 32), k = (uint32_t)pair;
        const gram_node n = *gram_at(g, e);
        if (!gram_new(g, pair)) continue;
        switch (n.kind) {
        case GK_SEQ:
            if (gram_is(g, n.a, GF_NULLABLE)) gram_todo(g, n.b, k);
            gram_todo(g, n.a, gram_seq(g, n.b, k));
            break;
        case GK_CHOICE:
            for (uint32_t i = 0; i < n.b; i++) gram_todo(g, gram_part(g, &n, i), k);
            break;
        case GK_REP:
            if (heads && n.c > 1) {
                gram_atom(g, pair);
                break;
            }
            gram_todo(g, n.a, gram_seq(g, gram_rep(g, n.a, n.b - (n.b > 0),
                                                   n.c - (n.c != QSF_G_NO_MOST)), k));
            break;
        case GK_FULL:
            if (heads) gram_atom(g, pair);      /* its parts are not to be empty, which heads may be */
            else gram_todo(g, n.a, k);
            break;
        case GK_RULE: gram_todo(g, gram_part(g, &n, 0), k); break;
        case GK_EMPTY: case GK_NONE: break;
        default: gram_atom(g, pair);
        }
    }
    g->work.n = bottom;
}

/* x{a,b}t or x{c,d}t as one, where the counts touch: what keeps counted texts small. */
static bool gram_join(qsf_grammar *g, uint64_t *into, uint64_t with)
{
    const gram_node *x = gram_at(g, (uint32_t)(*into >> 32)), *y = gram_at(g, (uint32_t)(with >> 32));
    if ((uint32_t)*into != (uint32_t)with || x->kind != GK_REP || y->kind != GK_REP || x->a != y->a) return false;
    const uint64_t lo = QSF_MAX(x->b, y->b), hi = QSF_MIN(x->c, y->c);
    if (lo > hi + 1) return false;
    const uint32_t id = gram_rep(g, x->a, QSF_MIN(x->b, y->b), QSF_MAX(x->c, y->c));
    if (id) *into = GRAM_PAIR(id, (uint32_t)with);
    return id != 0;
}

uint32_t gram_choice(qsf_grammar *g, uint32_t from)
{
    const uint32_t n = g->alts.n - from;
    if (g->status) return 0;
    if (n <= 1) return gram_union(g, from);
    for (uint32_t i = from; i < g->alts.n; i++) {
        const uint32_t id = (uint32_t)GRAM_U64(g->alts)[i];
        const bool seq = gram_at(g, id)->kind == GK_SEQ;
        GRAM_U64(g->alts)[i] = GRAM_PAIR(seq ? gram_at(g, id)->a : id, seq ? gram_at(g, id)->b : GRAM_EMPTY);
    }
    gram_sort(GRAM_U64(g->alts) + from, n);
    uint32_t kept = 0;
    for (uint32_t i = 0, k; i < n; i = k) {
        const uint64_t first = GRAM_U64(g->alts)[from + i];
        uint32_t tail = (uint32_t)first;
        for (k = i + 1; k < n && GRAM_U64(g->alts)[from + k] >> 32 == first >> 32; k++) {}
        if (k > i + 1) {
            const uint32_t above = g->alts.n;
            for (uint32_t j = i; j < k; j++) gram_alt(g, (uint32_t)GRAM_U64(g->alts)[from + j]);
            tail = gram_union(g, above);
        }
        uint64_t alt = GRAM_PAIR(first >> 32, tail);
        for (uint32_t j = 0; j < kept; ) {
            if (gram_at(g, (uint32_t)(alt >> 32))->kind != GK_REP) break;
            if (gram_join(g, &alt, GRAM_U64(g->alts)[from + j])) {
                GRAM_U64(g->alts)[from + j] = GRAM_U64(g->alts)[from + --kept];
                j = 0;
            } else {
                j++;
            }
        }
        if (g->status) return 0;
        GRAM_U64(g->alts)[from + kept++] = alt;
    }
    for (uint32_t i = 0; i < kept; i++) {
        const uint64_t alt = GRAM_U64(g->alts)[from + i];
        GRAM_U64(g->alts)[from + i] = gram_seq(g, (uint32_t)(alt >> 32), (uint32_t)alt);
    }
    g->alts.n = from + kept;
    return gram_union(g, from);
}

/* What is left of the atoms pairs[first..) behind a byte, to alts: (which atom, what); of GK_AND and
 * GK_NEG the derivatives of their parts. */
static void gram_left(qsf_grammar *g, uint32_t first, uint32_t class)
{
    const uint32_t end = g->pairs.n;
    for (uint32_t i = first; i < end; i++) {
        const uint64_t pair = GRAM_U64(g->pairs)[i];
        const gram_node n = *gram_at(g, (uint32_t)(pair >> 32));
        const uint8_t byte = g->sample[class];
        uint64_t *to;
        if (n.kind == GK_SET || n.kind == GK_LIT) {
            if (n.kind == GK_SET ? !gram_has_byte(g, n.a, byte) : ((uint8_t *)g->bytes.p)[n.a] != byte) continue;
            if ((to = gram_push(g, &g->alts, sizeof *to, 1)) != NULL) *to = GRAM_PAIR(i, 0);
            continue;
        }
        for (uint32_t k = 0, part; (part = gram_part(g, &n, k)) != 0; k++) {
            const uint32_t *row = gram_row(g, part);
            if (row && (to = gram_push(g, &g->alts, sizeof *to, 1)) != NULL) *to = GRAM_PAIR(i, row[class]);
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
            uint64_t *to = gram_push(g, &g->alts, sizeof *to, 1);
            if (to) *to = (uint32_t)GRAM_U64(g->memo)[at + k];
        }
        if (x.kind == GK_AND) {
            rest = gram_and(g, above);
            if (!raw && rest && gram_at(g, rest)->kind == GK_AND && !gram_live(g, rest)) continue;
        } else {
            if (x.kind == GK_NEG && !g->status) rest = gram_one(g, GK_NEG, (uint32_t)GRAM_U64(g->alts)[above]);
            if (x.kind == GK_LIT) rest = gram_lit(g, x.a + 1, x.b - 1);
            g->alts.n = above;
        }
        gram_alt(g, gram_seq(g, rest, (uint32_t)pair));
    }
    return gram_choice(g, from);
}

/* The derivative by each class; classes with equal lists of what is left are done once. */
static void gram_fill(qsf_grammar *g, uint32_t row, uint32_t first, bool raw)
{
    const uint32_t from = g->alts.n, memo = g->memo.n;
    for (uint32_t c = 0; c < g->n_classes && !g->status; c++) {
        gram_left(g, first, c);
        const uint32_t n = g->alts.n - from;
        if (n == 0) continue;                   /* GRAM_NONE, as it is */
        uint32_t at = memo, id = 0;
        for (const uint64_t *m; !id && at < g->memo.n; at += (uint32_t)m[0] + 2) {
            m = GRAM_U64(g->memo) + at;
            if (m[0] == n && !memcmp(m + 2, GRAM_U64(g->alts) + from, n * sizeof *m)) id = (uint32_t)m[1];
        }
        if (!id) {
            uint64_t *m = gram_push(g, &g->memo, sizeof *m, n + 2);
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
    g->memo.n = memo;
}

static const uint32_t *gram_row_of(qsf_grammar *g, uint32_t id, bool raw)
{
    uint32_t row = gram_at(g, id)->row;
    if (!row) {
        const uint32_t first = g->pairs.n;
        row = g->rows.n;
        uint32_t *to = gram_push(g, &g->rows, sizeof *to, g->n_classes);
        if (!to) return NULL;
        for (uint32_t c = 0; c < g->n_classes; c++) to[c] = GRAM_NONE;
        gram_expand(g, id, false);
        if (g->pairs.n == first + 1) {          /* a literal: one derivative, found at once */
            const uint64_t pair = GRAM_U64(g->pairs)[first];
            const gram_node n = *gram_at(g, (uint32_t)(pair >> 32));
            if (n.kind == GK_LIT) {
                const uint32_t next = gram_seq(g, gram_lit(g, n.a + 1, n.b - 1), (uint32_t)pair);
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
            if (gram_at(g, next)->kind == GK_AND && !gram_live(g, next)) GRAM_U32(g->rows)[row + c] = GRAM_NONE;
        }
    }
    return g->status ? NULL : GRAM_U32(g->rows) + row;
}

const uint32_t *gram_row_make(qsf_grammar *g, uint32_t id) { return gram_row_of(g, id, false); }

/* A search, whose result stays. */
bool gram_live(qsf_grammar *g, uint32_t id)
{
    const uint32_t bottom = g->work.n;
    bool live = false;
    if (gram_is(g, id, GF_LIVE | GF_NULLABLE) || gram_is(g, id, GF_DEAD)) return !gram_is(g, id, GF_DEAD);
    uint64_t *to = gram_push(g, &g->work, sizeof *to, 1);
    if (!to) return true;
    const uint8_t search = ++g->searches;       /* searches are in each other as deep as levels are */
    *to = GRAM_PAIR(0, id);                     /* where it was reached from, as its place in work; the node */
    gram_at(g, id)->search = search;
    for (uint32_t at = bottom; at < g->work.n && !live && !g->status; at++) {
        const uint32_t *row = gram_row_of(g, (uint32_t)GRAM_U64(g->work)[at], true);
        for (uint32_t c = 0; row && c < g->n_classes && !live; c++) {
            gram_node *next = gram_at(g, row[c]);
            if (next->search == search || next->flags & GF_DEAD) continue;
            if (next->kind != GK_AND || next->flags & (GF_NULLABLE | GF_LIVE)) {
                live = true;
                for (uint32_t up = at + 1; up; up = (uint32_t)(GRAM_U64(g->work)[up - 1] >> 32))
                    gram_at(g, (uint32_t)GRAM_U64(g->work)[up - 1])->flags |= GF_LIVE;
            } else if ((to = gram_push(g, &g->work, sizeof *to, 1)) != NULL) {
                *to = GRAM_PAIR(at + 1, row[c]);
                next->search = search;
            }
        }
        if (g->work.n - bottom > GRAM_MAX_SEARCH)
            gram_fail(g, QSF_E_BUDGET, "what two parts of the grammar have in common is too large to search");
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

/* ---- finishing ---- */

void gram_order(qsf_grammar *g)
{
    uint64_t *to = gram_push(g, &g->work, sizeof *to, 1);
    if (to) *to = GRAM_PAIR(g->root, 0);
    gram_at(g, g->root)->flags |= GF_SEEN;
    while (g->work.n && !g->status) {
        uint64_t *top = GRAM_U64(g->work) + g->work.n - 1;
        const uint32_t id = (uint32_t)(*top >> 32), part = gram_part(g, gram_at(g, id), (uint32_t)(*top)++);
        if (!part) {
            g->work.n--;
            if ((to = gram_push(g, &g->pairs, sizeof *to, 1)) != NULL) *to = id;
        } else if (!gram_is(g, part, GF_SEEN)) {
            gram_at(g, part)->flags |= GF_SEEN;
            if ((to = gram_push(g, &g->work, sizeof *to, 1)) != NULL) *to = GRAM_PAIR(part, 0);
        }
    }
    for (uint32_t i = 0; i < g->pairs.n; i++)
        gram_at(g, (uint32_t)GRAM_U64(g->pairs)[i])->flags &= (uint8_t)~GF_SEEN;
    g->work.n = 0;
}

/* Nothing is assumed of rules; until nothing changes.  What a rule's body had before says nothing:
 * all else comes first. */
void gram_settle(qsf_grammar *g)
{
    const uint64_t *order = GRAM_U64(g->pairs);
    uint64_t steps = 0;
    for (uint32_t i = 0; i < g->pairs.n; i++) {
        gram_node *n = gram_at(g, (uint32_t)order[i]);
        if (n->kind == GK_RULE) n->flags = (uint8_t)((n->flags | GF_DEAD) & ~GF_NULLABLE);
    }
    for (bool first = true, changed = true; changed && !g->status; first = false, steps += g->pairs.n) {
        changed = first;
        for (uint32_t i = 0; i < g->pairs.n; i++) {
            gram_node *n = gram_at(g, (uint32_t)order[i]);
            const uint8_t before = n->flags;
            if (first && n->kind == GK_RULE) continue;
            gram_flags(g, n);
            if (n->kind == GK_AND) n->flags |= before & GF_DEAD;
            changed |= n->flags != before;
        }
        if (steps > 1 << 26) gram_fail(g, QSF_E_BUDGET, "the grammar's rules depend on each other in too many ways");
    }
}

/* Bytes that no node tells apart become one class. */
static void gram_classify(qsf_grammar *g)
{
    uint16_t class[256] = { 0 };
    uint32_t n = 1;
    bool done[256] = { 0 };
    for (uint32_t i = 0; i < g->pairs.n && n < 256; i++) {
        const gram_node *x = gram_at(g, (uint32_t)GRAM_U64(g->pairs)[i]);
        if (x->kind == GK_SET) {
            uint16_t split[256] = { 0 };        /* class -> the new one of its bytes that are in the set */
            uint32_t in[256] = { 0 }, all[256] = { 0 };
            for (uint32_t b = 0; b < 256; b++) {
                all[class[b]]++;
                in[class[b]] += gram_has_byte(g, x->a, (uint8_t)b);
            }
            for (uint32_t b = 0; b < 256; b++) {
                const uint16_t c = class[b];
                if (!gram_has_byte(g, x->a, (uint8_t)b) || in[c] == all[c]) continue;
                if (!split[c]) split[c] = (uint16_t)n++;
                class[b] = split[c];
            }
        } else if (x->kind == GK_LIT) {
            for (uint32_t k = 0; k < x->b; k++) {
                const uint8_t b = ((uint8_t *)g->bytes.p)[x->a + k];
                if (done[b]) continue;
                done[b] = true;
                for (uint32_t other = 0; other < 256; other++)
                    if (other != b && class[other] == class[b]) {
                        class[b] = (uint16_t)n++;
                        break;
                    }
            }
        }
    }
    g->n_classes = n;
    for (uint32_t b = 0; b < 256; b++) {
        g->classes[b] = (uint8_t)class[b];
        g->sample[class[b]] = (uint8_t)b;
        g->class_size[class[b]]++;
    }
}

qsf_status qsf_grammar_finish(qsf_grammar_builder *b, qsf_gnode root, qsf_grammar **out, qsf_error *err)
{
    qsf_grammar *g = (qsf_grammar *)b;
    *out = NULL;
    if (!root && !g->status) gram_fail(g, QSF_E_ARGUMENT, "the grammar has no root");
    g->root = root;
    if (!g->status) gram_order(g);
    for (uint32_t i = 0; i < g->pairs.n && !g->status; i++) {
        const gram_node *n = gram_at(g, (uint32_t)GRAM_U64(g->pairs)[i]);
        if (n->kind == GK_RULE && !GRAM_U32(g->rules)[n->a])
            gram_fail(g, QSF_E_ARGUMENT, "a rule of the grammar has no definition");
    }
    if (!g->status) gram_settle(g);
    if (!g->status) gram_unleft(g);
    if (!g->status) {
        gram_classify(g);
        gram_push(g, &g->rows, sizeof(uint32_t), 1);            /* 0 is no row */
        bool dead = false;
        for (uint32_t i = 0; i < g->pairs.n && !g->status; i++) {
            const uint32_t id = (uint32_t)GRAM_U64(g->pairs)[i];
            if (gram_at(g, id)->kind == GK_AND) dead |= !gram_live(g, id);
        }
        if (dead) gram_settle(g);
        g->pairs.n = 0;
    }
    if (!g->status && gram_is(g, root, GF_DEAD)) gram_fail(g, QSF_E_ARGUMENT, "no text fits the grammar");
    if (g->status) {
        const qsf_status st = g->status;
        if (err) *err = g->err;
        qsf_grammar_drop(g);
        return st;
    }
    g->base_nodes = g->nodes.n;
    g->base_lists = g->lists.n;
    *out = g;
    return QSF_OK;
}

const qsf_platform *qsf_grammar_host(const qsf_grammar *g) { return g->platform; }

void qsf_grammar_drop(qsf_grammar *g)
{
    if (!g) return;
    gram_forget_masks(g);
    gram_release(g, &g->nodes, sizeof(gram_node));
    gram_release(g, &g->lists, sizeof(uint32_t));
    gram_release(g, &g->bytes, 1);
    gram_release(g, &g->sets, 32);
    gram_release(g, &g->rules, sizeof(uint32_t));
    gram_release(g, &g->rows, sizeof(uint32_t));
    gram_release(g, &g->work, sizeof(uint64_t));
    gram_release(g, &g->pairs, sizeof(uint64_t));
    gram_release(g, &g->alts, sizeof(uint64_t));
    gram_release(g, &g->memo, sizeof(uint64_t));
    gram_release(g, &g->seen, 2 * sizeof(uint64_t));
    if (g->table) qsf_dealloc(g->platform, g->table, (g->table_mask + 1) * (uint64_t)sizeof *g->table);
    qsf_dealloc(g->platform, g, sizeof *g);
}
