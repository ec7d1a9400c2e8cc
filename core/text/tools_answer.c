/* Answers while they arrive: reasoning, text, and calls with their arguments as JSON.
 * SPDX-License-Identifier: MIT
 *
 * One mode after another reads src[at..n); a mode that cannot tell yet waits for more.  What it has
 * understood becomes events, whose texts are in one log.  A call's bytes stay in src until it is
 * whole: if it turns out to be none, they are text, so nothing is lost, and reading goes on where
 * the error was, so that no byte is read more often than the form has texts. */
#include "text/tools.h"
#include "text/unicode.h"

enum {                          /* what is read next */
    TA_TEXT, TA_REASONING,
    TA_OPEN, TA_NAME, TA_ID, TA_ARGUMENTS, TA_VALUE,
    TA_TAG, TA_TAG_KEY, TA_TAG_VALUE,
    TA_OBJECT, TA_OBJECT_KEY, TA_OBJECT_COLON, TA_OBJECT_VALUE,
    TA_CLOSE, TA_BEHIND, TA_HEADER
};
enum { TA_NAME_MOST = 128, TA_KEY_MOST = 512, TA_HEADER_MOST = 512, TA_ID_BYTES = 9 };

typedef struct ta_record { uint8_t type; uint32_t call, id_len; size_t at, len; } ta_record;

struct qsf_tool_answer {
    const qsf_platform *platform;
    qsf_tool_form   f;
    bool            weak;           /* too little of a mark to believe it without a known name */
    qsf_json        tools;
    uint64_t        seed;

    qsf_text        src, log, records, json;
    qsf_utf8_tail   tail;
    size_t          at, scan, mark, prompt;     /* prompt: bytes of src that the model did not write */
    size_t          next;           /* record */
    uint8_t         mode;
    bool            last;
    bool            has_text;       /* something that is no blank since the last mark */
    bool            drop_blanks;    /* none was, and blanks here are the form's */

    uint32_t        n_calls;
    bool            called;         /* CALL was told */
    bool            has_arguments;    /* some arguments were */
    bool            has_span, wrapped;
    bool            shown;          /* the value under way is told while it comes */
    bool            line;           /* a line end here is the form's */
    qsf_text        name, id, key;
    const qsf_json_node *tool;      /* the call's; NULL: not known */
    size_t          begin;          /* of the value under way */
    size_t          span, span_end; /* arguments that came before the name */
    qsf_tool_value  v;
};

static bool ta_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
static const char *ta_core(const char *text)
{
    while (ta_blank(*text)) text++;
    return text;
}
static const char *ta_form(const qsf_tool_answer *a, qsf_tool_text which) { return ta_core(a->f.text[which]); }

/* ---- events ---- */

static void ta_record_add(qsf_tool_answer *a, uint8_t type, size_t at, size_t len)
{
    ta_record *r = (ta_record *)(void *)a->records.at;
    const size_t n = a->records.n / sizeof *r;
    const bool alone = type == QSF_TE_CALL || type == QSF_TE_CALL_END || type == QSF_TE_CALL_DROPPED;
    if (!len && !alone) return;
    if (!alone && n > a->next && r[n - 1].type == type && r[n - 1].call == a->n_calls
        && r[n - 1].at + r[n - 1].len == at) {
        r[n - 1].len += len;
        return;
    }
    const ta_record made = { type, a->n_calls, 0, at, len };
    qsf_text_add(&a->records, (const char *)&made, sizeof made);
}

static void ta_emit(qsf_tool_answer *a, uint8_t type, const char *p, size_t n)
{
    qsf_text_add(&a->log, p, n);
    ta_record_add(a, type, a->log.n - n, n);
}

static void ta_text(qsf_tool_answer *a, size_t from, size_t to)
{
    from = QSF_MAX(from, a->prompt);
    if (from >= to) return;
    ta_emit(a, QSF_TE_TEXT, a->src.at + from, to - from);
    a->has_text = true;
    a->drop_blanks = false;
}

/* ---- calls ---- */

static const qsf_json_node *ta_tool(const qsf_tool_answer *a, const char *name)
{
    if (!a->tools.n_nodes) return NULL;
    const qsf_json_node *t = qsf_json_first(a->tools.nodes);
    for (uint32_t i = 0; i < a->tools.nodes->n; i++, t = qsf_json_next(t)) {
        const qsf_json_node *f = qsf_json_member(t, "function"), *n;
        if (!f) f = t;
        if ((n = qsf_json_member(f, "name")) && qsf_json_is_text(n, name)) return f;
    }
    return NULL;
}

static void ta_set(qsf_text *t, const char *p, size_t n)
{
    t->n = 0;
    qsf_text_add(t, p, n);
    qsf_text_put(t, " ");                       /* so that an empty one is terminated as well */
    t->n = n;
    if (!t->failed) t->at[n] = 0;
}

/* A call begins to be read at src[mark]. */
static void ta_call_reset(qsf_tool_answer *a, size_t mark)
{
    a->mark = mark;
    a->called = a->has_arguments = a->has_span = a->shown = a->wrapped = false;
    a->name.n = a->id.n = a->key.n = 0;
    a->tool = NULL;
}

static void ta_id(const qsf_tool_answer *a, char *out)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint64_t x = a->seed + 0x9e3779b97f4a7c15u * (a->n_calls + 1u);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    for (int i = 0; i < TA_ID_BYTES; i++, x /= 62) out[i] = digits[x % 62];
}

/* The name is known and arguments come: false: it cannot be a call. */
static bool ta_call(qsf_tool_answer *a)
{
    char id[TA_ID_BYTES];
    if (a->name.failed || !a->name.n || a->name.n > TA_NAME_MOST) return false;
    a->tool = ta_tool(a, a->name.at);
    if (a->weak && !a->tool) return false;
    ta_id(a, id);
    if (!a->id.n) qsf_text_add(&a->id, id, TA_ID_BYTES);
    qsf_text_add(&a->log, a->id.at, a->id.n);
    ta_emit(a, QSF_TE_CALL, a->name.at, a->name.n);
    if (!a->records.failed) ((ta_record *)(void *)(a->records.at + a->records.n))[-1].id_len = (uint32_t)a->id.n;
    return a->called = true;
}

static void ta_call_end(qsf_tool_answer *a, uint8_t mode)
{
    ta_record_add(a, QSF_TE_CALL_END, a->log.n, 0);
    a->n_calls++;
    a->called = false;
    a->has_text = false;
    a->drop_blanks = true;
    a->mode = mode;
}

/* What began at src[mark] is no call: it is text, up to where reading is. */
static void ta_no_call(qsf_tool_answer *a)
{
    ta_record *r = (ta_record *)(void *)a->records.at;
    size_t n = a->records.n / sizeof *r;
    bool told = false;
    while (a->called && n--) {
        told = r[n].type == QSF_TE_CALL && n < a->next;
        a->called = r[n].type != QSF_TE_CALL;
        r[n].type = QSF_TE_NONE;
    }
    if (told) ta_record_add(a, QSF_TE_CALL_DROPPED, a->log.n, 0);
    ta_text(a, a->mark, a->at);
    a->scan = a->at;
    a->mode = TA_TEXT;
}

/* ---- reading ---- */

/* The text of the form at src[at], behind blanks: 1: there, and read; 0: not there; -1: wait. */
static int ta_see(qsf_tool_answer *a, qsf_tool_text which)
{
    const char *text = ta_form(a, which);
    size_t i = a->at;
    while (i < a->src.n && ta_blank(a->src.at[i])) i++;
    const ptrdiff_t n = *text ? qsf_tool_match(text, a->src.at + i, a->src.n - i) : 0;
    if (n > 0) a->at = i + (size_t)n;
    return n > 0 ? 1 : n < 0 && !a->last ? -1 : 0;
}

/* The next byte that is no blank, 0 where none is there yet. */
static char ta_peek(qsf_tool_answer *a)
{
    while (a->at < a->src.n && ta_blank(a->src.at[a->at])) a->at++;
    return a->at < a->src.n ? a->src.at[a->at] : 0;
}

static bool ta_name_char(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '-' || c == '.'
        || c == '/' || (unsigned char)c >= 0x80;
}

/* ---- text and reasoning ---- */

typedef enum ta_mark { TM_NONE, TM_WAIT, TM_TEXT, TM_REASONING, TM_SECTION, TM_OPEN, TM_END, TM_OBJECT,
                       TM_MESSAGE } ta_mark;

/* Which mark stands at src[i]; *len: its bytes. */
static ta_mark ta_mark_at(const qsf_tool_answer *a, size_t i, size_t *len)
{
    static const struct { uint8_t which, mark; } marks[] = {
        { QSF_TT_TEXT, TM_TEXT }, { QSF_TT_REASONING, TM_REASONING }, { QSF_TT_SECTION, TM_SECTION },
        { QSF_TT_OPEN, TM_OPEN }, { QSF_TT_SECTION_END, TM_END },
    };
    static const char *const ends[] = { "<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>" };
    const char *p = a->src.at + i;
    const size_t n = a->src.n - i;
    const bool channels = a->f.style == QSF_TOOLS_CHANNELS;
    bool wait = false;
    for (size_t k = 0; k < QSF_ARRAY_LEN(marks); k++) {
        const uint8_t mark = marks[k].mark;
        const char *text = channels ? ends[k] : ta_form(a, (qsf_tool_text)marks[k].which);
        if (*text != *p || (!channels && ((mark == TM_REASONING && a->has_text)
                                          || (mark == TM_END && (!a->n_calls || (a->has_text && *p != '<')))
                                          || (a->has_text && (mark == TM_SECTION || mark == TM_OPEN)
                                              && strlen(text) < 3)))) continue;
        const ptrdiff_t used = qsf_tool_match(text, p, n);
        if (used < 0) wait = true;
        if (used <= 0) continue;
        if (wait && !a->last) return TM_WAIT;
        *len = channels && k >= 3 ? 0 : (size_t)used;
        return channels ? TM_MESSAGE : mark;
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
    return TM_NONE;
}

static void ta_begin_call(qsf_tool_answer *a, size_t at, size_t len, uint8_t mode)
{
    ta_call_reset(a, at);
    a->at = at + len;
    a->mode = mode;
}
static uint8_t ta_first_mode(const qsf_tool_answer *a)
{
    return a->f.style == QSF_TOOLS_OBJECT ? TA_OBJECT : TA_NAME;
}

/* Blanks wait for what follows them: before a call they are the form's. */
static bool ta_read_text(qsf_tool_answer *a)
{
    size_t i = a->scan, end = a->at, len = 0;
    ta_mark mark = TM_NONE;
    for (; i < a->src.n; i++) {
        if (ta_blank(a->src.at[i])) {
            if (a->drop_blanks && a->at == i) end = ++a->at;
            continue;
        }
        if (i >= a->prompt || !i) mark = ta_mark_at(a, i, &len);
        if (mark) break;
        end = i + 1;
        a->has_text |= i >= a->prompt;
    }
    ta_text(a, a->at, end);
    a->at = end;
    a->scan = i;
    if (mark == TM_NONE && a->last) {
        ta_text(a, a->at, a->n_calls || a->drop_blanks ? a->at : a->src.n);
        a->at = a->src.n;
    }
    if (mark == TM_NONE || mark == TM_WAIT) return false;
    switch (mark) {
    case TM_SECTION: ta_begin_call(a, end, i + len - end, TA_OPEN); break;
    case TM_OPEN: ta_begin_call(a, end, i + len - end, ta_first_mode(a)); break;
    case TM_OBJECT: ta_begin_call(a, end, i + len - end, TA_OBJECT); break;
    case TM_MESSAGE: ta_begin_call(a, end, i + len - end, TA_HEADER); break;
    default:
        a->at = i + len;
        a->drop_blanks = true;
        if (mark == TM_REASONING) a->mode = TA_REASONING;
    }
    a->scan = a->at;
    return true;
}

static bool ta_read_reasoning(qsf_tool_answer *a)
{
    const bool channels = a->f.style == QSF_TOOLS_CHANNELS;
    const char *end_text = ta_form(a, QSF_TT_REASONING_END);
    size_t i = a->scan, end = a->at, len = 0;
    ta_mark mark = TM_NONE;
    for (; i < a->src.n && !mark; i++) {
        if (ta_blank(a->src.at[i])) {
            if (a->drop_blanks && a->at == i) end = ++a->at;
            continue;
        }
        if (channels) {
            mark = ta_mark_at(a, i, &len);
        } else if (a->src.at[i] == *end_text) {
            const ptrdiff_t n = qsf_tool_match(end_text, a->src.at + i, a->src.n - i);
            if (n > 0) len = (size_t)n;
            mark = n > 0 ? TM_END : n < 0 && !a->last ? TM_WAIT : TM_NONE;
        }
        if (mark) break;
        end = i + 1;
        a->drop_blanks = false;
    }
    if (end > a->at) ta_emit(a, QSF_TE_REASONING, a->src.at + a->at, end - a->at);
    a->at = end;
    a->scan = i;
    if (mark == TM_NONE || mark == TM_WAIT) return false;
    a->drop_blanks = true;
    a->has_text = false;
    if (channels) {
        ta_begin_call(a, i, len, TA_HEADER);
    } else {
        a->at = i + len;
        a->mode = TA_TEXT;
    }
    a->scan = a->at;
    return true;
}

/* ---- a call's head ---- */

static bool ta_read_open(qsf_tool_answer *a)
{
    const int seen = *ta_form(a, QSF_TT_OPEN) ? ta_see(a, QSF_TT_OPEN) : 1;
    if (seen < 0) return false;
    if (seen) a->mode = ta_first_mode(a);
    else ta_no_call(a);
    return true;
}

static bool ta_read_name(qsf_tool_answer *a)
{
    size_t n = 0;
    (void)ta_peek(a);
    while (a->at + n < a->src.n && n <= TA_NAME_MOST && ta_name_char(a->src.at[a->at + n])) n++;
    if (a->at + n == a->src.n && !a->last) return false;
    if (!n || n > TA_NAME_MOST) return ta_no_call(a), true;
    ta_set(&a->name, a->src.at + a->at, n);
    if (a->weak && !ta_tool(a, a->name.at)) return ta_no_call(a), true;
    a->at += n;
    a->mode = TA_ID;
    return true;
}

static bool ta_read_id(qsf_tool_answer *a)
{
    const char *arguments = ta_form(a, QSF_TT_ARGUMENTS);
    const size_t begin = a->at;
    const int seen = ta_see(a, QSF_TT_ID);
    if (seen < 0) return false;
    a->mode = TA_ARGUMENTS;
    if (!seen) return true;
    for (size_t i = a->at; i < QSF_MIN(a->src.n, a->at + TA_NAME_MOST); i++) {
        const ptrdiff_t n = qsf_tool_match(arguments, a->src.at + i, a->src.n - i);
        if (n <= 0) continue;
        if (a->f.text[QSF_TT_ID][0] != ':') ta_set(&a->id, a->src.at + a->at, i - a->at);
        a->at = i;
        return true;
    }
    if (a->src.n - a->at >= TA_NAME_MOST || a->last) return ta_no_call(a), true;
    a->at = begin;                              /* reads the id again when there is more */
    a->mode = TA_ID;
    return false;
}

static bool ta_read_arguments(qsf_tool_answer *a)
{
    const int seen = *ta_form(a, QSF_TT_ARGUMENTS) ? ta_see(a, QSF_TT_ARGUMENTS) : 1;
    if (seen < 0) return false;
    if (!seen) return ta_no_call(a), true;
    a->mode = a->f.style == QSF_TOOLS_TAGS ? TA_TAG : TA_VALUE;
    return true;
}

/* ---- values ---- */

/* Reads on in the value under way: 1: it has ended, at src[at]; 0: it is none; -1: wait. */
static int ta_value(qsf_tool_answer *a, bool show)
{
    const size_t log = a->log.n;
    a->at += qsf_tool_value_read(&a->v, a->src.at + a->at, a->src.n - a->at, a->last, show ? &a->log : NULL);
    if (show) ta_record_add(a, QSF_TE_ARGUMENTS, log, a->log.n - log);
    if (qsf_tool_value_done(&a->v)) return 1;
    return qsf_tool_value_bad(&a->v) || a->last ? 0 : -1;
}

static bool ta_read_value(qsf_tool_answer *a)
{
    const bool python = a->f.style == QSF_TOOLS_PYTHON;
    if (!a->called) {
        const char c = ta_peek(a);
        if (!c && !a->last) return false;
        if (c != (python ? '(' : '{') || !ta_call(a)) return ta_no_call(a), true;
        qsf_tool_value_begin(&a->v, a->f.style == QSF_TOOLS_QUOTED,
                             a->f.style == QSF_TOOLS_QUOTED ? a->f.text[QSF_TT_KEY] : "");
        if (python) {
            qsf_tool_value_begin_call(&a->v);
            a->at++;
            ta_emit(a, QSF_TE_ARGUMENTS, "{", 1);
        }
    }
    const int seen = ta_value(a, true);
    if (seen < 0) return false;
    if (seen) ta_call_end(a, TA_CLOSE);
    else ta_no_call(a);
    return true;
}

/* ---- arguments in tags ---- */

static bool ta_read_tag(qsf_tool_answer *a)
{
    const int key = ta_see(a, QSF_TT_KEY);
    if (key < 0) return false;
    const int close = key ? 0 : ta_see(a, QSF_TT_CLOSE);
    if (close < 0) return false;
    /* An answer may end within what closes the call. */
    const char *end = ta_form(a, QSF_TT_CLOSE);
    const bool cut = !key && !close && ta_peek(a) && qsf_tool_match(end, a->src.at + a->at, a->src.n - a->at) < 0;
    if ((!key && !close && !cut) || (!a->called && !ta_call(a))) return ta_no_call(a), true;
    if (key) {
        a->mode = TA_TAG_KEY;
        a->scan = a->at;
        return true;
    }
    if (cut) a->at = a->src.n;
    ta_emit(a, QSF_TE_ARGUMENTS, a->has_arguments ? "}" : "{}", a->has_arguments ? 1 : 2);
    ta_call_end(a, TA_BEHIND);
    return true;
}

/* Finds a text of the form from src[scan] on: 1: at scan, *len bytes; 0: not there; -1: wait. */
static int ta_search(qsf_tool_answer *a, qsf_tool_text which, size_t *len)
{
    const char *text = ta_form(a, which);
    for (; a->scan < a->src.n; a->scan++) {
        if (a->src.at[a->scan] != *text) continue;
        const ptrdiff_t n = qsf_tool_match(text, a->src.at + a->scan, a->src.n - a->scan);
        if (n < 0 && !a->last) return -1;
        *len = n > 0 ? (size_t)n : 0;
        if (n > 0) return 1;
    }
    return a->last ? 0 : -1;
}

/* Whether an argument can only be a text (1), cannot be one (0), or nobody knows (-1). */
static int ta_is_text(const qsf_tool_answer *a, const char *key)
{
    const qsf_json_node *v = a->tool ? qsf_json_member(a->tool, "parameters") : NULL;
    if (v) v = qsf_json_member(v, "properties");
    if (v) v = qsf_json_member(v, key);
    if (v) v = qsf_json_member(v, "type");
    if (!v || v->type != QSF_JSON_TEXT) return -1;
    return qsf_json_is_text(v, "string");
}

static bool ta_read_tag_key(qsf_tool_answer *a)
{
    size_t len = 0;
    const int seen = ta_search(a, QSF_TT_VALUE, &len);
    if (seen < 0 && a->scan - a->at < TA_KEY_MOST) return false;
    if (seen <= 0 || a->scan - a->at >= TA_KEY_MOST) {
        a->at = a->scan;
        return ta_no_call(a), true;
    }
    ta_set(&a->key, a->src.at + a->at, a->scan - a->at);
    const size_t log = a->log.n;
    qsf_text_put(&a->log, a->has_arguments ? ", \"" : "{\"");
    qsf_text_json(&a->log, a->key.at, a->key.n);
    qsf_text_put(&a->log, "\": ");
    ta_record_add(a, QSF_TE_ARGUMENTS, log, a->log.n - log);
    a->has_arguments = true;
    /* the core ends with the mark, behind which one line end may be the form's */
    const char *value = ta_form(a, QSF_TT_VALUE);
    size_t blanks = strlen(value);
    a->at = a->scan + len;
    while (blanks && ta_blank(value[blanks - 1])) blanks--;
    while (a->at > a->scan && ta_blank(a->src.at[a->at - 1])) a->at--;
    a->line = value[blanks] == '\n';
    a->scan = a->at;
    a->shown = false;
    a->mode = TA_TAG_VALUE;
    return true;
}

static void ta_emit_json(qsf_tool_answer *a, const char *p, size_t n)
{
    const size_t log = a->log.n;
    qsf_text_json(&a->log, p, n);
    ta_record_add(a, QSF_TE_ARGUMENTS, log, a->log.n - log);
}

/* A value that is there wholly and may be something else than a text. */
static void ta_tag_whole(qsf_tool_answer *a, const char *p, size_t n)
{
    const size_t log = a->log.n;
    const bool quoted = n && (*p == '"' || *p == '\'');
    size_t used = 0;
    qsf_tool_value_begin(&a->v, true, "");
    if (!quoted) used = qsf_tool_value_read(&a->v, p, n, true, &a->log);
    while (used < n && ta_blank(p[used])) used++;
    if (qsf_tool_value_done(&a->v) && used == n) {
        ta_record_add(a, QSF_TE_ARGUMENTS, log, a->log.n - log);
        return;
    }
    a->log.n = log;
    ta_emit(a, QSF_TE_ARGUMENTS, "\"", 1);
    ta_emit_json(a, p, n);
    ta_emit(a, QSF_TE_ARGUMENTS, "\"", 1);
}

static bool ta_read_tag_value(qsf_tool_answer *a)
{
    const int text = ta_is_text(a, a->key.at);
    const bool line = ta_blank(a->f.text[QSF_TT_VALUE_END][0]);
    size_t len = 0;
    if (a->line) {                              /* the line end behind the mark */
        if (a->at == a->src.n && !a->last) return false;
        if (a->at < a->src.n && a->src.at[a->at] == '\n') a->at++;
        a->scan = QSF_MAX(a->scan, a->at);
        a->line = false;
    }
    const int seen = ta_search(a, QSF_TT_VALUE_END, &len);
    size_t end = a->scan;
    if (line && end > a->at && a->src.at[end - 1] == '\n') end--;
    if (text == 1) {
        if (!a->shown) ta_emit(a, QSF_TE_ARGUMENTS, "\"", 1);
        a->shown = true;
        ta_emit_json(a, a->src.at + a->at, end - a->at);
        a->at = end;
    }
    if (seen < 0) return false;
    if (!seen) {
        a->at = a->scan;
        return ta_no_call(a), true;
    }
    if (text == 1) ta_emit(a, QSF_TE_ARGUMENTS, "\"", 1);
    else ta_tag_whole(a, a->src.at + a->at, end - a->at);
    a->at = a->scan + len;
    a->mode = TA_TAG;
    return true;
}

/* ---- calls as objects ---- */

static bool ta_read_object(qsf_tool_answer *a)
{
    const char c = ta_peek(a);
    if (!c && !a->last) return false;
    if (c != '{') return ta_no_call(a), true;
    a->at++;
    a->mode = TA_OBJECT_KEY;
    a->begin = SIZE_MAX;
    return true;
}

/* A JSON value whose text is p[0..n): a text without its quotes and escapes, or as it is. */
static void ta_take(qsf_tool_answer *a, const char *p, size_t n, qsf_text *out)
{
    qsf_json j;
    out->n = 0;
    if (qsf_json_read(a->platform, p, n, "call", &j, NULL)) return;
    if (j.nodes->type == QSF_JSON_TEXT) ta_set(out, j.nodes->text, j.nodes->n);
    else ta_set(out, p, n);
    qsf_json_drop(&j);
}

static void ta_object_end(qsf_tool_answer *a)
{
    if (a->wrapped) {
        a->wrapped = false;
        return;
    }
    if (!a->called && (!a->name.n || !ta_call(a))) {
        ta_no_call(a);
        return;
    }
    if (!a->has_arguments && a->has_span) {
        ta_take(a, a->src.at + a->span, a->span_end - a->span, &a->key);
        a->has_arguments = a->key.n && *a->key.at == '{';
        if (a->has_arguments) ta_emit(a, QSF_TE_ARGUMENTS, a->key.at, a->key.n);
        else if (a->key.n != 4 || memcmp(a->key.at, "null", 4)) {
            ta_no_call(a);
            return;
        }
    }
    if (!a->has_arguments) ta_emit(a, QSF_TE_ARGUMENTS, "{}", 2);
    ta_call_end(a, TA_CLOSE);
}

static bool ta_read_object_key(qsf_tool_answer *a)
{
    if (a->begin == SIZE_MAX) {
        const char c = ta_peek(a);
        if (!c && !a->last) return false;
        if (c == ',' || c == '}') {
            a->at++;
            if (c == '}') ta_object_end(a);
            return true;
        }
        if (c != '"') return ta_no_call(a), true;
        a->begin = a->at;
        qsf_tool_value_begin(&a->v, false, "");
    }
    const int seen = ta_value(a, false);
    if (seen < 0 && a->at - a->begin < TA_KEY_MOST) return false;
    if (seen <= 0 || a->at - a->begin > TA_KEY_MOST) return ta_no_call(a), true;
    ta_take(a, a->src.at + a->begin, a->at - a->begin, &a->key);
    a->mode = TA_OBJECT_COLON;
    return true;
}

static bool ta_key_is(const qsf_tool_answer *a, const char *name)
{
    return *name && a->key.n == strlen(name) && !memcmp(a->key.at, name, a->key.n);
}
static bool ta_key_is_arguments(const qsf_tool_answer *a)
{
    return ta_key_is(a, a->f.text[QSF_TT_ARGUMENTS_KEY]) || ta_key_is(a, "arguments")
        || ta_key_is(a, "parameters") || !*a->f.text[QSF_TT_NAME_KEY];
}

static bool ta_read_object_colon(qsf_tool_answer *a)
{
    const char c = ta_peek(a);
    if (!c && !a->last) return false;
    if (c != ':') return ta_no_call(a), true;
    a->at++;
    a->mode = TA_OBJECT_VALUE;
    a->begin = SIZE_MAX;
    return true;
}

/* Begins the value behind a key; false: the call is none, or wait (*wait). */
static bool ta_object_value_begin(qsf_tool_answer *a, bool *wait)
{
    const char c = ta_peek(a);
    *wait = !c && !a->last;
    if (!c) return false;
    qsf_tool_value_begin(&a->v, false, "");
    a->begin = a->at;
    if (!*a->f.text[QSF_TT_NAME_KEY] && !a->name.n) ta_set(&a->name, a->key.at, a->key.n);
    if (a->weak && !ta_key_is_arguments(a) && !ta_key_is(a, a->f.text[QSF_TT_NAME_KEY])
        && !ta_key_is(a, "type") && !ta_key_is(a, "id")) return false;
    if (c != '{' || !ta_key_is_arguments(a) || !a->name.n || a->has_arguments) return true;
    if (!a->called && !ta_call(a)) return false;
    a->shown = a->has_arguments = true;
    return true;
}

static bool ta_read_object_value(qsf_tool_answer *a)
{
    bool wait;
    if (a->begin == SIZE_MAX) {
        a->shown = false;
        if (!a->wrapped && ta_key_is(a, a->f.text[QSF_TT_WRAP_KEY]) && ta_peek(a) == '{') {
            a->wrapped = true;
            a->at++;
            a->mode = TA_OBJECT_KEY;
            return true;
        }
        if (!ta_object_value_begin(a, &wait)) {
            if (!wait) ta_no_call(a);
            return !wait;
        }
    }
    const int seen = ta_value(a, a->shown);
    if (seen < 0) return false;
    if (!seen) return ta_no_call(a), true;
    if (ta_key_is(a, a->f.text[QSF_TT_NAME_KEY])) {
        if (a->src.at[a->begin] != '"') return ta_no_call(a), true;
        ta_take(a, a->src.at + a->begin, a->at - a->begin, &a->name);
        if (a->weak && (!a->name.n || !ta_tool(a, a->name.at))) return ta_no_call(a), true;
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

/* ---- behind a call ---- */

static bool ta_read_close(qsf_tool_answer *a)
{
    const bool channels = a->f.style == QSF_TOOLS_CHANNELS;
    const int seen = channels ? 0 : ta_see(a, QSF_TT_CLOSE);
    if (seen < 0) return false;
    a->mode = channels ? TA_TEXT : TA_BEHIND;
    a->scan = a->at;
    return true;
}

static bool ta_read_behind(qsf_tool_answer *a)
{
    static const uint8_t texts[] = { QSF_TT_SECTION_END, QSF_TT_BETWEEN, QSF_TT_SECTION, QSF_TT_OPEN };
    int seen[4];
    const char c = ta_peek(a);
    const size_t begin = a->at;
    if (!c && !a->last) return false;
    for (int i = 0; i < 4; i++) {
        if ((seen[i] = ta_see(a, (qsf_tool_text)texts[i])) < 0) return false;
        if (!seen[i]) continue;
        ta_call_reset(a, begin);
        a->mode = i == 0 ? TA_TEXT : i == 3 ? ta_first_mode(a) : TA_OPEN;
        a->scan = a->at;
        return true;
    }
    if (a->f.style == QSF_TOOLS_OBJECT && (c == '{' || (c == ';' && a->weak))) {
        ta_begin_call(a, a->at, c == ';', TA_OBJECT);
        return true;
    }
    a->mode = TA_TEXT;
    a->scan = a->at;
    return true;
}

/* ---- Harmony ---- */

/* The word behind a text in p[0..n). */
static const char *ta_word(const char *p, size_t n, const char *before, size_t *len)
{
    const size_t m = strlen(before);
    *len = 0;
    for (size_t i = 0; i + m <= n; i++) {
        if (memcmp(p + i, before, m)) continue;
        while (i + m + *len < n && p[i + m + *len] != '<' && !ta_blank(p[i + m + *len])) ++*len;
        return p + i + m;
    }
    return NULL;
}

/* The header of a message, from src[mark] on, up to its text. */
static bool ta_read_header(qsf_tool_answer *a)
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
        return ta_no_call(a), true;
    }
    to = ta_word(p, i, "to=", &to_len);
    channel = ta_word(p, i, "<|channel|>", &channel_len);
    a->at += i + m;
    a->scan = a->at;
    a->prompt = QSF_MIN(a->prompt, a->mark);
    if (to && to_len > sizeof functions - 1 && !memcmp(to, functions, sizeof functions - 1)) {
        to += sizeof functions - 1;
        to_len -= sizeof functions - 1;
    }
    if (to && to_len) {
        ta_set(&a->name, to, to_len);
        a->mode = TA_VALUE;
        return true;
    }
    a->mode = channel && channel_len == 8 && !memcmp(channel, "analysis", 8) ? TA_REASONING : TA_TEXT;
    a->has_text = false;
    a->drop_blanks = a->mode == TA_REASONING;
    return true;
}

/* ---- all of it ---- */

static bool ta_step(qsf_tool_answer *a)
{
    switch (a->mode) {
    case TA_TEXT: return ta_read_text(a);
    case TA_REASONING: return ta_read_reasoning(a);
    case TA_OPEN: return ta_read_open(a);
    case TA_NAME: return ta_read_name(a);
    case TA_ID: return ta_read_id(a);
    case TA_ARGUMENTS: return ta_read_arguments(a);
    case TA_VALUE: return ta_read_value(a);
    case TA_TAG: return ta_read_tag(a);
    case TA_TAG_KEY: return ta_read_tag_key(a);
    case TA_TAG_VALUE: return ta_read_tag_value(a);
    case TA_OBJECT: return ta_read_object(a);
    case TA_OBJECT_KEY: return ta_read_object_key(a);
    case TA_OBJECT_COLON: return ta_read_object_colon(a);
    case TA_OBJECT_VALUE: return ta_read_object_value(a);
    case TA_CLOSE: return ta_read_close(a);
    case TA_BEHIND: return ta_read_behind(a);
    default: return ta_read_header(a);
    }
}

static bool ta_in_call(const qsf_tool_answer *a)
{
    return (a->mode >= TA_OPEN && a->mode < TA_CLOSE) || a->mode == TA_HEADER;
}

/* Forgets what has been read. */
static void ta_forget(qsf_tool_answer *a)
{
    const size_t done = ta_in_call(a) ? a->mark : a->at;
    if (!done) return;
    a->src.n -= done;
    memmove(a->src.at, a->src.at + done, a->src.n);
    a->at -= done;
    a->scan -= QSF_MIN(a->scan, done);
    a->mark -= QSF_MIN(a->mark, done);
    a->prompt -= QSF_MIN(a->prompt, done);
    if (a->begin != SIZE_MAX) a->begin -= QSF_MIN(a->begin, done);
    a->span -= QSF_MIN(a->span, done);
    a->span_end -= QSF_MIN(a->span_end, done);
}

qsf_status qsf_tool_answer_push(qsf_tool_answer *a, const char *bytes, size_t n, bool last, qsf_error *err)
{
    char whole[3 * (64 + 4)];
    for (size_t i = 0; i < n; i += 64)
        qsf_text_add(&a->src, whole, qsf_utf8_push(&a->tail, bytes + i, QSF_MIN(n - i, 64), whole));
    if (last) {
        if (a->tail.len) qsf_text_put(&a->src, "\xef\xbf\xbd");
        a->tail.len = 0;
        a->last = true;
    }
    if (a->src.at) {
        while (ta_step(a)) { }
        ta_forget(a);
    }
    if (a->src.failed || a->log.failed || a->records.failed || a->name.failed || a->id.failed || a->key.failed)
        return qsf_fail(err, QSF_E_MEMORY, "answer: out of memory");
    return QSF_OK;
}

bool qsf_tool_answer_next(qsf_tool_answer *a, qsf_tool_event *out)
{
    const ta_record *r = (const ta_record *)(const void *)a->records.at;
    const size_t n = a->records.n / sizeof *r;
    while (a->next < n && r[a->next].type == QSF_TE_NONE) a->next++;
    if (a->next == n) return false;
    r += a->next++;
    *out = (qsf_tool_event){ r->type, r->call, a->log.at + r->at, a->log.at + r->at - r->id_len, r->len,
                             r->id_len };
    return true;
}

qsf_status qsf_tool_answer_json(qsf_tool_answer *a, const char **out, size_t *len, qsf_error *err)
{
    const ta_record *r = (const ta_record *)(const void *)a->records.at;
    const size_t n = a->records.n / sizeof *r;
    qsf_text *j = &a->json;
    bool open = false, calls = false;
    j->n = 0;
    qsf_text_put(j, "{\"role\":\"assistant\",\"content\":");
    for (int part = QSF_TE_TEXT; part <= QSF_TE_REASONING; part++) {
        bool any = false;
        for (size_t i = 0; i < n; i++) {
            if (r[i].type != part) continue;
            if (!any) qsf_text_put(j, part == QSF_TE_TEXT ? "\"" : ",\"reasoning_content\":\"");
            any = true;
            qsf_text_json(j, a->log.at + r[i].at, r[i].len);
        }
        if (any) qsf_text_put(j, "\"");
        else if (part == QSF_TE_TEXT) qsf_text_put(j, a->n_calls ? "null" : "\"\"");
    }
    for (size_t i = 0; i < n; i++) {
        const char *text = a->log.at + r[i].at;
        if (r[i].type == QSF_TE_CALL) {
            qsf_text_put(j, open ? "\"}},{\"id\":\"" : calls ? ",{\"id\":\"" : ",\"tool_calls\":[{\"id\":\"");
            qsf_text_json(j, text - r[i].id_len, r[i].id_len);
            qsf_text_put(j, "\",\"type\":\"function\",\"function\":{\"name\":\"");
            qsf_text_json(j, text, r[i].len);
            qsf_text_put(j, "\",\"arguments\":\"");
            open = calls = true;
        } else if (r[i].type == QSF_TE_ARGUMENTS) {
            qsf_text_json(j, text, r[i].len);
        } else if (r[i].type == QSF_TE_CALL_END && open) {
            qsf_text_put(j, "\"}}");
            open = false;
        }
    }
    qsf_text_put(j, open ? "\"}}]}" : calls ? "]}" : "}");
    if (j->failed) return qsf_fail(err, QSF_E_MEMORY, "answer: out of memory");
    *out = j->at;
    *len = j->n;
    return QSF_OK;
}

void qsf_tool_answer_reset(qsf_tool_answer *a, uint64_t seed)
{
    a->src.n = a->log.n = a->records.n = 0;
    a->at = a->scan = a->mark = a->next = 0;
    a->n_calls = 0;
    a->begin = SIZE_MAX;
    a->seed = seed;
    a->tail = (qsf_utf8_tail){ 0 };
    a->last = a->has_text = false;
    a->drop_blanks = a->f.in_reasoning;
    a->mode = a->f.style == QSF_TOOLS_CHANNELS ? TA_HEADER : a->f.in_reasoning ? TA_REASONING : TA_TEXT;
    ta_call_reset(a, 0);
    qsf_text_put(&a->src, a->f.text[QSF_TT_PROMPT]);
    a->prompt = a->src.n;
}

qsf_status qsf_tool_answer_new(const qsf_platform *p, const qsf_tool_form *f, const char *tools, size_t len,
                               uint64_t seed, qsf_tool_answer **out, qsf_error *err)
{
    qsf_status st = QSF_OK;
    qsf_tool_answer *a = *out = qsf_alloc(p, sizeof *a, "answer", err);
    if (!a) return QSF_E_MEMORY;
    a->platform = p;
    a->src.platform = a->log.platform = a->records.platform = a->json.platform = a->name.platform
        = a->id.platform = a->key.platform = p;
    a->f = *f;
    if (tools && len) st = qsf_json_read(p, tools, len, "tools", &a->tools, err);
    if (!st && a->tools.n_nodes && a->tools.nodes->type != QSF_JSON_LIST)
        st = qsf_fail(err, QSF_E_ARGUMENT, "tools: a list of tools is expected");
    if (st) {
        qsf_tool_answer_free(a);
        *out = NULL;
        return st;
    }
    a->weak = f->style != QSF_TOOLS_CHANNELS
           && strlen(ta_form(a, *f->text[QSF_TT_SECTION] ? QSF_TT_SECTION : QSF_TT_OPEN)) < 3;
    qsf_tool_answer_reset(a, seed);
    return QSF_OK;
}

void qsf_tool_answer_free(qsf_tool_answer *a)
{
    if (!a) return;
    qsf_text *const texts[] = { &a->src, &a->log, &a->records, &a->json, &a->name, &a->id, &a->key };
    for (size_t i = 0; i < QSF_ARRAY_LEN(texts); i++) qsf_text_drop(texts[i]);
    if (a->tools.n_nodes) qsf_json_drop(&a->tools);
    qsf_dealloc(a->platform, a, sizeof *a);
}
