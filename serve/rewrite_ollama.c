/* Rewrites bodies of Ollama's paths.
 * SPDX-License-Identifier: MIT
 *
 * Ollama streams unless it is told not to, keeps sampling options in an object of their own, writes
 * arguments of calls as objects and links results to calls by the tool's name. */
#include "rewrite_own.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* No limit except the context. */
static const char no_limit[] = "1000000000";

/* ---- options ---- */

typedef enum option_kind { OPTION_WHOLE, OPTION_ANY, OPTION_MOST, OPTION_SEED } option_kind;
typedef struct ollama_option {
    const char *name, *as;
    option_kind kind;
} ollama_option;

static const ollama_option ollama_options[] = {
    { "num_predict", "max_tokens", OPTION_MOST },
    { "seed", "seed", OPTION_SEED },
    { "temperature", "temperature", OPTION_ANY },
    { "top_k", "top_k", OPTION_WHOLE },
    { "top_p", "top_p", OPTION_ANY },
    { "min_p", "min_p", OPTION_ANY },
    { "typical_p", "typical_p", OPTION_ANY },
    { "repeat_last_n", "repeat_last_n", OPTION_WHOLE },
    { "repeat_penalty", "repeat_penalty", OPTION_ANY },
    { "presence_penalty", "presence_penalty", OPTION_ANY },
    { "frequency_penalty", "frequency_penalty", OPTION_ANY },
    { "mirostat", "mirostat", OPTION_WHOLE },
    { "mirostat_tau", "mirostat_tau", OPTION_ANY },
    { "mirostat_eta", "mirostat_eta", OPTION_ANY },
    { "stop", "stop", OPTION_ANY },
};

/* Writes an option under our name.  Numbers such as 5.0 become whole numbers. */
static bool option_write(serve_text *out, const ollama_option *o, yyjson_val *v, serve_error *e)
{
    char name[80];
    const double x = yyjson_get_num(v);
    snprintf(name, sizeof name, "options.%s", o->name);
    if (yyjson_is_null(v)) return true;
    if (o->kind == OPTION_ANY) return rewrite_value(out, o->as, v), true;
    if (!yyjson_is_num(v) || x != floor(x) || fabs(x) > 9e15)
        return request_wrong_type(e, name, "a whole number", v);
    if (o->kind == OPTION_SEED && x < 0) return true;               /* random */
    rewrite_name(out, o->as);
    if (o->kind == OPTION_MOST && x <= 0) text_str(out, no_limit);
    else text_format(out, "%.0f", x);
    return true;
}

static bool options_write(serve_text *out, yyjson_val *root, serve_error *e)
{
    enum { N = sizeof ollama_options / sizeof *ollama_options };
    size_t i, n;
    yyjson_val *options = yyjson_obj_get(root, "options"), *key, *value;
    if (!options || yyjson_is_null(options)) return true;
    if (!yyjson_is_obj(options)) return request_wrong_type(e, "options", "an object", options);
    yyjson_obj_foreach(options, i, n, key, value) {
        const char *name = unsafe_yyjson_get_str(key);
        size_t k = 0;
        while (k < N && strcmp(ollama_options[k].name, name)) k++;
        if (k < N && !option_write(out, &ollama_options[k], value, e)) return false;
        if (k < N) continue;
        /* Options of the machine or of loading, and unknown ones: passed on as an unknown
         * member. */
        char unknown[80];
        snprintf(unknown, sizeof unknown, "options.%.60s", name);
        rewrite_value(out, unknown, value);
    }
    return true;
}

/* ---- shared by several paths ---- */

/* Ollama's clients append ":latest" to a name without a tag. */
static bool model_write(serve_text *out, yyjson_val *root, serve_error *e)
{
    static const char latest[] = ":latest";
    yyjson_val *v = yyjson_obj_get(root, "model");
    if (!v) v = yyjson_obj_get(root, "name");
    if (!v || yyjson_is_null(v)) return true;
    const char *name = request_text(v, "model", e);
    if (!name) return false;
    const size_t len = strlen(name), n = sizeof latest - 1;
    rewrite_name(out, "model");
    text_json(out, name, len > n && !strcmp(name + len - n, latest) ? len - n : len);
    return true;
}

/* "think": true, false or a level. */
static bool think_write(serve_text *out, yyjson_val *root, serve_error *e)
{
    yyjson_val *v = yyjson_obj_get(root, "think");
    if (!v || yyjson_is_null(v)) return true;
    if (yyjson_is_str(v)) return rewrite_value(out, "reasoning_effort", v), true;
    if (!yyjson_is_bool(v)) return request_wrong_type(e, "think", "true, false or an effort", v);
    return rewrite_value(out, "enable_thinking", v), true;
}

/* "format": "json" or a schema. */
static bool format_write(serve_text *out, yyjson_val *root, serve_error *e)
{
    yyjson_val *v = yyjson_obj_get(root, "format");
    if (!v || yyjson_is_null(v) || yyjson_equals_str(v, "")) return true;
    if (!yyjson_equals_str(v, "json") && !yyjson_is_obj(v))
        return request_wrong_type(e, "format", "\"json\" or a JSON Schema", v);
    rewrite_name(out, "response_format");
    if (yyjson_is_str(v)) {
        text_str(out, "{\"type\":\"json_object\"}");
        return true;
    }
    text_str(out, "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\",\"schema\":");
    request_json(out, v);
    text_str(out, "}}");
    return true;
}

static bool no_images(yyjson_val *v, serve_error *e)
{
    if (!v || request_is_empty(v)) return true;
    return serve_refuse(e, 400, "unsupported_parameter", "images", "images are not supported: no model here "
                        "has a vision part; send the request without \"images\"");
}

/* Options, format, reasoning, log probabilities. */
static bool common_write(serve_text *out, yyjson_val *root, serve_error *e)
{
    bool stream;
    if (!model_write(out, root, e) || !rewrite_flag(root, "stream", true, &stream, e)) return false;
    rewrite_name(out, "stream");
    text_str(out, stream ? "true" : "false");
    if (!options_write(out, root, e) || !format_write(out, root, e) || !think_write(out, root, e))
        return false;
    rewrite_value(out, "logprobs", yyjson_obj_get(root, "logprobs"));
    if (yyjson_is_true(yyjson_obj_get(root, "logprobs")))
        rewrite_value(out, "top_logprobs", yyjson_obj_get(root, "top_logprobs"));
    return true;
}

/* Whether keep_alive is 0: 0, "0", "0s" and the like. */
static bool alive_not(yyjson_val *v)
{
    const char *text = yyjson_get_str(v);
    if (yyjson_is_num(v)) return yyjson_get_num(v) == 0;
    return text && *text == '0' && strspn(text, "0.smh") == strlen(text);
}

static unsigned load_asks(yyjson_val *root)
{
    return REWRITE_LOAD | (alive_not(yyjson_obj_get(root, "keep_alive")) ? REWRITE_UNLOAD : 0);
}

/* ---- messages ---- */

/* Calls without a result yet, in order. */
typedef struct open_calls {
    yyjson_val *names[SERVE_TOOLS];
    bool        open[SERVE_TOOLS];
    unsigned    n, first;           /* first: number of the first one in the whole conversation */
} open_calls;

static bool calls_write(serve_text *out, yyjson_val *calls, open_calls *c, serve_error *e)
{
    size_t i, n;
    yyjson_val *call;
    static const char where[] = "messages.tool_calls";
    if (!yyjson_is_arr(calls)) return request_wrong_type(e, where, "a list of calls", calls);
    if (yyjson_arr_size(calls) > SERVE_TOOLS)
        return serve_refuse(e, 400, "array_above_max_length", where, "%zu calls; the maximum is %d",
                            yyjson_arr_size(calls), SERVE_TOOLS);
    c->first += c->n;
    c->n = 0;
    rewrite_name(out, "tool_calls");
    text_str(out, "[");
    yyjson_arr_foreach(calls, i, n, call) {
        yyjson_val *f = yyjson_obj_get(call, "function"), *args = yyjson_obj_get(f, "arguments");
        serve_text json = { 0 };
        if (!yyjson_is_str(yyjson_obj_get(f, "name")))
            return request_wrong_type(e, where, "calls of functions with a name", call);
        c->names[c->n] = yyjson_obj_get(f, "name");
        c->open[c->n] = true;
        text_format(out, "%s{\"id\":\"call_%u\",\"type\":\"function\",\"function\":{", i ? "," : "",
                    c->first + c->n++);
        rewrite_value(out, "name", yyjson_obj_get(f, "name"));
        rewrite_name(out, "arguments");
        if (yyjson_is_str(args)) {
            request_json(out, args);
        } else {
            if (args && !yyjson_is_null(args)) request_json(&json, args);
            else text_str(&json, "{}");
            text_json(out, json.bytes ? json.bytes : "{}", json.bytes ? json.len : 2);
        }
        out->failed |= json.failed;
        text_free(&json);
        text_str(out, "}}");
    }
    text_str(out, "]");
    return true;
}

/* Links a result to its call: the first open one of the same tool, else the first open one. */
static void result_write(serve_text *out, yyjson_val *message, open_calls *c)
{
    yyjson_val *name = yyjson_obj_get(message, "tool_name");
    unsigned found = c->n;
    if (!yyjson_is_str(name)) name = yyjson_obj_get(message, "name");
    for (unsigned i = 0; i < c->n && found == c->n; i++)
        if (c->open[i] && yyjson_is_str(name) && yyjson_equals_str(c->names[i], yyjson_get_str(name)))
            found = i;
    for (unsigned i = 0; i < c->n && found == c->n; i++) if (c->open[i]) found = i;
    if (found < c->n) c->open[found] = false;
    else if (c->n) found = c->n - 1;
    rewrite_name(out, "tool_call_id");
    if (yyjson_is_str(yyjson_obj_get(message, "tool_call_id")))
        request_json(out, yyjson_obj_get(message, "tool_call_id"));
    else text_format(out, "\"call_%u\"", c->first + found);
    rewrite_value(out, "name", name);
}

static bool message_write(serve_text *out, yyjson_val *v, open_calls *c, serve_error *e)
{
    static const char *const known[] = { "role", "content", "images", "thinking", "tool_calls", "tool_name",
                                         "tool_call_id", "name", NULL };
    yyjson_val *calls = yyjson_obj_get(v, "tool_calls"), *thinking = yyjson_obj_get(v, "thinking");
    if (!yyjson_is_obj(v)) return request_wrong_type(e, "messages", "a list of objects", v);
    if (!no_images(yyjson_obj_get(v, "images"), e)) return false;
    text_str(out, "{");
    rewrite_value(out, "role", yyjson_obj_get(v, "role"));
    yyjson_val *content = yyjson_obj_get(v, "content");
    if (content && !yyjson_is_null(content)) rewrite_value(out, "content", content);
    else rewrite_text(out, "content", "");
    if (!yyjson_equals_str(thinking, "")) rewrite_value(out, "reasoning_content", thinking);
    if (calls && !request_is_empty(calls) && !calls_write(out, calls, c, e)) return false;
    if (yyjson_equals_str(yyjson_obj_get(v, "role"), "tool")) result_write(out, v, c);
    else rewrite_value(out, "name", yyjson_obj_get(v, "name"));
    rewrite_rest(out, v, known);
    text_str(out, "}");
    return true;
}

static bool messages_write(serve_text *out, yyjson_val *list, serve_error *e)
{
    size_t i, n;
    yyjson_val *v;
    open_calls calls = { .n = 0 };
    rewrite_name(out, "messages");
    text_str(out, "[");
    yyjson_arr_foreach(list, i, n, v) {
        if (i) text_str(out, ",");
        if (!message_write(out, v, &calls, e)) return false;
    }
    text_str(out, "]");
    return true;
}

/* ---- the paths ---- */

bool rewrite_ollama_chat(const char *text, size_t len, serve_rewritten *out, serve_error *e)
{
    static const char *const known[] = { "model", "name", "messages", "tools", "stream", "format", "think",
                                         "options", "keep_alive", "logprobs", "top_logprobs", "truncate",
                                         "shift", NULL };
    yyjson_doc *doc;
    yyjson_val *root = rewrite_begin(text, len, &doc, out, e), *list = yyjson_obj_get(root, "messages");
    bool ok = root && (!list || yyjson_is_null(list) || yyjson_is_arr(list)
                       || request_wrong_type(e, "messages", "a list of messages", list));
    out->api = API_CHAT;
    if (ok && !yyjson_arr_size(list)) {
        out->asks = load_asks(root);
        ok = model_write(&out->json, root, e);
        rewrite_name(&out->json, "messages");
        text_str(&out->json, "[{\"role\":\"user\",\"content\":\"\"}]");
    } else if (ok) {
        ok = common_write(&out->json, root, e) && messages_write(&out->json, list, e);
        if (ok) rewrite_value(&out->json, "tools", yyjson_obj_get(root, "tools"));
        if (ok) rewrite_rest(&out->json, root, known);
    }
    return rewrite_end(doc, out, ok, e);
}

/* Refuses members that would override the server's template, or that it cannot support. */
static bool generate_refuse(yyjson_val *root, serve_error *e)
{
    yyjson_val *template = yyjson_obj_get(root, "template"), *context = yyjson_obj_get(root, "context");
    if (!no_images(yyjson_obj_get(root, "images"), e)) return false;
    if (template && !request_is_empty(template) && !yyjson_equals_str(template, ""))
        return serve_refuse(e, 400, "unsupported_parameter", "template", "\"template\" is not supported: the "
                            "server's --chat-template chooses one; \"raw\": true leaves it out");
    return !context || request_is_empty(context)
        || serve_refuse(e, 400, "unsupported_parameter", "context", "\"context\" is not supported: send "
                        "the conversation to /api/chat");
}

/* Writes the prompt as a conversation, or unchanged if "raw" is set. */
static bool generate_write(serve_rewritten *out, yyjson_val *root, yyjson_val *prompt, bool raw,
                           serve_error *e)
{
    serve_text *json = &out->json;
    yyjson_val *suffix = yyjson_obj_get(root, "suffix"), *system = yyjson_obj_get(root, "system");
    const bool fills = suffix && !yyjson_is_null(suffix) && !yyjson_equals_str(suffix, "");
    if (!common_write(json, root, e)) return false;
    if (raw || fills) {
        out->api = API_GENERATE;
        rewrite_value(json, "prompt", prompt);
        if (fills) rewrite_value(json, "suffix", suffix);
        return true;
    }
    out->api = API_CHAT;
    rewrite_name(json, "messages");
    text_str(json, "[");
    if (system && !yyjson_is_null(system) && !yyjson_equals_str(system, "")) {
        if (!yyjson_is_str(system)) return request_wrong_type(e, "system", "a string", system);
        text_str(json, "{\"role\":\"system\",\"content\":");
        request_json(json, system);
        text_str(json, "},");
    }
    text_str(json, "{\"role\":\"user\",\"content\":");
    request_json(json, prompt);
    text_str(json, "}]");
    return true;
}

bool rewrite_ollama_generate(const char *text, size_t len, serve_rewritten *out, serve_error *e)
{
    static const char *const known[] = { "model", "name", "prompt", "suffix", "images", "system", "template",
                                         "context", "raw", "stream", "format", "think", "options",
                                         "keep_alive", "logprobs", "top_logprobs", "truncate", "shift",
                                         NULL };
    yyjson_doc *doc;
    bool raw = false;
    yyjson_val *root = rewrite_begin(text, len, &doc, out, e), *prompt = yyjson_obj_get(root, "prompt");
    bool ok = root && rewrite_flag(root, "raw", false, &raw, e) && generate_refuse(root, e);
    out->api = API_CHAT;
    if (ok && (!prompt || yyjson_is_null(prompt) || yyjson_equals_str(prompt, ""))) {
        out->asks = load_asks(root);
        ok = model_write(&out->json, root, e);
        rewrite_name(&out->json, "messages");
        text_str(&out->json, "[{\"role\":\"user\",\"content\":\"\"}]");
    } else if (ok) {
        ok = (yyjson_is_str(prompt) || request_wrong_type(e, "prompt", "a string", prompt))
            && generate_write(out, root, prompt, raw, e);
        if (ok) rewrite_rest(&out->json, root, known);
    }
    return rewrite_end(doc, out, ok, e);
}

static bool embed_rewrite(const char *text, size_t len, const char *field, serve_rewritten *out,
                          serve_error *e)
{
    const char *const known[] = { "model", "name", field, "truncate", "options", "keep_alive", NULL };
    yyjson_doc *doc;
    bool truncate = true;
    yyjson_val *root = rewrite_begin(text, len, &doc, out, e), *input = yyjson_obj_get(root, field);
    bool ok = root && model_write(&out->json, root, e) && rewrite_flag(root, "truncate", true, &truncate, e);
    const bool any = input && !yyjson_is_null(input) && !yyjson_equals_str(input, "")
        && !(yyjson_is_arr(input) && !yyjson_arr_size(input));
    out->api = API_EMBEDDINGS;
    out->asks = ok && !any ? load_asks(root) : 0;
    if (any && yyjson_is_arr(input) && !yyjson_is_str(yyjson_arr_get_first(input)))
        ok = ok && request_wrong_type(e, field, "a string or a list of strings", yyjson_arr_get_first(input));
    if (ok && any) rewrite_value(&out->json, "input", input);
    else if (ok) rewrite_text(&out->json, "input", "-");
    if (ok && truncate) {
        rewrite_name(&out->json, "truncate");
        text_str(&out->json, "true");
    }
    if (ok) rewrite_rest(&out->json, root, known);
    return rewrite_end(doc, out, ok, e);
}

bool rewrite_ollama_embed(const char *text, size_t len, serve_rewritten *out, serve_error *e)
{
    return embed_rewrite(text, len, "input", out, e);
}

bool rewrite_ollama_embeddings(const char *text, size_t len, serve_rewritten *out, serve_error *e)
{
    return embed_rewrite(text, len, "prompt", out, e);
}

bool rewrite_ollama_model(const char *text, size_t len, serve_rewritten *out, serve_error *e)
{
    yyjson_doc *doc;
    yyjson_val *root = rewrite_begin(text, len, &doc, out, e);
    bool stream = true;
    bool ok = root && model_write(&out->json, root, e) && rewrite_flag(root, "stream", true, &stream, e);
    out->api = API_TOKENIZE;
    out->asks = REWRITE_LOAD | (stream ? 0 : REWRITE_WHOLE);
    if (ok && out->json.len == 1) ok = request_missing(e, "model");
    if (ok) rewrite_text(&out->json, "content", "");
    return rewrite_end(doc, out, ok, e);
}
