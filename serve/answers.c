/* Answers as text, reasoning and calls: what the library's readers say, as items.
 * SPDX-License-Identifier: MIT */
#include "formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- begin and end ---- */

static bool answers_refuse(qsf_status st, const qsf_error *err, serve_error *e)
{
    if (st == QSF_E_MEMORY) return serve_refuse(e, 503, NULL, NULL, "out of memory for the request");
    return serve_refuse(e, 400, "invalid_value", "tools", "%s", err->text);
}

static bool answer_reader(front_job *j, unsigned i, const qsf_chat_options *chat, serve_error *e)
{
    const serve_request *r = &j->job.request;
    qsf_answer_options o;
    qsf_error err;
    qsf_answer_defaults(&o);
    o.chat = chat;
    o.tool_choice = r->tools ? r->tool_choice : NULL;
    o.parallel_tool_calls = r->parallel;
    o.id_seed = ((uint64_t)j->front->started << 32) + j->number * SERVE_CHOICES + i;
    const qsf_status st = qsf_answer_new(j->entry->model, &o, &j->choices[i].answer, &err);
    return !st || answers_refuse(st, &err, e);
}

bool answers_begin(front_job *j, serve_error *e)
{
    const serve_request *r = &j->job.request;
    qsf_chat_options chat;
    qsf_error err;
    qsf_turn_defaults(&j->job.turn);
    if (j->grammar) grammar_turn(j->grammar, &j->job.turn);
    j->job.turn.reasoning_budget = r->reasoning_budget;
    if (!(r->api & (API_CHAT | API_RESPONSES | API_MESSAGES))) return true;
    front_chat(j->front, r, &chat);
    for (unsigned i = 0; i < j->job.n_branches; i++) if (!answer_reader(j, i, &chat, e)) return false;
    if (j->grammar) return true;        /* grammar_turn has set all of the turn */
    const qsf_status st = qsf_answer_turn(j->choices[0].answer, &j->job.turn, &err);
    return !st || answers_refuse(st, &err, e);
}

void answers_free(front_job *j)
{
    for (unsigned i = 0; j->choices && i < j->job.n_branches; i++) {
        front_choice *ch = &j->choices[i];
        for (unsigned k = 0; k < ch->n_items; k++) {
            text_free(&ch->items[k].name);
            text_free(&ch->items[k].text);
        }
        free(ch->items);
        text_free(&ch->text);
        text_free(&ch->tokens);
        text_free(&ch->prompt_logprobs);
        for (int k = 0; k < 4; k++) text_free(&ch->logprobs[k]);
        qsf_answer_free(ch->answer);
    }
    free(j->choices);
    j->choices = NULL;
}

/* ---- items ---- */

static void item_end(front_job *j, unsigned choice, qsf_answer_event_type why, serve_text *out)
{
    front_choice *ch = &j->choices[choice];
    front_item *item = ch->n_items ? &ch->items[ch->n_items - 1] : NULL;
    if (!item || item->over) return;
    item->over = true;
    item->dropped = why == QSF_ANSWER_CALL_DROPPED;
    item->cut = why == QSF_ANSWER_CALL_CUT;
    if (j->job.request.stream) format_item_end(j, choice, item, out);
}

/* A new item; NULL: out of memory. */
static front_item *item_begin(front_job *j, unsigned choice, item_kind kind)
{
    front_choice *ch = &j->choices[choice];
    if (ch->n_items == ch->cap_items) {
        const unsigned cap = ch->cap_items ? 2 * ch->cap_items : 4;
        front_item *items = realloc(ch->items, cap * sizeof *items);
        if (!items) return NULL;
        ch->items = items;
        ch->cap_items = cap;
    }
    front_item *item = &ch->items[ch->n_items];
    *item = (front_item){ .kind = kind, .index = ch->n_items++ };
    return item;
}

/* The item that an event continues or begins; NULL: out of memory. */
static front_item *item_for(front_job *j, unsigned choice, const qsf_answer_event *e, serve_text *out)
{
    static const item_kind kinds[] = { [QSF_ANSWER_TEXT] = ITEM_TEXT, [QSF_ANSWER_REASONING] = ITEM_REASONING,
                                       [QSF_ANSWER_CALL] = ITEM_CALL, [QSF_ANSWER_ARGUMENTS] = ITEM_CALL };
    front_choice *ch = &j->choices[choice];
    front_item *item = ch->n_items ? &ch->items[ch->n_items - 1] : NULL;
    const item_kind kind = kinds[e->type];
    if (item && !item->over && item->kind == kind && e->type != QSF_ANSWER_CALL) return item;
    item_end(j, choice, QSF_ANSWER_CALL_END, out);
    if (!(item = item_begin(j, choice, kind))) return NULL;
    if (e->type == QSF_ANSWER_CALL) {
        snprintf(item->id, sizeof item->id, "%.*s", (int)e->id_len, e->id ? e->id : "");
        text_add(&item->name, e->text, e->len);
    }
    if (j->job.request.stream) format_item(j, choice, item, out);
    return item;
}

static bool item_event(front_job *j, unsigned choice, const qsf_answer_event *e, serve_text *out)
{
    if (e->type >= QSF_ANSWER_CALL_END) {
        item_end(j, choice, e->type, out);
        return true;
    }
    front_item *item = item_for(j, choice, e, out);
    if (!item) return false;
    if (e->type == QSF_ANSWER_CALL || !e->len) return true;
    text_add(&item->text, e->text, e->len);
    if (j->job.request.stream) format_item_text(j, choice, item, e->text, e->len, out);
    return !item->text.failed;
}

bool answers_go_on(front_job *j, unsigned choice, const char *text, size_t len, bool last, serve_text *out)
{
    qsf_answer *a = j->choices[choice].answer;
    qsf_answer_event e = { .size = sizeof e };
    if (qsf_answer_push(a, text, len, last, NULL)) return false;
    while (!qsf_answer_next(a, &e))
        if (!item_event(j, choice, &e, out)) return false;
    if (last) item_end(j, choice, QSF_ANSWER_CALL_END, out);
    return true;
}
