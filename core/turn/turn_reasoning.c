/* The reasoning budget: once it is used up, the turn writes the end mark for the model.
 * SPDX-License-Identifier: MIT
 *
 * The text of each token passes through a window as long as a mark, so that marks are found however
 * they are tokenized.  Marks are compared without surrounding white space, which varies between
 * models; the mark that is written keeps its own, as in the template.  If a model reasons several
 * times in one answer, all of it counts. */
#include "model/model.h"
#include "turn/turn_own.h"

static bool reasoning_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* The mark without surrounding white space; ignored if it is longer than the window. */
static void reasoning_mark(const char *text, const char **mark, size_t *len)
{
    while (text && reasoning_blank(*text)) text++;
    *mark = text;
    *len = text ? strlen(text) : 0;
    while (*len && reasoning_blank(text[*len - 1])) --*len;
    if (*len > TURN_MARK) *len = 0;
}

void qsf_turn_reasoning_begin(qsf_turn *t)
{
    turn_reasoning *r = &t->reasoning;
    *r = (turn_reasoning){ .inside = t->o.in_reasoning };
    reasoning_mark(t->o.reasoning_begin, &r->begin, &r->begin_len);
    reasoning_mark(t->o.reasoning_end, &r->end, &r->end_len);
    r->on = t->o.reasoning_budget >= 0 && r->end_len;
}

/* Whether the window ends with the mark. */
static bool reasoning_at(const turn_reasoning *r, const char *mark, size_t len)
{
    return len && r->n_window >= len && !memcmp(r->window + r->n_window - len, mark, len);
}

void qsf_turn_reasoning_take(qsf_turn *t, int32_t id)
{
    turn_reasoning *r = &t->reasoning;
    const char *text;
    if (!r->on) return;
    const size_t n = qsf_token_piece(t->model, id, true, &text);
    r->n_tokens += r->inside;
    for (size_t i = 0; i < n; i++) {
        if (r->n_window == TURN_MARK) memmove(r->window, r->window + 1, --r->n_window);
        r->window[r->n_window++] = text[i];
        const bool turns = r->inside ? reasoning_at(r, r->end, r->end_len)
                                     : reasoning_at(r, r->begin, r->begin_len);
        if (!turns) continue;
        r->inside = !r->inside;
        r->n_window = 0;
    }
}

/* Whether the grammar, if it is active, accepts the mark token by token. */
static bool reasoning_fits(qsf_turn *t)
{
    turn_grammar *g = &t->grammar;
    if (!g->active) return true;
    qsf_matcher_copy(g->scout, g->matcher);
    for (size_t i = t->reasoning.at; i < t->reasoning.n_forced; i++)
        if (!qsf_matcher_token(g->scout, t->reasoning.forced[i])) return false;
    return true;
}

qsf_status qsf_turn_reasoning_look(qsf_turn *t)
{
    turn_reasoning *r = &t->reasoning;
    const char *piece;
    size_t n = 0, bytes = 0;
    if (!r->on || !r->inside || r->at < r->n_forced || r->n_tokens < t->o.reasoning_budget) return QSF_OK;
    const size_t len = strlen(t->o.reasoning_end);
    r->at = r->n_forced = 0;
    const qsf_status st = qsf_tokens_encode(t->model, t->o.reasoning_end, len, QSF_TOK_PARSE_SPECIAL,
                                            r->forced, TURN_MARK_TOKENS, &n, &t->error);
    if (st) return n > TURN_MARK_TOKENS ? (r->on = false, QSF_OK) : st;
    for (size_t i = 0; i < n; i++) bytes += qsf_token_piece(t->model, r->forced[i], true, &piece);
    r->at = n > 1 && bytes == len + 1 && qsf_token_piece(t->model, r->forced[0], true, &piece) == 1
        && *piece == ' ';                               /* the space that SentencePiece prepends */
    r->n_forced = n;
    const size_t fit = qsf_seq_room(t->context, t->seq), own = t->n_ids - t->n_fed;
    if (n - r->at > (fit > own ? fit - own : 0) || !reasoning_fits(t)) {
        r->n_forced = r->at = 0;
        r->on = false;                                  /* otherwise it would be tried again at each token */
    }
    return QSF_OK;
}
