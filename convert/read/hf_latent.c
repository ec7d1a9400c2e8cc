/* Reads config.json of DeepSeek's latent attention: sizes of latents and of heads.
 * SPDX-License-Identifier: MIT */
#include "read/hf_latent.h"

#ifdef QSF_HAVE_YYJSON

#define CONFIG HF_CONFIG_FILE

qsf_status qsf_hf_latent_turning(yyjson_val *root, qsf_hparams *hp, qsf_error *err)
{
    return qsf_json_get_u32(root, CONFIG, "qk_rope_head_dim", 64, 2, QSF_MAX_HEAD_DIM / 2, &hp->head_dim,
                            err);
}

/* What YaRN does to the scores, besides rotation: they grow with the context. */
static qsf_status latent_score(yyjson_val *root, uint32_t key, qsf_hparams *hp, qsf_error *err)
{
    yyjson_val *older = qsf_json_get(root, "rope_scaling");
    float all, more = 1;
    const qsf_status st = qsf_json_get_number(yyjson_obj_size(older) ? older
                                              : qsf_json_get(root, "rope_parameters"), CONFIG,
                                              "mscale_all_dim", 0, 0, HF_CONFIG_MOST, &all, err);
    if (hp->scaling == QSF_SCALING_YARN && hp->scaling_factor > 1)
        more += 0.1f * all * logf(hp->scaling_factor);
    hp->attn_scale = more * more / sqrtf((float)key);
    return st;
}

qsf_status qsf_hf_latent(yyjson_val *root, qsf_hparams *hp, qsf_error *err)
{
    enum { MOST = QSF_MAX_HEAD_DIM / 2 };
    yyjson_val *queries = yyjson_obj_get(root, "q_lora_rank");
    const bool none = queries && yyjson_is_null(queries);
    bool pairs;
    qsf_status st;
    if ((st = qsf_json_get_u32(root, CONFIG, "kv_lora_rank", 512, 2, MOST, &hp->kv_latent, err)) ||
        (!none && (st = qsf_json_get_u32(root, CONFIG, "q_lora_rank", 1536, 2, 1 << 16, &hp->q_latent,
                                         err))) ||
        (st = qsf_json_get_u32(root, CONFIG, "qk_nope_head_dim", 128, 2, MOST, &hp->head_plain, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "v_head_dim", 128, 2, MOST, &hp->head_value, err)) ||
        (st = qsf_json_get_bool(root, CONFIG, "rope_interleave", true, &pairs, err))) return st;
    if (!pairs) return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": rope_interleave is false");
    const uint32_t key = hp->head_plain + hp->rope_dim;
    hp->head_dim = hp->kv_latent + hp->rope_dim;
    hp->n_kv_heads = 1;
    hp->latent_joined = 1;
    return latent_score(root, key, hp, err);
}

#undef CONFIG
#endif
