/* Jinja: filters that are built in.
 * SPDX-License-Identifier: MIT */
#include "text/jinja_own.h"

enum {
    JF_ABS, JF_CAPITALIZE, JF_COUNT, JF_D, JF_DEFAULT, JF_DICTSORT, JF_FIRST, JF_FLOAT, JF_INDENT, JF_INT,
    JF_ITEMS, JF_JOIN, JF_LAST, JF_LENGTH, JF_LIST, JF_LOWER, JF_MAP, JF_MAX, JF_MIN, JF_REJECT,
    JF_REJECTATTR, JF_REPLACE, JF_REVERSE, JF_SAFE, JF_SELECT, JF_SELECTATTR, JF_SORT, JF_STRING, JF_SUM,
    JF_TOJSON, JF_TRIM, JF_UNIQUE, JF_UPPER
};
static const char filter_words[] =
    "abs capitalize count d default dictsort first float indent int items join last length list "
    "lower map max min reject rejectattr replace reverse safe select selectattr sort string sum tojson trim "
    "unique upper ";

int jinja_filter_id(const char *name, size_t n) { return jinja_word_id(filter_words, name, n); }

static const jinja_value filter_none = { .type = QSF_JINJA_NONE };

/* ---- lists ---- */

/* What "a.b.0" is in v; a number is an index. */
static bool filter_path(jinja_run *r, const jinja_value *v, const jinja_value *path, jinja_value *out)
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
static bool filter_key(jinja_run *r, const jinja_value *v, const jinja_value *attribute, bool exact,
                        jinja_value *out)
{
    *out = *v;
    if (attribute && attribute->type != QSF_JINJA_NONE && !filter_path(r, v, attribute, out)) return false;
    if (exact || out->type != QSF_JINJA_TEXT) return true;
    const jinja_value text = *out;
    jinja_args none = { NULL, 0, 0, 0 };
    return jinja_text_method(r, JM_LOWER, &text, &none, out);
}

/* By insertion, which keeps the order of equal ones. */
static bool filter_sort(jinja_run *r, const jinja_value *list, const jinja_value *attribute, bool exact,
                         bool reverse, jinja_value *out)
{
    jinja_value *items = jinja_room(r, list->n * sizeof *items),
                *keys = jinja_room(r, list->n * sizeof *keys);
    if (!items || !keys) return false;
    for (uint32_t n = 0; n < list->n; n++) {
        jinja_value key;
        uint32_t i = n;
        if (!filter_key(r, &list->as.items[n], attribute, exact, &key)) return false;
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

static bool filter_best(jinja_run *r, const jinja_value *list, const jinja_value *attribute, bool exact,
                         bool most, jinja_value *out)
{
    jinja_value key, best = { .type = QSF_JINJA_UNDEFINED };
    *out = (jinja_value){ .type = QSF_JINJA_UNDEFINED, .n = 7, .as.text = "an item" };
    for (uint32_t i = 0; i < list->n; i++) {
        bool less = !i;
        if (!filter_key(r, &list->as.items[i], attribute, exact, &key)) return false;
        if (i && !jinja_less(r, most ? &best : &key, most ? &key : &best, &less)) return false;
        if (!less) continue;
        best = key;
        *out = list->as.items[i];
    }
    return true;
}

static bool filter_unique(jinja_run *r, const jinja_value *list, const jinja_value *attribute, bool exact,
                           jinja_value *out)
{
    jinja_value *items = jinja_room(r, list->n * sizeof *items),
                *keys = jinja_room(r, list->n * sizeof *keys);
    uint32_t n = 0;
    if (!items || !keys) return false;
    for (uint32_t i = 0; i < list->n; i++) {
        bool same = false;
        if (!filter_key(r, &list->as.items[i], attribute, exact, &keys[n])) return false;
        for (uint32_t k = 0; k < n && !same; k++)
            if (!jinja_equal(r, &keys[k], &keys[n], &same)) return false;
        if (!same) items[n++] = list->as.items[i];
    }
    *out = qsf_jinja_list(items, n);
    return true;
}

bool jinja_pairs(jinja_run *r, const jinja_value *dict, jinja_value *out)
{
    jinja_value *items = jinja_room(r, dict->n * sizeof *items);
    if (!items || !jinja_charge(r, dict->n * sizeof *items)) return false;
    for (uint32_t i = 0; i < dict->n; i++)
        items[i] = (jinja_value){ .type = QSF_JINJA_TUPLE, .n = 2, .as.items = &dict->as.items[2 * i] };
    *out = qsf_jinja_list(items, dict->n);
    return true;
}

/* select, reject, selectattr, rejectattr: items that a test takes, or that are true. */
static bool filter_pick(jinja_run *r, int id, const jinja_value *list, jinja_args *a, jinja_value *out)
{
    const bool of_attribute = id == JF_SELECTATTR || id == JF_REJECTATTR,
               wanted = id == JF_SELECT || id == JF_SELECTATTR;
    const jinja_value *attribute = of_attribute ? jinja_need(r, a, 0, "attribute") : NULL;
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
        if (attribute && !filter_path(r, &list->as.items[i], attribute, &v)) return false;
        is = jinja_true(&v);
        if (test >= 0 && !jinja_test(r, test, &v, &rest, &is)) return false;
        if (is == wanted) items[n++] = list->as.items[i];
    }
    a->used = a->n + a->n_kw;
    *out = qsf_jinja_list(items, n);
    return true;
}

static bool filter_map(jinja_run *r, const jinja_value *list, jinja_args *a, jinja_value *out)
{
    const jinja_value *attribute = a->n ? NULL : jinja_need(r, a, 0, "attribute"),
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
        if (attribute ? !filter_path(r, &list->as.items[i], attribute, &items[i])
                      : !jinja_filter(r, id, &list->as.items[i], &rest, &items[i]))
            return false;
        if (attribute && unset && items[i].type == QSF_JINJA_UNDEFINED) items[i] = *unset;
    }
    a->used = a->n + a->n_kw;
    *out = qsf_jinja_list(items, list->n);
    return true;
}

static bool filter_reverse(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    const jinja_value bounds[3] = { filter_none, filter_none, qsf_jinja_int(-1) };
    jinja_value list = *v;
    if (v->type != QSF_JINJA_TEXT && !jinja_iterate(r, v, &list)) return false;
    return jinja_slice(r, &list, bounds, out);
}

static bool filter_sum(jinja_run *r, const jinja_value *list, const jinja_value *attribute,
                        const jinja_value *start, jinja_value *out)
{
    *out = start ? *start : qsf_jinja_int(0);
    for (uint32_t i = 0; i < list->n; i++) {
        jinja_value v = list->as.items[i];
        const jinja_value so_far = *out;
        if (attribute && attribute->type != QSF_JINJA_NONE &&
            !filter_path(r, &list->as.items[i], attribute, &v))
            return false;
        if (!jinja_binary(r, JOP_ADD, &so_far, &v, out)) return false;
    }
    return true;
}

/* ---- filters ---- */

static bool filter_int(jinja_run *r, const jinja_value *v, const jinja_value *unset, jinja_value *out)
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
        out->flags = v->flags;
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
    if (digits && jinja_foreign(r, v)) out->flags = QSF_JINJA_FOREIGN;
    return true;
}

static bool filter_json(jinja_run *r, const jinja_value *v, jinja_args *a, jinja_value *out)
{
    const bool ascii = jinja_flag(a, 0, "ensure_ascii");
    const jinja_value *indent = jinja_arg(a, 1, "indent"), *separators = jinja_arg(a, 2, "separators");
    const bool sorted = jinja_flag(a, 3, "sort_keys"), lines = indent && indent->type == QSF_JINJA_INT;
    if (ascii || sorted || (separators && separators->type != QSF_JINJA_NONE))
        return jinja_fail(r, QSF_E_UNSUPPORTED, "this form of JSON is not known here");
    if (indent && indent->type != QSF_JINJA_NONE && (!lines || indent->as.i < 0 || indent->as.i > 64))
        return jinja_fail(r, QSF_E_UNSUPPORTED, "this indent is not known here");
    jinja_sink s = jinja_begin_text(r);
    if (!jinja_json(r, &s, v, lines ? (int)indent->as.i : -1, 0)) return false;
    *out = jinja_end_text(r, &s);
    return true;
}

static bool filter_length(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    if (v->type != QSF_JINJA_UNDEFINED && (v->type < QSF_JINJA_TEXT || v->type > QSF_JINJA_DICT))
        return jinja_fail(r, QSF_E_ARGUMENT, "a value of type %s has no length", jinja_type_name(v));
    *out = qsf_jinja_int(v->type == QSF_JINJA_UNDEFINED ? 0 : (int64_t)jinja_length(v));
    return jinja_charge(r, v->type == QSF_JINJA_TEXT ? v->n : 0);
}

/* Filters on the text of a value. */
static bool filter_of_text(jinja_run *r, int id, const jinja_value *v, jinja_args *a, jinja_value *out)
{
    jinja_value text;
    if (!jinja_to_text(r, v, &text)) return false;
    if (v->flags & QSF_JINJA_SAFE && v->type == QSF_JINJA_TEXT && id != JF_TRIM)
        return jinja_fail(r, QSF_E_UNSUPPORTED,
                          "an operation on what went through \"safe\" is not known here");
    switch (id) {
    case JF_TRIM: {
        const jinja_value *chars = jinja_arg(a, 0, "chars");
        jinja_args given = { chars, chars != NULL, 0, 0 };
        return jinja_text_method(r, JM_STRIP, &text, &given, out);
    }
    case JF_REPLACE: {
        const jinja_value *old = jinja_need(r, a, 0, "old"), *by = jinja_need(r, a, 1, "new"),
                          *count = jinja_arg(a, 2, "count");
        if (!old || !by) return false;
        jinja_value three[3] = { *old, *by, count ? *count : filter_none };
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
static bool filter_of_items(jinja_run *r, int id, const jinja_value *v, jinja_args *a, jinja_value *out)
{
    jinja_value list;
    if (!jinja_iterate(r, v, &list) || !jinja_charge(r, list.n)) return false;
    switch (id) {
    case JF_LIST: *out = list; return true;
    case JF_FIRST: case JF_LAST:
        *out = (jinja_value){ .type = QSF_JINJA_UNDEFINED, .n = 7, .as.text = "an item" };
        if (list.n) *out = list.as.items[id == JF_LAST ? list.n - 1 : 0];
        return true;
    case JF_MAP: return filter_map(r, &list, a, out);
    case JF_SORT: {
        const bool reverse = jinja_flag(a, 0, "reverse"), exact = jinja_flag(a, 1, "case_sensitive");
        return filter_sort(r, &list, jinja_arg(a, 2, "attribute"), exact, reverse, out);
    }
    case JF_MIN: case JF_MAX: {
        const bool exact = jinja_flag(a, 0, "case_sensitive");
        return filter_best(r, &list, jinja_arg(a, 1, "attribute"), exact, id == JF_MAX, out);
    }
    case JF_UNIQUE: {
        const bool exact = jinja_flag(a, 0, "case_sensitive");
        return filter_unique(r, &list, jinja_arg(a, 1, "attribute"), exact, out);
    }
    case JF_SUM: {
        const jinja_value *attribute = jinja_arg(a, 0, "attribute");
        return filter_sum(r, &list, attribute, jinja_arg(a, 1, "start"), out);
    }
    case JF_JOIN: {
        const jinja_value *between = jinja_arg(a, 0, "d"), *attribute = jinja_arg(a, 1, "attribute"),
                          empty = qsf_jinja_text("");
        if (between && between->type != QSF_JINJA_TEXT)
            return jinja_fail(r, QSF_E_UNSUPPORTED, "items are joined by a text here");
        if (attribute) {
            const jinja_value by[2] = { qsf_jinja_text("attribute"), *attribute }, items = list;
            jinja_args named = { by, 0, 1, 0 };
            if (!filter_map(r, &items, &named, &list)) return false;
        }
        return jinja_text_join(r, between ? between : &empty, &list, true, out);
    }
    default: return filter_pick(r, id, &list, a, out);
    }
}

bool jinja_filter(jinja_run *r, int id, const jinja_value *v, jinja_args *a, jinja_value *out)
{
    switch (id) {
    case JF_D: case JF_DEFAULT: {
        const jinja_value *unset = jinja_arg(a, 0, "default_value");
        const bool falsy = jinja_flag(a, 1, "boolean") && !jinja_true(v);
        *out = v->type != QSF_JINJA_UNDEFINED && !falsy ? *v : unset ? *unset : qsf_jinja_text("");
        return true;
    }
    case JF_LENGTH: case JF_COUNT: return filter_length(r, v, out);
    case JF_STRING: return jinja_to_text(r, v, out);
    case JF_SAFE:
        if (!jinja_to_text(r, v, out)) return false;
        out->flags |= QSF_JINJA_SAFE;
        return true;
    case JF_TOJSON: return filter_json(r, v, a, out);
    case JF_ITEMS:
        if (v->type == QSF_JINJA_UNDEFINED) return jinja_iterate(r, v, out);
        if (v->type != QSF_JINJA_DICT)
            return jinja_fail(r, QSF_E_ARGUMENT, "only a dict has items, not %s", jinja_type_name(v));
        return jinja_pairs(r, v, out);
    case JF_DICTSORT: {
        jinja_value pairs;
        const bool exact = jinja_flag(a, 0, "case_sensitive");
        const jinja_value *by = jinja_arg(a, 1, "by"),
                          place = qsf_jinja_int(by && jinja_text_is(by, "value"));
        const bool reverse = jinja_flag(a, 2, "reverse");
        if (v->type != QSF_JINJA_DICT)
            return jinja_fail(r, QSF_E_ARGUMENT, "only a dict has items, not %s", jinja_type_name(v));
        return jinja_pairs(r, v, &pairs) && filter_sort(r, &pairs, &place, exact, reverse, out);
    }
    case JF_INT: return filter_int(r, v, jinja_arg(a, 0, "default"), out);
    case JF_FLOAT:
        if (!jinja_is_number(v))
            return jinja_fail(r, QSF_E_UNSUPPORTED, "only a number becomes a float here");
        *out = (jinja_value){ .type = QSF_JINJA_FLOAT, .flags = v->flags,
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
    case JF_REVERSE: return filter_reverse(r, v, out);
    case JF_TRIM:
    case JF_REPLACE:
    case JF_INDENT:
    case JF_UPPER:
    case JF_LOWER:
    case JF_CAPITALIZE: return filter_of_text(r, id, v, a, out);
    default: return filter_of_items(r, id, v, a, out);
    }
}
