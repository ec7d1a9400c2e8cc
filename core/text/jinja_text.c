/* Jinja: the built-in functions on texts.
 * SPDX-License-Identifier: MIT */
#include "text/jinja_own.h"

/* ---- ends ---- */

static bool text_in(uint32_t c, const jinja_value *set)
{
    size_t used;
    if (!set) return jinja_is_space(c);
    for (size_t at = 0; at < set->n; at += used)
        if (qsf_utf8_decode(set->as.text + at, set->n - at, &used) == c) return true;
    return false;
}

/* Takes characters of a set (NULL: white space) from the ends. */
static jinja_value text_trim(const jinja_value *v, const jinja_value *set, bool left, bool right)
{
    const char *p = v->as.text;
    size_t from = 0, end = 0, used, n = v->n;
    while (left && from < n && text_in(qsf_utf8_decode(p + from, n - from, &used), set)) from += used;
    for (size_t at = from; right && at < n; at += used)
        if (!text_in(qsf_utf8_decode(p + at, n - at, &used), set)) end = at + used;
    if (!right) end = n;
    jinja_value out = *v;
    out.as.text = p + from;
    out.n = (uint32_t)(QSF_MAX(end, from) - from);
    return out;
}

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
        return jinja_fail(r, QSF_E_ARGUMENT, "a text or a tuple of texts is needed, not %s",
                          jinja_type_name(with));
    for (uint32_t i = 0; !one && i < with->n && !is; i++)
        is = with->as.items[i].type == QSF_JINJA_TEXT && text_starts(v, &with->as.items[i], end);
    *out = qsf_jinja_bool(is);
    return true;
}

/* ---- places ---- */

/* Bytes before the first (last) place at or after from; -1: it is not there. */
static int64_t text_find(const jinja_value *v, const jinja_value *what, uint32_t from, bool last)
{
    int64_t found = -1;
    for (uint32_t i = from; what->n <= v->n && i <= v->n - what->n; i++)
        if (!memcmp(v->as.text + i, what->as.text, what->n)) {
            found = i;
            if (!last) break;
        }
    return found;
}

static bool text_list(jinja_run *r, jinja_value **items, uint32_t most)
{
    return (*items = jinja_room(r, (size_t)most * sizeof **items)) != NULL;
}

static bool text_split_at(jinja_run *r, const jinja_value *v, const jinja_value *at, int64_t most, bool last,
                          jinja_value *out)
{
    jinja_value *items, rest = *v;
    uint32_t n = 0, pieces = 1;
    if (!at->n) return jinja_fail(r, QSF_E_ARGUMENT, "a text cannot be split at nothing");
    for (int64_t i = 0; (i = text_find(v, at, (uint32_t)i, false)) >= 0; i += at->n) pieces++;
    if (!text_list(r, &items, pieces)) return false;
    for (int64_t i; (most < 0 || n < most) && (i = text_find(&rest, at, 0, last)) >= 0; n++) {
        if (!jinja_charge(r, last ? rest.n : (size_t)i)) return false;
        items[n] = last ? jinja_part(&rest, (size_t)i + at->n, rest.n) : jinja_part(&rest, 0, (size_t)i);
        rest = last ? jinja_part(&rest, 0, (size_t)i) : jinja_part(&rest, (size_t)i + at->n, rest.n);
    }
    items[n++] = rest;
    for (uint32_t i = 0; last && i < n / 2; i++) {
        const jinja_value swap = items[i];
        items[i] = items[n - 1 - i];
        items[n - 1 - i] = swap;
    }
    *out = qsf_jinja_list(items, n);
    return true;
}

static bool text_split_words(jinja_run *r, const jinja_value *v, int64_t most, jinja_value *out)
{
    jinja_value *items, rest = text_trim(v, NULL, true, false);
    uint32_t n = 0;
    if (!text_list(r, &items, v->n / 2 + 1)) return false;
    while (rest.n) {
        size_t end = 0, used;
        while (end < rest.n && !jinja_is_space(qsf_utf8_decode(rest.as.text + end, rest.n - end, &used)))
            end += used;
        if (most >= 0 && n == most) end = rest.n;
        items[n++] = jinja_part(&rest, 0, end);
        if (most >= 0 && n > most) break;
        const jinja_value tail = jinja_part(&rest, end, rest.n);
        rest = text_trim(&tail, NULL, true, false);
    }
    *out = qsf_jinja_list(items, n);
    return true;
}

static bool text_line_end(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

static bool text_lines(jinja_run *r, const jinja_value *v, bool keep, jinja_value *out)
{
    jinja_value *items;
    uint32_t n = 0;
    size_t begin = 0, used;
    if (!text_list(r, &items, v->n)) return false;
    for (size_t at = 0; at < v->n; at += used) {
        const uint32_t c = qsf_utf8_decode(v->as.text + at, v->n - at, &used);
        if (!text_line_end(c)) continue;
        if (c == '\r' && at + 1 < v->n && v->as.text[at + 1] == '\n') used = 2;
        items[n++] = jinja_part(v, begin, keep ? at + used : at);
        begin = at + used;
    }
    if (begin < v->n) items[n++] = jinja_part(v, begin, v->n);
    *out = qsf_jinja_list(items, n);
    return true;
}

static bool text_partition(jinja_run *r, const jinja_value *v, const jinja_value *at, jinja_value *out)
{
    jinja_value *items;
    const int64_t i = text_find(v, at, 0, false);
    if (!at->n) return jinja_fail(r, QSF_E_ARGUMENT, "a text cannot be split at nothing");
    if (!text_list(r, &items, 3)) return false;
    items[0] = i < 0 ? *v : jinja_part(v, 0, (size_t)i);
    items[1] = i < 0 ? qsf_jinja_text("") : *at;
    items[2] = i < 0 ? qsf_jinja_text("") : jinja_part(v, (size_t)i + at->n, v->n);
    *out = (jinja_value){ .type = QSF_JINJA_TUPLE, .n = 3, .as.items = items };
    return true;
}

static bool text_replace(jinja_run *r, const jinja_value *v, const jinja_value *old, const jinja_value *by,
                         int64_t most, jinja_value *out)
{
    jinja_value rest = *v;
    if (!old->n) return jinja_fail(r, QSF_E_UNSUPPORTED, "to replace nothing is not known here");
    jinja_sink s = jinja_begin_text(r);
    for (int64_t i, k = 0; (most < 0 || k < most) && (i = text_find(&rest, old, 0, false)) >= 0; k++) {
        if (!jinja_put_part(r, &s, &rest, 0, (size_t)i) || !jinja_put_text(r, &s, by) || !jinja_charge(r, 0))
            return false;
        rest = jinja_part(&rest, (size_t)i + old->n, rest.n);
    }
    if (!jinja_put_text(r, &s, &rest)) return false;
    *out = jinja_end_text(r, &s);
    return true;
}

/* ---- letters ---- */

static char text_case(char c, bool up)
{
    return up ? (c >= 'a' && c <= 'z' ? (char)(c - 32) : c) : c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool text_cased(jinja_run *r, int id, const jinja_value *v, jinja_value *out)
{
    bool inside = false;
    jinja_sink s = jinja_begin_text(r);
    for (uint32_t i = 0; i < v->n; i++) {
        const char c = v->as.text[i];
        if (c & 0x80)
            return jinja_fail(r, QSF_E_UNSUPPORTED, "upper and lower case are known here for ASCII only");
        const char as = text_case(c, id == JM_UPPER || (id != JM_LOWER && !inside));
        if (!jinja_put_for(r, &s, v, i, &as, 1)) return false;
        inside = id == JM_CAPITALIZE || text_case(c, true) != text_case(c, false);
    }
    *out = jinja_end_text(r, &s);
    return jinja_charge(r, v->n);
}

static bool text_all(const jinja_value *v, bool digits)
{
    size_t used;
    for (size_t at = 0; at < v->n; at += used) {
        const uint32_t c = qsf_utf8_decode(v->as.text + at, v->n - at, &used);
        if (digits ? c < '0' || c > '9' : !jinja_is_space(c)) return false;
    }
    return v->n > 0;
}

bool jinja_text_join(jinja_run *r, const jinja_value *between, const jinja_value *list, bool any_type,
                     jinja_value *out)
{
    jinja_value items;
    if (!jinja_iterate(r, list, &items)) return false;
    jinja_sink s = jinja_begin_text(r);
    for (uint32_t i = 0; i < items.n; i++) {
        const jinja_value *v = &items.as.items[i];
        if (!any_type && v->type != QSF_JINJA_TEXT)
            return jinja_fail(r, QSF_E_ARGUMENT, "only texts can be joined, not %s", jinja_type_name(v));
        if (!jinja_charge(r, 0) || (i && !jinja_put_text(r, &s, between)) ||
            !jinja_print(r, &s, v))
            return false;
    }
    *out = jinja_end_text(r, &s);
    return true;
}

/* Lines get so many blanks before them: all but the first one and empty ones, unless asked for. */
bool jinja_text_indent(jinja_run *r, const jinja_value *text, jinja_args *a, jinja_value *out)
{
    const jinja_value *width = jinja_arg(a, 0, "width"), *first = jinja_arg(a, 1, "first"),
                      *blank = jinja_arg(a, 2, "blank");
    const bool of_text = width && width->type == QSF_JINJA_TEXT;
    const int64_t n = width && width->type == QSF_JINJA_INT ? width->as.i : 4;
    jinja_value lines;
    if (width && !of_text && width->type != QSF_JINJA_INT)
        return jinja_fail(r, QSF_E_ARGUMENT, "a width is a number or a text");
    if (n > 1000 || !text_lines(r, text, false, &lines))
        return jinja_fail(r, QSF_E_BUDGET, "a line is moved too far");
    const char *end = text->as.text + text->n;
    const bool open = !text->n || text_line_end((uint8_t)end[-1]);      /* the last line is an empty one */
    jinja_sink s = jinja_begin_text(r);
    for (uint32_t i = 0; i < lines.n + open; i++) {
        const jinja_value line = i < lines.n ? lines.as.items[i] : qsf_jinja_text("");
        const bool moved = i ? (blank && jinja_true(blank)) || line.n : first && jinja_true(first);
        if (i && !jinja_put(r, &s, "\n", 1)) return false;
        if (moved && of_text && !jinja_put_text(r, &s, width)) return false;
        for (int64_t k = 0; moved && !of_text && k < n; k++)
            if (!jinja_put(r, &s, " ", 1)) return false;
        if (!jinja_charge(r, (size_t)QSF_MAX(n, 0)) || !jinja_put_text(r, &s, &line)) return false;
    }
    *out = jinja_end_text(r, &s);
    return true;
}

/* ---- all methods ---- */

static bool text_needs(jinja_run *r, const jinja_value *v, const char *what)
{
    if (v && v->type == QSF_JINJA_TEXT) return true;
    return jinja_fail(r, QSF_E_ARGUMENT, "%s needs a text, not %s", what, v ? jinja_type_name(v) : "nothing");
}

/* sep NULL or none: at white space. */
static bool text_split(jinja_run *r, const jinja_value *v, const jinja_value *sep, const jinja_value *most,
                       bool right, jinja_value *out)
{
    if (most && most->type != QSF_JINJA_INT)
        return jinja_fail(r, QSF_E_ARGUMENT, "a number of parts is a number");
    const int64_t n = most ? most->as.i : -1;
    if (sep && sep->type != QSF_JINJA_NONE)
        return text_needs(r, sep, "split") && text_split_at(r, v, sep, n, right, out);
    if (right && n >= 0) return jinja_fail(r, QSF_E_UNSUPPORTED, "rsplit at white space is not known here");
    return text_split_words(r, v, n, out);
}

static bool text_count(const jinja_value *v, const jinja_value *what, jinja_value *out)
{
    int64_t n = 0;
    if (!what->n) n = (int64_t)jinja_length(v) + 1;
    else for (int64_t i = 0; (i = text_find(v, what, (uint32_t)i, false)) >= 0; i += what->n) n++;
    *out = qsf_jinja_int(n);
    return true;
}

bool jinja_text_method(jinja_run *r, int id, const jinja_value *v, jinja_args *a, jinja_value *out)
{
    const jinja_value *x = jinja_arg(a, 0,
                                     id == JM_SPLIT || id == JM_RSPLIT ? "sep"
                                     : id == JM_SPLITLINES             ? "keepends"
                                                                       : "");
    int64_t most = -1;
    if (!jinja_charge(r, v->n)) return false;
    switch (id) {
    case JM_STRIP: case JM_LSTRIP: case JM_RSTRIP:
        if (x && x->type == QSF_JINJA_NONE) x = NULL;
        if (x && !text_needs(r, x, "strip")) return false;
        if (x && !jinja_charge(r, (size_t)v->n * x->n)) return false;
        *out = text_trim(v, x, id != JM_RSTRIP, id != JM_LSTRIP);
        return true;
    case JM_STARTSWITH: case JM_ENDSWITH:
        if (!x) return text_needs(r, x, "startswith");
        return text_starts_any(r, v, x, id == JM_ENDSWITH, out);
    case JM_SPLIT: case JM_RSPLIT:
        return text_split(r, v, x, jinja_arg(a, 1, "maxsplit"), id == JM_RSPLIT, out);
    case JM_SPLITLINES: return text_lines(r, v, x && jinja_true(x), out);
    case JM_PARTITION: return text_needs(r, x, "partition") && text_partition(r, v, x, out);
    case JM_REPLACE: {
        const jinja_value *by = jinja_arg(a, 1, ""), *n = jinja_arg(a, 2, "count");
        if (n && n->type == QSF_JINJA_INT) most = n->as.i;
        return text_needs(r, x, "replace") && text_needs(r, by, "replace") &&
               text_replace(r, v, x, by, most, out);
    }
    case JM_FIND: case JM_RFIND: case JM_INDEX: {
        if (!text_needs(r, x, "find")) return false;
        const int64_t at = text_find(v, x, 0, id == JM_RFIND);
        const jinja_value before = jinja_part(v, 0, (size_t)QSF_MAX(at, 0));
        if (at < 0 && id == JM_INDEX) return jinja_fail(r, QSF_E_ARGUMENT, "the text is not in it");
        *out = qsf_jinja_int(at < 0 ? -1 : (int64_t)jinja_length(&before));
        return true;
    }
    case JM_COUNT: return text_needs(r, x, "count") && text_count(v, x, out);
    case JM_REMOVEPREFIX: case JM_REMOVESUFFIX: {
        if (!text_needs(r, x, "removeprefix")) return false;
        const bool end = id == JM_REMOVESUFFIX, has = text_starts(v, x, end);
        *out = jinja_part(v, has && !end ? x->n : 0, has && end ? v->n - x->n : v->n);
        return true;
    }
    case JM_JOIN:
        if (!x) return text_needs(r, x, "join");
        return jinja_text_join(r, v, x, false, out);
    case JM_ISDIGIT: case JM_ISSPACE:
        for (uint32_t i = 0; id == JM_ISDIGIT && i < v->n; i++)
            if (v->as.text[i] & 0x80)
                return jinja_fail(r, QSF_E_UNSUPPORTED, "isdigit is known here for ASCII only");
        *out = qsf_jinja_bool(text_all(v, id == JM_ISDIGIT));
        return true;
    default: return text_cased(r, id, v, out);
    }
}

/* ---- dates ---- */

bool jinja_strftime(jinja_run *r, const jinja_value *format, jinja_value *out)
{
    static const char *const months[] = { "January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December" };
    static const char *const days[] = { "Thursday", "Friday",  "Saturday", "Sunday",
                                        "Monday",   "Tuesday", "Wednesday" };
    const int64_t seconds = r->now, day = seconds / 86400,
                  z = day + 719468; /* from 1970 on; z counts from 0000-03-01 */
    const int64_t era = z / 146097, of_era = z % 146097,
                  year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100),
                  m = (5 * of_year + 2) / 153;
    const int month = (int)(m < 10 ? m + 3 : m - 9), date = (int)(of_year - (153 * m + 2) / 5 + 1);
    const int year = (int)(year_of_era + era * 400 + (month <= 2)), hour = (int)(seconds / 3600 % 24);
    if (!text_needs(r, format, "strftime_now")) return false;
    jinja_sink s = jinja_begin_text(r);
    for (uint32_t i = 0; i < format->n; i++) {
        const char *p = format->as.text + i;
        char text[24];
        size_t n = 1;
        if (*p != '%') {
            if (!jinja_put_part(r, &s, format, i, 1)) return false;
            continue;
        } else {
            text[0] = *p;
            const char c = ++i < format->n ? p[1] : 0;
            switch (c) {
            case 'Y': n = qsf_format(text, sizeof text, "%d", year); break;
            case 'm': n = qsf_format(text, sizeof text, "%02d", month); break;
            case 'd': n = qsf_format(text, sizeof text, "%02d", date); break;
            case 'B': n = qsf_format(text, sizeof text, "%s", months[month - 1]); break;
            case 'b': n = qsf_format(text, sizeof text, "%.3s", months[month - 1]); break;
            case 'A': n = qsf_format(text, sizeof text, "%s", days[day % 7]); break;
            case 'a': n = qsf_format(text, sizeof text, "%.3s", days[day % 7]); break;
            case 'H': n = qsf_format(text, sizeof text, "%02d", hour); break;
            case 'M': n = qsf_format(text, sizeof text, "%02d", (int)(seconds / 60 % 60)); break;
            case 'S': n = qsf_format(text, sizeof text, "%02d", (int)(seconds % 60)); break;
            case 'y': n = qsf_format(text, sizeof text, "%02d", year % 100); break;
            case '%': break;
            default: return jinja_fail(r, QSF_E_UNSUPPORTED, "this form of a date is not known here");
            }
        }
        if (!jinja_put(r, &s, text, n)) return false;
    }
    *out = jinja_end_text(r, &s);
    return jinja_charge(r, format->n);
}
