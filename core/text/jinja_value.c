/* Jinja: values as Python has them: equal, ordered, printed, reached into.
 * SPDX-License-Identifier: MIT */
#include "text/jinja_own.h"

bool jinja_is_space(uint32_t c) { return qsf_is_space(c) || (c >= 0x1c && c <= 0x1f); }

const char *jinja_type_name(const jinja_value *v)
{
    static const char *const names[] = { "undefined", "None",  "bool",   "int",     "float", "int",
                                         "str",       "list",  "tuple",  "dict",    "namespace",
                                         "loop",      "macro", "method", "function" };
    return names[v->type];
}

bool jinja_undefined(jinja_run *r, const jinja_value *v)
{
    return jinja_fail(r, QSF_E_ARGUMENT, "%.*s is not defined", (int)QSF_MIN(v->n, 60), v->as.text);
}

bool jinja_true(const jinja_value *v)
{
    switch (v->type) {
    case QSF_JINJA_UNDEFINED: case QSF_JINJA_NONE: return false;
    case QSF_JINJA_BOOL: case QSF_JINJA_INT: return v->as.i != 0;
    case QSF_JINJA_FLOAT: return v->as.f != 0;
    case QSF_JINJA_TEXT: case QSF_JINJA_LIST: case QSF_JINJA_TUPLE: case QSF_JINJA_DICT: return v->n != 0;
    default: return true;
    }
}

bool jinja_is_number(const jinja_value *v)
{
    return v->type == QSF_JINJA_BOOL || v->type == QSF_JINJA_INT || v->type == QSF_JINJA_FLOAT;
}
bool jinja_is_list(const jinja_value *v)
{
    return v->type == QSF_JINJA_LIST || v->type == QSF_JINJA_TUPLE;
}
static double value_float(const jinja_value *v)
{
    return v->type == QSF_JINJA_FLOAT ? v->as.f : (double)v->as.i;
}
bool jinja_text_is(const jinja_value *v, const char *text)
{
    return v->type == QSF_JINJA_TEXT && v->n == strlen(text) && !memcmp(v->as.text, text, v->n);
}

/* ---- equal, ordered, contained ---- */

bool jinja_deeper(jinja_run *r)
{
    if (++r->depth <= QSF_JINJA_DEPTH) return true;
    return jinja_fail(r, QSF_E_BUDGET, "lists lie too deep in each other");
}

bool jinja_equal(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out)
{
    *out = false;
    if (!jinja_charge(r, 0)) return false;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = a->type != QSF_JINJA_FLOAT && b->type != QSF_JINJA_FLOAT ? a->as.i == b->as.i
                                                                        : value_float(a) == value_float(b);
        return true;
    }
    if (a->type != b->type) return true;
    switch (a->type) {
    case QSF_JINJA_UNDEFINED: case QSF_JINJA_NONE: *out = true; return true;
    case QSF_JINJA_TEXT: case QSF_JINJA_BIG:
        *out = a->n == b->n && !memcmp(a->as.text, b->as.text, a->n);
        return !*out || jinja_charge(r, a->n);
    case QSF_JINJA_LIST: case QSF_JINJA_TUPLE: case QSF_JINJA_DICT: {
        const bool dict = a->type == QSF_JINJA_DICT;
        if (a->n != b->n) return true;
        if (!jinja_deeper(r)) return false;
        *out = true;
        for (uint32_t i = 0; i < a->n && *out; i++) {
            const jinja_value *mine = &a->as.items[dict ? 2 * i + 1 : i], *other = &b->as.items[i];
            if (dict) {
                bool found = false;
                for (uint32_t k = 0; k < b->n && !found; k++) {
                    if (!jinja_equal(r, &a->as.items[2 * i], &b->as.items[2 * k], &found)) return false;
                    other = &b->as.items[2 * k + 1];
                }
                if (!found) *out = false;
            }
            if (*out && !jinja_equal(r, mine, other, out)) return false;
        }
        r->depth--;
        return true;
    }
    default: *out = a->as.own == b->as.own && a->id == b->id; return true;
    }
}

bool jinja_less(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out)
{
    *out = false;
    if (!jinja_charge(r, QSF_MIN(a->n, b->n) * (size_t)(a->type == QSF_JINJA_TEXT))) return false;
    if (a->type == QSF_JINJA_UNDEFINED) return jinja_undefined(r, a);
    if (b->type == QSF_JINJA_UNDEFINED) return jinja_undefined(r, b);
    if (jinja_is_number(a) && jinja_is_number(b)) {
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
    if (jinja_is_list(a) && a->type == b->type) {
        if (!jinja_deeper(r)) return false;
        for (uint32_t i = 0; i < QSF_MIN(a->n, b->n); i++) {
            bool same;
            if (!jinja_equal(r, &a->as.items[i], &b->as.items[i], &same)) return false;
            if (same) continue;
            r->depth--;
            return jinja_less(r, &a->as.items[i], &b->as.items[i], out);
        }
        r->depth--;
        *out = a->n < b->n;
        return true;
    }
    return jinja_fail(r, QSF_E_ARGUMENT, "%s and %s have no order", jinja_type_name(a), jinja_type_name(b));
}

bool jinja_contains(jinja_run *r, const jinja_value *what, const jinja_value *in, bool *out)
{
    *out = false;
    switch (in->type) {
    case QSF_JINJA_UNDEFINED: return true;
    case QSF_JINJA_TEXT:
        if (what->type != QSF_JINJA_TEXT)
            return jinja_fail(r, QSF_E_ARGUMENT, "only a text is in a text, not %s", jinja_type_name(what));
        for (uint32_t i = 0; i + what->n <= in->n && !*out; i++)
            *out = !memcmp(in->as.text + i, what->as.text, what->n);
        return jinja_charge(r, in->n + (size_t)in->n * (what->n > 64 ? what->n / 16 : 0));
    case QSF_JINJA_LIST: case QSF_JINJA_TUPLE: case QSF_JINJA_DICT:
        for (uint32_t i = 0; i < in->n && !*out; i++)
            if (!jinja_equal(r, what, &in->as.items[in->type == QSF_JINJA_DICT ? 2 * i : i], out))
                return false;
        return true;
    default: return jinja_fail(r, QSF_E_ARGUMENT, "nothing is in a value of type %s", jinja_type_name(in));
    }
}

bool jinja_compare(jinja_run *r, jinja_op op, const jinja_value *a, const jinja_value *b, bool *out)
{
    bool same = false;
    switch (op) {
    case JOP_EQ: return jinja_equal(r, a, b, out);
    case JOP_IN: return jinja_contains(r, a, b, out);
    case JOP_NE: if (!jinja_equal(r, a, b, out)) return false; break;
    case JOP_NOT_IN: if (!jinja_contains(r, a, b, out)) return false; break;
    case JOP_LT: return jinja_less(r, a, b, out);
    case JOP_GT: return jinja_less(r, b, a, out);
    default:
        if (!jinja_less(r, op == JOP_LE ? a : b, op == JOP_LE ? b : a, out) || !jinja_equal(r, a, b, &same))
            return false;
        *out |= same;
        return true;
    }
    *out = !*out;
    return true;
}

/* ---- arithmetic ---- */

static bool value_repeat(jinja_run *r, const jinja_value *v, int64_t times, jinja_value *out)
{
    uint64_t n;
    if (times < 0 || !v->n) times = 0;
    if (qsf_mul_u64(v->n, (uint64_t)times, &n) || n > UINT32_MAX / sizeof *v)
        return jinja_fail(r, QSF_E_BUDGET, "a text or list is too long");
    if (!jinja_charge(r, (size_t)n + (size_t)times)) return false;
    if (v->type == QSF_JINJA_TEXT) {
        jinja_sink s = jinja_begin_text(r);
        while (times--)
            if (!jinja_put_text(r, &s, v)) return false;
        *out = jinja_end_text(r, &s);
        return true;
    }
    jinja_value *to = jinja_room(r, (size_t)n * sizeof *v);
    if (!to || !jinja_charge(r, (size_t)n * sizeof *v)) return false;
    for (int64_t i = 0; i < times; i++) memcpy(to + (size_t)i * v->n, v->as.items, v->n * sizeof *v);
    *out = *v;
    out->n = (uint32_t)n;
    out->as.items = to;
    return true;
}

static bool value_whole(jinja_run *r, jinja_op op, int64_t a, int64_t b, jinja_value *out)
{
    const int64_t half = INT64_MAX / 2, root = 3037000499;      /* beyond these a result could not fit */
    const bool small = a <= half && a >= -half && b <= half && b >= -half;
    if ((op == JOP_FLOOR || op == JOP_MOD) && !b) return jinja_fail(r, QSF_E_ARGUMENT, "division by zero");
    if (!small || (op == JOP_MUL && (a > root || a < -root || b > root || b < -root) && a && b)) goto large;
    if (op == JOP_ADD) *out = qsf_jinja_int(a + b);
    else if (op == JOP_SUB) *out = qsf_jinja_int(a - b);
    else if (op == JOP_MUL) *out = qsf_jinja_int(a * b);
    else if (op == JOP_POW) {
        int64_t p = 1;
        if (b < 0) return jinja_fail(r, QSF_E_UNSUPPORTED, "a negative power is not known here");
        if (b > 64 && (a > 1 || a < -1)) goto large;
        for (int64_t i = 0; i < (b > 64 ? 64 + b % 2 : b); i++) {
            if (p > root || p < -root || a > root || a < -root) goto large;
            p *= a;
        }
        *out = qsf_jinja_int(p);
    } else {
        const int64_t q = a / b - (a % b && (a < 0) != (b < 0));
        *out = qsf_jinja_int(op == JOP_FLOOR ? q : a - q * b);
    }
    return true;
large:
    return jinja_fail(r, QSF_E_UNSUPPORTED, "a number is too large");
}

/* As it is added to a text that is safe. */
static bool put_escaped(jinja_run *r, jinja_sink *s, const jinja_value *v)
{
    if (v->flags & QSF_JINJA_SAFE) return jinja_put_text(r, s, v);
    for (uint32_t i = 0; i < v->n; i++) {
        const char c = v->as.text[i];
        const char *as = c == '&'    ? "&amp;"
                         : c == '<'  ? "&lt;"
                         : c == '>'  ? "&gt;"
                         : c == '\'' ? "&#39;"
                         : c == '"'  ? "&#34;"
                                     : NULL;
        if (!jinja_put_for(r, s, v, i, as ? as : &c, as ? strlen(as) : 1)) return false;
    }
    return jinja_charge(r, v->n);
}

bool jinja_binary(jinja_run *r, jinja_op op, const jinja_value *a, const jinja_value *b, jinja_value *out)
{
    if (a->type == QSF_JINJA_UNDEFINED) return jinja_undefined(r, a);
    if (b->type == QSF_JINJA_UNDEFINED) return jinja_undefined(r, b);
    if (jinja_is_number(a) && jinja_is_number(b)) {
        const uint8_t foreign = (a->flags | b->flags) & QSF_JINJA_FOREIGN;
        if (op != JOP_DIV && a->type != QSF_JINJA_FLOAT && b->type != QSF_JINJA_FLOAT)
            return value_whole(r, op, a->as.i, b->as.i, out) && ((out->flags = foreign), true);
        const double x = value_float(a), y = value_float(b);
        if ((op == JOP_DIV || op == JOP_FLOOR || op == JOP_MOD) && y == 0)
            return jinja_fail(r, QSF_E_ARGUMENT, "division by zero");
        if (op == JOP_FLOOR || op == JOP_MOD || op == JOP_POW)
            return jinja_fail(r, QSF_E_UNSUPPORTED, "this operation is not known here for float");
        const double f = op == JOP_ADD ? x + y : op == JOP_SUB ? x - y : op == JOP_MUL ? x * y : x / y;
        *out = (jinja_value){ .type = QSF_JINJA_FLOAT, .flags = foreign, .as.f = f };
        return true;
    }
    const bool safe = (a->flags | b->flags) & QSF_JINJA_SAFE;
    if (op == JOP_ADD && a->type == QSF_JINJA_TEXT && b->type == QSF_JINJA_TEXT && safe) {
        jinja_sink s = jinja_begin_text(r);
        if (!put_escaped(r, &s, a) || !put_escaped(r, &s, b)) return false;
        *out = jinja_end_text(r, &s);
        out->flags |= QSF_JINJA_SAFE;
        return true;
    }
    if (safe)
        return jinja_fail(r, QSF_E_UNSUPPORTED,
                          "an operation on what went through \"safe\" is not known here");
    if (op == JOP_ADD && a->type == b->type && (a->type == QSF_JINJA_TEXT || jinja_is_list(a))) {
        const size_t n = (size_t)a->n + b->n;
        if (a->type == QSF_JINJA_TEXT) {
            jinja_sink s = jinja_begin_text(r);
            if (!jinja_put_text(r, &s, a) || !jinja_put_text(r, &s, b)) return false;
            *out = jinja_end_text(r, &s);
            return true;
        }
        jinja_value *to = jinja_room(r, n * sizeof *a);
        if (!to || !jinja_charge(r, n * sizeof *a)) return false;
        if (a->n) memcpy(to, a->as.items, a->n * sizeof *a);
        if (b->n) memcpy(to + a->n, b->as.items, b->n * sizeof *a);
        *out = (jinja_value){ .type = a->type, .n = (uint32_t)n, .as.items = to };
        return true;
    }
    const bool times_b = b->type == QSF_JINJA_INT || b->type == QSF_JINJA_BOOL,
               times_a = a->type == QSF_JINJA_INT || a->type == QSF_JINJA_BOOL;
    if (op == JOP_MUL && times_b && (a->type == QSF_JINJA_TEXT || jinja_is_list(a)))
        return value_repeat(r, a, b->as.i, out);
    if (op == JOP_MUL && times_a && (b->type == QSF_JINJA_TEXT || jinja_is_list(b)))
        return value_repeat(r, b, a->as.i, out);
    if (op == JOP_MOD && a->type == QSF_JINJA_TEXT)
        return jinja_fail(r, QSF_E_UNSUPPORTED, "formatting with %% is not known here");
    return jinja_fail(r, QSF_E_ARGUMENT, "%s and %s do not go together here", jinja_type_name(a),
                      jinja_type_name(b));
}

/* ---- reaching into values ---- */

bool jinja_iterate(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    jinja_value *items;
    uint32_t n = 0;
    switch (v->type) {
    case QSF_JINJA_UNDEFINED: *out = qsf_jinja_list(NULL, 0); return true;
    case QSF_JINJA_LIST: case QSF_JINJA_TUPLE: *out = *v; return true;
    case QSF_JINJA_DICT:
        if (!(items = jinja_room(r, v->n * sizeof *items)) || !jinja_charge(r, v->n * sizeof *items))
            return false;
        for (; n < v->n; n++) items[n] = v->as.items[2 * n];
        break;
    case QSF_JINJA_TEXT:
        if (!(items = jinja_room(r, v->n * sizeof *items)) || !jinja_charge(r, v->n * sizeof *items))
            return false;
        for (size_t at = 0, used; at < v->n; at += used) {
            (void)qsf_utf8_decode(v->as.text + at, v->n - at, &used);
            items[n] = jinja_part(v, at, at + used);
            items[n++].flags &= QSF_JINJA_OWN;
        }
        break;
    default: return jinja_fail(r, QSF_E_ARGUMENT, "a value of type %s has no items", jinja_type_name(v));
    }
    *out = qsf_jinja_list(items, n);
    return true;
}

static const jinja_value *value_lookup(const jinja_value *dict, const char *key, size_t n)
{
    for (uint32_t i = 0; i < dict->n; i++) {
        const jinja_value *k = &dict->as.items[2 * i];
        if (k->type == QSF_JINJA_TEXT && k->n == n && !memcmp(k->as.text, key, n)) return k + 1;
    }
    return NULL;
}

static bool loop_attribute(const jinja_loop *l, const char *name, size_t n, jinja_value *out)
{
    static const char *const names[] = { "index",     "index0",   "first",    "last",  "length", "revindex",
                                         "revindex0", "previtem", "nextitem", "depth", "depth0" };
    const int64_t at = l->at, len = l->items.n;
    size_t k = 0;
    while (k < QSF_ARRAY_LEN(names) && !(strlen(names[k]) == n && !memcmp(names[k], name, n))) k++;
    switch (k) {
    case 0: *out = qsf_jinja_int(at); return true;
    case 1: *out = qsf_jinja_int(at - 1); return true;
    case 2: *out = qsf_jinja_bool(at == 1); return true;
    case 3: *out = qsf_jinja_bool(at == len); return true;
    case 4: *out = qsf_jinja_int(len); return true;
    case 5: *out = qsf_jinja_int(len - at + 1); return true;
    case 6: *out = qsf_jinja_int(len - at); return true;
    case 7: if (at > 1) *out = l->items.as.items[at - 2]; return at > 1;
    case 8: if (at < len) *out = l->items.as.items[at]; return at < len;
    case 9: *out = qsf_jinja_int(1); return true;
    case 10: *out = qsf_jinja_int(0); return true;
    default: return false;
    }
}

static bool value_method(jinja_run *r, const jinja_value *v, int method, jinja_value *out)
{
    jinja_value *self = jinja_room(r, sizeof *self);
    if (!self) return false;
    *self = *v;
    *out = (jinja_value){ .type = QSF_JINJA_METHOD, .id = (uint16_t)method, .as.items = self };
    return true;
}

/* v.name: a method, or else the member of v by that name. */
bool jinja_attribute(jinja_run *r, const jinja_value *v, const char *name, size_t n, int method,
                     jinja_value *out)
{
    const jinja_value *found = NULL;
    *out = (jinja_value){ .type = QSF_JINJA_UNDEFINED, .n = (uint32_t)n, .as.text = name };
    if (v->type == QSF_JINJA_UNDEFINED) return jinja_undefined(r, v);
    if (v->type == QSF_JINJA_LOOP && loop_attribute(v->as.own, name, n, out)) return true;
    if (v->type == QSF_JINJA_SPACE) {
        const jinja_space *o = v->as.own;
        const jinja_value pairs = qsf_jinja_dict(o->pairs, o->n);
        found = value_lookup(&pairs, name, n);
    } else if (method && jinja_has_method(v, method)) return value_method(r, v, method, out);
    else if (v->type == QSF_JINJA_DICT) found = value_lookup(v, name, n);
    if (found) *out = *found;
    if (v->type == QSF_JINJA_DICT && !jinja_charge(r, v->n)) return false;
    return true;
}

/* Where character i of a text begins; texts are UTF-8, or what stands for it. */
static uint32_t value_offset(const jinja_value *v, size_t i)
{
    size_t at = 0, used;
    for (; i && at < v->n; i--, at += used) (void)qsf_utf8_decode(v->as.text + at, v->n - at, &used);
    return (uint32_t)at;
}
size_t jinja_length(const jinja_value *v)
{
    size_t n = 0, used;
    if (v->type != QSF_JINJA_TEXT) return v->n;
    for (size_t at = 0; at < v->n; at += used, n++) (void)qsf_utf8_decode(v->as.text + at, v->n - at, &used);
    return n;
}

bool jinja_item(jinja_run *r, const jinja_value *v, const jinja_value *key, jinja_value *out)
{
    const jinja_value k = *key;
    *out = (jinja_value){ .type = QSF_JINJA_UNDEFINED,
                          .n = k.type == QSF_JINJA_TEXT ? k.n : 7,
                          .as.text = k.type == QSF_JINJA_TEXT ? k.as.text : "an item" };
    if (v->type == QSF_JINJA_UNDEFINED) return jinja_undefined(r, v);
    if (v->type == QSF_JINJA_DICT) {
        for (uint32_t i = 0; i < v->n; i++) {
            bool same;
            if (!jinja_equal(r, &v->as.items[2 * i], &k, &same)) return false;
            if (!same) continue;
            *out = v->as.items[2 * i + 1];
            return true;
        }
    } else if ((jinja_is_list(v) || v->type == QSF_JINJA_TEXT) &&
               (k.type == QSF_JINJA_INT || k.type == QSF_JINJA_BOOL)) {
        const int64_t n = (int64_t)jinja_length(v), i = k.as.i < 0 ? k.as.i + n : k.as.i;
        if (!jinja_charge(r, v->type == QSF_JINJA_TEXT ? v->n : 0)) return false;
        if (i < 0 || i >= n) return true;
        if (jinja_is_list(v)) *out = v->as.items[i];
        else {
            const uint32_t from = value_offset(v, (size_t)i), to = value_offset(v, (size_t)i + 1);
            *out = jinja_part(v, from, to);
        }
        return true;
    }
    if (k.type != QSF_JINJA_TEXT) return true;
    const int method =
        jinja_method_id(k.as.text, k.n); /* v["strip"] is v.strip where there is no such item */
    if (v->type == QSF_JINJA_DICT && !(method && jinja_has_method(v, method))) return true;
    return jinja_attribute(r, v, k.as.text, k.n, method, out);
}

/* A bound of a slice as Python reads it, into [least, most]. */
static bool slice_bound(jinja_run *r, const jinja_value *b, int64_t n, int64_t least, int64_t most,
                        int64_t unset, int64_t *out)
{
    *out = unset;
    if (b->type == QSF_JINJA_NONE) return true;
    if (b->type != QSF_JINJA_INT && b->type != QSF_JINJA_BOOL)
        return jinja_fail(r, QSF_E_UNSUPPORTED, "a slice goes from number to number");
    *out = b->as.i < 0 ? (b->as.i < -n ? least : b->as.i + n) : b->as.i;
    *out = QSF_MAX(QSF_MIN(*out, most), least);
    return true;
}

bool jinja_slice(jinja_run *r, const jinja_value *v, const jinja_value bounds[3], jinja_value *out)
{
    const bool text = v->type == QSF_JINJA_TEXT;
    int64_t from, to, step = 1;
    if (v->type == QSF_JINJA_UNDEFINED) return jinja_undefined(r, v);
    if (!text && !jinja_is_list(v)) {
        *out = (jinja_value){ .type = QSF_JINJA_UNDEFINED, .n = 7, .as.text = "a slice" };
        return v->type == QSF_JINJA_DICT ? jinja_fail(r, QSF_E_UNSUPPORTED, "a slice of a dict") : true;
    }
    const int64_t n = (int64_t)jinja_length(v);
    if (bounds[2].type == QSF_JINJA_INT) step = bounds[2].as.i;
    else if (bounds[2].type != QSF_JINJA_NONE)
        return jinja_fail(r, QSF_E_UNSUPPORTED, "a slice goes from number to number");
    if (!step) return jinja_fail(r, QSF_E_ARGUMENT, "a slice of step 0");
    step = QSF_MAX(QSF_MIN(step, n + 1), -n - 1);
    const int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
    if (!slice_bound(r, &bounds[0], n, least, most, step < 0 ? n - 1 : 0, &from)) return false;
    if (!slice_bound(r, &bounds[1], n, least, most, step < 0 ? -1 : n, &to)) return false;
    if (!jinja_charge(r, v->n * (text ? 1 : sizeof *v))) return false;
    if (step == 1) {
        const uint32_t count = (uint32_t)QSF_MAX(to - from, 0);
        *out = *v;
        if (text) {
            const uint32_t at = value_offset(v, (size_t)from);
            out->as.text += at;
            out->n = count ? value_offset(v, (size_t)to) - at : 0;
        } else {
            if (v->n) out->as.items += from;
            out->n = count;
        }
        return true;
    }
    jinja_value list;
    if (!jinja_iterate(r, v, &list)) return false;
    if (text) {
        jinja_sink s = jinja_begin_text(r);
        for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
            if (!jinja_print(r, &s, &list.as.items[i])) return false;
        *out = jinja_end_text(r, &s);
        return true;
    }
    jinja_value *items = jinja_room(r, v->n * sizeof *items);
    uint32_t count = 0;
    if (!items) return false;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) items[count++] = v->as.items[i];
    *out = (jinja_value){ .type = v->type, .n = count, .as.items = items };
    return true;
}
