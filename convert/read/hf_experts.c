/* Reads config.json of a mixture of experts: their number and size, and how the router chooses.
 * SPDX-License-Identifier: MIT */
#include "read/hf_experts.h"

#ifdef QSF_HAVE_YYJSON

#define CONFIG HF_CONFIG_FILE
enum { EXPERTS_LONGEST = 1 << 24 };     /* a feed-forward */

/* Layers that are not like the others would have to be read one by one. */
static qsf_status experts_everywhere(yyjson_val *root, uint32_t n_layers, qsf_error *err)
{
    yyjson_val *end = qsf_json_get(root, "moe_layer_end_index");
    uint32_t step, every, last = n_layers - 1;
    qsf_status st;
    if ((st = qsf_json_get_u32(root, CONFIG, "decoder_sparse_step", 1, 1, 1 << 16, &step, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "moe_layer_interval", 1, 1, 1 << 16, &every, err))) return st;
    const bool at_end = yyjson_is_sint(end) && yyjson_get_sint(end) == -1;
    if (!at_end && (st = qsf_json_get_u32(root, CONFIG, "moe_layer_end_index", last, 0, 1 << 16, &last, err)))
        return st;
    if (step == 1 && every == 1 && last + 1 == n_layers &&
        !yyjson_arr_size(qsf_json_get(root, "mlp_only_layers"))) return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": layers without experts between those with some, which "
                    "this version cannot run");
}

/* Members whose other values are another network. */
static qsf_status experts_plain(yyjson_val *root, uint32_t n_layers, qsf_error *err)
{
    const char *const numbers[] = { "swiglu_alpha", "swiglu_limit" };
    const float values[] = { 1.702f, 7 };
    qsf_status st = QSF_OK;
    for (size_t i = 0; i < QSF_ARRAY_LEN(numbers) && !st; i++) {
        float v;
        st = qsf_json_get_f32(root, CONFIG, numbers[i], values[i], &v, err);
        if (!st && v != values[i])
            st = qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": %s is %g (supported: %g)", numbers[i], (double)v,
                          (double)values[i]);
    }
    if (st) return st;
    if (qsf_json_get(root, "clip_qkv"))
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": clip_qkv, which this version cannot run");
    return experts_everywhere(root, n_layers, err);
}

/* The feed-forward that every row uses in addition to its experts. */
static qsf_status experts_shared(yyjson_val *root, const hf_expert_keys *k, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    uint32_t n = 0;
    if (k->shared && (st = qsf_json_get_u32(root, CONFIG, k->shared, hp->n_ff, 0, EXPERTS_LONGEST,
                                            &hp->n_ff_shared, err))) return st;
    if (!k->n_shared) return QSF_OK;
    if ((st = qsf_json_get_u32(root, CONFIG, k->n_shared, k->n_shared_absent, 0, QSF_MAX_EXPERTS, &n, err)))
        return st;
    if ((uint64_t)n * hp->n_ff_expert > EXPERTS_LONGEST)
        return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": %s is %u, each of length %u", k->n_shared, (unsigned)n,
                        (unsigned)hp->n_ff_expert);
    hp->n_ff_shared = n * hp->n_ff_expert;
    return QSF_OK;
}

/* Of DeepSeek's: groups of experts are those of its third version, and none of the second. */
static qsf_status experts_groups(yyjson_val *root, const hf_expert_keys *k, qsf_hparams *hp, qsf_error *err)
{
    const char *method, *scores;
    uint32_t freq;
    qsf_status st;
    if (!k->method) return QSF_OK;
    if ((st = qsf_json_get_text(root, CONFIG, "topk_method", &method, err)) ||
        (st = qsf_json_get_text(root, CONFIG, "scoring_func", &scores, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "moe_layer_freq", 1, 1, UINT16_MAX, &freq, err))) return st;
    if (freq != 1)
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": moe_layer_freq is %u (supported: 1)",
                        (unsigned)freq);
    if ((method && strcmp(method, k->method)) ||
        (scores && strcmp(scores, k->sigmoid ? "sigmoid" : "softmax")))
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": topk_method \"%.40s\", scoring_func \"%.40s\" "
                        "(supported: %s)", method ? method : "", scores ? scores : "",
                        k->sigmoid ? "noaux_tc, sigmoid" : "greedy, softmax");
    if (!k->sigmoid) return QSF_OK;
    if ((st = qsf_json_get_u32(root, CONFIG, "n_group", k->groups_absent, 1, hp->n_experts, &hp->n_groups,
                               err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "topk_group", QSF_MIN(4, hp->n_groups), 1, hp->n_groups,
                               &hp->n_groups_used, err))) return st;
    const uint32_t each = hp->n_experts / hp->n_groups;
    if (hp->n_experts % hp->n_groups || (uint64_t)each * hp->n_groups_used < hp->n_used)
        return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": %u experts in %u groups, of which %u are used for %u "
                        "experts", (unsigned)hp->n_experts, (unsigned)hp->n_groups,
                        (unsigned)hp->n_groups_used, (unsigned)hp->n_used);
    return QSF_OK;
}

static qsf_status experts_router(yyjson_val *root, const hf_expert_keys *k, const qsf_arch *a,
                                 qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    bool norm, bias;
    if ((st = qsf_json_get_bool(root, CONFIG, "norm_topk_prob", k->norm_absent, &norm, err)) ||
        (st = qsf_json_get_bool(root, CONFIG, "use_expert_bias", true, &bias, err)) ||
        (st = qsf_json_get_number(root, CONFIG, "routed_scaling_factor", 0, 0, HF_CONFIG_MOST,
                                  &hp->router_scale, err))) return st;
    if (!bias) return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": use_expert_bias is false");
    hp->router_norm = k->norm_says ? norm : a->router_norm;
    hp->router = k->sigmoid ? QSF_ROUTER_SIGMOID : a->router;
    return QSF_OK;
}

/* The number of experts by the type's own name or, as the Transformers library writes and takes it
 * of some types, by another one's. */
static const char *experts_number(yyjson_val *root, const hf_expert_keys *k)
{
    static const char *const other[] = { "num_local_experts", "num_experts" };
    for (size_t i = 0; i < QSF_ARRAY_LEN(other) && !qsf_json_get(root, k->n); i++)
        if (qsf_json_get(root, other[i])) return other[i];
    return k->n;
}

qsf_status qsf_hf_experts(yyjson_val *root, const hf_type *d, const qsf_arch *a, qsf_hparams *hp,
                          qsf_error *err)
{
    const hf_expert_keys *k = d->experts;
    bool some = true;
    qsf_status st;
    if (!k) return QSF_OK;
    const char *number = experts_number(root, k);
    if (k->when && ((st = qsf_json_get_bool(root, CONFIG, k->when, false, &some, err)) || !some)) return st;
    if ((st = qsf_json_get_u32(root, CONFIG, number, k->n_absent, k->may_lack ? 0 : 2, QSF_MAX_EXPERTS,
                               &hp->n_experts, err))) return st;
    if (!hp->n_experts && (!k->may_lack || k->when))
        return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": \"%s\" is missing", k->n);
    if (!hp->n_experts)         /* the shared feed-forward is the layer's only one */
        return qsf_json_get_u32(root, CONFIG, k->shared, hp->n_ff, 1, EXPERTS_LONGEST, &hp->n_ff, err);
    hp->experts_beside = a->later_gemma;
    if ((st = qsf_json_get_u32(root, CONFIG, k->used ? k->used : "num_experts_per_tok", k->used_absent, 1,
                               hp->n_experts, &hp->n_used, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, k->ff, hp->n_ff, 2, EXPERTS_LONGEST, &hp->n_ff_expert, err)) ||
        (st = experts_shared(root, k, hp, err)) || (st = experts_router(root, k, a, hp, err)) ||
        (st = experts_groups(root, k, hp, err)) ||
        (k->dense && (st = qsf_json_get_u32(root, CONFIG, k->dense, k->dense_absent, 0, hp->n_layers,
                                            &hp->n_dense, err))) ||
        (st = experts_plain(root, hp->n_layers, err))) return st;
    if ((uint64_t)hp->n_experts * QSF_MAX(hp->n_ff_expert, hp->n_embd) <= INT32_MAX) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": %u experts of length %u", (unsigned)hp->n_experts,
                    (unsigned)hp->n_ff_expert);
}

#undef CONFIG
#endif
