/* Answers as text, reasoning and calls: the events of the library's conversations, as items.
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

/* Makes what splits an answer. */
static bool answer_split(front_job *j, unsigned i, serve_error *e)
{
    const serve_request *r = &j->job.request;
    qsf_conversation **talk = &j->choices[i].talk;
    qsf_answer_options o;
    if (!*talk && !(*talk = front_conversation(j, e))) return false;
    qsf_answer_defaults(&o);
    o.tool_choice = r->tools ? r->tool_choice : NULL;
    o.id_seed = ((uint64_t)j->front->started << 32) + j->number * SERVE_CHOICES + i;
    o.like = j->grammar ? grammar_answer(j->grammar) : NULL;
    const qsf_status st = qsf_conversation_split(*talk, &o);
    return !st || answers_refuse(st, qsf_conversation_error(*talk), e);
}

/* A rank that follows has no prompt but its tokens. */
static bool answer_prompt(front_job *j, serve_error *e)
{
    const serve_tokens *t = &j->job.prompts[0];
    if (j->talk) return true;
    if (!(j->talk = front_conversation(j, e))) return false;
    const qsf_status st = qsf_conversation_encoded(j->talk, t->ids, t->n);
    return !st || answers_refuse(st, qsf_conversation_error(j->talk), e);
}

/* Reports the keywords of tools' schemas that their grammar does not enforce: of each line
 * "NAME: parameters: #/PLACE: why", or without a place "NAME: parameters: why". */
static void answers_loosened(front_job *j, const char *lines)
{
    static const char between[] = ": parameters: ";
    char tool[80], place[80];
    for (const char *at = lines, *found; (found = strstr(at, between));) {
        const char *why = found + strlen(between), *end = *why == '#' ? strstr(why, ": ") : NULL;
        snprintf(tool, sizeof tool, "tools.%.*s", (int)(found - at), at);
        snprintf(place, sizeof place, "parameters%.*s", end ? (int)(end - why) - 1 : 0, why + 1);
        serve_request_ignored(&j->job.request, tool, place);
        if (!(at = strchr(why, '\n'))) break;
        at++;
    }
}

bool answers_begin(front_job *j, serve_error *e)
{
    const serve_request *r = &j->job.request;
    qsf_turn_options *turn = &j->job.turn;
    serve_turn(r, turn);
    if (!(r->api & (API_CHAT | API_RESPONSES | API_MESSAGES))) {
        turn->grammar = j->grammar ? grammar_shape(j->grammar) : NULL;
        return true;
    }
    if (!answer_prompt(j, e)) return false;
    qsf_conversation *first = j->choices[0].talk = j->talk;
    j->talk = NULL;
    for (unsigned i = 0; i < j->job.n_branches; i++) if (!answer_split(j, i, e)) return false;
    const qsf_status st = qsf_conversation_prepare(first, turn, turn);
    if (st) return answers_refuse(st, qsf_conversation_error(first), e);
    answers_loosened(j, qsf_answer_loosened(qsf_conversation_answer(first)));
    return true;
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
        for (int k = 0; k < 4; k++) text_free(&ch->logprobs[k]);
        qsf_conversation_free(ch->talk);
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

void answers_go_on(front_job *j, const serve_event *ev, const char *text, serve_text *out)
{
    qsf_conversation *talk = j->choices[ev->branch].talk;
    const bool last = ev->kind == EVENT_END;
    const qsf_turn_piece p = { .size = sizeof p, .token = last ? -1 : ev->token, .text = text,
                               .len = last ? 0 : ev->len, .end = last ? (qsf_turn_end)ev->end : 0 };
    qsf_answer_event e = { .size = sizeof e };
    bool ok = !qsf_conversation_push(talk, &p);
    while (ok && !qsf_conversation_event(talk, &e)) ok = item_event(j, ev->branch, &e, out);
    if (ok && last) item_end(j, ev->branch, QSF_ANSWER_CALL_END, out);
    if (!ok) serve_refuse(&j->error, 503, NULL, NULL, "out of memory for the answer");
}
