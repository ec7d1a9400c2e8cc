/* Rewrites bodies of llama-server's and vLLM's own paths.
 * SPDX-License-Identifier: MIT */
#include "rewrite_own.h"

#include <string.h>

/* ---- llama-server: completions ---- */

/* Members that are renamed, or only affect the answer. */
static const char *const completion_known[] = {
    "n_probs", "n_cmpl", "return_tokens", "prompt", "input_prefix", "input_suffix", "input_extra", NULL,
};

/* Members shared by completion and infill. */
static bool completion_write(serve_rewritten *out, yyjson_val *root, serve_error *e)
{
    bool tokens;
    yyjson_val *probs = yyjson_obj_get(root, "n_probs");
    out->api = API_GENERATE;
    if (!rewrite_flag(root, "return_tokens", false, &tokens, e)) return false;
    if (tokens) out->asks |= REWRITE_TOKENS;
    if (probs && !yyjson_is_null(probs) && !yyjson_is_int(probs))
        return request_wrong_type(e, "n_probs", "a whole number", probs);
    if (yyjson_get_sint(probs) > 0) rewrite_value(&out->json, "logprobs", probs);
    rewrite_value(&out->json, "n", yyjson_obj_get(root, "n_cmpl"));
    rewrite_rest(&out->json, root, completion_known);
    return true;
}

bool rewrite_completion(const char *text, size_t len, serve_rewritten *out, serve_error *e)
{
    yyjson_doc *doc;
    yyjson_val *root = rewrite_begin(text, len, &doc, out, e), *prompt = yyjson_obj_get(root, "prompt");
    const bool ok = root && (prompt || request_missing(e, "prompt")) && completion_write(out, root, e);
    yyjson_val *first = yyjson_arr_get_first(prompt);
    if (yyjson_is_str(first) || yyjson_is_arr(first)) out->asks |= REWRITE_LIST;
    if (ok) rewrite_value(&out->json, "prompt", prompt);
    return rewrite_end(doc, out, ok, e);
}

/* The texts before and after the answer.  "input_extra" is always written and marks the infill. */
bool rewrite_infill(const char *text, size_t len, serve_rewritten *out, serve_error *e)
{
    static const char *const names[] = { "input_prefix", "input_suffix", "prompt" };
    static const char *const as[] = { "prompt", "suffix", "middle" };
    yyjson_doc *doc;
    yyjson_val *root = rewrite_begin(text, len, &doc, out, e), *extra = yyjson_obj_get(root, "input_extra");
    bool ok = root && completion_write(out, root, e);
    for (int i = 0; ok && i < 3; i++) {
        yyjson_val *v = yyjson_obj_get(root, names[i]);
        if ((!v && i < 2) || (v && !yyjson_is_null(v) && !yyjson_is_str(v)))
            ok = request_wrong_type(e, names[i], "a string", v);
        else if (v && !yyjson_is_null(v)) rewrite_value(&out->json, as[i], v);
        else if (i < 2) rewrite_text(&out->json, as[i], "");
    }
    if (ok && extra && !yyjson_is_null(extra)) rewrite_value(&out->json, "input_extra", extra);
    else if (ok) {
        rewrite_name(&out->json, "input_extra");
        text_str(&out->json, "[]");
    }
    return rewrite_end(doc, out, ok, e);
}

bool rewrite_embedding(const char *text, size_t len, serve_rewritten *out, serve_error *e)
{
    static const char *const known[] = { "content", "input", "embd_normalize", NULL };
    yyjson_doc *doc;
    yyjson_val *root = rewrite_begin(text, len, &doc, out, e), *input = yyjson_obj_get(root, "input");
    if (!input) input = yyjson_obj_get(root, "content");
    const bool ok = root && (input || request_missing(e, "content"));
    out->api = API_EMBEDDINGS;
    if (ok) rewrite_value(&out->json, "input", input);
    if (ok) rewrite_rest(&out->json, root, known);
    return rewrite_end(doc, out, ok, e);
}

/* ---- vLLM ---- */

/* Pairs: {"text_1": ..., "text_2": ...}, or "queries" and "documents" (or "items"). */
bool rewrite_score(const char *text, size_t len, serve_rewritten *out, serve_error *e)
{
    static const char *const known[] = { "text_1", "text_2", "queries", "documents", "items", "data_1",
                                         "data_2", "truncate_prompt_tokens", NULL };
    static const char *const firsts[] = { "text_1", "queries", "data_1" };
    static const char *const seconds[] = { "text_2", "documents", "items", "data_2" };
    yyjson_doc *doc;
    yyjson_val *root = rewrite_begin(text, len, &doc, out, e), *one = NULL, *two = NULL;
    for (int i = 0; i < 3 && !one; i++) one = yyjson_obj_get(root, firsts[i]);
    for (int i = 0; i < 4 && !two; i++) two = yyjson_obj_get(root, seconds[i]);
    const bool ok = root && (one || request_missing(e, "text_1")) && (two || request_missing(e, "text_2"));
    out->api = API_RERANK;
    if (ok) {
        rewrite_value(&out->json, "queries", one);
        rewrite_name(&out->json, "documents");
        if (!yyjson_is_arr(two)) text_str(&out->json, "[");
        request_json(&out->json, two);
        if (!yyjson_is_arr(two)) text_str(&out->json, "]");
        rewrite_rest(&out->json, root, known);
    }
    return rewrite_end(doc, out, ok, e);
}

/* vLLM's /tokenize has a prompt or messages; llama-server's has "content". */
bool rewrite_tokenize(const char *text, size_t len, serve_rewritten *out, serve_error *e)
{
    static const char *const known[] = { "prompt", "add_special_tokens", "return_token_strs", "with_pieces",
                                         "parse_special", "mm_processor_kwargs", NULL };
    static const char *const of_content[] = { "with_pieces", NULL };
    yyjson_doc *doc;
    yyjson_val *root = rewrite_begin(text, len, &doc, out, e);
    yyjson_val *prompt = yyjson_obj_get(root, "prompt"), *messages = yyjson_obj_get(root, "messages");
    bool pieces = false, strings = false, special = true;
    const bool ok = root && rewrite_flag(root, "with_pieces", false, &pieces, e)
        && rewrite_flag(root, "return_token_strs", false, &strings, e)
        && rewrite_flag(root, "add_special_tokens", true, &special, e);
    out->api = messages && !prompt ? API_TEMPLATE : API_TOKENIZE;
    if (pieces || strings) out->asks |= REWRITE_PIECES;
    if (ok && (prompt || messages)) {
        out->asks |= REWRITE_COUNT;
        rewrite_rest(&out->json, root, known);
        rewrite_value(&out->json, "content", prompt);
        if (prompt) text_format(&out->json, "%s\"add_special\":%s,\"parse_special\":true",
                                out->json.len > 1 ? "," : "", special ? "true" : "false");
    } else if (ok) {
        rewrite_rest(&out->json, root, of_content);
    }
    return rewrite_end(doc, out, ok, e);
}
