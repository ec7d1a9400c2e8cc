/* Picks under a grammar: which tokens may come, where the grammar begins, what it forces.
 * SPDX-License-Identifier: MIT
 *
 * Forced text becomes tokens here.  They must be the tokens that the tokenizer would make from the
 * whole answer, of which only the beginning is known.  So the end of the answer so far is encoded
 * together with the forced text; tokens count from the end of the answer's tokens; and the last
 * one, and those that may change with what follows, are left to the model. */
#include "base/sized.h"
#include "engine/context.h"
#include "engine/step.h"
#include "engine/totals.h"
#include "grammar/grammar.h"
#include "turn/sampler_candidates.h"
#include "turn/sampler_own.h"
#include "turn/turn_own.h"

enum {
    TURN_TAIL = 64,             /* bytes of the answer that forced text is encoded with */
    FORCED_MOST = 1024          /* bytes that are looked ahead */
};

/* ---- texts ---- */

const char *qsf_turn_text_at(const turn_texts *l, size_t *at, size_t *len)
{
    if (*at >= l->len) return NULL;
    memcpy(len, l->bytes + *at, sizeof *len);
    const char *text = l->bytes + *at + sizeof *len;
    *at += sizeof *len + *len;
    return text;
}

void qsf_turn_texts_free(const qsf_platform *p, turn_texts *l)
{
    qsf_dealloc(p, l->bytes, l->len);
    *l = (turn_texts){ 0 };
}

qsf_status qsf_turn_texts_copy(const qsf_platform *p, turn_texts *l, const char *const *texts, size_t n,
                               const size_t *lengths, const char *what, qsf_error *err)
{
    size_t bytes = 0, longest = 0;
    qsf_turn_texts_free(p, l);
    for (size_t i = 0; i < n; i++) {
        const size_t len = lengths ? lengths[i] : strlen(texts[i]);
        if (len > (1u << 20) || bytes > (1u << 24))
            return qsf_fail(err, QSF_E_ARGUMENT,
                            "%s %llu has %llu bytes; the maximum is 1048576, and 16777216 for all", what,
                            (unsigned long long)i, (unsigned long long)len);
        longest = QSF_MAX(longest, len);
        bytes += sizeof len + len;
    }
    if (!bytes) return QSF_OK;
    if (!(l->bytes = qsf_alloc(p, bytes, what, err))) return QSF_E_MEMORY;
    l->len = bytes;
    l->longest = longest;
    char *at = l->bytes;
    for (size_t i = 0; i < n; i++) {
        const size_t len = lengths ? lengths[i] : strlen(texts[i]);
        memcpy(at, &len, sizeof len);
        memcpy(at + sizeof len, texts[i], len);
        at += sizeof len + len;
    }
    return QSF_OK;
}

/* ---- the matcher ---- */

/* The scout, moved to the matcher's position. */
static qsf_matcher *grammar_scout(const turn_grammar *g)
{
    qsf_matcher_copy(g->scout, g->matcher);
    return g->scout;
}

static bool grammar_fits(const turn_grammar *g, const char *bytes, size_t n)
{
    return qsf_matcher_bytes(grammar_scout(g), bytes, n) == n;
}

/* The text that the grammar sees; of a control token the second. */
static size_t token_text_of(const qsf_turn *t, int32_t id, const char **text)
{
    return qsf_token_piece(t->model, id, true, text);
}
static bool token_is_control(const qsf_turn *t, int32_t id)
{
    const char *text;
    return qsf_token_piece(t->model, id, false, &text) == 0;
}

/* ---- beginning ---- */

void qsf_turn_grammar_free(qsf_turn *t)
{
    turn_grammar *g = &t->grammar;
    qsf_matcher_free(g->matcher);
    qsf_matcher_free(g->scout);
    qsf_turn_texts_free(t->platform, &g->after);
    qsf_dealloc(t->platform, g->mask, qsf_ceil_div(t->n_vocab, 32) * sizeof *g->mask);
    qsf_dealloc(t->platform, g->tail, g->cap_tail);
    qsf_dealloc(t->platform, g->forced, g->cap_forced * sizeof *g->forced);
    *g = (turn_grammar){ 0 };
}

/* If the grammar includes the string that starts it, it must be able to begin with it. */
static qsf_status grammar_check_after(qsf_turn *t)
{
    turn_grammar *g = &t->grammar;
    const char *text;
    size_t len;
    for (size_t at = 0; t->o.grammar_with && (text = qsf_turn_text_at(&g->after, &at, &len));)
        if (!grammar_fits(g, text, len))
            return qsf_fail(&t->error, QSF_E_ARGUMENT, "the grammar must begin with \"%.*s\", but none of "
                            "its strings does", (int)QSF_MIN(len, 80), text);
    return QSF_OK;
}

qsf_status qsf_turn_grammar_begin(qsf_turn *t)
{
    turn_grammar *g = &t->grammar;
    const qsf_token_tree *tree;
    qsf_status st;
    qsf_turn_grammar_free(t);
    if (!t->o.grammar) return QSF_OK;
    if ((st = qsf_model_token_tree(t->model, &tree, &t->error))) return st;
    if ((st = qsf_matcher_new(t->platform, t->o.grammar, tree, &g->matcher, &t->error)) ||
        (st = qsf_matcher_new(t->platform, t->o.grammar, tree, &g->scout, &t->error))) return st;
    if ((st = qsf_turn_texts_copy(t->platform, &g->after, t->o.grammar_after, t->o.n_grammar_after, NULL,
                                  "text that begins the grammar", &t->error))) return st;
    const size_t words = (size_t)qsf_ceil_div(t->n_vocab, 32);
    if (!(g->mask = qsf_alloc_array(t->platform, words, sizeof *g->mask, "grammar", &t->error)))
        return QSF_E_MEMORY;
    const size_t cap = QSF_MAX(TURN_TAIL, g->after.longest) + 2 * t->longest_piece + FORCED_MOST + 2;
    if (!(g->tail = qsf_alloc(t->platform, cap, "grammar", &t->error))) return QSF_E_MEMORY;
    g->cap_tail = cap;
    if (g->after.len) g->tail[g->n_tail++] = QSF_TEXT_BEGIN;
    g->active = g->look = g->after.len == 0;
    return grammar_check_after(t);
}

/* Finds the first string of `after` in the tail, to which this token's text is appended: where it
 * ends, and how long it is. */
static bool grammar_called(const turn_grammar *g, size_t n, size_t *end, size_t *length)
{
    const char *text;
    size_t len;
    *end = SIZE_MAX;
    for (size_t at = 0; (text = qsf_turn_text_at(&g->after, &at, &len));) {
        const size_t most = len && *text == QSF_TEXT_BEGIN ? QSF_MIN(n, len) : n;
        for (size_t i = 0; len && i + len <= most && i + len < *end; i++)
            if (!memcmp(g->tail + i, text, len)) {
                *end = i + len;
                *length = len;
            }
    }
    return *end != SIZE_MAX;
}

/* The text with which the grammar would begin if this token came, appended to the tail; NULL: the
 * grammar would not begin. */
static const char *grammar_first(qsf_turn *t, int32_t id, size_t *n)
{
    turn_grammar *g = &t->grammar;
    const char *text;
    size_t end, length;
    const size_t len = token_text_of(t, id, &text);
    memcpy(g->tail + g->n_tail, text, len);
    if (!grammar_called(g, g->n_tail + len, &end, &length)) return NULL;
    const size_t begin = t->o.grammar_with ? end - length : end;
    *n = g->n_tail + len - begin;
    return g->tail + begin;
}

/* Whether the grammar can begin as this token would have it begin. */
static bool grammar_may_begin(qsf_turn *t, int32_t id)
{
    size_t n;
    const char *first = grammar_first(t, id, &n);
    return !first || grammar_fits(&t->grammar, first, n);
}

/* ---- picking ---- */

/* The largest logit among the mask's tokens; -1: none is above -infinity. */
static int32_t masked_best(const float *x, const uint32_t *mask, uint32_t n)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < n; i++) {
        if (!mask[i / 32]) i |= 31;
        else if ((mask[i / 32] >> i % 32 & 1) && x[i] > (best < 0 ? -INFINITY : x[best])) best = (int32_t)i;
    }
    return best;
}

/* Computes what an approximate head left out of these tokens. */
static qsf_status logits_whole(qsf_turn *t, size_t row, const uint32_t *mask)
{
    return t->given ? QSF_OK : qsf_logits_of(t->context, row, mask);
}

static int32_t draw_masked(qsf_turn *t, size_t row, qsf_sampler_limits *limits)
{
    turn_grammar *g = &t->grammar;
    const float *logits = qsf_turn_logits(t, row);
    if (qsf_sampler_greedy(t->sampler)) {           /* mostly the model knows what fits */
        const int32_t id = qsf_sampler_pick_within(t->sampler, logits, limits);
        if (id >= 0 && qsf_matcher_token(grammar_scout(g), id)) return id;
    }
    if (qsf_matcher_mask(g->matcher, g->mask, &t->error)) return -1;
    const uint32_t best = qsf_sampler_argmax(logits, t->n_vocab);
    if (!(g->mask[best / 32] >> best % 32 & 1)) {   /* what an approximate head left out may be larger */
        const qsf_status st = logits_whole(t, row, g->mask);
        if (st) return qsf_fail(&t->error, st, "%s", qsf_last_error(t->context)), -1;
    }
    limits->mask = g->mask;
    int32_t id = qsf_sampler_pick_within(t->sampler, logits, limits);
    /* What is banned, or comes too soon, is still better than nothing. */
    if (id < 0) id = masked_best(logits, g->mask, t->n_vocab);
    if (id < 0 && !logits_whole(t, row, g->mask)) id = masked_best(logits, g->mask, t->n_vocab);
    if (id < 0)
        qsf_fail(&t->error, QSF_E_CORRUPT, "no token fits the grammar after token %llu of the answer: this "
                 "is a bug in the library", (unsigned long long)t->state.n_tokens);
    return id;
}

#if defined(QSF_NO_CANDIDATES)
static inline bool choose_of_candidates(qsf_turn *t, size_t row, const qsf_sampler_limits *limits,
                                        int32_t *id)
{
    (void)t, (void)row, (void)limits, (void)id;
    return false;
}
#else
/* The token, chosen without the row's logits; or -1, if these are needed and cannot be had.  false:
 * they are there.  A draw that the grammar refuses has not taken place. */
static bool choose_of_candidates(qsf_turn *t, size_t row, const qsf_sampler_limits *limits, int32_t *id)
{
    turn_grammar *g = &t->grammar;
    const qsf_candidates *c = t->given ? NULL : qsf_candidates_of(t->context, row);
    const uint64_t rng = t->sampler->rng;
    if (!c) return false;
    if ((!g->active || qsf_sampler_greedy(t->sampler)) && qsf_sampler_pick_of(t->sampler, c, limits, id)) {
        if (!g->matcher) return true;
        if (g->active ? qsf_matcher_token(grammar_scout(g), *id) : grammar_may_begin(t, *id)) return true;
        t->sampler->rng = rng;
    }
    if (qsf_turn_logits(t, row)) return false;
    *id = -1;
    return qsf_fail(&t->error, QSF_E_IO, "%s", qsf_last_error(t->context)), true;
}
#endif

int32_t qsf_turn_choose(qsf_turn *t, size_t row)
{
    turn_grammar *g = &t->grammar;
    qsf_sampler_limits limits = { .never = t->never };
    int32_t few;
    if ((int64_t)t->state.n_tokens < t->o.min_tokens) limits.n_never = t->n_ends;
    if (choose_of_candidates(t, row, &limits, &few)) return few;
#if !defined(QSF_NO_CANDIDATES)
    if (!qsf_turn_logits(t, row))
        return qsf_fail(&t->error, QSF_E_IO, "the row's logits are gone: compute it again"), -1;
#endif
    if (g->active) return draw_masked(t, row, &limits);
    const float *logits = qsf_turn_logits(t, row);
    if (!limits.n_never && !g->matcher) return qsf_sampler_pick(t->sampler, logits);
    int32_t id = qsf_sampler_pick_within(t->sampler, logits, &limits);
    if (id < 0) return qsf_sampler_pick(t->sampler, logits);
    if (!g->matcher || grammar_may_begin(t, id)) return id;
    /* A token that begins the grammar with what it has no text for may not come: the others may. */
    const size_t before = limits.n_never;
    int32_t *const end = t->never + t->n_ends;
    if (!before) limits.never = end;
    while (limits.n_never - before < TURN_VETOES) {
        t->never[t->n_ends + (limits.n_never++ - before)] = id;
        id = qsf_sampler_pick_within(t->sampler, logits, &limits);
        if (id < 0 || grammar_may_begin(t, id)) break;
    }
    if (id < 0 || !grammar_may_begin(t, id))
        return qsf_fail(&t->error, QSF_E_CORRUPT, "the grammar starts after token %llu of the answer, but "
                        "none of its strings starts with the most likely tokens",
                        (unsigned long long)t->state.n_tokens), -1;
    return id;
}

/* ---- advancing ---- */

/* Adds a token's text to the tail, of which the last `keep` bytes stay. */
static void tail_add(turn_grammar *g, const char *text, size_t n, size_t keep)
{
    memcpy(g->tail + g->n_tail, text, n);
    g->n_tail += n;
    if (g->n_tail <= keep) return;
    memmove(g->tail, g->tail + g->n_tail - keep, keep);
    g->n_tail = keep;
}

void qsf_turn_grammar_take(qsf_turn *t, int32_t id)
{
    turn_grammar *g = &t->grammar;
    const char *text, *first;
    size_t n = 0;
    if (!g->matcher) return;
    const size_t len = token_text_of(t, id, &text);
    if (g->active) {
        const bool control = token_is_control(t, id);
        (void)qsf_matcher_token(g->matcher, id);                /* it fits */
        if (control) g->n_tail = 0;                             /* tokenization restarts after it */
        else tail_add(g, text, len, QSF_MAX(TURN_TAIL, t->longest_piece));
    } else if ((first = grammar_first(t, id, &n))) {
        g->active = true;
        (void)qsf_matcher_bytes(g->matcher, first, n);
        g->n_tail = 0;
        if (!token_is_control(t, id)) tail_add(g, text, len, len);
    } else {
        tail_add(g, text, len, g->after.longest ? g->after.longest - 1 : 0);
    }
    g->look = g->active;
    g->over = g->active && qsf_matcher_over(g->matcher);
}

size_t qsf_turn_grammar_guesses(qsf_turn *t, size_t n)
{
    turn_grammar *g = &t->grammar;
    size_t fit = 0;
    if (!g->active) return n;
    qsf_matcher *m = grammar_scout(g);
    for (; fit < n; fit++)
        if (qsf_token_is_end(t->model, t->guess[fit]) || !qsf_matcher_token(m, t->guess[fit])) break;
    return fit;
}

/* ---- forced text ---- */

/* The tokens of text[0..len) to g->forced; *n their number. */
static qsf_status forced_encode(qsf_turn *t, const char *text, size_t len, int32_t *ids, size_t *n)
{
    const qsf_status st = qsf_tokens_encode(t->model, text, len, 0, ids, len + 8, n, &t->error);
    return st;
}

/* How many of the tokens at the beginning of ids stay what they are when more text follows. */
static qsf_status forced_stay(qsf_turn *t, size_t len, const int32_t *ids, int32_t *other, size_t *n)
{
    static const char more[] = "a0 \n\",";
    char *text = t->grammar.tail;
    for (size_t i = 0; more[i]; i++) {
        size_t got, same = 0;
        text[len] = more[i];
        const qsf_status st = forced_encode(t, text, len + 1, other, &got);
        if (st) return st;
        while (same < QSF_MIN(*n, got) && ids[same] == other[same]) same++;
        *n = same;
    }
    return QSF_OK;
}

/* Whether the grammar ends after the n forced bytes at text. */
static bool forced_to_end(const turn_grammar *g, const char *text, size_t n)
{
    return grammar_fits(g, text, n) && qsf_matcher_over(g->scout);
}

qsf_status qsf_turn_grammar_look(qsf_turn *t)
{
    turn_grammar *g = &t->grammar;
    const char *piece;
    size_t n, count = 0, at = 0, begin = 0;
    if (!g->look || g->at < g->n_forced) return QSF_OK;
    g->look = false;
    g->n_forced = g->at = 0;
    const size_t room = g->cap_tail - g->n_tail - 2, before = g->n_tail;
    n = qsf_matcher_forced(g->matcher, g->tail + before, QSF_MIN(room, FORCED_MOST));
    const char *control = memchr(g->tail + before, 0xff, n);
    if (control) n = (size_t)(control - (g->tail + before));    /* the model says it */
    if (n == 0) return QSF_OK;
    const size_t len = before + n;
    if (len + 10 > g->cap_forced / 2) {
        qsf_dealloc(t->platform, g->forced, g->cap_forced * sizeof *g->forced);
        g->cap_forced = 0;
        g->forced = qsf_alloc_array(t->platform, 2 * (len + 64), sizeof *g->forced, "grammar", &t->error);
        if (!g->forced) return QSF_E_MEMORY;
        g->cap_forced = 2 * (len + 64);
    }
    qsf_status st = forced_encode(t, g->tail, len, g->forced, &count);
    if (st) return st;
    size_t bytes = 0, keep = count;
    for (size_t i = 0; i < count; i++) bytes += qsf_token_piece(t->model, g->forced[i], false, &piece);
    if (bytes != len && bytes != len + 1) return QSF_OK;        /* a tokenizer that changes texts */
    const size_t added = bytes - len;                           /* a space in front, as SentencePiece's */
    for (; begin < count && at < before + added; begin++)
        at += qsf_token_piece(t->model, g->forced[begin], false, &piece);
    if (at != before + added) return QSF_OK;                    /* a token reaches over the answer's end */
    if (!forced_to_end(g, g->tail + before, n)) {
        if ((st = forced_stay(t, len, g->forced, g->forced + g->cap_forced / 2, &keep))) return st;
        if (keep == count) keep--;
    }
    const size_t fit = qsf_seq_room(t->context, t->seq), own = t->n_ids - t->n_fed;
    keep = QSF_MIN(keep, begin + (fit > own ? fit - own : 0));
    g->at = begin;
    g->n_forced = QSF_MAX(keep, begin);
    return QSF_OK;
}
