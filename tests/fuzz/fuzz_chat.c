/* Fuzz target: any bytes as a template and as messages in JSON.  Spans tile the text, and none of
 * the template's own holds the contents of messages; nothing leaks.
 * SPDX-License-Identifier: MIT
 *
 * The template ends at the first zero byte, the messages follow; an empty template stands for one
 * of the known templates, and empty messages for a fixed conversation. */
#include "chat/chat.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* M marks what somebody wrote: a character that nothing else writes. */
#define M "\xee\x80\x81"
static const char fuzz_talk[] =
    "[{\"role\": \"system\", \"content\": \"Be brief." M "\"},"
    " {\"role\": \"user\", \"content\": \"" M "1 \"},"
    " {\"role\": \"assistant\", \"content\": null, \"reasoning_content\": \"" M "\","
    "  \"tool_calls\": [{\"id\": \"" M "\","
    "  \"function\": {\"name\": \"f\", \"arguments\": \"{\\\"" M "\\\": 1}\"}}]},"
    " {\"role\": \"tool\", \"content\": [{\"type\": \"text\", \"text\": \"" M "\"}]},"
    " {\"role\": \"" M "\", \"content\": \"<think>\\n" M "\\n</think>\\n" M "8\"}]";

static const char fuzz_args[] = "{\"x\": \"" M "\", \"enable_thinking\": false}";

/* Whether the template cannot make the mark itself. */
static bool fuzz_has_no_mark(const char *jinja)
{
    return !strpbrk(jinja, "\\\xee") && !strstr(jinja, "format") && !strstr(jinja, "%c");
}

static void fuzz_written(const qsf_chat_text *t, bool marked)
{
    size_t at = 0;
    if (t->text[t->len]) abort();
    for (size_t i = 0; i < t->n_spans; at += t->spans[i++].len) {
        if (t->spans[i].at != at || !t->spans[i].len) abort();
        if (i && t->spans[i].is_template == t->spans[i - 1].is_template) abort();
        if (marked && t->spans[i].is_template && memchr(t->text + at, 0xee, t->spans[i].len)) abort();
    }
    if (at != t->len) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *const *names = qsf_chat_names();
    const qsf_platform *p = qsf_platform_native();
    char *text = malloc(size + 1);
    size_t n_names = 0, len;
    qsf_json json, args;
    qsf_error err;
    if (size) memcpy(text, data, size);
    text[size] = 0;
    while (names[n_names]) n_names++;
    const char *stop, *jinja = *text ? text : qsf_chat_known(names[size % n_names], &stop);
    const char *messages = strlen(text) < size ? text + strlen(text) + 1 : fuzz_talk;
    const size_t n = messages == fuzz_talk ? strlen(messages) : (size_t)(text + size - messages);
    const bool marked = fuzz_has_no_mark(jinja);
    qsf_json_read(p, fuzz_args, strlen(fuzz_args), "arguments", &args, NULL);
    if (!qsf_json_read(p, messages, n, "messages", &json, &err))
        for (uint32_t how = 0; how < 4; how++) {
            const qsf_chat_ask ask = { .platform = p, .jinja = jinja, .bos = "<s>", .eos = "</s>",
                                       .json = json.nodes, .tools = args.nodes, .kwargs = args.nodes,
                                       .generate = how & 1, .goes_on = how == 2, .as_given = how & 2,
                                       .now = 1000000000 };
            qsf_chat_text t;
            char found[16];
            if (!qsf_chat_write(&ask, &t, &err)) fuzz_written(&t, marked);
            else if (t.arena || t.text) abort();
            qsf_chat_text_drop(&t);
            if (!how && !qsf_chat_find_stop(&ask, found, sizeof found, &len, &err)
                && (len >= sizeof found || strlen(found) != len)) abort();
        }
    qsf_json_drop(&json);
    qsf_json_drop(&args);
    free(text);
    return 0;
}

#undef M
