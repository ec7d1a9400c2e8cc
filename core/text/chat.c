/* The kinds of chat templates: their names, and what ends an answer.
 * SPDX-License-Identifier: MIT */
#include "text/chat.h"

static const char *const chat_names[QSF_N_CHATS + 1] = {
    [QSF_CHAT_UNKNOWN] = "unknown", [QSF_CHAT_CHATML] = "chatml", [QSF_CHAT_LLAMA2] = "llama2",
    [QSF_CHAT_LLAMA3] = "llama3", [QSF_CHAT_MISTRAL] = "mistral",
    [QSF_CHAT_PHI3] = "phi3", [QSF_CHAT_GEMMA] = "gemma", [QSF_CHAT_ZEPHYR] = "zephyr",
    [QSF_CHAT_COMMAND_R] = "command-r", [QSF_CHAT_DEEPSEEK] = "deepseek",
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

const char *qsf_chat_eos_text(qsf_chat c)
{
    return c == QSF_CHAT_PHI3 ? "<|endoftext|>" : c == QSF_CHAT_DEEPSEEK ? qsf_chat_stop_text(c) : "</s>";
}
