/* What readers of answers do: events, calls that begin and end, looking at the next bytes.
 * SPDX-License-Identifier: MIT */
#include "chat/tools_own.h"

/* ---- events ---- */

void qsf_ta_record_add(qsf_tool_answer *a, uint8_t type, size_t at, size_t len)
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

void qsf_ta_emit(qsf_tool_answer *a, uint8_t type, const char *p, size_t n)
{
    qsf_text_add(&a->log, p, n);
    qsf_ta_record_add(a, type, a->log.n - n, n);
}

/* The first control token that ends after src[i]; *end: past the last one. */
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

void qsf_ta_show(qsf_tool_answer *a, uint8_t type, size_t from, size_t to)
{
    const ta_control *end, *c = ta_controls_from(a, from, &end);
    for (; from < to && c < end; c++) {
        const ptrdiff_t begin = (ptrdiff_t)(c->at - a->gone);
        const size_t at = begin > (ptrdiff_t)from ? QSF_MIN((size_t)begin, to) : from;
        if (at > from) qsf_ta_emit(a, type, a->src.at + from, at - from);
        from = at == to ? to : (size_t)begin + c->len;
    }
    if (from < to) qsf_ta_emit(a, type, a->src.at + from, to - from);
}

ta_control *qsf_ta_control_at(const qsf_tool_answer *a, size_t i)
{
    const ta_control *end;
    ta_control *c = ta_controls_from(a, i, &end);
    return c == end || c->at - a->gone != i ? NULL : c;
}

bool qsf_ta_drop_control(qsf_tool_answer *a, size_t i)
{
    ta_control *c = qsf_ta_control_at(a, i);
    if (!c) return false;
    const size_t len = QSF_MIN(c->len, a->src.n - i);
    c->at += len;
    c->len -= len;
    a->src.n -= len;
    a->gone += len;
    memmove(a->src.at + i, a->src.at + i + len, a->src.n - i);
    return true;
}

void qsf_ta_text(qsf_tool_answer *a, size_t from, size_t to)
{
    from = QSF_MAX(from, a->prompt);
    if (from >= to) return;
    qsf_ta_show(a, QSF_TE_TEXT, from, to);
    a->has_text = a->said = true;
    a->drop_blanks = false;
}

/* ---- calls ---- */

const qsf_json_node *qsf_ta_tool(const qsf_tool_answer *a)
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

void qsf_ta_set(qsf_text *t, const char *p, size_t n)
{
    t->n = 0;
    qsf_text_add(t, p, n);
    qsf_text_put(t, " ");                       /* so that an empty one is terminated as well */
    t->n = n;
    if (!t->failed) t->at[n] = 0;
}

void qsf_ta_call_reset(qsf_tool_answer *a, size_t mark)
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
bool qsf_ta_call(qsf_tool_answer *a)
{
    char id[TA_ID_BYTES];
    if (a->name.failed || !a->name.n || a->name.n > TA_NAME_MOST) return false;
    a->tool = qsf_ta_tool(a);
    if (ta_unsure(a) && !a->tool) return false;
    ta_id(a, id);
    if (!a->id.n) qsf_text_add(&a->id, id, TA_ID_BYTES);
    qsf_text_add(&a->log, a->id.at, a->id.n);
    qsf_ta_emit(a, QSF_TE_CALL, a->name.at, a->name.n);
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

void qsf_ta_call_end(qsf_tool_answer *a, uint8_t mode)
{
    qsf_ta_record_add(a, QSF_TE_CALL_END, a->log.n, 0);
    ta_call_over(a, mode);
}

/* The answer ends within a call, after its name: the call is kept as far as it arrived. */
static bool ta_cut(qsf_tool_answer *a)
{
    const size_t end = a->src.n;
    if (!a->called && (ta_unsure(a) || !qsf_ta_tool(a) || !qsf_ta_call(a))) return false;
    if (a->mode == TA_VALUE || (a->mode == TA_OBJECT_VALUE && a->shown))        /* a part of a word */
        qsf_ta_emit(a, QSF_TE_ARGUMENTS, a->src.at + a->at, end - a->at);
    qsf_ta_emit(a, QSF_TE_CALL_CUT, a->src.at + a->mark, end - a->mark);
    ta_call_over(a, TA_TEXT);
    a->at = a->scan = end;
    return true;
}

/* What began at src[mark] is not a call but text, up to the current position. */
void qsf_ta_no_call(qsf_tool_answer *a)
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
    if (told) qsf_ta_record_add(a, QSF_TE_CALL_DROPPED, a->log.n, 0);
    if (a->thinking) qsf_ta_show(a, QSF_TE_REASONING, a->mark, a->at);
    else qsf_ta_text(a, a->mark, a->at);
    a->scan = a->at;
    a->mode = a->thinking ? TA_REASONING : TA_TEXT;
}

void qsf_ta_begin_call(qsf_tool_answer *a, size_t at, size_t len, uint8_t mode)
{
    qsf_ta_call_reset(a, at);
    a->at = at + len;
    a->mode = mode;
}

/* ---- reading ---- */

/* Looks for one of the form's texts at src[at], after blanks.  1: found and consumed; 0: absent;
 * -1: wait. */
int qsf_ta_see(qsf_tool_answer *a, qsf_tool_text which)
{
    const char *text = ta_form(a, which);
    size_t i = a->at;
    while (i < a->src.n && qsf_tool_blank(a->src.at[i])) i++;
    const ptrdiff_t n = *text ? qsf_tool_match(text, a->src.at + i, a->src.n - i) : 0;
    if (n > 0) a->at = i + (size_t)n;
    return n > 0 ? 1 : n < 0 && !a->last ? -1 : 0;
}

/* The next byte that is not a blank; 0: none has arrived yet. */
char qsf_ta_peek(qsf_tool_answer *a)
{
    while (a->at < a->src.n && qsf_tool_blank(a->src.at[a->at])) a->at++;
    a->cut = a->last && a->at == a->src.n;
    return a->at < a->src.n ? a->src.at[a->at] : 0;
}
