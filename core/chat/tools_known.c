/* Forms of calls that templates do not show, found by a mark in their source; the last one is for
 * all others.
 * SPDX-License-Identifier: MIT */
#include "chat/tools.h"

static void tk_put(qsf_tool_form *f, qsf_tool_text which, const char *text)
{
    memcpy(f->text[which], text, strlen(text) + 1);
}

#define TK_DEEPSEEK(what, which) "<\xef\xbd\x9ctool\xe2\x96\x81" what "\xe2\x96\x81" which "\xef\xbd\x9c>"

static const struct tk_form {
    const char *mark;           /* in the template's source */
    uint8_t     style;
    const char *section, *open, *id, *arguments, *close, *between, *section_end;
} tk_forms[] = {
    { TK_DEEPSEEK("calls", "begin"), QSF_TOOLS_JSON, TK_DEEPSEEK("calls", "begin"),
      TK_DEEPSEEK("call", "begin") "function<\xef\xbd\x9ctool\xe2\x96\x81sep\xef\xbd\x9c>", "",
      "\n```json\n", "\n```" TK_DEEPSEEK("call", "end"), "\n", TK_DEEPSEEK("calls", "end") },
    { "<|tool_call_argument_begin|>", QSF_TOOLS_JSON, "<|tool_calls_section_begin|>",
      "<|tool_call_begin|>functions.", ":", "<|tool_call_argument_begin|>", "<|tool_call_end|>", "",
      "<|tool_calls_section_end|>" },
    { "<|tool_list_start|>", QSF_TOOLS_PYTHON, "<|tool_call_start|>[", "", "", "", "", ",",
      "]<|tool_call_end|>" },
    { "<|tool_call|>", QSF_TOOLS_OBJECT, "<|tool_call|>[", "", "", "", "", ",", "]" },
    { "", QSF_TOOLS_OBJECT, "", "<tool_call>\n", "", "", "\n</tool_call>", "\n", "" },
};

const char *const qsf_tool_reasoning_marks[QSF_TOOL_REASONING_MARKS][2] = {
    { "<think>", "</think>" }, { "[THINK]", "[/THINK]" }, { "<|START_THINKING|>", "<|END_THINKING|>" },
    { "<seed:think>", "</seed:think>" }, { "<thinking>", "</thinking>" },
    { "Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]" },
};

static void tk_use(qsf_tool_form *f, const struct tk_form *k)
{
    f->style = k->style;
    f->several = true;
    tk_put(f, QSF_TT_SECTION, k->section);
    tk_put(f, QSF_TT_OPEN, k->open);
    tk_put(f, QSF_TT_ID, k->id);
    tk_put(f, QSF_TT_ARGUMENTS, k->arguments);
    tk_put(f, QSF_TT_CLOSE, k->close);
    tk_put(f, QSF_TT_BETWEEN, k->between);
    tk_put(f, QSF_TT_SECTION_END, k->section_end);
    tk_put(f, QSF_TT_NAME_KEY, "name");
    tk_put(f, QSF_TT_ARGUMENTS_KEY, "arguments");
}

void qsf_tool_form_marks(const qsf_tool_form *f, qsf_text *out)
{
    for (int i = 0; i < QSF_N_TOOL_TEXTS; i++) {
        qsf_text_put(out, f->text[i]);
        qsf_text_put(out, "\n");
    }
    for (int i = 0; i < QSF_TOOL_REASONING_MARKS; i++) {
        qsf_text_put(out, qsf_tool_reasoning_marks[i][0]);
        qsf_text_put(out, qsf_tool_reasoning_marks[i][1]);
    }
    qsf_text_put(out, f->style == QSF_TOOLS_CHANNELS ? "<|start|><|channel|><|message|><|constrain|><|end|>"
                                                       "<|return|><|call|>" : "<|python_tag|>");
}

void qsf_tool_form_plain(qsf_tool_form *f)
{
    *f = (qsf_tool_form){ 0 };
    tk_use(f, &tk_forms[QSF_ARRAY_LEN(tk_forms) - 1]);
    tk_put(f, QSF_TT_REASONING, "<think>\n");
    tk_put(f, QSF_TT_REASONING_END, "\n</think>");
}

void qsf_tool_form_known(const char *source, qsf_tool_form *f)
{
    const struct tk_form *k = tk_forms;
    while (!strstr(source, k->mark)) k++;
    tk_use(f, k);
}
