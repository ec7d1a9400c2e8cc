/* The chat template's variables that a request sets: reasoning, effort and others.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <string.h>

static void kwargs_add(serve_text *out, yyjson_val *given, const char *name, const char *json)
{
    if (yyjson_obj_get(given, name)) return;            /* the request's own value wins */
    text_str(out, out->len > 1 ? "," : "");
    text_json_str(out, name);
    text_format(out, ":%s", json);
}

static void kwargs_add_text(serve_text *out, yyjson_val *given, const char *name, const char *text)
{
    serve_text json = { 0 };
    text_json_str(&json, text);
    kwargs_add(out, given, name, json.bytes ? json.bytes : "null");
    out->failed |= json.failed;
    text_free(&json);
}

static void kwargs_add_value(serve_text *out, yyjson_val *given, const char *name, yyjson_val *v)
{
    serve_text json = { 0 };
    request_json(&json, v);
    kwargs_add(out, given, name, json.bytes ? json.bytes : "null");
    out->failed |= json.failed;
    text_free(&json);
}

/* ---- reasoning ---- */

typedef struct kwargs_reasoning {
    int         on;                     /* 1, 0; -1: not set */
    const char *effort;                 /* NULL: not set */
} kwargs_reasoning;

static void effort_set(kwargs_reasoning *k, const char *word)
{
    if (!*word) return;
    k->effort = word;
    if (!strcmp(word, "none")) k->on = 0;
}

/* true, false or a level, as in Ollama's API. */
static bool reasoning_think(kwargs_reasoning *k, yyjson_val *v, const char *name, serve_error *e)
{
    if (yyjson_is_bool(v)) k->on = yyjson_get_bool(v);
    else if (!yyjson_is_str(v)) return request_wrong_type(e, name, "true, false or a level", v);
    else effort_set(k, yyjson_get_str(v));
    return true;
}

/* {"type": "enabled" | "adaptive" | "disabled" | ..., "budget_tokens": N} */
static bool reasoning_thinking(serve_request *r, kwargs_reasoning *k, yyjson_val *v, serve_error *e)
{
    int64_t most = 0;
    yyjson_val *budget = yyjson_obj_get(v, "budget_tokens");
    yyjson_val *type = yyjson_obj_get(v, "type");
    const char *word = yyjson_is_str(v) ? yyjson_get_str(v) : yyjson_get_str(type);
    if (yyjson_is_bool(v)) k->on = yyjson_get_bool(v);
    else if (!yyjson_is_obj(v) && !word) return request_wrong_type(e, "thinking", "an object", v);
    else if (type && !yyjson_is_str(type)) return request_wrong_type(e, "thinking.type", "a string", type);
    else if (word || yyjson_obj_size(v))
        k->on = !word || (strcmp(word, "disabled") && strcmp(word, "none") && strcmp(word, "off"));
    if (!budget || yyjson_is_null(budget)) return true;
    if (!request_whole(budget, &most))
        return request_wrong_type(e, "thinking.budget_tokens", "a whole number", budget);
    r->reasoning_budget = most < 0 ? -1 : most;
    return true;
}

/* "reasoning" of /v1/responses, "output_config" of /v1/messages. */
static bool reasoning_within(serve_request *r, kwargs_reasoning *k, yyjson_val *v, const char *name,
                             serve_error *e)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(v)) return request_wrong_type(e, name, "an object", v);
    yyjson_obj_foreach(v, i, n, key, value) {
        const char *part = unsafe_yyjson_get_str(key);
        if (!strcmp(part, "effort") && !yyjson_is_null(value)) {
            const char *word = request_text(value, name, e);
            if (!word) return false;
            effort_set(k, word);
        } else if (!strcmp(part, "enabled") && yyjson_is_bool(value)) {
            k->on = yyjson_get_bool(value);
        } else if (strcmp(part, "summary") && strcmp(part, "generate_summary") && strcmp(part, "format")
                   && !request_is_empty(value) && !request_ignore(r, name, part, e)) {
            return false;
        }
    }
    return true;
}

static bool reasoning_read(serve_request *r, yyjson_val *root, kwargs_reasoning *k, serve_error *e)
{
    static const char *const objects[] = { "reasoning", "output_config" };
    yyjson_val *v;
    *k = (kwargs_reasoning){ .on = -1 };
    if ((v = request_field(r, root, "thinking")) && !reasoning_thinking(r, k, v, e)) return false;
    if ((v = request_field(r, root, "think")) && !reasoning_think(k, v, "think", e)) return false;
    for (int i = 0; i < 2; i++)
        if ((v = request_field(r, root, objects[i])) && !reasoning_within(r, k, v, objects[i], e))
            return false;
    if ((v = request_field(r, root, "reasoning_effort"))) {
        const char *word = request_text(v, "reasoning_effort", e);
        if (!word) return false;
        effort_set(k, word);
    }
    if ((v = request_field(r, root, "enable_thinking"))) {
        if (!yyjson_is_bool(v)) return request_wrong_type(e, "enable_thinking", "true or false", v);
        k->on = yyjson_get_bool(v);
    }
    /* Templates know levels up to "high"; Anthropic's API has higher ones. */
    if (k->effort && r->api == API_MESSAGES && (!strcmp(k->effort, "xhigh") || !strcmp(k->effort, "max")))
        k->effort = "high";
    return true;
}

/* ---- all variables ---- */

/* The wanted length of the answer; in /v1/responses a member of "text". */
static bool kwargs_verbosity(serve_request *r, yyjson_val *root, yyjson_val *given, serve_text *out,
                             serve_error *e)
{
    yyjson_val *v = request_field(r, root, "verbosity");
    if (!v) v = yyjson_obj_get(request_field(r, root, "text"), "verbosity");
    if (!v || yyjson_is_null(v)) return true;
    const char *word = request_text(v, "verbosity", e);
    if (word) kwargs_add_text(out, given, "verbosity", word);
    return word != NULL;
}

static bool kwargs_write(serve_request *r, yyjson_val *root, yyjson_val *given, serve_text *out,
                         serve_error *e)
{
    yyjson_val *documents = request_field(r, root, "documents"), *key, *value;
    size_t i, n;
    kwargs_reasoning k;
    if (!reasoning_read(r, root, &k, e)) return false;
    text_str(out, "{");
    if (given) yyjson_obj_foreach(given, i, n, key, value)
        kwargs_add_value(out, NULL, unsafe_yyjson_get_str(key), value);
    if (!kwargs_verbosity(r, root, given, out, e)) return false;
    if (k.effort) kwargs_add_text(out, given, "reasoning_effort", k.effort);
    if (k.on >= 0) kwargs_add(out, given, "enable_thinking", k.on ? "true" : "false");
    if (k.on >= 0) kwargs_add(out, given, "thinking", k.on ? "true" : "false");
    if (yyjson_arr_size(documents)) kwargs_add_value(out, given, "documents", documents);
    text_str(out, "}");
    return true;
}

bool request_kwargs(serve_request *r, yyjson_val *root, serve_error *e)
{
    yyjson_val *given = request_field(r, root, "chat_template_kwargs");
    serve_text out = { 0 };
    if (given && !yyjson_is_obj(given))
        return request_wrong_type(e, "chat_template_kwargs", "an object", given);
    if (yyjson_obj_size(given) > SERVE_VARIABLES)
        return serve_refuse(e, 400, "array_above_max_length", "chat_template_kwargs",
                            "\"chat_template_kwargs\" has %zu variables; the maximum is %d",
                            yyjson_obj_size(given), SERVE_VARIABLES);
    if (kwargs_write(r, root, given, &out, e) && (out.len > 2 || out.failed))
        return (r->kwargs = request_keep(r, &out, e)) != NULL;
    text_free(&out);
    return !e->status;
}
