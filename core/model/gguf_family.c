/* Reads keys and tensors of GGUF files that only some architectures have: scales, clamps, ALiBi,
 * parallel layers.
 * SPDX-License-Identifier: MIT */
#include "model/gguf.h"
#include "model/roles.h"

static bool family_has(const gguf *g, qsf_arch_has what) { return (g->row->has & (uint64_t)what) != 0; }

static qsf_status family_wrong(const gguf *g, const char *what, float value, qsf_error *err)
{
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s of %g, which this version cannot run", g->s->path, what,
                    (double)value);
}

/* ---- scales ---- */

/* Files of MiniCPM that say nothing mean the numbers of the first models, whose logits llama.cpp
 * scales the other way round: those are refused by the missing key.  MiniCPM 3 has no keys, and
 * logits as of a model with 256 columns. */
static qsf_status family_scales(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    float divisor = 0;
    if (family_has(g, QSF_HAS_OLD_SCALES)) {
        hp->embd_scale = 12;
        hp->residual_scale = 1.4f / sqrtf((float)hp->n_layers);
        if (!family_has(g, QSF_HAS_SCALES)) hp->logit_scale = 256 / (float)hp->n_embd;
    }
    if (family_has(g, QSF_HAS_SCALES)) {
        if ((st = qsf_gguf_f32(g, "%s.embedding_scale", false, &hp->embd_scale, err)) ||
            (st = qsf_gguf_f32(g, "%s.residual_scale", false, &hp->residual_scale, err))) return st;
        if (!family_has(g, QSF_HAS_OLD_SCALES) &&
            (st = qsf_gguf_f32(g, "%s.attention.scale", false, &hp->attn_scale, err))) return st;
        if (hp->embd_scale == 0) hp->embd_scale = 1;
        if (hp->embd_scale < 0) return family_wrong(g, "an embedding scale", hp->embd_scale, err);
        if (hp->attn_scale < 0) return family_wrong(g, "an attention scale", hp->attn_scale, err);
    }
    if (family_has(g, QSF_HAS_LOGIT))
        return qsf_gguf_f32(g, "%s.logit_scale", false, &hp->logit_scale, err);
    if (!family_has(g, QSF_HAS_DIVISOR)) return QSF_OK;
    const bool old = family_has(g, QSF_HAS_OLD_SCALES);
    if ((st = qsf_gguf_f32(g, "%s.logit_scale", old, &divisor, err))) return st;
    if (divisor == 0 && !old) divisor = 1;
    hp->logit_scale = 1 / divisor;
    return divisor > 0 && isfinite(hp->logit_scale) ? QSF_OK : family_wrong(g, "a logit scale", divisor, err);
}

/* ---- attention ---- */

static qsf_status family_alibi(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    hp->alibi = g->row->alibi;
    if (family_has(g, QSF_HAS_32)) {
        if (hp->n_layers != 32 && hp->n_layers != 40)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s with %u layers; its models have 32, which rotate,"
                            " or 40, which do not", g->s->path, g->arch, (unsigned)hp->n_layers);
        if (hp->n_layers == 32) hp->alibi = 0;
        else hp->rope = QSF_ROPE_NONE;
    }
    if (family_has(g, QSF_HAS_ALIBI) &&
        (st = qsf_gguf_f32(g, "%s.attention.max_alibi_bias", false, &hp->alibi, err))) return st;
    return hp->alibi < 0 ? family_wrong(g, "an ALiBi bias", hp->alibi, err) : QSF_OK;
}

static qsf_status family_attention(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    bool turns = true;
    if ((st = family_alibi(g, hp, err))) return st;
    if (family_has(g, QSF_HAS_CLAMP) &&
        (st = qsf_gguf_f32(g, "%s.attention.clamp_kqv", false, &hp->qkv_clamp, err))) return st;
    if (hp->qkv_clamp < 0) hp->qkv_clamp = 0;
    if (family_has(g, QSF_HAS_TEMP)) {
        if ((st = qsf_gguf_f32(g, "%s.attention.temperature_scale", false, &hp->temp_scale, err))) return st;
        if (hp->temp_scale != 0) hp->temp_every = hp->scaling_orig_ctx;
    }
    if (family_has(g, QSF_HAS_SWITCH) &&
        (st = qsf_gguf_bool(g, "%s.rope.scaling.finetuned", &turns, err))) return st;
    if (!turns) hp->rope = QSF_ROPE_NONE;
    if (hp->rope == QSF_ROPE_NONE) {
        hp->rope_dim = 0;
        hp->scaling = QSF_SCALING_NONE;
        hp->scaling_factor = 1;
    }
    return QSF_OK;
}

/* GLM's vision models rotate halves.  The sections are for time, height and width, whose positions
 * are equal in text; a fourth section would not rotate. */
static qsf_status family_sections(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    const gguf_kv *kv = qsf_gguf_find(g, "%s.rope.dimension_sections");
    int64_t n[4] = { 0 };
    if (!kv || !g->row->sections_halve) return QSF_OK;
    for (uint64_t i = 0; i < QSF_MIN(kv->n, 4u); i++)
        if (!qsf_gguf_integer(kv, i, &n[i]) || n[i] < 0 || (i == 3 && n[i]))
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: key \"%.*s\": section %u does not apply to text",
                            g->s->path, (int)kv->key.len, kv->key.p, (unsigned)i);
    if (n[0] && n[1]) hp->rope = QSF_ROPE_HALVES;
    return QSF_OK;
}

/* The base raised as for a longer context (NTK-aware scaling). */
static qsf_status family_alpha(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    float alpha = 0;
    if (!family_has(g, QSF_HAS_ALPHA)) return QSF_OK;
    const qsf_status st = qsf_gguf_f32(g, "%s.rope.scaling.alpha", false, &alpha, err);
    if (st || alpha <= 0) return st;
    const float dim = (float)hp->head_dim;
    hp->rope_base *= (float)pow(alpha, dim / (dim - 2));
    return isfinite(hp->rope_base) ? QSF_OK : family_wrong(g, "a rotary scaling", alpha, err);
}

/* ---- what lies where ---- */

static qsf_status family_flow(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    bool parallel = false;
    if (family_has(g, QSF_HAS_MAY_PARALLEL) && !qsf_gguf_tensor(g, "blk.0.ffn_norm.weight"))
        hp->flow = QSF_FLOW_PARALLEL;
    if (family_has(g, QSF_HAS_TWO_NORMS) && qsf_gguf_tensor(g, "blk.0.attn_norm_2.weight"))
        hp->flow = QSF_FLOW_PARALLEL_NORMS;
    if (family_has(g, QSF_HAS_LOOSE_POS))
        hp->learned_pos = qsf_gguf_tensor(g, "position_embd.weight") != NULL;
    if (!family_has(g, QSF_HAS_CHOICE)) return QSF_OK;
    if (!qsf_gguf_find(g, "%s.use_parallel_residual"))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"%s.use_parallel_residual\" is missing", g->s->path,
                        g->arch);
    if ((st = qsf_gguf_bool(g, "%s.use_parallel_residual", &parallel, err))) return st;
    if (parallel) hp->flow = QSF_FLOW_PARALLEL_NORMS;
    return QSF_OK;
}

/* ---- encoders ---- */

/* How many rows a tensor has; 0: it is not there. */
static qsf_status family_rows(const gguf *g, const char *name, uint32_t *rows, qsf_error *err)
{
    const gguf_tensor *t = qsf_gguf_tensor(g, name);
    *rows = 0;
    if (!t) return QSF_OK;
    if (!t->dims[1] || t->dims[1] > 1 << 24)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"%s\" has %llu rows", g->s->path, name,
                        (unsigned long long)t->dims[1]);
    *rows = (uint32_t)t->dims[1];
    return QSF_OK;
}

static qsf_status family_encoder(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    uint32_t up = 0, pooling = QSF_POOL_NONE;
    gguf_text act = { "gelu", 4 };
    const bool classes = g->row->may_more & QSF_KIND_MORE(CLS_OUT_BIAS);
    if (g->row->may_more & QSF_KIND_MORE(TOKEN_TYPES) &&
        (st = family_rows(g, "token_types.weight", &hp->n_token_types, err))) return st;
    if (classes && (st = family_rows(g, "cls.output.weight", &hp->n_classes, err))) return st;
    if (g->row->may_more & QSF_KIND_MORE(DENSE_2) &&
        (st = family_rows(g, "dense_2.weight", &hp->n_between, err))) return st;
    if (family_has(g, QSF_HAS_LOOSE_GATE) && !qsf_gguf_tensor(g, "blk.0.ffn_gate.weight")) {
        if ((st = family_rows(g, "blk.0.ffn_up.weight", &up, err))) return st;
        hp->gated = up == 2 * (uint64_t)hp->n_ff;
    }
    if (family_has(g, QSF_HAS_BARE_BEGIN) && !qsf_gguf_tensor(g, "blk.0.attn_norm.weight"))
        hp->flow = QSF_FLOW_BARE_BEGIN;
    if (family_has(g, QSF_HAS_ACT) && (st = qsf_gguf_string(g, "%s.hidden_activation", &act, err))) return st;
    if (gguf_text_is(act, "silu")) hp->act = QSF_ACT_SILU;
    else if (!gguf_text_is(act, "gelu"))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: the activation \"%.*s\", which this version cannot run",
                        g->s->path, (int)QSF_MIN(act.len, 40), act.p);
    if ((st = qsf_gguf_u32(g, "%s.classifier.pooling_type", false, &pooling, err))) return st;
    if (pooling) hp->rank_mean = pooling == QSF_POOL_MEAN;
    return QSF_OK;
}

/* ---- xIELU ---- */

/* What keeps a trained number above zero. */
static float softplus(float x) { return x > 20 ? x : (float)log(1 + exp(x)); }

static qsf_status family_xielu(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    static const char *const keys[QSF_XIELU_NUMBERS] = { "xielu.alpha_p", "xielu.alpha_n", "xielu.beta",
                                                         "xielu.eps" };
    if (!family_has(g, QSF_HAS_XIELU)) return QSF_OK;
    hp->xielu = qsf_arena_array(g->s->arena, (uint64_t)hp->n_layers * QSF_XIELU_NUMBERS, sizeof *hp->xielu,
                                "xIELU's numbers", err);
    if (!hp->xielu) return QSF_E_MEMORY;
    for (int k = 0; k < QSF_XIELU_NUMBERS; k++) {
        const gguf_kv *kv = qsf_gguf_find(g, keys[k]);
        for (uint32_t i = 0; i < hp->n_layers; i++) {
            double v;
            if (!kv || !qsf_gguf_number(kv, kv->array ? i : 0, &v) || !(fabs(v) <= FLT_MAX))
                return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"%s\" has no number for layer %u", g->s->path,
                                keys[k], (unsigned)i);
            hp->xielu[(size_t)i * QSF_XIELU_NUMBERS + (size_t)k] = (float)v;
        }
    }
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        float *x = hp->xielu + (size_t)i * QSF_XIELU_NUMBERS;
        x[0] = softplus(x[0]);
        x[1] = x[2] + softplus(x[1]);
    }
    return QSF_OK;
}

/* ---- Gemma's later ones ---- */

/* Sizes of Gemma 3n's models, unless keys give others. */
static qsf_status family_altup(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    uint32_t streams = QSF_ALTUP, active = 0;
    double first = 1.6448533535003662, v;       /* drops 95 of 100 if gates are normally distributed */
    qsf_status st;
    const gguf_kv *kv = qsf_gguf_find(g, "%s.activation_sparsity_scale");
    hp->altup = true;
    hp->n_embd_layer = 256;
    hp->n_sparse = QSF_MIN(hp->n_layers, 10);
    hp->n_kv_shared = hp->n_layers > 20 ? hp->n_layers - 20 : 0;
    if ((st = qsf_gguf_u32(g, "%s.altup.num_inputs", false, &streams, err)) ||
        (st = qsf_gguf_u32(g, "%s.altup.active_idx", false, &active, err)) ||
        (st = family_rows(g, "blk.0.laurel_l.weight", &hp->n_laurel, err))) return st;
    if (streams != QSF_ALTUP || active)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %u streams of a row, of which layers compute number %u; "
                        "this version has %d and computes the first", g->s->path, (unsigned)streams,
                        (unsigned)active, (int)QSF_ALTUP);
    for (uint32_t i = 0; kv && i < hp->n_layers; i++) {
        if (!qsf_gguf_number(kv, kv->array ? i : 0, &v) || !(v >= 0 && v < 100) ||
            (i && v != 0 && (v != first || hp->n_sparse < i)))
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: a sparsity of gates that is not that of the first "
                            "layers", g->s->path);
        if (i == 0) first = v;
        if (i == 0 || v != 0) hp->n_sparse = v != 0 ? i + 1 : 0;
    }
    hp->sparse = (float)first;
    if (first == 0) hp->n_sparse = 0;
    return QSF_OK;
}

static qsf_status family_gemma(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    uint32_t value_dim, dim = hp->head_dim;
    if (!g->row->later_gemma) return QSF_OK;
    hp->v_norm = true;
    hp->attn_scale = 1;
    if ((st = qsf_gguf_u32(g, "%s.attention.key_length_swa", false, &dim, err))) return st;
    value_dim = dim;
    if ((st = qsf_gguf_u32(g, "%s.attention.value_length_swa", false, &value_dim, err))) return st;
    if (value_dim != dim || !dim)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: windowed layers have keys of %u but values of %u, which "
                        "this version cannot run", g->s->path, (unsigned)dim, (unsigned)value_dim);
    if (dim != hp->head_dim) hp->head_dim_local = dim;
    dim = hp->rope_dim;
    if ((st = qsf_gguf_u32(g, "%s.rope.dimension_count_swa", false, &dim, err))) return st;
    if (dim != hp->rope_dim) hp->rope_dim_local = dim;
    if (g->row->altup && (st = family_altup(g, hp, err))) return st;
    if ((st = qsf_gguf_u32(g, "%s.attention.shared_kv_layers", false, &hp->n_kv_shared, err))) return st;
    return qsf_gguf_u32(g, "%s.embedding_length_per_layer_input", false, &hp->n_embd_layer, err);
}

/* ---- latent attention ---- */

/* YaRN's scale of attention scores.  The file has a tenth of the factor with which the model's
 * authors let scores grow with the context; then the rotation itself does not scale them. */
static qsf_status latent_scale(const gguf *g, qsf_hparams *hp, uint32_t key, qsf_error *err)
{
    float times = 0;
    const qsf_status st = qsf_gguf_f32(g, "%s.rope.scaling.yarn_log_multiplier", false, &times, err);
    const bool grows = hp->scaling == QSF_SCALING_YARN && hp->scaling_factor > 1;
    const float more = grows ? logf(hp->scaling_factor) : 0;
    if (grows && times != 0) hp->yarn_attn_factor = 1 / (1 + 0.1f * more);
    hp->attn_scale = (1 + times * more) * (1 + times * more) / sqrtf((float)key);
    return st;
}

/* Heads' sizes have keys of their own in files whose keys and values are two matrices: there the
 * usual ones are those of what the cache keeps. */
static qsf_status family_latent(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    uint32_t key = hp->head_dim, value = hp->head_dim;
    if (!family_has(g, QSF_HAS_LATENT)) return QSF_OK;
    if ((st = qsf_gguf_u32(g, "%s.attention.value_length", false, &value, err)) ||
        (st = qsf_gguf_u32(g, "%s.attention.key_length_mla", false, &key, err)) ||
        (st = qsf_gguf_u32(g, "%s.attention.value_length_mla", false, &value, err)) ||
        (st = qsf_gguf_u32(g, "%s.attention.kv_lora_rank", true, &hp->kv_latent, err))) return st;
    if (qsf_gguf_tensor(g, "blk.0.attn_q_a.weight") &&
        (st = qsf_gguf_u32(g, "%s.attention.q_lora_rank", true, &hp->q_latent, err))) return st;
    if (key <= hp->rope_dim || key > 2 * QSF_MAX_HEAD_DIM || hp->kv_latent < 2 ||
        hp->kv_latent > QSF_MAX_HEAD_DIM)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: heads of %u columns, of which %u rotate, with a latent "
                        "of %u, which this version cannot run", g->s->path, (unsigned)key,
                        (unsigned)hp->rope_dim, (unsigned)hp->kv_latent);
    hp->head_plain = key - hp->rope_dim;
    hp->head_value = value;
    hp->head_dim = hp->kv_latent + hp->rope_dim;
    hp->n_kv_heads = 1;
    hp->latent_joined = qsf_gguf_tensor(g, "blk.0.attn_kv_b.weight") != NULL;
    return latent_scale(g, hp, key, err);
}

qsf_status qsf_gguf_family(gguf *g, qsf_error *err)
{
    qsf_hparams *hp = &g->s->hp;
    qsf_status st;
    const bool windowed = g->row->may_window && family_has(g, QSF_HAS_STILL_GLOBAL);
    if (windowed && !family_has(g, QSF_HAS_64) && !qsf_gguf_find(g, "%s.attention.sliding_window"))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"%s.attention.sliding_window\" is missing", g->s->path,
                        g->arch);
    if (family_has(g, QSF_HAS_64) && g->row->qk_norm == QSF_QK_EACH && hp->n_layers >= 64 &&
        !qsf_gguf_tensor(g, "blk.0.attn_q_norm.weight"))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: tensor \"blk.0.attn_q_norm.weight\" is missing", g->s->path);
    if ((st = family_encoder(g, hp, err)) || (st = family_gemma(g, hp, err)) ||
        (st = family_latent(g, hp, err))) return st;
    if ((st = family_scales(g, hp, err)) || (st = family_attention(g, hp, err)) ||
        (st = family_sections(g, hp, err)) || (st = family_alpha(g, hp, err)) ||
        (st = family_flow(g, hp, err))) return st;
    return family_xielu(g, hp, err);
}
