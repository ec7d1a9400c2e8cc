/* The GGUF reader: files of every architecture have the tensors that its row says, and no others.
 * SPDX-License-Identifier: MIT */
#include "gguf_case.h"
#include "model/arch.h"
#include "qsf.h"

/* How the files are built: `experts`: with experts if the architecture allows them; `no_length`:
 * without the key for the experts' length. */
static struct { bool experts, no_length; } form;

static bool has_experts(const qsf_arch *a)
{
    return a->experts > QSF_EXPERTS_MAY || (form.experts && a->experts == QSF_EXPERTS_MAY);
}

static uint32_t expert_length(const qsf_arch *a)
{
    const bool together = !strncmp(a->name, "qwen", 4) || a->layers == QSF_LAYERS_ONE;
    return !form.no_length ? 24 : together ? TINY_FF / 2 : TINY_FF;
}

static uint32_t shared_length(const qsf_arch *a)
{
    return !form.no_length ? 40 : a->later_gemma || a->experts == QSF_EXPERTS_SHARED ? TINY_FF : 0;
}

static qsf_hparams hp_of(const qsf_arch *a, bool tied)
{
    const uint64_t more = a->may_more;
    const bool latent = a->has & QSF_HAS_LATENT;
    return tiny_layers(a, (qsf_hparams){ .n_layers = TINY_LAYERS, .n_embd = TINY_EMBD, .n_heads = TINY_HEADS,
                          .n_kv_heads = latent ? 1 : strcmp(a->name, "gpt2") ? TINY_KV_HEADS : TINY_HEADS,
                          .head_dim = latent ? 10 + TINY_HEAD / 2 : TINY_HEAD,
                          .kv_latent = latent ? 10 : 0, .q_latent = latent ? 12 : 0,
                          .rope_dim = latent ? TINY_HEAD / 2 : 0, .head_plain = TINY_HEAD / 2,
                          .head_value = TINY_HEAD, .n_vocab = TINY_VOCAB,
                          .n_ff = a->has & QSF_HAS_HALF_FF ? TINY_FF / 2 : TINY_FF,
                          .norm = a->norm, .flow = a->flow, .qk_norm = a->qk_norm,
                          .n_ctx_train = TINY_CTX, .gated = a->gated,
                          .attn_gate = a->has & QSF_HAS_GATE ? 1 : 0,
                          .mix_neighbours = a->has & QSF_HAS_NEIGHBOURS ? 1 : 0,
                          .learned_pos = a->learned_pos,
                          .n_token_types = more & QSF_KIND_MORE(TOKEN_TYPES) ? 2 : 0,
                          .n_classes = more & QSF_KIND_MORE(CLS_OUT_BIAS) ? 3 : 0,
                          .n_between = more & QSF_KIND_MORE(DENSE_2) ? 5 : 0, .tied = tied,
                          .n_experts = has_experts(a) ? 4 : 0, .n_used = 2,
                          .experts_beside = form.experts && a->later_gemma,
                          .n_ff_expert = expert_length(a), .n_ff_shared = shared_length(a) });
}

/* That of the layer which has most. */
static qsf_layer layer_of_arch(const qsf_arch *a, const qsf_hparams *hp)
{
    return qsf_layer_of(hp, a->mixer == QSF_MIXER_RWKV);
}

static void put_role(gguf_build *b, const qsf_arch *a, const qsf_role *role)
{
    const qsf_hparams hp = hp_of(a, false);
    const qsf_layer layer = layer_of_arch(a, &hp);
    uint32_t cols = (uint32_t)qsf_dim_size(&hp, &layer, (qsf_dim)role->cols);
    uint32_t rows = (uint32_t)qsf_dim_size(&hp, &layer, (qsf_dim)role->rows);
    if (a->fused_gate && role->kind == QSF_K_FFN_GATE) return;
    if (a->fused_gate && role->kind == QSF_K_FFN_UP) rows *= 2;
    cols = QSF_MAX(cols, 1);                /* of a part that these layers have not */
    rows = role->rows == QSF_DIM_ONE ? 0 : QSF_MAX(rows, 1);
    if (a->qk_norm == QSF_QK_EACH && qsf_kinds_have(QSF_KINDS_QK_NORM, role->kind)) {
        rows = cols / TINY_HEAD;
        cols = TINY_HEAD;
    }
    if (!cols) cols = 8;                                /* of what the layer has not */
    uint32_t n = layer.n_experts ? layer.n_experts : 1;
    const bool experts = role->kind >= QSF_K_EXPERT_GATE && role->kind <= QSF_K_EXPERT_DOWN_BIAS;
    const bool heads = role->kind == QSF_K_KEY_UP || role->kind == QSF_K_VALUE_UP;
    const bool third = (experts || (heads && a->has & QSF_HAS_LATENT)) && rows;
    if (heads) n = TINY_HEADS;
    if (experts && !rows) {
        rows = n;
        cols /= n;
    }
    if (third) rows /= n;
    if (role->part != QSF_PART_LAYER) tensor(b, role->gguf, 0, cols, rows);
    for (int i = 0; i < TINY_LAYERS && role->part == QSF_PART_LAYER; i++)
        if (third) tiny_layer_experts(b, i, role->gguf, cols, rows, n);
        else tiny_layer_tensor(b, i, role->gguf, cols, rows);
}

/* The keys that only some architectures need. */
static void put_keys(gguf_build *b, const qsf_arch *a)
{
    if (a->norm != QSF_NORM_RMS && strcmp(a->name, "gpt2"))
        kv_f32(b, tiny_key(a->name, ".attention.layer_norm_epsilon"), 1e-5f);
    if (a->has & QSF_HAS_DIVISOR) kv_f32(b, tiny_key(a->name, ".logit_scale"), 2);
    if (a->has & QSF_HAS_CHOICE) kv_bool(b, tiny_key(a->name, ".use_parallel_residual"), false);
    if (a->has & QSF_HAS_STILL_GLOBAL) kv_u32(b, tiny_key(a->name, ".attention.sliding_window"), 4);
    if (has_experts(a)) {
        kv_u32(b, tiny_key(a->name, ".expert_count"), 4);
        kv_u32(b, tiny_key(a->name, ".expert_used_count"), 2);
    }
    if (has_experts(a) && !form.no_length) {
        kv_u32(b, tiny_key(a->name, ".expert_feed_forward_length"), 24);
        kv_u32(b, tiny_key(a->name, ".expert_shared_feed_forward_length"), 40);
    }
    if (a->has & QSF_HAS_LATENT) {
        kv_u32(b, tiny_key(a->name, ".attention.kv_lora_rank"), 10);
        kv_u32(b, tiny_key(a->name, ".attention.q_lora_rank"), 12);
        kv_u32(b, tiny_key(a->name, ".rope.dimension_count"), TINY_HEAD / 2);
    }
    if (a->mixer) {
        const bool short_conv = a->mixer == QSF_MIXER_SHORT_CONV;
        kv_u32(b, tiny_key(a->name, short_conv ? ".shortconv.l_cache" : ".ssm.conv_kernel"), 3);
        kv_u32(b, tiny_key(a->name, ".full_attention_interval"), 1);
        kv_u32(b, tiny_key(a->name, ".ssm.inner_size"), 6);
        kv_u32(b, tiny_key(a->name, ".ssm.state_size"), 3);
        kv_u32(b, tiny_key(a->name, ".ssm.time_step_rank"), 2);
    }
    if (a->mixer == QSF_MIXER_RWKV) {
        kv_u32(b, tiny_key(a->name, ".wkv.head_size"), TINY_EMBD / 2);
        kv_u32(b, tiny_key(a->name, ".attention.decay_lora_rank"), 2);
        kv_u32(b, tiny_key(a->name, ".attention.iclr_lora_rank"), 5);
        kv_u32(b, tiny_key(a->name, ".attention.value_residual_mix_lora_rank"), 3);
        kv_u32(b, tiny_key(a->name, ".attention.gate_lora_rank"), 4);
    }
    if (!(a->has & QSF_HAS_XIELU)) return;
    kv_f32(b, "xielu.alpha_p", 0.5f);
    kv_f32(b, "xielu.alpha_n", 0.25f);
    kv_f32(b, "xielu.beta", 0.5f);
    kv_f32(b, "xielu.eps", -1e-6f);
}

/* Whether a file with the tensor, or without it, is of another form of the architecture. */
static bool tells_forms_apart(const qsf_arch *a, const qsf_role *role)
{
    /* one with gates has another share of rows */
    if (a->layers == QSF_LAYERS_STATE && role->kind == QSF_K_MIX_GATE_IN) return true;
    if (role->kind == QSF_K_TOKEN_TYPES || role->kind == QSF_K_CLS_OUT || role->kind == QSF_K_DENSE_2)
        return a->may_more != 0;
    /* it is not in a layer's place there, and elsewhere another norm */
    if (role->kind == QSF_K_FEATURES_NORM) return true;
    /* llama.cpp loads it but does not add it */
    if (!strcmp(a->name, "qwen2vl") && role->kind == QSF_K_OUTPUT_BIAS) return true;
    if ((a->has & QSF_HAS_LOOSE_GATE && role->kind == QSF_K_FFN_GATE) ||
        (a->later_gemma && role->kind == QSF_K_ATTN_V) ||   /* values are keys then */
        /* without experts a scale of none of them, and elsewhere of matrices */
        role->kind == QSF_K_EXPERT_WEIGHT ||
        (a->has & QSF_HAS_BARE_BEGIN && role->kind == QSF_K_ATTN_NORM)) return true;
    /* there these are names of other norms */
    if ((role->kind == QSF_K_ATTN_NORM_2 || role->kind == QSF_K_ATTN_NORM_2_BIAS) &&
        (a->has & QSF_HAS_TWO_NORMS || a->mixer == QSF_MIXER_RWKV)) return true;
    if (a->has & QSF_HAS_LATENT && (role->kind == QSF_K_Q_A || role->kind == QSF_K_KV_B)) return true;
    return (a->has & QSF_HAS_MAY_PARALLEL && role->kind == QSF_K_FFN_NORM) ||
           (a->has & QSF_HAS_LOOSE_POS && role->kind == QSF_K_POS_EMBD) ||
           /* there the final norm has this name */
           (!strncmp(a->name, "lfm2", 4) && role->kind == QSF_K_TOKEN_NORM) ||
           (a->layers == QSF_LAYERS_ONE && role->kind == QSF_K_ATTN_NORM) ||
           /* there it is FFN_NORM */
           ((!strcmp(a->name, "seed_oss") || a->mixer == QSF_MIXER_DELTA_NET ||
             !strcmp(a->name, "glm4moe") || !strcmp(a->name, "gpt-oss")) &&
            role->kind == QSF_K_ATTN_POST_NORM);
}

/* Whether the tensor belongs to a dense feed-forward in layers that have only experts. */
static bool is_of_nothing(const qsf_layer *layer, const qsf_role *role)
{
    return form.experts && !layer->n_ff && qsf_kinds_have(QSF_KINDS_FFN_BIAS, role->kind);
}

/* A model with all that it may have; without one tensor, and with another (or NULL). */
static gguf_build by_row(const qsf_arch *a, const qsf_role *without, const qsf_role *with)
{
    const qsf_hparams hp = hp_of(a, false);
    const qsf_layer layer = layer_of_arch(a, &hp);
    gguf_build b = tiny(a->name);
    put_keys(&b, a);
    tiny_vocab(&b);
    for (size_t i = 0; i < QSF_N_ROLES; i++) {
        const qsf_role *role = &qsf_roles[i];
        const bool takes = qsf_arch_takes(a, &hp, &layer, role) && !is_of_nothing(&layer, role);
        if (role == with || (role != without && takes)) put_role(&b, a, role);
    }
    return b;
}

/* Whether a file of these sizes is not one of its models; an EAGLE 3 head is not a model. */
static bool is_apart(const qsf_arch *a) { return a->has & QSF_HAS_32 || a->altup || a->eagle; }

TEST(gguf_takes_what_the_row_of_an_architecture_says)
{
    for (const qsf_arch *a = qsf_archs; a->name; a++) {
        if (is_apart(a)) continue;
        const qsf_hparams tied = hp_of(a, true), untied = hp_of(a, false);
        const qsf_layer layer = layer_of_arch(a, &tied);
        gguf_build b = by_row(a, NULL, NULL);
        qsf_source *s = accept(&b);
        if (s) close_source(s);
        for (size_t i = 0; i < QSF_N_ROLES; i++) {
            const qsf_role *role = &qsf_roles[i];
            if (tells_forms_apart(a, role)) continue;
            if (!qsf_arch_takes(a, &untied, &layer, role)) {
                b = by_row(a, NULL, role);
                refuse(&b, QSF_E_UNSUPPORTED, "is not part of architecture");
            } else if (qsf_arch_needs(a, &tied, &layer, role) &&
                       !(a->fused_gate && role->kind == QSF_K_FFN_GATE)) {
                b = by_row(a, role, NULL);
                refuse(&b, QSF_E_CORRUPT, "is missing");
            }
        }
    }
}

/* ---- numbers in the metadata ---- */

/* Opens and runs any bytes; a refusal must name the file. */
static void run_or_refuse(const uint8_t *bytes, size_t len, const char *what)
{
    memfile f;
    qsf_model_options mo;
    qsf_context_options co;
    qsf_model *m = NULL;
    qsf_context *c = NULL;
    qsf_model_info info = { .size = sizeof info };
    memset(&err, 0, sizeof err);
    memfile_init(&f, bytes, len);
    qsf_model_defaults(&mo);
    mo.file = &f.file;
    qsf_status st = qsf_model_open("m.gguf", &mo, &m, &err);
    if (!st) st = qsf_model_get_info(m, &info);
    qsf_context_defaults(&co);
    co.n_threads = 1;
    co.n_ctx = info.n_ctx_train > 4096 ? 64 : 0;
    if (!st) st = qsf_context_new(m, &co, &c, &err);
    if (!st) {
        const qsf_row row = { 0, 0, !info.encoder };
        st = qsf_compute(c, &row, 1);
        CHECK(st == QSF_OK || st == QSF_E_CORRUPT || st == QSF_E_ARGUMENT || st == QSF_E_UNSUPPORTED);
    } else if (!strstr(err.text, "m.gguf") && !strstr(err.text, "out of memory")) {
        CHECK_STR(err.text, "m.gguf");
        printf("      %s\n", what);
    }
    qsf_context_free(c);
    qsf_model_close(m);
}

/* The offset of the next integer value among a built file's keys. */
static size_t next_number(const gguf_build *b, size_t *at, char key[96])
{
    static const uint8_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    while (*at < b->kv.len) {
        const uint8_t *p = b->kv.p + *at;
        const uint64_t len = qsf_le64(p);
        const uint32_t type = qsf_le32(p + 8 + len);
        const size_t value = *at + 8 + (size_t)len + 4;
        snprintf(key, 96, "%.*s", (int)QSF_MIN(len, 90), (const char *)p + 8);
        if (type == 8) {
            *at = value + 8 + (size_t)qsf_le64(b->kv.p + value);
        } else if (type == 9) {
            const uint32_t of = qsf_le32(b->kv.p + value);
            uint64_t n = qsf_le64(b->kv.p + value + 4);
            for (*at = value + 12; n--;) *at += of == 8 ? 8 + (size_t)qsf_le64(b->kv.p + *at) : sizes[of];
        } else {
            *at = value + sizes[type];
            if (type == 4) return value;
        }
    }
    return 0;
}

/* Dimensions that match no tensor, counts beyond any limit, and some that still work. */
TEST(any_number_of_a_description_is_refused_or_runs)
{
    static const uint32_t values[] = { 0, 1, 2, 3, 0x10000, 0x7fffffff, 0xffffffff };
    int number = 0;
    for (const qsf_arch *a = qsf_archs; a->name; a++) {
        if (is_apart(a)) continue;
        gguf_build b = by_row(a, NULL, NULL);
        char key[96], what[128];
        gguf_build_end(&b);
        const size_t keys = 24;                 /* offset of the first key */
        for (size_t at = 0, value; (value = next_number(&b, &at, key));)
            for (size_t v = 0; v < QSF_ARRAY_LEN(values); v++) {
                if (number++ % TEST_EVERY) continue;
                uint8_t *p = b.out + keys + value;
                const uint32_t was = qsf_le32(p);
                qsf_put32(p, values[v]);
                snprintf(what, sizeof what, "%s is %u", key, (unsigned)values[v]);
                run_or_refuse(b.out, b.len, what);
                qsf_put32(p, was);
            }
        gguf_build_free(&b);
    }
}

/* ---- files saved by llama.cpp ---- */

static bool has_key(const gguf_build *b, const char *key)
{
    const size_t n = strlen(key);
    for (size_t i = 0; i + 8 + n <= b->kv.len; i++)
        if (qsf_le64(b->kv.p + i) == n && !memcmp(b->kv.p + i + 8, key, n)) return true;
    return false;
}

/* Initial values of llama.cpp's variables (integers, floats and booleans), all of which it writes
 * for every architecture. */
static const struct { const char *key; uint32_t value; } saved_u32[] = {
    { ".leading_dense_block_count", 0 }, { ".expert_feed_forward_length", 0 },
    { ".expert_shared_feed_forward_length", 0 }, { ".expert_chunk_feed_forward_length", 0 },
    { ".expert_count", 0 }, { ".expert_used_count", 0 }, { ".expert_shared_count", 0 },
    { ".expert_group_count", 0 }, { ".expert_group_used_count", 0 }, { ".expert_gating_func", 0 },
    { ".experts_per_group", 0 }, { ".moe_every_n_layers", 0 }, { ".nextn_predict_layers", 0 },
    { ".pooling_type", 0 }, { ".decoder_block_count", 0 }, { ".rescale_every_n_layers", 0 },
    { ".time_mix_extra_dim", 0 }, { ".time_decay_extra_dim", 0 }, { ".interleave_moe_layer_step", 0 },
    { ".attention.q_lora_rank", 0 }, { ".attention.kv_lora_rank", 0 }, { ".attention.decay_lora_rank", 0 },
    { ".attention.iclr_lora_rank", 0 }, { ".attention.value_residual_mix_lora_rank", 0 },
    { ".attention.gate_lora_rank", 0 }, { ".attention.relative_buckets_count", 0 },
    { ".attention.temperature_length", 0 }, { ".attention.key_length_mla", 0 },
    { ".attention.value_length_mla", 0 }, { ".attention.recurrent_layers", 0 },
    { ".rope.scaling.original_context_length", TINY_CTX }, { ".ssm.inner_size", 0 },
    { ".ssm.conv_kernel", 0 }, { ".ssm.state_size", 0 }, { ".ssm.time_step_rank", 0 },
    { ".ssm.group_count", 0 }, { ".wkv.head_size", 0 },
};
static const struct { const char *key; float value; } saved_f32[] = {
    { ".expert_weights_scale", 0 }, { ".expert_group_scale", 0.05f }, { ".logit_scale", 0 },
    { ".attn_logit_softcapping", 50 }, { ".router_logit_softcapping", 30 }, { ".residual_scale", 0 },
    { ".embedding_scale", 0 }, { ".attention.clamp_kqv", 0 }, { ".attention.layer_norm_epsilon", 0 },
    { ".attention.layer_norm_rms_epsilon", 0 }, { ".attention.group_norm_epsilon", 0 },
    { ".attention.scale", 0 }, { ".attention.output_scale", 0 }, { ".attention.value_scale", 0 },
    { ".attention.temperature_scale", 0 }, { ".rope.freq_base", 10000 }, { ".rope.freq_base_swa", 10000 },
    { ".rope.scaling.factor", 0 }, { ".rope.scaling.attn_factor", 1 },
    { ".rope.scaling.yarn_log_multiplier", 0 }, { ".rope.scaling.yarn_ext_factor", -1 },
    { ".rope.scaling.yarn_attn_factor", 1 }, { ".rope.scaling.yarn_beta_fast", 32 },
    { ".rope.scaling.yarn_beta_slow", 1 },
};
static const char *const saved_false[] = { ".expert_weights_norm", ".swin_norm", ".ssm.dt_b_c_rms",
                                           ".use_parallel_residual" };

static void save_u32(gguf_build *b, const char *arch, const char *key, uint32_t value)
{
    if (!has_key(b, tiny_key(arch, key))) kv_u32(b, tiny_key(arch, key), value);
}

static void save_f32(gguf_build *b, const char *arch, const char *key, float value)
{
    if (!has_key(b, tiny_key(arch, key))) kv_f32(b, tiny_key(arch, key), value);
}

static void save_bool(gguf_build *b, const char *arch, const char *key, bool value)
{
    if (!has_key(b, tiny_key(arch, key))) kv_bool(b, tiny_key(arch, key), value);
}

/* Keys that follow from the architecture or from other keys. */
static void save_own_keys(gguf_build *b, const qsf_arch *a)
{
    static const char *const sizes[] = { ".attention.key_length", ".attention.value_length",
                                         ".attention.key_length_swa", ".attention.value_length_swa",
                                         ".rope.dimension_count", ".rope.dimension_count_swa" };
    const bool still = a->layers == QSF_LAYERS_MIXER || a->layers >= QSF_LAYERS_STATE;
    const uint32_t turns = a->has & QSF_HAS_LATENT ? TINY_HEAD / 2 : TINY_HEAD;
    for (size_t i = 0; i < QSF_ARRAY_LEN(sizes); i++)
        save_u32(b, a->name, sizes[i], still ? 0 : i < 4 ? TINY_HEAD : turns);
    save_u32(b, a->name, ".token_shift_count", a->layers == QSF_LAYERS_STATE ? 1 : 2);
    save_u32(b, a->name, ".attention.sliding_window", a->window);
    if (a->has & QSF_HAS_OLD_SCALES && a->has & QSF_HAS_SCALES) {
        save_f32(b, a->name, ".embedding_scale", 12);
        save_f32(b, a->name, ".residual_scale", 1.4f / sqrtf(TINY_LAYERS));
    }
    save_f32(b, a->name, ".attention.max_alibi_bias", a->alibi);
    save_f32(b, a->name, ".final_logit_softcapping",
             strcmp(a->name, "gemma3") && strcmp(a->name, "gemma-embedding") ? 30 : 0);
    save_bool(b, a->name, ".attention.causal", !a->both_ways);
    save_bool(b, a->name, ".rope.scaling.finetuned", (a->has & QSF_HAS_SWITCH) != 0);
    kv_text(b, tiny_key(a->name, ".rope.scaling.type"), "linear");
    kv_array(b, tiny_key(a->name, ".rope.dimension_sections"), 5, 4);
    for (int i = 0; i < 4; i++) put_u32(&b->kv, 0);
}

static void save_keys(gguf_build *b, const qsf_arch *a)
{
    save_own_keys(b, a);
    for (size_t i = 0; i < QSF_ARRAY_LEN(saved_u32); i++)
        save_u32(b, a->name, saved_u32[i].key, saved_u32[i].value);
    for (size_t i = 0; i < QSF_ARRAY_LEN(saved_f32); i++)
        save_f32(b, a->name, saved_f32[i].key, saved_f32[i].value);
    for (size_t i = 0; i < QSF_ARRAY_LEN(saved_false); i++) save_bool(b, a->name, saved_false[i], false);
}

/* Small weights of both signs, to avoid saturation. */
static void scatter(gguf_build *b)
{
    uint32_t x = 1;
    for (size_t i = 0; i + 4 <= b->data.len; i += 4) {
        x = x * 1664525 + 1013904223;
        qsf_put32(b->data.p + i, qsf_f32_bits(((float)(x >> 8) / (1 << 24) - 0.4f) / 4));
    }
}

/* The model's output for three tokens: logits, or an encoder's mean embedding.  NULL: refused. */
static float *results_of(gguf_build *b, size_t *n)
{
    static const int32_t ids[] = { 1, 8, 3 };
    static float out[TINY_VOCAB + TINY_EMBD];
    const float *got = NULL;
    memfile f;
    qsf_model_options mo;
    qsf_context_options co;
    qsf_model *m = NULL;
    qsf_context *c = NULL;
    qsf_model_info info = { .size = sizeof info };
    gguf_build_end(b);
    memset(&err, 0, sizeof err);
    memfile_init(&f, b->out, b->len);
    qsf_model_defaults(&mo);
    mo.file = &f.file;
    qsf_status st = qsf_model_open("m.gguf", &mo, &m, &err);
    if (!st) st = qsf_model_get_info(m, &info);
    qsf_context_defaults(&co);
    co.n_threads = 1;
    co.f32 = true;
    if (!st) st = qsf_context_new(m, &co, &c, &err);
    *n = info.encoder ? TINY_EMBD : TINY_VOCAB;
    if (!st && info.encoder) st = qsf_embed(c, 0, ids, 3, QSF_POOL_MEAN, out);
    else if (!st && !(st = qsf_feed(c, 0, ids, 3, &got))) memcpy(out, got, TINY_VOCAB * sizeof *got);
    if (st) printf("      %s: %s\n", qsf_status_name(st), err.text);
    qsf_context_free(c);
    qsf_model_close(m);
    return st ? NULL : out;
}

static void check_saved(const qsf_arch *a)
{
    float want[TINY_VOCAB + TINY_EMBD], *got;
    size_t n = 0, same = 0;
    gguf_build plain = by_row(a, NULL, NULL), saved = by_row(a, NULL, NULL);
    save_keys(&saved, a);
    scatter(&plain);
    scatter(&saved);
    got = results_of(&plain, &n);
    if (got) memcpy(want, got, n * sizeof *got);
    else CHECK_STR(a->name, "one that runs");
    const bool ran = got != NULL;
    got = results_of(&saved, &n);
    for (size_t i = 0; ran && i < n; i++) {
        if (!(fabsf(want[i]) < 1e6f)) CHECK_STR(a->name, "one with finite results");
        same += want[i] == want[0];
    }
    if (same == n || !got || (ran && memcmp(got, want, n * sizeof *got)))
        CHECK_STR(a->name, "one that is the same when all keys are there");
    gguf_build_free(&plain);
    gguf_build_free(&saved);
}

TEST(a_bias_of_no_feed_forward_is_refused)
{
    form.experts = form.no_length = true;
    gguf_build b = by_row(qsf_arch_find("llama"), NULL, qsf_role_of(QSF_K_FFN_GATE_BIAS));
    refuse(&b, QSF_E_CORRUPT, "expected 0 x 0");
    form.experts = form.no_length = false;
}

/* llama.cpp saves all keys; values of keys that it did not read must have no effect. */
TEST(a_file_with_all_keys_at_their_defaults_is_the_same)
{
    for (const qsf_arch *a = qsf_archs; a->name; a++)
        if (!is_apart(a)) check_saved(a);
    form.experts = form.no_length = true;
    for (const qsf_arch *a = qsf_archs; a->name; a++)
        if (a->experts >= QSF_EXPERTS_MAY && a->experts != QSF_EXPERTS_EACH) check_saved(a);
    form.experts = form.no_length = false;
}

/* A model with experts runs the same under an architecture name for dense models. */
TEST(experts_are_the_same_under_another_name)
{
    static const char *const pairs[][2] = { { "granite", "granitemoe" }, { "mistral3", "llama" } };
    form.experts = form.no_length = true;
    for (size_t i = 0; i < QSF_ARRAY_LEN(pairs); i++) {
        float want[TINY_VOCAB + TINY_EMBD];
        for (int k = 0; k < 2; k++) {
            size_t n;
            gguf_build b = by_row(qsf_arch_find(pairs[i][k]), NULL, NULL);
            scatter(&b);
            const float *got = results_of(&b, &n);
            if (!got) CHECK_STR(pairs[i][k], "one that runs");
            else if (k == 0) memcpy(want, got, n * sizeof *got);
            else if (memcmp(want, got, n * sizeof *got)) CHECK_STR(pairs[i][0], pairs[i][1]);
            gguf_build_free(&b);
        }
    }
    form.experts = form.no_length = false;
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(any_number_of_a_description_is_refused_or_runs);
    RUN(a_bias_of_no_feed_forward_is_refused);
    RUN(a_file_with_all_keys_at_their_defaults_is_the_same);
    RUN(experts_are_the_same_under_another_name);
    RUN(gguf_takes_what_the_row_of_an_architecture_says);
    return test_end();
}
