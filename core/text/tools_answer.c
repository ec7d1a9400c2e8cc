/* Answers while they arrive: reasoning, text, and calls with their arguments as JSON.
 * SPDX-License-Identifier: MIT
 *
 * One mode after another reads src[at..n); a mode that cannot tell yet waits for more.  What it has
 * understood becomes events, whose texts are in one log.  A call's bytes stay in src until it is
 * whole: if it turns out to be none, they are text, so nothing is lost, and reading goes on where
 * the error was, so that no byte is read more often than the form has texts. */
#include "text/tools_own.h"

/* ---- events ---- */

void ta_record_add(qsf_tool_answer *a, uint8_t type, size_t at, size_t len)
{
    ta_record *r = (ta_record *)(void *)a->records.at;
    const size_t n = a->records.n / sizeof *r;
    const bool alone = type == QSF_TE_CALL || type >= QSF_TE_CALL_END;
    if (!len && !alone) return;
    if (!alone && n > a->next && r[n - 1].type == type && r[n - 1].call == a->n_calls
        && r[n - 1].at + r[n - 1].len == at) {
        r[n - 1].len += len;
        return;
    }
    const ta_record made = { type, a->n_calls, 0, at, len };
    qsf_text_add(&a->records, (const char *)&made, sizeof made);
}

void ta_emit(qsf_tool_answer *a, uint8_t type, const char *p, size_t n)
{
    qsf_text_add(&a->log, p, n);
    ta_record_add(a, type, a->log.n - n, n);
}

/* The first control token that ends behind src[i], and the place behind the last one. */
static ta_control *ta_controls_from(const qsf_tool_answer *a, size_t i, const ta_control **end)
{
    ta_control *c = (ta_control *)(void *)a->controls.at;
    size_t low = 0, high = a->controls.n / sizeof *c;
    *end = c;
    if (!high) return c;
    *end = c + high;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if ((ptrdiff_t)(c[mid].at + c[mid].len - a->gone) > (ptrdiff_t)i) high = mid;
        else low = mid + 1;
    }
    return c + low;
}

void ta_show(qsf_tool_answer *a, uint8_t type, size_t from, size_t to)
{
    const ta_control *end, *c = ta_controls_from(a, from, &end);
    for (; from < to && c < end; c++) {
        const ptrdiff_t begin = (ptrdiff_t)(c->at - a->gone);
        const size_t at = begin > (ptrdiff_t)from ? QSF_MIN((size_t)begin, to) : from;
        if (at > from) ta_emit(a, type, a->src.at + from, at - from);
        from = at == to ? to : (size_t)begin + c->len;
    }
    if (from < to) ta_emit(a, type, a->src.at + from, to - from);
}

ta_control *ta_control_at(const qsf_tool_answer *a, size_t i)
{
    const ta_control *end;
    ta_control *c = ta_controls_from(a, i, &end);
    return c == end || c->at - a->gone != i ? NULL : c;
}

bool ta_drop_control(qsf_tool_answer *a, size_t i)
{
    ta_control *c = ta_control_at(a, i);
    if (!c) return false;
    const size_t len = QSF_MIN(c->len, a->src.n - i);
    c->at += len;
    c->len -= len;
    a->src.n -= len;
    a->gone += len;
    memmove(a->src.at + i, a->src.at + i + len, a->src.n - i);
    return true;
}

void ta_text(qsf_tool_answer *a, size_t from, size_t to)
{
    from = QSF_MAX(from, a->prompt);
    if (from >= to) return;
    ta_show(a, QSF_TE_TEXT, from, to);
    a->has_text = a->said = true;
    a->drop_blanks = false;
}

/* ---- calls ---- */

const qsf_json_node *ta_tool(const qsf_tool_answer *a)
{
    if (!a->tools.n_nodes || a->name.failed || !a->name.n || strlen(a->name.at) != a->name.n) return NULL;
    const qsf_json_node *t = qsf_json_first(a->tools.nodes);
    for (uint32_t i = 0; i < a->tools.nodes->n; i++, t = qsf_json_next(t)) {
        const qsf_json_node *f = qsf_json_member(t, "function"), *n;
        if (!f) f = t;
        if ((n = qsf_json_member(f, "name")) && qsf_json_is_text(n, a->name.at)) return f;
    }
    return NULL;
}

void ta_set(qsf_text *t, const char *p, size_t n)
{
    t->n = 0;
    qsf_text_add(t, p, n);
    qsf_text_put(t, " ");                       /* so that an empty one is terminated as well */
    t->n = n;
    if (!t->failed) t->at[n] = 0;
}

void ta_call_reset(qsf_tool_answer *a, size_t mark)
{
    a->mark = mark;
    a->called = a->has_arguments = a->has_span = a->shown = a->wrapped = a->doubtful = false;
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
bool ta_call(qsf_tool_answer *a)
{
    char id[TA_ID_BYTES];
    if (a->name.failed || !a->name.n || a->name.n > TA_NAME_MOST) return false;
    a->tool = ta_tool(a);
    if (ta_unsure(a) && !a->tool) return false;
    ta_id(a, id);
    if (!a->id.n) qsf_text_add(&a->id, id, TA_ID_BYTES);
    qsf_text_add(&a->log, a->id.at, a->id.n);
    ta_emit(a, QSF_TE_CALL, a->name.at, a->name.n);
    ta_record *end = (ta_record *)(void *)(a->records.at + a->records.n);
    if (!a->records.failed) end[-1].id_len = (uint32_t)a->id.n;
    return a->called = true;
}

static void ta_call_over(qsf_tool_answer *a, uint8_t mode)
{
    a->n_calls++;
    a->called = a->thinking = a->has_text = false;
    a->drop_blanks = !a->said;          /* else they part the texts around the call */
    a->mode = mode;
}

void ta_call_end(qsf_tool_answer *a, uint8_t mode)
{
    ta_record_add(a, QSF_TE_CALL_END, a->log.n, 0);
    ta_call_over(a, mode);
}

/* The answer ends within a call, behind its name: it stays as far as it is there. */
static bool ta_cut(qsf_tool_answer *a)
{
    const size_t end = a->src.n;
    if (!a->called && (ta_unsure(a) || !ta_tool(a) || !ta_call(a))) return false;
    if (a->mode == TA_VALUE || (a->mode == TA_OBJECT_VALUE && a->shown))        /* a part of a word */
        ta_emit(a, QSF_TE_ARGUMENTS, a->src.at + a->at, end - a->at);
    ta_emit(a, QSF_TE_CALL_CUT, a->src.at + a->mark, end - a->mark);
    ta_call_over(a, TA_TEXT);
    a->at = a->scan = end;
    return true;
}

/* What began at src[mark] is no call: it is text, up to where reading is. */
void ta_no_call(qsf_tool_answer *a)
{
    ta_record *r = (ta_record *)(void *)a->records.at;
    size_t n = a->records.n / sizeof *r;
    bool told = false;
    if (a->cut && ta_cut(a)) return;
    while (a->called && n--) {
        told = r[n].type == QSF_TE_CALL && n < a->next;
        a->called = r[n].type != QSF_TE_CALL;
        r[n].type = QSF_TE_NONE;
    }
    if (told) ta_record_add(a, QSF_TE_CALL_DROPPED, a->log.n, 0);
    if (a->thinking) ta_show(a, QSF_TE_REASONING, a->mark, a->at);
    else ta_text(a, a->mark, a->at);
    a->scan = a->at;
    a->mode = a->thinking ? TA_REASONING : TA_TEXT;
}

void ta_begin_call(qsf_tool_answer *a, size_t at, size_t len, uint8_t mode)
{
    ta_call_reset(a, at);
    a->at = at + len;
    a->mode = mode;
}

/* ---- reading ---- */

/* The text of the form at src[at], behind blanks: 1: there, and read; 0: not there; -1: wait. */
int ta_see(qsf_tool_answer *a, qsf_tool_text which)
{
    const char *text = ta_form(a, which);
    size_t i = a->at;
    while (i < a->src.n && qsf_tool_blank(a->src.at[i])) i++;
    const ptrdiff_t n = *text ? qsf_tool_match(text, a->src.at + i, a->src.n - i) : 0;
    if (n > 0) a->at = i + (size_t)n;
    return n > 0 ? 1 : n < 0 && !a->last ? -1 : 0;
}

/* The next byte that is no blank, 0 where none is there yet. */
char ta_peek(qsf_tool_answer *a)
{
    while (a->at < a->src.n && qsf_tool_blank(a->src.at[a->at])) a->at++;
    a->cut = a->last && a->at == a->src.n;
    return a->at < a->src.n ? a->src.at[a->at] : 0;
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
    case TA_TAG_TYPE: return ta_read_tag_type(a);
    case TA_TAG_VALUE: return ta_read_tag_value(a);
    case TA_TAG_END: return ta_read_tag_end(a);
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
    a->gone += done;
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
    if (a->src.failed || a->log.failed || a->records.failed || a->name.failed || a->id.failed
        || a->key.failed || a->controls.failed) return qsf_fail(err, QSF_E_MEMORY, "answer: out of memory");
    return QSF_OK;
}

void qsf_tool_answer_control(qsf_tool_answer *a, size_t at, size_t len)
{
    const ta_control c = { at, len };
    qsf_text_add(&a->controls, (const char *)&c, sizeof c);
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
        } else if ((r[i].type == QSF_TE_CALL_END || r[i].type == QSF_TE_CALL_CUT) && open) {
            qsf_text_put(j, r[i].type == QSF_TE_CALL_END ? "\"}}" : "\"},\"unfinished\":true}");
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
    a->src.n = a->log.n = a->records.n = a->controls.n = 0;
    a->at = a->scan = a->mark = a->next = 0;
    a->n_calls = 0;
    a->begin = SIZE_MAX;
    a->seed = seed;
    a->tail = (qsf_utf8_tail){ 0 };
    a->last = a->has_text = a->said = a->bare = a->held = a->thinking = false;
    a->drop_blanks = a->f.in_reasoning;
    a->mode = a->f.style == QSF_TOOLS_CHANNELS ? TA_HEADER : a->f.in_reasoning ? TA_REASONING : TA_TEXT;
    ta_call_reset(a, 0);
    qsf_text_put(&a->src, a->f.text[QSF_TT_PROMPT]);
    a->prompt = a->src.n;
    a->gone = 0 - a->prompt;
}

qsf_status qsf_tool_answer_new(const qsf_platform *p, const qsf_tool_form *f, const char *tools, size_t len,
                               uint64_t seed, qsf_tool_answer **out, qsf_error *err)
{
    qsf_status st = QSF_OK;
    qsf_tool_answer *a = *out = qsf_alloc(p, sizeof *a, "answer", err);
    if (!a) return QSF_E_MEMORY;
    a->platform = p;
    a->src.platform = a->log.platform = a->records.platform = a->json.platform = a->name.platform
        = a->id.platform = a->key.platform = a->controls.platform = p;
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
    qsf_text *const texts[] = { &a->src, &a->log, &a->records, &a->json, &a->name, &a->id, &a->key,
                                &a->controls };
    for (size_t i = 0; i < QSF_ARRAY_LEN(texts); i++) qsf_text_drop(texts[i]);
    if (a->tools.n_nodes) qsf_json_drop(&a->tools);
    qsf_dealloc(a->platform, a, sizeof *a);
}
