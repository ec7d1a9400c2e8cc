/* What has to be the same when a receipt is run again.  On the same machine our logits are, to
 * the bit; another instruction set or another build of the other engine rounds in another way,
 * so figures may differ a little.
 * SPDX-License-Identifier: MIT */
#include "verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of Gemma 3 270M in Q4_K_M, the perplexity of the built-in texts differs by 2% between instruction
 * sets, all of which are equally far from floats over longer texts. */
static const double COSINE_SAME = 0.002, PERPLEXITY_SAME = 0.03, MATCH_SAME = 0.1;

static qsf_status verify_ids(yyjson_val *list, int32_t **out, size_t *n, qsf_error *err)
{
    yyjson_val *id;
    size_t i, all;
    *n = yyjson_arr_size(list);
    if (!(*out = malloc((*n + 1) * sizeof **out))) return parity_fail(err, QSF_E_MEMORY, "out of memory");
    yyjson_arr_foreach(list, i, all, id) (*out)[i] = (int32_t)yyjson_get_uint(id);
    return QSF_OK;
}

static qsf_status verify_prompts(yyjson_val *root, const parity_settings *set, prompt_list *prompts,
                                 qsf_error *err)
{
    yyjson_val *list = receipt_at(root, "prompts"), *item;
    const bool given = prompts->n > 0;
    size_t i, all;
    if (given && prompts->n != yyjson_arr_size(list))
        return parity_fail(err, QSF_E_ARGUMENT, "the receipt has %zu prompts, but %zu were given",
                           yyjson_arr_size(list),
                           prompts->n);
    yyjson_arr_foreach(list, i, all, item) {
        yyjson_val *ids = yyjson_obj_get(item, "ids"), *tokens = yyjson_obj_get(item, "tokens");
        int32_t *copy;
        size_t n;
        if (!given && !ids)
            return parity_fail(err, QSF_E_ARGUMENT, "the receipt does not show its prompts: give them with "
                               "--prompt, "
                               "--ids or --prompts");
        qsf_status st = given ? QSF_OK : verify_ids(ids, &copy, &n, err);
        if (!given && !st) {
            st = prompts_add(prompts, NULL, 0, copy, n, err);
            free(copy);
        }
        if (st) return st;
        prompt *p = &prompts->items[i];
        if (set->forced && !tokens)
            return parity_fail(err, QSF_E_ARGUMENT, "the receipt does not show the tokens that its prompts "
                               "were continued with: only both engines together can run it again (--lib)");
        if (tokens && (st = verify_ids(tokens, &p->tokens, &p->n_tokens, err))) return st;
    }
    return QSF_OK;
}

/* Of the model and of the context, as far as the receipt tells of them: what it does not has the
 * default. */
static qsf_status verify_options(yyjson_val *o, parity_settings *set, qsf_error *err)
{
    size_t i, n;
    yyjson_val *name, *value;
    yyjson_val *list = yyjson_obj_get(o, "context"), *layout = yyjson_obj_get(o, "i2s_layout");
    if (layout) (void)qsf_i2s_layout_find(yyjson_get_str(layout), &set->i2s_layout);
    yyjson_obj_foreach(list, i, n, name, value) {
        const char *option = unsafe_yyjson_get_str(name);
        if (receipt_has_place(option))
            return parity_fail(err, QSF_E_CORRUPT, "the receipt's options.context.%.40s: this has another "
                               "place", option);
        const qsf_status st = qsf_context_set(&set->context, option, yyjson_get_str(value), err);
        if (st) return st;
    }
    return QSF_OK;
}

qsf_status verify_settings(yyjson_val *root, parity_settings *set, prompt_list *prompts, qsf_error *err)
{
    static const char *const names[] = { "f16", "q8", "f32", "q4", "q2", "q8v4", "q4v2" };
    yyjson_val *o = receipt_at(root, "options");
    const char *kv = yyjson_get_str(yyjson_obj_get(o, "kv_type"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(kv, names[i])) set->context.kv_type = (qsf_kv_type)i;
    set->n_steps = (size_t)yyjson_get_uint(yyjson_obj_get(o, "steps"));
    if (set->n_steps > PROMPT_TOKENS) return parity_fail(err, QSF_E_ARGUMENT,
                                                         "the receipt has too many steps");
    set->context.f32 = yyjson_get_bool(yyjson_obj_get(o, "f32"));
    set->min_cosine = yyjson_get_num(yyjson_obj_get(o, "min_cosine"));
    set->warn_cosine = yyjson_get_num(yyjson_obj_get(o, "warn_cosine"));
    set->min_match = yyjson_get_num(yyjson_obj_get(o, "min_match"));
    set->max_kl = yyjson_is_null(yyjson_obj_get(o, "max_kl")) ? -1 : yyjson_get_num(yyjson_obj_get(o,
                                                                                                   "max_kl"));
    set->strict = yyjson_get_bool(yyjson_obj_get(o, "strict"));
    set->forced = !strcmp(set->against, "none");
    if (set->forced && yyjson_is_null(receipt_at(root, "engines.ours")))
        return parity_fail(err, QSF_E_ARGUMENT, "the receipt is of the other engine alone, which is needed "
                           "to run it again (--against, --lib)");
    const qsf_status st = verify_options(o, set, err);
    return st ? st : verify_prompts(root, set, prompts, err);
}

static bool verify_text(yyjson_val *root, const char *path, const char *text)
{
    return yyjson_equals_str(receipt_at(root, path), text);
}

/* Alone, our engine was given the tokens that the other one has chosen. */
static double verify_rate(const parity_result *r)
{
    const parity_totals *t = &r->totals;
    if (r->outcome != PARITY_NONE) return parity_match_rate(t);
    return t->steps ? (double)t->forced_matches / (double)t->steps : 1;
}

static qsf_status verify_figures(yyjson_val *root, const parity_result *r, qsf_error *err)
{
    const struct { const char *name; double now, most; bool relative; } figures[] = {
        { "parity.cosine_similarity", r->totals.cosine_min, COSINE_SAME, false },
        { "parity.exact_match_rate", verify_rate(r), MATCH_SAME, false },
        { "parity.perplexity_ours", parity_perplexity(&r->totals, 0), PERPLEXITY_SAME, true },
        { "parity.perplexity_other", parity_perplexity(&r->totals, 1), PERPLEXITY_SAME, true },
    };
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        yyjson_val *v = receipt_at(root, figures[i].name);
        const double then = yyjson_get_num(v), now = figures[i].now;
        const bool of_ours = strstr(figures[i].name, "_ours"), of_other = strstr(figures[i].name, "_other");
        if (yyjson_is_null(v) || (r->outcome == PARITY_NONE && !i)) continue;
        if ((of_ours && !r->side[0].ran) || (of_other && !r->side[1].ran)) continue;
        if (fabs(now - then) <= figures[i].most * (figures[i].relative ? fabs(then) : 1)) continue;
        return parity_fail(err, QSF_E_CORRUPT, "%s was %.9g and is %.9g now", figures[i].name, then, now);
    }
    return QSF_OK;
}

qsf_status verify_same(yyjson_val *root, const prompt_list *prompts, const parity_result *r, bool *to_the_bit,
                       qsf_error *err)
{
    yyjson_val *list = receipt_at(root, "prompts"), *item;
    size_t i, all;
    char sum[SHA256_HEX];
    *to_the_bit = r->side[0].ran && verify_text(root, "engines.ours.logits_sha256", r->side[0].logits);
    yyjson_arr_foreach(list, i, all, item) {
        prompt_sum(prompts->items[i].ids, prompts->items[i].n, sum);
        if (!yyjson_equals_str(yyjson_obj_get(item, "ids_sha256"), sum))
            return parity_fail(err, QSF_E_CORRUPT, "prompt %zu has other tokens than the receipt's", i);
    }
    if (r->side[0].ran != !yyjson_is_null(receipt_at(root, "engines.ours")))
        return parity_fail(err, QSF_E_CORRUPT, "our reader %s the file now", r->side[0].ran ? "takes"
                           : "refuses");
    return verify_figures(root, r, err);
}
