/* What the answer of a request has to be: response_format and its like, as each server names them.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <stdio.h>
#include <string.h>

/* Sets the shape; only one field may do so. */
static bool shape_set(serve_request *r, qsf_grammar_kind kind, const char *text, size_t len,
                      const char *param, serve_error *e)
{
    if (!text) return false;
    if (r->shape.text.text)
        return serve_refuse(e, 400, "invalid_value", param, "\"%s\" cannot be combined with \"%s\"", param,
                            r->shape.param);
    r->shape = (serve_shape){ .kind = kind, .text = { text, len }, .strict = true, .param = param };
    return true;
}

/* A shape whose source is a string. */
static bool shape_text(serve_request *r, qsf_grammar_kind kind, yyjson_val *v, const char *param,
                       serve_error *e)
{
    if (!yyjson_is_str(v)) return request_wrong_type(e, param, "a string", v);
    return shape_set(r, kind, yyjson_get_str(v), yyjson_get_len(v), param, e);
}

/* A schema, or a list of choices: JSON. */
static bool shape_json(serve_request *r, qsf_grammar_kind kind, yyjson_val *v, const char *param,
                       serve_error *e)
{
    serve_text json = { 0 };
    request_json(&json, v);
    const size_t len = json.len;
    return shape_set(r, kind, request_keep(r, &json, e), len, param, e);
}

static bool shape_schema(serve_request *r, yyjson_val *v, const char *param, serve_error *e)
{
    if (yyjson_is_str(v)) return shape_text(r, QSF_GRAMMAR_JSON_SCHEMA, v, param, e);
    if (!yyjson_is_obj(v) && !yyjson_is_bool(v)) return request_wrong_type(e, param, "a JSON Schema", v);
    return shape_json(r, QSF_GRAMMAR_JSON_SCHEMA, v, param, e);
}

static bool shape_choices(serve_request *r, yyjson_val *v, const char *param, serve_error *e)
{
    size_t i, n;
    yyjson_val *text;
    if (!yyjson_is_arr(v) || !yyjson_arr_size(v)) return request_wrong_type(e, param, "a list of strings", v);
    yyjson_arr_foreach(v, i, n, text)
        if (!yyjson_is_str(text)) return request_wrong_type(e, param, "a list of strings", text);
    return shape_json(r, QSF_GRAMMAR_CHOICES, v, param, e);
}

static bool shape_object(serve_request *r, const char *param, serve_error *e)
{
    static const char any[] = "{\"type\":\"object\"}";
    return shape_set(r, QSF_GRAMMAR_JSON_SCHEMA, any, sizeof any - 1, param, e);
}

/* {"type": ...} of OpenAI's interface and of ours. */
static bool shape_format(serve_request *r, yyjson_val *v, const char *param, serve_error *e)
{
    const char *type = yyjson_get_str(yyjson_obj_get(v, "type"));
    yyjson_val *in = yyjson_obj_get(v, "json_schema"), *schema = yyjson_obj_get(in ? in : v, "schema");
    yyjson_val *strict = yyjson_obj_get(in ? in : v, "strict");
    if (!yyjson_is_obj(v)) return request_wrong_type(e, param, "an object", v);
    if (!type) return request_wrong_type(e, param, "an object with a type", yyjson_obj_get(v, "type"));
    if (!strcmp(type, "text")) return true;
    if (!strcmp(type, "regex")) return shape_text(r, QSF_GRAMMAR_REGEX, yyjson_obj_get(v, type), param, e);
    if (!strcmp(type, "grammar")) return shape_text(r, QSF_GRAMMAR_GBNF, yyjson_obj_get(v, type), param, e);
    if (!strcmp(type, "choices")) return shape_choices(r, yyjson_obj_get(v, type), param, e);
    if (strcmp(type, "json_object") && strcmp(type, "json_schema"))
        return serve_refuse(e, 400, "unsupported_parameter", param, "\"%s\" has the type \"%.40s\", which is "
                            "not supported here", param, type);
    if (!strcmp(type, "json_object") && !schema) return shape_object(r, param, e);
    if (!schema) return serve_refuse(e, 400, "missing_required_parameter", param, "\"%s\" has no schema",
                                     param);
    if (strict && !yyjson_is_null(strict) && !yyjson_is_bool(strict))
        return request_wrong_type(e, param, "one whose \"strict\" is true or false", strict);
    if (!shape_schema(r, schema, param, e)) return false;
    r->shape.strict = yyjson_is_true(strict) || !strcmp(type, "json_object");
    return true;
}

/* "text" of /v1/responses, "output_config" of /v1/messages. */
static bool shape_within(serve_request *r, yyjson_val *v, const char *param, serve_error *e)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(v)) return request_wrong_type(e, param, "an object", v);
    yyjson_obj_foreach(v, i, n, key, value) {
        const char *name = unsafe_yyjson_get_str(key);
        if (request_is_empty(value)) continue;
        if (!strcmp(name, "format") ? !shape_format(r, value, param, e)
            : strcmp(name, "verbosity") && strcmp(name, "effort") && !request_ignore(r, param, name, e))
            return false;
    }
    return true;
}

static bool shape_regex(serve_request *r, yyjson_val *v, const char *param, serve_error *e)
{
    return shape_text(r, QSF_GRAMMAR_REGEX, v, param, e);
}
static bool shape_gbnf(serve_request *r, yyjson_val *v, const char *param, serve_error *e)
{
    if (yyjson_equals_str(v, "")) return true;      /* how llama-server's clients send "no grammar" */
    return shape_text(r, QSF_GRAMMAR_GBNF, v, param, e);
}

typedef struct shape_field {
    const char *name;
    bool (*take)(serve_request *r, yyjson_val *v, const char *param, serve_error *e);
} shape_field;

/* {"json": ..., "regex": ...} as vLLM has it. */
static bool shape_structured(serve_request *r, yyjson_val *v, const char *param, serve_error *e)
{
    static const shape_field parts[] = { { "json", shape_schema }, { "regex", shape_regex },
                                         { "choice", shape_choices }, { "grammar", shape_gbnf } };
    size_t i, n;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(v)) return request_wrong_type(e, param, "an object", v);
    yyjson_obj_foreach(v, i, n, key, value) {
        const char *name = unsafe_yyjson_get_str(key);
        int k = 0;
        if (request_is_empty(value)) continue;
        while (k < 4 && strcmp(parts[k].name, name)) k++;
        if (!strcmp(name, "json_object")) {
            if (!shape_object(r, param, e)) return false;
        } else if (!strcmp(name, "structural_tag")) {
            return request_unsupported(e, param);
        } else if (k == 4) {
            if (!request_ignore(r, param, name, e)) return false;
        } else if (!parts[k].take(r, value, param, e)) {
            return false;
        }
    }
    return true;
}

bool request_shape(serve_request *r, yyjson_val *root, serve_error *e)
{
    static const shape_field all[] = {
        { "response_format", shape_format }, { "output_format", shape_format }, { "text", shape_within },
        { "output_config", shape_within }, { "grammar", shape_gbnf }, { "regex", shape_regex },
        { "choices", shape_choices }, { "json_schema", shape_schema }, { "guided_json", shape_schema },
        { "guided_regex", shape_regex }, { "guided_choice", shape_choices },
        { "guided_grammar", shape_gbnf }, { "structured_outputs", shape_structured },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        yyjson_val *v = request_field(r, root, all[i].name);
        if (v && !request_is_empty(v) && !all[i].take(r, v, all[i].name, e)) return false;
    }
    if (!r->shape.text.text) return true;
    if (r->beam_width > 1)
        return serve_refuse(e, 400, "unsupported_parameter", r->shape.param,
                            "\"%s\" cannot be combined with \"beam_width\"", r->shape.param);
    return true;
}
