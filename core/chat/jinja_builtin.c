/* Jinja: names of what is built in, its arguments, tests and functions.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_own.h"

/* ---- names and parameters ---- */

/* A name, then its parameters: "!" before one that has to be given, "/" one without a name, "*" as
 * many as there are. */
static const char *const builtin_filters[] = {
    "abs", "attr !name", "batch !linecount fill_with", "capitalize", "center width", "count",
    "d default_value boolean", "default default_value boolean", "dictsort case_sensitive by reverse", "e",
    "escape", "filesizeformat binary", "first", "float default", "forceescape", "format *",
    "groupby !attribute default case_sensitive", "indent width first blank", "int default base", "items",
    "join d attribute", "last", "length", "list", "lower", "map *", "max case_sensitive attribute",
    "min case_sensitive attribute", "pprint", "reject *", "rejectattr *", "replace !old !new count",
        "reverse",
    "round precision method", "safe", "select *", "selectattr *", "slice !slices fill_with",
    "sort reverse case_sensitive attribute", "string", "striptags", "sum attribute start", "title",
    "tojson ensure_ascii indent separators sort_keys", "trim chars", "truncate length killwords end leeway",
    "unique case_sensitive attribute", "upper", "urlencode", "wordcount",
    "wordwrap width break_long_words wrapstring break_on_hyphens", "xmlattr autospace", "random *",
        "urlize *",
};
static const char *const builtin_methods[] = {
    "", "capitalize", "casefold", "center !/ /", "count !/ / /", "endswith !/ / /", "expandtabs tabsize",
    "find !/ / /", "format *", "format_map !/", "index !/ / /", "isalnum", "isalpha", "isascii", "isdecimal",
    "isdigit", "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper",
    "join !/", "ljust !/ /", "lower", "lstrip /", "partition !/", "removeprefix !/", "removesuffix !/",
    "replace !/ !/ count", "rfind !/ / /", "rindex !/ / /", "rjust !/ /", "rpartition !/",
    "rsplit sep maxsplit", "rstrip /", "split sep maxsplit", "splitlines keepends", "startswith !/ / /",
    "strip /", "swapcase", "title", "upper", "zfill !/", "get !/ /", "items", "keys", "values", "copy",
    "cycle *", "changed *", "next", "reset", "encode *", "maketrans *", "translate *", "fromkeys *",
    "append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort",
        "update",
};
static const char *const builtin_functions[] = {
    "cycler *", "dict *", "joiner sep", "lipsum *", "namespace *", "raise_exception !message",
    "range !/ / /", "strftime_now !format",
};
enum {
    JT_BOOLEAN, JT_CALLABLE, JT_DEFINED, JT_DIVISIBLEBY, JT_ESCAPED, JT_EVEN, JT_FALSE, JT_FILTER, JT_FLOAT,
    JT_IN, JT_INTEGER, JT_ITERABLE, JT_LOWER, JT_MAPPING, JT_NONE, JT_NUMBER, JT_ODD, JT_SAMEAS, JT_SEQUENCE,
    JT_STRING, JT_TEST, JT_TRUE, JT_UNDEFINED, JT_UPPER,
    JT_EQ, JT_EQUALTO, JT_EQ_SIGN, JT_NE, JT_NE_SIGN, JT_LT, JT_LESSTHAN, JT_LT_SIGN, JT_LE, JT_LE_SIGN,
        JT_GT,
    JT_GREATERTHAN, JT_GT_SIGN, JT_GE, JT_GE_SIGN
};
static const char *const builtin_tests[] = {
    "boolean", "callable", "defined", "divisibleby !num", "escaped", "even", "false", "filter", "float",
    "in !seq", "integer", "iterable", "lower", "mapping", "none", "number", "odd", "sameas !other",
        "sequence",
    "string", "test", "true", "undefined", "upper", "eq !/", "equalto !/", "== !/", "ne !/", "!= !/",
    "lt !/", "lessthan !/", "< !/", "le !/", "<= !/", "gt !/", "greaterthan !/", "> !/", "ge !/", ">= !/",
};

/* Whether the word at w, up to a space or the end, is this name, which may have zeros. */
static bool builtin_is(const char *w, const char *name, size_t n)
{
    size_t i = 0;
    while (i < n && w[i] && w[i] != ' ' && w[i] == name[i]) i++;
    return i == n && (!w[n] || w[n] == ' ');
}

static int builtin_id(const char *const *words, size_t count, const char *name, size_t n, int none)
{
    for (size_t i = 0; i < count; i++)
        if (n && builtin_is(words[i], name, n)) return (int)i;
    return none;
}
int qsf_jinja_filter_id(const char *name, size_t n)
{
    return builtin_id(builtin_filters, QSF_ARRAY_LEN(builtin_filters), name, n, -1);
}
int qsf_jinja_test_id(const char *name, size_t n)
{
    return builtin_id(builtin_tests, QSF_ARRAY_LEN(builtin_tests), name, n, -1);
}
int qsf_jinja_method_id(const char *name, size_t n)
{
    return builtin_id(builtin_methods, QSF_ARRAY_LEN(builtin_methods), name, n, 0);
}
int qsf_jinja_function_id(const char *name, size_t n)
{
    return builtin_id(builtin_functions, QSF_ARRAY_LEN(builtin_functions), name, n, JN_NONE);
}

bool qsf_jinja_has_method(const jinja_value *v, int id)
{
    switch (v->type) {
    case QSF_JINJA_TEXT: return id < JM_GET || (id >= JM_OTHERS && id < JM_FROMKEYS);
    case QSF_JINJA_DICT:
        return (id >= JM_GET && id <= JM_COPY) || id == JM_FROMKEYS
               || (id >= JM_CHANGE && memchr("\1\4\5\10\12", id - JM_CHANGE, 5));
    case QSF_JINJA_LIST:
        return id == JM_COPY || id == JM_COUNT || id == JM_INDEX
               || (id >= JM_CHANGE && memchr("\0\1\2\3\4\6\7\11", id - JM_CHANGE, 8));
    case QSF_JINJA_TUPLE: case QSF_JINJA_RANGE: return id == JM_COUNT || id == JM_INDEX;
    case QSF_JINJA_LOOP: return id == JM_CYCLE || id == JM_CHANGED;
    case QSF_JINJA_CYCLER: return id == JM_NEXT || id == JM_RESET;
    default: return false;
    }
}

/* ---- arguments ---- */

static bool bind_named(jinja_run *r, const char *sig, const jinja_value *pair, jinja_bound *b)
{
    int i = -1;
    for (const char *w = strchr(sig, ' '); w; w = strchr(w, ' ')) {
        w += 1 + (w[1] == '!');
        i++;
        if (!builtin_is(w, pair->as.text, pair->n) || *w == '/') continue;
        if (b->arg[i]) return qsf_jinja_refuse(r, "an argument is given twice");
        b->arg[i] = pair + 1;
        return true;
    }
    return qsf_jinja_fail(r, QSF_E_ARGUMENT, "unknown argument %.*s", (int)QSF_MIN(pair->n, 40),
                          pair->as.text);
}

static bool bind_args(jinja_run *r, const char *sig, const jinja_args *a, jinja_bound *b)
{
    const char *w = strchr(sig, ' ');
    *b = (jinja_bound){ { NULL } };
    if (w && w[1] == '*') return true;
    for (uint32_t i = 0; i < a->n; i++, w = strchr(w + 1, ' ')) {
        if (!w) return qsf_jinja_refuse(r, "too many arguments");
        b->arg[i] = &a->pos[i];
    }
    for (uint32_t k = 0; k < a->n_kw; k++)
        if (!bind_named(r, sig, &a->pos[a->n + 2 * k], b)) return false;
    w = strchr(sig, ' ');
    for (int i = 0; w; w = strchr(w + 1, ' '), i++)
        if (w[1] == '!' && !b->arg[i]) return qsf_jinja_refuse(r, "an argument is missing");
    return true;
}

bool qsf_jinja_whole(jinja_run *r, const jinja_value *v, bool none_too, int64_t *out)
{
    if (!v || (none_too && v->type == QSF_JINJA_NONE)) return true;
    if (v->type != QSF_JINJA_INT && v->type != QSF_JINJA_BOOL)
        return qsf_jinja_fail(r, QSF_E_ARGUMENT, "a whole number is needed, not %s", qsf_jinja_type_name(v));
    *out = v->as.i;
    return true;
}
bool qsf_jinja_need_text(jinja_run *r, const jinja_value *v, const char *what)
{
    return v->type == QSF_JINJA_TEXT || qsf_jinja_fail(r, QSF_E_ARGUMENT, "%s needs a string, not %s", what,
                                                       qsf_jinja_type_name(v));
}

/* ---- tests ---- */

static bool test_remainder(jinja_run *r, int id, const jinja_value *v, const jinja_value *by, bool *out)
{
    const jinja_value two = qsf_jinja_int(2), rest = qsf_jinja_int(id == JT_ODD);
    jinja_value left;
    return qsf_jinja_binary(r, JOP_MOD, v, by ? by : &two, &left) && qsf_jinja_equal(r, &left, &rest, out);
}

static bool test_same(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out)
{
    const qsf_jinja_type t = (qsf_jinja_type)a->type;
    *out = t == b->type && a->as.own == b->as.own && a->n == b->n;
    if (t == b->type && (t == QSF_JINJA_NONE || t == QSF_JINJA_BOOL)) *out = t == QSF_JINJA_NONE || *out;
    else if (t == b->type && t > QSF_JINJA_BOOL && t < QSF_JINJA_SPACE)
        return qsf_jinja_fail(r, QSF_E_UNSUPPORTED, "\"sameas\" is not supported for %s",
                              qsf_jinja_type_name(a));
    return true;
}

static bool test_of_text(jinja_run *r, int id, const jinja_value *v, bool *out)
{
    jinja_value text;
    if (id == JT_LOWER || id == JT_UPPER)
        return qsf_jinja_to_text(r, v, &text)
               && qsf_jinja_letters(r, id == JT_LOWER ? JM_ISLOWER : JM_ISUPPER, &text, out);
    *out = v->type == QSF_JINJA_TEXT
           && (id == JT_TEST ? qsf_jinja_test_id(v->as.text, v->n)
               : qsf_jinja_filter_id(v->as.text, v->n)) >= 0;
    return v->type != QSF_JINJA_LIST && v->type != QSF_JINJA_DICT ? true
               : qsf_jinja_refuse(r, "a list is not a name");
}

bool qsf_jinja_test(jinja_run *r, int id, const jinja_value *v, const jinja_args *a, bool *out)
{
    static const uint8_t ops[] = { JOP_EQ, JOP_EQ, JOP_EQ, JOP_NE, JOP_NE, JOP_LT, JOP_LT, JOP_LT,
                                   JOP_LE, JOP_LE, JOP_GT, JOP_GT, JOP_GT, JOP_GE, JOP_GE };
    const qsf_jinja_type t = (qsf_jinja_type)v->type;
    jinja_bound b;
    if (!bind_args(r, builtin_tests[id], a, &b)) return false;
    const jinja_value *x = b.arg[0];
    switch (id) {
    case JT_DEFINED: *out = t != QSF_JINJA_UNDEFINED; return true;
    case JT_UNDEFINED: *out = t == QSF_JINJA_UNDEFINED; return true;
    case JT_NONE: *out = t == QSF_JINJA_NONE; return true;
    case JT_BOOLEAN: *out = t == QSF_JINJA_BOOL; return true;
    case JT_TRUE: *out = t == QSF_JINJA_BOOL && v->as.i; return true;
    case JT_FALSE: *out = t == QSF_JINJA_BOOL && !v->as.i; return true;
    case JT_INTEGER: *out = t == QSF_JINJA_INT || t == QSF_JINJA_BIG; return true;
    case JT_FLOAT: *out = t == QSF_JINJA_FLOAT; return true;
    case JT_NUMBER: *out = qsf_jinja_is_number(v) || t == QSF_JINJA_BIG; return true;
    case JT_STRING: *out = t == QSF_JINJA_TEXT; return true;
    case JT_ESCAPED: *out = t == QSF_JINJA_TEXT && v->flags & QSF_JINJA_SAFE; return true;
    case JT_MAPPING: *out = t == QSF_JINJA_DICT; return true;
    case JT_SEQUENCE:
        *out = t == QSF_JINJA_UNDEFINED
               || (t >= QSF_JINJA_TEXT && t <= QSF_JINJA_DICT && t != QSF_JINJA_VIEW && t != QSF_JINJA_ITER);
        return true;
    case JT_ITERABLE:
        *out = t == QSF_JINJA_UNDEFINED || t == QSF_JINJA_LOOP
               || (t >= QSF_JINJA_TEXT && t <= QSF_JINJA_DICT);
        return true;
    case JT_CALLABLE:
        *out = t == QSF_JINJA_UNDEFINED || (t >= QSF_JINJA_LOOP && t != QSF_JINJA_CYCLER);
        return true;
    case JT_IN: return qsf_jinja_contains(r, v, x, out);
    case JT_SAMEAS: return test_same(r, v, x, out);
    case JT_EVEN: case JT_ODD: case JT_DIVISIBLEBY: return test_remainder(r, id, v, x, out);
    case JT_FILTER: case JT_TEST: case JT_LOWER: case JT_UPPER: return test_of_text(r, id, v, out);
    default: return qsf_jinja_compare(r, (jinja_op)ops[id - JT_EQ], v, x, out);
    }
}

/* ---- functions ---- */

static bool builtin_range(jinja_run *r, const jinja_bound *b, jinja_value *out)
{
    int64_t n[3] = { 0, 0, 1 };
    uint64_t count = 0;
    for (int i = 0; i < 3; i++)
        if (!qsf_jinja_whole(r, b->arg[i], false, &n[i])) return false;
        else if (n[i] > INT32_MAX || n[i] < -INT32_MAX)
            return qsf_jinja_refuse(r, "a range is too long");
    if (!b->arg[1]) n[1] = n[0], n[0] = 0;
    if (!n[2]) return qsf_jinja_refuse(r, "a range of step 0");
    if (n[2] > 0 && n[1] > n[0]) count = (uint64_t)((n[1] - n[0] + n[2] - 1) / n[2]);
    if (n[2] < 0 && n[1] < n[0]) count = (uint64_t)((n[0] - n[1] - n[2] - 1) / -n[2]);
    if (count > 100000) return qsf_jinja_refuse(r, "a range is too long");
    jinja_value *items = qsf_jinja_items(r, (size_t)count + 3);
    if (!items) return false;
    for (int i = 0; i < 3; i++) items[i] = qsf_jinja_int(n[i]);         /* for str() */
    for (uint32_t i = 0; i < count; i++) items[3 + i] = qsf_jinja_int(n[0] + (int64_t)i * n[2]);
    *out = (jinja_value){ .type = QSF_JINJA_RANGE, .n = (uint32_t)count, .as.items = items + 3 };
    return true;
}

/* The pairs of a dict or a list of pairs, and of named arguments; later ones win. */
static bool builtin_dict(jinja_run *r, const jinja_args *a, jinja_value *out)
{
    jinja_value list = qsf_jinja_list(NULL, 0);
    if (a->n > 1) return qsf_jinja_refuse(r, "dict takes one value");
    if (a->n && a->pos[0].type == QSF_JINJA_DICT) list = a->pos[0];
    else if (a->n) {
        jinja_value pairs, pair;
        if (!qsf_jinja_iterate(r, &a->pos[0], &pairs)) return false;
        jinja_value *flat = qsf_jinja_items(r, 2 * (size_t)pairs.n);
        if (!flat) return false;
        for (uint32_t i = 0; i < pairs.n; i++) {
            if (!qsf_jinja_iterate(r, &pairs.as.items[i], &pair)) return false;
            if (pair.n != 2) return qsf_jinja_refuse(r, "dict takes pairs");
            memcpy(&flat[2 * i], pair.as.items, 2 * sizeof *flat);
        }
        list = qsf_jinja_dict(flat, pairs.n);
    }
    jinja_value *all = qsf_jinja_items(r, 2 * ((size_t)list.n + a->n_kw));
    if (!all) return false;
    if (list.n) memcpy(all, list.as.items, 2 * (size_t)list.n * sizeof *all);
    if (a->n_kw) memcpy(all + 2 * list.n, a->pos + a->n, 2 * (size_t)a->n_kw * sizeof *all);
    return qsf_jinja_make_dict(r, all, list.n + a->n_kw, out);
}

static bool builtin_namespace(jinja_run *r, const jinja_args *a, jinja_value *out)
{
    jinja_value dict;
    jinja_space *o = qsf_jinja_room(r, sizeof *o);
    if (!o || !builtin_dict(r, a, &dict)) return false;
    *o = (jinja_space){ (jinja_value *)dict.as.items, dict.n, dict.n };
    *out = (jinja_value){ .type = QSF_JINJA_SPACE, .as.own = o };
    return true;
}

/* A cycler, or a joiner, which is one that has been used or not. */
static bool builtin_cycler(jinja_run *r, const jinja_value *items, uint32_t n, jinja_value *out)
{
    jinja_loop *l = qsf_jinja_room(r, sizeof *l);
    jinja_value *copy = qsf_jinja_items(r, n);
    if (!l || !copy) return false;
    if (n) memcpy(copy, items, n * sizeof *copy);
    *l = (jinja_loop){ .items = qsf_jinja_list(copy, n) };
    *out = (jinja_value){ .type = QSF_JINJA_CYCLER, .as.own = l };
    return true;
}

bool qsf_jinja_function(jinja_run *r, int id, const jinja_args *a, jinja_value *out)
{
    const jinja_value comma = qsf_jinja_text(", ");
    jinja_bound b;
    if (!bind_args(r, builtin_functions[id], a, &b)) return false;
    switch (id) {
    case JN_RANGE: return builtin_range(r, &b, out);
    case JN_DICT: return builtin_dict(r, a, out);
    case JN_NAMESPACE: return builtin_namespace(r, a, out);
    case JN_CYCLER:
        if (!a->n || a->n_kw) return qsf_jinja_refuse(r, "nothing to cycle through");
        return builtin_cycler(r, a->pos, a->n, out);
    case JN_JOINER:
        if (!builtin_cycler(r, b.arg[0] ? b.arg[0] : &comma, 1, out)) return false;
        out->type = QSF_JINJA_JOINER;
        return true;
    case JN_RAISE: {
        jinja_value text;
        if (!qsf_jinja_to_text(r, b.arg[0], &text)) return false;
        return qsf_jinja_fail(r, QSF_E_CANCELLED, "%.*s", (int)QSF_MIN(text.n, 200), text.as.text);
    }
    case JN_STRFTIME: return qsf_jinja_need_text(r, b.arg[0], "strftime_now")
        && qsf_jinja_strftime(r, b.arg[0], out);
    default: return qsf_jinja_unknown(r, "lipsum is not supported");
    }
}

/* ---- methods ---- */

static bool method_of_loop(jinja_run *r, int id, jinja_loop *l, const jinja_args *a, jinja_value *out)
{
    if (id == JM_RESET) {
        l->at = 0;
        *out = (jinja_value){ .type = QSF_JINJA_NONE };
    } else if (id == JM_NEXT) {
        *out = l->items.as.items[l->at];
        l->at = (l->at + 1) % l->items.n;
    } else if (a->n_kw) return qsf_jinja_refuse(r, "keyword arguments are not supported here");
    else if (id == JM_CYCLE) {
        if (!a->n) return qsf_jinja_refuse(r, "nothing to cycle through");
        *out = a->pos[(l->at - 1) % a->n];
    } else {
        const jinja_value now = { .type = QSF_JINJA_TUPLE, .n = a->n, .as.items = a->pos };
        bool same;
        if (!qsf_jinja_equal(r, &now, &l->changed, &same)) return false;
        jinja_value *copy = qsf_jinja_items(r, a->n);
        if (!copy) return false;
        if (a->n) memcpy(copy, a->pos, a->n * sizeof *copy);
        l->changed = now;
        l->changed.as.items = copy;
        *out = qsf_jinja_bool(!same);
    }
    return true;
}

/* The place of a value in a list, or how often it is there. */
static bool method_of_list(jinja_run *r, int id, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    int64_t n = 0, from = 0, to = v->n;
    if (!qsf_jinja_whole(r, b->arg[1], false, &from) || !qsf_jinja_whole(r, b->arg[2], false, &to))
        return false;
    if (id == JM_COUNT && b->arg[1]) return qsf_jinja_refuse(r, "count takes one value");
    if (from < 0) from = QSF_MAX(from + v->n, 0);
    if (to < 0) to += v->n;
    for (int64_t i = from; i < QSF_MIN(to, (int64_t)v->n); i++) {
        bool same;
        if (!qsf_jinja_equal(r, b->arg[0], &v->as.items[i], &same)) return false;
        if (same && id == JM_INDEX) {
            return qsf_jinja_give_int(out, i);
        }
        n += same;
    }
    *out = qsf_jinja_int(n);
    return id == JM_COUNT || qsf_jinja_refuse(r, "the value is not in the list");
}

static bool method_of_dict(jinja_run *r, int id, const jinja_value *v, const jinja_bound *b, jinja_value *out)
{
    if (id == JM_GET) {
        const jinja_value *found;
        if (!qsf_jinja_lookup(r, v, b->arg[0], &found)) return false;
        if (found) *out = *found;
        else *out = b->arg[1] ? *b->arg[1] : (jinja_value){ .type = QSF_JINJA_NONE };
        return true;
    }
    if (id == JM_ITEMS) {
        if (!qsf_jinja_pairs(r, v, out)) return false;
    } else {
        jinja_value *items = qsf_jinja_items(r, v->n);
        if (!items) return false;
        for (uint32_t i = 0; i < v->n; i++) items[i] = v->as.items[2 * i + (id == JM_VALUES)];
        *out = qsf_jinja_list(items, v->n);
    }
    out->type = QSF_JINJA_VIEW;
    out->id = (uint16_t)id;
    return true;
}

bool qsf_jinja_method(jinja_run *r, int id, const jinja_value *v, const jinja_args *a, jinja_value *out)
{
    jinja_bound b;
    if (id >= JM_OTHERS) {
        const char *name = builtin_methods[id], *end = strchr(name, ' ');
        return qsf_jinja_fail(r, QSF_E_UNSUPPORTED, "the method %.*s is not supported",
                              (int)(end ? (size_t)(end - name) : strlen(name)), name);
    }
    if (!bind_args(r, builtin_methods[id], a, &b)) return false;
    if (v->type == QSF_JINJA_LOOP || v->type == QSF_JINJA_CYCLER)
        return method_of_loop(r, id, v->as.own, a, out);
    if (id == JM_FORMAT) return qsf_jinja_format_braces(r, v, a, out);
    if (v->type == QSF_JINJA_TEXT) return qsf_jinja_text_method(r, id, v, &b, out);
    if (id == JM_COPY) {
        *out = *v;
        return true;
    }
    return v->type == QSF_JINJA_DICT ? method_of_dict(r, id, v, &b, out) : method_of_list(r, id, v, &b, out);
}

/* ---- filters ---- */

bool qsf_jinja_filter(jinja_run *r, int id, const jinja_value *v, const jinja_args *a, jinja_value *out)
{
    jinja_bound b;
    if (!bind_args(r, builtin_filters[id], a, &b)) return false;
    switch (id) {
    case JF_D: case JF_DEFAULT:
        if (v->type != QSF_JINJA_UNDEFINED && !(jinja_flag(b.arg[1]) && !qsf_jinja_true(v))) *out = *v;
        else *out = b.arg[0] ? *b.arg[0] : qsf_jinja_text("");
        return true;
    case JF_ATTR: {
        const jinja_value *name = b.arg[0];
        if (!qsf_jinja_need_text(r, name, "attr")) return false;
        const int method = qsf_jinja_method_id(name->as.text, name->n);
        *out = (jinja_value){ .type = QSF_JINJA_UNDEFINED, .n = name->n, .as.text = name->as.text };
        if (v->type == QSF_JINJA_UNDEFINED) return qsf_jinja_undefined(r, v);
        return (v->type == QSF_JINJA_DICT && !(method && qsf_jinja_has_method(v, method)))
               || qsf_jinja_attribute(r, v, name->as.text, name->n, method, out);
    }
    case JF_ABS: case JF_FILESIZEFORMAT: case JF_FLOAT: case JF_INT: case JF_ROUND:
        return qsf_jinja_filter_number(r, id, v, &b, out);
    case JF_BATCH: case JF_COUNT: case JF_DICTSORT: case JF_FIRST: case JF_GROUPBY: case JF_ITEMS:
    case JF_JOIN:
    case JF_LAST: case JF_LENGTH: case JF_LIST: case JF_MAP: case JF_MAX: case JF_MIN: case JF_REJECT:
    case JF_REJECTATTR: case JF_REVERSE: case JF_SELECT: case JF_SELECTATTR: case JF_SLICE: case JF_SORT:
    case JF_SUM: case JF_UNIQUE:
        return qsf_jinja_filter_items(r, id, v, a, &b, out);
    case JF_FORMAT: {
        jinja_value text, args = { .type = QSF_JINJA_TUPLE, .n = a->n, .as.items = a->pos };
        if (a->n && a->n_kw)
            return qsf_jinja_refuse(r, "an argument is given both by position and by name");
        if (a->n_kw) args = qsf_jinja_dict(a->pos, a->n_kw);
        return qsf_jinja_to_text(r, v, &text) && qsf_jinja_format_percent(r, &text, &args, out);
    }
    case JF_RANDOM: case JF_URLIZE:
        return qsf_jinja_fail(r, QSF_E_UNSUPPORTED, "the filter %s is not supported",
                              id == JF_RANDOM ? "random" : "urlize");
    default: return qsf_jinja_filter_text(r, id, v, &b, out);
    }
}
