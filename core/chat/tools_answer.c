/* Splits answers while they arrive: reasoning, text, and calls with their arguments as JSON.
 * SPDX-License-Identifier: MIT
 *
 * One mode after another reads src[at..n); a mode that cannot decide yet waits for more.  Parsed
 * parts become events, whose texts are in one log.  A call's bytes stay in src until it is
 * complete: if it turns out not to be a call, they are text, so nothing is lost, and reading
 * continues at the error, so that no byte is read more often than the form has texts. */
#include "chat/tools_own.h"

static bool ta_step(qsf_tool_answer *a)
{
    switch (a->mode) {
    case TA_TEXT: return qsf_ta_read_text(a);
    case TA_REASONING: return qsf_ta_read_reasoning(a);
    case TA_OPEN: return qsf_ta_read_open(a);
    case TA_NAME: return qsf_ta_read_name(a);
    case TA_ID: return qsf_ta_read_id(a);
    case TA_ARGUMENTS: return qsf_ta_read_arguments(a);
    case TA_VALUE: return qsf_ta_read_value(a);
    case TA_TAG: return qsf_ta_read_tag(a);
    case TA_TAG_KEY: return qsf_ta_read_tag_key(a);
    case TA_TAG_TYPE: return qsf_ta_read_tag_type(a);
    case TA_TAG_VALUE: return qsf_ta_read_tag_value(a);
    case TA_TAG_END: return qsf_ta_read_tag_end(a);
    case TA_OBJECT: return qsf_ta_read_object(a);
    case TA_OBJECT_KEY: return qsf_ta_read_object_key(a);
    case TA_OBJECT_COLON: return qsf_ta_read_object_colon(a);
    case TA_OBJECT_VALUE: return qsf_ta_read_object_value(a);
    case TA_CLOSE: return qsf_ta_read_close(a);
    case TA_BEHIND: return qsf_ta_read_behind(a);
    default: return qsf_ta_read_header(a);
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
    a->mode = a->f.style == QSF_TOOLS_CHANNELS && !a->f.continues ? TA_HEADER
            : a->f.in_reasoning ? TA_REASONING : TA_TEXT;
    qsf_ta_call_reset(a, 0);
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
