/* The log probabilities that a request asks for, in each API's form.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <string.h>

/* Asked for by /v1/responses. */
static bool logprobs_included(serve_request *r, yyjson_val *list, bool *wanted, serve_error *e)
{
    size_t i, n;
    yyjson_val *item;
    if (list && !yyjson_is_arr(list)) return request_wrong_type(e, "include", "a list of strings", list);
    if (list) yyjson_arr_foreach(list, i, n, item) {
        const char *word = yyjson_get_str(item);
        if (!word) return request_wrong_type(e, "include", "a list of strings", item);
        if (!strcmp(word, "message.output_text.logprobs")) *wanted = true;
        else if (strcmp(word, "reasoning.encrypted_content") && !request_ignore(r, "include", word, e))
            return false;
    }
    return true;
}

/* Whether log probabilities are wanted, and of how many of the most likely tokens. */
static bool logprobs_asked(serve_request *r, yyjson_val *root, bool *wanted, int64_t *n, const char **name,
                           serve_error *e)
{
    yyjson_val *flag = request_field(r, root, "logprobs"), *top = request_field(r, root, "top_logprobs");
    yyjson_val *probs = request_field(r, root, "n_probs");
    *name = "logprobs";
    if (flag && yyjson_is_num(flag)) top = flag;                /* the form of /v1/completions */
    else if (flag && !yyjson_is_bool(flag)) return request_wrong_type(e, "logprobs", "true or false", flag);
    else if (top) *name = "top_logprobs";
    if (!top && probs) {
        top = probs;
        *name = "n_probs";
    }
    if (top && !request_whole(top, n)) return request_wrong_type(e, *name, "a whole number", top);
    *wanted |= yyjson_is_true(flag) || (top && (*n != 0 || top == flag) && !yyjson_is_false(flag));
    if (probs && top == probs && *n < 1) *wanted = yyjson_is_true(flag);
    return true;
}

bool request_logprobs(serve_request *r, yyjson_val *root, serve_error *e)
{
    const char *name;
    int64_t n = 0;
    bool yes = false;
    if (r->api == API_RESPONSES && !logprobs_included(r, request_field(r, root, "include"), &yes, e))
        return false;
    if (!logprobs_asked(r, root, &yes, &n, &name, e)) return false;
    if (r->prompt_logprobs >= 0 && (r->stream || r->beam_width > 1))
        return serve_refuse(e, 400, "unsupported_parameter", "prompt_logprobs",
                            "\"prompt_logprobs\" cannot be combined with \"%s\"",
                            r->stream ? "stream" : "beam_width");
    if (n < 0 || n > QSF_LOGPROBS_MOST)
        return serve_refuse(e, 400, n < 0 ? "integer_below_min_value" : "integer_above_max_value", name,
                            "\"%s\" is %lld; the range is 0 to %d", name, (long long)n, QSF_LOGPROBS_MOST);
    if (!yes) return true;
    r->logprobs = n;
    if (r->beam_width > 1)
        return serve_refuse(e, 400, "unsupported_parameter", name,
                            "\"%s\" cannot be combined with \"beam_width\"", name);
    return true;
}
