/* A call in an answer: what opens it, its name and id, and what follows it.
 * SPDX-License-Identifier: MIT */
#include "chat/tools_own.h"

static bool ta_name_char(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '-' || c == '.'
        || c == '/' || (unsigned char)c >= 0x80;
}

/* ---- a call's head ---- */

uint8_t qsf_ta_first_mode(const qsf_tool_answer *a)
{
    return a->f.style == QSF_TOOLS_OBJECT ? TA_OBJECT : TA_NAME;
}

bool qsf_ta_read_open(qsf_tool_answer *a)
{
    const int seen = *ta_form(a, QSF_TT_OPEN) ? qsf_ta_see(a, QSF_TT_OPEN) : 1;
    if (seen < 0) return false;
    if (seen) a->mode = qsf_ta_first_mode(a);
    else qsf_ta_no_call(a);
    return true;
}

bool qsf_ta_read_name(qsf_tool_answer *a)
{
    size_t n = 0;
    (void)qsf_ta_peek(a);
    while (a->at + n < a->src.n && n <= TA_NAME_MOST && ta_name_char(a->src.at[a->at + n])) n++;
    if (a->at + n == a->src.n && !a->last) return false;
    if (!n || n > TA_NAME_MOST) return qsf_ta_no_call(a), true;
    qsf_ta_set(&a->name, a->src.at + a->at, n);
    if (ta_unsure(a) && !qsf_ta_tool(a)) return qsf_ta_no_call(a), true;
    a->at += n;
    a->mode = TA_ID;
    return true;
}

bool qsf_ta_read_id(qsf_tool_answer *a)
{
    const char *arguments = ta_form(a, QSF_TT_ARGUMENTS);
    const size_t begin = a->at;
    const int seen = qsf_ta_see(a, QSF_TT_ID);
    if (seen < 0) return false;
    a->mode = TA_ARGUMENTS;
    if (!seen) return true;
    for (size_t i = a->at; i < QSF_MIN(a->src.n, a->at + TA_NAME_MOST); i++) {
        const ptrdiff_t n = qsf_tool_match(arguments, a->src.at + i, a->src.n - i);
        if (n <= 0) continue;
        if (a->f.text[QSF_TT_ID][0] != ':') qsf_ta_set(&a->id, a->src.at + a->at, i - a->at);
        a->at = i;
        return true;
    }
    if (a->src.n - a->at >= TA_NAME_MOST || a->last) return qsf_ta_no_call(a), true;
    a->at = begin;                              /* reads the id again when more has arrived */
    a->mode = TA_ID;
    return false;
}

bool qsf_ta_read_arguments(qsf_tool_answer *a)
{
    const int seen = *ta_form(a, QSF_TT_ARGUMENTS) ? qsf_ta_see(a, QSF_TT_ARGUMENTS) : 1;
    if (seen < 0) return false;
    if (!seen) {
        (void)qsf_ta_peek(a);
        return qsf_ta_no_call(a), true;
    }
    a->mode = a->f.style == QSF_TOOLS_TAGS ? TA_TAG : TA_VALUE;
    return true;
}

/* ---- after a call ---- */

/* If the answer ends inside this mark, that part of it is not text. */
static void ta_end_inside(qsf_tool_answer *a, qsf_tool_text which)
{
    const char *mark = ta_form(a, which);
    if (qsf_ta_peek(a) && a->last && *mark && qsf_tool_match(mark, a->src.at + a->at, a->src.n - a->at) < 0)
        a->at = a->src.n;
}

/* After an object without marks: another one, the end of their list, or of the code block. */
static bool ta_read_behind_bare(qsf_tool_answer *a)
{
    static const char fence[] = "```";
    const char c = qsf_ta_peek(a);
    size_t at = a->at, n = 0;
    if (!c && !a->last) return false;
    if (c == ']' && a->listed) {
        a->listed = false;
        a->at++;
        return true;
    }
    if (c == ',' && a->listed)
        for (at++; at < a->src.n && qsf_tool_blank(a->src.at[at]);) at++;
    if (at == a->src.n && !a->last) return false;
    if (at < a->src.n && a->src.at[at] == '{') {
        qsf_ta_begin_call(a, a->at, at - a->at, TA_OBJECT);
        return true;
    }
    at = a->at;
    while (a->fenced && n < 3 && at + n < a->src.n && a->src.at[at + n] == fence[n]) n++;
    if (n && n < 3 && at + n == a->src.n && !a->last) return false;
    const int seen = n < 3 ? qsf_ta_see(a, QSF_TT_CLOSE) : 0;    /* a model may write half of the marks */
    if (seen < 0) return false;
    if (n == 3) a->at += n;
    a->bare = false;
    a->mode = TA_TEXT;
    a->scan = a->at;
    return true;
}

bool qsf_ta_read_close(qsf_tool_answer *a)
{
    const bool channels = a->f.style == QSF_TOOLS_CHANNELS;
    const int seen = channels || a->bare ? 0 : qsf_ta_see(a, QSF_TT_CLOSE);
    if (seen < 0) return false;
    if (!seen && !channels && !a->bare) ta_end_inside(a, QSF_TT_CLOSE);
    a->mode = channels ? TA_TEXT : TA_BEHIND;
    a->scan = a->at;
    return true;
}

bool qsf_ta_read_behind(qsf_tool_answer *a)
{
    static const uint8_t texts[] = { QSF_TT_SECTION_END, QSF_TT_BETWEEN, QSF_TT_SECTION, QSF_TT_OPEN };
    int seen[4];
    if (a->bare) return ta_read_behind_bare(a);
    const char c = qsf_ta_peek(a);
    const size_t begin = a->at;
    if (!c && !a->last) return false;
    for (int i = 0; i < 4; i++) {
        if ((seen[i] = qsf_ta_see(a, (qsf_tool_text)texts[i])) < 0) return false;
        if (!seen[i]) continue;
        qsf_ta_call_reset(a, begin);
        a->mode = i == 0 ? TA_TEXT : i == 3 ? qsf_ta_first_mode(a) : TA_OPEN;
        a->scan = a->at;
        return true;
    }
    ta_end_inside(a, QSF_TT_SECTION_END);
    if (a->f.style == QSF_TOOLS_OBJECT && (c == '{' || (c == ';' && a->weak))) {
        qsf_ta_begin_call(a, a->at, c == ';', TA_OBJECT);
        return true;
    }
    a->mode = TA_TEXT;
    a->scan = a->at;
    return true;
}
