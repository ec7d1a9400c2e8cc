/* The chat templates that are known, found in a model's own Jinja text by their marks.
 * SPDX-License-Identifier: MIT
 *
 * Only what a plain conversation of system, user and assistant needs is here.  A template that adds text of its own in ways not listed
 * (reasoning switches, metadata headers, tools in the first message) is unknown: wrong text would be worse. */
#include "chat.h"

static const char *const chat_names[QSF_N_CHATS + 1] = {
    [QSF_CHAT_UNKNOWN] = "unknown", [QSF_CHAT_CHATML] = "chatml", [QSF_CHAT_LLAMA2] = "llama2", [QSF_CHAT_LLAMA3] = "llama3", [QSF_CHAT_MISTRAL] = "mistral",
    [QSF_CHAT_PHI3] = "phi3", [QSF_CHAT_GEMMA] = "gemma", [QSF_CHAT_ZEPHYR] = "zephyr", [QSF_CHAT_COMMAND_R] = "command-r", [QSF_CHAT_DEEPSEEK] = "deepseek",
    [QSF_CHAT_PLAIN] = "plain",
};
const char *qsf_chat_name(qsf_chat c) { return chat_names[c < QSF_N_CHATS ? c : 0]; }
const char *const *qsf_chat_names(void) { return chat_names + 1; }

qsf_chat qsf_chat_by_name(const char *name)
{
    for (int c = 1; c < QSF_N_CHATS; c++)
        if (!strcmp(name, chat_names[c])) return (qsf_chat)c;
    return QSF_CHAT_UNKNOWN;
}

static bool has(const char *text, const char *mark) { return text && strstr(text, mark); }

qsf_chat qsf_chat_detect(const char *j)
{
    if (!j) return QSF_CHAT_UNKNOWN;
    if (has(j, "<|im_start|>")) {
        const bool adds = has(j, "## Metadata") || has(j, "reasoning_mode") || has(j, "function calling AI model") || has(j, "<|im_sep|>");
        return adds ? QSF_CHAT_UNKNOWN : QSF_CHAT_CHATML;
    }
    if (has(j, "<|start_header_id|>")) return QSF_CHAT_LLAMA3;
    if (has(j, "<start_of_turn>")) return QSF_CHAT_GEMMA;
    if (has(j, "<|START_OF_TURN_TOKEN|>")) return QSF_CHAT_COMMAND_R;
    if (has(j, "<\xef\xbd\x9c" "Assistant\xef\xbd\x9c>")) return QSF_CHAT_DEEPSEEK;
    if (has(j, "[INST]")) return has(j, "<<SYS>>") ? QSF_CHAT_LLAMA2 : has(j, "[SYSTEM_PROMPT]") ? QSF_CHAT_UNKNOWN : QSF_CHAT_MISTRAL;
    if (has(j, "<|assistant|>") && has(j, "<|end|>")) return QSF_CHAT_PHI3;
    if (has(j, "<|user|>") && has(j, "<|assistant|>") && !has(j, "<|endoftext|>")) return QSF_CHAT_ZEPHYR;
    if (has(j, "'User: '") && has(j, "'Assistant:'")) return QSF_CHAT_DEEPSEEK;
    return QSF_CHAT_UNKNOWN;
}

const char *qsf_chat_stop_text(qsf_chat c)
{
    switch (c) {
    case QSF_CHAT_CHATML: return "<|im_end|>";
    case QSF_CHAT_LLAMA2: case QSF_CHAT_MISTRAL: case QSF_CHAT_ZEPHYR: return "</s>";
    case QSF_CHAT_LLAMA3: return "<|eot_id|>";
    case QSF_CHAT_PHI3: return "<|end|>";
    case QSF_CHAT_GEMMA: return "<end_of_turn>";
    case QSF_CHAT_COMMAND_R: return "<|END_OF_TURN_TOKEN|>";
    case QSF_CHAT_DEEPSEEK: return "<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>";
    case QSF_CHAT_PLAIN: return "\nUser:";
    default: return NULL;
    }
}

/* ---- writing ---- */

typedef struct chat_out {
    char  *text;
    size_t cap, len;
} chat_out;

static void put_bytes(chat_out *o, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++, o->len++)
        if (o->len < o->cap) o->text[o->len] = text[i];
}
static void put(chat_out *o, const char *text) { put_bytes(o, text, strlen(text)); }

static bool blank(char c) { return c == ' ' || (c >= 9 && c <= 13); }
/* Jinja's trim. */
static void put_trimmed(chat_out *o, const char *text)
{
    size_t n = strlen(text);
    while (n && blank(*text)) text++, n--;
    while (n && blank(text[n - 1])) n--;
    put_bytes(o, text, n);
}

/* What a template does with a message's text. */
static void put_content(chat_out *o, const char *text, bool trim)
{
    if (trim) put_trimmed(o, text);
    else put(o, text);
}

static bool is(const qsf_message *m, const char *role) { return !strcmp(m->role, role); }

/* A literal of the template's source, with its \n escapes resolved, up to `end` (not included). */
static void put_literal(chat_out *o, const char *text, const char *end)
{
    for (; text < end; text++) {
        if (text[0] == '\\' && text + 1 < end && (text[1] == 'n' || text[1] == '\'' || text[1] == '"' || text[1] == '\\')) {
            const char c = text[1] == 'n' ? '\n' : text[1];
            put_bytes(o, &c, 1);
            text++;
        } else {
            put_bytes(o, text, 1);
        }
    }
}

/* The system message that a template adds of itself: literal text between before and after in one string of its source. */
static bool find_default(const char *jinja, const char *before, const char *after, const char **begin, const char **end)
{
    const size_t nb = strlen(before);
    for (const char *p = jinja; p && (p = strstr(p, before)); p += nb) {
        const char *text = p + nb;
        if (*text == '\n') text++;
        else if (text[0] == '\\' && text[1] == 'n') text += 2;
        else continue;
        const char *stop = strstr(text, after);
        if (!stop || stop == text) continue;
        bool literal = true;
        for (const char *q = text; q < stop; q++)
            if (*q == '{' || *q == '}' || *q == '\'' || (*q == '"' && q[-1] != '\\')) literal = false;
        if (!literal) continue;
        *begin = text;
        *end = stop;
        return true;
    }
    return false;
}

static void write_chatml(chat_out *o, const char *jinja, const qsf_message *m, size_t n, bool generate)
{
    const char *begin, *end;
    if (n && !is(&m[0], "system") && jinja && find_default(jinja, "<|im_start|>system", "<|im_end|>", &begin, &end)) {
        put(o, "<|im_start|>system\n");
        put_literal(o, begin, end);
        put(o, "<|im_end|>\n");
    }
    const bool trim = has(jinja, "message['content'] | trim") || has(jinja, "message['content'].strip()") || has(jinja, "message.content.strip()");
    for (size_t i = 0; i < n; i++) {
        put(o, "<|im_start|>");
        put(o, m[i].role);
        put(o, "\n");
        put_content(o, m[i].content, trim && !has(jinja, "<think>"));
        put(o, "<|im_end|>\n");
    }
    if (generate) put(o, "<|im_start|>assistant\n");
}

/* [INST] <<SYS>>\n system \n<</SYS>>\n\n user [/INST] answer </s><s>... */
static void write_llama2(chat_out *o, const qsf_message *m, size_t n)
{
    const char *system = n && is(&m[0], "system") ? m[0].content : NULL;
    bool first = true;
    for (size_t i = system ? 1 : 0; i < n; i++) {
        if (is(&m[i], "assistant")) {
            put(o, " ");
            put_trimmed(o, m[i].content);
            put(o, " </s>");
            continue;
        }
        if (!first) put(o, "<s>");
        put(o, "[INST] ");
        if (first && system) {
            put(o, "<<SYS>>\n");
            put(o, system);
            put(o, "\n<</SYS>>\n\n");
            put(o, m[i].content);
        } else {
            put_trimmed(o, m[i].content);
        }
        put(o, " [/INST]");
        first = false;
    }
}

static void write_llama3(chat_out *o, const char *jinja, const qsf_message *m, size_t n, bool generate)
{
    const bool dated = has(jinja, "Cutting Knowledge Date"), system = n && is(&m[0], "system");
    const bool trim = !jinja || has(jinja, "trim");
    size_t i = 0;
    if (dated) {
        put(o, "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n");
        if (system) put_trimmed(o, m[i++].content);
        put(o, "<|eot_id|>");
    }
    for (; i < n; i++) {
        put(o, "<|start_header_id|>");
        put(o, m[i].role);
        put(o, "<|end_header_id|>\n\n");
        put_content(o, m[i].content, trim);
        put(o, "<|eot_id|>");
    }
    if (generate) put(o, "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

/* The spaces around [INST] differ between versions; each is read from the template's own strings. */
static void write_mistral(chat_out *o, const char *jinja, const qsf_message *m, size_t n)
{
    const bool tight = has(jinja, "\"[INST]\"") || has(jinja, "'[INST]'"), newer = has(jinja, "[AVAILABLE_TOOLS]");
    const char *open = !jinja || !tight ? "[INST] " : "[INST]", *close = !jinja || !(has(jinja, "\"[/INST]\"") || has(jinja, "'[/INST]'")) ? " [/INST]" : "[/INST]";
    const bool spaced_answer = has(jinja, "\" \" + message[\"content\"]") || has(jinja, "' ' + message['content']") || has(jinja, "' ' + message[\"content\"]");
    const char *system = n && is(&m[0], "system") ? m[0].content : NULL;
    size_t last_user = n, first_user = n;
    for (size_t i = 0; i < n; i++)
        if (is(&m[i], "user")) {
            if (first_user == n) first_user = i;
            last_user = i;
        }
    const size_t holder = newer ? (last_user + 1 == n ? last_user : n) : first_user;     /* newer ones repeat it before the last message */
    for (size_t i = system ? 1 : 0; i < n; i++) {
        if (is(&m[i], "assistant")) {
            if (spaced_answer || (newer && has(jinja, "\" \" +"))) put(o, " ");
            put_content(o, m[i].content, has(jinja, "message[\"content\"]|trim") || has(jinja, "|trim + eos_token"));
            put(o, "</s>");
            continue;
        }
        put(o, open);
        if (system && i == holder) {
            put(o, system);
            put(o, "\n\n");
        }
        put(o, m[i].content);
        put(o, close);
    }
}

static void write_gemma(chat_out *o, const char *jinja, const qsf_message *m, size_t n, bool generate)
{
    const char *system = n && is(&m[0], "system") ? m[0].content : NULL;
    (void)jinja;
    for (size_t i = system ? 1 : 0; i < n; i++) {
        put(o, "<start_of_turn>");
        put(o, is(&m[i], "assistant") ? "model" : m[i].role);
        put(o, "\n");
        if (system && i == 1) {                           /* it has no role of its own */
            put(o, system);
            put(o, "\n\n");
        }
        put_trimmed(o, m[i].content);
        put(o, "<end_of_turn>\n");
    }
    if (generate) put(o, "<start_of_turn>model\n");
}

/* <|role|>\ncontent<end>\n: Phi-3 and Zephyr. */
static void write_roles(chat_out *o, const qsf_message *m, size_t n, const char *end, bool generate)
{
    for (size_t i = 0; i < n; i++) {
        put(o, "<|");
        put(o, m[i].role);
        put(o, "|>\n");
        put(o, m[i].content);
        put(o, end);
    }
    if (generate) put(o, "<|assistant|>\n");
}

static void write_command_r(chat_out *o, const qsf_message *m, size_t n, bool generate)
{
    for (size_t i = 0; i < n; i++) {
        put(o, "<|START_OF_TURN_TOKEN|>");
        put(o, is(&m[i], "system") ? "<|SYSTEM_TOKEN|>" : is(&m[i], "user") ? "<|USER_TOKEN|>" : "<|CHATBOT_TOKEN|>");
        put_trimmed(o, m[i].content);
        put(o, "<|END_OF_TURN_TOKEN|>");
    }
    if (generate) put(o, "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>");
}

#define DS_USER "<\xef\xbd\x9c" "User\xef\xbd\x9c>"
#define DS_ASSISTANT "<\xef\xbd\x9c" "Assistant\xef\xbd\x9c>"
#define DS_END "<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"

static void write_deepseek(chat_out *o, const char *jinja, const qsf_message *m, size_t n, bool generate)
{
    const bool old = has(jinja, "'User: '");
    for (size_t i = 0; i < n && !old; i++)
        if (is(&m[i], "system")) put(o, m[i].content);
    for (size_t i = 0; i < n; i++) {
        if (is(&m[i], "user")) {
            put(o, old ? "User: " : DS_USER);
            put(o, m[i].content);
            if (old) put(o, "\n\n");
        } else if (is(&m[i], "assistant")) {
            const char *think = strstr(m[i].content, "</think>"), *content = m[i].content;
            for (; !old && think; think = strstr(content, "</think>")) content = think + 8;
            put(o, old ? "Assistant: " : DS_ASSISTANT);
            put(o, content);
            put(o, DS_END);
        } else if (old) {
            put(o, m[i].content);
            put(o, "\n\n");
        }
    }
    if (!generate) return;
    put(o, old ? "Assistant:" : DS_ASSISTANT);
    if (has(jinja, "Assistant\xef\xbd\x9c><think>")) {
        put(o, "<think>\n");
        if (has(jinja, "if not enable_thinking")) put(o, "</think>");
    }
}

static void write_plain(chat_out *o, const qsf_message *m, size_t n, bool generate)
{
    for (size_t i = 0; i < n; i++) {
        if (is(&m[i], "user")) put(o, "User: ");
        if (is(&m[i], "assistant")) put(o, "Assistant: ");
        put(o, m[i].content);
        put(o, "\n");
    }
    if (generate) put(o, "Assistant:");
}

qsf_status qsf_chat_write(qsf_chat c, const char *jinja, const qsf_message *m, size_t n, bool generate, char *out, size_t cap, size_t *len, qsf_error *err)
{
    chat_out o = { out, cap, 0 };
    switch (c) {
    case QSF_CHAT_CHATML: write_chatml(&o, jinja, m, n, generate); break;
    case QSF_CHAT_LLAMA2: write_llama2(&o, m, n); break;
    case QSF_CHAT_LLAMA3: write_llama3(&o, jinja, m, n, generate); break;
    case QSF_CHAT_MISTRAL: write_mistral(&o, jinja, m, n); break;
    case QSF_CHAT_PHI3: write_roles(&o, m, n, "<|end|>\n", generate); break;
    case QSF_CHAT_GEMMA: write_gemma(&o, jinja, m, n, generate); break;
    case QSF_CHAT_ZEPHYR: write_roles(&o, m, n, "</s>\n", generate); break;
    case QSF_CHAT_COMMAND_R: write_command_r(&o, m, n, generate); break;
    case QSF_CHAT_DEEPSEEK: write_deepseek(&o, jinja, m, n, generate); break;
    case QSF_CHAT_PLAIN: write_plain(&o, m, n, generate); break;
    default: return qsf_fail(err, QSF_E_NOT_FOUND, "there is no such chat template");
    }
    *len = o.len;
    if (o.len >= cap) return qsf_fail(err, QSF_E_ARGUMENT, "the conversation takes %llu bytes, there is room for %llu", (unsigned long long)o.len + 1, (unsigned long long)cap);
    out[o.len] = 0;
    return QSF_OK;
}

#undef DS_USER
#undef DS_ASSISTANT
#undef DS_END
