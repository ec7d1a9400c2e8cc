/* Relaxes schemas that need not be enforced completely: removes unsupported keywords one by one.
 * SPDX-License-Identifier: MIT
 *
 * The schema is compiled by itself.  The error message has a JSON pointer, and the innermost
 * keyword on its path is renamed to $comment, which has no effect.  Inside a negation that would
 * make the schema stricter, so there the negation itself is removed.  A oneOf whose branches cannot
 * be told apart becomes an anyOf. */
#include "grammar/schema_loosen.h"

enum { LOOSEN_TRIES = 64, LOOSEN_LARGE = 3 };   /* limits of failures: of all, and of those that take long to
                                                 * find */

typedef enum loosen_form { LOOSEN_VALUE, LOOSEN_SCHEMA, LOOSEN_LIST, LOOSEN_MAP, LOOSEN_ITEMS } loosen_form;

/* What the keyword's value consists of, if it holds schemas. */
static loosen_form keyword_form(const qsf_json_node *key)
{
    static const struct { char name[22]; uint8_t form; } forms[] = {
        { "properties", LOOSEN_MAP }, { "patternProperties", LOOSEN_MAP }, { "$defs", LOOSEN_MAP },
        { "definitions", LOOSEN_MAP }, { "dependentSchemas", LOOSEN_MAP }, { "dependencies", LOOSEN_MAP },
        { "allOf", LOOSEN_LIST }, { "anyOf", LOOSEN_LIST }, { "oneOf", LOOSEN_LIST },
        { "prefixItems", LOOSEN_LIST }, { "items", LOOSEN_ITEMS }, { "additionalProperties", LOOSEN_SCHEMA },
        { "propertyNames", LOOSEN_SCHEMA }, { "not", LOOSEN_SCHEMA }, { "if", LOOSEN_SCHEMA },
        { "then", LOOSEN_SCHEMA }, { "else", LOOSEN_SCHEMA }, { "contains", LOOSEN_SCHEMA },
        { "additionalItems", LOOSEN_SCHEMA }, { "unevaluatedProperties", LOOSEN_SCHEMA },
        { "unevaluatedItems", LOOSEN_SCHEMA },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(forms); i++)
        if (qsf_json_is_text(key, forms[i].name)) return (loosen_form)forms[i].form;
    return LOOSEN_VALUE;
}

static void key_rename(qsf_json_node *key, const char *name)
{
    key->text = name;
    key->n = (uint32_t)strlen(name);
}

static qsf_json_node *key_find(qsf_json_node *schema, const char *name)
{
    qsf_json_node *k = schema + 1;
    if (schema->type != QSF_JSON_OBJECT) return NULL;
    for (uint32_t i = 0; i < schema->n; i++, k += 1 + k[1].skip) if (qsf_json_is_text(k, name)) return k;
    return NULL;
}

static bool key_drop(qsf_json_node *schema, const char *name)
{
    bool found = false;
    for (qsf_json_node *k; (k = key_find(schema, name)) != NULL; found = true) key_rename(k, "$comment");
    return found;
}

/* The member of v that the next step of a pointer names, as schema_where writes it; *used: the
 * step's length. */
static qsf_json_node *pointer_member(qsf_json_node *v, const char *p, size_t *used)
{
    const bool object = v->type == QSF_JSON_OBJECT;
    qsf_json_node *c = v + 1, *best = NULL;
    *used = 0;
    if (*p != '/' || v->type < QSF_JSON_LIST) return NULL;
    for (uint32_t i = 0; i < v->n; i++, c += (object ? 1 : 0) + c[object].skip) {
        char name[64];
        const size_t n = object ? QSF_MIN(c->n, 60u) : qsf_format(name, sizeof name, "%u", (unsigned)i);
        if (strncmp(p + 1, object ? c->text : name, n) || (p[n + 1] != '/' && p[n + 1] != ':')) continue;
        if (best && n + 1 <= *used) continue;
        best = c;
        *used = n + 1;
    }
    return best;
}

/* What the pointer in an error message leads to. */
typedef struct loosen_path {
    qsf_json_node *owner, *key;         /* the schema with the innermost keyword; the keyword */
    qsf_json_node *negation, *negated;  /* the outermost not or if; the schema it is in */
    qsf_json_node *one;                 /* the innermost oneOf */
    qsf_json_node *schema;              /* the end of the path if it is a schema, else NULL */
    bool           pattern;             /* the end is an entry of patternProperties */
} loosen_path;

static loosen_path path_of(qsf_json_node *root, const char *p)
{
    loosen_path out = { .schema = root };
    loosen_form form = LOOSEN_SCHEMA;
    size_t used;
    for (qsf_json_node *at = root, *c; (c = pointer_member(at, p, &used)) != NULL; p += used) {
        const bool object = at->type == QSF_JSON_OBJECT;
        out.pattern = false;
        if (form == LOOSEN_SCHEMA) {
            out.owner = at;
            out.key = c;
            form = keyword_form(c);
            const bool negation = qsf_json_is_text(c, "not") || qsf_json_is_text(c, "if");
            if (negation && !out.negation) out.negation = c, out.negated = at;
            if (qsf_json_is_text(c, "oneOf")) out.one = c;
            if (form == LOOSEN_ITEMS) form = c[1].type == QSF_JSON_LIST ? LOOSEN_LIST : LOOSEN_SCHEMA;
        } else if (form != LOOSEN_VALUE) {
            out.pattern = qsf_json_is_text(out.key, "patternProperties");
            form = LOOSEN_SCHEMA;
        }
        at = c + object;
        out.schema = form == LOOSEN_SCHEMA ? at : NULL;
        if (form == LOOSEN_VALUE) break;
    }
    return out;
}

/* If no single keyword of a schema is to blame, removes the first removable one. */
static bool schema_drop(qsf_json_node *schema)
{
    static const char *const order[] = {
        "not", "if", "dependencies", "dependentSchemas", "dependentRequired", "uniqueItems", "contains",
        "propertyNames", "patternProperties", "unevaluatedProperties", "unevaluatedItems", "pattern",
        "format", "multipleOf", "minProperties", "maxProperties", "oneOf", "allOf", "anyOf", "$ref",
        "$dynamicRef",
        "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength",
        "maxLength", "minItems", "maxItems", "prefixItems", "items", "additionalItems", "required",
        "additionalProperties", "properties", "type",
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(order); i++) if (key_drop(schema, order[i])) return true;
    return false;
}

void qsf_schema_open(qsf_json_node *schema)
{
    qsf_json_node *k = schema + 1;
    for (uint32_t i = 0; schema->type == QSF_JSON_OBJECT && i < schema->n; i++, k += 1 + k[1].skip)
        key_rename(k, "$comment");
}

/* Removes the keyword that an error message is about; false: nothing remains to remove. */
static bool loosen_one(qsf_json_node *root, const char *message)
{
    const char *p = strchr(message, '#');
    const loosen_path path = path_of(root, p ? p + 1 : "");
    if (path.negation) {
        key_rename(path.negation, "$comment");
        return true;
    }
    if (path.one && strstr(message, "opposite")) {
        key_rename(path.one, key_find(path.owner, "anyOf") ? "$comment" : "anyOf");
        return true;
    }
    if (path.pattern) {                         /* else additionalProperties would cover more names */
        key_drop(path.owner, "additionalProperties");
        return key_drop(path.owner, "patternProperties");
    }
    if (path.schema && schema_drop(path.schema)) return true;
    if (!path.key) return false;
    key_rename(path.key, "$comment");
    return true;
}

static qsf_status loosen_try(const qsf_platform *p, const qsf_json_node *schema,
                             const qsf_schema_options *how, uint64_t most_memory, qsf_error *err)
{
    qsf_grammar_builder *b;
    qsf_grammar *g = NULL;
    const qsf_status st = qsf_grammar_begin(p, &b, err);
    if (st) return st;
    qsf_grammar_limit(b, most_memory);
    const qsf_status made = qsf_grammar_finish(b, qsf_schema_nodes(p, b, schema, how), &g, err);
    qsf_grammar_drop(g);
    return made;
}

qsf_status qsf_schema_loosen(const qsf_platform *p, qsf_json_node *schema, const qsf_schema_options *how,
                             uint64_t most_memory, qsf_loosened said, void *user, qsf_error *err)
{
    qsf_error why = { 0 };
    uint32_t large = 0;
    for (uint32_t i = 0; i < LOOSEN_TRIES; i++) {
        const qsf_status st = loosen_try(p, schema, how, most_memory, &why);
        if (!st) return QSF_OK;
        if (st == QSF_E_MEMORY) return qsf_fail(err, st, "%s", why.text);
        said(user, why.text);
        large += st == QSF_E_BUDGET;
        if (large == LOOSEN_LARGE || !loosen_one(schema, why.text)) break;
    }
    qsf_schema_open(schema);
    const qsf_status st = loosen_try(p, schema, how, most_memory, &why);
    return st ? qsf_fail(err, st, "%s", why.text) : QSF_OK;
}
