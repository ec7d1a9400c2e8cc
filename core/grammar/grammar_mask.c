/* Which tokens can come next.
 * SPDX-License-Identifier: MIT
 *
 * A walk through the token tree finds them, and is enough if few tokens can come.  But inside a
 * JSON string nearly every token can come, whatever surrounds the string.  So the atoms that a
 * node can begin with are handled one by one.  For a part that repeats a large set of bytes, a
 * "head", a cache has the tokens that stay inside it, and the places in the tree where a byte of
 * what follows can leave it; only from those places on the tree is walked.  If the number of
 * characters is limited, the tokens' lengths in characters are cached; if some strings are excluded
 * ("both" with "not", such as names of known members), only the tokens that differ are visited. */
#include "grammar/grammar_own.h"

enum {
    HEAD_BYTES = 16,        /* a part that takes fewer is walked */
    HEAD_FOLLOW = 16,       /* more bytes than this after a part: it is left all over the tree */
    DIFFER_NODES = 1 << 15, /* nodes walked before two parts count as different */
    PLAIN_CHARS = 6,        /* nearly all plain tokens have fewer */
    PLAIN_BRANCH = 16,      /* nodes of a branch that justify a test whether all of it fits */
    MASK_NODES = 150        /* nodes walked before a whole mask is worth caching */
};

typedef struct walk_frame { uint32_t end, at, other, count; } walk_frame;

static void gram_put(uint32_t *mask, uint32_t token) { mask[token / 32] |= 1u << token % 32; }
static void mask_clear(uint32_t *mask, uint32_t token) { mask[token / 32] &= ~(1u << token % 32); }

/* Whether whole plain characters follow in a branch of more than one node. */
static bool mask_plain(const token_node *n)
{
    return TOKEN_CHARS(n->token) && (n[1].skip_byte & 0xc0) != 0x80;
}

/* Sets the tokens of the branches [at, end) that fit after a node, without branches that have only
 * plain tokens of at most `known` characters. */
static void gram_walk(qsf_matcher *m, uint32_t id, uint32_t at, uint32_t end, uint32_t known, uint32_t *mask)
{
    qsf_grammar *g = m->grammar;
    const token_node *nodes = m->tree->nodes;
    walk_frame *top = m->stack;
    const uint32_t *row = gram_row(g, id);
    *top = (walk_frame){ .end = end, .at = id };
    for (; row; m->walked++) {
        if (at >= top->end) {
            while (at >= top->end) {
                if (top == m->stack) return;
                top--;
            }
            if (!(row = gram_row(g, top->at))) return;
        }
        const token_node n = nodes[at];
        const uint32_t next = row[g->classes[n.skip_byte & 255]], skip = n.skip_byte >> 8;
        if (next == GRAM_NONE || token_within(n.token, known)) {
            at += skip;
            continue;
        }
        if (skip >= PLAIN_BRANCH && mask_plain(nodes + at) && token_within(n.token, qsf_gram_plain(g, next)))
            {
            for (const uint32_t behind = at + skip; at < behind; at++)
                if (TOKEN_ID(nodes[at].token)) gram_put(mask, TOKEN_ID(nodes[at].token) - 1);
            row = gram_row(g, top->at);
            continue;
        }
        const uint32_t token = TOKEN_ID(n.token);
        if (token) gram_put(mask, token - 1);
        if (skip > 1) {
            *++top = (walk_frame){ .end = at + skip, .at = next };
            row = gram_row(g, next);
        } else row = gram_row(g, top->at);      /* qsf_gram_plain may have moved it */
        at++;
    }
}

/* ---- heads ---- */

static void gram_head_drop(qsf_grammar *g, gram_head *h)
{
    qsf_gram_release(g, &h->bits, sizeof(uint32_t));
    qsf_gram_release(g, &h->left, sizeof(uint64_t));
    qsf_gram_release(g, &h->ends, sizeof(uint64_t));
    qsf_gram_release(g, &h->inside, sizeof(uint64_t));
    *h = (gram_head){ 0 };
}

void qsf_gram_forget_masks(qsf_grammar *g)
{
    for (int i = 0; i < GRAM_HEADS; i++) gram_head_drop(g, &g->heads[i]);
    for (int i = 0; i < GRAM_MASKS; i++) {
        qsf_gram_release(g, &g->masks[i].bits, sizeof(uint32_t));
        g->masks[i].key = 0;
    }
    qsf_gram_release(g, &g->scratch, sizeof(uint32_t));
    qsf_gram_release(g, &g->left, sizeof(uint64_t));
}

static void mask_note(qsf_grammar *g, gram_mem *list, uint32_t what, uint32_t count)
{
    uint64_t *to = qsf_gram_push(g, list, sizeof *to, 1);
    if (to) *to = (uint64_t)what << 32 | count;
}

/* Fills a head by a walk from its key.  counted: the key is x{0,} and what follows, where texts of
 * x are not beginnings of each other or of what follows. */
static void gram_head_fill(qsf_matcher *m, gram_head *h, bool leaves, bool counted)
{
    qsf_grammar *g = m->grammar;
    const qsf_token_tree *t = m->tree;
    const uint32_t key = h->key;
    walk_frame *top = m->stack;
    if (!qsf_gram_push(g, &h->bits, sizeof(uint32_t), (t->n_vocab + 31) / 32)) return;
    h->plain = qsf_gram_plain_stays(g, key);    /* then these tokens are known */
    h->most = h->plain ? t->most_chars : 0;
    if (h->plain) memcpy(h->bits.p, t->plain, h->bits.n * sizeof *t->plain);
    const uint32_t known = h->plain ? TOKEN_ANY : 0;
    const uint32_t *row = gram_row(g, key);
    *top = (walk_frame){ .end = t->n_nodes, .at = key };
    for (uint32_t at = 0; row && !g->status; m->walked++) {
        if (at >= top->end) {
            while (at >= top->end) {
                if (top == m->stack) return;
                top--;
            }
            row = gram_row(g, top->at);
            continue;
        }
        const token_node n = t->nodes[at];
        const uint32_t next = row[g->classes[n.skip_byte & 255]], skip = n.skip_byte >> 8;
        if (next == GRAM_NONE || token_within(n.token, known)) {
            at += skip;
            continue;
        }
        const uint32_t count = top->count + (next == key), begun = count + (next != key);
        const uint32_t token = TOKEN_ID(n.token);
        if (token && counted && next == GRAM_EMPTY) {
            mask_note(g, &h->ends, token - 1, count);
        } else if (token) {
            gram_put(h->bits.p, token - 1);
            if (counted && !(h->plain && t->chars[token - 1])) mask_note(g, &h->inside, token - 1, begun);
            h->most = QSF_MAX(h->most, begun);
        }
        if (leaves && skip > 1 && gram_is(g, next, GF_NULLABLE)) mask_note(g, &h->left, at, count);
        if (skip > 1) {
            *++top = (walk_frame){ .end = at + skip, .at = next, .count = count };
            row = gram_row(g, next);
        }
        at++;
    }
}

/* The head of this key, filled; NULL: the grammar has failed. */
static gram_head *gram_head_of(qsf_matcher *m, uint32_t key, bool leaves, bool counted)
{
    qsf_grammar *g = m->grammar;
    gram_head *h = &g->heads[0];
    if (!key) return NULL;
    for (int i = 0; i < GRAM_HEADS; i++) {
        if (g->heads[i].key == key) {
            g->heads[i].used = ++g->clock;
            return &g->heads[i];
        }
        if (g->heads[i].used < h->used) h = &g->heads[i];
    }
    gram_head_drop(g, h);
    h->key = key;
    h->used = ++g->clock;
    gram_head_fill(m, h, leaves, counted);
    if (!g->status) return h;
    gram_head_drop(g, h);
    return NULL;
}

/* Bytes that a node can begin with. */
static uint32_t gram_first(qsf_grammar *g, uint32_t id, uint32_t bits[8])
{
    const uint32_t *row = gram_row(g, id);
    uint32_t n = 0;
    memset(bits, 0, 32);
    for (uint32_t b = 0; row && b < 256; b++)
        if (row[g->classes[b]] != GRAM_NONE) {
            bits[b / 32] |= 1u << b % 32;
            n++;
        }
    return n;
}

/* Whether no text of a node is the beginning of another one. */
static bool gram_prefix_free(qsf_grammar *g, uint32_t id)
{
    const uint32_t from = g->work.n;
    bool is = !gram_is(g, id, GF_NULLABLE);
    qsf_gram_forget(g);
    uint64_t *to = qsf_gram_push(g, &g->work, sizeof *to, 1);
    if (to) *to = id;
    for (uint32_t at = from; is && at < g->work.n; at++) {
        const uint32_t *row = gram_row(g, (uint32_t)GRAM_U64(g->work)[at]);
        for (uint32_t c = 0; row && c < g->n_classes; c++) {
            const uint32_t next = row[c];
            bool known = next == GRAM_NONE || next == GRAM_EMPTY;
            for (uint32_t i = from; i < g->work.n && !known; i++) known = GRAM_U64(g->work)[i] == next;
            if (known) continue;
            if (gram_is(g, next, GF_NULLABLE) || g->work.n - from > 32) is = false;
            else if ((to = qsf_gram_push(g, &g->work, sizeof *to, 1)) != NULL) *to = next;
        }
    }
    g->work.n = from;
    return is && !g->status;
}

/* Tokens of x{least,most}, and then a byte of follow, to scratch; where they leave it, to left. */
static void gram_take_rep(qsf_matcher *m, uint32_t rep, uint32_t follow)
{
    qsf_grammar *g = m->grammar;
    const qsf_token_tree *t = m->tree;
    const gram_node n = *gram_at(g, rep);
    uint32_t first[8], second[8], both = 0;
    gram_first(g, n.a, first);
    gram_first(g, follow, second);
    for (int i = 0; i < 8; i++) both |= first[i] & second[i];
    const bool leaves = follow != GRAM_EMPTY, counted = !both && gram_prefix_free(g, n.a);
    const uint32_t all = counted ? qsf_gram_rep(g, n.a, 0, QSF_G_NO_MOST) : rep;
    gram_head *h = gram_head_of(m, qsf_gram_seq(g, all, follow), leaves, counted);
    if (!h) return;
    const uint32_t words = h->bits.n, most = n.c;
    const bool all_fit = !counted || most >= h->most;
    uint32_t *bits = GRAM_U32(g->scratch);
    if (all_fit || (h->plain && most > TOKEN_FEW)) memcpy(bits, h->bits.p, words * sizeof *bits);
    else if (h->plain) memcpy(bits, t->plain + most * (size_t)words, words * sizeof *bits);
    else memset(bits, 0, words * sizeof *bits);
    for (uint32_t i = 0; !all_fit && i < h->inside.n; i++) {
        const uint32_t token = (uint32_t)(GRAM_U64(h->inside)[i] >> 32);
        if ((uint32_t)GRAM_U64(h->inside)[i] <= most) gram_put(bits, token);
        else mask_clear(bits, token);
    }
    for (uint32_t i = 0; !all_fit && h->plain && most > TOKEN_FEW && i < t->n_longer; i++)
        if (t->chars[t->longer[i]] > most) mask_clear(bits, t->longer[i]);
    for (uint32_t i = 0; i < h->ends.n; i++) {
        const uint32_t count = (uint32_t)GRAM_U64(h->ends)[i];
        if (count >= n.b && count <= most) gram_put(bits, (uint32_t)(GRAM_U64(h->ends)[i] >> 32));
    }
    for (uint32_t i = 0; i < h->left.n; i++) {
        const uint32_t count = (uint32_t)GRAM_U64(h->left)[i];
        if (!counted || (count >= n.b && count <= most))
            mask_note(g, &g->left, (uint32_t)(GRAM_U64(h->left)[i] >> 32), 0);
    }
}

static bool gram_is_head(qsf_grammar *g, uint32_t id)
{
    const gram_node n = *gram_at(g, id);
    uint32_t bits[8];
    return n.kind == GK_REP && n.c > 1 && gram_first(g, n.a, bits) >= HEAD_BYTES;
}

/* The part of a GK_AND, or itself, that is a head nearly like it: it begins with the fewest bytes,
 * not many more than all parts together; 0: none. */
static uint32_t gram_like(qsf_grammar *g, uint32_t id)
{
    uint32_t bits[8], like = gram_is_head(g, id) ? id : 0, n_like = 257;
    const uint32_t n_first = gram_first(g, id, bits);
    const uint32_t n_parts = gram_at(g, id)->kind == GK_AND ? gram_at(g, id)->b : 0;
    for (uint32_t i = 0; i < n_parts; i++) {
        const uint32_t part = qsf_gram_part(g, gram_at(g, id), i);
        const uint32_t n = gram_is_head(g, part) ? gram_first(g, part, bits) : 257;
        if (n >= n_like || n > 256) continue;
        like = part;
        n_like = n;
    }
    return like == id || 4 * n_first >= 3 * n_like ? like : 0;
}

/* The same for GK_AND: from one of its parts, by what differs; false: none of them is a head that
 * is nearly the whole. */
static bool gram_take_and(qsf_matcher *m, uint32_t id, uint32_t follow)
{
    qsf_grammar *g = m->grammar;
    const qsf_token_tree *t = m->tree;
    const uint32_t from = g->alts.n;
    uint32_t part;
    for (uint32_t i = 0; (part = qsf_gram_part(g, gram_at(g, id), i)) != 0; i++) {
        uint64_t *to = qsf_gram_push(g, &g->alts, sizeof *to, 1);
        if (to) *to = part;
    }
    id = qsf_gram_and(g, from);                 /* now that parts can be compared */
    if (!id) return false;
    const uint32_t like = gram_like(g, id);
    if (!like) return false;
    gram_take_rep(m, like, follow);
    /* two walks at once, of what is wanted and of the likeness, where they are at other nodes */
    const uint32_t mine = qsf_gram_seq(g, id, follow), other = qsf_gram_seq(g, like, follow);
    const uint32_t known = QSF_MIN(qsf_gram_plain(g, mine), qsf_gram_plain(g, other));
    uint32_t *bits = GRAM_U32(g->scratch), i = 0;
    gram_mem old = g->left;
    g->left = (gram_mem){ 0 };
    walk_frame *top = m->stack;
    *top = (walk_frame){ .end = t->n_nodes, .at = mine, .other = other };
    const uint64_t most = m->walked + DIFFER_NODES;
    for (uint32_t at = 0; !g->status && m->walked < most; m->walked++) {
        while (at >= top->end && top != m->stack) top--;
        if (at >= top->end) break;
        const token_node node = t->nodes[at];
        const uint32_t skip = node.skip_byte >> 8, class = g->classes[node.skip_byte & 255];
        const uint32_t *row = gram_row(g, top->at);
        const uint32_t x = row ? row[class] : GRAM_NONE;
        row = gram_row(g, top->other);
        const uint32_t y = row ? row[class] : GRAM_NONE;
        const bool ask = skip >= PLAIN_BRANCH && mask_plain(t->nodes + at);
        if (x == y || token_within(node.token, known)
            || (ask && token_within(node.token, qsf_gram_plain(g, x))
                && token_within(node.token, qsf_gram_plain(g, y)))) {
            at += skip;
            continue;
        }
        const uint32_t token = TOKEN_ID(node.token);
        if (token && x != GRAM_NONE) gram_put(bits, token - 1);
        else if (token) mask_clear(bits, token - 1);
        for (; i < old.n && GRAM_U64(old)[i] >> 32 < at; i++)
            mask_note(g, &g->left, (uint32_t)(GRAM_U64(old)[i] >> 32), 0);
        if (i < old.n && GRAM_U64(old)[i] >> 32 == at) i++;
        if (follow != GRAM_EMPTY && skip > 1 && gram_is(g, x, GF_NULLABLE)) mask_note(g, &g->left, at, 0);
        if (skip > 1) *++top = (walk_frame){ .end = at + skip, .at = x, .other = y };
        at++;
    }
    for (; i < old.n; i++) mask_note(g, &g->left, (uint32_t)(GRAM_U64(old)[i] >> 32), 0);
    qsf_gram_release(g, &old, sizeof(uint64_t));
    return m->walked < most;
}

/* ---- whole masks ---- */

/* Sets the tokens that fit after a node by a walk that skips plain tokens known to fit. */
static void gram_mask_walk(qsf_matcher *m, uint32_t id, uint32_t known, uint32_t *mask)
{
    const qsf_token_tree *t = m->tree;
    const size_t words = (t->n_vocab + 31) / 32;
    const uint32_t *plain = t->plain + (known == TOKEN_ANY ? 0 : known * words);
    for (size_t w = 0; known && w < words; w++) mask[w] |= plain[w];
    gram_walk(m, id, 0, t->n_nodes, known, mask);
}

/* Whether the atoms pairs[first..end) are more work than a walk that skips plain tokens: several
 * heads, or one that is left all over the tree. */
static bool gram_scattered(qsf_grammar *g, uint32_t first, uint32_t end)
{
    uint32_t heads = 0, bits[8];
    for (uint32_t i = first; i < end && heads < 2; i++) {
        const uint64_t pair = GRAM_U64(g->pairs)[i];
        const uint32_t e = (uint32_t)(pair >> 32);
        if (gram_at(g, e)->kind == GK_AND) heads++;
        else if (gram_is_head(g, e)) heads += gram_first(g, (uint32_t)pair, bits) > HEAD_FOLLOW ? 2 : 1;
    }
    return heads > 1;
}

/* Sets the tokens that fit after a node. */
static void gram_mask(qsf_matcher *m, uint32_t id, uint32_t *mask)
{
    qsf_grammar *g = m->grammar;
    const qsf_token_tree *t = m->tree;
    const uint32_t words = (t->n_vocab + 31) / 32, first = g->pairs.n, from = g->alts.n;
    if (!g->scratch.p && !qsf_gram_push(g, &g->scratch, sizeof(uint32_t), words)) return;
    qsf_gram_expand(g, id, true);
    const uint32_t end = g->pairs.n;
    if (gram_scattered(g, first, end) && qsf_gram_plain(g, id) >= PLAIN_CHARS) {
        g->pairs.n = first;
        gram_mask_walk(m, id, qsf_gram_plain(g, id), mask);
        return;
    }
    for (uint32_t i = first; i < end && !g->status; i++) {
        const uint64_t pair = GRAM_U64(g->pairs)[i];
        const uint32_t e = (uint32_t)(pair >> 32), k = (uint32_t)pair;
        const int kind = gram_at(g, e)->kind;
        uint32_t bits[8];
        bool head = kind == GK_AND || gram_is_head(g, e);
        if (head) {
            const uint32_t n = gram_first(g, k, bits), follow = n ? qsf_gram_set(g, bits) : GRAM_EMPTY;
            g->left.n = 0;
            if (kind == GK_REP) gram_take_rep(m, e, follow);
            else head = gram_take_and(m, e, follow);
        }
        if (!head) {
            qsf_gram_alt(g, qsf_gram_seq(g, e, k));
            continue;
        }
        for (uint32_t w = 0; w < words; w++) mask[w] |= GRAM_U32(g->scratch)[w];
        for (uint32_t j = 0; j < g->left.n && !g->status; j++) {
            const uint32_t at = (uint32_t)(GRAM_U64(g->left)[j] >> 32), skip_byte = t->nodes[at].skip_byte;
            const uint32_t *row = gram_row(g, k);
            if (row) gram_walk(m, row[g->classes[skip_byte & 255]], at + 1, at + (skip_byte >> 8), 0, mask);
        }
    }
    g->pairs.n = first;
    if (g->alts.n == from) return;
    id = qsf_gram_choice(g, from);
    if (id) gram_mask_walk(m, id, qsf_gram_plain(g, id), mask);
}

static gram_kept *gram_kept_of(qsf_grammar *g, uint32_t id)
{
    gram_kept *oldest = &g->masks[0];
    for (int i = 0; i < GRAM_MASKS; i++) {
        if (g->masks[i].key == id) return &g->masks[i];
        if (g->masks[i].used < oldest->used) oldest = &g->masks[i];
    }
    return oldest;
}

qsf_status qsf_matcher_mask(qsf_matcher *m, uint32_t *mask, qsf_error *err)
{
    qsf_grammar *g = m->grammar;
    const qsf_token_tree *t = m->tree;
    const uint32_t words = (t->n_vocab + 31) / 32;
    uint32_t any = 0;
    qsf_gram_tidy(g);
    if (g->print != t->print) qsf_gram_forget_masks(g);
    g->print = t->print;
    gram_kept *kept = gram_kept_of(g, m->at);
    if (kept->key == m->at && !g->status) {
        memcpy(mask, kept->bits.p, words * sizeof *mask);
        kept->used = ++g->clock;
    } else {
        m->walked = g->plain_work = 0;
        memset(mask, 0, words * sizeof *mask);
        gram_mask(m, m->at, mask);
        const bool keep = m->walked > MASK_NODES && !g->status;
        if (keep && (kept->bits.p || qsf_gram_push(g, &kept->bits, sizeof *mask, words))) {
            memcpy(kept->bits.p, mask, words * sizeof *mask);
            kept->key = m->at;
            kept->used = ++g->clock;
        }
    }
    if (g->status) {
        if (err) *err = g->err;
        return g->status;
    }
    if (qsf_matcher_whole(m)) {
        for (uint32_t i = 0; i < t->n_ends; i++) gram_put(mask, (uint32_t)t->ends[i]);
        return QSF_OK;
    }
    for (uint32_t i = 0; i < words && !any; i++) any = mask[i];
    return any ? QSF_OK : qsf_fail(err, QSF_E_CORRUPT, "no token of the vocabulary fits the grammar here");
}
