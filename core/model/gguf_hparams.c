/* The hyperparameters of a GGUF file, with the defaults that llama.cpp gives them.
 * SPDX-License-Identifier: MIT */
#include "model/gguf.h"
#include "model/source_read.h"

static qsf_status arch_unknown(const gguf *g, qsf_error *err)
{
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: architecture \"%s\" is unknown to this version; the "
                    "nearest that it knows is %s; a newer libqsf may run it: docs/models.md lists the "
                    "models that this one (" QSF_VERSION ") runs", g->s->path, g->arch,
                    qsf_arch_nearest(g->arch)->name);
}

/* ---- what is refused ---- */

static qsf_status refuse_number(const gguf *g, const char *key, const char *what, qsf_error *err)
{
    const gguf_kv *kv = qsf_gguf_find(g, key);
    double v = 0;
    for (uint64_t i = 0; kv && i < kv->n; i++)
        if (!qsf_gguf_number(kv, i, &v) || v != 0)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s (key \"%.*s\"), which this version cannot run",
                            g->s->path, what, (int)kv->key.len, kv->key.p);
    return QSF_OK;
}

/* Keys that are understood under some architectures, and otherwise only if they are zero. */
static const struct { uint64_t unless; const char *key, *what; } gguf_only[] = {
    { QSF_HAS_ALIBI, "%s.attention.max_alibi_bias", "ALiBi positions" },
    { QSF_HAS_CLAMP, "%s.attention.clamp_kqv", "clamped queries and keys" },
    { QSF_HAS_ALPHA, "%s.rope.scaling.alpha", "NTK-aware rotary scaling" },
    { QSF_HAS_TEMP, "%s.attention.temperature_scale", "queries scaled with their position" },
};

static qsf_status refuse_features(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    bool causal = true;
    const uint64_t has = g->row->has;
    if (!g->row->experts &&
        (st = refuse_number(g, "%s.expert_count", "a mixture of experts", err))) return st;
    for (size_t i = 0; i < QSF_ARRAY_LEN(gguf_only); i++)
        if (!(has & gguf_only[i].unless) && (st = refuse_number(g, gguf_only[i].key, gguf_only[i].what, err)))
            return st;
    if ((has & QSF_HAS_SECTIONS) &&
        (st = refuse_number(g, "%s.rope.dimension_sections", "rotary sections of images", err))) return st;
    if ((st = qsf_gguf_bool(g, "%s.attention.causal", &causal, err))) return st;
    hp->both_ways = g->row->both_ways || !causal;
    if (!causal && !g->row->both_ways && !g->row->asks_causal)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: attention that is not causal, which this version does "
                        "not know of %s", g->s->path, g->arch);
    return QSF_OK;
}

/* ---- hyperparameters ---- */

static qsf_status hp_wrong(const gguf *g, const char *what, uint32_t value, qsf_error *err)
{
    return qsf_fail(err, QSF_E_CORRUPT, "%s: %s of %u", g->s->path, what, (unsigned)value);
}

/* The last layers of a file may be for multi-token prediction: these are ignored, unless the first
 * of them is to run. */
static qsf_status read_layers(gguf *g, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    if ((st = qsf_gguf_u32(g, "%s.block_count", true, &hp->n_layers, err)) ||
        (st = qsf_gguf_u32(g, "%s.nextn_predict_layers", false, &g->n_nextn, err))) return st;
    if (g->n_nextn && g->n_nextn >= hp->n_layers)
        return hp_wrong(g, "a number of multi-token prediction layers", g->n_nextn, err);
    if ((st = qsf_gguf_mtp(g, err))) return st;
    hp->n_layers -= g->n_nextn;
    return QSF_OK;
}

/* Without attention, or without feed-forwards, nothing asks for their sizes; files give them as
 * 0. */
static void sizes_unused(qsf_hparams *hp, bool bare)
{
    hp->n_heads = hp->n_kv_heads = 1;
    hp->head_dim = 16;
    if (bare) hp->n_ff = 1;
}

static qsf_status read_sizes(gguf *g, qsf_hparams *hp, qsf_error *err)
{
    const bool bare = g->row->layers == QSF_LAYERS_MIXER, still = bare || g->row->layers >= QSF_LAYERS_STATE;
    qsf_status st;
    uint32_t value_dim;
    bool ff_differ, heads_differ, kv_differ;
    if ((st = qsf_gguf_u32(g, "%s.context_length", true, &hp->n_ctx_train, err)) ||
        (st = qsf_gguf_u32(g, "%s.embedding_length", true, &hp->n_embd, err)) ||
        (st = read_layers(g, hp, err)) ||
        (st = qsf_gguf_layer_u32(g, GGUF_LAYER_EXPERT_FF, false, &hp->n_ff, &ff_differ, err)) ||
        (st = qsf_gguf_layer_u32(g, GGUF_LAYER_FF, !bare && (!g->row->experts || !hp->n_ff), &hp->n_ff,
                                 &ff_differ, err)) ||
        (st = qsf_gguf_layer_u32(g, GGUF_LAYER_HEADS, !still, &hp->n_heads, &heads_differ, err))) return st;
    hp->n_kv_heads = hp->n_heads;
    if ((st = qsf_gguf_layer_u32(g, GGUF_LAYER_KV_HEADS, false, &hp->n_kv_heads, &kv_differ, err))) return st;
    if (g->row->has & QSF_HAS_HALF_FF) hp->n_ff /= 2;
    if (ff_differ && g->row->has & QSF_HAS_HALF_FF)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layers of %s that differ in length", g->s->path,
                        g->arch);
    if (still) sizes_unused(hp, bare);
    if (!hp->n_ctx_train) return hp_wrong(g, "a context", hp->n_ctx_train, err);
    if (!hp->n_embd || hp->n_embd > 1 << 20) return hp_wrong(g, "an embedding length", hp->n_embd, err);
    if (!hp->n_layers || hp->n_layers > 1 << 16) return hp_wrong(g, "a number of layers", hp->n_layers, err);
    if (!hp->n_ff || hp->n_ff > 1 << 24) return hp_wrong(g, "a feed-forward length", hp->n_ff, err);
    if (!hp->n_heads || hp->n_heads > 1 << 16) return hp_wrong(g, "a number of heads", hp->n_heads, err);
    const bool may_share = heads_differ || kv_differ || (hp->n_kv_heads && hp->n_heads % hp->n_kv_heads == 0);
    if (!hp->n_kv_heads || !may_share)
        return hp_wrong(g, "a number of key and value heads", hp->n_kv_heads, err);
    if (!still) hp->head_dim = hp->n_embd / hp->n_heads;
    if (heads_differ && !qsf_gguf_find(g, "%s.attention.key_length"))
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: layers differ in heads, and no key \"%s.attention.key_length\" "
                        "gives their size", g->s->path, g->arch);
    if (!still && !qsf_gguf_find(g, "%s.attention.key_length") && hp->n_embd % hp->n_heads)
        return hp_wrong(g, "a number of heads", hp->n_heads, err);
    if ((st = qsf_gguf_u32(g, "%s.attention.key_length", false, &hp->head_dim, err))) return st;
    value_dim = hp->head_dim;
    if ((st = qsf_gguf_u32(g, "%s.attention.value_length", false, &value_dim, err))) return st;
    if (!hp->head_dim || hp->head_dim > QSF_MAX_HEAD_DIM)
        return hp_wrong(g, "a head size", hp->head_dim, err);
    if (value_dim != hp->head_dim && !(g->row->has & QSF_HAS_LATENT))
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "%s: keys of %u but values of %u, which this version cannot run", g->s->path,
                        (unsigned)hp->head_dim, (unsigned)value_dim);
    return qsf_gguf_mixers(g, err);
}

/* YaRN's growth of attention with the context. */
static float yarn_mscale(float factor, float by) { return factor <= 1 ? 1 : 0.1f * by * logf(factor) + 1; }

static qsf_status read_yarn(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    float log_mul = 0, attn = 1;
    hp->yarn_ext_factor = -1;
    hp->yarn_beta_fast = 32;
    hp->yarn_beta_slow = 1;
    if ((st = qsf_gguf_f32(g, "%s.rope.scaling.yarn_ext_factor", false, &hp->yarn_ext_factor, err)) ||
        (st = qsf_gguf_f32(g, "%s.rope.scaling.yarn_attn_factor", false, &attn, err)) ||
        (st = qsf_gguf_f32(g, "%s.rope.scaling.yarn_beta_fast", false, &hp->yarn_beta_fast, err)) ||
        (st = qsf_gguf_f32(g, "%s.rope.scaling.yarn_beta_slow", false, &hp->yarn_beta_slow, err)) ||
        (st = qsf_gguf_f32(g, "%s.rope.scaling.yarn_log_multiplier", false, &log_mul, err))) return st;
    /* when it interpolates, llama.cpp recomputes the factor; then the file's multiplier only enters
     * the ratio of two growths. */
    if (hp->yarn_ext_factor != 0) attn = log_mul != 0 ? 1 / yarn_mscale(hp->scaling_factor, log_mul) : 1;
    hp->yarn_attn_factor = attn;
    return QSF_OK;
}

static qsf_status read_rope(const gguf *g, const qsf_arch *a, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    gguf_text type = { "linear", 6 };
    hp->rope_dim = hp->head_dim;
    hp->rope_base = 10000;
    hp->scaling_factor = 0;
    hp->scaling_orig_ctx = hp->n_ctx_train;
    if ((st = qsf_gguf_u32(g, "%s.rope.dimension_count", false, &hp->rope_dim, err)) ||
        (st = qsf_gguf_f32(g, "%s.rope.freq_base", false, &hp->rope_base, err)) ||
        (st = qsf_gguf_u32(g, "%s.rope.scaling.original_context_length", false,
                           &hp->scaling_orig_ctx, err)) ||
        (st = qsf_gguf_f32(g, "%s.rope.scaling.attn_factor", false, &hp->rope_attn_factor, err)) ||
        (st = qsf_gguf_f32(g, "%s.rope.scale_linear", false, &hp->scaling_factor, err)) ||
        (st = qsf_gguf_f32(g, "%s.rope.scaling.factor", false, &hp->scaling_factor, err)) ||
        (st = qsf_gguf_string(g, "%s.rope.scaling.type", &type, err))) return st;
    if (a->rope == QSF_ROPE_NONE) {
        hp->rope_dim = 0;
        hp->scaling_factor = 1;
        return QSF_OK;
    }
    if (!hp->rope_dim || hp->rope_dim % 2 || hp->rope_dim > hp->head_dim)
        return hp_wrong(g, "rotary dimensions", hp->rope_dim, err);
    if (hp->rope_base <= 0)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: a rotary base of %g", g->s->path, (double)hp->rope_base);
    if (hp->scaling_factor == 0) hp->scaling_factor = 1;
    if (hp->scaling_factor < 0)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: a rotary scaling of %g", g->s->path,
                        (double)hp->scaling_factor);
    if (!hp->scaling_orig_ctx) hp->scaling_orig_ctx = hp->n_ctx_train;
    if (gguf_text_is(type, "none")) hp->scaling = QSF_SCALING_NONE;
    else if (gguf_text_is(type, "linear"))
        hp->scaling = hp->scaling_factor == 1 ? QSF_SCALING_NONE : QSF_SCALING_LINEAR;
    else if (gguf_text_is(type, "yarn")) hp->scaling = QSF_SCALING_YARN;
    else if (gguf_text_is(type, "longrope") && a->longrope) hp->scaling = QSF_SCALING_LONGROPE;
    else
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "%s: rotary scaling \"%.*s\" of %s is unknown to this version", g->s->path,
                        (int)QSF_MIN(type.len, 40), type.p, a->name);
    if (hp->scaling == QSF_SCALING_NONE) hp->scaling_factor = 1;
    return hp->scaling == QSF_SCALING_YARN ? read_yarn(g, hp, err) : QSF_OK;
}

/* A pattern given layer by layer: one of QSF's, global if i % n == n - 1, or else a list. */
static qsf_status read_window_list(const gguf *g, const gguf_kv *kv, qsf_hparams *hp, qsf_error *err)
{
    uint32_t n = 0, first = 0;
    bool regular = true;
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        int64_t windowed;
        if (!qsf_gguf_integer(kv, i, &windowed))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"%.*s\" has no value for layer %u", g->s->path,
                            (int)kv->key.len, kv->key.p, (unsigned)i);
        first |= i == 0 && !windowed && g->row->has & QSF_HAS_FIRST_GLOBAL;
        if (!windowed && n == 0 && (i || !first)) n = i + !first;
        regular &= (windowed == 0) == (first ? i == 0 || (n && i % n == 0) : n && i % n == n - 1);
    }
    hp->window_pattern = first && !n ? hp->n_layers : n;
    hp->window_first = first ? hp->window_pattern - 1 : 0;
    if (regular) return QSF_OK;
    hp->windowed = qsf_arena_array(g->s->arena, hp->n_layers, 1, "windowed layers", err);
    for (uint32_t i = 0; hp->windowed && i < hp->n_layers; i++) {
        int64_t windowed = 0;
        (void)qsf_gguf_integer(kv, i, &windowed);
        hp->windowed[i] = windowed != 0;
    }
    return hp->windowed ? QSF_OK : QSF_E_MEMORY;
}

/* Gemma's later ones alone have windowed layers whose heads differ. */
static qsf_status check_local(const gguf *g, const qsf_hparams *hp, qsf_error *err)
{
    uint32_t dim = hp->head_dim, turns = hp->rope_dim;
    qsf_status st;
    if (g->row->later_gemma) return QSF_OK;
    if ((st = qsf_gguf_u32(g, "%s.attention.key_length_swa", false, &dim, err)) ||
        (st = qsf_gguf_u32(g, "%s.rope.dimension_count_swa", false, &turns, err))) return st;
    if (dim == hp->head_dim && turns == hp->rope_dim) return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: windowed layers of %s with heads of %u, of which %u columns "
                    "rotate, but others with %u and %u, which this version cannot run", g->s->path, g->arch,
                    (unsigned)dim, (unsigned)turns, (unsigned)hp->head_dim, (unsigned)hp->rope_dim);
}

static qsf_status read_window(const gguf *g, const qsf_arch *a, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    if (!a->may_window || (a->has & QSF_HAS_64 && hp->n_layers != 64)) return QSF_OK;
    hp->window = a->window;
    hp->window_pattern = a->window_pattern;
    if ((st = qsf_gguf_u32(g, "%s.attention.sliding_window", false, &hp->window, err))) return st;
    const gguf_kv *kv = a->window_pattern ? qsf_gguf_find(g, "%s.attention.sliding_window_pattern") : NULL;
    if (kv && kv->array) st = read_window_list(g, kv, hp, err);
    else if (kv) st = qsf_gguf_u32(g, "%s.attention.sliding_window_pattern", false, &hp->window_pattern, err);
    if (st) return st;
    if (a->has & QSF_HAS_FIRST_GLOBAL && hp->window_pattern && !(kv && kv->array))
        hp->window_first = hp->window_pattern - 1;
    if (a->has & QSF_HAS_STILL_GLOBAL) hp->rope_skip = hp->window_pattern;
    if (a->has & QSF_HAS_EARLY && !hp->window) hp->rope_skip = 0;
    /* every layer sees everything */
    if (hp->window > INT32_MAX || (hp->window_pattern == 1 && !hp->windowed)) hp->window = 0;
    if (!hp->window) return QSF_OK;
    if ((st = check_local(g, hp, err))) return st;
    if (a->has & QSF_HAS_ONE_BASE) {
        const bool apart = a->has & QSF_HAS_PLAIN_LOCAL && hp->scaling != QSF_SCALING_NONE;
        hp->rope_base_local = apart ? hp->rope_base : 0;
        return QSF_OK;
    }
    hp->rope_base_local = a->base_local > 0 ? a->base_local : hp->rope_base;
    if (a->window_pattern && (st = qsf_gguf_f32(g, "%s.rope.freq_base_swa", false,
                                                &hp->rope_base_local, err)))
        return st;
    if (hp->rope_base_local <= 0)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: a rotary base of %g", g->s->path,
                        (double)hp->rope_base_local);
    if (a->base_local > 0) return QSF_OK;
    /* The others scale windowed layers as they do global ones,
     * which a base of their own would leave out. */
    if (hp->rope_base_local == hp->rope_base) hp->rope_base_local = 0;
    else if (hp->scaling != QSF_SCALING_NONE)
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "%s: rotary scaling together with a separate base for windowed layers",
                        g->s->path);
    return QSF_OK;
}

static qsf_status read_scales(const gguf *g, const qsf_arch *a, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    const char *rms = "%s.attention.layer_norm_rms_epsilon", *eps = "%s.attention.layer_norm_epsilon";
    if (a->norm == QSF_NORM_RMS && (a->layers != QSF_LAYERS_ONE || qsf_gguf_find(g, rms))) eps = rms;
    if ((st = qsf_gguf_f32(g, eps, true, &hp->norm_eps, err))) return st;
    if (hp->norm_eps < 0)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: a norm epsilon of %g", g->s->path, (double)hp->norm_eps);
    hp->embd_scale = a->scaled_embd ? sqrtf((float)hp->n_embd) : 1;
    hp->attn_softcap = a->attn_softcap;
    /* llama.cpp's, which Gemma's later ones have unless a key says otherwise */
    hp->final_softcap = a->later_gemma ? 30 : a->final_softcap;
    if (a->attn_softcap > 0 && (st = qsf_gguf_f32(g, "%s.attn_logit_softcapping", false,
                                                  &hp->attn_softcap, err)))
        return st;
    if (a->caps_logits &&
        (st = qsf_gguf_f32(g, "%s.final_logit_softcapping", false, &hp->final_softcap, err))) return st;
    if (hp->attn_softcap < 0 || hp->final_softcap < 0)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: a soft cap below zero", g->s->path);
    if (a->n_layers_27b && hp->n_layers == a->n_layers_27b)
        hp->attn_scale = 1 / sqrtf((float)(hp->n_embd / hp->n_heads));
    return QSF_OK;
}

/* Unknown pooling types are treated as none. */
static qsf_status read_pooling(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    uint32_t pooling = QSF_POOL_NONE;
    const qsf_status st = qsf_gguf_u32(g, "%s.pooling_type", false, &pooling, err);
    hp->rank_mean = g->row->has & QSF_HAS_RANK_MEAN;
    hp->pooling = pooling <= QSF_POOL_RANK ? (uint8_t)pooling : QSF_POOL_NONE;
    return st;
}

static void copy_name(char *to, size_t cap, gguf_text from)
{
    const size_t len = QSF_MIN(from.len, cap - 1);
    memcpy(to, from.p, len);
    to[len] = 0;
}

qsf_status qsf_gguf_hparams(gguf *g, qsf_error *err)
{
    qsf_hparams *hp = &g->s->hp;
    gguf_text arch = { "", 0 }, name = { "", 0 };
    qsf_status st;

    if ((st = qsf_gguf_string(g, "general.architecture", &arch, err))
        || (st = qsf_gguf_string(g, "general.name", &name, err)))
        return st;
    if (!arch.len)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"general.architecture\" is missing", g->s->path);
    copy_name(hp->arch, sizeof hp->arch, arch);
    copy_name(hp->name, sizeof hp->name, name);
    g->arch = hp->arch;
    if (g->s->vocab_only) return QSF_OK;

    const qsf_arch *a = g->row = qsf_arch_find(hp->arch);
    if (!a) return arch_unknown(g, err);
    hp->norm = a->norm;
    hp->act = a->act;
    hp->rope = a->rope;
    hp->gated = a->gated;
    hp->learned_pos = a->learned_pos;
    hp->flow = a->flow;
    hp->qk_norm = a->qk_norm;
    hp->rope_skip = a->rope_skip;
    hp->yarn_ext_factor = -1;
    if ((st = refuse_features(g, hp, err)) || (st = read_sizes(g, hp, err)) ||
        (st = read_rope(g, a, hp, err)) || (st = read_window(g, a, hp, err)) ||
        (st = read_pooling(g, hp, err))) return st;
    if ((st = read_scales(g, a, hp, err)) || (st = qsf_gguf_experts(g, err)) ||
        (st = qsf_gguf_eagle(g, err))) return st;
    return qsf_gguf_family(g, err);
}

/* ---- divisors of rotary frequencies ---- */

static qsf_status read_factors(gguf *g, const char *name, float times, float **out, qsf_error *err)
{
    const uint32_t half = g->s->hp.rope_dim / 2;
    const gguf_tensor *t = qsf_gguf_tensor(g, name);
    qsf_status st;
    *out = NULL;
    if (!t) return QSF_OK;
    if (t->dims[0] != half || t->dims[1] * t->dims[2] * t->dims[3] != 1
        || (t->type != QSF_T_F32 && t->type != QSF_T_F16))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%s\" is %llu x %llu, expected %u floats",
                        g->s->path, name, (unsigned long long)t->dims[0], (unsigned long long)t->dims[1],
                        (unsigned)half);
    void *raw = qsf_arena_alloc(g->tmp, t->bytes, name, err);
    float *f = qsf_arena_array(g->s->arena, half, sizeof *f, name, err);
    if (!raw || !f) return QSF_E_MEMORY;
    if ((st = qsf_source_read(g->s, t->file, t->at, raw, t->bytes, name, err))) return st;
    const qsf_tensor as = { .type = (uint8_t)t->type, .block = 1, .rows = 1, .cols = half, .bytes = t->bytes,
                            .data = raw };
    qsf_dequant_rows(&as, 0, 1, f);
    for (uint32_t i = 0; i < half; i++) {
        f[i] *= times;
        if (!(f[i] > 0 && f[i] <= FLT_MAX))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%s\": value %u is %g", g->s->path, name,
                            (unsigned)i, (double)f[i]);
    }
    *out = f;
    return QSF_OK;
}

qsf_status qsf_gguf_rope_factors(gguf *g, qsf_error *err)
{
    qsf_hparams *hp = &g->s->hp;
    qsf_status st;
    if (!g->row->longrope) return QSF_OK;
    if ((st = read_factors(g, "rope_freqs.weight", 1, &hp->rope_factors, err)) || hp->rope_factors) return st;
    /* The divisor's own scaling is the factor of longrope. */
    const float times = hp->scaling == QSF_SCALING_LONGROPE ? hp->scaling_factor : 1;
    if ((st = read_factors(g, "rope_factors_short.weight", times, &hp->rope_factors, err)) ||
        (st = read_factors(g, "rope_factors_long.weight", times, &hp->rope_factors_long, err))) return st;
    if (!hp->rope_factors != !hp->rope_factors_long)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: only one of the tensors rope_factors_short.weight and rope_factors_long.weight "
                        "is there", g->s->path);
    if (hp->scaling == QSF_SCALING_LONGROPE && !hp->rope_factors)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: longrope scaling without the tensors rope_factors_short.weight and "
                        "rope_factors_long.weight", g->s->path);
    /* converters do not always set the type */
    if (hp->rope_factors && hp->scaling == QSF_SCALING_NONE) hp->scaling = QSF_SCALING_LONGROPE;
    return QSF_OK;
}
