/* The form of a model's calls by the interpreter of its template.
 * SPDX-License-Identifier: MIT */
#include "chat/chat_own.h"
#include "chat/jinja_json.h"
#include "chat/tools.h"

enum { TR_TOKENS = 4 };

typedef struct tr_work { const qsf_chat_ask *ask; chat_engine engine; } tr_work;

static qsf_jinja_var *tr_members(const qsf_jinja_value *values, qsf_jinja_var *out)
{
    for (uint32_t i = 0; i < values->n; i++)
        *out++ = (qsf_jinja_var){ values->as.items[2 * i].as.text, values->as.items[2 * i + 1] };
    return out;
}

/* kwargs come last: they replace what has their name. */
static qsf_status tr_render_read(tr_work *w, const qsf_json_node *given, char *out, size_t cap, size_t *len)
{
    const qsf_chat_ask *ask = w->ask;
    const struct { const char *name, *text; } tokens[TR_TOKENS] = {
        { "bos_token", ask->bos }, { "eos_token", ask->eos }, { "unk_token", ask->unk },
        { "pad_token", ask->pad },
    };
    const qsf_jinja_value none = { .type = QSF_JINJA_NONE };
    const uint32_t n_kwargs = ask->kwargs ? ask->kwargs->skip : 0;
    const uint64_t n_values = (uint64_t)given->skip + n_kwargs, n_vars = 2 + TR_TOKENS + n_values;
    const uint64_t bytes = n_values * sizeof(qsf_jinja_value) + n_vars * sizeof(qsf_jinja_var);
    qsf_jinja_value *values = qsf_alloc(ask->platform, bytes, "reading the chat template", NULL);
    if (!values) return QSF_E_MEMORY;
    qsf_jinja_var *vars = (qsf_jinja_var *)(void *)(values + n_values), *v = vars;
    *v++ = (qsf_jinja_var){ "documents", none };
    if (!qsf_json_member(given, "tools")) *v++ = (qsf_jinja_var){ "tools", none };
    for (int i = 0; i < TR_TOKENS; i++)
        if (tokens[i].text) *v++ = (qsf_jinja_var){ tokens[i].name, qsf_jinja_text(tokens[i].text) };
    qsf_jinja_from_json(given, values);
    v = tr_members(values, v);
    if (n_kwargs) {
        qsf_jinja_from_json(ask->kwargs, values + given->skip);
        v = tr_members(values + given->skip, v);
    }
    /* of two with one name the last counts: the others go */
    size_t n = 0;
    for (qsf_jinja_var *a = vars; a < v; a++) {
        bool again = false;
        for (qsf_jinja_var *b = a + 1; b < v && !again; b++) again = !strcmp(a->name, b->name);
        if (!again) vars[n++] = *a;
    }
    qsf_status st = qsf_chat_engine_render(&w->engine, vars, n, ask->now, NULL);
    if (!st && w->engine.len >= cap) st = QSF_E_BUDGET;
    *len = w->engine.len;
    if (!st) memcpy(out, w->engine.out, *len + 1);
    qsf_dealloc(ask->platform, values, bytes);
    return st;
}

static qsf_status tr_render(void *user, const char *variables, char *out, size_t cap, size_t *len)
{
    tr_work *w = user;
    qsf_json j;
    qsf_status st = qsf_json_read(w->ask->platform, variables, strlen(variables), "messages", &j, NULL);
    if (st) return st;
    st = tr_render_read(w, j.nodes, out, cap, len);
    qsf_json_drop(&j);
    return st;
}

qsf_status qsf_tool_form_of(const qsf_chat_ask *ask, qsf_tool_form *out, qsf_error *err)
{
    tr_work w = { .ask = ask };
    qsf_chat_engine_init(&w.engine, ask->platform, ask->jinja, 4096);
    const qsf_status st = qsf_tool_form_find(ask->platform, ask->jinja, tr_render, &w, out, err);
    qsf_chat_engine_drop(&w.engine);
    return st;
}
