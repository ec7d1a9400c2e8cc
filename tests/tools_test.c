/* Tools: the forms that templates show, and answers in pieces.
 * SPDX-License-Identifier: MIT
 *
 *   tools_test --forms FILE...     for tools/make_tools.py: the form of each template in FILE, a line
 *                                  for each text */
#include "text/chat.h"
#include "text/tools.h"
#include "test.h"

enum { OUT = 1 << 17 };

static const char *const templates[] = {
    "Apertus-8B-Instruct", "ByteDance-Seed-OSS", "CohereForAI-c4ai-command-r-plus-tool_use", "GLM-4.6",
    "HuggingFaceTB-SmolLM3-3B", "Kimi-K2-Instruct", "LFM2-8B-A1B", "MiniMax-M2",
    "Mistral-Small-3.2-24B-Instruct-2506", "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B",
    "Qwen3-Coder", "Qwen3.5-4B", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-ai-DeepSeek-V3.1",
    "fireworks-ai-llama-3-firefunction-v2", "google-gemma-2-2b-it", "google-gemma-4-31B-it",
    "ibm-granite-granite-3.3-2B-Instruct", "ibm-granite-granite-4.0", "meetkai-functionary-medium-v3.2",
    "meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct",
    "microsoft-Phi-3.5-mini-instruct", "mistralai-Ministral-3-14B-Reasoning-2512",
    "mistralai-Mistral-Nemo-Instruct-2407", "openai-gpt-oss-120b",
};

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"d\",\"parameters\":{"
    "\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"description\":\"d\"},"
    "\"code\":{\"type\":\"string\",\"description\":\"d\"},\"days\":{\"type\":\"integer\",\"description\":"
    "\"d\"},\"extra\":{\"type\":\"object\",\"description\":\"d\",\"additionalProperties\":{\"type\":"
    "\"string\"}},\"metric\":{\"type\":\"boolean\",\"description\":\"d\"}},\"required\":[\"city\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"noop-2\",\"description\":\"d\",\"parameters\":{\"type\":"
    "\"object\",\"properties\":{\"x\":{\"type\":\"number\",\"description\":\"d\"}},\"required\":[]}}}]";

static const qsf_platform *host;

/* ---- templates ---- */

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = f ? calloc(1, OUT) : NULL;
    if (text) text[fread(text, 1, OUT - 1, f)] = 0;
    if (f) fclose(f);
    return text;
}

static char *read_template(const char *name)
{
    char path[1024];
    const char *shared = getenv("QSF_SHARED_DIR");
    snprintf(path, sizeof path, "%s/data/templates/%s.jinja", shared ? shared : "../shared", name);
    return read_file(path);
}

static const char thinks[] = "{\"functions\":\"\",\"datetime\":\"\",\"enable_thinking\":true,\"thinking\":true}";
static const char plain[] = "{\"functions\":\"\",\"datetime\":\"\"}";

/* What a template writes of these messages; false: it refuses. */
static bool render(const char *jinja, const char *messages, const char *kwargs, bool generate, char *out)
{
    qsf_json m, t, k;
    qsf_chat_text text;
    qsf_error err;
    if (qsf_json_read(host, messages, strlen(messages), "messages", &m, &err)) {
        printf("%s\n", err.text);
        exit(2);
    }
    qsf_json_read(host, tools, strlen(tools), "tools", &t, NULL);
    qsf_json_read(host, kwargs, strlen(kwargs), "kwargs", &k, NULL);
    const qsf_chat_ask ask = { .platform = host, .jinja = jinja, .bos = "<BOS>", .eos = "<EOS>",
                               .json = m.nodes, .tools = t.nodes, .kwargs = k.nodes, .generate = generate,
                               .as_given = true, .now = 1721995200 };
    const bool ok = !qsf_chat_write(&ask, &text, &err);
    if (ok) snprintf(out, OUT, "%s", text.text);
    qsf_chat_text_drop(&text);
    qsf_json_drop(&m);
    qsf_json_drop(&t);
    qsf_json_drop(&k);
    return ok;
}

static void form_of(const char *jinja, const char *kwargs, qsf_tool_form *f)
{
    qsf_json k;
    qsf_error err;
    qsf_json_read(host, kwargs, strlen(kwargs), "kwargs", &k, NULL);
    const qsf_chat_ask ask = { .platform = host, .jinja = jinja, .bos = "<BOS>", .eos = "<EOS>",
                               .kwargs = k.nodes, .now = 1721995200 };
    CHECK_EQ(qsf_tool_form_of(&ask, f, &err), QSF_OK);
    qsf_json_drop(&k);
}

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

/* ---- there and back ---- */

static const call all_calls[] = {
    { "get_weather", "{\"city\": \"Z\\u00fcrich \\\"x\\\" \\\\ 'y'\\n<b>\xe6\x97\xa5\xe6\x9c\xac</b>\", "
                     "\"days\": 3, \"extra\": {\"a\": [1, 2.5, null, \"q's \\\"z\\\"\"], \"b\": {}}, "
                     "\"metric\": true}" },
    { "noop-2", "{\"x\": -1.5}" },
    { "get_weather", "{\"city\": \"\", \"code\": \"def f():\\n    return {'a': \\\"b\\\"}\\n\"}" },
    { "noop-2", "{}" },
};

static void put_message(char *out, const char *content, const char *reasoning, const call *calls, size_t n,
                        bool as_text)
{
    qsf_text t = { .platform = host };
    qsf_text_put(&t, "[{\"role\":\"user\",\"content\":\"Hi\"}");
    if (content || n) {
        qsf_text_put(&t, ",{\"role\":\"assistant\",\"content\":\"");
        qsf_text_json(&t, content ? content : "", content ? strlen(content) : 0);
        qsf_text_put(&t, "\"");
        for (int i = 0; reasoning && i < 2; i++) {
            qsf_text_put(&t, i ? ",\"thinking\":\"" : ",\"reasoning_content\":\"");
            qsf_text_json(&t, reasoning, strlen(reasoning));
            qsf_text_put(&t, "\"");
        }
        for (size_t i = 0; i < n; i++) {
            char head[128];
            snprintf(head, sizeof head, "%s{\"id\":\"abc00000%u\",\"type\":\"function\",\"function\":{\"name\":"
                     "\"%s\",\"arguments\":", i ? "," : ",\"tool_calls\":[", (unsigned)i, calls[i].name);
            qsf_text_put(&t, head);
            if (as_text) qsf_text_put(&t, "\"");
            if (as_text) qsf_text_json(&t, calls[i].arguments, strlen(calls[i].arguments));
            else qsf_text_put(&t, calls[i].arguments);
            qsf_text_put(&t, as_text ? "\"}}" : "}}");
        }
        qsf_text_put(&t, n ? "]}" : "}");
    }
    qsf_text_put(&t, "]");
    snprintf(out, OUT, "%s", t.at);
    qsf_text_drop(&t);
}

/* What the model would have written of a conversation's rendering: behind the generation prompt, as
 * far as that is there, and before what ends a turn. */
static char *written(char *all, const char *prompt, const char *end, bool *begun)
{
    size_t at = 0, n = strlen(all), k = strlen(end);
    *begun = !strncmp(all, prompt, strlen(prompt));
    while (prompt[at] && prompt[at] == all[at]) at++;
    while (!*begun && at && strchr("<|", all[at - 1])) at--;
    while (!*begun && at && (unsigned char)all[at - 1] >= 0x80) at--;
    while (!*begun && at && all[at - 1] == '<') at--;
    for (size_t m = strlen(prompt); !*begun && m; m--) {
        if (strncmp(all + at, prompt + strlen(prompt) - m, m)) continue;
        at += m;
        break;
    }
    while (k && (n < k || strcmp(all + n - k, end))) end++, k--;
    all[n - k] = 0;
    return all + at;
}

static char prompt[OUT], end[OUT], messages[OUT], rendered[OUT];

static void there_and_back(const char *name, const char *jinja, const qsf_tool_form *f, const char *kwargs,
                           const char *content, const char *reasoning, const call *calls, size_t n)
{
    bool begun, ok = false;
    const bool channels = f->style == QSF_TOOLS_CHANNELS;
    if (channels && n) content = NULL;
    for (int as_text = 0; as_text < 2 && !ok; as_text++) {
        put_message(messages, content, reasoning, calls, n, as_text);
        ok = render(jinja, messages, kwargs, false, rendered);
    }
    if (!ok) return;
    char *body = written(rendered, prompt, channels && n ? "" : end, &begun);
    const char *stop = strstr(body, "<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>");
    if (stop) body[stop - body] = 0;
    qsf_tool_form form = *f;
    if (!begun) form.in_reasoning = false;
    const char *thought = reasoning && strstr(body, reasoning) ? reasoning : NULL;
    if (!strstr(body, calls->name)) n = 0;
    if (channels) n = QSF_MIN(n, 1);
    char *message = answer(&form, tools, body, strlen(body));
    check_message(message, content && strstr(body, content) ? content : NULL, thought, calls, n, name, body);
    free(message);
}

TEST(what_templates_write_comes_back)
{
    static const char *const contents[] = { NULL, "Some text.\n\nSecond { paragraph } [1] <b>.", "{\"a\": 1}" };
    static const struct { const call *calls; size_t n; } rows[] = { { all_calls, 0 }, { all_calls, 1 },
        { all_calls, 2 }, { all_calls + 1, 1 }, { all_calls + 2, 1 }, { all_calls + 3, 1 }, { all_calls, 4 } };
    for (size_t t = 0; t < QSF_ARRAY_LEN(templates); t++) {
        char *jinja = read_template(templates[t]);
        if (!jinja) SKIP("no data/templates in QSF_SHARED_DIR");
        for (size_t i = 0; i < 6; i++) {
            qsf_tool_form f;
            const char *kwargs = i % 2 ? thinks : plain;
            form_of(jinja, kwargs, &f);
            put_message(messages, NULL, NULL, NULL, 0, false);
            CHECK(render(jinja, messages, kwargs, true, prompt));
            put_message(messages, "qsftext", NULL, NULL, 0, false);
            end[0] = 0;
            if (render(jinja, messages, kwargs, false, rendered))
                snprintf(end, sizeof end, "%s", strstr(rendered, "qsftext") + 7);
            for (size_t k = 0; k < QSF_ARRAY_LEN(rows); k++)
                if (contents[i / 2] || rows[k].n)
                    there_and_back(templates[t], jinja, &f, kwargs, contents[i / 2],
                                   i % 2 ? "I think\nso: 1 < 2." : NULL, rows[k].calls, rows[k].n);
        }
        free(jinja);
    }
}

/* ---- answers that are none of the form's ---- */

static void set_text(qsf_tool_form *f, qsf_tool_text which, const char *text)
{
    snprintf(f->text[which], QSF_TOOL_TEXT_MOST, "%s", text);
}

/* One form of each style. */
static void form_like(qsf_tool_form *f, const char *name)
{
    qsf_tool_form_plain(f);
    if (!strcmp(name, "plain")) return;
    set_text(f, QSF_TT_OPEN, "");
    set_text(f, QSF_TT_CLOSE, "");
    set_text(f, QSF_TT_BETWEEN, "");
    if (!strcmp(name, "bare")) {
        set_text(f, QSF_TT_ARGUMENTS_KEY, "parameters");
    } else if (!strcmp(name, "tags")) {
        f->style = QSF_TOOLS_TAGS;
        set_text(f, QSF_TT_OPEN, "\n<tool_call>\n<function=");
        set_text(f, QSF_TT_ARGUMENTS, ">");
        set_text(f, QSF_TT_KEY, "\n<parameter=");
        set_text(f, QSF_TT_VALUE, ">\n");
        set_text(f, QSF_TT_VALUE_END, "\n</parameter>");
        set_text(f, QSF_TT_CLOSE, "\n</function>\n</tool_call>");
    } else if (!strcmp(name, "marks")) {
        f->style = QSF_TOOLS_JSON;
        set_text(f, QSF_TT_OPEN, "[TOOL_CALLS]");
        set_text(f, QSF_TT_ID, "[CALL_ID]");
        set_text(f, QSF_TT_ARGUMENTS, "[ARGS]");
    } else if (!strcmp(name, "quoted")) {
        f->style = QSF_TOOLS_QUOTED;
        set_text(f, QSF_TT_OPEN, "<|tool_call>call:");
        set_text(f, QSF_TT_KEY, "<|\"|>");
        set_text(f, QSF_TT_CLOSE, "<tool_call|>");
    } else if (!strcmp(name, "python")) {
        f->style = QSF_TOOLS_PYTHON;
        set_text(f, QSF_TT_SECTION, "<|tool_call_start|>[");
        set_text(f, QSF_TT_BETWEEN, ",");
        set_text(f, QSF_TT_SECTION_END, "]<|tool_call_end|>");
    } else {
        f->style = QSF_TOOLS_CHANNELS;
    }
}

static const char *const styles[] = { "plain", "bare", "tags", "marks", "quoted", "python", "channels" };

static void check_answer(const char *style, const char *text, const char *content, const char *reasoning,
                         const char *name, const char *arguments)
{
    qsf_tool_form f;
    const call c = { name, arguments };
    form_like(&f, style);
    char *message = answer(&f, tools, text, strlen(text));
    check_message(message, content, reasoning, &c, name != NULL, style, text);
    free(message);
}

#define PLAIN(text) check_answer("plain", text, text, NULL, NULL, NULL)

TEST(what_is_no_call_stays_text)
{
    PLAIN("");
    PLAIN("  Hello <tool_cal");
    PLAIN("a <tool_call> b");
    PLAIN("<tool_call>{\"name\": \"get_weather\"");
    PLAIN("<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"R\"o\"}}</tool_call> and more");
    PLAIN("<tool_call>{\"name\": 5, \"arguments\": {}}</tool_call>x");
    PLAIN("<tool_call>{\"arguments\": {}}</tool_call>");
    PLAIN("<tool_call>{\"name\": \"noop-2\", \"arguments\": \"x\"}</tool_call>");
    PLAIN("<tool_call>[1]</tool_call>");
    check_answer("bare", "{\"name\": \"Ann\", \"age\": 5}", "{\"name\": \"Ann\", \"age\": 5}", NULL, NULL, NULL);
    check_answer("bare", "It is {\"name\": \"noop-2\", \"parameters\": {}}",
                 "It is {\"name\": \"noop-2\", \"parameters\": {}}", NULL, NULL, NULL);
    check_answer("marks", "[TOOL_CALLS]noop-2 is a tool", "[TOOL_CALLS]noop-2 is a tool", NULL, NULL, NULL);
    check_answer("python", "<|tool_call_start|>[noop-2(5)]", "<|tool_call_start|>[noop-2(5)]", NULL, NULL, NULL);
    check_answer("tags", "<tool_call>\n<function=noop-2>\n<parameter=x>\n5", "<tool_call>\n<function=noop-2>\n"
                 "<parameter=x>\n5", NULL, NULL, NULL);
    check_answer("channels", "Hello.", "Hello.", NULL, NULL, NULL);
}

TEST(calls_that_differ_from_the_template_are_read)
{
    check_answer("plain", "<tool_call>{\"name\":\"noop-2\",\"arguments\":{\"x\":1}}</tool_call>", NULL, NULL,
                 "noop-2", "{\"x\":1}");
    check_answer("plain", "Hm.\n\n<tool_call> {\"arguments\": {\"x\": 1}, \"name\": \"noop-2\"}", "Hm.", NULL, "noop-2",
                 "{\"x\":1}");
    check_answer("plain", "<think>\na\n</think>\n<tool_call>\n{\"name\": \"noop-2\"}\n</tool_call>", NULL, "a",
                 "noop-2", "{}");
    check_answer("plain", "<tool_call>{\"name\": \"noop-2\", \"parameters\": \"{\\\"x\\\": 2}\"}</tool_call>", NULL,
                 NULL, "noop-2", "{\"x\":2}");
    check_answer("plain", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a\nb\"}}</tool_call>",
                 NULL, NULL, "get_weather", "{\"city\":\"a\\nb\"}");
    check_answer("bare", "<|python_tag|>{\"name\": \"noop-2\", \"parameters\": {\"x\": 1}}", NULL, NULL, "noop-2",
                 "{\"x\":1}");
    check_answer("tags", "<tool_call><function=get_weather><parameter=city>Rome</parameter><parameter=days>\n3\n"
                 "</parameter></function>", NULL, NULL, "get_weather", "{\"city\":\"Rome\",\"days\":3}");
    check_answer("tags", "<tool_call>\n<function=get_weather>\n<parameter=extra>\n{'a': True, \"b\": None}\n"
                 "</parameter>\n</function>\n</tool_call>", NULL, NULL, "get_weather",
                 "{\"extra\":{\"a\":true,\"b\":null}}");
    check_answer("marks", "[TOOL_CALLS] noop-2[ARGS] {\"x\": 1}", NULL, NULL, "noop-2", "{\"x\":1}");
    check_answer("quoted", "<|tool_call>call:get_weather{city:<|\"|>a \"b\"\n<|\"|>,extra:{k:[1,<|\"|>v<|\"|>]}}"
                 "<tool_call|>", NULL, NULL, "get_weather",
                 "{\"city\":\"a \\\"b\\\"\\n\",\"extra\":{\"k\":[1,\"v\"]}}");
    check_answer("python", "<|tool_call_start|>[get_weather(city='it\\'s', days=3, metric=True)]<|tool_call_end|>", NULL,
                 NULL, "get_weather", "{\"city\":\"it's\",\"days\":3,\"metric\":true}");
    check_answer("channels", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to="
                 "functions.noop-2 <|constrain|>json<|message|>{\"x\":1}<|call|>", NULL, "Hm.", "noop-2", "{\"x\":1}");
    check_answer("channels", "<|channel|>final<|message|>Hello.<|return|>", "Hello.", NULL, NULL, NULL);
}

/* Answers put together from what forms are made of, at random: however they are cut, the message is
 * the same and is JSON, and so are the arguments of its calls. */
TEST(random_answers_are_read_the_same_in_pieces)
{
    static const char *const bits[] = {
        "<tool_call>", "</tool_call>", "<tool_call>\n{\"name\": \"noop-2\", \"arguments\": ", "{\"x\": 1}", "{", "}",
        "\n", " ", "\"", "'", "<function=", "get_weather", "noop-2", ">", "\n<parameter=city>\n", "</parameter>\n",
        "\n</function>\n</tool_call>", "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "<|tool_call>call:", "city:<|\"|>",
        "<|\"|>", "<tool_call|>", "<|tool_call_start|>[", "(x=", ")", "]<|tool_call_end|>", ",", "<think>",
        "</think>", "<|channel|>", "analysis", "final", "<|message|>", "<|end|>", "<|start|>assistant",
        " to=functions.", "<|call|>", "word", "\xc3\xa9", "\xff", "\\", "\"name\": \"get_weather\"", "12.5", "True",
        "<|python_tag|>", ";", "null", "[", "]", "\"parameters\": {}",
    };
    char text[1024];
    for (int round = 0; round < 20000 / TEST_EVERY; round++) {
        qsf_tool_form f;
        qsf_json j, arguments;
        qsf_error err;
        size_t n = 0;
        form_like(&f, styles[round % QSF_ARRAY_LEN(styles)]);
        f.in_reasoning = f.style != QSF_TOOLS_CHANNELS && random_below(8) == 0;
        for (uint32_t k = random_below(14) + 1; k; k--) {
            const char *bit = bits[random_below(QSF_ARRAY_LEN(bits))];
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", bit);
        }
        char *message = answer(&f, tools, text, n);
        const bool ok = !qsf_json_read(host, message, strlen(message), "message", &j, &err);
        CHECK(ok);
        const qsf_json_node *t = ok ? qsf_json_member(j.nodes, "tool_calls") : NULL, *v = t ? qsf_json_first(t) : NULL;
        for (uint32_t i = 0; t && i < t->n; i++, v = qsf_json_next(v)) {
            const qsf_json_node *a = qsf_json_member(qsf_json_member(v, "function"), "arguments");
            CHECK_EQ(qsf_json_read(host, a->text, a->n, "arguments", &arguments, &err), QSF_OK);
            if (!test_failed) CHECK_EQ(arguments.nodes->type, QSF_JSON_OBJECT);
            qsf_json_drop(&arguments);
        }
        if (test_failed) printf("    style %s, answer %.*s\n      message %s\n",
                                styles[round % QSF_ARRAY_LEN(styles)], (int)n, text, message);
        if (ok) qsf_json_drop(&j);
        free(message);
        if (test_failed) break;
    }
}

/* ---- grammars ---- */

static bool fits(qsf_grammar *g, const char *text, const char *of)
{
    qsf_matcher *m;
    qsf_error err;
    CHECK_EQ(qsf_matcher_new(host, g, NULL, &m, &err), QSF_OK);
    const size_t n = qsf_matcher_bytes(m, text, strlen(text));
    const bool whole = n == strlen(text) && qsf_matcher_whole(m);
    if (!whole) printf("    %s: %zu bytes of %s\n", of, n, text);
    qsf_matcher_free(m);
    return whole;
}

/* What a template writes of calls that fit the tools' schemas is a text of the grammar. */
TEST(grammars_have_what_templates_write)
{
    static const call calls[] = { { "get_weather", "{\"city\": \"Rome (\u00fc)\", \"days\": 3, "
                                    "\"metric\": true}" },
                                  { "noop-2", "{\"x\": -1.5}" } };
    qsf_json t;
    qsf_error err;
    qsf_json_read(host, tools, strlen(tools), "tools", &t, NULL);
    for (size_t i = 0; i < QSF_ARRAY_LEN(templates); i++) {
        char *jinja = read_template(templates[i]);
        qsf_tool_form f;
        qsf_tool_grammar g;
        bool begun, ok = false;
        if (!jinja) SKIP("no data/templates in QSF_SHARED_DIR");
        form_of(jinja, plain, &f);
        const qsf_tool_grammar_ask ask = { .platform = host, .form = &f, .tools = t.nodes };
        const qsf_status st = qsf_tool_grammar_make(&ask, &g, &err);
        if (st) printf("    %s: %s\n", templates[i], err.text);
        CHECK_EQ(st, QSF_OK);
        put_message(messages, NULL, NULL, NULL, 0, false);
        CHECK(render(jinja, messages, plain, true, prompt));
        put_message(messages, "qsftext", NULL, NULL, 0, false);
        end[0] = 0;
        if (render(jinja, messages, plain, false, rendered))
            snprintf(end, sizeof end, "%s", strstr(rendered, "qsftext") + 7);
        for (int k = 0; k < 4 && !ok; k++) {
            put_message(messages, NULL, NULL, calls, 2 - (size_t)k / 2, k % 2);
            ok = render(jinja, messages, plain, false, rendered);
        }
        char *body = ok ? written(rendered, prompt, f.style == QSF_TOOLS_CHANNELS ? "<|call|>" : end, &begun) : NULL;
        const char *stop = body ? strstr(body, "<\xef\xbd\x9c" "end\xe2\x96\x81of") : NULL;
        if (stop) body[stop - body] = 0;
        if (body && strstr(body, "get_weather")) {
            const char *at = NULL;
            for (size_t k = 0; k < g.n_after && !at; k++)
                if ((at = strstr(body, g.after[k])) && !g.with) at += strlen(g.after[k]);
            CHECK(at);
            size_t n = strlen(body);
            while (n && strchr(" \n", body[n - 1]) && !strstr(f.text[QSF_TT_SECTION_END], "\n")) n--;
            body[n] = 0;
            if (at) CHECK(fits(g.grammar, at, templates[i]));
            if (!at) printf("    %s: %s\n", templates[i], body);
        } else {
            printf("    %s shows no calls\n", templates[i]);
        }
        qsf_tool_grammar_drop(&g);
        free(jinja);
    }
    qsf_json_drop(&t);
}

/* ---- for the table ---- */

static void show_forms(int n, char **paths)
{
    for (int i = 0; i < n; i++) {
        qsf_tool_form f, thinking;
        char *jinja = read_file(paths[i]);
        if (!jinja) exit(2);
        form_of(jinja, plain, &f);
        form_of(jinja, thinks, &thinking);
        printf("%s\t%u\t%d%d%d%d%d%d", paths[i], (unsigned)f.style, f.several, f.shown, f.tools_shown,
               f.reasoning_shown, f.in_reasoning, thinking.in_reasoning);
        for (int k = 0; k < QSF_N_TOOL_TEXTS; k++) {
            qsf_text t = { .platform = host };
            qsf_text_json(&t, f.text[k], strlen(f.text[k]));
            printf("\t%s", t.n ? t.at : "");
            qsf_text_drop(&t);
        }
        printf("\n");
        free(jinja);
    }
}

int main(int argc, char **argv)
{
    host = qsf_platform_native();
    if (argc > 1 && !strcmp(argv[1], "--forms")) {
        show_forms(argc - 2, argv + 2);
        return 0;
    }
    test_begin(argc, argv);
    RUN(what_templates_write_comes_back);
    RUN(what_is_no_call_stays_text);
    RUN(calls_that_differ_from_the_template_are_read);
    RUN(random_answers_are_read_the_same_in_pieces);
    RUN(grammars_have_what_templates_write);
    return test_end();
}
