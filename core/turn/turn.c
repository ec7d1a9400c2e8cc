/* Turns: from a prompt to an answer, in rows that the caller may compute or leave to the turn.
 * SPDX-License-Identifier: MIT
 *
 * ids[0..n_ids) are the prompt and the picked tokens.  The sequence holds a prefix of them and,
 * during a turn, after that prefix the guesses of the last pass.  If the picked token is the next
 * guess, no pass is needed; any other token truncates the sequence after the last right guess.  If
 * layers keep state, the cut may be further back: then the next pass begins with the tokens that
 * the sequence has lost. */
#include "base/sized.h"
#include "engine/behind.h"
#include "engine/options.h"
#include "engine/step.h"
#include "model/model.h"
#include "model/part.h"
#include "turn/sampler_candidates.h"
#include "turn/turn_own.h"
#include "qsf_schedule.h"

/* ---- memory ---- */

/* Room for held text: what may be the beginning of a stop string, and one token's text after it. */
static qsf_status turn_text_room(qsf_turn *t)
{
    const size_t cap = t->stops.longest + 3 * (t->longest_piece + 4) + 1;
    if (cap <= t->cap_text) return QSF_OK;
    qsf_dealloc(t->platform, t->held, 2 * (uint64_t)t->cap_text);
    t->cap_text = 0;
    if (!(t->held = qsf_alloc_array(t->platform, cap, 2, "text", &t->error))) return QSF_E_MEMORY;
    t->cap_text = cap;
    t->shown = t->held + cap;
    return QSF_OK;
}

static qsf_status turn_ids_room(qsf_turn *t, size_t n)
{
    if (n <= t->cap_ids) return QSF_OK;
    int32_t *ids = qsf_alloc_array(t->platform, n, sizeof *ids, "tokens", &t->error);
    if (!ids) return QSF_E_MEMORY;
    if (t->n_ids) memcpy(ids, t->ids, t->n_ids * sizeof *ids);
    qsf_dealloc(t->platform, t->ids, t->cap_ids * sizeof *ids);
    t->ids = ids;
    t->cap_ids = n;
    return QSF_OK;
}

/* The tokens that end an answer, with room for others that one pick may not take. */
static qsf_status turn_ends(qsf_turn *t)
{
    for (int pass = 0; pass < 2; pass++) {
        t->n_ends = 0;
        for (uint32_t i = 0; i < t->n_vocab; i++) {
            if (!qsf_token_is_end(t->model, (int32_t)i)) continue;
            if (t->never) t->never[t->n_ends] = (int32_t)i;
            t->n_ends++;
        }
        if (t->never) break;
        t->never = qsf_alloc_array(t->platform, t->n_ends + TURN_VETOES, sizeof *t->never, "turn", &t->error);
        if (!t->never) return QSF_E_MEMORY;
    }
    return QSF_OK;
}

qsf_status qsf_turn_new(qsf_context *c, qsf_seq s, qsf_turn **out, qsf_error *err)
{
    qsf_plan plan = { .size = sizeof plan };
    qsf_model_info info = { .size = sizeof info };
    qsf_model *m = qsf_context_model(c);
    *out = NULL;
    if (!qsf_part_begins(m->source) || qsf_part_shared(m->source))
        return qsf_part_refuse(m->source, "a turn", err);
    qsf_turn *t = qsf_alloc(m->platform, sizeof *t, "turn", err);
    if (!t) return QSF_E_MEMORY;
    qsf_context_get_plan(c, &plan);
    qsf_model_get_info(m, &info);
    t->platform = m->platform;
    t->context = c;
    t->model = m;
    t->seq = s;
    t->n_ctx = plan.n_ctx;
    t->n_batch = qsf_context_batch(c);
    t->n_vocab = info.n_vocab;
    qsf_draft_gain_begin(&t->gain);
    for (uint32_t i = 0; i < info.n_vocab; i++) {
        const char *piece;
        const size_t n = qsf_token_piece(m, (int32_t)i, true, &piece);
        t->longest_piece = QSF_MAX(t->longest_piece, n);
    }
    t->rows = qsf_alloc_array(t->platform, t->n_batch, sizeof *t->rows, "batch", &t->error);
    if (!t->rows || turn_ends(t) || turn_text_room(t)) {
        if (err) *err = t->error;
        qsf_turn_free(t);
        return QSF_E_MEMORY;
    }
    *out = t;
    return QSF_OK;
}

void qsf_turn_free(qsf_turn *t)
{
    if (!t) return;
    qsf_dealloc(t->platform, t->held, 2 * (uint64_t)t->cap_text);
    qsf_turn_texts_free(t->platform, &t->stops);
    qsf_turn_grammar_free(t);
    if (t->never) qsf_dealloc(t->platform, t->never, (t->n_ends + TURN_VETOES) * sizeof *t->never);
    if (t->logprobs) qsf_dealloc(t->platform, t->logprobs, (1 + QSF_LOGPROBS_MOST) * sizeof *t->logprobs);
    qsf_dealloc(t->platform, t->rows, t->n_batch * sizeof *t->rows);
    qsf_dealloc(t->platform, t->ids, t->cap_ids * sizeof *t->ids);
    qsf_dealloc(t->platform, t, sizeof *t);
}

/* ---- the end ---- */

/* Takes the guesses that were not picked out of the sequence; those that were are fed
 * like others. */
static void turn_forget(qsf_turn *t)
{
    if (t->stage == TURN_READY && t->right < t->n_guess)
        (void)qsf_seq_truncate(t->context, t->seq, (uint32_t)(t->n_fed + t->right));
    if (t->stage == TURN_READY) t->n_fed = qsf_seq_length(t->context, t->seq);
    t->n_guess = t->n_made = t->right = 0;
    t->guessed = false;
}

static void turn_over(qsf_turn *t, qsf_turn_end end)
{
    turn_forget(t);
    t->ahead = false;
    qsf_turn_grammar_free(t);           /* its owner may let it go */
    t->n_rows = 0;
    t->stage = TURN_OVER;
    t->state.end = end;
}

void qsf_turn_cancel(qsf_turn *t)
{
    if (t->stage == TURN_NONE || t->stage == TURN_OVER) return;
    if (t->stepping) (void)qsf_seq_truncate(t->context, t->seq, qsf_seq_length(t->context, t->seq));
    t->stepping = false;
    turn_over(t, QSF_TURN_CANCELLED);
}

/* A batch of the turn has failed. */
static qsf_status turn_failed(qsf_turn *t, qsf_status st)
{
    qsf_fail(&t->error, st, "%s", qsf_last_error(t->context));
    t->stepping = false;
    turn_over(t, st == QSF_E_FULL ? QSF_TURN_FULL : QSF_TURN_FAILED);
    return st == QSF_E_FULL ? QSF_OK : st;
}

/* ---- the beginning ---- */

/* Truncates the sequence to the prefix it shares with ids, but never to all of ids: the last
 * token's logits are needed.  Sets a checkpoint there, because the next prompt may differ from this
 * one at that place. */
static qsf_status turn_keep(qsf_turn *t, const int32_t *ids, size_t n)
{
    qsf_status st = QSF_OK;
    size_t same = 0;
    const size_t have = QSF_MIN(t->n_ids, qsf_seq_length(t->context, t->seq));
    while (same < have && same < n - 1 && t->ids[same] == ids[same]) same++;
    if (qsf_seq_truncate(t->context, t->seq, (uint32_t)same)) {      /* a window has dropped some */
        st = qsf_seq_truncate(t->context, t->seq, 0);
    }
    same = st ? 0 : qsf_seq_length(t->context, t->seq);
    t->n_ids = t->n_fed = same;
    t->state.n_kept = t->state.n_done = same;
    if (!st) st = qsf_seq_checkpoint(t->context, t->seq);
    return st ? qsf_fail(&t->error, st, "%s", qsf_last_error(t->context)) : QSF_OK;
}

static qsf_status turn_check(qsf_turn *t, const int32_t *ids, size_t n)
{
    if (n == 0)
        return qsf_fail(&t->error, QSF_E_ARGUMENT,
                        "the prompt is empty and the model has no begin-of-text token");
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= t->n_vocab)
            return qsf_fail(&t->error, QSF_E_ARGUMENT, "token %d; the vocabulary has %u", (int)ids[i],
                            (unsigned)t->n_vocab);
    return qsf_turn_check(&t->o, &t->error);
}

/* Reads the options for stop strings, grammar and log probabilities. */
static qsf_status turn_texts_of(qsf_turn *t)
{
    qsf_status st = qsf_turn_texts_copy(t->platform, &t->stops, t->o.stops, t->o.n_stops, t->o.stop_lengths,
                                        "stop text", &t->error);
    if (st || (st = qsf_turn_grammar_begin(t))) return st;
    qsf_turn_reasoning_begin(t);
    if (t->o.logprobs < 0 || t->logprobs) return QSF_OK;
    t->logprobs = qsf_alloc_array(t->platform, 1 + QSF_LOGPROBS_MOST, sizeof *t->logprobs, "probabilities",
                                  &t->error);
    return t->logprobs ? QSF_OK : QSF_E_MEMORY;
}

static qsf_status turn_begin(qsf_turn *t, const int32_t *ids, size_t n, qsf_sampler *sampler,
                             const qsf_turn_options *opts)
{
    enum { AT_FIRST = 256 };            /* tokens of an answer without max_tokens */
    qsf_status st;
    t->state.end = QSF_TURN_GOES_ON;
    t->state.n_prompt = n;
    t->state.n_kept = t->state.n_done = t->state.n_tokens = t->state.n_forced = 0;
    t->n_logprobs = 0;
    t->ahead = false;
    qsf_turn_defaults(&t->o);
    if ((st = QSF_TAKE(&t->o, opts, qsf_turn_options, &t->error))) return st;
    if ((st = turn_check(t, ids, n)) || (st = turn_texts_of(t)) || (st = turn_text_room(t))) return st;
    if ((st = turn_keep(t, ids, n))) return st;
    if (n - t->n_ids > qsf_seq_room(t->context, t->seq))
        return qsf_fail(&t->error, QSF_E_FULL, "the prompt has %llu tokens, the context %u positions",
                        (unsigned long long)n, (unsigned)t->n_ctx);
    const int64_t most = t->o.max_tokens;
    if ((st = turn_ids_room(t, n + (most < 0 ? AT_FIRST : (size_t)QSF_MIN(most, t->n_ctx))))) return st;
    memcpy(t->ids + t->n_ids, ids + t->n_ids, (n - t->n_ids) * sizeof *ids);
    t->n_ids = n;
    t->sampler = sampler;
    qsf_sampler_reset(sampler);
    for (size_t i = 0; i < n; i++) qsf_sampler_accept(sampler, ids[i]);
    qsf_sampler_begin(sampler);
    t->tail = (qsf_utf8_tail){ 0 };
    t->n_held = 0;
    t->stage = TURN_ROWS;
    return QSF_OK;
}

qsf_status qsf_turn_begin(qsf_turn *t, const int32_t *ids, size_t n, qsf_sampler *sampler,
                          const qsf_turn_options *opts)
{
    qsf_turn_cancel(t);
    t->stage = TURN_NONE;
    t->error = (qsf_error){ 0 };
    const qsf_status st = turn_begin(t, ids, n, sampler, opts);
    if (st) qsf_turn_grammar_free(t);
    return st;
}

/* ---- rows ---- */

/* How many guesses may be made: no more than tokens are wanted, or positions are free.  Tokens that
 * the sequence has lost count like guesses: so a pass without guesses, which loses none, comes. */
static size_t turn_guess_room(const qsf_turn *t)
{
    const size_t own = t->n_ids - t->n_fed, fit = qsf_seq_room(t->context, t->seq);
    const size_t pass = QSF_MIN((size_t)QSF_DRAFT_MOST + 1, t->n_batch);
    const int64_t most = t->o.max_tokens, given = (int64_t)t->state.n_tokens;
    const int64_t left = most < 0 ? QSF_DRAFT_MOST : most - given - 1;
    if (t->n_ids >= t->n_ctx || fit <= own || pass <= own || left <= 0) return 0;
    const size_t room = QSF_MIN(t->n_ctx - t->n_ids, fit - own);
    return QSF_MIN(QSF_MIN((size_t)left, room), QSF_MIN(t->o.draft, pass - own));
}

/* Whether the next rows may have guesses, which are not made yet. */
static bool turn_may_guess(const qsf_turn *t) { return t->n_ids > t->state.n_prompt && !t->guessed; }

/* Makes at most `most` guesses; measured: as many of them as pay. */
static void turn_guess(qsf_turn *t, size_t most, bool measured)
{
    size_t room = QSF_MIN(turn_guess_room(t), most);
    if (measured && t->o.draft) room = qsf_draft_gain_choose(&t->gain, room);
    t->guessed = true;
    if (!room) return;
    const uint64_t begin = qsf_now(t->platform);
    t->n_made = t->o.guess ? t->o.guess(t->o.guess_user, t->ids, t->n_ids, t->guess, room)
                           : qsf_draft_lookup(t->ids, t->n_ids, t->guess, room);
    qsf_draft_gain_made(&t->gain, QSF_MAX(t->n_made, 1u), qsf_now(t->platform) - begin);
    t->n_made = qsf_turn_grammar_guesses(t, QSF_MIN(t->n_made, room));
}

/* Makes the guesses of turns that have the same guess_many. */
static size_t turns_guess(qsf_turn *const *turns, size_t n, size_t most, size_t *made)
{
    qsf_guess list[TURN_TOGETHER];
    for (size_t i = 0; i < n; i++) {
        qsf_turn *t = turns[i];
        list[i] = (qsf_guess){ .user = t->o.guess_user, .ids = t->ids, .n = t->n_ids, .out = t->guess,
                               .cap = QSF_MIN(turn_guess_room(t), most) };
    }
    if (n) turns[0]->o.guess_many(list, n);
    for (size_t i = 0; i < n; i++) {
        qsf_turn *t = turns[i];
        t->guessed = true;
        t->n_made = qsf_turn_grammar_guesses(t, QSF_MIN(list[i].found, list[i].cap));
        *made += t->n_made;
    }
    return n;
}

size_t qsf_turns_guess(qsf_turn *const *turns, size_t n, size_t most, size_t *made)
{
    qsf_turn *group[TURN_TOGETHER];
    size_t n_group = 0, asked = 0;
    *made = 0;
    for (size_t i = 0; i < n && most; i++) {
        qsf_turn *t = turns[i];
        if (!t->o.guess_many || t->stage != TURN_ROWS || qsf_turn_forces(t) || !turn_may_guess(t)) continue;
        if (n_group == TURN_TOGETHER || (n_group && group[0]->o.guess_many != t->o.guess_many)) {
            asked += turns_guess(group, n_group, most, made);
            n_group = 0;
        }
        group[n_group++] = t;
    }
    return asked + turns_guess(group, n_group, most, made);
}

/* The n rows may do with candidates of the next token; and what that token will be is known before
 * the caller has it, if one row and the largest logits decide. */
static void turn_asks(const qsf_turn *t, size_t n)
{
    qsf_choice x;
    if (!t->sampler || !qsf_sampler_takes_candidates(t->sampler)) return;
    if (!t->grammar.active || qsf_sampler_greedy(t->sampler)) qsf_candidates_ask(t->context);
    const int64_t most = t->o.max_tokens;
    const bool last = most >= 0 && (int64_t)t->state.n_tokens + 1 >= most;
    const bool drafts = t->o.guess || t->o.guess_many;          /* most batches have guesses then */
    if (n != 1 || last || drafts || t->grammar.active || !t->context->choices) return;
    if (!qsf_sampler_choice(t->sampler, &x)) return;
    x.seq = (uint32_t)t->seq;
    qsf_choice_tell(t->context, &x);
}

static size_t turn_fill(qsf_turn *t, qsf_row *rows, size_t cap, bool measured)
{
    size_t n = 0;
    if (!cap) return 0;
    if (t->stage != TURN_ROWS || qsf_turn_forces(t)) return t->n_rows = 0;
    const size_t own = t->n_ids - t->n_fed, most = QSF_MIN(cap, t->n_batch);
    for (; n < most && n < own; n++)
        rows[n] = (qsf_row){ t->seq, t->ids[t->n_fed + n], n + 1 == own };
    if (turn_may_guess(t)) turn_guess(t, most - n, measured);
    t->n_guess = QSF_MIN(t->n_made, most - n);
    for (size_t i = 0; i < t->n_guess; i++) rows[n++] = (qsf_row){ t->seq, t->guess[i], true };
    turn_asks(t, n);
    return t->n_rows = n;
}

size_t qsf_turn_rows(qsf_turn *t, qsf_row *rows, size_t cap) { return turn_fill(t, rows, cap, false); }

/* The rows returned last are computed; returns how many of them asked for logits. */
static size_t turn_rows_done(qsf_turn *t)
{
    if (!t->n_rows) return 0;
    t->n_fed += t->n_rows - t->n_guess;
    t->n_rows = 0;
    t->state.n_done = QSF_MIN(QSF_MAX(t->state.n_done, t->n_fed), t->state.n_prompt);
    t->state.n_guessed += t->n_guess;
    if (t->n_fed < t->n_ids) return 0;
    if (t->n_fed == t->state.n_prompt) (void)qsf_seq_checkpoint(t->context, t->seq);
    t->stage = TURN_READY;
    return 1 + t->n_guess;
}

/* Whether the context computes logits; else the turn's error says why not. */
static bool turn_has_logits(qsf_turn *t)
{
    return qsf_behind_there(t->context) || !qsf_part_refuse(t->model->source, "a turn", &t->error);
}

size_t qsf_turn_computed(qsf_turn *t, size_t first)
{
    const size_t asked = turn_rows_done(t);
    t->given = NULL;
    t->first = first;
    if (asked && !turn_has_logits(t)) turn_over(t, QSF_TURN_FAILED);
    return asked;
}

size_t qsf_turn_computed_elsewhere(qsf_turn *t, const float *logits)
{
    const size_t asked = turn_rows_done(t);
    t->given = logits;
    t->first = 0;
    return asked;
}

static qsf_status turn_batch(qsf_turn *t)
{
    const size_t n = turn_fill(t, t->rows, t->n_batch, !t->o.draft_fixed);
    t->begun_ns = qsf_now(t->platform);
    qsf_status st = qsf_batch_begin(t->context, t->rows, n);
    if (st == QSF_E_FULL && t->n_guess) {            /* other sequences may have taken the guesses' room */
        st = qsf_batch_begin(t->context, t->rows, qsf_turn_rows(t, t->rows, t->n_rows - t->n_guess));
    }
    t->stepping = !st;
    return st;
}

qsf_status qsf_turn_step(qsf_turn *t, bool *waiting)
{
    bool missing = false;
    qsf_status st = QSF_OK;
    if (waiting) *waiting = false;
    if (t->stage != TURN_ROWS || qsf_turn_forces(t)) return QSF_OK;
    if (!t->stepping && !turn_has_logits(t)) return turn_over(t, QSF_TURN_FAILED), t->error.status;
    if (!t->stepping) st = turn_batch(t);
    if (!st) st = qsf_step(t->context, &missing);
    if (st == QSF_PENDING && missing && !waiting && (st = qsf_wait(t->context)) == QSF_OK) st = QSF_PENDING;
    if (st == QSF_PENDING) {
        if (waiting) *waiting = missing;
        return st;
    }
    if (st) return turn_failed(t, st);
    t->stepping = false;
    if (t->n_rows == 1 + t->n_guess)
        qsf_draft_gain_pass(&t->gain, t->n_rows, qsf_now(t->platform) - t->begun_ns);
    qsf_turn_computed(t, 0);
    return QSF_OK;
}

/* ---- text ---- */

/* The place in text[0..len) where stop begins, wholly or with the part of it that is there; len
 * if it does not. */
static size_t stop_place(const char *text, size_t len, const char *stop, size_t n, bool *whole)
{
    *whole = false;
    for (size_t at = 0; n && at < len; at++) {
        const size_t have = QSF_MIN(len - at, n);
        if (memcmp(text + at, stop, have)) continue;
        *whole = have == n;
        return at;
    }
    return len;
}

/* How much of the held text may be given: up to the first stop text in it (*found), and with that
 * text if it is shown; or to what may become one. */
static size_t turn_safe(const qsf_turn *t, bool *found)
{
    size_t safe = t->n_held, shown = 0;
    *found = false;
    const char *stop;
    for (size_t at = 0, n, i = 0; (stop = qsf_turn_text_at(&t->stops, &at, &n)); i++) {
        bool whole;
        const size_t place = stop_place(t->held, t->n_held, stop, n, &whole);
        if (whole ? *found && place >= safe : *found || place >= safe) continue;
        safe = place;
        if (whole) shown = i < t->o.n_stops_shown ? n : 0;
        *found |= whole;
    }
    return *found ? safe + shown : safe;
}

/* The first n bytes of the held text are given. */
static void turn_show(qsf_turn *t, qsf_turn_piece *p, size_t n)
{
    memcpy(t->shown, t->held, n);
    t->shown[n] = 0;
    t->n_held -= n;
    memmove(t->held, t->held + n, t->n_held);
    p->text = t->shown;
    p->len = n;
}

/* ---- tokens ---- */

/* Selects the logits that follow the picked id: those of the next guess's row if the guess was id,
 * otherwise those of another pass. */
static void turn_behind(qsf_turn *t, int32_t id)
{
    if (t->right < t->n_guess && t->guess[t->right] == id) {
        t->right++;
        t->state.n_right++;
        return;
    }
    qsf_draft_gain_judge(&t->gain, t->n_guess, t->right);
    turn_forget(t);
    t->stage = TURN_ROWS;
}

/* Picks a token and takes its text; false: it ends the answer, or memory has run out. */
static bool turn_pick(qsf_turn *t, qsf_turn_piece *p)
{
    const char *piece;
    bool found;
    if (t->grammar.over) return turn_over(t, QSF_TURN_END_TOKEN), false;
    turn_reasoning *r = &t->reasoning;
    const bool mark = r->at < r->n_forced;      /* the forced end mark may contain a token that would
                                                 * otherwise end the answer */
    const int32_t id = mark ? r->forced[r->at++] : qsf_turn_draw(t);
    if (id < 0) return turn_over(t, QSF_TURN_FAILED), false;
    t->state.n_forced += mark;
    if (mark) t->n_logprobs = 0;
    if (!mark && (!t->o.ignore_end || t->grammar.active) && qsf_token_is_end(t->model, id))
        return turn_over(t, QSF_TURN_END_TOKEN), false;
    if (t->n_ids == t->cap_ids && turn_ids_room(t, 2 * t->cap_ids))
        return turn_over(t, QSF_TURN_FAILED), false;
    qsf_sampler_accept(t->sampler, id);
    qsf_turn_grammar_take(t, id);
    qsf_turn_reasoning_take(t, id);
    t->ids[t->n_ids++] = p->token = id;
    t->state.n_tokens++;
    const size_t n = t->o.special ? qsf_token_shown(t->model, id, t->o.special_in, &piece)
                                  : qsf_token_piece(t->model, id, false, &piece);
    t->n_held += qsf_utf8_push(&t->tail, piece, n, t->held + t->n_held);
    turn_show(t, p, turn_safe(t, &found));
    p->logprobs = t->logprobs;
    p->n_logprobs = t->n_logprobs;
    if (found) {
        t->n_held = t->tail.len = 0;
        turn_over(t, QSF_TURN_STOP_TEXT);
    } else if (t->o.max_tokens >= 0 && (int64_t)t->state.n_tokens >= t->o.max_tokens) {
        turn_over(t, QSF_TURN_MOST);            /* the logits after it are not needed */
    } else {
        turn_behind(t, id);
    }
    return true;
}

/* Whether tokens may come that are not picked: not before the prompt is computed, and not while
 * rows are. */
static bool turn_may_force(const qsf_turn *t)
{
    const bool wants_rows = t->stage == TURN_ROWS && t->state.n_tokens > 0;
    return t->stage == TURN_READY || (wants_rows && !t->n_rows && !t->stepping);
}

qsf_status qsf_turn_next(qsf_turn *t, qsf_turn_piece *out)
{
    qsf_turn_piece p = { .token = -1, .text = "" };
    const qsf_status st = QSF_GIVE(out, &p, &t->error);     /* before a token is lost */
    if (st) return st;
    if (t->stage == TURN_NONE) return qsf_fail(&t->error, QSF_E_ARGUMENT, "no turn was started");
    if (t->stage == TURN_READY && t->o.max_tokens == 0) turn_over(t, QSF_TURN_MOST);
    if (turn_may_force(t) && (qsf_turn_reasoning_look(t) || qsf_turn_grammar_look(t)))
        turn_over(t, QSF_TURN_FAILED);
    const bool given = t->grammar.over || qsf_turn_forces(t);
    if (t->stage == TURN_ROWS && !(turn_may_force(t) && given)) return QSF_PENDING;
    if (t->stage == TURN_OVER || !turn_pick(t, &p)) {
        turn_show(t, &p, t->n_held);
        p.end = t->state.end;
        p.cut = t->tail.len > 0;
    }
    return QSF_GIVE(out, &p, &t->error);
}

/* ---- what a turn knows ---- */

const qsf_error *qsf_turn_error(const qsf_turn *t) { return &t->error; }

qsf_status qsf_turn_get_state(const qsf_turn *t, qsf_turn_state *out)
{
    return QSF_GIVE(out, &t->state, NULL);
}

const int32_t *qsf_turn_tokens(const qsf_turn *t, size_t *n)
{
    *n = QSF_MIN(t->n_ids, qsf_seq_length(t->context, t->seq));
    return t->ids;
}

size_t qsf_turn_wanted(const qsf_turn *t) { return t->stage == TURN_ROWS ? t->n_ids - t->n_fed : 0; }

void qsf_turn_move(qsf_turn *t, qsf_seq s)
{
    const size_t most = t->n_ids ? t->n_ids - 1 : 0;    /* the last token's logits are needed */
    turn_forget(t);
    t->seq = s;
    t->n_rows = 0;
    if (qsf_seq_length(t->context, s) > most) (void)qsf_seq_truncate(t->context, s, (uint32_t)most);
    t->n_fed = qsf_seq_length(t->context, s);
}

qsf_status qsf_turn_hold(qsf_turn *t, const int32_t *ids, size_t n)
{
    qsf_turn_cancel(t);
    t->n_ids = 0;
    const qsf_status st = turn_ids_room(t, n);
    if (st) return st;
    if (n) memcpy(t->ids, ids, n * sizeof *ids);
    t->n_ids = n;
    return QSF_OK;
}
