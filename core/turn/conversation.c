/* A conversation: the way from its messages to the events of an answer.
 * SPDX-License-Identifier: MIT
 *
 * What a turn needs besides the prompt comes from three places: the caller's options, the template
 * (the text that ends an answer) and the tools (grammar, marks).  They are joined here, once for
 * all programs.  The conversation runs the turn, or only prepares it and is given its pieces. */
#include "base/sized.h"
#include "model/model.h"

enum { CONVERSATION_STOP = 64 };        /* bytes of the template's stop text, with its end */

struct qsf_conversation {
    const qsf_platform *platform;
    const qsf_model    *model;
    qsf_chat_options    chat;
    char               *texts;          /* [n_texts] its strings, one after another */
    size_t              n_texts;
    char                stop[CONVERSATION_STOP];
    size_t              stop_len;
    bool                stop_known;

    int32_t            *ids;            /* [cap_ids] the prompt */
    size_t              n_ids, cap_ids;
    bool                of_messages;    /* it came through the template */

    qsf_answer         *answer;         /* NULL: answers are not split */
    uint64_t            id_seed, n_turns;

    const char        **stops;          /* [cap_stops] all of the last turn; then their lengths */
    size_t              cap_stops;
    qsf_turn           *turn;
    bool                whole;          /* the last piece has been read */
    qsf_answer_event    plain;          /* the event of a piece that is not split */
    bool                has_plain;
    qsf_error           error;
};

/* ---- life ---- */

/* Copies the caller's options, with their strings. */
static qsf_status conversation_take_chat(qsf_conversation *c, const qsf_chat_options *chat, qsf_error *err)
{
    qsf_chat_options *own = &c->chat;
    const char **const texts[] = { &own->chat_template, &own->tools, &own->documents, &own->kwargs, &own->bos,
                                   &own->eos };
    qsf_chat_defaults(own);
    const qsf_status st = QSF_TAKE(own, chat, qsf_chat_options, err);
    if (st) return st;
    for (size_t i = 0; i < QSF_ARRAY_LEN(texts); i++) if (*texts[i]) c->n_texts += strlen(*texts[i]) + 1;
    if (!c->n_texts) return QSF_OK;
    char *at = c->texts = qsf_alloc(c->platform, c->n_texts, "conversation", err);
    if (!at) return QSF_E_MEMORY;
    for (size_t i = 0; i < QSF_ARRAY_LEN(texts); i++) {
        if (!*texts[i]) continue;
        const size_t n = strlen(*texts[i]) + 1;
        *texts[i] = memcpy(at, *texts[i], n);
        at += n;
    }
    return QSF_OK;
}

qsf_status qsf_conversation_new(const qsf_model *m, const qsf_chat_options *chat, qsf_conversation **out,
                                qsf_error *err)
{
    *out = NULL;
    qsf_conversation *c = qsf_alloc(m->platform, sizeof *c, "conversation", err);
    if (!c) return QSF_E_MEMORY;
    c->platform = m->platform;
    c->model = m;
    const qsf_status st = conversation_take_chat(c, chat, err);
    if (st) qsf_conversation_free(c);
    else *out = c;
    return st;
}

enum { CONVERSATION_STOP_BYTES = sizeof(char *) + sizeof(size_t) };

static void conversation_drop_stops(qsf_conversation *c)
{
    qsf_dealloc(c->platform, (void *)(uintptr_t)c->stops, c->cap_stops * CONVERSATION_STOP_BYTES);
    c->stops = NULL;
    c->cap_stops = 0;
}

/* Ends the turn, unless its last piece has been read: then it may be gone. */
static void conversation_leave_turn(qsf_conversation *c)
{
    if (c->turn && !c->whole) qsf_turn_cancel(c->turn);
    c->turn = NULL;
    c->whole = c->has_plain = false;
}

void qsf_conversation_free(qsf_conversation *c)
{
    if (!c) return;
    conversation_leave_turn(c);
    qsf_answer_free(c->answer);
    qsf_dealloc(c->platform, c->texts, c->n_texts);
    conversation_drop_stops(c);
    qsf_dealloc(c->platform, c->ids, c->cap_ids * sizeof *c->ids);
    qsf_dealloc(c->platform, c, sizeof *c);
}

const qsf_error *qsf_conversation_error(const qsf_conversation *c) { return &c->error; }
qsf_turn        *qsf_conversation_turn(const qsf_conversation *c) { return c->turn; }
qsf_answer      *qsf_conversation_answer(qsf_conversation *c) { return c->answer; }

/* ---- the template ---- */

qsf_status qsf_conversation_stop(qsf_conversation *c, const char **text, size_t *len)
{
    qsf_status st = QSF_OK;
    if (!c->stop_known) {
        qsf_chat_options chat = c->chat;
        /* The same that NULL means, but the messages are enough for a line in the log. */
        if (!chat.chat_template && !c->model->source->vocab.chat_template) chat.chat_template = "plain";
        st = qsf_chat_stop_text(c->model, &chat, c->stop, sizeof c->stop, &c->stop_len, &c->error);
        if (st) c->stop[c->stop_len = 0] = 0;
        c->stop_known = !st;
    }
    *text = c->stop;
    *len = c->stop_len;
    return st;
}

qsf_status qsf_conversation_split(qsf_conversation *c, const qsf_answer_options *o)
{
    qsf_answer_options own;
    qsf_turn_options turn;
    conversation_leave_turn(c);
    qsf_answer_free(c->answer);
    c->answer = NULL;
    if (!o) return QSF_OK;
    qsf_answer_defaults(&own);
    qsf_turn_defaults(&turn);
    qsf_status st = QSF_TAKE(&own, o, qsf_answer_options, &c->error);
    if (st) return st;
    own.chat = &c->chat;
    c->id_seed = own.id_seed;
    c->n_turns = 0;
    st = qsf_answer_new(c->model, &own, &c->answer, &c->error);
    if (!st) st = qsf_answer_turn(c->answer, &turn, &c->error);         /* its errors are found here */
    if (!st) return QSF_OK;
    qsf_answer_free(c->answer);
    c->answer = NULL;
    return st;
}

/* ---- the prompt ---- */

/* Room for n tokens; those that are there are lost. */
static qsf_status prompt_room(qsf_conversation *c, size_t n)
{
    if (n <= c->cap_ids) return QSF_OK;
    qsf_dealloc(c->platform, c->ids, c->cap_ids * sizeof *c->ids);
    c->cap_ids = 0;
    if (!(c->ids = qsf_alloc_array(c->platform, n, sizeof *c->ids, "tokens", &c->error))) return QSF_E_MEMORY;
    c->cap_ids = n;
    return QSF_OK;
}

/* Writes the tokens of a prompt to c->ids, as the functions of qsf.h do. */
typedef qsf_status (*prompt_encode)(qsf_conversation *c, const void *from, size_t n, size_t *n_ids);

static qsf_status prompt_of_messages(qsf_conversation *c, const void *from, size_t n, size_t *n_ids)
{
    return qsf_chat_encode_plain(c->model, from, n, &c->chat, c->ids, c->cap_ids, n_ids, &c->error);
}
static qsf_status prompt_of_json(qsf_conversation *c, const void *from, size_t n, size_t *n_ids)
{
    return qsf_chat_encode_json(c->model, from, n, &c->chat, c->ids, c->cap_ids, n_ids, &c->error);
}
static qsf_status prompt_of_text(qsf_conversation *c, const void *from, size_t n, size_t *n_ids)
{
    return qsf_tokens_encode(c->model, from, n, QSF_TOK_ADD_SPECIAL | QSF_TOK_PARSE_SPECIAL, c->ids,
                             c->cap_ids, n_ids, &c->error);
}

/* Tokenizes the prompt, again if the guess of its length was too small. */
static qsf_status prompt_set(qsf_conversation *c, prompt_encode encode, const void *from, size_t n,
                             size_t guess)
{
    size_t n_ids = guess;
    c->n_ids = 0;
    c->of_messages = encode != prompt_of_text;
    for (;;) {
        qsf_status st = prompt_room(c, n_ids);
        if (st) return st;
        if (!(st = encode(c, from, n, &n_ids))) break;
        if (n_ids <= c->cap_ids) return st;
        c->error = (qsf_error){ 0 };
    }
    c->n_ids = n_ids;
    return QSF_OK;
}

/* A token has a byte or more, except for those that templates add; in JSON, with its keys and
 * escapes, two or more.  Otherwise a prompt is encoded again. */
enum { PROMPT_TEMPLATE = 512, PROMPT_MESSAGE = 64, PROMPT_ADDED = 16, PROMPT_MANY = 4096 };

qsf_status qsf_conversation_messages(qsf_conversation *c, const qsf_message *msgs, size_t n)
{
    size_t guess = PROMPT_TEMPLATE;
    for (size_t i = 0; n < PROMPT_MANY && i < n; i++) guess += strlen(msgs[i].content) + PROMPT_MESSAGE;
    return prompt_set(c, prompt_of_messages, msgs, n, guess);
}

qsf_status qsf_conversation_json(qsf_conversation *c, const char *messages, size_t len)
{
    return prompt_set(c, prompt_of_json, messages, len, len / 2 + 2 * PROMPT_TEMPLATE);
}

qsf_status qsf_conversation_text(qsf_conversation *c, const char *text, size_t len)
{
    return prompt_set(c, prompt_of_text, text, len, len + PROMPT_ADDED);
}

qsf_status qsf_conversation_ids(qsf_conversation *c, const int32_t *ids, size_t n)
{
    c->n_ids = 0;
    c->of_messages = false;
    const qsf_status st = prompt_room(c, n);
    if (st) return st;
    if (n) memcpy(c->ids, ids, n * sizeof *ids);
    c->n_ids = n;
    return QSF_OK;
}

qsf_status qsf_conversation_encoded(qsf_conversation *c, const int32_t *ids, size_t n)
{
    const qsf_status st = qsf_conversation_ids(c, ids, n);
    c->of_messages = !st;
    return st;
}

const int32_t *qsf_conversation_tokens(const qsf_conversation *c, size_t *n)
{
    *n = c->n_ids;
    return c->ids;
}

/* ---- the turn ---- */

/* The caller's stop strings, and the template's after them. */
static qsf_status turn_stops(qsf_conversation *c, qsf_turn_options *o)
{
    const char *own = "";
    size_t len = 0;
    if (c->of_messages && !o->ignore_end && qsf_conversation_stop(c, &own, &len) == QSF_E_MEMORY)
        return QSF_E_MEMORY;
    c->error = (qsf_error){ 0 };        /* any other failure: only tokens end an answer */
    const size_t n = o->n_stops + 1;
    if (n > c->cap_stops) {
        conversation_drop_stops(c);
        c->stops = qsf_alloc_array(c->platform, n, CONVERSATION_STOP_BYTES, "stop texts", &c->error);
        if (!c->stops) return QSF_E_MEMORY;
        c->cap_stops = n;
    }
    size_t *lengths = (size_t *)(void *)(c->stops + c->cap_stops);
    for (size_t i = 0; i < o->n_stops; i++) {
        c->stops[i] = o->stops[i];
        lengths[i] = o->stop_lengths ? o->stop_lengths[i] : strlen(o->stops[i]);
    }
    c->stops[o->n_stops] = own;
    lengths[o->n_stops] = len;
    o->stops = c->stops;
    o->stop_lengths = lengths;
    o->n_stops += len > 0;
    return QSF_OK;
}

/* Adds to the options of a turn what the template and the tools ask of it. */
static qsf_status turn_prepare(qsf_conversation *c, qsf_turn_options *o)
{
    const qsf_status st = turn_stops(c, o);
    if (st || !c->answer) return st;
    /* The calls of each answer have other ids. */
    qsf_answer_reset(c->answer, c->id_seed + c->n_turns++ * 0x9e3779b97f4a7c15u);
    return qsf_answer_turn(c->answer, o, &c->error);
}

qsf_status qsf_conversation_prepare(qsf_conversation *c, const qsf_turn_options *opts, qsf_turn_options *out)
{
    qsf_turn_options o;
    qsf_turn_defaults(&o);
    conversation_leave_turn(c);
    c->error = (qsf_error){ 0 };
    qsf_status st = QSF_TAKE(&o, opts, qsf_turn_options, &c->error);
    if (!st) st = turn_prepare(c, &o);
    return st ? st : QSF_GIVE(out, &o, &c->error);
}

qsf_status qsf_conversation_begin(qsf_conversation *c, qsf_turn *t, qsf_sampler *sampler,
                                  const qsf_turn_options *opts)
{
    qsf_turn_options o;
    qsf_turn_defaults(&o);
    conversation_leave_turn(c);
    c->error = (qsf_error){ 0 };
    qsf_status st = QSF_TAKE(&o, opts, qsf_turn_options, &c->error);
    if (st || (st = turn_prepare(c, &o))) return st;
    c->turn = t;
    if ((st = qsf_turn_begin(t, c->ids, c->n_ids, sampler, &o))) c->error = *qsf_turn_error(t);
    return st;
}

/* Gives a piece to what splits the answer. */
static qsf_status turn_split(qsf_conversation *c, const qsf_turn_piece *p)
{
    const bool last = p->end != QSF_TURN_GOES_ON;
    qsf_answer_event lost = { .size = sizeof lost };
    c->has_plain = false;
    while (c->answer && !qsf_answer_next(c->answer, &lost)) continue;
    if (c->whole) return QSF_OK;
    c->whole = last;
    if (c->answer) {
        qsf_answer_token(c->answer, p->token);
        return qsf_answer_push(c->answer, p->text, p->len, last, &c->error);
    }
    c->plain = (qsf_answer_event){ .type = QSF_ANSWER_TEXT, .text = p->text, .len = p->len };
    c->has_plain = p->len > 0;
    return QSF_OK;
}

qsf_status qsf_conversation_push(qsf_conversation *c, const qsf_turn_piece *piece)
{
    qsf_turn_piece p = { .size = sizeof p, .token = -1 };
    if (c->turn) return qsf_fail(&c->error, QSF_E_ARGUMENT, "the conversation runs a turn of its own");
    const qsf_status st = QSF_TAKE(&p, piece, qsf_turn_piece, &c->error);
    return st ? st : turn_split(c, &p);
}

qsf_status qsf_conversation_next(qsf_conversation *c, qsf_turn_piece *piece)
{
    qsf_turn_piece p = { .size = sizeof p };
    if (!c->turn) return qsf_fail(&c->error, QSF_E_ARGUMENT, "no turn was started");
    qsf_status st = qsf_sized_check(piece, &c->error);      /* before a token is lost */
    if (st || (st = qsf_turn_next(c->turn, &p)) == QSF_PENDING) return st;
    if (st || p.end == QSF_TURN_FULL || p.end == QSF_TURN_FAILED) c->error = *qsf_turn_error(c->turn);
    if (st) return st;
    if ((st = turn_split(c, &p))) {
        qsf_turn_cancel(c->turn);
        return st;
    }
    return QSF_GIVE(piece, &p, &c->error);
}

qsf_status qsf_conversation_event(qsf_conversation *c, qsf_answer_event *out)
{
    if (c->answer) return qsf_answer_next(c->answer, out);
    const qsf_status st = qsf_sized_check(out, NULL);
    if (st || !c->has_plain) return st ? st : QSF_PENDING;
    c->has_plain = false;
    return QSF_GIVE(out, &c->plain, NULL);
}
