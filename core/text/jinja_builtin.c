/* Jinja: filters, tests, methods and functions that are built in.
 * SPDX-License-Identifier: MIT */
#include "text/jinja_own.h"

/* ---- names ---- */

enum {
    JF_ABS, JF_CAPITALIZE, JF_COUNT, JF_D, JF_DEFAULT, JF_DICTSORT, JF_FIRST, JF_FLOAT, JF_INDENT, JF_INT,
    JF_ITEMS, JF_JOIN, JF_LAST, JF_LENGTH, JF_LIST, JF_LOWER, JF_MAP, JF_MAX, JF_MIN, JF_REJECT,
    JF_REJECTATTR, JF_REPLACE, JF_REVERSE, JF_SAFE, JF_SELECT, JF_SELECTATTR, JF_SORT, JF_STRING, JF_SUM,
    JF_TOJSON, JF_TRIM, JF_UNIQUE, JF_UPPER
};
static const char builtin_filters[] =
    "abs capitalize count d default dictsort first float indent int items join last length list "
    "lower map max min reject rejectattr replace reverse safe select selectattr sort string sum tojson trim "
    "unique upper ";

enum {
    JT_BOOLEAN, JT_CALLABLE, JT_DEFINED, JT_DIVISIBLEBY, JT_EVEN, JT_FALSE, JT_FLOAT, JT_IN, JT_INTEGER,
    JT_ITERABLE, JT_MAPPING, JT_NONE, JT_NUMBER, JT_ODD, JT_SAMEAS, JT_SEQUENCE, JT_STRING, JT_TRUE,
    JT_UNDEFINED, JT_EQ, JT_EQUALTO, JT_EQ_SIGN, JT_NE, JT_NE_SIGN, JT_LT, JT_LESSTHAN, JT_LT_SIGN, JT_LE,
    JT_LE_SIGN, JT_GT, JT_GREATERTHAN, JT_GT_SIGN, JT_GE, JT_GE_SIGN
};
static const char builtin_tests[] =
    "boolean callable defined divisibleby even false float in integer iterable mapping none number odd "
    "sameas sequence string true undefined eq equalto == ne != lt lessthan < le <= gt greaterthan > ge >= ";

/* In the order of JM_...; then what Python's texts, lists and dicts have besides (what would change them is not there for templates). */
static const char builtin_methods[] =
    " capitalize endswith find isdigit isspace join lower lstrip partition removeprefix removesuffix "
    "replace rfind rsplit rstrip split splitlines startswith strip title upper count index get items keys "
    "values cycle "
    "casefold center encode expandtabs format format_map isalnum isalpha isascii isdecimal isidentifier "
    "islower isnumeric isprintable istitle "
    "isupper ljust maketrans rindex rjust rpartition swapcase translate zfill copy fromkeys changed ";

enum { JN_NONE, JN_DICT, JN_NAMESPACE, JN_RAISE, JN_RANGE, JN_STRFTIME };
static const char builtin_functions[] = " dict namespace raise_exception range strftime_now ";

/* The place of a word in a list of words that each end with a blank; -1: it is not there. */
static int builtin_id(const char *words, const char *name, size_t n)
{
    for (int id = 0; *words; id++) {
        const char *end = strchr(words, ' ');
        if ((size_t)(end - words) == n && n && !memcmp(words, name, n)) return id;
        words = end + 1;
    }
    return -1;
}
int jinja_filter_id(const char *name, size_t n) { return builtin_id(builtin_filters, name, n); }
int jinja_test_id(const char *name, size_t n) { return builtin_id(builtin_tests, name, n); }
int jinja_method_id(const char *name, size_t n) { return QSF_MAX(builtin_id(builtin_methods, name, n), 0); }
int jinja_function_id(const char *name, size_t n)
{
    return QSF_MAX(builtin_id(builtin_functions, name, n), 0);
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

static const jinja_value *builtin_need(jinja_run *r, jinja_args *a, uint32_t i, const char *name)
{
    const jinja_value *v = jinja_arg(a, i, name);
    if (!v) jinja_fail(r, QSF_E_ARGUMENT, "the argument \"%s\" is missing", name);
    return v;
}
static bool builtin_flag(jinja_args *a, uint32_t i, const char *name)
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
    case JT_INTEGER: *out = t == QSF_JINJA_INT; return true;
    case JT_FLOAT: *out = t == QSF_JINJA_FLOAT; return true;
    case JT_NUMBER: *out = jinja_is_number(v); return true;
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
    case JT_IN: return (x = builtin_need(r, a, 0, "seq")) && jinja_contains(r, v, x, out);
    case JT_SAMEAS:
        if (!(x = builtin_need(r, a, 0, "other"))) return false;
        if (t == x->type && t > QSF_JINJA_BOOL)
            return jinja_fail(r, QSF_E_UNSUPPORTED, "\"sameas\" is known here for true, false and none only");
        *out = t == x->type && (t != QSF_JINJA_BOOL || !v->as.i == !x->as.i);
        return true;
    case JT_EVEN: case JT_ODD: case JT_DIVISIBLEBY: {
        const jinja_value two = qsf_jinja_int(2), zero = qsf_jinja_int(0);
        jinja_value rest;
        if (!(x = id == JT_DIVISIBLEBY ? builtin_need(r, a, 0, "num") : &two)) return false;
        if (!jinja_binary(r, JOP_MOD, v, x, &rest) || !jinja_equal(r, &rest, &zero, out)) return false;
        *out ^= id == JT_ODD;
        return true;
    }
    default:
        return (x = builtin_need(r, a, 0, "other")) && jinja_compare(r, (jinja_op)ops[id - JT_EQ], v, x, out);
    }
}

/* ---- lists ---- */

/* What "a.b.0" is in v; a number is an index. */
static bool builtin_path(jinja_run *r, const jinja_value *v, const jinja_value *path, jinja_value *out)
{
    jinja_value at = *v, item;
    if (path->type == QSF_JINJA_INT) return jinja_item(r, v, path, out);
    if (path->type != QSF_JINJA_TEXT)
        return jinja_fail(r, QSF_E_ARGUMENT, "an attribute has a name, not %s", jinja_type_name(path));
    for (uint32_t i = 0, end; i <= path->n; i = end + 1) {
        int64_t number = 0;
        for (end = i; end < path->n && path->as.text[end] != '.'; end++)
            number = path->as.text[end] >= '0' && path->as.text[end] <= '9' && number >= 0 && number < 100000
                         ? 10 * number + (path->as.text[end] - '0')
                         : -1;
        const jinja_value key =
            number >= 0 && end > i ? qsf_jinja_int(number) : qsf_jinja_text_n(path->as.text + i, end - i);
        if (!jinja_item(r, &at, &key, &item)) return false;
        at = item;
    }
    *out = at;
    return true;
}

/* What values are ordered by: an attribute, and texts in small letters. */
static bool builtin_key(jinja_run *r, const jinja_value *v, const jinja_value *attribute, bool exact,
                        jinja_value *out)
{
    *out = *v;
    if (attribute && attribute->type != QSF_JINJA_NONE && !builtin_path(r, v, attribute, out)) return false;
    if (exact || out->type != QSF_JINJA_TEXT) return true;
    const jinja_value text = *out;
    jinja_args none = { NULL, 0, 0, 0 };
    return jinja_text_method(r, JM_LOWER, &text, &none, out);
}

/* By insertion, which keeps the order of equal ones. */
static bool builtin_sort(jinja_run *r, const jinja_value *list, const jinja_value *attribute, bool exact,
                         bool reverse, jinja_value *out)
{
    jinja_value *items = jinja_room(r, list->n * sizeof *items),
                *keys = jinja_room(r, list->n * sizeof *keys);
    if (!items || !keys) return false;
    for (uint32_t n = 0; n < list->n; n++) {
        jinja_value key;
        uint32_t i = n;
        if (!builtin_key(r, &list->as.items[n], attribute, exact, &key)) return false;
        for (; i; i--) {
            bool less;
            if (!jinja_less(r, reverse ? &keys[i - 1] : &key, reverse ? &key : &keys[i - 1], &less))
                return false;
            if (!less) break;
            items[i] = items[i - 1];
            keys[i] = keys[i - 1];
        }
        items[i] = list->as.items[n];
        keys[i] = key;
    }
    *out = qsf_jinja_list(items, list->n);
    return true;
}

static bool builtin_best(jinja_run *r, const jinja_value *list, const jinja_value *attribute, bool exact,
                         bool most, jinja_value *out)
{
    jinja_value key, best = { .type = QSF_JINJA_UNDEFINED };
    *out = (jinja_value){ .type = QSF_JINJA_UNDEFINED, .n = 7, .as.text = "an item" };
    for (uint32_t i = 0; i < list->n; i++) {
        bool less = !i;
        if (!builtin_key(r, &list->as.items[i], attribute, exact, &key)) return false;
        if (i && !jinja_less(r, most ? &best : &key, most ? &key : &best, &less)) return false;
        if (!less) continue;
        best = key;
        *out = list->as.items[i];
    }
    return true;
}

static bool builtin_unique(jinja_run *r, const jinja_value *list, const jinja_value *attribute, bool exact,
                           jinja_value *out)
{
    jinja_value *items = jinja_room(r, list->n * sizeof *items),
                *keys = jinja_room(r, list->n * sizeof *keys);
    uint32_t n = 0;
    if (!items || !keys) return false;
    for (uint32_t i = 0; i < list->n; i++) {
        bool same = false;
        if (!builtin_key(r, &list->as.items[i], attribute, exact, &keys[n])) return false;
        for (uint32_t k = 0; k < n && !same; k++)
            if (!jinja_equal(r, &keys[k], &keys[n], &same)) return false;
        if (!same) items[n++] = list->as.items[i];
    }
    *out = qsf_jinja_list(items, n);
    return true;
}

static bool builtin_pairs(jinja_run *r, const jinja_value *dict, jinja_value *out)
{
    jinja_value *items = jinja_room(r, dict->n * sizeof *items);
    if (!items || !jinja_charge(r, dict->n * sizeof *items)) return false;
    for (uint32_t i = 0; i < dict->n; i++)
        items[i] = (jinja_value){ .type = QSF_JINJA_TUPLE, .n = 2, .as.items = &dict->as.items[2 * i] };
    *out = qsf_jinja_list(items, dict->n);
    return true;
}

/* select, reject, selectattr, rejectattr: items that a test takes, or that are true. */
static bool builtin_pick(jinja_run *r, int id, const jinja_value *list, jinja_args *a, jinja_value *out)
{
    const bool of_attribute = id == JF_SELECTATTR || id == JF_REJECTATTR,
               wanted = id == JF_SELECT || id == JF_SELECTATTR;
    const jinja_value *attribute = of_attribute ? builtin_need(r, a, 0, "attribute") : NULL;
    const uint32_t first = of_attribute;
    int test = -1;
    uint32_t n = 0;
    if (of_attribute && !attribute) return false;
    if (a->n > first) {
        const jinja_value *name = &a->pos[first];
        test = name->type == QSF_JINJA_TEXT ? jinja_test_id(name->as.text, name->n) : -1;
        if (test < 0) return jinja_fail(r, QSF_E_UNSUPPORTED, "this test is not known here");
    }
    jinja_value *items = jinja_room(r, list->n * sizeof *items);
    if (!items) return false;
    for (uint32_t i = 0; i < list->n; i++) {
        jinja_args rest = { a->pos + QSF_MIN(first + 1, a->n), a->n > first ? a->n - first - 1 : 0, a->n_kw,
                            0 };
        jinja_value v = list->as.items[i];
        bool is;
        if (attribute && !builtin_path(r, &list->as.items[i], attribute, &v)) return false;
        is = jinja_true(&v);
        if (test >= 0 && !jinja_test(r, test, &v, &rest, &is)) return false;
        if (is == wanted) items[n++] = list->as.items[i];
    }
    a->used = a->n + a->n_kw;
    *out = qsf_jinja_list(items, n);
    return true;
}

static bool builtin_map(jinja_run *r, const jinja_value *list, jinja_args *a, jinja_value *out)
{
    const jinja_value *attribute = a->n ? NULL : builtin_need(r, a, 0, "attribute"),
                      *unset = a->n ? NULL : jinja_arg(a, 1, "default");
    const int id =
        a->n && a->pos[0].type == QSF_JINJA_TEXT ? jinja_filter_id(a->pos[0].as.text, a->pos[0].n) : -1;
    jinja_value *items = jinja_room(r, list->n * sizeof *items);
    if (!items || (!a->n && !attribute)) return false;
    if (a->n && (id < 0 || id == JF_MAP))
        return jinja_fail(r, QSF_E_UNSUPPORTED, "this filter is not known here for all items");
    for (uint32_t i = 0; i < list->n; i++) {
        jinja_args rest = { a->pos + 1, a->n - 1, a->n_kw, 0 };
        if (!jinja_charge(r, 0)) return false;
        if (attribute ? !builtin_path(r, &list->as.items[i], attribute, &items[i])
                      : !jinja_filter(r, id, &list->as.items[i], &rest, &items[i]))
            return false;
        if (attribute && unset && items[i].type == QSF_JINJA_UNDEFINED) items[i] = *unset;
    }
    a->used = a->n + a->n_kw;
    *out = qsf_jinja_list(items, list->n);
    return true;
}

static bool builtin_reverse(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    const jinja_value bounds[3] = { builtin_none, builtin_none, qsf_jinja_int(-1) };
    jinja_value list = *v;
    if (v->type != QSF_JINJA_TEXT && !jinja_iterate(r, v, &list)) return false;
    return jinja_slice(r, &list, bounds, out);
}

static bool builtin_sum(jinja_run *r, const jinja_value *list, const jinja_value *attribute,
                        const jinja_value *start, jinja_value *out)
{
    *out = start ? *start : qsf_jinja_int(0);
    for (uint32_t i = 0; i < list->n; i++) {
        jinja_value v = list->as.items[i];
        const jinja_value so_far = *out;
        if (attribute && attribute->type != QSF_JINJA_NONE &&
            !builtin_path(r, &list->as.items[i], attribute, &v))
            return false;
        if (!jinja_binary(r, JOP_ADD, &so_far, &v, out)) return false;
    }
    return true;
}

/* ---- filters ---- */

static bool builtin_int(jinja_run *r, const jinja_value *v, const jinja_value *unset, jinja_value *out)
{
    int64_t n = 0;
    uint32_t i = 0;
    bool digits = false, minus = false;
    *out = *v;
    if (v->type == QSF_JINJA_INT) return true;
    *out = qsf_jinja_int(v->as.i);
    if (v->type == QSF_JINJA_BOOL) return true;
    if (v->type == QSF_JINJA_FLOAT && fabs(v->as.f) < 9e18) {
        *out = qsf_jinja_int((int64_t)v->as.f);
        return true;
    }
    *out = unset ? *unset : qsf_jinja_int(0);
    if (v->type != QSF_JINJA_TEXT) return true;
    if (i < v->n && (v->as.text[i] == '-' || v->as.text[i] == '+')) minus = v->as.text[i++] == '-';
    for (; i < v->n && v->as.text[i] >= '0' && v->as.text[i] <= '9' && n < INT64_MAX / 20; i++, digits = true)
        n = 10 * n + (v->as.text[i] - '0');
    if (i < v->n) {
        for (i = 0; i < v->n; i++)
            if (jinja_is_space((uint8_t)v->as.text[i]) || strchr(".0123456789_", v->as.text[i]))
                return jinja_fail(r, QSF_E_UNSUPPORTED, "this text is not known here as a number");
        return true;
    }
    if (digits) *out = qsf_jinja_int(minus ? -n : n);
    return true;
}

static bool builtin_json(jinja_run *r, const jinja_value *v, jinja_args *a, jinja_value *out)
{
    const bool ascii = builtin_flag(a, 0, "ensure_ascii");
    const jinja_value *indent = jinja_arg(a, 1, "indent"), *separators = jinja_arg(a, 2, "separators");
    const bool sorted = builtin_flag(a, 3, "sort_keys"), lines = indent && indent->type == QSF_JINJA_INT;
    if (ascii || sorted || (separators && separators->type != QSF_JINJA_NONE))
        return jinja_fail(r, QSF_E_UNSUPPORTED, "this form of JSON is not known here");
    if (indent && indent->type != QSF_JINJA_NONE && (!lines || indent->as.i < 0 || indent->as.i > 64))
        return jinja_fail(r, QSF_E_UNSUPPORTED, "this indent is not known here");
    jinja_sink s = jinja_begin_text(r);
    if (!jinja_json(r, &s, v, lines ? (int)indent->as.i : -1, 0)) return false;
    *out = jinja_end_text(r, &s);
    return true;
}

static bool builtin_length(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    if (v->type != QSF_JINJA_UNDEFINED && (v->type < QSF_JINJA_TEXT || v->type > QSF_JINJA_DICT))
        return jinja_fail(r, QSF_E_ARGUMENT, "a value of type %s has no length", jinja_type_name(v));
    *out = qsf_jinja_int(v->type == QSF_JINJA_UNDEFINED ? 0 : (int64_t)jinja_length(v));
    return jinja_charge(r, v->type == QSF_JINJA_TEXT ? v->n : 0);
}

/* Filters on the text of a value. */
static bool builtin_of_text(jinja_run *r, int id, const jinja_value *v, jinja_args *a, jinja_value *out)
{
    jinja_value text;
    if (!jinja_to_text(r, v, &text)) return false;
    if (v->safe && id != JF_TRIM)
        return jinja_fail(r, QSF_E_UNSUPPORTED,
                          "an operation on what went through \"safe\" is not known here");
    switch (id) {
    case JF_TRIM: {
        const jinja_value *chars = jinja_arg(a, 0, "chars");
        jinja_args given = { chars, chars != NULL, 0, 0 };
        return jinja_text_method(r, JM_STRIP, &text, &given, out);
    }
    case JF_REPLACE: {
        const jinja_value *old = builtin_need(r, a, 0, "old"), *by = builtin_need(r, a, 1, "new"),
                          *count = jinja_arg(a, 2, "count");
        if (!old || !by) return false;
        jinja_value three[3] = { *old, *by, count ? *count : builtin_none };
        jinja_args given = { three, 3, 0, 0 };
        return jinja_text_method(r, JM_REPLACE, &text, &given, out);
    }
    case JF_INDENT: return jinja_text_indent(r, &text, a, out);
    default:
        return jinja_text_method(r,
                                 id == JF_UPPER   ? JM_UPPER
                                 : id == JF_LOWER ? JM_LOWER
                                                  : JM_CAPITALIZE,
                                 &text, a, out);
    }
}

/* Filters on the items of a value. */
static bool builtin_of_items(jinja_run *r, int id, const jinja_value *v, jinja_args *a, jinja_value *out)
{
    jinja_value list;
    if (!jinja_iterate(r, v, &list) || !jinja_charge(r, list.n)) return false;
    switch (id) {
    case JF_LIST: *out = list; return true;
    case JF_FIRST: case JF_LAST:
        *out = (jinja_value){ .type = QSF_JINJA_UNDEFINED, .n = 7, .as.text = "an item" };
        if (list.n) *out = list.as.items[id == JF_LAST ? list.n - 1 : 0];
        return true;
    case JF_MAP: return builtin_map(r, &list, a, out);
    case JF_SORT: {
        const bool reverse = builtin_flag(a, 0, "reverse"), exact = builtin_flag(a, 1, "case_sensitive");
        return builtin_sort(r, &list, jinja_arg(a, 2, "attribute"), exact, reverse, out);
    }
    case JF_MIN: case JF_MAX: {
        const bool exact = builtin_flag(a, 0, "case_sensitive");
        return builtin_best(r, &list, jinja_arg(a, 1, "attribute"), exact, id == JF_MAX, out);
    }
    case JF_UNIQUE: {
        const bool exact = builtin_flag(a, 0, "case_sensitive");
        return builtin_unique(r, &list, jinja_arg(a, 1, "attribute"), exact, out);
    }
    case JF_SUM: {
        const jinja_value *attribute = jinja_arg(a, 0, "attribute");
        return builtin_sum(r, &list, attribute, jinja_arg(a, 1, "start"), out);
    }
    case JF_JOIN: {
        const jinja_value *between = jinja_arg(a, 0, "d"), *attribute = jinja_arg(a, 1, "attribute"),
                          empty = qsf_jinja_text("");
        if (between && between->type != QSF_JINJA_TEXT)
            return jinja_fail(r, QSF_E_UNSUPPORTED, "items are joined by a text here");
        if (attribute) {
            const jinja_value by[2] = { qsf_jinja_text("attribute"), *attribute }, items = list;
            jinja_args named = { by, 0, 1, 0 };
            if (!builtin_map(r, &items, &named, &list)) return false;
        }
        return jinja_text_join(r, between ? between : &empty, &list, true, out);
    }
    default: return builtin_pick(r, id, &list, a, out);
    }
}

bool jinja_filter(jinja_run *r, int id, const jinja_value *v, jinja_args *a, jinja_value *out)
{
    switch (id) {
    case JF_D: case JF_DEFAULT: {
        const jinja_value *unset = jinja_arg(a, 0, "default_value");
        const bool falsy = builtin_flag(a, 1, "boolean") && !jinja_true(v);
        *out = v->type != QSF_JINJA_UNDEFINED && !falsy ? *v : unset ? *unset : qsf_jinja_text("");
        return true;
    }
    case JF_LENGTH: case JF_COUNT: return builtin_length(r, v, out);
    case JF_STRING: return jinja_to_text(r, v, out);
    case JF_SAFE:
        if (!jinja_to_text(r, v, out)) return false;
        out->safe = 1;
        return true;
    case JF_TOJSON: return builtin_json(r, v, a, out);
    case JF_ITEMS:
        if (v->type == QSF_JINJA_UNDEFINED) return jinja_iterate(r, v, out);
        if (v->type != QSF_JINJA_DICT)
            return jinja_fail(r, QSF_E_ARGUMENT, "only a dict has items, not %s", jinja_type_name(v));
        return builtin_pairs(r, v, out);
    case JF_DICTSORT: {
        jinja_value pairs;
        const bool exact = builtin_flag(a, 0, "case_sensitive");
        const jinja_value *by = jinja_arg(a, 1, "by"),
                          place = qsf_jinja_int(by && jinja_text_is(by, "value"));
        const bool reverse = builtin_flag(a, 2, "reverse");
        if (v->type != QSF_JINJA_DICT)
            return jinja_fail(r, QSF_E_ARGUMENT, "only a dict has items, not %s", jinja_type_name(v));
        return builtin_pairs(r, v, &pairs) && builtin_sort(r, &pairs, &place, exact, reverse, out);
    }
    case JF_INT: return builtin_int(r, v, jinja_arg(a, 0, "default"), out);
    case JF_FLOAT:
        if (!jinja_is_number(v))
            return jinja_fail(r, QSF_E_UNSUPPORTED, "only a number becomes a float here");
        *out = (jinja_value){ .type = QSF_JINJA_FLOAT,
                              .as.f = v->type == QSF_JINJA_FLOAT ? v->as.f : (double)v->as.i };
        return true;
    case JF_ABS: {
        const jinja_value zero = qsf_jinja_int(0);
        bool less;
        if (!jinja_is_number(v))
            return jinja_fail(r, QSF_E_ARGUMENT, "only a number has a size, not %s", jinja_type_name(v));
        if (!jinja_less(r, v, &zero, &less)) return false;
        return jinja_binary(r, less ? JOP_SUB : JOP_ADD, &zero, v, out);
    }
    case JF_REVERSE: return builtin_reverse(r, v, out);
    case JF_TRIM:
    case JF_REPLACE:
    case JF_INDENT:
    case JF_UPPER:
    case JF_LOWER:
    case JF_CAPITALIZE: return builtin_of_text(r, id, v, a, out);
    default: return builtin_of_items(r, id, v, a, out);
    }
}

/* ---- methods and functions ---- */

bool jinja_method(jinja_run *r, int id, const jinja_value *v, jinja_args *a, jinja_value *out)
{
    if (id >= JM_OTHERS) return jinja_fail(r, QSF_E_UNSUPPORTED, "this method is not known here");
    if (v->type == QSF_JINJA_TEXT && v->safe)
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
        const jinja_value *key = builtin_need(r, a, 0, ""), *unset = jinja_arg(a, 1, "");
        *out = unset ? *unset : builtin_none;
        for (uint32_t i = 0; key && i < v->n; i++) {
            bool same;
            if (!jinja_equal(r, key, &v->as.items[2 * i], &same)) return false;
            if (same) *out = v->as.items[2 * i + 1];
        }
        return key != NULL;
    }
    if (id == JM_ITEMS) return builtin_pairs(r, v, out);
    if (id == JM_KEYS) return jinja_iterate(r, v, out);
    if (id == JM_VALUES) {
        jinja_value *items = jinja_room(r, v->n * sizeof *items);
        if (!items || !jinja_charge(r, v->n * sizeof *items)) return false;
        for (uint32_t i = 0; i < v->n; i++) items[i] = v->as.items[2 * i + 1];
        *out = qsf_jinja_list(items, v->n);
        return true;
    }
    const jinja_value *what = builtin_need(r, a, 0, "");        /* count and index of a list */
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
        const jinja_value *why = builtin_need(r, a, 0, "message");
        jinja_value text;
        if (!why || !jinja_to_text(r, why, &text)) return false;
        return jinja_fail(r, QSF_E_CANCELLED, "%.*s", (int)QSF_MIN(text.n, 200), text.as.text);
    }
    default: {
        const jinja_value *format = builtin_need(r, a, 0, "format");
        return format && jinja_strftime(r, format, out);
    }
    }
}
