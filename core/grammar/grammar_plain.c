/* Nodes after which all plain tokens fit: inside a JSON string, whatever patterns it has to match.
 * SPDX-License-Identifier: MIT */
#include "grammar/grammar_own.h"

enum {
    PLAIN_KINDS = 8,        /* places in a character: 0 is between two of them */
    PLAIN_SEARCH = 256,     /* nodes looked at */
    PLAIN_TABLE = 4 * PLAIN_SEARCH
};

/* The bytes allowed at a position in a character, and the position after them. */
static const struct plain_bytes { uint8_t place, from, to, next; } PLAIN_BYTES[] = {
    { 0, 0x20, 0x21, 0 }, { 0, 0x23, 0x5b, 0 }, { 0, 0x5d, 0x7f, 0 },
    { 0, 0xc2, 0xdf, 1 }, { 0, 0xe0, 0xe0, 4 }, { 0, 0xe1, 0xec, 2 }, { 0, 0xed, 0xed, 5 },
    { 0, 0xee, 0xef, 2 }, { 0, 0xf0, 0xf0, 6 }, { 0, 0xf1, 0xf3, 3 }, { 0, 0xf4, 0xf4, 7 },
    { 1, 0x80, 0xbf, 0 }, { 2, 0x80, 0xbf, 1 }, { 3, 0x80, 0xbf, 2 }, { 4, 0xa0, 0xbf, 1 },
    { 5, 0x80, 0x9f, 1 }, { 6, 0x90, 0xbf, 2 }, { 7, 0x80, 0x8f, 2 }
};

typedef struct plain_step { uint8_t place, class, next; } plain_step;

/* The same by class of byte, each once: to g->plain. */
static void plain_steps(qsf_grammar *g)
{
    for (size_t i = 0; i < sizeof PLAIN_BYTES / sizeof *PLAIN_BYTES; i++) {
        const struct plain_bytes *p = &PLAIN_BYTES[i];
        bool done[256] = { false };
        for (uint32_t b = p->from; b <= p->to; b++) {
            const uint8_t class = g->classes[b];
            plain_step *to = done[class] ? NULL : qsf_gram_push(g, &g->plain, GRAM_PLAIN_STEP, 1);
            if (to) *to = (plain_step){ p->place, class, p->next };
            done[class] = true;
        }
    }
}

/* Nodes that are being collected, each once. */
typedef struct plain_set { uint32_t n, ids[PLAIN_SEARCH], table[PLAIN_TABLE]; } plain_set;

static bool plain_add(plain_set *s, uint32_t id)
{
    uint32_t i = id * 0x9e3779b9u >> 16 & (PLAIN_TABLE - 1);
    for (; s->table[i]; i = (i + 1) & (PLAIN_TABLE - 1))
        if (s->table[i] == id) return true;
    if (s->n == PLAIN_SEARCH) return false;
    s->table[i] = id;
    s->ids[s->n++] = id;
    return true;
}

/* Adds the nodes after each plain character; false: one does not fit, or the nodes are too many. */
static bool plain_follow(qsf_grammar *g, uint32_t id, plain_set *s)
{
    enum { MIDDLE = 32 };
    struct { uint32_t id, place; } at[MIDDLE] = { { id, 0 } };
    uint32_t n = 1;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *row = gram_row(g, at[i].id);
        const plain_step *steps = g->plain.p;
        for (uint32_t k = 0; row && k < g->plain.n; k++) {
            const uint32_t next = row[steps[k].class], place = steps[k].next;
            if (steps[k].place != at[i].place) continue;
            if (next == GRAM_NONE) return false;
            if (!place) {
                if (!plain_add(s, next)) return false;
                continue;
            }
            uint32_t j = 0;
            while (j < n && (at[j].id != next || at[j].place != place)) j++;
            if (j == MIDDLE) return false;
            if (j == n) {
                at[n].id = next;
                at[n++].place = place;
            }
        }
        if (!row) return false;
    }
    return true;
}

bool qsf_gram_plain_stays(qsf_grammar *g, uint32_t id)
{
    plain_set s = { 0 };
    if (!g->plain.n) plain_steps(g);
    return plain_follow(g, id, &s) && s.n == 1 && s.ids[0] == id;
}

static uint32_t plain_search(qsf_grammar *g, uint32_t id)
{
    plain_set s = { 0 };
    if (!g->plain.n) plain_steps(g);
    if (g->status || !plain_add(&s, id)) return 0;
    uint32_t at = 0;
    for (uint32_t chars = 0; chars < TOKEN_FEW && at < s.n; chars++)
        for (const uint32_t end = s.n; at < end; at++) {
            if (gram_is(g, s.ids[at], GF_PLAIN)) continue;
            if (g->plain_work++ >= GRAM_PLAIN_WORK || !plain_follow(g, s.ids[at], &s)) return chars;
        }
    if (at < s.n) return TOKEN_FEW;
    for (uint32_t i = 0; i < s.n; i++) gram_at(g, s.ids[i])->flags |= GF_PLAIN;
    return TOKEN_ANY;
}

uint32_t qsf_gram_plain(qsf_grammar *g, uint32_t id)
{
    uint32_t *kept = &g->plain_of[id % GRAM_PLAIN_KEPT];
    if (!id) return 0;
    if (gram_is(g, id, GF_PLAIN)) return TOKEN_ANY;
    if (TOKEN_ID(*kept) != id) {
        if (g->plain_work >= GRAM_PLAIN_WORK) return 0;
        *kept = TOKEN_MARK(id, plain_search(g, id));
    }
    return TOKEN_CHARS(*kept);
}
