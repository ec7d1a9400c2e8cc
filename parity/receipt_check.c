/* Reads receipts, which may come from anywhere: size and depth are limited, the shape must be that
 * of the table, and figures that follow from others must match them.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "receipt.h"

yyjson_val *receipt_at(yyjson_val *root, const char *path)
{
    while (root && *path) {
        const size_t n = strcspn(path, ".");
        root = yyjson_obj_getn(root, path, n);
        path += n + (path[n] == '.');
    }
    return root;
}

static double check_number(yyjson_val *root, const char *path) { return yyjson_get_num(receipt_at(root,
                                                                                                  path)); }
static uint64_t check_count(yyjson_val *root, const char *path) { return yyjson_get_uint(receipt_at(root,
                                                                                                    path)); }
static bool check_flag(yyjson_val *root, const char *path) { return yyjson_get_bool(receipt_at(root, path)); }
static bool check_null(yyjson_val *root, const char *path) { return yyjson_is_null(receipt_at(root, path)); }

static bool check_near(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(1, fmax(fabs(a), fabs(b))); }

static bool check_same(yyjson_val *root, const char *a, const char *b)
{
    return yyjson_equals(receipt_at(root, a), receipt_at(root, b));
}

static bool check_ids(yyjson_val *prompt, const char *ids, const char *count, const char *sum)
{
    yyjson_val *list = yyjson_obj_get(prompt, ids), *id;
    char got[SHA256_HEX];
    size_t i, n;
    sha256 s;
    if (!list) return true;
    if (yyjson_arr_size(list) != yyjson_get_uint(yyjson_obj_get(prompt, count))) return false;
    sha256_begin(&s);
    yyjson_arr_foreach(list, i, n, id) {
        const uint32_t v = (uint32_t)yyjson_get_uint(id);
        const uint8_t bytes[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };
        sha256_add(&s, bytes, 4);
    }
    sha256_end_hex(&s, got);
    return yyjson_equals_str(yyjson_obj_get(prompt, sum), got);
}

/* NULL: right; else what is not. */
static const char *check_prompts(yyjson_val *root)
{
    yyjson_val *prompt;
    size_t i, n;
    uint64_t ids = 0, tokens = 0;
    yyjson_arr_foreach(receipt_at(root, "prompts"), i, n, prompt) {
        const uint64_t these = yyjson_get_uint(yyjson_obj_get(prompt, "n_ids"));
        const uint64_t more = yyjson_get_uint(yyjson_obj_get(prompt, "n_tokens"));
        if (!these || these > PROMPT_TOKENS || more > PROMPT_TOKENS) return "a prompt's number of tokens";
        if (!check_ids(prompt, "ids", "n_ids", "ids_sha256")) return "a prompt's ids and their number or sum";
        if (!check_ids(prompt, "tokens", "n_tokens", "tokens_sha256")) return "a prompt's tokens and their "
            "number or sum";
        ids += these, tokens += more;
    }
    if (check_count(root, "parity.targets") != ids - n) return "parity.targets is not the prompts' tokens "
        "but the first";
    return NULL;
}

static const char *check_divergence(yyjson_val *root)
{
    yyjson_val *d = receipt_at(root, "parity.first_divergence"), *item;
    const char *const lists[] = { "ours", "other" };
    if (yyjson_is_null(d)) return NULL;
    for (int k = 0; k < 2; k++) {
        double last = INFINITY;
        size_t i, n;
        yyjson_arr_foreach(yyjson_obj_get(d, lists[k]), i, n, item) {
            const double logit = check_number(item, "logit");
            if (logit > last) return "the most likely tokens of parity.first_divergence are not in order";
            last = logit;
        }
    }
    yyjson_val *a = yyjson_arr_get_first(yyjson_obj_get(d, "ours"));
    yyjson_val *b = yyjson_arr_get_first(yyjson_obj_get(d, "other"));
    if (!a || !b || yyjson_equals(yyjson_obj_get(a, "id"), yyjson_obj_get(b, "id")))
        return "parity.first_divergence is not a divergence: its most likely tokens are the same";
    if (check_count(d, "prompt") >= yyjson_arr_size(receipt_at(root, "prompts")))
        return "parity.first_divergence.prompt";
    return check_same(root, "parity.first_divergence.step", "parity.first_divergence_step")
               ? NULL : "parity.first_divergence_step is not that of parity.first_divergence";
}

static const char *check_parity(yyjson_val *root)
{
    yyjson_val *p = receipt_at(root, "parity");
    static const char *const all[] = { "passed", "cosine_similarity", "cosine_mean", "cosine_least",
                                       "cosine_ok", "max_difference",
                                       "mean_difference", "kl_mean", "kl_max", "matches", "ties",
                                       "exact_match_rate" };
    const bool shown = check_flag(p, "shown");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (yyjson_is_null(yyjson_obj_get(p, all[i])) == shown)
            return shown ? "parity.shown, but figures are null" : "parity is not shown, but has figures";
    if (!shown)
        return check_null(p, "first_divergence") && check_null(p, "first_divergence_step")
               ? NULL : "parity is not shown, but has a divergence";
    const uint64_t steps = check_count(p, "steps"), matches = check_count(p, "matches");
    const uint64_t ties = check_count(p, "ties");
    const double cosine = check_number(p, "cosine_similarity"), rate = check_number(p, "exact_match_rate");
    if (matches > steps || ties > steps - matches) return "parity.matches, ties and steps";
    if (!check_near(rate, steps ? (double)matches / (double)steps : 1))
        return "parity.exact_match_rate is not matches / steps";
    if (check_flag(p, "cosine_ok") != (cosine >= check_number(root, "options.min_cosine")))
        return "parity.cosine_ok and options.min_cosine";
    const double least = check_number(p, "cosine_least");
    if (least > cosine + 1e-9 || check_number(p, "cosine_mean") < least - 1e-9)
        return "parity.cosine_least is not the least";
    if (check_number(p, "mean_difference") > check_number(p, "max_difference")
        + 1e-9) return "parity.mean_difference";
    if (check_number(p, "kl_mean") > check_number(p, "kl_max") + 1e-9) return "parity.kl_mean";
    if (check_null(p, "first_divergence") != (matches == steps)
        || check_null(p, "first_divergence_step") != (matches == steps))
        return "parity.first_divergence, matches and steps";
    const bool passed = cosine >= check_number(root, "options.min_cosine")
        && rate >= check_number(root, "options.min_match")
        && (check_null(root, "options.max_kl") || check_number(p, "kl_max") <= check_number(root,
                                                                                            "options.max_kl"))
        && (!check_flag(root, "options.strict") || matches + ties == steps);
    return check_flag(p, "passed") == passed ? check_divergence(root)
           : "parity.passed does not follow from figures and thresholds";
}

static const char *check_kernels(yyjson_val *root)
{
    yyjson_val *counts = receipt_at(root, "kernels_executed"), *id;
    const char *last = NULL;
    size_t i, n;
    if (yyjson_obj_size(counts) != yyjson_arr_size(receipt_at(root, "kernel_ids")))
        return "kernel_ids are not the names of kernels_executed";
    yyjson_arr_foreach(receipt_at(root, "kernel_ids"), i, n, id) {
        const char *name = unsafe_yyjson_get_str(id);
        if (!yyjson_obj_getn(counts, name, yyjson_get_len(id))) return "kernel_ids are not the names of "
            "kernels_executed";
        if (last && strcmp(last, name) >= 0) return "kernel_ids are not sorted";
        last = name;
    }
    return NULL;
}

static const char *check_engines(yyjson_val *root)
{
    const bool ours = !check_null(root, "engines.ours"), other = !check_null(root, "engines.other");
    yyjson_val *backend = receipt_at(root, "validation.backend");
    if (!ours && !other) return "engines: none of them ran";
    if (check_flag(root, "parity.shown") != (ours && other)) return "parity.shown and engines";
    if (!yyjson_equals_str(backend, ours ? "qsf" : "cpp")) return "validation.backend and engines";
    if (!check_same(root, "validation.backend", "backend_used")
        || !check_same(root, "validation.backend", "validation.compute"))
        return "validation.backend, validation.compute and backend_used";
    if (check_null(root, "refused") != ours) return "refused and engines";
    const double a = check_number(root, "parity.perplexity_ours"), b = check_number(root,
        "parity.perplexity_other");
    if ((!ours && a != 0) || (!other && b != 0)) return "a perplexity of an engine that did not run";
    return NULL;
}

/* Brackets that are open at once, outside texts. */
static bool check_depth(const char *text, size_t len)
{
    int depth = 0;
    bool inside = false;
    for (size_t i = 0; i < len; i++) {
        if (inside && text[i] == '\\') i++;
        else if (text[i] == '"') inside = !inside;
        else if (inside) continue;
        else if (text[i] == '{' || text[i] == '[') { if (++depth > RECEIPT_DEPTH) return false; }
        else if (text[i] == '}' || text[i] == ']') depth--;
    }
    return true;
}

qsf_status receipt_read(const char *text, size_t len, yyjson_doc **out, qsf_error *err)
{
    yyjson_read_err why;
    *out = NULL;
    if (len > RECEIPT_BYTES || !check_depth(text, len))
        return parity_fail(err, QSF_E_CORRUPT, "not a receipt: it is too large or nested too deep");
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)text, len, 0, NULL, &why);
    if (!doc) return parity_fail(err, QSF_E_CORRUPT, "not a receipt: byte %zu: %s", why.pos, why.msg);
    yyjson_val *root = yyjson_doc_get_root(doc);
    const qsf_status st = receipt_shape(root, err);
    if (!st) {
        const char *wrong = check_prompts(root);
        if (!wrong) wrong = check_parity(root);
        if (!wrong) wrong = check_kernels(root);
        if (!wrong) wrong = check_engines(root);
        if (!wrong) return *out = doc, QSF_OK;
        parity_fail(err, QSF_E_CORRUPT, "the receipt's arithmetic is wrong: %s", wrong);
    }
    yyjson_doc_free(doc);
    return QSF_E_CORRUPT;
}
