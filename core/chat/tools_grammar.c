/* Grammars of calls: what a model may write from the place where it begins a call.
 * SPDX-License-Identifier: MIT
 *
 * The form's texts stand as the template has them, and a tool's arguments fit its schema.  Control
 * tokens are 0xff and their text (grammar.h).  A token that ends an answer ends the grammar too. */
#include "grammar/grammar_nodes.h"
#include "grammar/schema.h"
#include "chat/tools_plain.h"

enum { TG_MARK = 64, TG_BLANKS = 24 };

typedef struct tg_work {
    const qsf_tool_grammar_ask *ask;
    const qsf_tool_form *f;
    qsf_grammar_builder *b;
    qsf_schema_options   schema;
    const qsf_json_node *parameters;    /* of the current tool; NULL: none */
    bool                 bare;          /* also calls without marks, at the beginning of the answer */
    qsf_gnode            plain;         /* one of these */
    qsf_gnode            blanks, any, value;       /* value: any of the quoted style, once it is needed */
    qsf_tool_grammar    *out;
    qsf_error           *err;
} tg_work;

/* ---- texts ---- */

/* The control token that text[0..n) begins with: its length, 0: none does. */
static size_t tg_control(const tg_work *w, const char *text, size_t n, bool *ends)
{
    const qsf_tokenizer *t = w->ask->tokenizer;
    const char *piece;
    for (size_t k = t ? QSF_MIN(n, TG_MARK) : 0; k > 2; k--) {
        const int32_t id = qsf_tokenizer_find(t, text, k);
        if (id < 0 || qsf_tokenizer_piece(t, id, false, &piece)) continue;
        *ends = qsf_tokenizer_is_end(t, id);
        return k;
    }
    return 0;
}

static qsf_gnode tg_id(tg_work *w);

static qsf_gnode tg_text_n(tg_work *w, const char *text, size_t n)
{
    qsf_text t = { .platform = w->ask->platform };
    bool ends = false;
    for (size_t i = 0, k; i < n; i += k ? k : 1) {
        if (text[i] == QSF_TOOL_ID) {
            const qsf_gnode parts[] = { tg_text_n(w, text, i), tg_id(w),
                                        tg_text_n(w, text + i + 1, n - i - 1) };
            qsf_text_drop(&t);
            return qsf_g_sequence(w->b, parts, 3);
        }
        k = tg_control(w, text + i, n - i, &ends);
        if (k && ends) break;
        if (k) qsf_text_add(&t, "\xff", 1);
        qsf_text_add(&t, text + i, k ? k : 1);
    }
    const qsf_gnode g = t.failed ? qsf_g_fail(w->b, QSF_E_MEMORY, "grammar of calls: out of memory")
                                 : qsf_g_bytes(w->b, t.at, t.n);
    qsf_text_drop(&t);
    return g;
}
static qsf_gnode tg_text(tg_work *w, const char *text) { return tg_text_n(w, text, strlen(text)); }
static qsf_gnode tg_form(tg_work *w, qsf_tool_text which) { return tg_text(w, w->f->text[which]); }

static qsf_gnode tg_two(tg_work *w, qsf_gnode a, qsf_gnode b)
{
    const qsf_gnode parts[] = { a, b };
    return qsf_g_sequence(w->b, parts, 2);
}
static qsf_gnode tg_either(tg_work *w, qsf_gnode a, qsf_gnode b)
{
    const qsf_gnode parts[] = { a, b };
    return qsf_g_choice(w->b, parts, 2);
}
static qsf_gnode tg_maybe(tg_work *w, qsf_gnode a) { return qsf_g_repeat(w->b, a, 0, 1); }

/* Any text in which this one is not. */
static qsf_gnode tg_without(tg_work *w, const char *text)
{
    bool ends;
    text = qsf_tool_core(text);
    if (tg_control(w, text, strlen(text), &ends)) return w->any;
    const qsf_gnode parts[] = { w->any, qsf_g_bytes(w->b, text, strlen(text)), w->any };
    return qsf_g_not(w->b, qsf_g_sequence(w->b, parts, 3));
}

/* A text of JSON. */
static qsf_gnode tg_json_text(tg_work *w, const char *p, size_t n)
{
    qsf_text t = { .platform = w->ask->platform };
    qsf_text_put(&t, "\"");
    qsf_text_json(&t, p, n);
    qsf_text_put(&t, "\"");
    const qsf_gnode g = t.failed ? qsf_g_fail(w->b, QSF_E_MEMORY, "grammar of calls: out of memory")
                                 : qsf_g_bytes(w->b, t.at, t.n);
    qsf_text_drop(&t);
    return g;
}

/* "key": with what may surround the colon. */
static qsf_gnode tg_key(tg_work *w, const char *key)
{
    const qsf_gnode parts[] = { tg_json_text(w, key, strlen(key)), qsf_g_bytes(w->b, ":", 1), w->blanks };
    return qsf_g_sequence(w->b, parts, 3);
}

/* A schema inside the tool's parameters; its references may point anywhere in them. */
static qsf_gnode tg_schema(tg_work *w, const qsf_json_node *schema)
{
    const qsf_json_node *root = w->parameters;
    qsf_schema_options o = w->schema;
    if (!root || schema < root || schema >= root + root->skip) root = schema;
    o.at = schema;
    o.object = schema == w->parameters;
    return qsf_schema_nodes(w->ask->platform, w->b, root, &o);
}

/* ---- arguments ---- */

static const qsf_json_node *tg_properties(const qsf_json_node *tool)
{
    const qsf_json_node *v = qsf_json_member(tool, "parameters");
    if (v) v = qsf_json_member(v, "properties");
    return v && v->type == QSF_JSON_OBJECT ? v : NULL;
}

static bool tg_required(const qsf_json_node *tool, const char *key)
{
    const qsf_json_node *v = qsf_json_member(tool, "parameters");
    if (v) v = qsf_json_member(v, "required");
    if (!v || v->type != QSF_JSON_LIST) return false;
    const qsf_json_node *x = qsf_json_first(v);
    for (uint32_t i = 0; i < v->n; i++, x = qsf_json_next(x))
        if (qsf_json_is_text(x, key)) return true;
    return false;
}

static qsf_gnode tg_json_arguments(tg_work *w)
{
    return w->parameters && w->parameters->n ? tg_schema(w, w->parameters) : qsf_g_bytes(w->b, "{}", 2);
}

static uint8_t tg_types(const tg_work *w, const qsf_json_node *schema)
{
    return qsf_tool_types(w->parameters, schema);
}

typedef struct tg_texts { tg_work *w; qsf_gnode all; } tg_texts;
static void tg_add_text(void *user, const char *text, size_t n)
{
    tg_texts *t = user;
    t->all = tg_either(t->w, t->all, qsf_g_bytes(t->w->b, text, n));
}

/* A free string as the model writes it, up to `end`; *listed: the schema enumerates its values. */
static qsf_gnode tg_free_text(tg_work *w, const qsf_json_node *schema, const char *end, bool *listed)
{
    tg_texts t = { w, qsf_g_choice(w->b, NULL, 0) };
    *listed = qsf_tool_texts(w->parameters, schema, tg_add_text, &t);
    return *listed ? t.all : tg_without(w, end);
}

/* A value of JSON or, of some types, of Python, as templates write them. */
static qsf_gnode tg_python(tg_work *w, const qsf_json_node *schema)
{
    bool listed;
    const qsf_json_node *type = qsf_json_member(schema, "type");
    const qsf_gnode g = tg_schema(w, schema);
    if (type && qsf_json_is_text(type, "boolean"))
        return tg_either(w, g, tg_either(w, tg_text(w, "True"), tg_text(w, "False")));
    if (tg_types(w, schema) != QSF_TOOL_STRING) return g;
    static const uint32_t marks[][2] = { { '\'', '\'' }, { '\\', '\\' } };
    const qsf_gnode quote = tg_text(w, "'");
    const qsf_gnode plain = qsf_g_repeat(w->b, qsf_g_class(w->b, marks, 2, true), 0, QSF_G_NO_MOST);
    const qsf_gnode text = qsf_g_both(w->b, tg_free_text(w, schema, "'", &listed), plain);
    return tg_either(w, g, tg_two(w, tg_two(w, quote, text), quote));
}

/* The type before a value. */
static qsf_gnode tg_type(tg_work *w, bool text)
{
    static const uint32_t letters[][2] = { { 'a', 'z' } };
    const char *type = w->f->text[QSF_TT_TYPE];
    if (text || !*type) return tg_text(w, type);
    const qsf_gnode other = qsf_g_not(w->b, qsf_g_bytes(w->b, type, strlen(type)));
    return qsf_g_both(w->b, other, qsf_g_repeat(w->b, qsf_g_class(w->b, letters, 1, false), 4, 8));
}

/* The values of these types other than strings. */
static qsf_gnode tg_no_text(tg_work *w, const qsf_json_node *schema, uint8_t types)
{
    qsf_gnode g = qsf_g_choice(w->b, NULL, 0);
    if (types & QSF_TOOL_NULL) g = tg_either(w, g, tg_text(w, "null"));
    if (types & QSF_TOOL_BOOL) g = tg_either(w, g, tg_either(w, tg_text(w, "true"), tg_text(w, "false")));
    types &= (uint8_t)~(QSF_TOOL_NULL | QSF_TOOL_BOOL | QSF_TOOL_STRING);
    return types ? tg_either(w, g, tg_schema(w, schema)) : g;
}

/* A value in tags.  If it may be a string, the model may write any text, and the reader tells other
 * types apart. */
static qsf_gnode tg_tag_value(tg_work *w, const qsf_json_node *schema)
{
    const uint8_t types = tg_types(w, schema);
    bool listed;
    if (!(types & QSF_TOOL_STRING)) return tg_python(w, schema);
    const qsf_gnode g = tg_free_text(w, schema, w->f->text[QSF_TT_VALUE_END], &listed);
    return listed && types != QSF_TOOL_STRING ? tg_either(w, g, tg_no_text(w, schema, types)) : g;
}

/* A value preceded by its type, if the form writes types. */
static qsf_gnode tg_typed(tg_work *w, const qsf_json_node *schema)
{
    const uint8_t types = tg_types(w, schema);
    const qsf_gnode begin = tg_form(w, QSF_TT_VALUE_BEGIN);
    const qsf_gnode parts[] = { tg_type(w, types & QSF_TOOL_STRING), begin, tg_tag_value(w, schema) };
    const qsf_gnode g = qsf_g_sequence(w->b, parts, 3);
    if (!*w->f->text[QSF_TT_TYPE] || !(types & QSF_TOOL_STRING) || types == QSF_TOOL_STRING) return g;
    const qsf_gnode json = types == QSF_TOOL_ANY ? qsf_json_nodes(w->ask->platform, w->b, &w->schema)
                                                 : tg_no_text(w, schema, types);
    const qsf_gnode other[] = { tg_type(w, false), begin, json };
    return tg_either(w, g, qsf_g_sequence(w->b, other, 3));
}

static qsf_gnode tg_tags(tg_work *w, const qsf_json_node *tool)
{
    const qsf_json_node *p = tg_properties(tool), *k = p ? qsf_json_first(p) : NULL;
    qsf_gnode all = qsf_g_bytes(w->b, "", 0);
    for (uint32_t i = 0; p && i < p->n; i++, k = qsf_json_next(k + 1)) {
        const qsf_gnode parts[] = { tg_form(w, QSF_TT_KEY), tg_text_n(w, k->text, k->n),
                                    tg_form(w, QSF_TT_VALUE), tg_typed(w, k + 1),
                                    tg_form(w, QSF_TT_VALUE_END) };
        const qsf_gnode one = qsf_g_sequence(w->b, parts, 5);
        all = tg_two(w, all, tg_required(tool, k->text) ? one : tg_maybe(w, one));
    }
    return all;
}

/* The quoted style's value: a string in the form's quotes, or JSON with keys without quotes. */
static qsf_gnode tg_quoted(tg_work *w, const qsf_json_node *schema)
{
    static const uint32_t letters[][2] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } };
    const char *quote = w->f->text[QSF_TT_KEY];
    const uint8_t types = tg_types(w, schema);
    const bool is_text = types == QSF_TOOL_STRING;
    const bool simple = is_text || !(types & (QSF_TOOL_STRING | QSF_TOOL_LIST | QSF_TOOL_DICT));
    const qsf_gnode q = tg_text(w, quote);
    bool listed;
    if (simple && !is_text) return tg_schema(w, schema);
    const qsf_gnode in = is_text ? tg_free_text(w, schema, quote, &listed) : tg_without(w, quote);
    const qsf_gnode text[] = { q, in, q };
    if (simple) return qsf_g_sequence(w->b, text, 3);
    if (!w->value) {
        static const char scalars[] = "{\"type\":[\"number\",\"boolean\",\"null\"]}";
        qsf_json j;
        w->value = qsf_g_rule(w->b);
        const qsf_gnode comma = qsf_g_bytes(w->b, ",", 1), more = tg_two(w, comma, w->value);
        const qsf_gnode letter = qsf_g_class(w->b, letters, 4, false);
        const qsf_gnode key = tg_two(w, qsf_g_repeat(w->b, letter, 1, QSF_G_NO_MOST), tg_text(w, ":"));
        const qsf_gnode pair = tg_two(w, key, w->value), pairs = tg_two(w, comma, pair);
        const qsf_gnode items = tg_two(w, w->value, qsf_g_repeat(w->b, more, 0, QSF_G_NO_MOST));
        const qsf_gnode all = tg_two(w, pair, qsf_g_repeat(w->b, pairs, 0, QSF_G_NO_MOST));
        const qsf_gnode list[] = { qsf_g_bytes(w->b, "[", 1), tg_maybe(w, items), qsf_g_bytes(w->b, "]", 1) };
        const qsf_gnode object[] = { qsf_g_bytes(w->b, "{", 1), tg_maybe(w, all), qsf_g_bytes(w->b, "}", 1) };
        qsf_gnode ways[4] = { qsf_g_sequence(w->b, text, 3), qsf_g_sequence(w->b, list, 3),
                              qsf_g_sequence(w->b, object, 3), QSF_G_FAILED };
        if (qsf_json_read(w->ask->platform, scalars, sizeof scalars - 1, "value", &j, w->err))
            return qsf_g_fail(w->b, QSF_E_MEMORY, "grammar of calls: out of memory");
        ways[3] = tg_schema(w, j.nodes);
        qsf_json_drop(&j);
        qsf_g_define(w->b, w->value, qsf_g_choice(w->b, ways, 4));
    }
    return w->value;
}

/* key, mark, value with commas between; what is not required may be left out. */
static qsf_gnode tg_pairs(tg_work *w, const qsf_json_node *tool, const char *mark)
{
    const qsf_json_node *p = tg_properties(tool), *k = p ? qsf_json_first(p) : NULL;
    const qsf_gnode comma = tg_two(w, qsf_g_bytes(w->b, ",", 1), w->blanks), none = qsf_g_bytes(w->b, "", 0);
    const bool python = w->f->style == QSF_TOOLS_PYTHON;
    qsf_gnode empty = none, some = qsf_g_choice(w->b, NULL, 0);     /* so far: nothing, or something */
    for (uint32_t i = 0; p && i < p->n; i++, k = qsf_json_next(k + 1)) {
        const qsf_gnode parts[] = { qsf_g_bytes(w->b, k->text, k->n), qsf_g_bytes(w->b, mark, strlen(mark)),
                                    python ? tg_python(w, k + 1) : tg_quoted(w, k + 1) };
        const qsf_gnode one = qsf_g_sequence(w->b, parts, 3);
        const qsf_gnode with = tg_either(w, tg_two(w, empty, one), tg_two(w, tg_two(w, some, comma), one));
        if (tg_required(tool, k->text)) {
            some = with;
            empty = qsf_g_choice(w->b, NULL, 0);
        } else {
            some = tg_either(w, some, with);
        }
    }
    return tg_either(w, empty, some);
}

/* ---- calls ---- */

static qsf_gnode tg_id(tg_work *w)
{
    static const uint32_t letters[][2] = { { '0', '9' }, { 'A', 'Z' }, { 'a', 'z' } };
    const bool count = w->f->text[QSF_TT_ID][0] == ':';
    return qsf_g_repeat(w->b, qsf_g_class(w->b, letters, count ? 1 : 3, false), count ? 1 : 9, count ? 4 : 9);
}

static const uint32_t tg_digits[][2] = { { '0', '9' } };

/* An object with name and arguments. */
static qsf_gnode tg_object(tg_work *w, const qsf_json_node *name)
{
    const qsf_tool_form *f = w->f;
    const qsf_gnode open = tg_two(w, qsf_g_bytes(w->b, "{", 1), w->blanks);
    const qsf_gnode close = tg_two(w, w->blanks, qsf_g_bytes(w->b, "}", 1));
    const qsf_gnode comma = tg_two(w, qsf_g_bytes(w->b, ",", 1), w->blanks);
    const qsf_gnode arguments = tg_json_arguments(w);
    qsf_gnode g;
    if (!*f->text[QSF_TT_NAME_KEY]) {
        g = tg_two(w, tg_key(w, name->text), arguments);
    } else {
        const qsf_gnode parts[] = { tg_key(w, f->text[QSF_TT_NAME_KEY]), tg_json_text(w, name->text, name->n),
                                    comma, tg_key(w, f->text[QSF_TT_ARGUMENTS_KEY]), arguments };
        g = qsf_g_sequence(w->b, parts, 5);
    }
    if (*f->text[QSF_TT_WRAP_KEY]) {
        const qsf_gnode parts[] = { tg_key(w, f->text[QSF_TT_WRAP_KEY]), open, g, close };
        g = qsf_g_sequence(w->b, parts, 4);
    }
    if (*f->text[QSF_TT_ID_KEY]) {
        const qsf_gnode quote = qsf_g_bytes(w->b, "\"", 1);
        const qsf_gnode count = qsf_g_repeat(w->b, qsf_g_class(w->b, tg_digits, 1, false), 1, 4);
        const qsf_gnode parts[] = { tg_key(w, f->text[QSF_TT_ID_KEY]), quote,
                                    tg_either(w, tg_id(w), count), quote };
        const qsf_gnode id = qsf_g_sequence(w->b, parts, 4);
        g = tg_either(w, tg_two(w, tg_maybe(w, tg_two(w, id, comma)), g),
                      tg_two(w, g, tg_two(w, comma, id)));
    }
    const qsf_gnode parts[] = { open, g, close };
    return qsf_g_sequence(w->b, parts, 3);
}

/* An object with name and arguments as models write it without the form's marks. */
static qsf_gnode tg_plain_object(tg_work *w, const qsf_json_node *name)
{
    const qsf_gnode parts[] = { qsf_g_bytes(w->b, "{", 1), w->blanks, tg_key(w, "name"),
                                tg_json_text(w, name->text, name->n), qsf_g_bytes(w->b, ",", 1), w->blanks,
                                tg_key(w, qsf_tools_plain_key(w->f)), tg_json_arguments(w), w->blanks,
                                qsf_g_bytes(w->b, "}", 1) };
    return qsf_g_sequence(w->b, parts, QSF_ARRAY_LEN(parts));
}

/* The text between a name and its arguments. */
static qsf_gnode tg_name_end(tg_work *w)
{
    static const char *const heads[] = {
        "<|channel|>commentary json<|message|>", " <|constrain|>json<|message|>", "<|message|>",
        "<|channel|>commentary <|constrain|>json<|message|>", "<|channel|>commentary<|message|>",
    };
    const qsf_gnode arguments = tg_form(w, QSF_TT_ARGUMENTS);
    if (w->f->style == QSF_TOOLS_CHANNELS) {
        qsf_gnode g = tg_text(w, heads[0]);
        for (size_t i = 1; i < QSF_ARRAY_LEN(heads); i++) g = tg_either(w, g, tg_text(w, heads[i]));
        return g;
    }
    if (!*w->f->text[QSF_TT_ID]) return arguments;
    const qsf_gnode id = tg_two(w, tg_form(w, QSF_TT_ID), tg_id(w));
    return tg_two(w, w->f->text[QSF_TT_ID][0] == ':' ? id : tg_maybe(w, id), arguments);
}

/* A call of one of the tools, without the text that opens it, but with the one that closes it. */
static qsf_gnode tg_calls(tg_work *w)
{
    const qsf_json_node *tools = w->ask->tools, *t = qsf_json_first(tools);
    qsf_gnode all = qsf_g_choice(w->b, NULL, 0);
    bool any = false;
    w->plain = all;
    for (uint32_t i = 0; i < tools->n; i++, t = qsf_json_next(t)) {
        const qsf_json_node *f = qsf_json_member(t, "function"), *name;
        if (!f) f = t;
        if (!(name = qsf_json_member(f, "name")) || name->type != QSF_JSON_TEXT || !name->n)
            return qsf_g_fail(w->b, QSF_E_ARGUMENT, "tools: tool %u has no name", (unsigned)i + 1);
        if (w->ask->only && !qsf_json_is_text(name, w->ask->only)) continue;
        any = true;
        w->parameters = qsf_json_member(f, "parameters");
        if (w->parameters && w->parameters->type != QSF_JSON_OBJECT) w->parameters = NULL;
        const qsf_gnode head = tg_two(w, qsf_g_bytes(w->b, name->text, name->n), tg_name_end(w));
        qsf_gnode g;
        switch (w->f->style) {
        case QSF_TOOLS_OBJECT: g = tg_object(w, name); break;
        case QSF_TOOLS_TAGS: g = tg_two(w, head, tg_tags(w, f)); break;
        case QSF_TOOLS_QUOTED: case QSF_TOOLS_PYTHON: {
            const bool python = w->f->style == QSF_TOOLS_PYTHON;
            const qsf_gnode parts[] = { head, qsf_g_bytes(w->b, python ? "(" : "{", 1),
                                        tg_pairs(w, f, python ? "=" : ":"),
                                        qsf_g_bytes(w->b, python ? ")" : "}", 1) };
            g = qsf_g_sequence(w->b, parts, 4);
            break;
        }
        default: g = tg_two(w, head, tg_json_arguments(w));
        }
        all = tg_either(w, all, g);
        if (w->bare) w->plain = tg_either(w, w->plain, tg_plain_object(w, name));
    }
    if (!any && w->ask->only)
        return qsf_g_fail(w->b, QSF_E_ARGUMENT, "tools: no tool is named \"%.80s\"", w->ask->only);
    if (!any) return qsf_g_fail(w->b, QSF_E_ARGUMENT, "tools: the list is empty");
    return tg_two(w, all, tg_form(w, QSF_TT_CLOSE));
}

/* ---- the answer ---- */

static void tg_after(tg_work *w, const char *a, const char *b, const char *c)
{
    qsf_text_put(&w->out->texts, a);
    qsf_text_put(&w->out->texts, b);
    qsf_text_put(&w->out->texts, c);
    qsf_text_add(&w->out->texts, "", 1);
    w->out->n_after++;
}

/* The texts that begin a call if no mark does: with each tool's name. */
static void tg_after_names(tg_work *w)
{
    const qsf_json_node *tools = w->ask->tools, *t = qsf_json_first(tools);
    const qsf_tool_form *f = w->f;
    char head[3 * QSF_TOOL_TEXT_MOST];
    for (uint32_t i = 0; i < tools->n; i++, t = qsf_json_next(t)) {
        const qsf_json_node *in = qsf_json_member(t, "function");
        const qsf_json_node *name = qsf_json_member(in ? in : t, "name");
        if (!name || (w->ask->only && !qsf_json_is_text(name, w->ask->only))) continue;
        if (f->style == QSF_TOOLS_OBJECT) {
            for (int blank = 0; blank < 2; blank++) {
                qsf_format(head, sizeof head, "{\"%s\":%s\"", f->text[QSF_TT_NAME_KEY], blank ? " " : "");
                tg_after(w, head, name->text, "\"");
            }
        } else {
            const char *end = f->style == QSF_TOOLS_PYTHON ? "(" : f->text[QSF_TT_ARGUMENTS];
            const char *section = qsf_tool_core(f->text[QSF_TT_SECTION]);
            qsf_format(head, sizeof head, "%s%s", section, f->text[QSF_TT_OPEN]);
            tg_after(w, qsf_tool_core(head), name->text, end);
            if (!*f->text[QSF_TT_PROMPT]) continue;
            qsf_format(head, sizeof head, "%s{", end);          /* the prompt ends with the mark */
            tg_after(w, "", name->text, head);
        }
    }
    w->out->with = true;
}

/* How many bytes of text are its first mark or word. */
static size_t tg_first(const tg_work *w, const char *text)
{
    bool ends;
    size_t n = tg_control(w, text, strlen(text), &ends);
    if (n) return n;
    while (text[n] && text[n] != '>' && !qsf_tool_blank(text[n])) n++;
    if (*text == '<' && text[n] == '>') return n + 1;
    for (n = 0; text[n] && text[n] != '<' && !qsf_tool_blank(text[n]);) n++;
    return n;
}

static qsf_gnode tg_reasoning(tg_work *w)
{
    const char *end = w->f->text[QSF_TT_REASONING_END];
    if (!w->f->reasoning_shown && !w->f->in_reasoning) return qsf_g_bytes(w->b, "", 0);
    const qsf_gnode parts[] = { w->f->in_reasoning ? qsf_g_bytes(w->b, "", 0)
                                                   : tg_text(w, qsf_tool_core(w->f->text[QSF_TT_REASONING])),
                                tg_without(w, end), tg_text(w, qsf_tool_core(end)), w->blanks, w->blanks };
    const qsf_gnode g = qsf_g_sequence(w->b, parts, 5);
    return w->f->in_reasoning ? g : tg_maybe(w, g);
}

static qsf_gnode tg_channels(tg_work *w, qsf_gnode calls)
{
    const qsf_gnode to = tg_either(w, tg_text(w, " to=functions."),
                                   tg_text(w, "<|channel|>commentary to=functions."));
    const qsf_gnode thought[] = { tg_text(w, "<|channel|>analysis<|message|>"), w->any,
                                  tg_text(w, "<|end|><|start|>assistant") };
    qsf_gnode parts[] = { tg_maybe(w, qsf_g_sequence(w->b, thought, 3)), tg_two(w, to, calls) };
    if (w->ask->shape && !w->ask->required) {
        const qsf_gnode final[] = { tg_text(w, "<|channel|>final"),
                                    tg_maybe(w, tg_text(w, " <|constrain|>json")), tg_text(w, "<|message|>"),
                                    w->ask->shape(w->ask->user, w->b) };
        parts[1] = tg_either(w, parts[1], qsf_g_sequence(w->b, final, 4));
    }
    if (w->ask->required || w->ask->shape) return qsf_g_sequence(w->b, parts, 2);
    tg_after(w, " to=functions.", "", "");
    return calls;
}

static qsf_gnode tg_answer(tg_work *w)
{
    const qsf_tool_form *f = w->f;
    char open[2 * QSF_TOOL_TEXT_MOST];
    const qsf_gnode call = w->ask->tools ? tg_calls(w) : qsf_g_choice(w->b, NULL, 0);
    const qsf_gnode end = tg_form(w, QSF_TT_SECTION_END);
    if (f->style == QSF_TOOLS_CHANNELS) return tg_channels(w, call);
    const qsf_gnode more[] = { tg_form(w, QSF_TT_BETWEEN), tg_form(w, QSF_TT_OPEN), call };
    const bool several = f->several && !w->ask->one;
    const qsf_gnode rest = several ? qsf_g_repeat(w->b, qsf_g_sequence(w->b, more, 3), 0, QSF_G_NO_MOST)
                                   : qsf_g_bytes(w->b, "", 0);
    const qsf_gnode calls = tg_two(w, tg_two(w, call, rest), end);
    qsf_format(open, sizeof open, "%s%s", f->text[QSF_TT_SECTION], f->text[QSF_TT_OPEN]);
    const char *head = qsf_tool_core(open), *begun = qsf_tool_core(f->text[QSF_TT_PROMPT]);
    const size_t n = strlen(begun);
    const qsf_gnode whole = tg_two(w, tg_text(w, head), calls);
    const qsf_gnode begin = n && !strncmp(head, begun, n) ? tg_two(w, tg_text(w, head + n), calls) : whole;
    if (w->ask->required) return tg_two(w, tg_reasoning(w), begin);
    if (w->ask->shape) {
        const qsf_gnode shape = w->ask->shape(w->ask->user, w->b);
        return tg_two(w, tg_reasoning(w), tg_either(w, tg_either(w, whole, begin), shape));
    }
    if (n || strlen(head) < 3) {
        tg_after_names(w);
        return tg_either(w, whole, begin);
    }
    const size_t first = tg_first(w, head);
    qsf_text_add(&w->out->texts, head, first);
    qsf_text_add(&w->out->texts, "", 1);
    w->out->n_after = 1;
    const qsf_gnode marked = tg_two(w, tg_text(w, head + first), calls);
    if (!w->bare || f->in_reasoning) return marked;
    qsf_tools_plain_begins(w->ask, w->out);
    return tg_either(w, tg_two(w, qsf_g_bytes(w->b, head, first), marked),
                     qsf_tools_plain_answer(w->b, w->plain, w->any, several));
}

/* One attempt, with the tools' current schemas. */
static qsf_status tg_make_with(const qsf_tool_grammar_ask *ask, const qsf_schema_options *how, bool bare,
                               qsf_tool_grammar *out, qsf_error *err)
{
    static const uint32_t blank[][2] = { { '\n', '\n' }, { ' ', ' ' } };
    tg_work w = { .ask = ask, .f = ask->form, .out = out, .err = err, .schema = *how,
                  .bare = bare };
    *out = (qsf_tool_grammar){ .texts.platform = ask->platform };
    qsf_status st = qsf_grammar_begin(ask->platform, &w.b, err);
    if (st) return st;
    qsf_grammar_limit(w.b, ask->most_memory);
    w.blanks = qsf_g_repeat(w.b, qsf_g_class(w.b, blank, 2, false), 0, w.schema.blanks);
    w.any = qsf_g_repeat(w.b, qsf_g_class(w.b, NULL, 0, true), 0, QSF_G_NO_MOST);
    const qsf_gnode root = tg_answer(&w);
    st = qsf_grammar_finish(w.b, root, &out->grammar, err);
    if (!st && (out->n_after = out->texts.failed ? 0 : out->n_after)) {
        out->cap_after = out->n_after;
        out->after = qsf_alloc_array(ask->platform, out->cap_after, sizeof *out->after, "grammar of calls",
                                     err);
        const char *at = out->texts.at;
        for (size_t i = 0; out->after && i < out->n_after; i++, at += strlen(at) + 1) out->after[i] = at;
    }
    if (!st && (out->texts.failed || (out->n_after && !out->after))) st = QSF_E_MEMORY;
    if (st) qsf_tool_grammar_drop(out);
    return st;
}

/* Calls without marks double the grammar: they are left out before a schema is loosened. */
static qsf_status tg_make(const qsf_tool_grammar_ask *ask, const qsf_schema_options *how,
                          qsf_tool_grammar *out, qsf_error *err)
{
    const bool may = ask->tools && !ask->required && !ask->shape && ask->form->style != QSF_TOOLS_CHANNELS;
    const qsf_status st = may ? tg_make_with(ask, how, true, out, err) : QSF_OK;
    return may && (!st || st == QSF_E_MEMORY) ? st : tg_make_with(ask, how, false, out, err);
}

qsf_status qsf_tool_grammar_make(const qsf_tool_grammar_ask *ask, qsf_tool_grammar *out, qsf_error *err)
{
    const char *between = ask->form->text[QSF_TT_SECTION];
    const qsf_schema_options how = { .size = sizeof how, .what = "tools", .closed = true,
                                     .blanks = strstr(between, "\n ") ? TG_BLANKS : 1 };
    qsf_text said = { .platform = ask->platform };
    *out = (qsf_tool_grammar){ 0 };
    if (ask->tools && ask->tools->type != QSF_JSON_LIST)
        return qsf_fail(err, QSF_E_ARGUMENT, "tools: a list of tools is expected");
    qsf_status st = tg_make(ask, &how, out, err);
    for (bool first = true; st && st != QSF_E_MEMORY; first = false) {
        const bool less = first ? qsf_tools_loosen(ask, &how, &said)
                                : st == QSF_E_BUDGET && qsf_tools_open_largest(ask, &said);
        if (!less && !(first && st == QSF_E_BUDGET)) break;
        st = tg_make(ask, &how, out, err);
    }
    if (!st && said.failed) st = qsf_fail(err, QSF_E_MEMORY, "grammar of calls: out of memory");
    if (st) {
        qsf_tool_grammar_drop(out);
        qsf_text_drop(&said);
    } else {
        out->said = said;
    }
    return st;
}

void qsf_tool_grammar_drop(qsf_tool_grammar *g)
{
    qsf_grammar_drop(g->grammar);
    if (g->after) qsf_dealloc(g->texts.platform, g->after, g->cap_after * sizeof *g->after);
    if (g->texts.platform) qsf_text_drop(&g->texts);
    if (g->said.platform) qsf_text_drop(&g->said);
    *g = (qsf_tool_grammar){ 0 };
}
