/* A call's arguments in an answer, and calls that are JSON objects.
 * SPDX-License-Identifier: MIT */
#include "chat/tools_own.h"

/* ---- values ---- */

/* Reads on in the value under way: 1: it has ended, at src[at]; 0: it is none; -1: wait. */
static int ta_value(qsf_tool_answer *a, bool show)
{
    const size_t log = a->log.n;
    a->at += qsf_tool_value_read(&a->v, a->src.at + a->at, a->src.n - a->at, a->last, show ? &a->log : NULL);
    if (show) qsf_ta_record_add(a, QSF_TE_ARGUMENTS, log, a->log.n - log);
    a->cut = a->last && !qsf_tool_value_done(&a->v) && !qsf_tool_value_bad(&a->v);
    if (qsf_tool_value_done(&a->v)) return 1;
    return qsf_tool_value_bad(&a->v) || a->last ? 0 : -1;
}

bool qsf_ta_read_value(qsf_tool_answer *a)
{
    const bool python = a->f.style == QSF_TOOLS_PYTHON;
    if (!a->called) {
        const char c = qsf_ta_peek(a);
        if (!c && !a->last) return false;
        if (c != (python ? '(' : '{') || !qsf_ta_call(a)) return qsf_ta_no_call(a), true;
        qsf_tool_value_begin(&a->v, a->f.style == QSF_TOOLS_QUOTED,
                             a->f.style == QSF_TOOLS_QUOTED ? a->f.text[QSF_TT_KEY] : "");
        if (python) {
            qsf_tool_value_begin_call(&a->v);
            a->at++;
            qsf_ta_emit(a, QSF_TE_ARGUMENTS, "{", 1);
        }
    }
    const int seen = ta_value(a, true);
    if (seen < 0) return false;
    if (seen) qsf_ta_call_end(a, TA_CLOSE);
    else qsf_ta_no_call(a);
    return true;
}

/* ---- arguments in tags ---- */

/* What follows at a position where an argument may begin or the call may end. */
typedef enum ta_next {
    NX_WAIT, NX_NONE, NX_KEY, NX_CLOSE, NX_OTHER, NX_END, NX_CUT_KEY, NX_CUT_CLOSE
} ta_next;

/* Which mark is at src[at], after blanks, and where it ends.  Models omit some of the marks
 * that close a call, so any single line of them closes it, as does the start of another call. */
static ta_next ta_next_at(const qsf_tool_answer *a, size_t at, size_t *behind)
{
    char parts[QSF_TOOL_TEXT_MOST], *part = parts;
    const char *marks[QSF_TOOL_TEXT_MOST / 2 + 6] = { ta_form(a, QSF_TT_KEY), ta_form(a, QSF_TT_CLOSE) };
    size_t n_marks = 2, other;
    bool wait = false;
    memcpy(parts, a->f.text[QSF_TT_CLOSE], sizeof parts);
    for (char *c = parts; *part; part = c) {                     /* each line of the closing mark */
        while (qsf_tool_blank(*part)) part++;
        for (c = part; *c && !qsf_tool_blank(*c);) c++;
        if (*c) *c++ = 0;
        if (*part) marks[n_marks++] = part;
    }
    other = n_marks;
    marks[n_marks++] = ta_form(a, QSF_TT_SECTION_END);
    marks[n_marks++] = ta_form(a, QSF_TT_SECTION);
    marks[n_marks++] = ta_form(a, QSF_TT_OPEN);
    marks[n_marks++] = qsf_ta_half(a);
    while (at < a->src.n && qsf_tool_blank(a->src.at[at])) at++;
    *behind = a->src.n;
    if (at == a->src.n) return a->last ? NX_END : NX_WAIT;
    ta_next cut = NX_NONE;
    for (size_t i = 0; i < n_marks; i++) {
        const ptrdiff_t n = *marks[i] ? qsf_tool_match(marks[i], a->src.at + at, a->src.n - at) : 0;
        if (n < 0 && i == 1 && a->last) return NX_CUT_CLOSE;
        if (n < 0 && i < other) cut = i ? NX_CUT_CLOSE : NX_CUT_KEY;
        wait = wait || n < 0;
        if (n <= 0) continue;
        if (wait && !a->last) return NX_WAIT;
        *behind = at + (size_t)n;
        return i == 0 ? NX_KEY : i < other ? NX_CLOSE : NX_OTHER;
    }
    return wait && !a->last ? NX_WAIT : cut;
}

bool qsf_ta_read_tag(qsf_tool_answer *a)
{
    size_t behind;
    const ta_next next = ta_next_at(a, a->at, &behind);
    if (next == NX_WAIT) return false;
    const bool ends = next == NX_CLOSE || next == NX_CUT_CLOSE || next == NX_OTHER;
    if ((next != NX_KEY && !ends) || (!a->called && !qsf_ta_call(a))) {
        (void)qsf_ta_peek(a);
        a->cut = next == NX_END || next == NX_CUT_KEY;
        return qsf_ta_no_call(a), true;
    }
    if (next != NX_OTHER) a->at = behind;
    a->scan = a->at;
    if (next == NX_KEY) {
        a->mode = TA_TAG_KEY;
        return true;
    }
    qsf_ta_emit(a, QSF_TE_ARGUMENTS, a->has_arguments ? "}" : "{}", a->has_arguments ? 1 : 2);
    qsf_ta_call_end(a, TA_BEHIND);
    return true;
}

/* Finds a mark from src[scan] on: 1: at scan, *len bytes; 0: not there, or cut off at scan; -1:
 * needs more input. */
static int ta_search(qsf_tool_answer *a, const char *text, size_t *len)
{
    for (; a->scan < a->src.n; a->scan++) {
        if (a->src.at[a->scan] != *text) continue;
        const ptrdiff_t n = qsf_tool_match(text, a->src.at + a->scan, a->src.n - a->scan);
        *len = n > 0 ? (size_t)n : 0;
        if (n > 0) return 1;
        if (n < 0) break;                       /* the rest may be the beginning of the mark */
    }
    a->cut = a->last;
    return a->last ? 0 : -1;
}

/* A value begins after the text that was found at scan. */
static bool ta_tag_begin(qsf_tool_answer *a, qsf_tool_text which, size_t len)
{
    /* without its blanks the text ends with a mark; one line end after it may be the form's */
    const char *before = ta_form(a, which);
    size_t blanks = strlen(before);
    a->at = a->scan + len;
    while (blanks && qsf_tool_blank(before[blanks - 1])) blanks--;
    while (a->at > a->scan && qsf_tool_blank(a->src.at[a->at - 1])) a->at--;
    a->line = before[blanks] == '\n';
    a->scan = a->at;
    a->shown = a->begun = a->closed = false;
    a->mode = TA_TAG_VALUE;
    return true;
}

bool qsf_ta_read_tag_key(qsf_tool_answer *a)
{
    size_t len = 0;
    const int seen = ta_search(a, ta_form(a, QSF_TT_VALUE), &len);
    if (seen < 0 && a->scan - a->at < TA_KEY_MOST) return false;
    if (seen <= 0 || a->scan - a->at >= TA_KEY_MOST) {
        a->at = a->scan;
        return qsf_ta_no_call(a), true;
    }
    qsf_ta_set(&a->key, a->src.at + a->at, a->scan - a->at);
    const size_t log = a->log.n;
    qsf_text_put(&a->log, a->has_arguments ? ", \"" : "{\"");
    qsf_text_json(&a->log, a->key.at, a->key.n);
    qsf_text_put(&a->log, "\": ");
    qsf_ta_record_add(a, QSF_TE_ARGUMENTS, log, a->log.n - log);
    a->has_arguments = true;
    a->types = qsf_tool_argument(a->tool, a->key.at);
    if (!*ta_form(a, QSF_TT_TYPE)) return ta_tag_begin(a, QSF_TT_VALUE, len);
    a->scan = a->at = a->scan + len;
    a->mode = TA_TAG_TYPE;
    return true;
}

/* Reads the word for the type, and what follows it. */
bool qsf_ta_read_tag_type(qsf_tool_answer *a)
{
    const char *type = ta_form(a, QSF_TT_TYPE);
    size_t len = 0;
    const int seen = ta_search(a, ta_form(a, QSF_TT_VALUE_BEGIN), &len);
    const size_t n = a->scan - a->at;
    if (seen < 0 && n < TA_KEY_MOST) return false;
    if (seen <= 0) {
        a->at = a->scan;
        return qsf_ta_no_call(a), true;
    }
    if (n == strlen(type) && !memcmp(a->src.at + a->at, type, n)) a->types = QSF_TOOL_STRING;
    else a->types = QSF_TOOL_ANY & ~QSF_TOOL_STRING;
    return ta_tag_begin(a, QSF_TT_VALUE_BEGIN, len);
}

static void ta_emit_json(qsf_tool_answer *a, const char *p, size_t n)
{
    const size_t log = a->log.n;
    qsf_text_json(&a->log, p, n);
    qsf_ta_record_add(a, QSF_TE_ARGUMENTS, log, a->log.n - log);
}

/* The type of a JSON value, as a bit, judged by its first bytes. */
static uint8_t ta_type_of(const char *p, size_t n)
{
    switch (*p) {
    case '{': return QSF_TOOL_DICT;
    case '[': return QSF_TOOL_LIST;
    case '"': return QSF_TOOL_STRING;
    case 't': case 'f': return QSF_TOOL_BOOL;
    case 'n': return QSF_TOOL_NULL;
    default:
        while (n && !strchr(".eE", p[n - 1])) n--;
        return n ? QSF_TOOL_FRACTION : QSF_TOOL_INTEGER;
    }
}

/* Emits a whole value that need not be a string: as JSON if it is JSON of an allowed type or
 * strings are not allowed, otherwise as a string. */
static void ta_tag_whole(qsf_tool_answer *a, const char *p, size_t n)
{
    const size_t log = a->log.n;
    size_t used = 0;
    while (used < n && qsf_tool_blank(p[used])) used++;
    const bool single = used < n && p[used] == '\'', quoted = used < n && p[used] == '"';
    qsf_tool_value_begin(&a->v, !quoted, "");
    if (!single) used += qsf_tool_value_read(&a->v, p + used, n - used, true, &a->log);
    while (used < n && qsf_tool_blank(p[used])) used++;
    const bool is_json = qsf_tool_value_done(&a->v) && used == n && a->log.n > log && !a->log.failed;
    const uint8_t type = is_json ? ta_type_of(a->log.at + log, a->log.n - log) : 0;
    if (type && ((a->types & type) || !(a->types & QSF_TOOL_STRING))) {
        qsf_ta_record_add(a, QSF_TE_ARGUMENTS, log, a->log.n - log);
        return;
    }
    a->log.n = log;
    qsf_ta_emit(a, QSF_TE_ARGUMENTS, "\"", 1);
    ta_emit_json(a, p, n);
    qsf_ta_emit(a, QSF_TE_ARGUMENTS, "\"", 1);
}

/* Whether the value begins with XML's "<![CDATA[": then it is a string; -1: wait. */
static int ta_see_cdata(qsf_tool_answer *a)
{
    static const char mark[] = "<![CDATA[";
    size_t n = 0;
    while (n < sizeof mark - 1 && a->at + n < a->src.n && a->src.at[a->at + n] == mark[n]) n++;
    if (n < sizeof mark - 1) return a->at + n == a->src.n && !a->last ? -1 : 0;
    a->scan = a->at += n;
    a->types = QSF_TOOL_STRING;
    return 1;
}

/* Finds the end of a value: its mark, followed by another mark or the end of input; the same
 * characters elsewhere belong to the value.  Returns the same as ta_search. */
static int ta_search_end(qsf_tool_answer *a, size_t *len)
{
    size_t behind;
    for (int seen;; a->scan++) {
        if ((seen = ta_search(a, a->cdata ? "]]>" : ta_form(a, QSF_TT_VALUE_END), len)) <= 0 || a->cdata)
            return seen;
        const ta_next next = ta_next_at(a, a->scan + *len, &behind);
        if (next == NX_WAIT) return -1;
        if (next != NX_NONE) return 1;
        a->closed = true;
    }
}

bool qsf_ta_read_tag_value(qsf_tool_answer *a)
{
    const bool line = qsf_tool_blank(a->f.text[QSF_TT_VALUE_END][0]);
    size_t len = 0;
    if (a->line) {                              /* the line end after the mark */
        if (a->at == a->src.n && !a->last) return false;
        if (a->at < a->src.n && a->src.at[a->at] == '\n') a->at++;
        a->scan = QSF_MAX(a->scan, a->at);
        a->line = false;
    }
    if (!a->begun) {
        const int cdata = ta_see_cdata(a);
        if (cdata < 0) return false;
        a->begun = true;
        a->cdata = cdata;
    }
    const bool text = a->types == QSF_TOOL_STRING;
    const int seen = ta_search_end(a, &len);
    size_t end = a->scan;
    if (line && !a->cdata && end > a->at && a->src.at[end - 1] == '\n') end--;
    if (text) {
        if (!a->shown) qsf_ta_emit(a, QSF_TE_ARGUMENTS, "\"", 1);
        a->shown = true;
        ta_emit_json(a, a->src.at + a->at, end - a->at);
        a->at = end;
    }
    if (seen < 0) return false;
    if (!seen) {                                /* the answer is cut here */
        if (!text) ta_tag_whole(a, a->src.at + a->at, end - a->at);
        a->at = a->scan;
        a->cut = !a->closed;
        return qsf_ta_no_call(a), true;
    }
    if (text) qsf_ta_emit(a, QSF_TE_ARGUMENTS, "\"", 1);
    else ta_tag_whole(a, a->src.at + a->at, end - a->at);
    a->at = a->scan + len;
    a->mode = a->cdata ? TA_TAG_END : TA_TAG;
    return true;
}

/* After a value that had an end of its own. */
bool qsf_ta_read_tag_end(qsf_tool_answer *a)
{
    const int seen = qsf_ta_see(a, QSF_TT_VALUE_END);
    if (seen < 0) return false;
    if (!seen) (void)qsf_ta_peek(a);
    if (!seen) qsf_ta_no_call(a);
    else a->mode = TA_TAG;
    return true;
}

/* ---- calls as objects ---- */

bool qsf_ta_read_object(qsf_tool_answer *a)
{
    char c = qsf_ta_peek(a);
    if (c == '[' && a->bare && !a->listed) {
        a->listed = true;
        a->at++;
        c = qsf_ta_peek(a);
    }
    if (!c && !a->last) return false;
    if (c != '{') return qsf_ta_no_call(a), true;
    a->at++;
    a->mode = TA_OBJECT_KEY;
    a->begin = SIZE_MAX;
    return true;
}

/* Sets out to the JSON value p[0..n): a string is unquoted and unescaped, others are copied. */
static void ta_take(qsf_tool_answer *a, const char *p, size_t n, qsf_text *out)
{
    qsf_json j;
    out->n = 0;
    const qsf_status st = qsf_json_read(a->platform, p, n, "call", &j, NULL);
    out->failed |= st == QSF_E_MEMORY;
    if (st) return;
    if (j.nodes->type == QSF_JSON_TEXT) qsf_ta_set(out, j.nodes->text, j.nodes->n);
    else qsf_ta_set(out, p, n);
    qsf_json_drop(&j);
}

static void ta_object_end(qsf_tool_answer *a)
{
    if (a->wrapped) {
        a->wrapped = false;
        return;
    }
    bool bad = a->bare && !a->has_arguments && !a->has_span;     /* any object may have a name */
    const bool span = !a->has_arguments && a->has_span;
    if (span) {
        ta_take(a, a->src.at + a->span, a->span_end - a->span, &a->key);
        a->has_arguments = a->key.n && *a->key.at == '{';
        bad = !a->has_arguments && (a->key.n != 4 || memcmp(a->key.at, "null", 4));
    }
    if (bad || (!a->called && (!a->name.n || !qsf_ta_call(a)))) {
        qsf_ta_no_call(a);
        return;
    }
    if (span && a->has_arguments) qsf_ta_emit(a, QSF_TE_ARGUMENTS, a->key.at, a->key.n);
    if (!a->has_arguments) qsf_ta_emit(a, QSF_TE_ARGUMENTS, "{}", 2);
    qsf_ta_call_end(a, TA_CLOSE);
}

bool qsf_ta_read_object_key(qsf_tool_answer *a)
{
    if (a->begin == SIZE_MAX) {
        const char c = qsf_ta_peek(a);
        if (!c && !a->last) return false;
        if (c == ',' || c == '}') {
            a->at++;
            if (c == '}') ta_object_end(a);
            return true;
        }
        if (c != '"') return qsf_ta_no_call(a), true;
        a->begin = a->at;
        qsf_tool_value_begin(&a->v, false, "");
    }
    const int seen = ta_value(a, false);
    if (seen < 0 && a->at - a->begin < TA_KEY_MOST) return false;
    if (seen <= 0 || a->at - a->begin > TA_KEY_MOST) return qsf_ta_no_call(a), true;
    ta_take(a, a->src.at + a->begin, a->at - a->begin, &a->key);
    a->mode = TA_OBJECT_COLON;
    return true;
}

static bool ta_key_is(const qsf_tool_answer *a, const char *name)
{
    return *name && a->key.n == strlen(name) && !memcmp(a->key.at, name, a->key.n);
}
static const char *ta_name_key(const qsf_tool_answer *a)
{
    return a->bare ? "name" : a->f.text[QSF_TT_NAME_KEY];
}
static bool ta_key_is_arguments(const qsf_tool_answer *a)
{
    return ta_key_is(a, a->f.text[QSF_TT_ARGUMENTS_KEY]) || ta_key_is(a, "arguments")
        || ta_key_is(a, "parameters") || !*ta_name_key(a);
}

bool qsf_ta_read_object_colon(qsf_tool_answer *a)
{
    const char c = qsf_ta_peek(a);
    if (!c && !a->last) return false;
    if (c != ':') return qsf_ta_no_call(a), true;
    a->at++;
    a->mode = TA_OBJECT_VALUE;
    a->begin = SIZE_MAX;
    return true;
}

/* Begins the value after a key; false: this is not a call, or wait (*wait). */
static bool ta_object_value_begin(qsf_tool_answer *a, bool *wait)
{
    const char c = qsf_ta_peek(a);
    *wait = !c && !a->last;
    if (!c) return false;
    qsf_tool_value_begin(&a->v, false, "");
    a->begin = a->at;
    if (!*ta_name_key(a) && !a->name.n) qsf_ta_set(&a->name, a->key.at, a->key.n);
    if (ta_unsure(a) && !ta_key_is_arguments(a) && !ta_key_is(a, ta_name_key(a))
        && !ta_key_is(a, "type") && !ta_key_is(a, "id")) return false;
    if (c != '{' || !ta_key_is_arguments(a) || !a->name.n || a->has_arguments) return true;
    if (!a->called && !qsf_ta_call(a)) return false;
    a->shown = a->has_arguments = true;
    return true;
}

bool qsf_ta_read_object_value(qsf_tool_answer *a)
{
    bool wait;
    if (a->begin == SIZE_MAX) {
        a->shown = false;
        if (!a->wrapped && ta_key_is(a, a->f.text[QSF_TT_WRAP_KEY]) && qsf_ta_peek(a) == '{') {
            a->wrapped = true;
            a->at++;
            a->mode = TA_OBJECT_KEY;
            return true;
        }
        if (!ta_object_value_begin(a, &wait)) {
            if (!wait) qsf_ta_no_call(a);
            return !wait;
        }
    }
    const int seen = ta_value(a, a->shown);
    if (seen < 0) return false;
    if (!seen) return qsf_ta_no_call(a), true;
    if (ta_key_is(a, ta_name_key(a))) {
        if (a->src.at[a->begin] != '"') return qsf_ta_no_call(a), true;
        ta_take(a, a->src.at + a->begin, a->at - a->begin, &a->name);
        if (ta_unsure(a) && !qsf_ta_tool(a)) return qsf_ta_no_call(a), true;
    } else if (ta_key_is(a, a->f.text[QSF_TT_ID_KEY]) && !a->called) {
        ta_take(a, a->src.at + a->begin, a->at - a->begin, &a->id);
    } else if (!a->shown && ta_key_is_arguments(a)) {
        a->has_span = true;
        a->span = a->begin;
        a->span_end = a->at;
    }
    a->mode = TA_OBJECT_KEY;
    a->begin = SIZE_MAX;
    return true;
}
