/* JSON Schema, what is written: keywords, drafts, references, places in messages.
 * SPDX-License-Identifier: MIT */
#include "grammar/schema_own.h"

enum { D_ALL = 31, D_FROM6 = 30, D_FROM7 = 28, D_FROM19 = 24, D_TO7 = 7, D_TO19 = 15, D_19 = 8, D_20 = 16 };

enum { SCHEMA_MAX_LOOKED = 40000000 };

/* Sets of qsf_json_type: what a keyword's value may be. */
enum {
    F_NUMBER = 8, F_TEXT = 16, F_LIST = 32, F_OBJECT = 64, F_BOOL = 6, F_SCHEMA = 70, F_ANY = 127,
    F_ITEMS = F_SCHEMA | F_LIST, F_BOUND = F_NUMBER | F_BOOL, F_TYPE = F_TEXT | F_LIST
};

/* name, number, the drafts that have it, the types it speaks of, what its value may be */
static const struct { char name[22]; uint8_t key, drafts, types, form; } schema_words[] = {
    { "type", KEY_TYPE, D_ALL, T_ALL, F_TYPE }, { "enum", KEY_ENUM, D_ALL, T_ALL, F_LIST },
    { "const", KEY_CONST, D_FROM6, T_ALL, F_ANY }, { "minimum", KEY_MINIMUM, D_ALL, T_NUMBER, F_NUMBER },
    { "maximum", KEY_MAXIMUM, D_ALL, T_NUMBER, F_NUMBER },
    { "exclusiveMinimum", KEY_ABOVE, D_ALL, T_NUMBER, F_BOUND },
    { "exclusiveMaximum", KEY_BELOW, D_ALL, T_NUMBER, F_BOUND },
    { "multipleOf", KEY_MULTIPLE, D_ALL, T_NUMBER, F_NUMBER },
    { "minLength", KEY_MIN_LENGTH, D_ALL, T_STRING, F_NUMBER },
    { "maxLength", KEY_MAX_LENGTH, D_ALL, T_STRING, F_NUMBER },
    { "pattern", KEY_PATTERN, D_ALL, T_STRING, F_TEXT }, { "format", KEY_FORMAT, D_ALL, T_STRING, F_TEXT },
    { "x-grammar", KEY_GRAMMAR, D_ALL, T_STRING, F_TEXT },      /* extension: a grammar for the string */
    { "items", KEY_ITEMS, D_ALL, T_ARRAY, F_ITEMS }, { "prefixItems", KEY_PREFIX, D_20, T_ARRAY, F_LIST },
    { "additionalItems", KEY_MORE_ITEMS, D_TO19, T_ARRAY, F_SCHEMA },
    { "minItems", KEY_MIN_ITEMS, D_ALL, T_ARRAY, F_NUMBER },
    { "maxItems", KEY_MAX_ITEMS, D_ALL, T_ARRAY, F_NUMBER },
    { "uniqueItems", KEY_UNIQUE, D_ALL, T_ARRAY, F_BOOL },
    { "contains", KEY_CONTAINS, D_FROM6, T_ARRAY, F_SCHEMA },
    { "minContains", KEY_MIN_CONTAINS, D_FROM19, T_ARRAY, F_NUMBER },
    { "maxContains", KEY_MAX_CONTAINS, D_FROM19, T_ARRAY, F_NUMBER },
    { "unevaluatedItems", KEY_FREE_ITEMS, D_FROM19, T_ARRAY, F_SCHEMA },
    { "properties", KEY_PROPERTIES, D_ALL, T_OBJECT, F_OBJECT },
    { "patternProperties", KEY_PATTERNS, D_ALL, T_OBJECT, F_OBJECT },
    { "additionalProperties", KEY_ADDITIONAL, D_ALL, T_OBJECT, F_SCHEMA },
    { "propertyNames", KEY_NAMES, D_FROM6, T_OBJECT, F_SCHEMA },
    { "required", KEY_REQUIRED, D_ALL, T_OBJECT, F_LIST },
    { "minProperties", KEY_MIN_PROPERTIES, D_ALL, T_OBJECT, F_NUMBER },
    { "maxProperties", KEY_MAX_PROPERTIES, D_ALL, T_OBJECT, F_NUMBER },
    { "dependencies", KEY_DEPENDENCIES, D_ALL, T_OBJECT, F_OBJECT },
    { "dependentRequired", KEY_DEPENDENT_REQUIRED, D_FROM19, T_OBJECT, F_OBJECT },
    { "dependentSchemas", KEY_DEPENDENT_SCHEMAS, D_FROM19, T_OBJECT, F_OBJECT },
    { "unevaluatedProperties", KEY_FREE_PROPERTIES, D_FROM19, T_OBJECT, F_SCHEMA },
    { "allOf", KEY_ALL_OF, D_ALL, 0, F_LIST }, { "anyOf", KEY_ANY_OF, D_ALL, 0, F_LIST },
    { "oneOf", KEY_ONE_OF, D_ALL, 0, F_LIST }, { "not", KEY_NOT, D_ALL, 0, F_SCHEMA },
    { "if", KEY_IF, D_FROM7, 0, F_SCHEMA }, { "then", KEY_THEN, D_FROM7, 0, F_SCHEMA },
    { "else", KEY_ELSE, D_FROM7, 0, F_SCHEMA }, { "$ref", KEY_REF, D_ALL, 0, F_TEXT },
    { "$dynamicRef", KEY_DYNAMIC_REF, D_20, 0, F_TEXT },
    { "$recursiveRef", KEY_RECURSIVE_REF, D_19, 0, F_TEXT }, { "disallow", KEY_DRAFT3, D_ALL, 0, F_ANY },
    { "divisibleBy", KEY_DRAFT3, D_ALL, 0, F_ANY }, { "extends", KEY_DRAFT3, D_ALL, 0, F_ANY },
};

uint32_t qsf_schema_key_types(schema_key key)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(schema_words); i++)
        if (schema_words[i].key == key) return schema_words[i].types;
    return 0;
}

/* ---- messages ---- */

/* The JSON pointer of v, truncated to the room. */
static void schema_pointer(const schema *s, const qsf_json_node *v, char *out, size_t cap)
{
    const qsf_json_node *at = s->root;
    size_t n = qsf_format(out, cap, "#");
    while (at != v && n < cap) {
        const bool object = at->type == QSF_JSON_OBJECT;
        const qsf_json_node *c = at + 1;
        uint32_t i = 0;
        if (at->type < QSF_JSON_LIST || v <= at || v >= at + at->skip) return;
        for (; i < at->n; i++) {
            const qsf_json_node *next = c + object;
            if (v < next + next->skip) break;
            c = next + next->skip;
        }
        n += object ? qsf_format(out + n, cap - n, "/%.*s", (int)QSF_MIN(c->n, 60u), c->text)
                    : qsf_format(out + n, cap - n, "/%u", (unsigned)i);
        if (v == c) return;
        at = c + object;
    }
}

static void schema_where(const schema *s, const qsf_json_node *v, char out[QSF_G_WHERE])
{
    char pointer[200];
    schema_pointer(s, v, pointer, sizeof pointer);
    qsf_format(out, QSF_G_WHERE, "%s: %s: ", s->what, pointer);
}

static void schema_fail(schema *s, const qsf_json_node *v, qsf_status st, const char *why)
{
    if (s->failed) return;
    qsf_g_fail(s->b, st, "%s", why);
    qsf_schema_locate(s, v);
}

void qsf_schema_refuse(schema *s, const qsf_json_node *v, const char *why)
{
    schema_fail(s, v, QSF_E_ARGUMENT, why);
}

void qsf_schema_too_large(schema *s, const qsf_json_node *v, const char *why)
{
    schema_fail(s, v, QSF_E_BUDGET, why);
}

void qsf_schema_locate(schema *s, const qsf_json_node *v)
{
    char where[QSF_G_WHERE];
    if (s->failed || !qsf_g_failed(s->b)) return;
    s->failed = true;
    schema_where(s, v, where);
    qsf_g_locate(s->b, where);
}

void qsf_schema_note(schema *s, qsf_gnode x)
{
    char *where = s->at ? qsf_g_note(s->b, x) : NULL;
    if (where) schema_where(s, s->at, where);
}

void qsf_schema_no_memory(schema *s)
{
    if (!s->failed) qsf_g_fail(s->b, QSF_E_MEMORY, "%s: out of memory", s->what);
    s->failed = true;
}

void *qsf_schema_grow(schema *s, void *items, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap) return items;
    const uint32_t more = *cap ? 2 * *cap : 32;
    void *out = more > *cap ? qsf_arena_array(s->arena, more, size, "a schema", NULL) : NULL;
    if (!out) {
        qsf_schema_no_memory(s);
        return NULL;
    }
    if (n) memcpy(out, items, n * size);
    *cap = more;
    return out;
}

/* ---- keywords ---- */

/* Refuses a keyword's value of a type that is not in form. */
static void schema_form(schema *s, const qsf_json_node *v, uint32_t form, schema_key key)
{
    static const char names[][10] = { "", "false", "true", "a number", "a string", "a list", "an object" };
    char why[80];
    size_t n = qsf_format(why, sizeof why, "this must be");
    if (key == KEY_DRAFT3)
        qsf_schema_refuse(s, v, "a keyword of draft 3; later drafts use not (for disallow), multipleOf (for "
                            "divisibleBy) and allOf (for extends)");
    if (key == KEY_REQUIRED && (F_BOOL >> v->type & 1))
        qsf_schema_refuse(s, v,
                          "this form is of draft 3; later drafts list the names in the object around it");
    if (form >> v->type & 1) return;
    for (uint32_t i = 1, sep = 0; i < QSF_ARRAY_LEN(names); i++)
        if (form >> i & 1) n += qsf_format(why + n, sizeof why - n, sep++ ? " or %s" : " %s", names[i]);
    qsf_schema_refuse(s, v, why);
}

const schema_keys *qsf_schema_keys_of(schema *s, const qsf_json_node *v)
{
    static const schema_keys nothing;
    schema_keys **known = &s->keys[v - s->root];
    if (*known) return *known;
    schema_keys *keys = *known = qsf_arena_alloc(s->arena, sizeof *keys, "a schema", NULL);
    if (!keys) {
        qsf_schema_no_memory(s);
        return &nothing;
    }
    const qsf_json_node *k = v + 1;
    for (uint32_t i = 0; v->type == QSF_JSON_OBJECT && i < v->n; i++, k = qsf_json_next(k + 1))
        for (size_t w = 0; w < QSF_ARRAY_LEN(schema_words); w++)
            if ((schema_words[w].drafts & s->draft) && qsf_json_is_text(k, schema_words[w].name))
                keys->key[schema_words[w].key] = k + 1;
    /* up to draft 7 a reference stands alone */
    if (keys->key[KEY_REF] && s->draft != D_ALL && (s->draft & D_TO7))
        *keys = (schema_keys){ .key[KEY_REF] = keys->key[KEY_REF] };
    for (size_t w = 0; w < QSF_ARRAY_LEN(schema_words); w++) {
        const qsf_json_node *x = keys->key[schema_words[w].key];
        if (x) schema_form(s, x, schema_words[w].form, schema_words[w].key);
    }
    if (s->failed) *keys = nothing;
    return keys;
}

static const char *const schema_type_names[] = {
    "null", "boolean", "integer", "", "string", "array", "object"
};

uint32_t qsf_schema_types_of(schema *s, const qsf_json_node *type)
{
    const bool list = type->type == QSF_JSON_LIST;
    const qsf_json_node *t = list ? type + 1 : type;
    uint32_t types = 0;
    for (uint32_t i = 0, n = list ? type->n : 1; i < n; i++, t = qsf_json_next(t)) {
        uint32_t one = qsf_json_is_text(t, "number") ? T_NUMBER : 0;
        for (uint32_t k = 0; k < 7 && t->n; k++) if (qsf_json_is_text(t, schema_type_names[k])) one = 1u << k;
        if (!one) qsf_schema_refuse(s, t, "this is not a type of JSON Schema");
        types |= one;
    }
    return types;
}

uint32_t qsf_schema_value_types(const qsf_json_node *v)
{
    static const uint8_t types[] = { T_NULL, T_BOOLEAN, T_BOOLEAN, T_NUMBER, T_STRING, T_ARRAY, T_OBJECT };
    return types[v->type];
}

uint32_t qsf_schema_count(schema *s, const qsf_json_node *v, uint32_t otherwise)
{
    if (!v) return otherwise;
    const double x = v->type == QSF_JSON_NUMBER ? qsf_json_number(v) : -1;
    if (x < 0 || x != floor(x)) {
        qsf_schema_refuse(s, v, "this must be a whole number, 0 or more");
        return otherwise;
    }
    return x < 4e9 ? (uint32_t)x : UINT32_MAX;
}

/* ---- references ---- */

/* Whether text begins with a scheme ("https:"). */
static bool schema_absolute(const char *text)
{
    size_t i = 0;
    while ((text[i] | 32) >= 'a' && (text[i] | 32) <= 'z') i++;
    return i > 1 && text[i] == ':';
}

/* Resolves ref[0..n) against this base. */
static const char *schema_join(schema *s, const char *base, const char *ref, size_t n)
{
    size_t keep = 0, len = strlen(base);
    if (n && !schema_absolute(ref)) {
        const char *host = strstr(base, "://"), *slash = host ? strchr(host + 3, '/') : NULL;
        const size_t root = slash ? (size_t)(slash - base) : len;
        keep = len;
        if (ref[0] == '/') keep = host ? root : 0;
        else while (keep > (host ? root + 1 : 0) && base[keep - 1] != '/') keep--;
        while (n > 2 && ref[0] == '.' && ref[1] == '/') ref += 2, n -= 2;
    } else if (!n) {
        return base;
    }
    char *out = qsf_arena_alloc(s->arena, keep + n + 1, "a schema", NULL);
    if (!out) {
        qsf_schema_no_memory(s);
        return base;
    }
    memcpy(out, base, keep);
    memcpy(out + keep, ref, n);
    return out;
}

/* The bytes of a reference before its "#". */
static size_t schema_uri_len(const char *ref)
{
    const char *hash = strchr(ref, '#');
    return hash ? (size_t)(hash - ref) : strlen(ref);
}

/* The innermost schema with an $id around v: bases are in the order of the text. */
static const schema_base *schema_base_of(const schema *s, const qsf_json_node *v)
{
    uint32_t low = 0, high = s->n_bases;
    while (high - low > 1) {
        const uint32_t mid = low + (high - low) / 2;
        if (s->bases[mid].node <= v) low = mid;
        else high = mid;
    }
    while (low && v >= s->bases[low].node + s->bases[low].node->skip) low = s->bases[low].outer;
    return &s->bases[low];
}

static const qsf_json_node *schema_id(const schema *s, const qsf_json_node *v)
{
    const qsf_json_node *id = qsf_json_member(v, "$id");
    if (!id && (s->draft & DRAFT4)) id = qsf_json_member(v, "id");
    return id && id->type == QSF_JSON_TEXT &&
                   !(s->draft != D_ALL && (s->draft & D_TO7) && qsf_json_member(v, "$ref"))
               ? id
               : NULL;
}

/* Whether v is followed by a list of values, which are not schemas. */
static bool schema_is_enum(const qsf_json_node *v)
{
    return v->type == QSF_JSON_TEXT && qsf_json_is_text(v, "enum") && v[1].type == QSF_JSON_LIST;
}

void qsf_schema_begin(schema *s)
{
    static const struct { char name[9]; uint8_t draft; } drafts[] = {
        { "draft-04", DRAFT4 }, { "draft-06", DRAFT6 }, { "draft-07", DRAFT7 },
        { "2019-09", DRAFT19 }, { "2020-12", DRAFT20 },
    };
    const qsf_json_node *is = qsf_json_member(s->root, "$schema");
    uint32_t cap = 0;
    s->draft = D_ALL;
    for (size_t i = 0; is && is->type == QSF_JSON_TEXT && i < QSF_ARRAY_LEN(drafts); i++)
        if (strstr(is->text, drafts[i].name)) s->draft = drafts[i].draft;
    for (uint32_t i = 0; i < s->root->skip; i++) {
        if (i && schema_is_enum(&s->root[i - 1])) i += s->root[i].skip;
        if (i == s->root->skip) break;
        const qsf_json_node *v = s->root + i, *id = v->type == QSF_JSON_OBJECT ? schema_id(s, v) : NULL;
        if (v->type == QSF_JSON_TEXT && (qsf_json_is_text(v, "unevaluatedProperties")
                                         || qsf_json_is_text(v, "unevaluatedItems"))) s->free_used = true;
        if (i && (!id || id->text[0] == '#')) continue;
        s->bases = qsf_schema_grow(s, s->bases, s->n_bases, &cap, sizeof *s->bases);
        if (s->failed) return;
        const char *text = id ? id->text : "";
        const size_t n = schema_uri_len(text);
        const schema_base *outer = i ? schema_base_of(s, v) : NULL;
        s->bases[s->n_bases++] = (schema_base){ v, schema_join(s, outer ? outer->uri : "", text, n),
                                                outer ? (uint32_t)(outer - s->bases) : 0 };
    }
}

static int schema_hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* The value that a JSON pointer, "/a/b", refers to; % and ~ escapes are decoded step by step. */
static const qsf_json_node *schema_follow(schema *s, const qsf_json_node *v, const char *p)
{
    char name[512];
    while (v && *p == '/') {
        size_t n = 0;
        for (p++; *p && *p != '/' && n + 1 < sizeof name; p++) {
            char c = *p;
            if (c == '%' && schema_hex(p[1]) >= 0 && schema_hex(p[2]) >= 0)
                c = (char)(16 * schema_hex(p[1]) + schema_hex(p[2])), p += 2;
            if (c == '~' && (p[1] == '0' || p[1] == '1')) c = *++p == '0' ? '~' : '/';
            name[n++] = c;
        }
        name[n] = 0;
        s->n_looked += v->n;
        if (*p && *p != '/') return NULL;
        if (v->type == QSF_JSON_LIST) {
            uint32_t i = 0;
            for (size_t k = 0; k < n; k++)
                i = name[k] >= '0' && name[k] <= '9' && i < 100000000 ? 10 * i + (uint32_t)(name[k] - '0')
                                                                      : UINT32_MAX;
            const uint32_t count = v->n;
            const qsf_json_node *c = v + 1;
            for (uint32_t k = 0; k < i && i < count; k++) c = qsf_json_next(c);
            v = i < count && n ? c : NULL;
        } else {
            v = qsf_json_member(v, name);
        }
    }
    return *p ? NULL : v;
}

static const qsf_json_node *schema_anchor(schema *s, const schema_base *base, const char *name)
{
    s->n_looked += 4 * (uint64_t)base->node->skip;
    for (uint32_t i = 0; i < base->node->skip; i++) {
        const qsf_json_node *v = base->node + i, *a;
        if (i + 1 < base->node->skip && schema_is_enum(v)) i += v[1].skip;
        if (v->type != QSF_JSON_OBJECT || schema_base_of(s, v) != base) continue;
        if (((a = qsf_json_member(v, "$anchor")) && qsf_json_is_text(a, name))
            || ((a = qsf_json_member(v, "$dynamicAnchor")) && qsf_json_is_text(a, name))
            || ((a = schema_id(s, v)) && a->text[0] == '#' && !strcmp(a->text + 1, name))) return v;
    }
    return NULL;
}

/* Where a dynamic reference leads depends on the way to it, unless there is one place only. */
static bool schema_is_dynamic(schema *s, const char *name)
{
    uint32_t n = 0;
    s->n_looked += s->root->skip;
    for (uint32_t i = 0; i < s->root->skip; i++) {
        const qsf_json_node *v = s->root + i, *a;
        if (v->type != QSF_JSON_OBJECT) continue;
        n += (a = qsf_json_member(v, "$dynamicAnchor")) != NULL && name && qsf_json_is_text(a, name);
        n += !name && (a = qsf_json_member(v, "$recursiveAnchor")) != NULL && s->n_bases > 1 ? 2 : 0;
    }
    return n > 1;
}

const qsf_json_node *qsf_schema_resolve(schema *s, const qsf_json_node *ref, schema_key key)
{
    const qsf_json_node *found = NULL;
    if (key != KEY_REF) {
        const char *hash = strchr(ref->text, '#');
        if (schema_is_dynamic(s, key == KEY_DYNAMIC_REF ? hash ? hash + 1 : "" : NULL))
            qsf_schema_refuse(s, ref,
                              "a dynamic reference that may lead to several schemas is not supported");
    }
    const schema_base *base = schema_base_of(s, ref);
    const size_t n = schema_uri_len(ref->text);
    if (n) s->n_looked += s->n_bases;
    if (s->n_looked > SCHEMA_MAX_LOOKED) {
        qsf_schema_too_large(s, ref, "too many references in so large a schema");
        return NULL;
    }
    const char *fragment = ref->text[n] ? ref->text + n + 1 : "";
    if (n) {
        const char *uri = schema_join(s, base->uri, ref->text, n);
        base = NULL;
        for (uint32_t i = 0; i < s->n_bases; i++) {
            if (strcmp(s->bases[i].uri, uri)) continue;
            if (base) qsf_schema_refuse(s, ref, "two schemas have the $id that this leads to");
            base = &s->bases[i];
        }
    }
    if (base) found = !*fragment ? base->node : *fragment == '/' ? schema_follow(s, base->node, fragment)
                                                                 : schema_anchor(s, base, fragment);
    /* a pointer that was meant from the document's beginning */
    if (!found && !n && *fragment == '/') found = schema_follow(s, s->root, fragment);
    if (!found) qsf_schema_refuse(s, ref, "the reference does not resolve in this schema");
    return found;
}
