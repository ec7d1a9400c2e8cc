/* The rotary embedding of config.json to hparams: bases, scalings, partial and local ones.
 * SPDX-License-Identifier: MIT */
#include "read/hf_rope.h"

#ifdef QSF_HAVE_YYJSON

#define CONFIG HF_CONFIG_FILE
enum { ROPE_WHAT = 64 };

static qsf_status rope_floats(yyjson_val *rope, const char *what, const char *name, uint32_t n,
                              qsf_arena *arena, float **out, qsf_error *err)
{
    size_t i, count;
    yyjson_val *v, *e;
    const qsf_status st = qsf_json_get_arr(rope, what, name, &v, err);
    if (st) return st;
    if (yyjson_arr_size(v) != n)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: \"%s\" has %zu numbers, expected %u", what, name,
                        yyjson_arr_size(v), (unsigned)n);
    if (!(*out = qsf_arena_array(arena, n, sizeof(float), name, err))) return QSF_E_MEMORY;
    yyjson_arr_foreach(v, i, count, e) {
        const double d = yyjson_get_num(e);
        if (!yyjson_is_num(e) || !(d > 0 && d <= FLT_MAX))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: \"%s\"[%zu] is not a positive number", what, name, i);
        (*out)[i] = (float)d;
    }
    return QSF_OK;
}

/* Llama 3: slow frequencies are divided by factor, fast ones stay,
 * between them a straight line over the wavelength. */
static qsf_status rope_llama3(yyjson_val *rope, const char *what, qsf_arena *arena, qsf_hparams *hp,
                              qsf_error *err)
{
    const uint32_t dim = hp->rope_dim;
    float factor, low, high, orig;
    qsf_status st;
    if ((st = qsf_json_get_f32(rope, what, "factor", 8, &factor, err)) ||
        (st = qsf_json_get_f32(rope, what, "low_freq_factor", 1, &low, err)) ||
        (st = qsf_json_get_f32(rope, what, "high_freq_factor", 4, &high, err)) ||
        (st = qsf_json_get_f32(rope, what, "original_max_position_embeddings", (float)hp->n_ctx_train, &orig,
                               err))) return st;
    if (!(factor >= 1 && low > 0 && high > low && orig > 0))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: type llama3 with factor %g, low %g, high %g", what,
                        (double)factor, (double)low, (double)high);
    if (!(hp->rope_factors = qsf_arena_array(arena, dim / 2, sizeof(float), "rope factors", err)))
        return QSF_E_MEMORY;
    for (uint32_t i = 0; i < dim / 2; i++) {
        const double wavelen = 2 * 3.14159265358979323846 * pow(hp->rope_base, 2.0 * i / dim);
        const double smooth = ((double)orig / wavelen - low) / ((double)high - low);
        hp->rope_factors[i] = wavelen < (double)orig / high ? 1
                            : wavelen > (double)orig / low ? factor
                            : (float)(1 / ((1 - smooth) / factor + smooth));
    }
    return QSF_OK;
}

static double rope_mscale(double factor, double scale)
{
    return factor <= 1 ? 1 : 0.1 * scale * log(factor) + 1;
}

/* Without truncation the line between fast and slow frequencies begins and ends between two of
 * them: these are divisors of their own then. */
static qsf_status rope_yarn_smooth(const char *what, float want, qsf_arena *arena, qsf_hparams *hp,
                                   qsf_error *err)
{
    const uint32_t half = hp->rope_dim / 2;
    const double turns = hp->scaling_orig_ctx / (2 * 3.14159265358979323846), dims = hp->rope_dim;
    const double each = dims / (2 * log(hp->rope_base));
    const double low = QSF_MAX(0.0, each * log(turns / hp->yarn_beta_fast));
    const double high = QSF_MIN(dims - 1, each * log(turns / hp->yarn_beta_slow));
    if (!(hp->rope_factors = qsf_arena_array(arena, half, sizeof(float), what, err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < half; i++) {
        const double ramp = (i - low) / QSF_MAX(high - low, 0.001);
        const double keep = 1 - QSF_MIN(1.0, QSF_MAX(0.0, ramp));
        hp->rope_factors[i] = (float)(1 / ((1 - keep) / hp->scaling_factor + keep));
    }
    hp->rope_attn_factor = want;
    hp->scaling = QSF_SCALING_NONE;
    hp->scaling_factor = 1;
    hp->yarn_beta_fast = hp->yarn_beta_slow = 0;
    return QSF_OK;
}

/* Gemma 4: of a head's frequencies, which are those of all its columns, only the fast ones turn. */
static qsf_status rope_proportional(yyjson_val *rope, const char *what, float absent, qsf_arena *arena,
                                    qsf_hparams *hp, qsf_error *err)
{
    const float never = 1e30f;
    const uint32_t half = hp->head_dim / 2;
    float partial, factor;
    qsf_status st;
    if ((st = qsf_json_get_number(rope, what, "partial_rotary_factor", absent, 0, 1, &partial, err)) ||
        (st = qsf_json_get_f32(rope, what, "factor", 1, &factor, err))) return st;
    if (factor != 1) return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: type proportional with factor %g", what,
                                     (double)factor);
    if (hp->head_dim % 2)
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": an odd number of rotary dimensions");
    if (!(hp->rope_factors = qsf_arena_array(arena, half, sizeof(float), what, err))) return QSF_E_MEMORY;
    const uint32_t angles = (uint32_t)((double)partial * hp->head_dim) / 2;
    for (uint32_t i = 0; i < half; i++) hp->rope_factors[i] = i < angles ? 1 : never;
    hp->rope_dim = hp->head_dim;
    return QSF_OK;
}

/* The engine multiplies sine and cosine by yarn_attn_factor * (1 + 0.1
 * ln factor), Transformers by attention_factor. */
static qsf_status rope_yarn(yyjson_val *rope, const char *what, qsf_arena *arena, qsf_hparams *hp,
                            qsf_error *err)
{
    float attn, mscale, mscale_all;
    bool truncate;
    qsf_status st;
    hp->scaling = QSF_SCALING_YARN;
    if ((st = qsf_json_get_f32(rope, what, "factor", 0, &hp->scaling_factor, err)) ||
        (st = qsf_json_get_u32(rope, what, "original_max_position_embeddings", hp->n_ctx_train, 1, INT32_MAX,
                               &hp->scaling_orig_ctx, err)) ||
        (st = qsf_json_get_f32(rope, what, "beta_fast", 32, &hp->yarn_beta_fast, err)) ||
        (st = qsf_json_get_f32(rope, what, "beta_slow", 1, &hp->yarn_beta_slow, err)) ||
        (st = qsf_json_get_number(rope, what, "attention_factor", 0, 0, HF_CONFIG_MOST, &attn, err)) ||
        (st = qsf_json_get_number(rope, what, "mscale", 0, 0, HF_CONFIG_MOST, &mscale, err)) ||
        (st = qsf_json_get_number(rope, what, "mscale_all_dim", 0, 0, HF_CONFIG_MOST, &mscale_all, err)) ||
        (st = qsf_json_get_bool(rope, what, "truncate", true, &truncate, err))) return st;
    if (!(hp->scaling_factor >= 1) || !(hp->yarn_beta_fast > 0) || !(hp->yarn_beta_slow > 0))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: type yarn with factor %g", what, (double)hp->scaling_factor);
    const double want = attn > 0                       ? (double)attn
                        : mscale > 0 && mscale_all > 0 ? rope_mscale(hp->scaling_factor, mscale) /
                                                             rope_mscale(hp->scaling_factor, mscale_all)
                                                       : rope_mscale(hp->scaling_factor, 1);
    if (!truncate) return rope_yarn_smooth(what, (float)want, arena, hp, err);
    hp->yarn_attn_factor = (float)(want / rope_mscale(hp->scaling_factor, 1));
    hp->yarn_ext_factor = 1;
    return QSF_OK;
}

static qsf_status rope_longrope(yyjson_val *root, yyjson_val *rope, const char *what, qsf_arena *arena,
                                qsf_hparams *hp, qsf_error *err)
{
    const uint32_t n = hp->rope_dim / 2;
    yyjson_val *orig_of = qsf_json_get(root, "original_max_position_embeddings") ? root : rope;
    float factor;
    qsf_status st;
    hp->scaling = QSF_SCALING_LONGROPE;
    if ((st = qsf_json_get_u32(orig_of, orig_of == root ? CONFIG : what, "original_max_position_embeddings",
                               hp->n_ctx_train, 2, INT32_MAX, &hp->scaling_orig_ctx, err)) ||
        (st = qsf_json_get_number(rope, what, "attention_factor", 0, 0, HF_CONFIG_MOST, &hp->rope_attn_factor,
                                  err)) ||
        (st = qsf_json_get_f32(rope, what, "factor", (float)hp->n_ctx_train / (float)hp->scaling_orig_ctx,
                               &factor, err)) ||
        (st = rope_floats(rope, what, "short_factor", n, arena, &hp->rope_factors, err)) ||
        (st = rope_floats(rope, what, "long_factor", n, arena, &hp->rope_factors_long, err))) return st;
    /* It only counts in the attention's factor: the frequencies have their own. */
    if (!(hp->rope_attn_factor > 0))
        hp->rope_attn_factor = factor <= 1 ? 1 : (float)sqrt(1 + log(factor) / log(hp->scaling_orig_ctx));
    return QSF_OK;
}

/* rope_parameters (Transformers 5) or rope_scaling, which is still added to newer files by hand and
 * then takes precedence; Gemma 3's newer form has one object for each kind of layer.  *out NULL:
 * not set. */
static qsf_status rope_of(yyjson_val *root, const char *layers, char what[ROPE_WHAT],
                                 yyjson_val **out, qsf_error *err)
{
    yyjson_val *newer, *older, *full, *sliding;
    qsf_status st;
    if ((st = qsf_json_get_obj(root, CONFIG, "rope_parameters", &newer, err)) ||
        (st = qsf_json_get_obj(root, CONFIG, "rope_scaling", &older, err))) return st;
    const bool both = newer && yyjson_obj_size(older);
    const bool lost = qsf_json_get(newer, "rope_theta") && !qsf_json_get(older, "rope_theta") &&
                      !qsf_json_get(root, "rope_theta");
    if (both && (lost || qsf_json_get(newer, "full_attention") || qsf_json_get(newer, "sliding_attention")))
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": both rope_scaling and rope_parameters; merge the "
                        "former into the latter");
    if (both) newer = NULL;
    qsf_format(what, ROPE_WHAT, CONFIG ": %s", newer ? "rope_parameters" : "rope_scaling");
    yyjson_val *rope = newer ? newer : older;
    if ((st = qsf_json_get_obj(rope, what, "full_attention", &full, err)) ||
        (st = qsf_json_get_obj(rope, what, "sliding_attention", &sliding, err))) return st;
    *out = full || sliding ? qsf_json_get(rope, layers) : rope;
    if (full || sliding)
        qsf_format(what, ROPE_WHAT, CONFIG ": %s.%s", newer ? "rope_parameters" : "rope_scaling", layers);
    return QSF_OK;
}

/* "rope_type", or "type" in older files; NULL: not set. */
static qsf_status rope_type(yyjson_val *rope, const char *what, const char **type, qsf_error *err)
{
    const qsf_status st = qsf_json_get_text(rope, what, "rope_type", type, err);
    if (st || *type) return st;
    return qsf_json_get_text(rope, what, "type", type, err);
}

/* The object with the settings of one kind of layer, and its name for messages. */
typedef struct rope_at {
    yyjson_val *obj;
    const char *type;
    char        what[ROPE_WHAT];
} rope_at;

static qsf_status rope_find(yyjson_val *root, const char *kind, rope_at *at, qsf_error *err)
{
    const qsf_status st = rope_of(root, kind, at->what, &at->obj, err);
    return st ? st : rope_type(at->obj, at->what, &at->type, err);
}

static qsf_status rope_base(yyjson_val *root, const hf_type *d, const rope_at *at,
                                   qsf_hparams *hp, qsf_error *err)
{
    const bool inner = qsf_json_get(at->obj, "rope_theta") != NULL;
    const char *key = inner || !d->theta ? "rope_theta" : d->theta;
    const qsf_status st = qsf_json_get_number(inner ? at->obj : root, inner ? at->what : CONFIG, key,
                                              d->rope_base, 1, HF_CONFIG_MOST, &hp->rope_base, err);
    if (st || hp->rope_base > 1) return st;
    return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": %s is %g", key, (double)hp->rope_base);
}

/* Windowed layers of Gemma 3 and ModernBERT have their own base; base: the default if config.json
 * does not set it. */
static qsf_status rope_local(yyjson_val *root, const hf_type *d, yyjson_val *rope, const rope_at *at,
                             float base, qsf_hparams *hp, qsf_error *err)
{
    const bool apart = at->obj != rope, own = at->obj && apart && qsf_json_get(at->obj, "rope_theta");
    const char *key = own ? "rope_theta" : d->theta_local ? d->theta_local : "rope_local_base_freq";
    const qsf_status st = qsf_json_get_number(own ? at->obj : root, own ? at->what : CONFIG, key, base, 1,
                                              HF_CONFIG_MOST, &hp->rope_base_local, err);
    if (st) return st;
    if (apart && at->type && strcmp(at->type, "default"))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: type %s", at->what, at->type);
    if (at->obj && apart && qsf_json_get(at->obj, "partial_rotary_factor") && hp->head_dim_local)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: partial_rotary_factor", at->what);
    if (hp->rope_base_local > 1) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": %s is %g", key, (double)hp->rope_base_local);
}

static qsf_status rope_part(yyjson_val *root, const hf_type *d, const rope_at *at,
                                   qsf_hparams *hp, qsf_error *err)
{
    const bool inner = qsf_json_get(at->obj, "partial_rotary_factor") != NULL;
    float partial;
    const qsf_status st = qsf_json_get_f32(inner ? at->obj : root, inner ? at->what : CONFIG,
                                           "partial_rotary_factor", d->rope_part > 0 ? d->rope_part : 1,
                                           &partial, err);
    if (st) return st;
    if (partial != 1 && !d->partial_rope && !(d->rope_part > 0))
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": partial_rotary_factor %g in a %s model",
                        (double)partial, d->type);
    if (!(partial > 0 && partial <= 1))
        return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": partial_rotary_factor is %g", (double)partial);
    hp->rope_dim = (uint32_t)((float)hp->head_dim * partial);
    if (hp->head_dim % 2 || hp->rope_dim % 2 || !hp->rope_dim)
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": an odd number of rotary dimensions, or none");
    return QSF_OK;
}

static qsf_status rope_linear(const rope_at *at, qsf_hparams *hp, qsf_error *err)
{
    const qsf_status st = qsf_json_get_f32(at->obj, at->what, "factor", 0, &hp->scaling_factor, err);
    hp->scaling = QSF_SCALING_LINEAR;
    if (st || hp->scaling_factor >= 1) return st;
    return qsf_fail(err, QSF_E_CORRUPT, "%s: factor is %g, expected 1 or more", at->what,
                    (double)hp->scaling_factor);
}

/* Hunyuan calls it dynamic, but it does not depend on the length of the context. */
static qsf_status rope_alpha(const rope_at *at, qsf_hparams *hp, qsf_error *err)
{
    float alpha;
    const qsf_status st = qsf_json_get_f32(at->obj, at->what, "alpha", 0, &alpha, err);
    if (st) return st;
    if (!(alpha >= 1) || hp->head_dim < 4)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: type dynamic with alpha %g", at->what, (double)alpha);
    hp->rope_base *= (float)pow(alpha, (double)hp->head_dim / (hp->head_dim - 2));
    return QSF_OK;
}

/* Queries of Ministral 3 grow with their position. */
static qsf_status rope_temp(const rope_at *at, qsf_hparams *hp, qsf_error *err)
{
    const qsf_status st = qsf_json_get_number(at->obj, at->what, "llama_4_scaling_beta", 0, 0, HF_CONFIG_MOST,
                                              &hp->temp_scale, err);
    if (st || !(hp->temp_scale > 0)) return st;
    return qsf_json_get_u32(at->obj, at->what, "original_max_position_embeddings", hp->n_ctx_train, 1,
                            INT32_MAX, &hp->temp_every, err);
}

qsf_status qsf_hf_rope(yyjson_val *root, const hf_type *d, const qsf_arch *a, qsf_arena *arena,
                       qsf_hparams *hp, qsf_error *err)
{
    rope_at full, local;
    qsf_status st;
    if ((st = rope_find(root, "full_attention", &full, err)) ||
        (st = rope_find(root, "sliding_attention", &local, err))) return st;
    yyjson_val *rope = full.obj;
    const char *type = full.type, *what = full.what;
    if (d->scaled_rope && !type)
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": a %s model without rope_scaling or rope_parameters "
                        "that name a type", d->type);
    if (!type && qsf_json_get(rope, "factor"))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: a factor without a \"rope_type\"", what);
    if ((st = rope_base(root, d, &full, hp, err))) return st;
    const float own = d->rope_local > 0 ? d->rope_local : a->base_local;
    const float base_local = !(own > 0) && local.obj && local.obj != rope ? hp->rope_base : own;
    if (base_local > 0 && hp->window && (st = rope_local(root, d, rope, &local, base_local, hp, err)))
        return st;
    if (hp->head_dim_local != hp->rope_dim_local && hp->window) hp->rope_dim_local = hp->head_dim_local;
    if (d->keys == HF_KEYS_GEMMA4 && (!rope || (type && !strcmp(type, "proportional"))))
        return rope_proportional(rope, what, rope ? 1 : 0.25f, arena, hp, err);
    if ((st = rope_part(root, d, &full, hp, err)) ||
        (a->has & QSF_HAS_TEMP && (st = rope_temp(&full, hp, err)))) return st;

    if (!type || !strcmp(type, "default") || (d->sections && !strcmp(type, "mrope"))) return QSF_OK;
    if (a->has & QSF_HAS_ALPHA && !strcmp(type, "dynamic")) return rope_alpha(&full, hp, err);
    if (!strcmp(type, "llama3")) return rope_llama3(rope, what, arena, hp, err);
    if (!strcmp(type, "longrope") || !strcmp(type, "su"))
        return rope_longrope(root, rope, what, arena, hp, err);
    if (!strcmp(type, "yarn") && !qsf_json_get(rope, "long_factor"))
        return rope_yarn(rope, what, arena, hp, err);
    if (!strcmp(type, "linear")) return rope_linear(&full, hp, err);
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: type \"%s\" (supported: linear, llama3, yarn, longrope)",
                    what, type);
}

#undef CONFIG
#endif
