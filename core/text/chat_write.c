/* What each kind of chat template makes of a conversation.  Variants of a kind are read from the
 * model's own Jinja text, by the expressions that make the difference.
 * SPDX-License-Identifier: MIT */
#include "text/chat.h"
#include "text/unicode.h"

typedef struct chat_out {
    const char    *jinja, *eos;
    char          *text;
    size_t         cap, len;
    qsf_chat_span *spans;
    size_t         span_cap, n_spans;
    bool           in_template;      /* of the last span */
} chat_out;

static void chat_bytes(chat_out *o, const char *text, size_t n, bool is_template)
{
    if (!n) return;
    if (!o->n_spans || o->in_template != is_template) {
        if (o->n_spans < o->span_cap) o->spans[o->n_spans] = (qsf_chat_span){ o->len, 0, is_template };
        o->n_spans++;
        o->in_template = is_template;
    }
    if (o->n_spans <= o->span_cap) o->spans[o->n_spans - 1].len += n;
    for (size_t i = 0; i < n; i++, o->len++)
        if (o->len < o->cap) o->text[o->len] = text[i];
}
static void put(chat_out *o, const char *text) { chat_bytes(o, text, strlen(text), true); }
static void put_content(chat_out *o, const char *text) { chat_bytes(o, text, strlen(text), false); }

/* A piece of text; trimming takes lines (one kind of character) or all white
 * space from its ends. */
typedef struct chat_text { const char *p; size_t n; } chat_text;
static chat_text whole(const char *text) { return (chat_text){ text, strlen(text) }; }
static bool chat_blank(const char *p, size_t n, bool only_lines, size_t *used)
{
    const uint32_t c = qsf_utf8_decode(p, n, used);
    /* as Python's strip() */
    return only_lines ? c == '\n' : qsf_is_space(c) || (c >= 0x1c && c <= 0x1f);
}
static chat_text trim_left(chat_text t, bool only_lines)
{
    for (size_t used; t.n && chat_blank(t.p, t.n, only_lines, &used); t.n -= used) t.p += used;
    return t;
}
static chat_text trim_right(chat_text t, bool only_lines)
{
    while (t.n) {
        size_t at = t.n - 1, used;
        while (at && t.n - at < 4 && (t.p[at] & 0xc0) == 0x80) at--;
        if (!chat_blank(t.p + at, t.n - at, only_lines, &used) || at + used != t.n) break;
        t.n = at;
    }
    return t;
}
static chat_text trim(chat_text t, bool only_lines)
{
    return trim_right(trim_left(t, only_lines), only_lines);
}
static void put_trimmed(chat_out *o, const char *text)
{
    const chat_text t = trim(whole(text), false);
    chat_bytes(o, t.p, t.n, false);
}

static bool is(const qsf_message *m, const char *role) { return !strcmp(m->role, role); }
/* A role that is none of the three is somebody's text, like content. */
static void put_role(chat_out *o, const qsf_message *m)
{
    chat_bytes(o, m->role, strlen(m->role), is(m, "system") || is(m, "user") || is(m, "assistant"));
}

/* The next character of Jinja source that counts, as a single quote where it is a double
 * one; 0 at the end. */
static char chat_next(const char **at)
{
    const char *p = *at;
    for (;; p++) {
        if (*p == '\\' && p[1] == 'n') p++;
        else if (!(*p == ' ' || (*p >= 9 && *p <= 13))) break;
    }
    *at = *p ? p + 1 : p;
    return *p == '"' ? '\'' : *p;
}

/* Whether Jinja source has this expression, written without white space and line ends (also "\n" in
 * strings) and with single quotes; the source may have them, and double quotes.  What is read
 * wrongly like this differs from what the template writes, and chat_probe.c sees that. */
static bool chat_has(const char *jinja, const char *expression)
{
    if (!jinja) return false;
    for (const char *begin = jinja; *begin; begin++) {
        if (*begin != *expression && !(*begin == '"' && *expression == '\'')) continue;
        const char *at = begin, *e = expression;
        while (*e && chat_next(&at) == *e) e++;
        if (!*e) return true;
    }
    return false;
}
static bool chat_contains(const char *jinja, const char *mark) { return jinja && strstr(jinja, mark); }
/* Templates without this switch always begin the answer. */
static bool begins_answer(const chat_out *o, bool generate)
{
    return generate || (o->jinja && !strstr(o->jinja, "add_generation_prompt"));
}

/* ---- ChatML ---- */

/* A literal of the template's source, up to end, with its escapes resolved. */
static void put_literal(chat_out *o, const char *text, const char *end)
{
    for (; text < end; text++) {
        const bool escape = text[0] == '\\' && text + 1 < end && strchr("n'\"\\", text[1]);
        if (escape) text++;
        chat_bytes(o, escape && *text == 'n' ? "\n" : text, 1, true);
    }
}

/* The system message that a template adds of itself: what follows "<|im_start|>system" up to
 * "<|im_end|>" in one string of its source. */
static void put_default_system(chat_out *o)
{
    static const char before[] = "<|im_start|>system";
    for (const char *p = o->jinja; p && (p = strstr(p, before)); p += sizeof before - 1) {
        const char *text = p + sizeof before - 1, quote = p > o->jinja ? p[-1] : 0;
        if (*text == '\n') text++;
        else if (text[0] == '\\' && text[1] == 'n') text += 2;
        else continue;
        const char *end = strstr(text, "<|im_end|>");
        bool literal = end && end > text && (quote == '\'' || quote == '"');
        for (const char *q = text; literal && q < end; q++)
            if (*q == quote && q[-1] != '\\') literal = false;
        if (!literal) continue;
        put(o, "<|im_start|>system\n");
        put_literal(o, text, end);
        put(o, "<|im_end|>\n");
        return;
    }
}

static chat_text after_last(chat_text t, const char *mark)
{
    const size_t len = strlen(mark);
    for (size_t i = t.n >= len ? t.n - len + 1 : 0; i-- > 0;)
        if (!memcmp(t.p + i, mark, len)) return (chat_text){ t.p + i + len, t.n - i - len };
    return t;
}

/* Qwen 3's answers: reasoning is dropped from those before the last question, and the last one
 * always has a block of it. */
static void put_thoughts(chat_out *o, const qsf_message *m, bool after_question, bool last)
{
    const char *end = strstr(m->content, "</think>");
    chat_text content = whole(m->content), thought = { m->content, 0 };
    if (end) {
        content = trim_left(after_last(content, "</think>"), true);
        thought.n = (size_t)(end - m->content);
        thought = trim_left(after_last(trim_right(thought, true), "<think>"), true);
    }
    if (after_question && (last || thought.n)) {
        thought = trim(thought, true);
        content = trim_left(content, true);
        put(o, "<think>\n");
        chat_bytes(o, thought.p, thought.n, false);
        put(o, "\n</think>\n\n");
    }
    chat_bytes(o, content.p, content.n, false);
}

static bool is_question(const qsf_message *m)
{
    static const char begin[] = "<tool_response>", end[] = "</tool_response>";
    const size_t n = strlen(m->content);
    const bool tool = !strncmp(m->content, begin, sizeof begin - 1) && n >= sizeof end - 1
        && !strcmp(m->content + n - (sizeof end - 1), end);
    return is(m, "user") && !tool;
}

static void write_chatml(chat_out *o, const qsf_message *m, size_t n, bool generate)
{
    const bool thinks = chat_contains(o->jinja, "last_query_index");
    size_t question = n ? n - 1 : 0;
    while (question && !is_question(&m[question])) question--;
    if (n && !is_question(&m[question])) question = n - 1;
    if (n && !is(&m[0], "system")) put_default_system(o);
    for (size_t i = 0; i < n; i++) {
        put(o, "<|im_start|>");
        put_role(o, &m[i]);
        put(o, "\n");
        if (thinks && is(&m[i], "assistant")) put_thoughts(o, &m[i], i > question, i + 1 == n);
        else put_content(o, m[i].content);
        put(o, "<|im_end|>\n");
    }
    if (begins_answer(o, generate))
        put(o, chat_has(o->jinja, "'<|im_start|>assistant<think>'}}") ? "<|im_start|>assistant\n<think>\n"
            : "<|im_start|>assistant\n");
}

/* ---- [INST] ---- */

/* Only the first system message counts.  <s>[INST] <<SYS>>\n system \n<</SYS>>\n\n user [/INST]
 * answer </s>, what is between the marks trimmed as a whole. */
static void write_llama2(chat_out *o, const qsf_message *m, size_t n)
{
    const char *system = n && is(&m[0], "system") ? m[0].content : NULL;
    const size_t first = system ? 1 : 0;
    for (size_t i = first; i < n; i++) {
        if (is(&m[i], "assistant")) {
            put(o, " ");
            put_trimmed(o, m[i].content);
            put(o, " ");
            put(o, o->eos);
            continue;
        }
        if (!is(&m[i], "user")) continue;
        put(o, i > first ? "<s>[INST] " : "[INST] ");
        if (i == first && system) {
            const chat_text user = trim_right(whole(m[i].content), false);
            put(o, "<<SYS>>\n");
            put_content(o, system);
            put(o, user.n ? "\n<</SYS>>\n\n" : "\n<</SYS>>");
            chat_bytes(o, user.p, user.n, false);
        } else {
            put_trimmed(o, m[i].content);
        }
        put(o, " [/INST]");
    }
}

/* Whether a string of the source begins (opens) or ends with this text. */
static bool has_string(const char *jinja, const char *text, bool opens)
{
    const size_t n = strlen(text);
    for (const char *p = jinja; p && (p = strstr(p, text)); p++) {
        const char quote = opens ? (p > jinja ? p[-1] : 0) : p[n];
        if (quote == '\'' || quote == '"') return true;
    }
    return false;
}

/* The blanks around [INST] differ between versions, and where the system message goes. */
static void write_mistral(chat_out *o, const qsf_message *m, size_t n)
{
    const char *j = o->jinja, *system = NULL;
    const char *open = has_string(j, " [INST] ", true) ? " [INST] " : !j || has_string(j, "[INST] ", true)
        ? "[INST] " : "[INST]";
    const char *close = !j || has_string(j, " [/INST]", false) ? " [/INST]" : "[/INST]";
    const bool own_role = chat_contains(j, "[SYSTEM_PROMPT]"),
        to_last = chat_has(j, "loop.lastandsystem_messageisdefined");
    const bool spaced = chat_contains(j, "' ' + message") || chat_contains(j, "\" \" + message"),
        trim = chat_has(j, "message['content']|trim+eos_token");
    size_t first = 0;
    if (n && is(&m[0], "system") && !own_role) system = m[first++].content;
    for (size_t i = first; i < n; i++) {
        if (is(&m[i], "user")) {
            put(o, open);
            if (system && (to_last ? i + 1 == n : i == first)) {
                put_content(o, system);
                put(o, "\n\n");
            }
            put_content(o, m[i].content);
            put(o, close);
        } else if (is(&m[i], "assistant")) {
            if (spaced) put(o, " ");
            if (trim) put_trimmed(o, m[i].content);
            else put_content(o, m[i].content);
            put(o, o->eos);
            if (chat_contains(j, "eos_token + ' '")) put(o, " ");
        } else if (own_role && is(&m[i], "system")) {
            put(o, has_string(j, "[SYSTEM_PROMPT] ", true) ? "[SYSTEM_PROMPT] " : "[SYSTEM_PROMPT]");
            put_content(o, m[i].content);
            put(o, "[/SYSTEM_PROMPT]");
        }
    }
}

/* ---- roles in marks ---- */

static void write_llama3(chat_out *o, const qsf_message *m, size_t n, bool generate)
{
    size_t i = 0;
    /* the date is the template's own, which has no clock either */
    if (chat_contains(o->jinja, "Cutting Knowledge Date")) {
        put(o, "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
            "Date: 26 Jul 2024\n\n");
        if (n && is(&m[0], "system")) put_trimmed(o, m[i++].content);
        put(o, "<|eot_id|>");
    }
    for (; i < n; i++) {
        put(o, "<|start_header_id|>");
        put_role(o, &m[i]);
        put(o, "<|end_header_id|>\n\n");
        put_trimmed(o, m[i].content);
        put(o, "<|eot_id|>");
    }
    if (begins_answer(o, generate)) put(o, "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

/* The first models' templates open the answer with every question and have no system message; here
 * it goes before the first one. */
static void write_phi3(chat_out *o, const qsf_message *m, size_t n, bool generate)
{
    const bool opened = chat_has(o->jinja, "'<|end|>'+''+'<|assistant|>'"),
        roles = !opened && o->jinja && !strstr(o->jinja, "<|user|>");
    const bool filled = chat_has(o->jinja, "=='system'andmessage['content']");
    for (size_t i = 0; i < n; i++) {
        if (is(&m[i], "system") && (opened || (filled && !m[i].content[0]))) continue;
        if (!(opened && is(&m[i], "assistant"))) {
            if (!roles && !is(&m[i], "system") && !is(&m[i], "user") && !is(&m[i], "assistant")) continue;
            put(o, "<|");
            put_role(o, &m[i]);
            put(o, "|>\n");
        }
        put_content(o, m[i].content);
        put(o, "<|end|>\n");
        if (opened && is(&m[i], "user")) put(o, "<|assistant|>\n");
    }
    if (opened) return;
    const bool answered = n && is(&m[n - 1], "assistant")
        && chat_has(o->jinja, "messages[-1]['role']!='assistant'");
    if (generate && !answered) put(o, "<|assistant|>\n");
    if (!generate && chat_has(o->jinja, "{%else%}{{eos_token}}")) put(o, o->eos);
}

static void write_gemma(chat_out *o, const qsf_message *m, size_t n, bool generate)
{
    const char *system = n && is(&m[0], "system") ? m[0].content : NULL;
    for (size_t i = system ? 1 : 0; i < n; i++) {
        put(o, "<start_of_turn>");
        if (is(&m[i], "assistant")) put(o, "model");
        else put_role(o, &m[i]);
        put(o, "\n");
        if (system && i == 1) {                           /* it has no role of its own */
            put_content(o, system);
            put(o, "\n\n");
        }
        put_trimmed(o, m[i].content);
        put(o, "<end_of_turn>\n");
    }
    if (begins_answer(o, generate)) put(o, "<start_of_turn>model\n");
}

static void write_zephyr(chat_out *o, const qsf_message *m, size_t n, bool generate)
{
    for (size_t i = 0; i < n; i++) {
        put(o, "<|");
        put_role(o, &m[i]);
        put(o, "|>\n");
        put_content(o, m[i].content);
        put(o, o->eos);
        put(o, "\n");
    }
    if (begins_answer(o, generate)) put(o, "<|assistant|>\n");
}

static void write_command_r(chat_out *o, const qsf_message *m, size_t n, bool generate)
{
    for (size_t i = 0; i < n; i++) {
        if (is(&m[i], "system") ? i > 0 : !is(&m[i], "user") && !is(&m[i], "assistant")) continue;
        put(o, "<|START_OF_TURN_TOKEN|>");
        if (is(&m[i], "system")) {
            put(o, "<|SYSTEM_TOKEN|>");
            put_content(o, m[i].content);
        } else {
            put(o, is(&m[i], "user") ? "<|USER_TOKEN|>" : "<|CHATBOT_TOKEN|>");
            put_trimmed(o, m[i].content);
        }
        put(o, "<|END_OF_TURN_TOKEN|>");
    }
    if (begins_answer(o, generate)) put(o, "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>");
}

/* ---- DeepSeek ---- */

#define DS_USER "<\xef\xbd\x9cUser\xef\xbd\x9c>"
#define DS_ASSISTANT "<\xef\xbd\x9c" "Assistant\xef\xbd\x9c>"
#define DS_END "<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"

/* V2: "User: ...\n\nAssistant: ..." and the system message as text. */
static void write_deepseek2(chat_out *o, const qsf_message *m, size_t n, bool generate)
{
    for (size_t i = 0; i < n; i++) {
        if (is(&m[i], "user")) put(o, "User: ");
        if (is(&m[i], "assistant")) put(o, "Assistant: ");
        put_content(o, m[i].content);
        put(o, is(&m[i], "assistant") ? o->eos : "\n\n");
    }
    if (begins_answer(o, generate)) put(o, "Assistant:");
}

/* V2.5, V3, R1: the last system message, or all of them, stand before everything. */
static void write_deepseek3(chat_out *o, const qsf_message *m, size_t n, bool generate)
{
    const bool all = chat_has(o->jinja, "ns.system_prompt+''+message['content']"),
        cuts = chat_contains(o->jinja, "split('</think>')");
    size_t last = n, written = 0;
    for (size_t i = 0; i < n; i++)
        if (is(&m[i], "system")) last = i;
    for (size_t i = all ? 0 : last; i < n && i <= last; i++) {
        if (!is(&m[i], "system")) continue;
        if (written++) put(o, "\n\n");
        put_content(o, m[i].content);
    }
    for (size_t i = 0; i < n; i++) {
        const bool answer = is(&m[i], "assistant");
        if (!answer && !is(&m[i], "user")) continue;
        chat_text t = whole(m[i].content);
        if (answer && cuts) t = after_last(t, "</think>");
        put(o, answer ? DS_ASSISTANT : DS_USER);
        chat_bytes(o, t.p, t.n, false);
        if (answer) put(o, DS_END);
    }
    if (!begins_answer(o, generate)) return;
    put(o, DS_ASSISTANT);
    if (chat_contains(o->jinja, DS_ASSISTANT "<think>\\n'}}")) put(o, "<think>\n");
    if (chat_contains(o->jinja, "{% if not enable_thinking %}{{- '</think>'")) put(o, "</think>");
}

static void write_plain(chat_out *o, const qsf_message *m, size_t n, bool generate)
{
    for (size_t i = 0; i < n; i++) {
        if (is(&m[i], "user")) put(o, "User: ");
        if (is(&m[i], "assistant")) put(o, "Assistant: ");
        put_content(o, m[i].content);
        put(o, "\n");
    }
    if (generate) put(o, "Assistant:");
}

/* ---- all of them ---- */

qsf_status qsf_chat_write_spans(qsf_chat c, const char *jinja, const char *eos, const qsf_message *m,
                                size_t n, bool generate, char *out, size_t cap, size_t *len,
                                qsf_chat_span *spans, size_t span_cap, size_t *n_spans, qsf_error *err)
{
    chat_out o = { .jinja = jinja, .eos = eos ? eos : qsf_chat_eos_text(c), .text = out, .cap = cap,
                   .spans = spans, .span_cap = span_cap };
    *len = *n_spans = 0;
    switch (c) {
    case QSF_CHAT_CHATML: write_chatml(&o, m, n, generate); break;
    case QSF_CHAT_LLAMA2: write_llama2(&o, m, n); break;
    case QSF_CHAT_LLAMA3: write_llama3(&o, m, n, generate); break;
    case QSF_CHAT_MISTRAL: write_mistral(&o, m, n); break;
    case QSF_CHAT_PHI3: write_phi3(&o, m, n, generate); break;
    case QSF_CHAT_GEMMA: write_gemma(&o, m, n, generate); break;
    case QSF_CHAT_ZEPHYR: write_zephyr(&o, m, n, generate); break;
    case QSF_CHAT_COMMAND_R: write_command_r(&o, m, n, generate); break;
    case QSF_CHAT_DEEPSEEK:
        if (chat_contains(jinja, "'User: '")) write_deepseek2(&o, m, n, generate);
        else write_deepseek3(&o, m, n, generate);
        break;
    case QSF_CHAT_PLAIN: write_plain(&o, m, n, generate); break;
    default: return qsf_fail(err, QSF_E_NOT_FOUND, "there is no such chat template");
    }
    *len = o.len;
    *n_spans = o.n_spans;
    if (o.len >= cap)
        return qsf_fail(err, QSF_E_ARGUMENT, "the conversation takes %llu bytes, there is room for %llu",
                        (unsigned long long)o.len + 1, (unsigned long long)cap);
    out[o.len] = 0;
    return QSF_OK;
}

qsf_status qsf_chat_write(qsf_chat c, const char *jinja, const char *eos, const qsf_message *m, size_t n,
                          bool generate, char *out, size_t cap, size_t *len, qsf_error *err)
{
    size_t n_spans;
    return qsf_chat_write_spans(c, jinja, eos, m, n, generate, out, cap, len, NULL, 0, &n_spans, err);
}

#undef DS_USER
#undef DS_ASSISTANT
#undef DS_END
