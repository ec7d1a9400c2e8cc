/* Jinja: values as Python has them: equal, ordered, printed, reached into.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_own.h"

bool qsf_jinja_give_int(jinja_value *out, int64_t i)
{
    *out = qsf_jinja_int(i);
    return true;
}
bool qsf_jinja_give_bool(jinja_value *out, bool b)
{
    *out = qsf_jinja_bool(b);
    return true;
}
bool qsf_jinja_give_list(jinja_value *out, const jinja_value *items, size_t n)
{
    *out = qsf_jinja_list(items, n);
    return true;
}

bool qsf_jinja_is_space(uint32_t c) { return qsf_is_space(c) || (c >= 0x1c && c <= 0x1f); }

const char *qsf_jinja_type_name(const jinja_value *v)
{
    static const char *const names[] = { "undefined", "None",  "bool",   "int",     "float", "int",
                                         "str",       "list",  "tuple",  "range",   "view",
                                         "generator", "dict",  "namespace", "cycler", "loop",
                                         "macro",     "method", "function", "joiner" };
    return names[v->type];
}

bool qsf_jinja_undefined(jinja_run *r, const jinja_value *v)
{
    return qsf_jinja_fail(r, QSF_E_ARGUMENT, "%.*s is not defined", (int)QSF_MIN(v->n, 60), v->as.text);
}

bool qsf_jinja_true(const jinja_value *v)
{
    switch (v->type) {
    case QSF_JINJA_UNDEFINED: case QSF_JINJA_NONE: return false;
    case QSF_JINJA_BOOL: case QSF_JINJA_INT: return v->as.i != 0;
    case QSF_JINJA_FLOAT: return v->as.f != 0;
    case QSF_JINJA_TEXT: case QSF_JINJA_LIST: case QSF_JINJA_TUPLE: case QSF_JINJA_DICT: case QSF_JINJA_RANGE:
    case QSF_JINJA_VIEW: return v->n != 0;
    default: return true;
    }
}

bool qsf_jinja_is_number(const jinja_value *v)
{
    return v->type == QSF_JINJA_BOOL || v->type == QSF_JINJA_INT || v->type == QSF_JINJA_FLOAT;
}
bool qsf_jinja_is_list(const jinja_value *v)
{
    return v->type == QSF_JINJA_LIST || v->type == QSF_JINJA_TUPLE;
}
static double value_float(const jinja_value *v)
{
    return v->type == QSF_JINJA_FLOAT ? v->as.f : (double)v->as.i;
}
bool qsf_jinja_text_is(const jinja_value *v, const char *text)
{
    return v->type == QSF_JINJA_TEXT && v->n == strlen(text) && !memcmp(v->as.text, text, v->n);
}

/* ---- equal, ordered, contained ---- */

bool qsf_jinja_deeper(jinja_run *r)
{
    if (++r->depth <= QSF_JINJA_DEPTH) return true;
    return qsf_jinja_fail(r, QSF_E_BUDGET, "lists are nested too deep");
}

bool qsf_jinja_equal(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out)
{
    *out = false;
    if (!qsf_jinja_charge(r, 0)) return false;
    if (qsf_jinja_is_number(a) && qsf_jinja_is_number(b)) {
        *out = a->type != QSF_JINJA_FLOAT && b->type != QSF_JINJA_FLOAT ? a->as.i == b->as.i
                                                                        : value_float(a) == value_float(b);
        return true;
    }
    if (a->type != b->type) return true;
    switch (a->type) {
    case QSF_JINJA_UNDEFINED: case QSF_JINJA_NONE: *out = true; return true;
    case QSF_JINJA_TEXT: case QSF_JINJA_BIG:
        *out = a->n == b->n && !memcmp(a->as.text, b->as.text, a->n);
        return !*out || qsf_jinja_charge(r, a->n);
    case QSF_JINJA_LIST: case QSF_JINJA_TUPLE: case QSF_JINJA_RANGE: case QSF_JINJA_VIEW:
    case QSF_JINJA_DICT: {
        const bool dict = a->type == QSF_JINJA_DICT;
        if (a->n != b->n || (a->type == QSF_JINJA_VIEW && a->id != b->id)) return true;
        if (!qsf_jinja_deeper(r)) return false;
        *out = true;
        for (uint32_t i = 0; i < a->n && *out; i++) {
            const jinja_value *mine = &a->as.items[dict ? 2 * i + 1 : i], *other = dict ? NULL
                : &b->as.items[i];
            if (dict && !qsf_jinja_lookup(r, b, &a->as.items[2 * i], &other)) return false;
            if (!other) *out = false;
            if (*out && !qsf_jinja_equal(r, mine, other, out)) return false;
        }
        r->depth--;
        return true;
    }
    default: *out = a->as.own == b->as.own && a->id == b->id; return true;
    }
}

bool qsf_jinja_less(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out)
{
    *out = false;
    if (!qsf_jinja_charge(r, QSF_MIN(a->n, b->n) * (size_t)(a->type == QSF_JINJA_TEXT))) return false;
    if (a->type == QSF_JINJA_UNDEFINED) return qsf_jinja_undefined(r, a);
    if (b->type == QSF_JINJA_UNDEFINED) return qsf_jinja_undefined(r, b);
    if (qsf_jinja_is_number(a) && qsf_jinja_is_number(b)) {
        *out = a->type != QSF_JINJA_FLOAT && b->type != QSF_JINJA_FLOAT ? a->as.i < b->as.i
                                                                        : value_float(a) < value_float(b);
        return true;
    }
    if (a->type == QSF_JINJA_TEXT && b->type == QSF_JINJA_TEXT) {
        const size_t n = QSF_MIN(a->n, b->n);
        const int d = n ? memcmp(a->as.text, b->as.text, n) : 0;
        *out = d < 0 || (!d && a->n < b->n);
        return true;
    }
    if (qsf_jinja_is_list(a) && a->type == b->type) {
        if (!qsf_jinja_deeper(r)) return false;
        for (uint32_t i = 0; i < QSF_MIN(a->n, b->n); i++) {
            bool same;
            if (!qsf_jinja_equal(r, &a->as.items[i], &b->as.items[i], &same)) return false;
            if (same) continue;
            r->depth--;
            return qsf_jinja_less(r, &a->as.items[i], &b->as.items[i], out);
        }
        r->depth--;
        *out = a->n < b->n;
        return true;
    }
    if (a->type == QSF_JINJA_BIG || b->type == QSF_JINJA_BIG)
        return qsf_jinja_unknown(r, "whole numbers this large are not supported");
    return qsf_jinja_fail(r, QSF_E_ARGUMENT, "%s and %s cannot be ordered",
                                         qsf_jinja_type_name(a), qsf_jinja_type_name(b));
}

bool qsf_jinja_contains(jinja_run *r, const jinja_value *what, const jinja_value *in, bool *out)
{
    *out = false;
    switch (in->type) {
    case QSF_JINJA_UNDEFINED: return true;
    case QSF_JINJA_TEXT:
        if (what->type != QSF_JINJA_TEXT)
            return qsf_jinja_fail(r, QSF_E_ARGUMENT, "only a string can be in a string, not %s",
                                                 qsf_jinja_type_name(what));
        *out = qsf_jinja_find(r, in, what, 0, false) >= 0;
        return r->st == QSF_OK;
    case QSF_JINJA_DICT: {
        const jinja_value *found;
        if (!qsf_jinja_lookup(r, in, what, &found)) return false;
        *out = found != NULL;
        return true;
    }
    case QSF_JINJA_LIST: case QSF_JINJA_TUPLE: case QSF_JINJA_RANGE: case QSF_JINJA_VIEW:
    case QSF_JINJA_ITER: {
        jinja_value list;
        if (!qsf_jinja_iterate(r, in, &list)) return false;
        for (uint32_t i = 0; i < list.n && !*out; i++)
            if (!qsf_jinja_equal(r, what, &list.as.items[i], out)) return false;
        return true;
    }
    default: return qsf_jinja_fail(r, QSF_E_ARGUMENT, "a value of type %s has no members",
                                   qsf_jinja_type_name(in));
    }
}

bool qsf_jinja_compare(jinja_run *r, jinja_op op, const jinja_value *a, const jinja_value *b, bool *out)
{
    bool same = false;
    switch (op) {
    case JOP_EQ: return qsf_jinja_equal(r, a, b, out);
    case JOP_IN: return qsf_jinja_contains(r, a, b, out);
    case JOP_NE: if (!qsf_jinja_equal(r, a, b, out)) return false; break;
    case JOP_NOT_IN: if (!qsf_jinja_contains(r, a, b, out)) return false; break;
    case JOP_LT: return qsf_jinja_less(r, a, b, out);
    case JOP_GT: return qsf_jinja_less(r, b, a, out);
    default:
        if (!qsf_jinja_less(r, op == JOP_LE ? a : b, op == JOP_LE ? b : a, out)
            || !qsf_jinja_equal(r, a, b, &same))
            return false;
        *out |= same;
        return true;
    }
    *out = !*out;
    return true;
}

/* ---- operators ---- */

static bool value_repeat(jinja_run *r, const jinja_value *v, int64_t times, jinja_value *out)
{
    uint64_t n;
    if (times < 0 || !v->n) times = 0;
    if (qsf_mul_u64(v->n, (uint64_t)times, &n) || n > UINT32_MAX / sizeof *v)
        return qsf_jinja_fail(r, QSF_E_BUDGET, "a string or list is too long");
    if (!qsf_jinja_charge(r, (size_t)n + (size_t)times)) return false;
    if (v->type == QSF_JINJA_TEXT) {
        jinja_sink s = qsf_jinja_begin_text(r);
        while (times--)
            if (!qsf_jinja_put_text(r, &s, v)) return false;
        return qsf_jinja_finish_as(r, &s, v, out);
    }
    jinja_value *to = qsf_jinja_items(r, (size_t)n);
    if (!to) return false;
    for (int64_t i = 0; i < times; i++) memcpy(to + (size_t)i * v->n, v->as.items, v->n * sizeof *v);
    *out = (jinja_value){ .type = v->type, .n = (uint32_t)n, .as.items = to };
    return true;
}

/* Templates make long strings and lists by appending to them again and again.  A value that is
 * appended to for the second time is copied with room of the same size after it, and from then on
 * grows in place.  No other value changes, because all of them end before the room begins. */
enum { VALUE_GROWS = 256 };         /* the size in bytes from which this pays off */

static jinja_grown *value_grown(jinja_run *r, const void *end)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(r->grown); i++)
        if (r->grown[i].end == (uintptr_t)end) return &r->grown[i];
    return NULL;
}

/* n bytes end at the end of what is taken. */
static void value_grows(jinja_run *r, jinja_grown *g, const void *end, size_t n)
{
    const size_t room = g ? QSF_MIN(n, (r->mem->size - r->mem->used) / 2) : 0;
    if (n < VALUE_GROWS) return;
    if (!g) g = &r->grown[r->n_grown++ % QSF_ARRAY_LEN(r->grown)];
    r->mem->used += room;
    *g = (jinja_grown){ (uintptr_t)end, room };
}

bool qsf_jinja_join_texts(jinja_run *r, const jinja_value *a, const jinja_value *b, jinja_value *out)
{
    const char *end = a->as.text + a->n;
    jinja_grown *g = a->n >= VALUE_GROWS ? value_grown(r, end) : NULL;
    if (g && g->room >= b->n && b->n < UINT32_MAX - a->n) {
        const size_t at = (size_t)(a->as.text - r->mem->base);
        jinja_sink s = { r->mem->base + at, a->n, (size_t)a->n + b->n, jinja_marks(r->mem), at };
        if (!qsf_jinja_put_text(r, &s, b)) return false;
        *g = (jinja_grown){ g->end + b->n, g->room - b->n };
        *out = qsf_jinja_text_n(s.text, s.len);
        return true;
    }
    jinja_sink s = qsf_jinja_begin_text(r);
    if (!qsf_jinja_put_text(r, &s, a) || !qsf_jinja_put_text(r, &s, b)) return false;
    *out = qsf_jinja_end_text(r, &s);
    value_grows(r, g, out->as.text + out->n, out->n);
    return true;
}

static bool value_join_lists(jinja_run *r, const jinja_value *a, const jinja_value *b, jinja_value *out)
{
    const size_t n = (size_t)a->n + b->n, old = a->n * sizeof *a, more = b->n * sizeof *b;
    jinja_grown *g = old >= VALUE_GROWS ? value_grown(r, a->as.items + a->n) : NULL;
    const bool fits = g && g->room >= more;
    jinja_value *to = fits ? (jinja_value *)(size_t)a->as.items : qsf_jinja_items(r, n);
    if (!to || !qsf_jinja_charge(r, more)) return false;
    if (old && !fits) memcpy(to, a->as.items, old);
    if (more) memcpy(to + a->n, b->as.items, more);
    if (fits) *g = (jinja_grown){ g->end + more, g->room - more };
    else value_grows(r, g, to + n, old + more);
    *out = (jinja_value){ .type = a->type, .n = (uint32_t)n, .as.items = to };
    return true;
}

static bool value_join(jinja_run *r, const jinja_value *a, const jinja_value *b, jinja_value *out)
{
    const uint8_t safe = (a->flags | b->flags) & QSF_JINJA_SAFE;
    if (a->type != QSF_JINJA_TEXT) return value_join_lists(r, a, b, out);
    if (!safe) return qsf_jinja_join_texts(r, a, b, out);
    jinja_sink s = qsf_jinja_begin_text(r);
    if (!qsf_jinja_put_escaped(r, &s, a) || !qsf_jinja_put_escaped(r, &s, b)) return false;
    *out = qsf_jinja_end_text(r, &s);
    out->flags |= safe;
    return true;
}

static bool value_can_repeat(const jinja_value *v, const jinja_value *times)
{
    return (v->type == QSF_JINJA_TEXT || qsf_jinja_is_list(v))
           && (times->type == QSF_JINJA_INT || times->type == QSF_JINJA_BOOL);
}

bool qsf_jinja_binary(jinja_run *r, jinja_op op, const jinja_value *a, const jinja_value *b, jinja_value *out)
{
    if (op == JOP_MOD && a->type == QSF_JINJA_TEXT) return qsf_jinja_format_percent(r, a, b, out);
    if (a->type == QSF_JINJA_UNDEFINED) return qsf_jinja_undefined(r, a);
    if (b->type == QSF_JINJA_UNDEFINED) return qsf_jinja_undefined(r, b);
    if (qsf_jinja_is_number(a) && qsf_jinja_is_number(b)) return qsf_jinja_arithmetic(r, op, a, b, out);
    if (op == JOP_ADD && a->type == b->type && (a->type == QSF_JINJA_TEXT || qsf_jinja_is_list(a)))
        return value_join(r, a, b, out);
    if (op == JOP_MUL && value_can_repeat(a, b)) return value_repeat(r, a, b->as.i, out);
    if (op == JOP_MUL && value_can_repeat(b, a)) return value_repeat(r, b, a->as.i, out);
    if (a->type == QSF_JINJA_BIG || b->type == QSF_JINJA_BIG)
        return qsf_jinja_unknown(r, "whole numbers this large are not supported");
    return qsf_jinja_fail(r, QSF_E_ARGUMENT, "%s and %s cannot be combined here", qsf_jinja_type_name(a),
                          qsf_jinja_type_name(b));
}
