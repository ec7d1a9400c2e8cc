/* Jinja: tests, methods and functions that are built in.
 * SPDX-License-Identifier: MIT */
#include "text/jinja_own.h"

/* ---- names ---- */

enum {
    JT_BOOLEAN, JT_CALLABLE, JT_DEFINED, JT_DIVISIBLEBY, JT_EVEN, JT_FALSE, JT_FLOAT, JT_IN, JT_INTEGER,
    JT_ITERABLE, JT_MAPPING, JT_NONE, JT_NUMBER, JT_ODD, JT_SAMEAS, JT_SEQUENCE, JT_STRING, JT_TRUE,
    JT_UNDEFINED, JT_EQ, JT_EQUALTO, JT_EQ_SIGN, JT_NE, JT_NE_SIGN, JT_LT, JT_LESSTHAN, JT_LT_SIGN, JT_LE,
    JT_LE_SIGN, JT_GT, JT_GREATERTHAN, JT_GT_SIGN, JT_GE, JT_GE_SIGN
};
static const char builtin_tests[] =
    "boolean callable defined divisibleby even false float in integer iterable mapping none number odd "
    "sameas sequence string true undefined eq equalto == ne != lt lessthan < le <= gt greaterthan > ge >= ";

/* In the order of JM_...; then what Python's texts, lists and dicts have besides (what would change
 * them is not there for templates). */
static const char builtin_methods[] =
    " capitalize endswith find isdigit isspace join lower lstrip partition removeprefix removesuffix "
    "replace rfind rsplit rstrip split splitlines startswith strip title upper count index get items keys "
    "values cycle "
    "casefold center encode expandtabs format format_map isalnum isalpha isascii isdecimal isidentifier "
    "islower isnumeric isprintable istitle "
    "isupper ljust maketrans rindex rjust rpartition swapcase translate zfill copy fromkeys changed ";

enum { JN_NONE, JN_DICT, JN_NAMESPACE, JN_RAISE, JN_RANGE, JN_STRFTIME };
static const char builtin_functions[] = " dict namespace raise_exception range strftime_now ";

int jinja_word_id(const char *words, const char *name, size_t n)
{
    for (int id = 0; *words; id++) {
        const char *end = strchr(words, ' ');
        if ((size_t)(end - words) == n && n && !memcmp(words, name, n)) return id;
        words = end + 1;
    }
    return -1;
}
int jinja_test_id(const char *name, size_t n) { return jinja_word_id(builtin_tests, name, n); }
int jinja_method_id(const char *name, size_t n)
{
    return QSF_MAX(jinja_word_id(builtin_methods, name, n), 0);
}
int jinja_function_id(const char *name, size_t n)
{
    return QSF_MAX(jinja_word_id(builtin_functions, name, n), 0);
}

bool jinja_has_method(const jinja_value *v, int id)
{
    switch (v->type) {
    case QSF_JINJA_TEXT: return id < JM_GET || (id >= JM_OTHERS && id < JM_COPY);
    case QSF_JINJA_DICT: return (id >= JM_GET && id <= JM_VALUES) || id == JM_COPY || id == JM_FROMKEYS;
    case QSF_JINJA_LIST: return id == JM_COUNT || id == JM_INDEX || id == JM_COPY;
    case QSF_JINJA_TUPLE: return id == JM_COUNT || id == JM_INDEX;
    case QSF_JINJA_LOOP: return id == JM_CYCLE || id == JM_CHANGED;
    default: return false;
    }
}

/* ---- arguments ---- */

const jinja_value *jinja_arg(jinja_args *a, uint32_t i, const char *name)
{
    if (i < a->n) {
        a->used++;
        return &a->pos[i];
    }
    for (uint32_t k = 0; k < a->n_kw; k++)
        if (jinja_text_is(&a->pos[a->n + 2 * k], name)) {
            a->used++;
            return &a->pos[a->n + 2 * k + 1];
        }
    return NULL;
}

bool jinja_args_done(jinja_run *r, const jinja_args *a, const char *what)
{
    return a->used >= a->n + a->n_kw ||
           jinja_fail(r, QSF_E_ARGUMENT, "%s got an argument that it does not take", what);
}

const jinja_value *jinja_need(jinja_run *r, jinja_args *a, uint32_t i, const char *name)
{
    const jinja_value *v = jinja_arg(a, i, name);
    if (!v) jinja_fail(r, QSF_E_ARGUMENT, "the argument \"%s\" is missing", name);
    return v;
}
bool jinja_flag(jinja_args *a, uint32_t i, const char *name)
{
    const jinja_value *v = jinja_arg(a, i, name);
    return v && jinja_true(v);
}
static const jinja_value builtin_none = { .type = QSF_JINJA_NONE };

/* ---- tests ---- */

bool jinja_test(jinja_run *r, int id, const jinja_value *v, jinja_args *a, bool *out)
{
    static const uint8_t ops[] = { JOP_EQ, JOP_EQ, JOP_EQ, JOP_NE, JOP_NE, JOP_LT, JOP_LT, JOP_LT,
                                   JOP_LE, JOP_LE, JOP_GT, JOP_GT, JOP_GT, JOP_GE, JOP_GE };
    const qsf_jinja_type t = (qsf_jinja_type)v->type;
    const jinja_value *x;
    switch (id) {
    case JT_DEFINED: *out = t != QSF_JINJA_UNDEFINED; return true;
    case JT_UNDEFINED: *out = t == QSF_JINJA_UNDEFINED; return true;
    case JT_NONE: *out = t == QSF_JINJA_NONE; return true;
    case JT_BOOLEAN: *out = t == QSF_JINJA_BOOL; return true;
    case JT_TRUE: *out = t == QSF_JINJA_BOOL && v->as.i; return true;
    case JT_FALSE: *out = t == QSF_JINJA_BOOL && !v->as.i; return true;
    case JT_INTEGER: *out = t == QSF_JINJA_INT || t == QSF_JINJA_BIG; return true;
    case JT_FLOAT: *out = t == QSF_JINJA_FLOAT; return true;
    case JT_NUMBER: *out = jinja_is_number(v) || t == QSF_JINJA_BIG; return true;
    case JT_STRING: *out = t == QSF_JINJA_TEXT; return true;
    case JT_MAPPING: *out = t == QSF_JINJA_DICT; return true;
    case JT_SEQUENCE:
        *out = t == QSF_JINJA_UNDEFINED || (t >= QSF_JINJA_TEXT && t <= QSF_JINJA_DICT);
        return true;
    case JT_ITERABLE:
        *out =
            t == QSF_JINJA_UNDEFINED || (t >= QSF_JINJA_TEXT && t <= QSF_JINJA_DICT) || t == QSF_JINJA_LOOP;
        return true;
    case JT_CALLABLE: *out = t == QSF_JINJA_UNDEFINED || t >= QSF_JINJA_LOOP; return true;
    case JT_IN: return (x = jinja_need(r, a, 0, "seq")) && jinja_contains(r, v, x, out);
    case JT_SAMEAS:
        if (!(x = jinja_need(r, a, 0, "other"))) return false;
        if (t == x->type && t > QSF_JINJA_BOOL)
            return jinja_fail(r, QSF_E_UNSUPPORTED, "\"sameas\" is known here for true, false and none only");
        *out = t == x->type && (t != QSF_JINJA_BOOL || !v->as.i == !x->as.i);
        return true;
    case JT_EVEN: case JT_ODD: case JT_DIVISIBLEBY: {
        const jinja_value two = qsf_jinja_int(2), zero = qsf_jinja_int(0);
        jinja_value rest;
        if (!(x = id == JT_DIVISIBLEBY ? jinja_need(r, a, 0, "num") : &two)) return false;
        if (!jinja_binary(r, JOP_MOD, v, x, &rest) || !jinja_equal(r, &rest, &zero, out)) return false;
        *out ^= id == JT_ODD;
        return true;
    }
    default:
        return (x = jinja_need(r, a, 0, "other")) && jinja_compare(r, (jinja_op)ops[id - JT_EQ], v, x, out);
    }
}

/* ---- methods and functions ---- */

bool jinja_method(jinja_run *r, int id, const jinja_value *v, jinja_args *a, jinja_value *out)
{
    if (id >= JM_OTHERS) return jinja_fail(r, QSF_E_UNSUPPORTED, "this method is not known here");
    if (v->type == QSF_JINJA_TEXT && v->flags & QSF_JINJA_SAFE)
        return jinja_fail(r, QSF_E_UNSUPPORTED,
                          "an operation on what went through \"safe\" is not known here");
    if (v->type == QSF_JINJA_TEXT) return jinja_text_method(r, id, v, a, out);
    if (id == JM_CYCLE) {
        const jinja_loop *l = v->as.own;
        if (!a->n) return jinja_fail(r, QSF_E_ARGUMENT, "there is nothing to cycle through");
        *out = a->pos[(l->at - 1) % a->n];
        a->used = a->n;
        return true;
    }
    if (id == JM_GET) {
        const jinja_value *key = jinja_need(r, a, 0, ""), *unset = jinja_arg(a, 1, "");
        *out = unset ? *unset : builtin_none;
        for (uint32_t i = 0; key && i < v->n; i++) {
            bool same;
            if (!jinja_equal(r, key, &v->as.items[2 * i], &same)) return false;
            if (same) *out = v->as.items[2 * i + 1];
        }
        return key != NULL;
    }
    if (id == JM_ITEMS) return jinja_pairs(r, v, out);
    if (id == JM_KEYS) return jinja_iterate(r, v, out);
    if (id == JM_VALUES) {
        jinja_value *items = jinja_room(r, v->n * sizeof *items);
        if (!items || !jinja_charge(r, v->n * sizeof *items)) return false;
        for (uint32_t i = 0; i < v->n; i++) items[i] = v->as.items[2 * i + 1];
        *out = qsf_jinja_list(items, v->n);
        return true;
    }
    const jinja_value *what = jinja_need(r, a, 0, "");        /* count and index of a list */
    int64_t n = 0;
    for (uint32_t i = 0; what && i < v->n; i++) {
        bool same;
        if (!jinja_equal(r, what, &v->as.items[i], &same)) return false;
        if (same && id == JM_INDEX) {
            *out = qsf_jinja_int(i);
            return true;
        }
        n += same;
    }
    *out = qsf_jinja_int(n);
    return what && (id == JM_COUNT || jinja_fail(r, QSF_E_ARGUMENT, "the value is not in the list"));
}

static bool builtin_range(jinja_run *r, jinja_args *a, jinja_value *out)
{
    int64_t n[3] = { 0, 0, 1 };
    const uint32_t given = a->n;
    jinja_value *items;
    uint64_t count = 0;
    for (uint32_t i = 0; i < given && i < 3; i++) {
        const jinja_value *v = jinja_arg(a, i, "");
        if (v->type != QSF_JINJA_INT && v->type != QSF_JINJA_BOOL)
            return jinja_fail(r, QSF_E_ARGUMENT, "a range goes from number to number");
        if (v->as.i > INT32_MAX || v->as.i < -INT32_MAX)
            return jinja_fail(r, QSF_E_ARGUMENT, "a range is too long");
        n[i] = v->as.i;
    }
    if (!given || !n[2])
        return jinja_fail(r, QSF_E_ARGUMENT, given ? "a range of step 0" : "a range needs an end");
    if (given == 1) n[1] = n[0], n[0] = 0;
    if (n[2] > 0 && n[1] > n[0]) count = (uint64_t)((n[1] - n[0] + n[2] - 1) / n[2]);
    if (n[2] < 0 && n[1] < n[0]) count = (uint64_t)((n[0] - n[1] - n[2] - 1) / -n[2]);
    if (count > 100000) return jinja_fail(r, QSF_E_ARGUMENT, "a range is too long");
    if (!(items = jinja_room(r, (size_t)count * sizeof *items)) ||
        !jinja_charge(r, (size_t)count * sizeof *items))
        return false;
    for (uint32_t i = 0; i < count; i++) items[i] = qsf_jinja_int(n[0] + (int64_t)i * n[2]);
    *out = qsf_jinja_list(items, (size_t)count);
    return true;
}

/* The pairs of a dict or of named arguments, or both; later ones win. */
static bool builtin_dict(jinja_run *r, jinja_args *a, jinja_value *out)
{
    const jinja_value *from = a->n ? &a->pos[0] : NULL;
    uint32_t n = 0;
    if (a->n > 1 || (from && from->type != QSF_JINJA_DICT))
        return jinja_fail(r, QSF_E_UNSUPPORTED, "a dict is made of a dict or of named values here");
    jinja_value *pairs = jinja_room(r, 2 * ((size_t)(from ? from->n : 0) + a->n_kw) * sizeof *pairs);
    if (!pairs) return false;
    for (; from && n < from->n; n++) memcpy(&pairs[2 * n], &from->as.items[2 * n], 2 * sizeof *pairs);
    for (uint32_t k = 0; k < a->n_kw; k++) {
        const jinja_value *name = &a->pos[a->n + 2 * k];
        uint32_t i = 0;
        while (i < n && !(pairs[2 * i].type == QSF_JINJA_TEXT && pairs[2 * i].n == name->n &&
                          !memcmp(pairs[2 * i].as.text, name->as.text, name->n)))
            i++;
        pairs[2 * i] = name[0];
        pairs[2 * i + 1] = name[1];
        n += i == n;
    }
    a->used = a->n + a->n_kw;
    *out = qsf_jinja_dict(pairs, n);
    return true;
}

bool jinja_function(jinja_run *r, int id, jinja_args *a, jinja_value *out)
{
    switch (id) {
    case JN_RANGE: return builtin_range(r, a, out);
    case JN_DICT: return builtin_dict(r, a, out);
    case JN_NAMESPACE: {
        jinja_value dict;
        jinja_space *o = jinja_room(r, sizeof *o);
        if (!o || !builtin_dict(r, a, &dict)) return false;
        jinja_value *pairs = jinja_room(r, 2 * dict.n * sizeof *pairs);
        if (!pairs) return false;
        if (dict.n) memcpy(pairs, dict.as.items, 2 * dict.n * sizeof *pairs);
        *o = (jinja_space){ pairs, dict.n, dict.n };
        *out = (jinja_value){ .type = QSF_JINJA_SPACE, .as.own = o };
        return true;
    }
    case JN_RAISE: {
        const jinja_value *why = jinja_need(r, a, 0, "message");
        jinja_value text;
        if (!why || !jinja_to_text(r, why, &text)) return false;
        return jinja_fail(r, QSF_E_CANCELLED, "%.*s", (int)QSF_MIN(text.n, 200), text.as.text);
    }
    default: {
        const jinja_value *format = jinja_need(r, a, 0, "format");
        return format && jinja_strftime(r, format, out);
    }
    }
}
