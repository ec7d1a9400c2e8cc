/* Tools: the forms that templates show, and answers in pieces.
 * SPDX-License-Identifier: MIT
 *
 *   tools_test --forms FILE...     for tools/make_tools.py: the form of each template, in lines
 *   tools_test --answers           for tools_llama.py: lines with a template's file, tools, an
 *                                  answer and its control tokens; the message of each */
#include "chat/chat.h"
#include "tools_case.h"

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

/* ---- templates ---- */

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = f ? calloc(1, OUT) : NULL;
    if (text) text[fread(text, 1, OUT - 1, f)] = 0;
    if (f) fclose(f);
    return text;
}

/* Templates to be tried instead: files. */
static char **others;
static int n_others;
static size_t n_templates(void) { return others ? (size_t)n_others : QSF_ARRAY_LEN(templates); }
static const char *template_name(size_t i) { return others ? others[i] : templates[i]; }

static char *read_template(const char *name)
{
    char path[1024];
    const char *shared = getenv("QSF_SHARED_DIR");
    if (others) return read_file(name);
    snprintf(path, sizeof path, "%s/data/templates/%s.jinja", shared ? shared : "../shared", name);
    return read_file(path);
}

static const char thinks[] =
    "{\"functions\":\"\",\"datetime\":\"\",\"enable_thinking\":true,\"thinking\":true}";
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
            snprintf(head, sizeof head, "%s{\"id\":\"abc00000%u\",\"type\":\"function\",\"function\":{"
                     "\"name\":"
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

/* The part of a conversation's rendering that the model would have written: after the generation
 * prompt, as far as that is there, and before the end of the turn. */
static char *written(char *all, const char *prompt, const char *end, bool *begun)
{
    size_t at = 0, n = strlen(all), k = strlen(end);
    *begun = !strncmp(all, prompt, strlen(prompt));
    while (prompt[at] && prompt[at] == all[at]) at++;
    for (size_t m = at; !*begun && m-- > 0 && !strchr("> \n", all[m]);)     /* not within a mark */
        if (all[m] == '<') at = m;
    for (size_t m = strlen(prompt); !*begun && m; m--) {
        if (strncmp(all + at, prompt + strlen(prompt) - m, m)) continue;
        at += m;
        break;
    }
    while (k && (n < k || strcmp(all + n - k, end) || !strchr("<[ \n", *end))) end++, k--;
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
    static const char *const contents[] = { NULL, "Some text.\n\nSecond { paragraph } [1] <b>.",
        "{\"a\": 1}" };
    static const struct { const call *calls; size_t n; } rows[] = { { all_calls, 0 }, { all_calls, 1 },
        { all_calls, 2 }, { all_calls + 1, 1 }, { all_calls + 2, 1 }, { all_calls + 3, 1 },
        { all_calls, 4 } };
    for (size_t t = 0; t < n_templates(); t++) {
        char *jinja = read_template(template_name(t));
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
                    there_and_back(template_name(t), jinja, &f, kwargs, contents[i / 2],
                                   i % 2 ? "I think\nso: 1 < 2." : NULL, rows[k].calls, rows[k].n);
        }
        free(jinja);
    }
}

/* ---- grammars ---- */

/* What the model would have written of these calls; NULL: the template does not show calls. */
static char *body_of(const char *jinja, const qsf_tool_form *f, const call *calls, size_t n)
{
    const bool channels = f->style == QSF_TOOLS_CHANNELS;
    bool begun, ok = false;
    put_message(messages, NULL, NULL, NULL, 0, false);
    CHECK(render(jinja, messages, plain, true, prompt));
    put_message(messages, "qsftext", NULL, NULL, 0, false);
    end[0] = 0;
    if (render(jinja, messages, plain, false, rendered))
        snprintf(end, sizeof end, "%s", strstr(rendered, "qsftext") + 7);
    for (int k = 0; k < 2 && !ok; k++) {
        put_message(messages, NULL, NULL, calls, n, k);
        ok = render(jinja, messages, plain, false, rendered);
    }
    char *body = ok ? written(rendered, prompt, channels ? "<|call|>" : end, &begun) : NULL;
    char *stop = body ? strstr(body, "<\xef\xbd\x9c" "end\xe2\x96\x81of") : NULL;
    if (stop) *stop = 0;
    size_t len = body ? strlen(body) : 0;
    while (len && strchr(" \n", body[len - 1]) && !strstr(f->text[QSF_TT_SECTION_END], "\n")) len--;
    if (body) body[len] = 0;
    return body && strstr(body, calls[n - 1].name) ? body : NULL;
}

static const call good_calls[] = {
    { "get_weather", "{\"city\": \"Rome (\u00fc)\", \"days\": 3, \"metric\": true}" },
    { "get_weather", "{\"city\": \"\"}" },
    { "noop-2", "{\"x\": -1.5}" }, { "noop-2", "{}" },
};
static const call bad_calls[] = {
    { "get_weather", "{\"city\": \"Rome\", \"days\": \"a few\"}" }, { "get_weather", "{\"days\": 3}" },
    { "get_weather", "{\"city\": \"Rome\", \"metric\": 1}" }, { "get_weathers", "{\"city\": \"Rome\"}" },
    { "noop-2", "{\"x\": [1]}" }, { "noop-2", "{\"x\": true}" },
};

static int n_fits;
static void check_fits(const qsf_tool_grammar *g, char *body, bool good, const char *name)
{
    const char *at = body ? begin_of(g, body) : NULL;
    const bool same = !body || (at && fits(g->grammar, at)) == good;
    CHECK(same);
    n_fits += body != NULL;
    if (!same) printf("    %s: %s\n", name, body);
}

/* The grammar accepts what a template writes for calls that fit the tools' schemas, and refuses it
 * for others. */
TEST(grammars_have_what_templates_write)
{
    const call two[] = { good_calls[0], good_calls[2] };
    qsf_json t;
    qsf_error err;
    for (size_t i = 0; i < n_templates(); i++) {
        const char *name = template_name(i);
        char *jinja = read_template(name);
        qsf_tool_form f;
        if (!jinja) SKIP("no data/templates in QSF_SHARED_DIR");
        qsf_json_read(host, tools, strlen(tools), "tools", &t, NULL);
        form_of(jinja, plain, &f);
        for (int way = 0; way < 4; way++) {             /* any, one only, one tool only, required */
            qsf_tool_grammar g;
            const qsf_tool_grammar_ask ask = {
                .platform = host, .form = &f, .tools = t.nodes, .one = way == 1,
                .only = way == 2 ? "noop-2" : NULL, .required = way == 3,
            };
            const qsf_status st = qsf_tool_grammar_make(&ask, &g, &err);
            if (st) printf("    %s: %s\n", name, err.text);
            CHECK_EQ(st, QSF_OK);
            for (size_t k = 0; k < QSF_ARRAY_LEN(good_calls) && way < 3; k++)
                check_fits(&g, body_of(jinja, &f, good_calls + k, 1), way != 2 || k >= 2, name);
            for (size_t k = 0; k < QSF_ARRAY_LEN(bad_calls) && !way; k++)
                check_fits(&g, body_of(jinja, &f, bad_calls + k, 1), false, name);
            char *body = f.several && way < 2 ? body_of(jinja, &f, two, 2) : NULL;
            check_fits(&g, body, way == 0, name);
            CHECK(way != 3 || (!g.n_after && !fits(g.grammar, "No.") && !fits(g.grammar, "")));
            qsf_tool_grammar_drop(&g);
        }
        qsf_json_drop(&t);
        free(jinja);
    }
    CHECK(n_fits > 10 * (int)n_templates());
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

/* ---- for llama.cpp's tests ---- */

static void show_answer(const qsf_json_node *ask, const char *list)
{
    const qsf_json_node *text = qsf_json_member(ask, "text"), *span = qsf_json_member(ask, "controls"), *v;
    char *jinja = read_file(qsf_json_member(ask, "template")->text);
    qsf_tool_form f;
    qsf_error err;
    const char *message;
    size_t len;
    if (!jinja) exit(2);
    const qsf_chat_ask chat = { .platform = host, .jinja = jinja, .bos = "<BOS>", .eos = "<EOS>",
                                .kwargs = qsf_json_member(ask, "kwargs"), .now = 1721995200 };
    if (qsf_tool_form_of(&chat, &f, &err)) exit(2);
    qsf_tool_answer *a = answer_new(&f, list);
    v = qsf_json_first(span);
    for (uint32_t i = 0; i < span->n; i++, v = qsf_json_next(v)) {
        int64_t at, n;
        if (!qsf_json_whole(v + 1, &at) || !qsf_json_whole(v + 2, &n)) exit(2);
        qsf_tool_answer_control(a, (size_t)at, (size_t)n);
    }
    for (size_t i = 0; i < text->n || !i; i++)
        CHECK_EQ(qsf_tool_answer_push(a, text->text + i, text->n != 0, i + 1 >= text->n, &err), QSF_OK);
    CHECK_EQ(qsf_tool_answer_json(a, &message, &len, &err), QSF_OK);
    printf("%s\n", message);
    qsf_tool_answer_free(a);
    free(jinja);
}

/* The next line of standard input in *line, which grows; 0: no more lines. */
static size_t next_line(char **line, size_t *cap)
{
    size_t n = 0;
    for (int ch = 0; ch != '\n' && (ch = getchar()) != EOF; (*line)[n++] = (char)ch) {
        if (n + 1 < *cap) continue;
        *cap = 2 * *cap + 4096;
        if (!(*line = realloc(*line, *cap))) exit(2);
    }
    if (n) (*line)[n] = 0;
    return n;
}

static void show_answers(void)
{
    char *line = NULL;
    size_t cap = 0;
    qsf_error err;
    for (size_t n; (n = next_line(&line, &cap)) > 0;) {
        qsf_json j;
        if (qsf_json_read(host, line, n, "line", &j, &err)) exit(2);
        const char *list = strstr(line, "\"tools\": "), *end = strstr(line, ", \"text\": ");
        if (!list || !end || end < list) exit(2);
        line[end - line] = 0;
        show_answer(j.nodes, list + 9);
        qsf_json_drop(&j);
    }
    free(line);
}

int main(int argc, char **argv)
{
    host = qsf_platform_native();
    if (argc > 1 && !strcmp(argv[1], "--forms")) {
        show_forms(argc - 2, argv + 2);
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "--answers")) {
        show_answers();
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "--try")) {        /* the tests, of these templates */
        others = argv + 2;
        n_others = argc - 2;
        argc = 1;
    }
    test_begin(argc, argv);
    RUN(what_templates_write_comes_back);
    RUN(grammars_have_what_templates_write);
    return test_end();
}
