/* Reads what surrounds calls in an answer: text, reasoning, and the headers of Harmony's messages.
 * SPDX-License-Identifier: MIT */
#include "chat/tools_own.h"

/* ---- text and reasoning ---- */

typedef enum ta_mark { TM_NONE, TM_WAIT, TM_TEXT, TM_REASONING, TM_SECTION, TM_OPEN, TM_HALF, TM_END,
                       TM_BEGIN, TM_OBJECT, TM_BARE, TM_FENCED, TM_MESSAGE } ta_mark;

/* Whether a mark is possible here. */
static bool ta_mark_fits(const qsf_tool_answer *a, size_t i, uint8_t mark, const char *text)
{
    const ta_control *control = qsf_ta_control_at(a, i);
    switch (mark) {
    case TM_REASONING: return !a->has_text || (control && control->len < strlen(text));
    case TM_BEGIN: return !a->has_text && !a->n_calls;
    case TM_END: return a->n_calls && (!a->has_text || *text == '<');
    case TM_SECTION: case TM_OPEN: return !a->has_text || strlen(text) >= 3;
    default: return true;
    }
}

/* The second line of a call's opening mark, with which calls begin if models omit the first. */
const char *qsf_ta_half(const qsf_tool_answer *a)
{
    const char *text = ta_form(a, QSF_TT_OPEN), *half = "";
    for (; *text && a->f.style == QSF_TOOLS_TAGS && a->tools.n_nodes; text++)
        if (*text == '\n' && text[1] == '<') half = text + 1;
    return half;
}

/* Whether src[i] may begin a call without marks: a line, or the answer.  An object that is a part
 * of another one has its line indented. */
static bool ta_begins_line(const qsf_tool_answer *a, size_t i)
{
    return a->tools.n_nodes && i >= a->prompt && (!a->has_text || (i && a->src.at[i - 1] == '\n'));
}

/* A call without its marks at src[i]: an object, or a code block with one or a list of them. */
static ta_mark ta_bare(const qsf_tool_answer *a, size_t i, size_t *len)
{
    const char *p = a->src.at + i;
    const size_t n = a->src.n - i;
    size_t k = 0;
    *len = 0;
    if (*p == '{' || *p == '[') return *p == '{' || n == 1 || strchr(" \n{", p[1]) ? TM_BARE : TM_NONE;
    while (k < QSF_MIN(n, 3) && p[k] == '`') k++;
    if (k < 3) return k == n && !a->last ? TM_WAIT : TM_NONE;
    while (k < QSF_MIN(n, 16) && ((p[k] >= 'a' && p[k] <= 'z') || p[k] == '_')) k++;
    if (k < n && p[k] != '\n') return TM_NONE;
    const bool named = k > 3 || !a->has_text;           /* without a name it may end a block as well */
    while (k < n && qsf_tool_blank(p[k])) k++;
    if (k == n) return a->last ? TM_NONE : TM_WAIT;
    *len = k;
    return named && (p[k] == '{' || p[k] == '[') ? TM_FENCED : TM_NONE;
}

/* Which mark is at src[i]; *len: its bytes. */
static ta_mark ta_mark_at(const qsf_tool_answer *a, size_t i, size_t *len)
{
    static const struct { uint8_t which, mark; } marks[] = {
        { QSF_TT_TEXT, TM_TEXT }, { QSF_TT_REASONING, TM_REASONING }, { QSF_TT_SECTION, TM_SECTION },
        { QSF_TT_OPEN, TM_OPEN }, { QSF_N_TOOL_TEXTS, TM_HALF }, { QSF_TT_SECTION_END, TM_END },
        { QSF_TT_REASONING_END, TM_BEGIN }, { QSF_TT_TEXT_END, TM_TEXT },
    };
    static const char *const ends[] = { "<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>" };
    const char *p = a->src.at + i;
    const size_t n = a->src.n - i;
    const bool channels = a->f.style == QSF_TOOLS_CHANNELS;
    bool wait = false;
    for (size_t k = 0; k < (channels ? QSF_ARRAY_LEN(ends) : QSF_ARRAY_LEN(marks)); k++) {
        const uint8_t mark = channels ? TM_MESSAGE : marks[k].mark;
        const char *text = channels ? ends[k] : mark == TM_HALF ? qsf_ta_half(a)
            : ta_form(a, (qsf_tool_text)marks[k].which);
        if (*text != *p || !ta_mark_fits(a, i, mark, text)) continue;
        const ptrdiff_t used = qsf_tool_match(text, p, n);
        if (used < 0) wait = true;
        if (used <= 0) continue;
        if (wait && !a->last) return TM_WAIT;
        *len = channels && k >= 3 ? 0 : (size_t)used;
        return mark;
    }
    if (wait && !a->last) return TM_WAIT;
    *len = 0;
    if (a->weak && a->f.style == QSF_TOOLS_OBJECT && !a->has_text && a->tools.n_nodes) {
        if (*p == '{') return TM_OBJECT;
        const ptrdiff_t used = qsf_tool_match("<|python_tag|>", p, n);
        if (used < 0 && !a->last) return TM_WAIT;
        *len = used > 0 ? (size_t)used : 0;
        if (used > 0) return TM_OBJECT;
    }
    return !channels && ta_begins_line(a, i) ? ta_bare(a, i, len) : TM_NONE;
}

/* A model may reason though its template knows nothing of it, by any of the marks that are usual.
 * Takes those whose first one stands at src[i]; true: it may still come to stand there. */
static bool ta_take_marks(qsf_tool_answer *a, size_t i)
{
    for (int k = 0; k < QSF_TOOL_REASONING_MARKS; k++) {
        const char *const *marks = qsf_tool_reasoning_marks[k];
        const ptrdiff_t used = qsf_tool_match(marks[0], a->src.at + i, a->src.n - i);
        if (used < 0 && !a->last) return true;
        if (used <= 0) continue;
        memcpy(a->f.text[QSF_TT_REASONING], marks[0], strlen(marks[0]) + 1);
        memcpy(a->f.text[QSF_TT_REASONING_END], marks[1], strlen(marks[1]) + 1);
    }
    return false;
}

/* Blanks wait for what follows them: before a call they are the form's. */
bool qsf_ta_read_text(qsf_tool_answer *a)
{
    size_t i = a->scan, end = a->at, len = 0;
    ta_mark mark = TM_NONE;
    for (; i < a->src.n; i++) {
        if (qsf_tool_blank(a->src.at[i])) {
            if (a->drop_blanks && a->at == i) end = ++a->at;
            continue;
        }
        if (!a->f.reasoning_shown && !a->has_text && !a->n_calls && i >= a->prompt && ta_take_marks(a, i))
            mark = TM_WAIT;
        else if (i >= a->prompt || !i) mark = ta_mark_at(a, i, &len);
        if (mark) break;
        if (qsf_ta_drop_control(a, i)) {
            i--;
            continue;
        }
        end = i + 1;
        a->has_text |= i >= a->prompt;
    }
    qsf_ta_text(a, a->at, end);
    a->at = end;
    a->scan = i;
    if (mark == TM_NONE && a->last) {
        qsf_ta_text(a, a->at, a->n_calls || a->drop_blanks ? a->at : a->src.n);
        a->at = a->src.n;
    }
    if (mark == TM_NONE || mark == TM_WAIT) return false;
    a->bare = mark == TM_BARE || mark == TM_FENCED;
    a->fenced = mark == TM_FENCED;
    a->listed = false;
    switch (mark) {
    case TM_SECTION: qsf_ta_begin_call(a, end, i + len - end, TA_OPEN); break;
    case TM_OPEN: case TM_HALF:
        qsf_ta_begin_call(a, end, i + len - end, qsf_ta_first_mode(a));
        a->doubtful = mark == TM_HALF;
        break;
    case TM_OBJECT: case TM_BARE: case TM_FENCED: qsf_ta_begin_call(a, end, i + len - end, TA_OBJECT); break;
    case TM_MESSAGE: qsf_ta_begin_call(a, end, i + len - end, TA_HEADER); break;
    default:
        a->at = i + len;
        a->drop_blanks = true;
        if (mark == TM_REASONING) a->mode = TA_REASONING;
    }
    a->scan = a->at;
    return true;
}

/* A model may write the mark that its prompt has begun the reasoning with once more, first of all:
 * the bytes of it at src[i]; 0: it is not there; -1: wait. */
static ptrdiff_t ta_see_again(const qsf_tool_answer *a, size_t i)
{
    if (!a->f.in_reasoning || !a->drop_blanks || a->records.n) return 0;
    const ptrdiff_t n = qsf_tool_match(ta_form(a, QSF_TT_REASONING), a->src.at + i, a->src.n - i);
    return n < 0 && a->last ? 0 : n;
}

/* Whether a call's mark is within reasoning, at src[i].  If the reasoning is closed after it, the
 * mark is part of the reasoning; else it begins a call, which also ends the reasoning. */
static ta_mark ta_call_in_reasoning(const qsf_tool_answer *a, size_t i)
{
    bool wait = false;
    for (int k = QSF_TT_SECTION; k <= QSF_TT_OPEN && a->tools.n_nodes; k++) {
        const char *text = ta_form(a, (qsf_tool_text)k);
        if (*text != a->src.at[i] || strlen(text) < 3) continue;
        const ptrdiff_t n = qsf_tool_match(text, a->src.at + i, a->src.n - i);
        if (n > 0) return TM_OPEN;
        wait |= n < 0 && !a->last;
    }
    return wait ? TM_WAIT : TM_NONE;
}

bool qsf_ta_read_reasoning(qsf_tool_answer *a)
{
    const bool channels = a->f.style == QSF_TOOLS_CHANNELS;
    const char *end_text = ta_form(a, QSF_TT_REASONING_END);
    size_t i = a->scan, end = a->at, len = 0;
    ta_mark mark = TM_NONE;
    ptrdiff_t seen;
    for (; i < a->src.n && !mark; i++) {
        if (qsf_tool_blank(a->src.at[i])) {
            if (a->drop_blanks && a->at == i) end = ++a->at;
            continue;
        }
        if (channels) {
            mark = ta_mark_at(a, i, &len);
        } else if ((seen = ta_see_again(a, i)) != 0) {
            if (seen < 0) break;
            a->at = end = i + (size_t)seen;
            i = a->at - 1;
            continue;
        } else if (a->src.at[i] == *end_text) {
            const ptrdiff_t n = qsf_tool_match(end_text, a->src.at + i, a->src.n - i);
            if (n > 0) len = (size_t)n;
            mark = n > 0 ? TM_END : n < 0 && !a->last ? TM_WAIT : TM_NONE;
        }
        if (!mark && !channels && !a->held && (mark = ta_call_in_reasoning(a, i)) == TM_OPEN) {
            a->held = true;
            mark = TM_NONE;
        }
        if (mark) break;
        if (!a->held && qsf_ta_drop_control(a, i)) {
            i--;
            continue;
        }
        if (!a->held) end = i + 1;
        a->drop_blanks = false;
    }
    if (a->held && mark == TM_END) for (end = i; qsf_tool_blank(a->src.at[end - 1]);) end--;
    qsf_ta_show(a, QSF_TE_REASONING, a->at, end);
    a->at = end;
    a->scan = i;
    const bool calls = a->held && mark == TM_NONE && a->last;
    if ((mark == TM_NONE && !calls) || mark == TM_WAIT) return false;
    a->drop_blanks = true;
    a->has_text = a->held = false;
    a->thinking = calls;
    if (calls) {
        a->mode = TA_TEXT;
        a->drop_blanks = false;             /* they are reasoning if this is not a call */
    } else if (channels) {
        qsf_ta_begin_call(a, i, len, TA_HEADER);
    } else {
        a->at = i + len;
        a->mode = TA_TEXT;
    }
    a->scan = a->at;
    return true;
}

/* ---- Harmony ---- */

/* The word after the last `before` in p[0..n); NULL: `before` was not found. */
static const char *ta_word(const char *p, size_t n, const char *before, size_t *len)
{
    const size_t m = strlen(before);
    const char *found = NULL;
    for (size_t i = 0; i + m <= n; i++)
        if (!memcmp(p + i, before, m)) found = p + i + m;
    *len = 0;
    while (found && found + *len < p + n && found[*len] != '<' && !qsf_tool_blank(found[*len])) ++*len;
    return found;
}

/* The header of a message, from src[mark] on, up to its text. */
bool qsf_ta_read_header(qsf_tool_answer *a)
{
    static const char message[] = "<|message|>", functions[] = "functions.";
    const size_t m = sizeof message - 1;
    const char *p = a->src.at + a->at, *to, *channel;
    const size_t n = a->src.n - a->at;
    size_t i = 0, to_len, channel_len;
    while (i < n && memcmp(p + i, message, QSF_MIN(m, n - i))) i++;
    const bool begins = !n || *p == '<' || *p == ' ' || *p == 't' || *p == 'a';
    if (i + m > QSF_MIN(n, TA_HEADER_MOST) || !begins) {
        if (!n || (!a->last && n < TA_HEADER_MOST && begins)) return false;
        a->at++;
        return qsf_ta_no_call(a), true;
    }
    to = ta_word(p, i, "to=", &to_len);
    channel = ta_word(p, i, "<|channel|>", &channel_len);
    a->at += i + m;
    a->mark = a->scan = a->at;                  /* if it is not a call, its body is text */
    a->prompt = QSF_MIN(a->prompt, a->mark);
    if (to && to_len > sizeof functions - 1 && !memcmp(to, functions, sizeof functions - 1)) {
        to += sizeof functions - 1;
        to_len -= sizeof functions - 1;
    }
    if (to && to_len && (to_len != 9 || memcmp(to, "assistant", 9))) {
        qsf_ta_set(&a->name, to, to_len);
        a->mode = TA_VALUE;
        return true;
    }
    a->mode = channel && channel_len == 8 && !memcmp(channel, "analysis", 8) ? TA_REASONING : TA_TEXT;
    a->has_text = false;
    a->drop_blanks = a->mode == TA_REASONING;
    return true;
}
