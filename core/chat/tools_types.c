/* Finds out which types and which strings a tool's schema allows for an argument.
 * SPDX-License-Identifier: MIT
 *
 * Tags around a value do not distinguish a string from JSON; the schema does.  References are
 * followed and alternatives are merged.  Whatever is not understood counts as any type. */
#include "chat/tools.h"

enum { TY_DEPTH = 16, TY_LOOKS = 512, TY_NAME = 512 };

typedef struct ty_work {
    const qsf_json_node *root;          /* the document that references point into */
    int looks;                          /* how many more schemas may be visited */
} ty_work;

static uint8_t ty_named(const qsf_json_node *name)
{
    static const struct { const char *name; uint8_t types; } known[] = {
        { "null", QSF_TOOL_NULL }, { "boolean", QSF_TOOL_BOOL }, { "integer", QSF_TOOL_INTEGER },
        { "number", QSF_TOOL_INTEGER | QSF_TOOL_FRACTION }, { "string", QSF_TOOL_STRING },
        { "array", QSF_TOOL_LIST }, { "object", QSF_TOOL_DICT },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(known); i++)
        if (qsf_json_is_text(name, known[i].name)) return known[i].types;
    return QSF_TOOL_ANY;
}

static bool ty_has_fraction(const char *number)
{
    return strchr(number, '.') || strchr(number, 'e') || strchr(number, 'E');
}

uint8_t qsf_tool_type_of(const qsf_json_node *value)
{
    switch (value->type) {
    case QSF_JSON_NULL: return QSF_TOOL_NULL;
    case QSF_JSON_FALSE: case QSF_JSON_TRUE: return QSF_TOOL_BOOL;
    case QSF_JSON_TEXT: return QSF_TOOL_STRING;
    case QSF_JSON_LIST: return QSF_TOOL_LIST;
    case QSF_JSON_OBJECT: return QSF_TOOL_DICT;
    default: return ty_has_fraction(value->text) ? QSF_TOOL_FRACTION : QSF_TOOL_INTEGER;
    }
}

/* ---- references ---- */

/* One unescaped name of a JSON pointer, from `at` up to the next slash. */
static const char *ty_name(const char *at, char *out)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;
    for (; *at && *at != '/' && n < TY_NAME - 1; at++) {
        const char *high = *at == '%' && at[1] ? strchr(hex, at[1] | 32) : NULL;
        const char *low = high && at[2] ? strchr(hex, at[2] | 32) : NULL;
        char c = *at;
        if (low) {
            c = (char)((high - hex) << 4 | (low - hex));
            at += 2;
        }
        if (c == '~' && (at[1] == '0' || at[1] == '1')) c = *++at == '0' ? '~' : '/';
        out[n++] = c;
    }
    out[n] = 0;
    return at;
}

/* The target of "#/a/b"; NULL: not in this document. */
static const qsf_json_node *ty_follow(const ty_work *w, const qsf_json_node *ref)
{
    const qsf_json_node *v = w->root;
    char name[TY_NAME];
    if (ref->type != QSF_JSON_TEXT || *ref->text != '#' || (ref->text[1] && ref->text[1] != '/')) return NULL;
    for (const char *at = ref->text + 1; *at == '/' && v;) {
        at = ty_name(at + 1, name);
        if (v->type == QSF_JSON_LIST) {
            uint32_t i = 0;
            const char *digit = name;
            for (; *digit >= '0' && *digit <= '9' && i < v->n; digit++) i = 10 * i + (uint32_t)(*digit - '0');
            if (!*name || *digit || i >= v->n) return NULL;
            const qsf_json_node *item = qsf_json_first(v);
            while (i--) item = qsf_json_next(item);
            v = item;
        } else {
            v = qsf_json_member(v, name);
        }
    }
    return v;
}

/* ---- types ---- */

static uint8_t ty_of(ty_work *w, const qsf_json_node *schema, int depth);

/* The types of a list of schemas: their union, or with `all` their intersection. */
static uint8_t ty_of_list(ty_work *w, const qsf_json_node *list, bool all, int depth)
{
    uint8_t types = all ? QSF_TOOL_ANY : 0;
    if (list->type != QSF_JSON_LIST || !list->n) return QSF_TOOL_ANY;
    const qsf_json_node *v = qsf_json_first(list);
    for (uint32_t i = 0; i < list->n; i++, v = qsf_json_next(v)) {
        const uint8_t of = ty_of(w, v, depth);
        types = all ? types & of : types | of;
    }
    return types;
}

static uint8_t ty_of_values(const qsf_json_node *values)
{
    uint8_t types = 0;
    if (values->type != QSF_JSON_LIST) return QSF_TOOL_ANY;
    const qsf_json_node *v = qsf_json_first(values);
    for (uint32_t i = 0; i < values->n; i++, v = qsf_json_next(v)) types |= qsf_tool_type_of(v);
    return types;
}

static uint8_t ty_of_type(const qsf_json_node *type)
{
    uint8_t types = 0;
    if (type->type != QSF_JSON_LIST) return ty_named(type);
    const qsf_json_node *v = qsf_json_first(type);
    for (uint32_t i = 0; i < type->n; i++, v = qsf_json_next(v)) types |= ty_named(v);
    return types;
}

static uint8_t ty_of(ty_work *w, const qsf_json_node *schema, int depth)
{
    uint8_t types = QSF_TOOL_ANY;
    const qsf_json_node *v, *to;
    if (!schema || schema->type != QSF_JSON_OBJECT || depth == TY_DEPTH || w->looks-- <= 0)
        return QSF_TOOL_ANY;
    if ((v = qsf_json_member(schema, "type"))) types &= ty_of_type(v);
    if ((v = qsf_json_member(schema, "const"))) types &= qsf_tool_type_of(v);
    if ((v = qsf_json_member(schema, "enum"))) types &= ty_of_values(v);
    if ((v = qsf_json_member(schema, "anyOf"))) types &= ty_of_list(w, v, false, depth + 1);
    if ((v = qsf_json_member(schema, "oneOf"))) types &= ty_of_list(w, v, false, depth + 1);
    if ((v = qsf_json_member(schema, "allOf"))) types &= ty_of_list(w, v, true, depth + 1);
    if ((v = qsf_json_member(schema, "$ref")) && (to = ty_follow(w, v))) types &= ty_of(w, to, depth + 1);
    if ((v = qsf_json_member(schema, "nullable")) && v->type == QSF_JSON_TRUE) types |= QSF_TOOL_NULL;
    return types ? types : QSF_TOOL_ANY;
}

uint8_t qsf_tool_types(const qsf_json_node *root, const qsf_json_node *schema)
{
    ty_work w = { root, TY_LOOKS };
    return ty_of(&w, schema, 0);
}

/* ---- enumerated strings ---- */

static bool ty_texts(ty_work *w, const qsf_json_node *schema, int depth, qsf_tool_each_text *each, void *user)
{
    static const char *const lists[] = { "anyOf", "oneOf" };
    const qsf_json_node *v, *to;
    if (schema->type != QSF_JSON_OBJECT || depth == TY_DEPTH || w->looks-- <= 0) return false;
    if ((v = qsf_json_member(schema, "const"))) {
        if (v->type == QSF_JSON_TEXT) each(user, v->text, v->n);
        return true;
    }
    if ((v = qsf_json_member(schema, "enum")) && v->type == QSF_JSON_LIST) {
        const qsf_json_node *x = qsf_json_first(v);
        for (uint32_t i = 0; i < v->n; i++, x = qsf_json_next(x))
            if (x->type == QSF_JSON_TEXT) each(user, x->text, x->n);
        return true;
    }
    for (size_t k = 0; k < QSF_ARRAY_LEN(lists); k++) {
        if (!(v = qsf_json_member(schema, lists[k])) || v->type != QSF_JSON_LIST) continue;
        const qsf_json_node *x = qsf_json_first(v);
        for (uint32_t i = 0; i < v->n; i++, x = qsf_json_next(x))
            if ((ty_of(w, x, depth + 1) & QSF_TOOL_STRING) && !ty_texts(w, x, depth + 1, each, user))
                return false;
        return true;
    }
    if ((v = qsf_json_member(schema, "$ref")) && (to = ty_follow(w, v)))
        return ty_texts(w, to, depth + 1, each, user);
    if ((v = qsf_json_member(schema, "allOf")) && v->type == QSF_JSON_LIST && v->n == 1)
        return ty_texts(w, qsf_json_first(v), depth + 1, each, user);
    return false;
}

bool qsf_tool_texts(const qsf_json_node *root, const qsf_json_node *schema, qsf_tool_each_text *each,
                    void *user)
{
    ty_work w = { root, TY_LOOKS };
    return ty_texts(&w, schema, 0, each, user);
}

/* ---- properties ---- */

static const qsf_json_node *ty_property(ty_work *w, const qsf_json_node *schema, const char *key, int depth)
{
    static const char *const lists[] = { "allOf", "anyOf", "oneOf" };
    const qsf_json_node *v, *found = NULL;
    if (!schema || schema->type != QSF_JSON_OBJECT || depth == TY_DEPTH || w->looks-- <= 0) return NULL;
    if ((v = qsf_json_member(schema, "properties")) && (found = qsf_json_member(v, key))) return found;
    if ((v = qsf_json_member(schema, "$ref"))) found = ty_property(w, ty_follow(w, v), key, depth + 1);
    for (size_t k = 0; k < QSF_ARRAY_LEN(lists) && !found; k++) {
        if (!(v = qsf_json_member(schema, lists[k])) || v->type != QSF_JSON_LIST) continue;
        const qsf_json_node *x = qsf_json_first(v);
        for (uint32_t i = 0; i < v->n && !found; i++, x = qsf_json_next(x))
            found = ty_property(w, x, key, depth + 1);
    }
    return found ? found : qsf_json_member(schema, "additionalProperties");
}

uint8_t qsf_tool_argument(const qsf_json_node *tool, const char *key)
{
    ty_work w = { tool ? qsf_json_member(tool, "parameters") : NULL, TY_LOOKS };
    const qsf_json_node *schema = w.root ? ty_property(&w, w.root, key, 0) : NULL;
    return schema ? qsf_tool_types(w.root, schema) : QSF_TOOL_ANY;
}
