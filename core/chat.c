/* The chat templates that are known, found in a model's own Jinja text.
 * SPDX-License-Identifier: MIT
 *
 * Only what a plain conversation of system, user and assistant needs is known.  A template counts as one of a kind where it has the
 * expressions that write this kind's turns and nothing that is known to change them; else it is unknown: wrong text would be worse. */
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

/* ---- reading Jinja ---- */

/* The next character that counts, as a single quote where it is a double one; 0 at the end. */
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

bool qsf_chat_has(const char *jinja, const char *expression)
{
    if (!jinja) return false;
    for (const char *begin = jinja; *begin; begin++) {
        const char *at = begin, *e = expression;
        while (*e && chat_next(&at) == *e) e++;
        if (!*e) return true;
    }
    return false;
}

static bool contains(const char *jinja, const char *mark) { return strstr(jinja, mark) != NULL; }

/* ---- kinds ---- */

static bool is_chatml(const char *j)
{
    static const char *const others[] = { "<|im_sep|>", "<end_of_utterance>", "function calling AI model", "reasoning_mode", "## Metadata", "strftime_now" };
    for (size_t i = 0; i < QSF_ARRAY_LEN(others); i++)
        if (contains(j, others[i])) return false;
    const bool bare = qsf_chat_has(j, "'<|im_start|>'+message['role']+''+message['content']+'<|im_end|>") ||
                      qsf_chat_has(j, "'<|im_start|>'+message.role+''+message.content+'<|im_end|>");
    if (!contains(j, "</think>")) return bare;
    /* Qwen 3's way with reasoning, see write_thoughts; other ways are not known. */
    return (bare || qsf_chat_has(j, "'<|im_start|>'+message.role+''+content+'<|im_end|>")) && qsf_chat_has(j, "ns.last_query_index") &&
           qsf_chat_has(j, "{%-ifloop.lastor(notloop.lastandreasoning_content)%}") &&
           qsf_chat_has(j, "+message.role+'<think>'+reasoning_content.strip('')+'</think>'+content.lstrip('')");
}

static bool is_llama2(const char *j)
{
    return qsf_chat_has(j, "bos_token+'[INST]'+content.strip()+'[/INST]'") && qsf_chat_has(j, "''+content.strip()+''+eos_token") &&
           qsf_chat_has(j, "'<<SYS>>'+system_message+'<</SYS>>'+message['content']") && qsf_chat_has(j, "setsystem_message=false%}") &&
           !qsf_chat_has(j, "setsystem_message='");
}

static bool is_llama3(const char *j)
{
    if (contains(j, "Cutting Knowledge Date") && !(contains(j, "Cutting Knowledge Date: December 2023\\n") && qsf_chat_has(j, "setdate_string='26Jul2024'"))) return false;
    return qsf_chat_has(j, "'<|start_header_id|>'+message['role']+'<|end_header_id|>'+message['content']|trim+'<|eot_id|>'") && !contains(j, "</think>") &&
           !contains(j, ">>>") && !contains(j, "<function=");
}

static bool is_mistral(const char *j)
{
    if (contains(j, "<<SYS>>") || contains(j, "default_system_message") || contains(j, "strftime_now") || contains(j, "[THINK]")) return false;
    return qsf_chat_has(j, "'[INST]'+message['content']+'[/INST]'") && (qsf_chat_has(j, "message['content']+eos_token") || qsf_chat_has(j, "message['content']|trim+eos_token"));
}

static bool is_phi3(const char *j)
{
    return qsf_chat_has(j, "'<|user|>'+message['content']+'<|end|>'") || qsf_chat_has(j, "'<|user|>'+''+message['content']+'<|end|>'") ||
           qsf_chat_has(j, "'<|'+message['role']+'|>'+''+message['content']+'<|end|>'");
}

static bool is_gemma(const char *j)
{
    return qsf_chat_has(j, "'<start_of_turn>'+role+''+message['content']|trim+'<end_of_turn>") ||
           (qsf_chat_has(j, "'<start_of_turn>'+role+''+(first_user_prefixifloop.firstelse'')") && qsf_chat_has(j, "messages[0]['content']+''"));
}

static bool is_zephyr(const char *j)
{
    return qsf_chat_has(j, "'<|user|>'+message['content']+eos_token") && qsf_chat_has(j, "'<|assistant|>'+message['content']+eos_token");
}

static bool is_command_r(const char *j)
{
    return qsf_chat_has(j, "'<|START_OF_TURN_TOKEN|><|USER_TOKEN|>'+content.strip()+'<|END_OF_TURN_TOKEN|>'") && qsf_chat_has(j, "setsystem_message=false%}") &&
           qsf_chat_has(j, "'<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>'+content.strip()+'<|END_OF_TURN_TOKEN|>'") &&
           qsf_chat_has(j, "<|SYSTEM_TOKEN|>'+system_message+'<|END_OF_TURN_TOKEN|>'");
}

static bool is_deepseek(const char *j)
{
    if (qsf_chat_has(j, "'User:'+message['content']+''")) return qsf_chat_has(j, "'Assistant:'+message['content']+eos_token") && !contains(j, "</think>");
    return qsf_chat_has(j, "'<\xef\xbd\x9cUser\xef\xbd\x9c>'+message['content']}}") && qsf_chat_has(j, "{{ns.system_prompt}}") && !contains(j, "is_last_user") &&
           !contains(j, "not thinking");
}

qsf_chat qsf_chat_detect(const char *j)
{
    static bool (*const tests[])(const char *) = {
        [QSF_CHAT_CHATML] = is_chatml, [QSF_CHAT_LLAMA2] = is_llama2, [QSF_CHAT_LLAMA3] = is_llama3, [QSF_CHAT_MISTRAL] = is_mistral, [QSF_CHAT_PHI3] = is_phi3,
        [QSF_CHAT_GEMMA] = is_gemma, [QSF_CHAT_ZEPHYR] = is_zephyr, [QSF_CHAT_COMMAND_R] = is_command_r, [QSF_CHAT_DEEPSEEK] = is_deepseek,
    };
    for (size_t c = 1; j && c < QSF_ARRAY_LEN(tests); c++)
        if (tests[c](j)) return (qsf_chat)c;
    return QSF_CHAT_UNKNOWN;
}
