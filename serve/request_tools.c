/* Tools of a request, and the tool choice.
 * SPDX-License-Identifier: MIT
 *
 * The model sees functions.  Tools that a client runs and that take one string ("custom") become
 * functions of that string, those of a namespace functions whose name begins with it, and tools
 * that the server would have to run are left out.  r->renamed has what answers turn back. */
#include "request_own.h"

#include <stdio.h>
#include <string.h>

/* ---- one tool ---- */

/* What an interface calls the parts of a tool. */
typedef struct tool_parts {
    yyjson_val *name, *description, *parameters, *strict;
    yyjson_val *format;                     /* of a custom tool */
    const char *seen;                       /* the name that the model sees */
    const char *space;
    bool        custom, as_given;           /* as_given: already in the form that templates know */
} tool_parts;

typedef struct tool_list {
    serve_request *r;
    serve_error   *e;
    yyjson_val    *allowed;                 /* NULL: all */
    serve_text     all;
    size_t         n;
} tool_list;

static bool tool_refuse(serve_error *e, size_t place, const char *why)
{
    return serve_refuse(e, 400, "invalid_value", "tools", "tools[%zu]%s", place, why);
}

const char *request_spaced(serve_request *r, const char *space, const char *name, serve_error *e)
{
    serve_text all = { 0 };
    const size_t n = strlen(space);
    if (strncmp(name, space, n) || !name[n]) {
        text_str(&all, space);
        text_str(&all, n && strchr("_.-/:", space[n - 1]) ? "" : "__");
    }
    text_str(&all, name);
    return request_keep(r, &all, e);
}

/* The object with the tool's members: {"function": {...}} in a chat, {"custom": {...}}, or the tool
 * itself. */
static yyjson_val *tool_inner(yyjson_val *v)
{
    yyjson_val *f = yyjson_obj_get(v, "function"), *custom = yyjson_obj_get(v, "custom");
    return yyjson_is_obj(f) ? f : yyjson_is_obj(custom) ? custom : v;
}

/* Whether the server would have to run the tool: it is not a function and cannot become one. */
static bool tool_hosted(yyjson_val *v)
{
    const char *type = yyjson_get_str(yyjson_obj_get(v, "type"));
    yyjson_val *in = tool_inner(v);
    if (!type || !strcmp(type, "function") || !strcmp(type, "custom")) return false;
    const bool schema = yyjson_is_obj(yyjson_obj_get(in, "parameters"))
        || yyjson_is_obj(yyjson_obj_get(in, "input_schema"));
    return !yyjson_is_str(yyjson_obj_get(in, "name")) || !schema;
}

static bool tool_read(tool_list *l, yyjson_val *v, size_t place, const char *space, tool_parts *out)
{
    serve_error *e = l->e;
    const char *type = yyjson_get_str(yyjson_obj_get(v, "type"));
    if (!yyjson_is_obj(v)) return tool_refuse(e, place, " must be an object");
    yyjson_val *in = tool_inner(v), *schema = yyjson_obj_get(in, "parameters");
    if (!schema || yyjson_is_null(schema)) schema = yyjson_obj_get(in, "input_schema");
    *out = (tool_parts){
        .name = yyjson_obj_get(in, "name"), .description = yyjson_obj_get(in, "description"),
        .parameters = schema, .strict = yyjson_obj_get(in, "strict"), .format = yyjson_obj_get(in, "format"),
        .space = space, .custom = l->r->api != API_MESSAGES && type && !strcmp(type, "custom"),
    };
    const char *name = yyjson_get_str(out->name);
    out->as_given = l->r->api & (API_CHAT | API_TEMPLATE) && in != v && !space && !out->custom && type
        && !strcmp(type, "function");
    if (!name || !*name || strlen(name) != yyjson_get_len(out->name) || strlen(name) > 256)
        return tool_refuse(e, place, " has to have a name, of at most 256 bytes");
    if (out->description && !yyjson_is_null(out->description) && !yyjson_is_str(out->description))
        return tool_refuse(e, place, " has a description that is not a string");
    if (schema && !yyjson_is_null(schema) && !yyjson_is_obj(schema))
        return tool_refuse(e, place, " has parameters that are not an object");
    if (out->strict && !yyjson_is_null(out->strict) && !yyjson_is_bool(out->strict))
        return tool_refuse(e, place, " has a \"strict\" that is neither true nor false");
    return (out->seen = space ? request_spaced(l->r, space, name, e) : name) != NULL;
}

/* ---- writing a tool ---- */

/* {"grammar": {"syntax": ..., "definition": ...}}, or the inner object alone. */
static const char *custom_grammar(const tool_parts *t, const char **syntax)
{
    yyjson_val *in = yyjson_obj_get(t->format, "grammar");
    if (!yyjson_is_obj(in)) in = t->format;
    *syntax = yyjson_get_str(yyjson_obj_get(in, "syntax"));
    const char *text = yyjson_get_str(yyjson_obj_get(in, "definition"));
    return text && *syntax && *text ? text : NULL;
}

/* The parameters of a custom tool: one string, limited by its regular expression or grammar if
 * any. */
static void custom_parameters(serve_text *out, const tool_parts *t)
{
    const char *syntax, *grammar = custom_grammar(t, &syntax);
    text_str(out, "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"");
    if (grammar && !strcmp(syntax, "regex")) {
        serve_text pattern = { 0 };
        text_format(&pattern, "^(?:%s)$", grammar);
        text_str(out, ",\"pattern\":");
        text_json_str(out, pattern.bytes ? pattern.bytes : "");
        out->failed |= pattern.failed;
        text_free(&pattern);
    } else if (grammar && (!strcmp(syntax, "lark") || !strcmp(syntax, "gbnf"))) {
        text_str(out, ",\"x-grammar\":");
        text_json_str(out, grammar);
    }
    text_str(out, "}},\"required\":[\"input\"],\"additionalProperties\":false}");
}

/* The description; for a custom tool with its input's grammar, which the model has to know. */
static void tool_description(serve_text *out, const tool_parts *t)
{
    const char *syntax, *grammar = t->custom ? custom_grammar(t, &syntax) : NULL;
    serve_text all = { 0 };
    if (yyjson_is_str(t->description)) text_add(&all, yyjson_get_str(t->description),
                                                yyjson_get_len(t->description));
    if (grammar)
        text_format(&all, "%sThe input has this form (%s):\n%s", all.len ? "\n\n" : "", syntax, grammar);
    if (all.len) {
        text_str(out, ",\"description\":");
        text_json(out, all.bytes, all.len);
    }
    out->failed |= all.failed;
    text_free(&all);
}

static void tool_write(serve_text *out, const tool_parts *t)
{
    text_str(out, out->len > 1 ? "," : "");
    text_str(out, "{\"type\":\"function\",\"function\":{\"name\":");
    text_json_str(out, t->seen);
    tool_description(out, t);
    if (t->custom) {
        text_str(out, ",\"parameters\":");
        custom_parameters(out, t);
    } else if (yyjson_is_obj(t->parameters)) {
        text_str(out, ",\"parameters\":");
        request_json(out, t->parameters);
    }
    if (yyjson_is_true(t->strict)) text_str(out, ",\"strict\":true");
    text_str(out, "}}");
}

/* ---- all of them ---- */

/* Whether "allowed_tools" contains the tool. */
static bool tool_allowed(const tool_list *l, const tool_parts *t)
{
    size_t i, n;
    yyjson_val *v;
    if (!l->allowed) return true;
    yyjson_arr_foreach(l->allowed, i, n, v) {
        const char *name = yyjson_get_str(yyjson_obj_get(tool_inner(v), "name"));
        if (name && (!strcmp(name, t->seen) || !strcmp(name, yyjson_get_str(t->name)))) return true;
    }
    return false;
}

static bool tool_rename(tool_list *l, const tool_parts *t)
{
    serve_request *r = l->r;
    if (!t->custom && !t->space) return true;
    if (!r->renamed && !(r->renamed = request_alloc(r, SERVE_TOOLS, sizeof *r->renamed, l->e))) return false;
    r->renamed[r->n_renamed++] = (serve_tool){ .seen = t->seen, .name = yyjson_get_str(t->name),
                                               .space = t->space, .custom = t->custom };
    return true;
}

static bool tool_add(tool_list *l, yyjson_val *v, size_t place, const char *space)
{
    tool_parts t = { 0 };
    if (tool_hosted(v))
        return request_ignore(l->r, "tools", yyjson_get_str(yyjson_obj_get(v, "type")), l->e);
    if (!tool_read(l, v, place, space, &t)) return false;
    if (!tool_allowed(l, &t)) return true;
    if (l->n == SERVE_TOOLS)
        return serve_refuse(l->e, 400, "array_above_max_length", "tools", "more than %d tools", SERVE_TOOLS);
    /* Templates for OpenAI's format get the tool unchanged. */
    if (t.as_given) {
        text_str(&l->all, l->n ? "," : "");
        request_json(&l->all, v);
    } else {
        tool_write(&l->all, &t);
    }
    l->n++;
    return tool_rename(l, &t);
}

/* {"type": "namespace", "name": ..., "tools": [...]} */
static bool tools_space(tool_list *l, yyjson_val *v, size_t place)
{
    const char *space = request_text(yyjson_obj_get(v, "name"), "tools", l->e);
    yyjson_val *list = yyjson_obj_get(v, "tools"), *tool;
    size_t i, n;
    if (!space) return false;
    if (strlen(space) > 128) return tool_refuse(l->e, place, " has a name of more than 128 bytes");
    if (yyjson_is_arr(list)) yyjson_arr_foreach(list, i, n, tool)
        if (!tool_add(l, tool, place, space)) return false;
    return true;
}

static bool tools_write(tool_list *l, yyjson_val *list)
{
    size_t i, n;
    yyjson_val *v;
    text_str(&l->all, "[");
    yyjson_arr_foreach(list, i, n, v) {
        const bool space = yyjson_equals_str(yyjson_obj_get(v, "type"), "namespace");
        if (!(space ? tools_space(l, v, i) : tool_add(l, v, i, NULL))) return false;
    }
    text_str(&l->all, "]");
    return !l->n || (l->r->tools = request_keep(l->r, &l->all, l->e));
}

static bool tools_list(serve_request *r, yyjson_val *list, yyjson_val *allowed, serve_error *e)
{
    tool_list l = { .r = r, .e = e, .allowed = allowed };
    if (!yyjson_is_arr(list)) return request_wrong_type(e, "tools", "a list of tools", list);
    if (yyjson_arr_size(list) > SERVE_TOOLS)
        return serve_refuse(e, 400, "array_above_max_length", "tools", "%zu tools; the maximum is %d",
                            yyjson_arr_size(list), SERVE_TOOLS);
    const bool ok = tools_write(&l, list);
    text_free(&l.all);
    return ok;
}

/* ---- tool choice ---- */

static const char choice_wrong[] = "\"auto\", \"none\", \"required\" or an object that names a tool";

/* Maps an API's word to the library's; NULL: unknown. */
static const char *choice_word(const char *word)
{
    static const char *const words[][2] = { { "auto", "auto" }, { "none", "none" }, { "any", "required" },
                                            { "required", "required" }, { "validated", "auto" } };
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++)
        if (!strcmp(word, words[i][0])) return words[i][1];
    return NULL;
}

/* The list of {"type": "allowed_tools"}; in a chat it is inside an object of the same name.  *mode:
 * its mode. */
static yyjson_val *choice_allowed(yyjson_val *choice, const char **mode)
{
    if (!yyjson_equals_str(yyjson_obj_get(choice, "type"), "allowed_tools")) return NULL;
    yyjson_val *in = yyjson_obj_get(choice, "allowed_tools");
    if (!yyjson_is_obj(in)) in = choice;
    *mode = choice_word(yyjson_get_str(yyjson_obj_get(in, "mode")));
    yyjson_val *list = yyjson_obj_get(in, "tools");
    return yyjson_is_arr(list) ? list : NULL;
}

/* The name under which the model sees the tool that the object names; "": it names none. */
static const char *choice_name(serve_request *r, yyjson_val *v, serve_error *e)
{
    yyjson_val *name = yyjson_obj_get(tool_inner(v), "name");
    const char *space = yyjson_get_str(yyjson_obj_get(v, "namespace"));
    if (!name) return "";
    const char *word = request_text(name, "tool_choice", e);
    if (word && space && *space) return request_spaced(r, space, word, e);
    for (size_t i = 0; word && i < r->n_renamed; i++)
        if (!strcmp(r->renamed[i].name, word)) return r->renamed[i].seen;
    return word;
}

/* The choice in the library's terms; NULL: refused. */
static const char *tools_choice(serve_request *r, yyjson_val *v, serve_error *e)
{
    yyjson_val *type = yyjson_obj_get(v, "type"), *one = yyjson_obj_get(v, "disable_parallel_tool_use");
    const char *word, *mode = NULL;
    if (!v || (request_is_empty(v) && !yyjson_is_false(v))) return "auto";
    if (yyjson_is_bool(one)) r->parallel = !yyjson_get_bool(one);
    else if (one && !yyjson_is_null(one))
        return request_wrong_type(e, "tool_choice.disable_parallel_tool_use", "true or false", one), NULL;
    if ((word = choice_word(yyjson_is_str(v) ? yyjson_get_str(v) : yyjson_get_str(type)))) return word;
    if (!yyjson_is_obj(v)) return request_wrong_type(e, "tool_choice", choice_wrong, v), NULL;
    if (choice_allowed(v, &mode)) return mode ? mode : "auto";
    word = choice_name(r, v, e);
    if (word && *word) return word;
    if (!word) return NULL;
    if (!yyjson_is_str(type) || yyjson_equals_str(type, "function") || yyjson_equals_str(type, "tool")
        || yyjson_equals_str(type, "custom"))
        return serve_refuse(e, 400, "invalid_value", "tool_choice", "\"tool_choice\" must be %s",
                            choice_wrong), NULL;
    /* The server does not run hosted tools, so choosing one has no effect. */
    return request_ignore(r, NULL, "tool_choice", e) ? "auto" : NULL;
}

static bool tools_have(yyjson_val *tools, const serve_request *r, const char *name)
{
    size_t i, n;
    yyjson_val *v;
    for (i = 0; i < r->n_renamed; i++) if (!strcmp(r->renamed[i].seen, name)) return true;
    if (yyjson_is_arr(tools)) yyjson_arr_foreach(tools, i, n, v)
        if (yyjson_equals_str(yyjson_obj_get(tool_inner(v), "name"), name)) return true;
    return false;
}

bool request_tools(serve_request *r, yyjson_val *root, serve_error *e)
{
    yyjson_val *list = request_field(r, root, "tools"), *choice = request_field(r, root, "tool_choice");
    yyjson_val *old = request_field(r, root, "functions");
    const char *mode;
    if ((!list || request_is_empty(list)) && old && !request_is_empty(old)) {
        list = old;
        choice = request_field(r, root, "function_call");
        r->legacy_calls = true;
        r->parallel = false;
    }
    const bool given = list && !request_is_empty(list);
    if (given && !tools_list(r, list, choice_allowed(choice, &mode), e)) return false;
    if (!(r->tool_choice = tools_choice(r, choice, e))) return false;
    const bool required = !strcmp(r->tool_choice, "required");
    if (!strcmp(r->tool_choice, "auto") || !strcmp(r->tool_choice, "none")) return true;
    if (given && required && !r->tools) {               /* all were left out, which is reported */
        r->tool_choice = "auto";
        return true;
    }
    if (given && required) return true;
    if (!given)
        return serve_refuse(e, 400, "invalid_value", "tool_choice", "\"tool_choice\" asks for a tool, but "
                            "the request has none");
    return tools_have(list, r, r->tool_choice)
        || serve_refuse(e, 400, "invalid_value", "tool_choice", "no tool is named \"%.80s\"", r->tool_choice);
}
