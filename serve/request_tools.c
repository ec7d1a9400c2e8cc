/* Tools of a request, the choice among them, and what else its chat template is given.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <stdio.h>
#include <string.h>

/* ---- one tool ---- */

/* What an interface calls the parts of a tool. */
typedef struct tool_parts { yyjson_val *name, *description, *parameters, *strict; } tool_parts;

static bool tool_refuse(serve_error *e, size_t place, const char *why)
{
    return serve_refuse(e, 400, "invalid_value", "tools", "tools[%zu]%s", place, why);
}

static bool tool_read(const serve_request *r, yyjson_val *v, size_t place, tool_parts *out, serve_error *e)
{
    const char *type = yyjson_get_str(yyjson_obj_get(v, "type"));
    yyjson_val *in = v;
    if (!yyjson_is_obj(v)) return tool_refuse(e, place, " has to be an object");
    if (type && strcmp(type, r->api == API_MESSAGES ? "custom" : "function"))
        return serve_refuse(e, 400, "unsupported_parameter", "tools",
                            "tools[%zu] has the type \"%.40s\", which is not supported here", place, type);
    if (r->api & (API_CHAT | API_TEMPLATE) && !yyjson_is_obj(in = yyjson_obj_get(v, "function")))
        return tool_refuse(e, place, ".function has to be an object");
    *out = (tool_parts){
        .name = yyjson_obj_get(in, "name"), .description = yyjson_obj_get(in, "description"),
        .parameters = yyjson_obj_get(in, r->api == API_MESSAGES ? "input_schema" : "parameters"),
        .strict = yyjson_obj_get(in, "strict"),
    };
    const char *name = yyjson_get_str(out->name);
    if (!name || !*name || strlen(name) != yyjson_get_len(out->name) || strlen(name) > 256)
        return tool_refuse(e, place, " has to have a name, of at most 256 bytes");
    if (out->description && !yyjson_is_null(out->description) && !yyjson_is_str(out->description))
        return tool_refuse(e, place, " has a description that is no text");
    if (out->parameters && !yyjson_is_null(out->parameters) && !yyjson_is_obj(out->parameters))
        return tool_refuse(e, place, " has parameters that are no object");
    if (out->strict && !yyjson_is_null(out->strict) && !yyjson_is_bool(out->strict))
        return tool_refuse(e, place, " has a \"strict\" that is neither true nor false");
    return true;
}

static void tool_write(serve_text *out, const tool_parts *t, bool loose)
{
    text_str(out, out->len > 1 ? "," : "");
    text_str(out, "{\"type\":\"function\",\"function\":{\"name\":");
    text_json_str(out, yyjson_get_str(t->name));
    if (yyjson_is_str(t->description)) {
        text_str(out, ",\"description\":");
        request_json(out, t->description);
    }
    if (loose) {
        text_str(out, ",\"parameters\":{\"type\":\"object\"}");
    } else if (yyjson_is_obj(t->parameters)) {
        text_str(out, ",\"parameters\":");
        request_json(out, t->parameters);
    }
    text_str(out, "}}");
}

/* ---- all of them ---- */

static bool tools_list(serve_request *r, yyjson_val *list, serve_error *e)
{
    size_t i, n;
    yyjson_val *v;
    serve_text all = { 0 }, loose = { 0 };
    tool_parts t = { 0 };
    bool strict = false, ok = true;
    if (!yyjson_is_arr(list)) return request_wrong_type(e, "tools", "a list of tools", list);
    if (yyjson_arr_size(list) > SERVE_TOOLS)
        return serve_refuse(e, 400, "array_above_max_length", "tools", "%zu tools; %d are possible",
                            yyjson_arr_size(list), SERVE_TOOLS);
    text_str(&all, "[");
    text_str(&loose, "[");
    yyjson_arr_foreach(list, i, n, v) {
        if (!(ok = tool_read(r, v, i, &t, e))) break;
        /* A template of OpenAI's form sees the tool as it was given. */
        if (r->api & (API_CHAT | API_TEMPLATE)) {
            text_str(&all, i ? "," : "");
            request_json(&all, v);
        } else {
            tool_write(&all, &t, false);
        }
        tool_write(&loose, &t, true);
        strict |= yyjson_is_true(t.strict);
    }
    text_str(&all, "]");
    text_str(&loose, "]");
    if (ok) ok = (r->tools = request_keep(r, &all, e)) != NULL;
    if (ok && !strict) ok = (r->loose_tools = request_keep(r, &loose, e)) != NULL;
    text_free(&all);
    text_free(&loose);
    return ok;
}

static bool tools_have(yyjson_val *list, const char *name)
{
    size_t i, n;
    yyjson_val *v;
    if (list) yyjson_arr_foreach(list, i, n, v) {
        yyjson_val *f = yyjson_obj_get(v, "function");
        const char *own = yyjson_get_str(yyjson_obj_get(f ? f : v, "name"));
        if (own && !strcmp(own, name)) return true;
    }
    return false;
}

/* The choice as the library has it; NULL: refused. */
static const char *tools_choice(serve_request *r, yyjson_val *v, serve_error *e)
{
    static const char *const words[] = { "auto", "none", "required" };
    static const char wrong[] = "\"auto\", \"none\", \"required\" or an object that names a tool";
    const char *word = yyjson_get_str(v);
    if (!v || yyjson_is_null(v)) return words[0];
    if (r->api == API_MESSAGES) {
        yyjson_val *one = yyjson_obj_get(v, "disable_parallel_tool_use");
        word = yyjson_get_str(yyjson_obj_get(v, "type"));
        if (word && !strcmp(word, "any")) word = words[2];
        if (one && !yyjson_is_bool(one))
            return request_wrong_type(e, "tool_choice.disable_parallel_tool_use", "true or false", one), NULL;
        if (one) r->parallel = !yyjson_get_bool(one);
    }
    for (int i = 0; word && i < 3; i++) if (!strcmp(word, words[i])) return words[i];
    if (!yyjson_is_obj(v)) return request_wrong_type(e, "tool_choice", wrong, v), NULL;
    word = yyjson_get_str(yyjson_obj_get(v, "type"));
    if (!word || strcmp(word, r->api == API_MESSAGES ? "tool" : "function"))
        return serve_refuse(e, 400, "unsupported_parameter", "tool_choice",
                            "\"tool_choice\" has to be %s", wrong), NULL;
    yyjson_val *f = yyjson_obj_get(v, "function");
    return request_text(yyjson_obj_get(f ? f : v, "name"), "tool_choice", e);
}

bool request_tools(serve_request *r, yyjson_val *root, serve_error *e)
{
    yyjson_val *list = yyjson_obj_get(root, "tools"), *choice = yyjson_obj_get(root, "tool_choice");
    const bool any = !request_is_empty(list) && list;
    if (any && !tools_list(r, list, e)) return false;
    if (!(r->tool_choice = tools_choice(r, choice, e))) return false;
    const bool free = !strcmp(r->tool_choice, "auto") || !strcmp(r->tool_choice, "none");
    if (free || (any && !strcmp(r->tool_choice, "required"))) return true;
    if (!any)
        return serve_refuse(e, 400, "invalid_value", "tool_choice", "\"tool_choice\" asks for a tool, and "
                            "there are none");
    return tools_have(list, r->tool_choice)
        || serve_refuse(e, 400, "invalid_value", "tool_choice", "there is no tool \"%.80s\"", r->tool_choice);
}

/* ---- the template's variables ---- */

static void kwargs_add(serve_text *out, const char *name, const char *json)
{
    text_str(out, out->len > 1 ? "," : "");
    text_json_str(out, name);
    text_format(out, ":%s", json);
}

/* Whether reasoning is wanted, by the fields that say so: 1, 0; -1: they do not; -2: refused. */
static int kwargs_thinking(const serve_request *r, yyjson_val *root, serve_error *e)
{
    yyjson_val *v = yyjson_obj_get(root, r->api == API_MESSAGES ? "thinking" : "enable_thinking");
    if (!v || yyjson_is_null(v)) return -1;
    if (r->api != API_MESSAGES) {
        if (yyjson_is_bool(v)) return yyjson_get_bool(v);
        return request_wrong_type(e, "enable_thinking", "true or false", v), -2;
    }
    const char *type = yyjson_get_str(yyjson_obj_get(v, "type"));
    if (!type) return request_wrong_type(e, "thinking.type", "a text", yyjson_obj_get(v, "type")), -2;
    return strcmp(type, "disabled") != 0;
}

/* How much of it, as a word; NULL: not said, or refused. */
static const char *kwargs_effort(const serve_request *r, yyjson_val *root, serve_error *e)
{
    yyjson_val *v = yyjson_obj_get(root, "reasoning_effort"), *key, *value;
    size_t i, n;
    if (r->api == API_RESPONSES) {
        yyjson_val *all = yyjson_obj_get(root, "reasoning");
        v = yyjson_obj_get(all, "effort");
        if (all && !yyjson_is_null(all) && !yyjson_is_obj(all))
            return request_wrong_type(e, "reasoning", "an object", all), NULL;
        if (all) yyjson_obj_foreach(all, i, n, key, value) {
            const char *name = unsafe_yyjson_get_str(key);
            if (strcmp(name, "effort") && strcmp(name, "summary") && strcmp(name, "generate_summary")
                && !request_is_empty(value)) return request_unsupported(e, "reasoning"), NULL;
        }
    }
    return v && !yyjson_is_null(v) ? request_text(v, "reasoning_effort", e) : NULL;
}

bool request_kwargs(serve_request *r, yyjson_val *root, serve_error *e)
{
    yyjson_val *given = yyjson_obj_get(root, "chat_template_kwargs"), *key, *value;
    size_t i, n;
    serve_text out = { 0 }, word = { 0 };
    if (given && !yyjson_is_null(given) && !yyjson_is_obj(given))
        return request_wrong_type(e, "chat_template_kwargs", "an object", given);
    if (yyjson_obj_size(given) > SERVE_VARIABLES)
        return serve_refuse(e, 400, "array_above_max_length", "chat_template_kwargs",
                            "\"chat_template_kwargs\" has %zu variables; %d are possible",
                            yyjson_obj_size(given), SERVE_VARIABLES);
    const char *effort = kwargs_effort(r, root, e);
    int thinking = kwargs_thinking(r, root, e);
    if (e->status) return false;
    if (effort && !strcmp(effort, "none")) thinking = 0;
    text_str(&out, "{");
    if (given) yyjson_obj_foreach(given, i, n, key, value) {
        serve_text json = { 0 };
        request_json(&json, value);
        kwargs_add(&out, unsafe_yyjson_get_str(key), json.bytes ? json.bytes : "null");
        text_free(&json);
    }
    if (effort && !yyjson_obj_get(given, "reasoning_effort")) {
        text_json_str(&word, effort);
        kwargs_add(&out, "reasoning_effort", word.bytes ? word.bytes : "null");
    }
    if (thinking >= 0 && !yyjson_obj_get(given, "enable_thinking"))
        kwargs_add(&out, "enable_thinking", thinking ? "true" : "false");
    if (thinking >= 0 && !yyjson_obj_get(given, "thinking"))
        kwargs_add(&out, "thinking", thinking ? "true" : "false");
    text_str(&out, "}");
    text_free(&word);
    if (out.len > 2 || out.failed) return (r->kwargs = request_keep(r, &out, e)) != NULL;
    text_free(&out);
    return true;
}
