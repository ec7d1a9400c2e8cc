/* What the tests of tools share: the tools, answers in pieces, and what a message has to say.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TOOLS_CASE_H
#define QSF_TOOLS_CASE_H

#include "chat/tools.h"
#include "test.h"

enum { OUT = 1 << 17 };

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"d\",\"parameters\":{"
    "\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"description\":\"d\"},"
    "\"code\":{\"type\":\"string\",\"description\":\"d\"},\"days\":{\"type\":\"integer\",\"description\":"
    "\"d\"},\"extra\":{\"type\":\"object\",\"description\":\"d\",\"additionalProperties\":{\"type\":"
    "\"string\"}},\"metric\":{\"type\":\"boolean\",\"description\":\"d\"}},\"required\":[\"city\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"noop-2\",\"description\":\"d\",\"parameters\":{\"type\":"
    "\"object\",\"properties\":{\"x\":{\"type\":\"number\",\"description\":\"d\"}},\"required\":[]}}}]";

static const qsf_platform *host;

/* ---- answers ---- */

static uint64_t random_state = 1;
static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

typedef enum pieces { WHOLE, BYTES, RANDOM } pieces;

static qsf_tool_answer *answer_new(const qsf_tool_form *f, const char *list)
{
    qsf_tool_answer *a;
    qsf_error err;
    const qsf_status st = qsf_tool_answer_new(host, f, list, list ? strlen(list) : 0, 7, &a, &err);
    if (st) printf("    %s\n", err.text);
    CHECK_EQ(st, QSF_OK);
    return a;
}

/* What the events say, put together again; it must be what the message says. */
typedef struct heard { char text[OUT], reasoning[OUT], calls[OUT]; } heard;
static heard events;

static void hear(qsf_tool_answer *a)
{
    qsf_tool_event e;
    while (qsf_tool_answer_next(a, &e)) {
        char *to = e.type == QSF_TE_TEXT ? events.text : e.type == QSF_TE_REASONING ? events.reasoning
            : events.calls;
        size_t n = strlen(to);
        if (e.type == QSF_TE_CALL) n += (size_t)snprintf(to + n, OUT - n, "\n%u ", (unsigned)e.call);
        if (e.type == QSF_TE_CALL_DROPPED) *strrchr(to, '\n') = 0;
        if (n + e.len >= OUT) continue;
        memcpy(to + n, e.text, e.len);
        to[n + e.len] = 0;
        if (e.type == QSF_TE_CALL) strcat(to, " ");
    }
}

/* The message, for the caller to free. */
static char *answer_in(const qsf_tool_form *f, const char *list, const char *text, size_t n, pieces how)
{
    qsf_tool_answer *a = answer_new(f, list);
    const char *json;
    size_t len;
    qsf_error err;
    events.text[0] = events.reasoning[0] = events.calls[0] = 0;
    for (size_t at = 0; at < n || !at;) {
        const size_t most = how == WHOLE ? n : how == BYTES ? 1 : 1 + random_below(9);
        const size_t k = QSF_MIN(most, n - at);
        char *copy = malloc(k ? k : 1);
        memcpy(copy, text + at, k);
        at += k;
        CHECK_EQ(qsf_tool_answer_push(a, copy, k, at == n, &err), QSF_OK);
        free(copy);
        hear(a);
        if (!n) break;
    }
    CHECK_EQ(qsf_tool_answer_json(a, &json, &len, &err), QSF_OK);
    char *out = malloc(len + 1);
    memcpy(out, json, len + 1);
    qsf_tool_answer_free(a);
    return out;
}

/* The message of an answer, which is the same however the answer is cut. */
static char *answer(const qsf_tool_form *f, const char *list, const char *text, size_t n)
{
    char *whole = answer_in(f, list, text, n, WHOLE);
    for (pieces how = BYTES; how <= RANDOM; how++) {
        char *other = answer_in(f, list, text, n, how);
        if (strcmp(whole, other)) printf("    answer: %.*s\n", (int)n, text);
        CHECK_STR(other, whole);
        free(other);
    }
    return whole;
}

static bool same_json(const qsf_json_node *a, const char *text)
{
    qsf_json j;
    bool same = !qsf_json_read(host, text, strlen(text), "expected", &j, NULL);
    same = same && a->skip == j.nodes->skip;
    for (uint32_t i = 0; same && i < a->skip; i++)
        same = a[i].type == j.nodes[i].type && a[i].n == j.nodes[i].n
            && ((a[i].type != QSF_JSON_TEXT && a[i].type != QSF_JSON_NUMBER)
                || !memcmp(a[i].text, j.nodes[i].text, a[i].n));
    qsf_json_drop(&j);
    return same;
}

typedef struct call { const char *name, *arguments; } call;

/* Whether a message says this; NULL: nothing. */
static void check_message(const char *message, const char *content, const char *reasoning, const call *calls,
                          size_t n_calls, const char *of, const char *body)
{
    qsf_json j, arguments;
    qsf_error err;
    bool ok = !qsf_json_read(host, message, strlen(message), "message", &j, &err);
    CHECK(ok);
    if (!ok) return;
    const qsf_json_node *c = qsf_json_member(j.nodes, "content"),
        *r = qsf_json_member(j.nodes, "reasoning_content"), *t = qsf_json_member(j.nodes, "tool_calls");
    ok = content ? qsf_json_is_text(c, content) : c->type == QSF_JSON_NULL || qsf_json_is_text(c, "");
    ok = ok && (reasoning ? r && qsf_json_is_text(r, reasoning) : !r);
    ok = ok && !strcmp(events.text, content ? content : "");       /* and no more was shown on the way */
    ok = ok && (t ? t->n : 0) == n_calls;
    const qsf_json_node *v = t ? qsf_json_first(t) : NULL;
    for (size_t i = 0; ok && i < n_calls; i++, v = qsf_json_next(v)) {
        const qsf_json_node *f = qsf_json_member(v, "function"), *a = qsf_json_member(f, "arguments");
        ok = qsf_json_is_text(qsf_json_member(f, "name"), calls[i].name)
            && !qsf_json_read(host, a->text, a->n, "arguments", &arguments, &err);
        if (!ok) break;
        ok = same_json(arguments.nodes, calls[i].arguments);
        qsf_json_drop(&arguments);
    }
    if (!ok) printf("    %s: of %s\n      came %s\n", of, body, message);
    CHECK(ok);
    qsf_json_drop(&j);
}

/* ---- grammars ---- */

static inline bool fits(qsf_grammar *g, const char *text)
{
    qsf_matcher *m;
    qsf_error err;
    CHECK_EQ(qsf_matcher_new(host, g, NULL, &m, &err), QSF_OK);
    const size_t n = qsf_matcher_bytes(m, text, strlen(text));
    const bool whole = n == strlen(text) && qsf_matcher_whole(m);
    qsf_matcher_free(m);
    return whole;
}

/* Where the grammar begins in an answer; NULL: nowhere. */
static inline const char *begin_of(const qsf_tool_grammar *g, const char *body)
{
    const char *at = NULL;
    for (size_t k = 0; k < g->n_after && !at; k++)
        if ((at = strstr(body, g->after[k])) && !g->with) at += strlen(g->after[k]);
    return g->n_after ? at : body;
}

#endif
