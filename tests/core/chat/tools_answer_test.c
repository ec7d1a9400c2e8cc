/* Answers that differ from what templates write, or are none of the form's.
 * SPDX-License-Identifier: MIT */
#include "tools_case.h"

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
    } else if (!strcmp(name, "typed")) {
        f->style = QSF_TOOLS_TAGS;
        set_text(f, QSF_TT_SECTION, "<calls>");
        set_text(f, QSF_TT_OPEN, "<invoke name=\"");
        set_text(f, QSF_TT_ARGUMENTS, "\">");
        set_text(f, QSF_TT_KEY, "\n<parameter name=\"");
        set_text(f, QSF_TT_VALUE, "\" string=\"");
        set_text(f, QSF_TT_TYPE, "true");
        set_text(f, QSF_TT_VALUE_BEGIN, "\">");
        set_text(f, QSF_TT_VALUE_END, "</parameter>");
        set_text(f, QSF_TT_CLOSE, "\n</invoke>");
        set_text(f, QSF_TT_SECTION_END, "\n</calls>");
        set_text(f, QSF_TT_TEXT, "<text>");
        set_text(f, QSF_TT_TEXT_END, "</text>");
    } else if (!strcmp(name, "ids")) {
        f->style = QSF_TOOLS_JSON;
        set_text(f, QSF_TT_OPEN, "<call:\1><name>");
        set_text(f, QSF_TT_ARGUMENTS, "<args>");
        set_text(f, QSF_TT_CLOSE, "<end>");
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

static const char *const styles[] = { "plain", "bare", "tags", "typed", "ids", "marks", "quoted", "python",
                                      "channels" };

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
    PLAIN("<tool_call>{\"name\": \"get_weathe\"");
    PLAIN("<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"R\"o\"}}</tool_call> and more");
    PLAIN("<tool_call>{\"name\": 5, \"arguments\": {}}</tool_call>x");
    PLAIN("<tool_call>{\"arguments\": {}}</tool_call>");
    PLAIN("<tool_call>{\"name\": \"noop-2\", \"arguments\": \"x\"}</tool_call>");
    PLAIN("<tool_call>[1]</tool_call>");
    check_answer("bare", "{\"name\": \"Ann\", \"age\": 5}", "{\"name\": \"Ann\", \"age\": 5}", NULL, NULL,
                 NULL);
    check_answer("bare", "It is {\"name\": \"noop-2\", \"parameters\": {}}",
                 "It is {\"name\": \"noop-2\", \"parameters\": {}}", NULL, NULL, NULL);
    check_answer("marks", "[TOOL_CALLS]noop-2 is a tool", "[TOOL_CALLS]noop-2 is a tool", NULL, NULL, NULL);
    check_answer("python", "<|tool_call_start|>[noop-2(5)]", "<|tool_call_start|>[noop-2(5)]", NULL, NULL,
                 NULL);
    check_answer("tags", "Write <function=f> or\n<function=none>\n</function>",
                 "Write <function=f> or\n<function=none>\n</function>", NULL, NULL, NULL);
    check_answer("ids", "<call:a b><name>noop-2<args>{}", "<call:a b><name>noop-2<args>{}", NULL, NULL, NULL);
    check_answer("channels", "Hello.", "Hello.", NULL, NULL, NULL);
}

TEST(calls_that_differ_from_the_template_are_read)
{
    check_answer("plain", "<tool_call>{\"name\":\"noop-2\",\"arguments\":{\"x\":1}}</tool_call>", NULL, NULL,
                 "noop-2", "{\"x\":1}");
    check_answer("plain", "Hm.\n\n<tool_call> {\"arguments\": {\"x\": 1}, \"name\": \"noop-2\"}", "Hm.",
                 NULL, "noop-2",
                 "{\"x\":1}");
    check_answer("plain", "<think>\na\n</think>\n<tool_call>\n{\"name\": \"noop-2\"}\n</tool_call>", NULL,
                 "a",
                 "noop-2", "{}");
    check_answer("plain", "<tool_call>{\"name\": \"noop-2\", \"parameters\": \"{\\\"x\\\": 2}\"}"
                 "</tool_call>", NULL,
                 NULL, "noop-2", "{\"x\":2}");
    check_answer("plain", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a\nb\"}}"
                 "</tool_call>",
                 NULL, NULL, "get_weather", "{\"city\":\"a\\nb\"}");
    check_answer("bare", "<|python_tag|>{\"name\": \"noop-2\", \"parameters\": {\"x\": 1}}", NULL, NULL,
                 "noop-2",
                 "{\"x\":1}");
    check_answer("tags", "<tool_call><function=get_weather><parameter=city>Rome</parameter><parameter=days>"
                 "\n3\n"
                 "</parameter></function>", NULL, NULL, "get_weather", "{\"city\":\"Rome\",\"days\":3}");
    check_answer("tags", "<tool_call>\n<function=get_weather>\n<parameter=extra>\n{'a': True, \"b\": None}\n"
                 "</parameter>\n</function>\n</tool_call>", NULL, NULL, "get_weather",
                 "{\"extra\":{\"a\":true,\"b\":null}}");
    check_answer("tags", "I look.\n<function=noop-2>\n<parameter=x>\n1\n</parameter>\n</function>\n"
                 "</tool_call>", "I look.", NULL, "noop-2", "{\"x\":1}");
    check_answer("tags", "</think>\n\n<tool_call>\n<function=noop-2>\n</function>\n</tool_call>", NULL, NULL,
                 "noop-2", "{}");
    check_answer("typed", "<text>I look.</text><calls>\n<invoke name=\"get_weather\">\n<parameter "
                 "name=\"city\" string=\"true\">5 \"</parameter>\n<parameter name=\"extra\" "
                 "string=\"false\">[5, null]</parameter>\n</invoke>\n</calls>", "I look.", NULL,
                 "get_weather", "{\"city\":\"5 \\\"\",\"extra\":[5,null]}");
    check_answer("tags", "<tool_call>\n<function=get_weather>\n<parameter=city>\n<![CDATA[<b>5</parameter>"
                 "]]>\n</parameter>\n<parameter=days>3</parameter>\n</function>\n</tool_call>", NULL, NULL,
                 "get_weather", "{\"city\":\"<b>5</parameter>\",\"days\":3}");
    check_answer("ids", "<call:abc-1><name>noop-2<args>{\"x\": 1}<end>", NULL, NULL, "noop-2", "{\"x\":1}");
    check_answer("marks", "[TOOL_CALLS] noop-2[ARGS] {\"x\": 1}", NULL, NULL, "noop-2", "{\"x\":1}");
    check_answer("quoted", "<|tool_call>call:get_weather{city:<|\"|>a \"b\"\n<|\"|>,extra:{k:[1,"
                 "<|\"|>v<|\"|>]}}"
                 "<tool_call|>", NULL, NULL, "get_weather",
                 "{\"city\":\"a \\\"b\\\"\\n\",\"extra\":{\"k\":[1,\"v\"]}}");
    check_answer("python", "<|tool_call_start|>[get_weather(city='it\\'s', days=3, metric=True)]"
                 "<|tool_call_end|>", NULL,
                 NULL, "get_weather", "{\"city\":\"it's\",\"days\":3,\"metric\":true}");
    check_answer("channels", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>"
                 "commentary to=functions.noop-2 <|constrain|>json<|message|>{\"x\":1}<|call|>", NULL, "Hm.",
                 "noop-2", "{\"x\":1}");
    check_answer("channels", "<|channel|>final<|message|>Hello.<|return|>", "Hello.", NULL, NULL, NULL);
    check_answer("channels", "<|channel|>commentary to=assistant<|channel|>analysis<|message|>Hm.<|end|>"
                 "<|start|>assistant<|channel|>final<|message|>Hello.", "Hello.", "Hm.", NULL, NULL);
}

/* Reasoning in marks that the template does not know, and in some that its prompt has begun. */
TEST(reasoning_that_the_template_does_not_show)
{
    static const char *const answers[] = {
        "[THINK]Hm.[/THINK]Yes.", "<thinking>\nHm.\n</thinking>\n\nYes.", "<seed:think>Hm.</seed:think>Yes.",
        " <|START_THINKING|>Hm.<|END_THINKING|>Yes.",
    };
    qsf_tool_form f;
    for (size_t i = 0; i < QSF_ARRAY_LEN(answers); i++)
        check_answer("plain", answers[i], "Yes.", "Hm.", NULL, NULL);
    PLAIN("A <thinking>Hm.</thinking>");
    PLAIN("<thin");
    form_like(&f, "plain");
    f.in_reasoning = f.reasoning_shown = true;
    for (int i = 0; i < 2; i++) {
        char *message = answer(&f, NULL, i ? "<think>\nHm.</think>Yes." : "Hm.</think>Yes.", i ? 23 : 15);
        check_message(message, "Yes.", "Hm.", NULL, 0, "plain", "begun by the prompt");
        free(message);
    }
    char *message = answer(&f, NULL, "<thi", 4);
    check_message(message, "", "<thi", NULL, 0, "plain", "begun by the prompt");
    free(message);
}

#define ROME "\"arguments\": {\"city\": \"Rome\"}}"
#define WEATHER "{\"name\": \"get_weather\", " ROME

/* Calls as JSON objects without the form's marks, which small models write. */
TEST(calls_without_marks_are_read)
{
    static const char rome[] = "{\"city\": \"Rome\"}";
    static const char *const alone[] = {
        WEATHER, "```json\n" WEATHER "\n```", "\n```\n" WEATHER "\n```\n", "```json\n[" WEATHER "]\n```",
        "[" WEATHER "]", "{\"arguments\": {\"city\": \"Rome\"}, \"name\": \"get_weather\"}",
        "```json\n" WEATHER,
        "{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"Rome\\\"}\"}",
    };
    static const char *const texts[] = {
        "{\"name\": \"get_weather\"}", "{\"name\": \"get_water\", " ROME, "{\"city\": \"Rome\"}",
        "{\"name\": \"get_weather\", \"arguments\": 5}", "Such as " WEATHER, "{\n  \"calls\": [\n    " WEATHER
        "\n  ]\n}", "```json\n{\"name\": \"get_weather\", \"age\": 5, " ROME "\n```\nok", "```c\nint x;\n```",
        "[link](x)", "``", "```", "```json\n", "```json\n[1, 2]\n```", "[", "- a\n[\n\n{\"a\": 1}]",
    };
    const char *const forms[] = { "plain", "tags", "marks", "quoted", "python", "typed", "ids" };
    for (size_t f = 0; f < QSF_ARRAY_LEN(forms); f++) {
        for (size_t i = 0; i < QSF_ARRAY_LEN(alone); i++)
            check_answer(forms[f], alone[i], NULL, NULL, "get_weather", rome);
        for (size_t i = 0; i < QSF_ARRAY_LEN(texts); i++)
            check_answer(forms[f], texts[i], texts[i], NULL, NULL, NULL);
    }
    check_answer("plain", "Sure:\n```json\n" WEATHER "\n```\n", "Sure:", NULL, "get_weather", rome);
    check_answer("plain", WEATHER "\n</tool_call>", NULL, NULL, "get_weather", rome);
    check_answer("plain", "Sure:\n```json\n" WEATHER "\n```\nDone.\n", "Sure:\nDone.", NULL,
                 "get_weather", rome);
    check_answer("plain", "<tool_call>\n" WEATHER "\n</tool_call>\n\nDone.", "Done.", NULL, "get_weather",
                 rome);
    check_answer("plain", "Sure. <tool_call>" WEATHER "</tool_call>\n", "Sure.", NULL, "get_weather", rome);
    check_answer("plain", "Sure.\n" WEATHER, "Sure.", NULL, "get_weather", rome);
    check_answer("plain", "<think>\nHm.\n</think>\n\n" WEATHER, NULL, "Hm.", "get_weather", rome);
    const call two[] = { { "get_weather", rome }, { "noop-2", "{}" } };
    static const char *const both[] = {
        "[" WEATHER ",\n {\"name\": \"noop-2\", \"arguments\": {}}]",
        WEATHER "\n{\"name\": \"noop-2\", \"arguments\": {}}",
        "```json\n" WEATHER "\n```\n```json\n{\"name\": \"noop-2\", \"parameters\": {}}\n```",
        WEATHER "\n<tool_call>{\"name\": \"noop-2\", \"arguments\": {}}</tool_call>",
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(both); i++) {
        qsf_tool_form f;
        form_like(&f, "plain");
        char *message = answer(&f, tools, both[i], strlen(both[i]));
        check_message(message, NULL, NULL, two, 2, "plain", both[i]);
        free(message);
        message = answer(&f, NULL, alone[0], strlen(alone[0]));        /* no tools: no calls */
        check_message(message, alone[0], NULL, NULL, 0, "plain", alone[0]);
        free(message);
    }
}

/* Calls in reasoning count where it is never closed. */
TEST(calls_end_reasoning_that_stays_open)
{
    static const char half[] = "Hm.\n<tool_call>\n{\"name\": \"get_w";
    static const char *const ends[] = { "", "</tool_call>", "\n</tool_call>\n" };
    qsf_tool_form f;
    const call c = { "get_weather", "{\"city\": \"Rome\"}" };
    form_like(&f, "plain");
    f.in_reasoning = f.reasoning_shown = true;
    for (size_t i = 0; i < 2 * QSF_ARRAY_LEN(ends); i++) {
        char text[256];
        const size_t n = (size_t)snprintf(text, sizeof text, "Hm.\n<tool_call>\n" WEATHER "%s%s", ends[i / 2],
                                          i % 2 ? "No.</think>Yes." : "");
        char *message = answer(&f, tools, text, n);
        text[i % 2 ? n - strlen("</think>Yes.") : 3] = 0;
        check_message(message, i % 2 ? "Yes." : NULL, text, &c, i % 2 ? 0 : 1, "reasoning", text);
        free(message);
    }
    char *message = answer(&f, tools, half, strlen(half));
    check_message(message, NULL, half, NULL, 0, "reasoning", half);
    free(message);
}

/* The answer ends within a call: what is there of it stays, and is marked. */
TEST(calls_that_are_cut_stay)
{
    static const struct { const char *style, *text, *arguments; } rows[] = {
        { "plain", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Ro",
          "{\"city\": \"Ro" },
        { "plain", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"days\": 1", "{\"days\": 1" },
        { "plain", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"metric\": fal",
          "{\"metric\": fal" },
        { "plain", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}", "{}" },
        { "plain", "<tool_call>\n{\"name\": \"get_weather\", \"argu", "" },
        { "tags", "<tool_call>\n<function=get_weather>", "" },
        { "marks", "[TOOL_CALLS]get_weather[ARGS]", "" },
        { "channels", "<|channel|>commentary to=functions.get_weather<|message|>", "" },
        { "plain", "```json\n{\"name\": \"get_weather\", \"arguments\": {", "{" },
        { "tags", "<tool_call>\n<function=get_weather>\n<parameter=city>\nRo", "{\"city\": \"Ro" },
        { "tags", "<tool_call>\n<function=get_weather>\n<parameter=days>\n5", "{\"days\": 5" },
        { "typed", "<calls>\n<invoke name=\"get_weather\">\n<parameter name=\"city\" string=\"tru",
          "{\"city\": " },
        { "marks", "[TOOL_CALLS]get_weather[ARGS]{\"city\"", "{\"city\"" },
        { "quoted", "<|tool_call>call:get_weather{city:<|\"|>Ro", "{\"city\":\"Ro" },
        { "python", "<|tool_call_start|>[get_weather(city='Ro", "{\"city\":\"Ro" },
        { "channels", "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
          "{\"city\": ", "{\"city\": " },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(rows); i++) {
        qsf_tool_form f;
        qsf_json j;
        qsf_error err;
        form_like(&f, rows[i].style);
        char *message = answer(&f, tools, rows[i].text, strlen(rows[i].text));
        CHECK_EQ(qsf_json_read(host, message, strlen(message), "message", &j, &err), QSF_OK);
        const qsf_json_node *calls = qsf_json_member(j.nodes, "tool_calls"),
            *c = calls ? qsf_json_first(calls) : NULL, *in = c ? qsf_json_member(c, "function") : NULL;
        const bool ok = c && calls->n == 1 && qsf_json_member(c, "unfinished")
            && qsf_json_is_text(qsf_json_member(in, "name"), "get_weather")
            && qsf_json_is_text(qsf_json_member(in, "arguments"), rows[i].arguments) && !*events.text
            && strstr(events.calls, "get_weather");
        CHECK(ok);
        if (!ok) printf("    %s: %s\n", rows[i].style, message);
        qsf_json_drop(&j);
        free(message);
    }
}

/* The answer ends within the mark that ends a call: no part of it is text. */
TEST(marks_of_an_end_that_are_cut_are_no_text)
{
    static const struct { const char *style, *call, *end; } rows[] = {
        { "plain", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}",
          "\n</tool_call>" },
        { "tags", "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>",
          "\n</function>\n</tool_call>" },
        { "typed", "<calls><invoke name=\"get_weather\">\n<parameter name=\"city\" string=\"true\">Rome"
          "</parameter>",
          "\n</invoke>\n</calls>" },
        { "ids", "<call:1><name>get_weather<args>{\"city\": \"Rome\"}", "<end>" },
        { "quoted", "<|tool_call>call:get_weather{city:<|\"|>Rome<|\"|>}", "<tool_call|>" },
        { "python", "<|tool_call_start|>[get_weather(city='Rome')", "]<|tool_call_end|>" },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(rows); i++) {
        char text[256];
        for (size_t n = 0; n <= strlen(rows[i].end); n++) {
            qsf_tool_form f;
            snprintf(text, sizeof text, "%s%.*s", rows[i].call, (int)n, rows[i].end);
            form_like(&f, rows[i].style);
            char *message = answer(&f, tools, text, strlen(text));
            CHECK(strstr(message, "\"content\":null") && strstr(message, "get_weather") && !*events.text);
            free(message);
        }
    }
}

/* Control tokens are not text; text that is spelled like one is. */
TEST(control_tokens_are_no_text)
{
    static const struct { const char *text, *content; } rows[] = {     /* ~ begins and ends a token */
        { "Hello~<|x|>~ world.~<channel|>~", "Hello world." },
        { "~<|x|>~~<|y|>~Hello <|x|>~<|y|>~", "Hello <|x|>" },
        { "~<tool_call>~Hello~</tool_call>~", "Hello" },
        { "~<think>~~<|x|>~Hm.~<|x|>~~</think>~Yes.~<|x|>~", "Yes." },
        { "~</tool_call>~~<|x|>~", "" },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(rows); i++)
        for (size_t step = 1; step < 40; step++) {
            char text[128];
            size_t n = 0, begin = SIZE_MAX;
            qsf_error err;
            qsf_tool_form f;
            form_like(&f, "plain");
            qsf_tool_answer *a = answer_new(&f, tools);
            for (const char *p = rows[i].text; *p; p++) {
                if (*p != '~') text[n++] = *p;
                else if (begin == SIZE_MAX) begin = n;
                else qsf_tool_answer_control(a, begin, n - begin), begin = SIZE_MAX;
            }
            memset(&events, 0, sizeof events);
            for (size_t at = 0; at < n; at += step) {
                const bool last = at + step >= n;
                CHECK_EQ(qsf_tool_answer_push(a, text + at, QSF_MIN(step, n - at), last, &err), QSF_OK);
                hear(a);
            }
            CHECK_STR(events.text, rows[i].content);
            CHECK_STR(events.reasoning, i == 3 ? "Hm." : "");
            qsf_tool_answer_free(a);
        }
}

/* Answers put together from what forms are made of, at random: however they are cut, the message is
 * the same and is JSON, and so are the arguments of its calls. */
TEST(random_answers_are_read_the_same_in_pieces)
{
    static const char *const bits[] = {
        "<tool_call>", "</tool_call>", "<tool_call>\n{\"name\": \"noop-2\", \"arguments\": ", "{\"x\": 1}",
        "{", "}",
        "\n", " ", "\"", "'", "<function=", "get_weather", "noop-2", ">", "\n<parameter=city>\n",
        "</parameter>\n",
        "\n</function>\n</tool_call>", "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "<|tool_call>call:",
        "city:<|\"|>",
        "<|\"|>", "<tool_call|>", "<|tool_call_start|>[", "(x=", ")", "]<|tool_call_end|>", ",", "<think>",
        "</think>", "<|channel|>", "analysis", "final", "<|message|>", "<|end|>", "<|start|>assistant",
        " to=functions.", "<|call|>", "word", "\xc3\xa9", "\xff", "\\", "\"name\": \"get_weather\"", "12.5",
        "True",
        "<calls>", "<invoke name=\"", "\">", "\n<parameter name=\"city", "\" string=\"true\">",
        "\" string=\"", "</parameter>", "\n</invoke>", "<text>", "</text>", "<call:x1>", "<name>",
        "<args>", "<end>",
        "<![CDATA[", "]]>", "<|python_tag|>", ";", "null", "[", "]", "\"parameters\": {}",
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
        const qsf_json_node *t = ok ? qsf_json_member(j.nodes, "tool_calls") : NULL,
            *v = t ? qsf_json_first(t) : NULL;
        for (uint32_t i = 0; t && i < t->n; i++, v = qsf_json_next(v)) {
            const qsf_json_node *a = qsf_json_member(qsf_json_member(v, "function"), "arguments");
            if (qsf_json_member(v, "unfinished")) continue;
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

int main(int argc, char **argv)
{
    host = qsf_platform_native();
    test_begin(argc, argv);
    RUN(what_is_no_call_stays_text);
    RUN(calls_that_differ_from_the_template_are_read);
    RUN(reasoning_that_the_template_does_not_show);
    RUN(calls_without_marks_are_read);
    RUN(calls_end_reasoning_that_stays_open);
    RUN(calls_that_are_cut_stay);
    RUN(marks_of_an_end_that_are_cut_are_no_text);
    RUN(control_tokens_are_no_text);
    RUN(random_answers_are_read_the_same_in_pieces);
    return test_end();
}
