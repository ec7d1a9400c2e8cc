/* Jinja: the methods of texts.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_own.h"

/* ---- ends ---- */

static bool text_in(uint32_t c, const jinja_value *set)
{
    size_t used;
    if (!set) return qsf_jinja_is_space(c);
    for (size_t at = 0; at < set->n; at += used)
        if (qsf_utf8_decode(set->as.text + at, set->n - at, &used) == c) return true;
    return false;
}

/* The character that ends at `end`, none before `from`, and its bytes. */
static uint32_t text_last(const jinja_value *v, size_t from, size_t end, size_t *used)
{
    size_t at = end - 1;
    while (at > from && end - at < 4 && (v->as.text[at] & 0xc0) == 0x80) at--;
    const uint32_t c = qsf_utf8_decode(v->as.text + at, end - at, used);
    if (*used == end - at) return c;
    *used = 1;                                          /* no UTF-8 */
    return qsf_utf8_decode(v->as.text + end - 1, 1, &from);
}

/* Takes characters of a set (NULL: white space) from the ends. */
static jinja_value text_trim(const jinja_value *v, const jinja_value *set, bool left, bool right)
{
    const char *p = v->as.text;
    size_t from = 0, used, n = v->n;
    while (left && from < n && text_in(qsf_utf8_decode(p + from, n - from, &used), set)) from += used;
    while (right && n > from && text_in(text_last(v, from, n, &used), set)) n -= used;
    return jinja_part(v, from, n);
}

jinja_value qsf_jinja_trimmed(const jinja_value *text) { return text_trim(text, NULL, true, true); }

static bool text_starts(const jinja_value *v, const jinja_value *with, bool end)
{
    if (with->n > v->n) return false;
    return !with->n || !memcmp(v->as.text + (end ? v->n - with->n : 0), with->as.text, with->n);
}

/* A text or a tuple of them. */
static bool text_starts_any(jinja_run *r, const jinja_value *v, const jinja_value *with, bool end,
                            jinja_value *out)
{
    const bool one = with->type == QSF_JINJA_TEXT;
    bool is = one && text_starts(v, with, end);
    if (!one && with->type != QSF_JINJA_TUPLE)
        return qsf_jinja_fail(r, QSF_E_ARGUMENT, "expected a string or a tuple of strings, not %s",
                              qsf_jinja_type_name(with));
    for (uint32_t i = 0; !one && i < with->n && !is; i++) {
        if (!qsf_jinja_need_text(r, &with->as.items[i], end ? "endswith" : "startswith")) return false;
        is = text_starts(v, &with->as.items[i], end);
    }
    return qsf_jinja_give_bool(out, is);
}

/* ---- places ---- */

/* A long text that is in v almost everywhere costs what comparing it does. */
static bool text_same(jinja_run *r, const char *at, const jinja_value *what)
{
    const size_t first = QSF_MIN(what->n, 16);
    if (memcmp(at, what->as.text, first)) return false;
    return first == what->n || (qsf_jinja_charge(r, what->n) && !memcmp(at, what->as.text, what->n));
}

int64_t qsf_jinja_find(jinja_run *r, const jinja_value *v, const jinja_value *what, uint32_t from, bool last)
{
    const char *p = v->as.text;
    if (what->n > v->n) return -1;
    if (!what->n) return last ? v->n : from <= v->n ? (int64_t)from : -1;
    const uint32_t end = v->n - what->n;
    if (last) {
        for (uint32_t i = end + 1; i-- > from && !r->st;)
            if (text_same(r, p + i, what)) return i;
        return -1;
    }
    for (uint32_t i = from; i <= end && !r->st; i++) {
        const char *at = memchr(p + i, what->as.text[0], end - i + 1);
        i = at ? (uint32_t)(at - p) : end;
        if (at && text_same(r, at, what)) return qsf_jinja_charge(r, i - from) ? (int64_t)i : -1;
    }
    (void)(from <= end && qsf_jinja_charge(r, end - from));
    return -1;
}

/* The part of v between two positions in characters, and how many characters precede it; false:
 * the range is invalid. */
static bool text_window(jinja_run *r, const jinja_value *v, const jinja_bound *b, jinja_value *part,
                        int64_t *before)
{
    const int64_t n = b->arg[1] || b->arg[2] ? (int64_t)qsf_jinja_length(v) : 0;
    int64_t from = 0, to = n;
    *part = *v;
    *before = 0;
    if (!qsf_jinja_whole(r, b->arg[1], true, &from) || !qsf_jinja_whole(r, b->arg[2], true, &to))
        return false;
    if (!b->arg[1] && !b->arg[2]) return true;
    if (from < 0) from = QSF_MAX(from + n, 0);
    if (to < 0) to = QSF_MAX(to + n, 0);
    if (from > n || from > to) return false;
    *part = jinja_part(v, qsf_jinja_offset(v, (size_t)from), qsf_jinja_offset(v, (size_t)to));
    *before = from;
    return true;
}

static bool text_places(jinja_run *r, int id, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    const jinja_value *what = b->arg[0];
    jinja_value part;
    int64_t before, at = -1, n = 0;
    if (!qsf_jinja_need_text(r, what, "find")) return false;
    const bool is = text_window(r, v, b, &part, &before);
    if (r->st) return false;
    if (id == JM_COUNT) {
        if (is && !what->n) n = (int64_t)qsf_jinja_length(&part) + 1;
        else if (is)
            for (at = 0; (at = qsf_jinja_find(r, &part, what, (uint32_t)at, false)) >= 0; at += what->n) n++;
        return qsf_jinja_give_int(out, n);
    }
    if (is) at = qsf_jinja_find(r, &part, what, 0, id == JM_RFIND || id == JM_RINDEX);
    if (at < 0 && (id == JM_INDEX || id == JM_RINDEX))
        return qsf_jinja_refuse(r, "substring not found");
    if (at >= 0) {
        const jinja_value skipped = jinja_part(&part, 0, (size_t)at);
        at = before + (int64_t)qsf_jinja_length(&skipped);
    }
    return qsf_jinja_give_int(out, at);
}

/* ---- parts ---- */

static void text_turn(jinja_value *items, uint32_t n)
{
    for (uint32_t i = 0; i < n / 2; i++) {
        const jinja_value swap = items[i];
        items[i] = items[n - 1 - i];
        items[n - 1 - i] = swap;
    }
}

static bool text_split_at(jinja_run *r, const jinja_value *v, const jinja_value *at, int64_t most, bool last,
                          jinja_value *out)
{
    jinja_value rest = *v;
    uint32_t n = 0, pieces = 1;
    if (!at->n) return qsf_jinja_refuse(r, "a string cannot be split at an empty separator");
    for (int64_t i = 0; (i = qsf_jinja_find(r, v, at, (uint32_t)i, false)) >= 0; i += at->n) pieces++;
    jinja_value *items = qsf_jinja_items(r, pieces);
    if (!items) return false;
    for (int64_t i; (most < 0 || n < most) && (i = qsf_jinja_find(r, &rest, at, 0, last)) >= 0; n++) {
        if (!qsf_jinja_charge(r, last ? rest.n : (size_t)i)) return false;
        items[n] = last ? jinja_part(&rest, (size_t)i + at->n, rest.n) : jinja_part(&rest, 0, (size_t)i);
        rest = last ? jinja_part(&rest, 0, (size_t)i) : jinja_part(&rest, (size_t)i + at->n, rest.n);
    }
    items[n++] = rest;
    if (last) text_turn(items, n);
    return qsf_jinja_give_list(out, items, n);
}

/* The last character that ends at `end`, or the first one at `at`: its bytes, and whether it is
 * white space. */
static bool text_space_at(const jinja_value *v, size_t at, size_t end, bool last, size_t *used)
{
    return qsf_jinja_is_space(last ? text_last(v, 0, end, used)
                               : qsf_utf8_decode(v->as.text + at, end - at, used));
}

static bool text_split_words(jinja_run *r, const jinja_value *v, int64_t most, bool last, jinja_value *out)
{
    jinja_value rest = text_trim(v, NULL, !last, last);
    uint32_t n = 0;
    jinja_value *items = qsf_jinja_items(r, v->n / 2 + 1);
    if (!items) return false;
    while (rest.n) {
        size_t size = 0, used;
        while (size < rest.n
               && !text_space_at(&rest, size, rest.n - (last ? size : 0), last, &used)) size += used;
        if (most >= 0 && n == most) size = rest.n;
        items[n++] = last ? jinja_part(&rest, rest.n - size, rest.n) : jinja_part(&rest, 0, size);
        if (most >= 0 && n > most) break;
        const jinja_value more = last ? jinja_part(&rest, 0, rest.n - size) : jinja_part(&rest, size, rest.n);
        rest = text_trim(&more, NULL, !last, last);
    }
    if (last) text_turn(items, n);
    return qsf_jinja_give_list(out, items, n);
}

static bool text_line_end(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool qsf_jinja_text_lines(jinja_run *r, const jinja_value *v, bool keep, jinja_value *out)
{
    uint32_t n = 0;
    size_t begin = 0, used;
    jinja_value *items = qsf_jinja_items(r, v->n);
    if (!items) return false;
    for (size_t at = 0; at < v->n; at += used) {
        const uint32_t c = qsf_utf8_decode(v->as.text + at, v->n - at, &used);
        if (!text_line_end(c)) continue;
        if (c == '\r' && at + 1 < v->n && v->as.text[at + 1] == '\n') used = 2;
        items[n++] = jinja_part(v, begin, keep ? at + used : at);
        begin = at + used;
    }
    if (begin < v->n) items[n++] = jinja_part(v, begin, v->n);
    return qsf_jinja_give_list(out, items, n);
}

static bool text_partition(jinja_run *r, const jinja_value *v, const jinja_value *at, bool last,
                           jinja_value *out)
{
    jinja_value *items = qsf_jinja_items(r, 3);
    if (!items || !qsf_jinja_need_text(r, at, "partition")) return false;
    if (!at->n) return qsf_jinja_refuse(r, "a string cannot be split at an empty separator");
    const int64_t i = qsf_jinja_find(r, v, at, 0, last);
    /* what is not found leaves all of it in one of the ends; each part is safe if the text is */
    const size_t begin = i >= 0 ? (size_t)i : last ? 0 : v->n, end = i >= 0 ? begin + at->n : begin;
    items[0] = jinja_part(v, 0, begin);
    items[1] = jinja_part(v, begin, end);
    items[2] = jinja_part(v, end, v->n);
    *out = (jinja_value){ .type = QSF_JINJA_TUPLE, .n = 3, .as.items = items };
    return true;
}

/* Writes v, escaped if it becomes part of a safe string. */
static bool text_put_into(jinja_run *r, jinja_sink *s, const jinja_value *in, const jinja_value *v)
{
    return in->flags & QSF_JINJA_SAFE ? qsf_jinja_put_escaped(r, s, v) : qsf_jinja_put_text(r, s, v);
}

static bool text_replace(jinja_run *r, const jinja_value *v, const jinja_value *old, const jinja_value *by,
                         int64_t most, jinja_value *out)
{
    jinja_value rest = *v;
    jinja_sink s = qsf_jinja_begin_text(r);
    size_t used;
    for (int64_t i, k = 0; most < 0 || k < most; k++) {
        if (old->n) i = qsf_jinja_find(r, &rest, old, 0, false);
        else if (!k) i = 0;                     /* before every character, and at the end */
        else if (!rest.n) i = -1;
        else (void)qsf_utf8_decode(rest.as.text, rest.n, &used), i = (int64_t)used;
        if (i < 0) break;
        if (!qsf_jinja_put_part(r, &s, &rest, 0, (size_t)i) || !text_put_into(r, &s, v, by)
            || !qsf_jinja_charge(r, 0))
            return false;
        rest = jinja_part(&rest, (size_t)i + old->n, rest.n);
    }
    if (!qsf_jinja_put_text(r, &s, &rest)) return false;
    return qsf_jinja_finish_as(r, &s, v, out);
}

bool qsf_jinja_text_join(jinja_run *r, const jinja_value *between, const jinja_value *list, bool any_type,
                         jinja_value *out)
{
    jinja_value items;
    if (!qsf_jinja_iterate(r, list, &items)) return false;
    const bool safe = !any_type && between->flags & QSF_JINJA_SAFE;
    jinja_sink s = qsf_jinja_begin_text(r);
    for (uint32_t i = 0; i < items.n; i++) {
        const jinja_value *v = &items.as.items[i];
        if (!any_type && !safe && v->type != QSF_JINJA_TEXT)
            return qsf_jinja_fail(r, QSF_E_ARGUMENT, "only strings can be joined, not %s",
                                  qsf_jinja_type_name(v));
        if (!qsf_jinja_charge(r, 0) || (i && !qsf_jinja_put_text(r, &s, between))
            || (safe ? !qsf_jinja_put_escaped(r, &s, v) : !qsf_jinja_print(r, &s, v)))
            return false;
    }
    *out = qsf_jinja_end_text(r, &s);
    out->flags |= safe ? QSF_JINJA_SAFE : 0;
    return true;
}

/* ---- widths ---- */

/* center, ljust, rjust, zfill */
static bool text_widen(jinja_run *r, int id, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    const jinja_value space = qsf_jinja_text(" "), zero = qsf_jinja_text("0");
    const jinja_value *fill = id == JM_ZFILL ? &zero : b->arg[1] ? b->arg[1] : &space;
    int64_t width = 0, n = (int64_t)qsf_jinja_length(v), left = 0;
    if (!qsf_jinja_whole(r, b->arg[0], false, &width) || !qsf_jinja_need_text(r, fill, "a width"))
        return false;
    if (qsf_jinja_length(fill) != 1) return qsf_jinja_refuse(r, "the fill must be one character");
    n = QSF_MAX(width - n, 0);
    if (!qsf_jinja_charge_each(r, (size_t)n)) return false;
    if (id == JM_RJUST || id == JM_ZFILL) left = n;
    if (id == JM_CENTER) left = n / 2 + (n & width & 1);
    jinja_sink s = qsf_jinja_begin_text(r);
    const bool sign = id == JM_ZFILL && v->n && (v->as.text[0] == '-' || v->as.text[0] == '+');
    const bool own = fill == &space || fill == &zero;
    if (sign && !qsf_jinja_put_part(r, &s, v, 0, 1)) return false;
    for (int64_t i = 0; i < n; i++) {
        if (i == left && !qsf_jinja_put_part(r, &s, v, sign, v->n - sign)) return false;
        if (own ? !qsf_jinja_put(r, &s, fill->as.text, 1) : !text_put_into(r, &s, v, fill)) return false;
    }
    if (left >= n && !qsf_jinja_put_part(r, &s, v, sign, v->n - sign)) return false;
    return qsf_jinja_finish_as(r, &s, v, out);
}

static bool text_expand_tabs(jinja_run *r, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    int64_t size = 8, column = 0;
    size_t used;
    if (!qsf_jinja_whole(r, b->arg[0], false, &size)) return false;
    jinja_sink s = qsf_jinja_begin_text(r);
    for (size_t i = 0; i < v->n; i += used) {
        const uint32_t c = qsf_utf8_decode(v->as.text + i, v->n - i, &used);
        if (c != '\t') {
            column = c == '\n' || c == '\r' ? 0 : column + 1;
            if (!qsf_jinja_put_part(r, &s, v, i, used)) return false;
        } else if (size > 0)
            do
                if (!qsf_jinja_put_for(r, &s, v, i, " ", 1) || !qsf_jinja_charge(r, 0)) return false;
            while (++column % size);
    }
    *out = qsf_jinja_end_text(r, &s);
    out->flags |= v->flags & QSF_JINJA_SAFE;
    return qsf_jinja_charge_each(r, v->n);
}

/* ---- all methods ---- */

static bool text_split(jinja_run *r, int id, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    int64_t most = -1;
    if (!qsf_jinja_whole(r, b->arg[1], false, &most)) return false;
    if (!jinja_given(b->arg[0])) return text_split_words(r, v, most, id == JM_RSPLIT, out);
    return qsf_jinja_need_text(r, b->arg[0], "split")
           && text_split_at(r, v, b->arg[0], most, id == JM_RSPLIT, out);
}

static bool text_starts_in(jinja_run *r, int id, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    jinja_value part;
    int64_t before;
    const bool is = text_window(r, v, b, &part, &before);
    if (is) return text_starts_any(r, &part, b->arg[0], id == JM_ENDSWITH, out);
    *out = qsf_jinja_bool(false);
    return r->st == QSF_OK;
}

static bool text_remove(jinja_run *r, int id, const jinja_value *v, const jinja_value *x, jinja_value *out)
{
    const bool end = id == JM_REMOVESUFFIX;
    if (!qsf_jinja_need_text(r, x, "removeprefix")) return false;
    const bool has = text_starts(v, x, end);
    *out = jinja_part(v, has && !end ? x->n : 0, has && end ? v->n - x->n : v->n);
    return true;
}

bool qsf_jinja_text_method(jinja_run *r, int id, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    const jinja_value *x = b->arg[0];
    int64_t most = -1;
    bool is;
    if (!qsf_jinja_charge_each(r, v->n)) return false;
    switch (id) {
    case JM_STRIP: case JM_LSTRIP: case JM_RSTRIP:
        if (!jinja_given(x)) x = NULL;
        if (x && (!qsf_jinja_need_text(r, x, "strip") || !qsf_jinja_charge_each(r, (size_t)v->n * x->n)))
            return false;
        *out = text_trim(v, x, id != JM_RSTRIP, id != JM_LSTRIP);
        return true;
    case JM_STARTSWITH: case JM_ENDSWITH: return text_starts_in(r, id, v, b, out);
    case JM_SPLIT: case JM_RSPLIT: return text_split(r, id, v, b, out);
    case JM_SPLITLINES: return qsf_jinja_text_lines(r, v, jinja_flag(x), out);
    case JM_PARTITION: case JM_RPARTITION: return text_partition(r, v, x, id == JM_RPARTITION, out);
    case JM_REPLACE:
        return qsf_jinja_whole(r, b->arg[2], false, &most) && qsf_jinja_need_text(r, x, "replace")
               && qsf_jinja_need_text(r, b->arg[1], "replace") && text_replace(r, v, x, b->arg[1], most, out);
    case JM_FIND: case JM_RFIND: case JM_INDEX: case JM_RINDEX: case JM_COUNT: return text_places(r, id, v, b,
                                                                                                  out);
    case JM_REMOVEPREFIX: case JM_REMOVESUFFIX: return text_remove(r, id, v, x, out);
    case JM_JOIN: return qsf_jinja_text_join(r, v, x, false, out);
    case JM_CENTER: case JM_LJUST: case JM_RJUST: case JM_ZFILL: return text_widen(r, id, v, b, out);
    case JM_EXPANDTABS: return text_expand_tabs(r, v, b, out);
    case JM_FORMAT_MAP: {
        const jinja_args named = { x->as.items, 0, x->n };
        if (x->type != QSF_JINJA_DICT) return qsf_jinja_refuse(r, "format_map needs a dict");
        return qsf_jinja_format_braces(r, v, &named, out);
    }
    case JM_CAPITALIZE: case JM_CASEFOLD: case JM_LOWER: case JM_SWAPCASE: case JM_TITLE: case JM_UPPER:
        return qsf_jinja_cased(r, id, v, out);
    default:
        if (!qsf_jinja_letters(r, id, v, &is)) return false;
        return qsf_jinja_give_bool(out, is);
    }
}
