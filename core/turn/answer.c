/* Answers with calls of tools, as the public header has them.
 * SPDX-License-Identifier: MIT */
#include "base/sized.h"
#include "model/model.h"
#include "chat/tools.h"
#include "turn/grammar_new.h"

enum { ANSWER_MAX_SHAPE = 16 << 20 };

struct qsf_answer {
    const qsf_platform *platform;
    const qsf_model    *model;
    qsf_tool_form       form;
    qsf_tool_answer    *answer;
    qsf_json            tools;
    char               *choice;         /* "": auto */
    size_t              choice_bytes;
    bool                several;
    uint64_t            most_memory;    /* of the grammar */
    qsf_grammar_kind    shape_kind;
    char               *shape;          /* [shape_len + 1] grammar of an answer without calls, or NULL */
    size_t              shape_len;
    uint32_t            json_blanks;
    bool                json_loose;
    const char         *behind;         /* of reasoning: where a caller's grammar begins */
    bool                has_grammar;
    qsf_tool_grammar    grammar;
    const qsf_answer   *like;           /* whose grammar it is; NULL: its own */
    qsf_text            marks;          /* of the form */
    bool                all;            /* the turn gives all control tokens, which are text then */
    qsf_utf8_tail       tail;           /* of the tokens so far, and the bytes of their text */
    size_t              bytes;
};

void qsf_answer_defaults_of(qsf_answer_options *o, size_t size)
{
    static const qsf_answer_options d = { .size = sizeof d, .parallel_tool_calls = true, .json_blanks = 32 };
    qsf_sized_defaults(o, size, &d, sizeof d);
}

static bool answer_choice_is(const qsf_answer *a, const char *text) { return !strcmp(a->choice, text); }

/* The form is that of an answer after a generation prompt; this one may have another beginning. */
static void answer_beginning(qsf_tool_form *f, const qsf_chat_options *chat)
{
    f->continues = chat->continue_final_message;
    if (!f->continues && chat->add_generation_prompt) return;
    f->in_reasoning = false;
    f->text[QSF_TT_PROMPT][0] = 0;
}

static qsf_status answer_open(qsf_answer *a, const qsf_answer_options *o, qsf_error *err)
{
    qsf_chat_options chat;
    qsf_chat_defaults(&chat);
    qsf_status st = QSF_TAKE(&chat, o->chat, qsf_chat_options, err);
    if (st) return st;
    const char *choice = o->tool_choice && strcmp(o->tool_choice, "auto") ? o->tool_choice : "";
    a->choice_bytes = strlen(choice) + 1;
    if (!(a->choice = qsf_alloc(a->platform, a->choice_bytes, "answer", err))) return QSF_E_MEMORY;
    memcpy(a->choice, choice, a->choice_bytes);
    a->several = o->parallel_tool_calls;
    a->most_memory = o->most_memory;
    a->like = o->like;
    if (o->shape && !a->like) {
        if (o->shape_len > ANSWER_MAX_SHAPE)
            return qsf_fail(err, QSF_E_BUDGET, "the shape of an answer can have at most %u MB",
                            ANSWER_MAX_SHAPE >> 20);
        if (!(a->shape = qsf_alloc(a->platform, o->shape_len + 1, "answer", err))) return QSF_E_MEMORY;
        memcpy(a->shape, o->shape, o->shape_len);
        a->shape_len = o->shape_len;
        a->shape_kind = o->shape_kind;
        a->json_blanks = o->json_blanks;
        a->json_loose = o->json_loose;
    }
    if ((st = qsf_model_tool_form(a->model, &chat, &a->form, err))) return st;
    answer_beginning(&a->form, &chat);
    a->marks.platform = a->platform;
    qsf_tool_form_marks(&a->form, &a->marks);
    if (a->marks.failed) return qsf_fail(err, QSF_E_MEMORY, "answer: out of memory");
    const char *tools = chat.tools;
    if (answer_choice_is(a, "none")) {
        tools = NULL;
        a->form.text[QSF_TT_SECTION][0] = a->form.text[QSF_TT_OPEN][0] = 0;
    }
    if (tools && !a->like       /* a grammar is made of them */
        && (st = qsf_json_read(a->platform, tools, strlen(tools), "tools", &a->tools, err))) return st;
    return qsf_tool_answer_new(a->platform, &a->form, tools, tools ? strlen(tools) : 0, o->id_seed,
                               &a->answer, err);
}

qsf_status qsf_answer_new(const qsf_model *m, const qsf_answer_options *opts, qsf_answer **out,
                          qsf_error *err)
{
    qsf_answer_options o;
    qsf_answer_defaults(&o);
    *out = NULL;
    qsf_status st = QSF_TAKE(&o, opts, qsf_answer_options, err);
    if (st) return st;
    const qsf_platform *p = m ? m->platform : qsf_platform_native();
    qsf_answer *a = qsf_alloc(p, sizeof *a, "answer", err);
    if (!a) return QSF_E_MEMORY;
    a->platform = p;
    a->model = m;
    if ((st = answer_open(a, &o, err))) {
        qsf_answer_free(a);
        return st;
    }
    *out = a;
    return QSF_OK;
}

void qsf_answer_free(qsf_answer *a)
{
    if (!a) return;
    qsf_tool_grammar_drop(&a->grammar);
    qsf_tool_answer_free(a->answer);
    qsf_json_drop(&a->tools);
    qsf_text_drop(&a->marks);
    qsf_dealloc(a->platform, a->choice, a->choice_bytes);
    if (a->shape) qsf_dealloc(a->platform, a->shape, a->shape_len + 1);
    qsf_dealloc(a->platform, a, sizeof *a);
}

void qsf_answer_reset(qsf_answer *a, uint64_t id_seed)
{
    qsf_tool_answer_reset(a->answer, id_seed);
    a->tail = (qsf_utf8_tail){ 0 };
    a->bytes = 0;
}

static qsf_gnode answer_shape(void *user, qsf_grammar_builder *b)
{
    const qsf_answer *a = user;
    const qsf_schema_options how = { .size = sizeof how, .blanks = a->json_blanks, .loose = a->json_loose };
    return qsf_grammar_nodes_of(b, a->shape_kind, a->shape, a->shape_len, &how);
}

/* Makes the grammar of the calls and the shape, on first use. */
static qsf_status answer_grammar(qsf_answer *a, qsf_error *err)
{
    const bool named = a->choice[0] && !answer_choice_is(a, "required") && !answer_choice_is(a, "none");
    const bool tools = a->tools.n_nodes && a->tools.nodes->n;
    const qsf_tool_grammar_ask ask = {
        .platform = a->platform, .form = &a->form, .tokenizer = a->model ? a->model->tokenizer : NULL,
        .tools = tools ? a->tools.nodes : NULL, .only = named ? a->choice : NULL,
        .required = tools && a->choice[0], .one = named || !a->several, .most_memory = a->most_memory,
        .shape = a->shape ? answer_shape : NULL, .user = a,
    };
    if (a->has_grammar) return QSF_OK;
    const qsf_status st = qsf_tool_grammar_make(&ask, &a->grammar, err);
    a->has_grammar = !st;
    return st;
}

static const qsf_tool_grammar *answer_whose(const qsf_answer *a)
{
    return a->like ? &a->like->grammar : &a->grammar;
}

qsf_status qsf_answer_turn(qsf_answer *a, qsf_turn_options *o, qsf_error *err)
{
    qsf_turn_options own;
    qsf_turn_defaults(&own);
    qsf_status st = QSF_TAKE(&own, o, qsf_turn_options, err);
    if (st) return st;
    a->all = own.special || !QSF_SIZED_HAS(o, qsf_turn_options, special_in);
    o->special = true;
    if (!a->all) o->special_in = a->marks.at;
    if (!QSF_SIZED_HAS(o, qsf_turn_options, grammar_with)) return QSF_OK;
    if (QSF_SIZED_HAS(o, qsf_turn_options, in_reasoning)) {
        o->reasoning_begin = a->form.text[QSF_TT_REASONING];
        o->reasoning_end = a->form.text[QSF_TT_REASONING_END];
        o->in_reasoning = a->form.in_reasoning;
    }
    if (own.grammar && !own.n_grammar_after && a->form.in_reasoning) {
        a->behind = qsf_tool_core(a->form.text[QSF_TT_REASONING_END]);
        o->grammar_after = &a->behind;
        o->n_grammar_after = *a->behind != 0;
        o->grammar_with = false;
    }
    if (own.grammar) return QSF_OK;
    if (!a->like && (a->shape || (a->tools.n_nodes && a->tools.nodes->n)) && (st = answer_grammar(a, err)))
        return st;
    const qsf_tool_grammar *g = answer_whose(a);
    if (!g->grammar) return QSF_OK;
    o->grammar = g->grammar;
    o->grammar_after = g->after;
    o->n_grammar_after = g->n_after;
    o->grammar_with = g->with;
    return QSF_OK;
}

const char *qsf_answer_loosened(const qsf_answer *a)
{
    const qsf_text *said = &answer_whose(a)->said;
    return said->n ? said->at : "";
}

void qsf_answer_token(qsf_answer *a, int32_t id)
{
    enum { PART = 64 };
    char whole[3 * (PART + 4)];
    const char *piece, *plain;
    qsf_utf8_tail own = { 0 };
    size_t alone = 0;
    if (!a->model || a->all || id < 0) return;
    const size_t n = qsf_token_shown(a->model, id, a->marks.at, &piece);
    for (size_t i = 0; i < n; i += PART) {
        a->bytes += qsf_utf8_push(&a->tail, piece + i, QSF_MIN(n - i, PART), whole);
        alone += qsf_utf8_push(&own, piece + i, QSF_MIN(n - i, PART), whole);
    }
    /* Bytes that are not UTF-8 are replaced in the answer, so their text cannot be found there. */
    if (n && alone == n && !own.len && !qsf_token_piece(a->model, id, false, &plain))
        qsf_tool_answer_control(a->answer, a->bytes - n, n);
}

qsf_status qsf_answer_push(qsf_answer *a, const char *text, size_t len, bool last, qsf_error *err)
{
    return qsf_tool_answer_push(a->answer, text, len, last, err);
}

qsf_status qsf_answer_next(qsf_answer *a, qsf_answer_event *out)
{
    qsf_answer_event e = { .text = "" };
    qsf_tool_event t;
    const qsf_status st = qsf_sized_check(out, NULL);   /* before an event is lost */
    if (st) return st;
    if (!qsf_tool_answer_next(a->answer, &t)) return QSF_PENDING;
    e.type = (qsf_answer_event_type)t.type;
    e.call = t.call;
    e.text = t.text;
    e.len = t.len;
    e.id = t.id_len ? t.id : NULL;
    e.id_len = t.id_len;
    return QSF_GIVE(out, &e, NULL);
}

qsf_status qsf_answer_json(qsf_answer *a, const char **text, size_t *len, qsf_error *err)
{
    return qsf_tool_answer_json(a->answer, text, len, err);
}
