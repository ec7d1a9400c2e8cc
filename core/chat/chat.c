/* Conversations: messages and variables for a template, and the text with its spans.
 * SPDX-License-Identifier: MIT */
#include "chat/chat_own.h"
#include "text/unicode.h"

/* ---- messages ---- */

/* Roles that templates know count as the template's text: "<|user|>" may be built from one.
 * Any other role is the caller's text. */
static qsf_jinja_value chat_own_role(qsf_jinja_value role)
{
    static const char *const known[] = { "system", "user", "assistant", "tool", "developer", "function",
                                         "ipython", "model" };
    for (size_t i = 0; i < QSF_ARRAY_LEN(known); i++)
        if (qsf_chat_is(&role, known[i])) role.flags |= QSF_JINJA_OWN;
    return role;
}

static qsf_jinja_value chat_plain_messages(chat_run *run)
{
    const qsf_chat_ask *ask = run->ask;
    qsf_jinja_value *list = qsf_chat_values(run, ask->n), *pairs;
    for (size_t i = 0; i < ask->n && list; i++) {
        if (!(pairs = qsf_chat_values(run, 4))) break;
        pairs[0] = qsf_jinja_text("role");
        pairs[1] = chat_own_role(qsf_jinja_text(ask->messages[i].role));
        pairs[2] = qsf_jinja_text("content");
        pairs[3] = qsf_jinja_text(ask->messages[i].content);
        list[i] = qsf_jinja_dict(pairs, 2);
    }
    return qsf_jinja_list(list, ask->n);
}

static qsf_jinja_value chat_messages(chat_run *run)
{
    const qsf_json_node *json = run->ask->json;
    if (!json) return chat_plain_messages(run);
    qsf_jinja_value all = qsf_chat_json(run, json);
    if (run->st) return all;
    if (all.type != QSF_JINJA_LIST) {
        run->st = qsf_fail(run->err, QSF_E_ARGUMENT, "the messages are not a list: write them as [{\"role\": "
                           "\"user\", \"content\": \"...\"}, ...]");
        return all;
    }
    qsf_jinja_value *list = qsf_chat_values(run, all.n);
    for (uint32_t i = 0; i < all.n && !run->st; i++) {
        const qsf_jinja_value *m = &all.as.items[i], *role = qsf_jinja_member(m, "role");
        if (m->type != QSF_JINJA_DICT)
            run->st = qsf_fail(run->err, QSF_E_ARGUMENT, "message %u is not an object with a role and a "
                                                         "content",
                               (unsigned)i);
        else list[i] = role ? qsf_chat_with(run, m, "role", chat_own_role(*role)) : *m;
    }
    return qsf_jinja_list(list, all.n);
}

static qsf_jinja_value chat_optional(chat_run *run, const qsf_json_node *json)
{
    return json ? qsf_chat_json(run, json) : (qsf_jinja_value){ .type = QSF_JINJA_NONE };
}

static void chat_variable(chat_run *run, const char *name, qsf_jinja_value v)
{
    for (size_t i = 0; i < run->n_vars; i++)
        if (!strcmp(run->vars[i].name, name)) {
            run->vars[i].value = v;
            return;
        }
    run->vars[run->n_vars++] = (qsf_jinja_var){ name, v };
}

/* All but the messages.  A keyword argument replaces what has its name. */
static void chat_variables(chat_run *run)
{
    const qsf_chat_ask *ask = run->ask;
    const struct { const char *name, *text; } tokens[] = {
        { "bos_token", ask->bos }, { "eos_token", ask->eos }, { "unk_token", ask->unk },
        { "pad_token", ask->pad },
    };
    const qsf_jinja_value kwargs = chat_optional(run, ask->kwargs);
    const size_t most = 4 + QSF_ARRAY_LEN(tokens) + (kwargs.type == QSF_JINJA_DICT ? kwargs.n : 0);
    if (run->st) return;
    if (!(run->vars = qsf_arena_array(run->arena, most, sizeof *run->vars, CHAT_WHAT, run->err))) {
        run->st = QSF_E_MEMORY;
        return;
    }
    chat_variable(run, "messages", (qsf_jinja_value){ .type = QSF_JINJA_NONE });
    chat_variable(run, "add_generation_prompt", qsf_jinja_bool(ask->generate));
    chat_variable(run, "tools", chat_optional(run, ask->tools));
    chat_variable(run, "documents", chat_optional(run, ask->documents));
    for (size_t i = 0; i < QSF_ARRAY_LEN(tokens); i++) {
        qsf_jinja_value text = qsf_jinja_text(tokens[i].text ? tokens[i].text : "");
        text.flags |= QSF_JINJA_OWN;
        if (tokens[i].text) chat_variable(run, tokens[i].name, text);
    }
    if (kwargs.type == QSF_JINJA_DICT)          /* JSON's texts are terminated */
        for (uint32_t i = 0; i < kwargs.n; i++)
            chat_variable(run, kwargs.as.items[2 * i].as.text, kwargs.as.items[2 * i + 1]);
}

static uint64_t chat_payload(const qsf_chat_ask *ask)
{
    const qsf_json_node *const json[] = { ask->json, ask->tools, ask->documents, ask->kwargs };
    uint64_t n = 1024;
    for (size_t i = 0; i < ask->n; i++) n += strlen(ask->messages[i].role) + strlen(ask->messages[i].content);
    for (size_t i = 0; i < QSF_ARRAY_LEN(json); i++)
        for (uint32_t k = 0; json[i] && k < json[i]->skip; k++) n += 16 + json[i][k].n;
    return n;
}

static qsf_status chat_run_begin(chat_run *run, const qsf_chat_ask *ask, qsf_error *err)
{
    *run = (chat_run){ .ask = ask, .err = err };
    if ((run->st = qsf_arena_new(ask->platform, &run->arena, err))) return run->st;
    qsf_chat_engine_init(&run->engine, ask->platform, ask->jinja, chat_payload(ask));
    chat_variables(run);
    return run->st;
}

static void chat_run_end(chat_run *run)
{
    for (chat_document *d = run->documents; d; d = d->next) qsf_json_drop(&d->json);
    qsf_chat_engine_drop(&run->engine);
    qsf_arena_free(run->arena);
}

/* ---- continuing the last message, as transformers does ---- */

static const char chat_mark[] = "CONTINUE_FINAL_MESSAGE_TAG ";
enum { CHAT_MARK = sizeof chat_mark - 1 };

static qsf_status goes_on_bad(chat_run *run, const char *why)
{
    return run->st = qsf_fail(run->err, QSF_E_ARGUMENT, "the last message cannot be continued: %s", why);
}

static qsf_jinja_value goes_on_marked(chat_run *run, const qsf_jinja_value *text)
{
    const qsf_jinja_value mark = qsf_jinja_text(chat_mark);
    return qsf_chat_joined(run, text, "", &mark);
}

/* Appends a mark to the text of the last message, or to the last text among its parts; *text: the
 * text before that. */
static qsf_status goes_on_mark(chat_run *run, qsf_jinja_value *messages, qsf_jinja_value *text)
{
    if (!messages->n) return goes_on_bad(run, "the list is empty");
    qsf_jinja_value *list = qsf_chat_values(run, messages->n), *parts;
    if (!list) return run->st;
    memcpy(list, messages->as.items, messages->n * sizeof *list);
    qsf_jinja_value *last = &list[messages->n - 1];
    const qsf_jinja_value *content = qsf_jinja_member(last, "content"), *found = NULL;
    if (content && content->type == QSF_JINJA_TEXT) {
        *text = *content;
        *last = qsf_chat_with(run, last, "content", goes_on_marked(run, text));
    } else if (content && content->type == QSF_JINJA_LIST && (parts = qsf_chat_values(run, content->n))) {
        uint32_t i = content->n;
        if (i) memcpy(parts, content->as.items, i * sizeof *parts);
        while (i && !(found = qsf_jinja_member(&parts[i - 1], "text"))) i--;
        if (!found || found->type != QSF_JINJA_TEXT) return goes_on_bad(run, "none of its parts is text");
        *text = *found;
        parts[i - 1] = qsf_chat_with(run, &parts[i - 1], "text", goes_on_marked(run, text));
        *last = qsf_chat_with(run, last, "content", qsf_jinja_list(parts, content->n));
    } else if (!run->st) {
        return goes_on_bad(run, "it has no text");
    }
    *messages = qsf_jinja_list(list, messages->n);
    return run->st;
}

/* As Python's strip(), which takes more than is white space in Unicode. */
static bool chat_blank(const char *p, size_t n, size_t *used)
{
    const uint32_t c = qsf_utf8_decode(p, n, used);
    return qsf_is_space(c) || (c >= 0x1c && c <= 0x1f);
}
static size_t chat_right(const char *p, size_t n)
{
    while (n) {
        size_t at = n - 1, used;
        while (at && n - at < 4 && (p[at] & 0xc0) == 0x80) at--;
        if (!chat_blank(p + at, n - at, &used) || at + used != n) break;
        n = at;
    }
    return n;
}
static size_t chat_left(const char *p, size_t n)
{
    size_t at = 0, used;
    while (at < n && chat_blank(p + at, n - at, &used)) at += used;
    return at;
}

/* Cuts the text at the mark. */
static qsf_status goes_on_cut(chat_run *run, const qsf_jinja_value *text)
{
    chat_engine *e = &run->engine;
    const size_t n = chat_right(text->as.text, text->n), begin = n ? chat_left(text->as.text, n) : 0;
    size_t at = e->len;
    while (at-- > 0 && (e->len - at < CHAT_MARK - 1 || memcmp(e->out + at, chat_mark, CHAT_MARK - 1)))
        if (!at) break;
    if (!e->len || e->len - at < CHAT_MARK - 1 || memcmp(e->out + at, chat_mark, CHAT_MARK - 1)
        || !qsf_chat_engine_wrote(e, text->as.text + begin, n - begin))
        return goes_on_bad(run, "the template does not write it unchanged");
    const bool whole = e->len - at >= CHAT_MARK && e->out[at + CHAT_MARK - 1] == ' ';
    e->len = whole ? at : chat_right(e->out, at);
    e->out[e->len] = 0;
    return QSF_OK;
}

/* ---- all of it ---- */

/* Adds to the template's message which message of the conversation it refuses: the last one of the
 * shortest prefix that it refuses. */
static void chat_name_refused(chat_run *run, const qsf_jinja_value *messages)
{
    uint32_t low = 0, high = messages->n;
    char why[sizeof run->err->text];
    qsf_error ignored;
    while (high - low > 1) {
        const uint32_t n = low + (high - low) / 2;
        const qsf_jinja_value some = qsf_jinja_list(messages->as.items, n);
        if (qsf_chat_run_render(run, &some, false, &ignored)) high = n;
        else low = n;
    }
    if (run->st || !run->err || !messages->n) return;
    const qsf_jinja_value *role = qsf_jinja_member(&messages->as.items[high - 1], "role");
    if (!role || role->type != QSF_JINJA_TEXT) return;
    memcpy(why, run->err->text, sizeof why);
    qsf_fail(run->err, run->err->status, "%.300s (message %u, whose role is \"%.40s\")", why,
             (unsigned)high - 1, role->as.text);
}

/* The messages as text in the engine, adapted if that is asked for. */
static qsf_status chat_rendered(chat_run *run)
{
    const qsf_chat_ask *ask = run->ask;
    const bool generate = ask->generate && !ask->goes_on;
    qsf_jinja_value messages = chat_messages(run), text = qsf_jinja_text("");
    qsf_error other;
    if (!run->st && !ask->as_given) qsf_chat_adapt(run, &messages);
    if (!run->st && ask->goes_on) goes_on_mark(run, &messages, &text);
    if (run->st) return run->st;
    const qsf_status st = qsf_chat_run_render(run, &messages, generate, run->err);
    const bool refused = (st == QSF_E_CANCELLED || st == QSF_E_ARGUMENT) && !ask->as_given;
    const qsf_jinja_value given = messages;
    qsf_status again = st;
    /* the template takes the shape, but refuses the actual texts */
    for (int i = 0; refused && again && i < CHAT_REMEDIES && !run->st; i++)
        if (i != CHAT_TEXT_LATER && qsf_chat_remedy_apply(run, (chat_remedy)i, &messages))
            again = qsf_chat_run_render(run, &messages, generate, &other);
    if (again && refused && st == QSF_E_CANCELLED && !run->st) chat_name_refused(run, &given);
    if (run->st) return run->st;
    if (again) return st ? st : again;
    return ask->goes_on ? goes_on_cut(run, &text) : QSF_OK;
}

static qsf_status chat_spans(const chat_engine *e, qsf_chat_text *out, qsf_error *err)
{
    size_t n = 0, i = 0;
    for (size_t at = 0; at < e->len; at += qsf_jinja_stretch(e->own, at, e->len)) n++;
    qsf_text_span *spans = qsf_arena_array(out->arena, n + 1, sizeof *spans, CHAT_WHAT, err);
    if (!spans || !(out->text = qsf_arena_text(out->arena, e->out, e->len, err))) return QSF_E_MEMORY;
    for (size_t at = 0; at < e->len; at += spans[i++].len)
        spans[i] = (qsf_text_span){ at, qsf_jinja_stretch(e->own, at, e->len), qsf_jinja_is_own(e->own, at) };
    out->spans = spans;
    out->n_spans = n;
    out->len = e->len;
    return QSF_OK;
}

qsf_status qsf_chat_write(const qsf_chat_ask *ask, qsf_chat_text *out, qsf_error *err)
{
    chat_run run;
    *out = (qsf_chat_text){ 0 };
    qsf_status st = chat_run_begin(&run, ask, err);
    if (!st) st = chat_rendered(&run);
    if (!st && !(st = qsf_arena_new(ask->platform, &out->arena, err))) st = chat_spans(&run.engine, out, err);
    chat_run_end(&run);
    if (st) qsf_chat_text_drop(out);
    return st;
}

void qsf_chat_text_drop(qsf_chat_text *t)
{
    qsf_arena_free(t->arena);
    *t = (qsf_chat_text){ 0 };
}

/* ---- what ends a turn ---- */

static const char stop_answer[] = "f8aYeq1", stop_next[] = "nQ4xbz7";

static size_t stop_after(const qsf_chat_text *t, const char *text, size_t from)
{
    const size_t n = strlen(text);
    for (size_t at = from; at + n <= t->len; at++)
        if (!memcmp(t->text + at, text, n)) return at + n;
    return 0;
}

/* The first line of text[0..n) that is not empty, with what blanks stand before it if leading. */
static size_t stop_line(const char *text, size_t n, bool leading, char *out, size_t cap)
{
    const size_t begin = chat_left(text, n);
    size_t end = begin;
    while (end < n && text[end] != '\n') end++;
    end = chat_right(text, end);
    if (end <= begin) return 0;
    const char *from = leading ? text : text + begin;
    const size_t len = QSF_MIN((size_t)(text + end - from), cap - 1);
    memcpy(out, from, len);
    out[len] = 0;
    return len;
}

/* The text after the last answer of a conversation; if that is empty, the text between an answer
 * and the next question. */
qsf_status qsf_chat_find_stop(const qsf_chat_ask *ask, char *out, size_t cap, size_t *len, qsf_error *err)
{
    static const qsf_message talk[] = { { "user", "Hello" }, { "assistant", stop_answer },
                                        { "user", stop_next } };
    qsf_status st = QSF_OK;
    *len = 0;
    out[0] = 0;
    for (size_t n = 2; n <= 3 && !*len && !st; n++) {
        qsf_chat_text t;
        const qsf_chat_ask own = { .platform = ask->platform, .jinja = ask->jinja, .bos = ask->bos,
                                   .eos = ask->eos, .unk = ask->unk, .pad = ask->pad, .kwargs = ask->kwargs,
                                   .now = ask->now, .messages = talk, .n = n, .may_drop = true };
        if ((st = qsf_chat_write(&own, &t, err))) break;
        const size_t at = stop_after(&t, stop_answer, 0), next = at ? stop_after(&t, stop_next, at) : 0;
        const size_t end = next ? next - strlen(stop_next) : n == 2 ? t.len : at;
        if (at) *len = stop_line(t.text + at, end - at, n == 3, out, cap);
        qsf_chat_text_drop(&t);
    }
    return st;
}
