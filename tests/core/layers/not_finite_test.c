/* NaN and infinite weights are an error in every tensor, on every path of the activations: rounding
 * to 8 bits, maxima and top-k choices must not hide them.
 * SPDX-License-Identifier: MIT */
#include "engine_bench.h"
#include "qsf_repair.h"

enum { LAYERS = 2, TOKENS = 6 };

static uint8_t mixers[LAYERS], feed_forwards[LAYERS];

/* ---- models with every kind of tensor ---- */

static tiny_options experts(void)
{
    tiny_options o = tiny_defaults();
    o.hp.n_experts = 6;
    o.hp.n_used = 2;
    o.hp.n_ff_expert = 40;
    o.hp.n_ff_shared = 56;
    o.hp.router_norm = true;
    o.post_norms = true;
    snprintf(o.hp.arch, sizeof o.hp.arch, "qwen2moe");
    return o;
}

static tiny_options mixer(uint8_t kind)
{
    tiny_options o = tiny_defaults();
    memset(mixers, kind, LAYERS);
    o.hp.mixers = mixers;
    o.hp.attn_gate = kind == QSF_MIXER_DELTA_NET;
    o.hp.mix_conv = 3;
    o.hp.mix_inner = 24;
    o.hp.mix_state = 6;
    o.hp.mix_heads = 4;
    o.hp.mix_groups = 2;
    if (kind == QSF_MIXER_PLAMO) o.hp.mix_rate = 5;
    if (kind != QSF_MIXER_RWKV) return o;
    memset(feed_forwards, QSF_FEED_FORWARD_SHIFTED, LAYERS);
    o.hp.feed_forwards = feed_forwards;
    o.hp.mix_conv = 2;
    o.hp.mix_inner = o.hp.n_embd;
    o.hp.mix_state = 16;
    o.hp.mix_rate = 3;
    o.hp.mix_first = 5;
    o.hp.mix_gate = 7;
    return o;
}

static tiny_options attends(uint8_t act, bool gated)
{
    tiny_options o = tiny_defaults();
    o.hp.act = act;
    o.hp.gated = gated;
    o.biases = o.qk_norms = o.post_norms = true;
    o.hp.tied = false;
    return o;
}

static tiny_options learned(void)
{
    tiny_options o = tiny_defaults();
    o.hp.norm = QSF_NORM_LAYER;
    o.hp.act = QSF_ACT_GELU;
    o.hp.rope = QSF_ROPE_NONE;
    o.hp.gated = false;
    o.hp.learned_pos = o.biases = true;
    o.hp.n_kv_heads = 4;
    return o;
}

static tiny_options clamped(void)
{
    tiny_options o = tiny_defaults();
    o.hp.qkv_clamp = 2;
    o.hp.attn_softcap = 20;
    o.hp.final_softcap = 10;
    return o;
}

/* ---- one tensor at a time ---- */

/* Whether all bits set give NaN: in 16- and 32-bit floats, and in scales, which are fp16. */
static bool has_floats(const qsf_tensor *t) { return t->kind != QSF_K_PAD && t->type != QSF_T_SPARSE; }

/* Whether a tensor i with all bits set is refused, when the model is opened or when it runs. */
static void check_tensor(mem_file *f, const qsf_source *s, uint32_t unit, uint32_t i,
                         const qsf_context_options *co, const char *what)
{
    bench b;
    int32_t ids[TOKENS];
    const qsf_tensor *t = &s->tensors[i];
    const uint64_t at = s->extents[s->units[unit].first_extent].at + s->places[i];
    memset(&b, 0, sizeof b);
    engine_host_init(&b.h);
    uint8_t *bytes = malloc((size_t)f->len);
    memcpy(bytes, f->bytes, (size_t)f->len);
    memset(bytes + at, 0xff, (size_t)t->bytes);
    qsf_repair(bytes, f->len);
    mem_put(&b.h.m, "m", bytes, f->len);
    free(bytes);
    b.n_vocab = s->hp.n_vocab;
    qsf_model_options mo;
    qsf_model_defaults(&mo);
    mo.platform = &b.h.m.p;
    qsf_status st = qsf_model_open("m", &mo, &b.m, &b.error);
    if (!st) st = qsf_context_new(b.m, co, &b.c, &b.error);
    bench_tokens(ids, TOKENS, b.n_vocab, 3);
    if (!st) {
        st = bench_feed(&b, 0, ids, TOKENS, 3, NULL);
        const int32_t last = 1;
        const float *logits;
        if (!st) st = qsf_feed(b.c, 0, &last, 1, &logits);
        if (st) snprintf(b.error.text, sizeof b.error.text, "%s", qsf_last_error(b.c));
    }
    CHECK_EQ(st, QSF_E_CORRUPT);
    const bool says = strstr(b.error.text, "finite") || strstr(b.error.text, "nan");
    if (st != QSF_E_CORRUPT)
        printf("      %s: %s of unit %u\n", what, qsf_kind_name(t->kind), (unsigned)unit);
    else if (!says) CHECK_STR(b.error.text, "finite");
    bench_end(&b);
}

static void check_model(const tiny_options *o, const qsf_context_options *co, const char *what)
{
    bench b;
    qsf_source *s = NULL;
    if (!bench_write(&b, o)) return;
    CHECK_EQ(qsf_source_open(&b.h.m.p, "m", NULL, false, &s, &b.error), QSF_OK);
    for (uint32_t u = 0; s && u < s->n_units; u++)
        for (uint32_t i = 0; i < s->units[u].n_tensors; i++) {
            const qsf_tensor *t = &s->tensors[s->units[u].first_tensor + i];
            if (has_floats(t)) check_tensor(bench_file(&b), s, u, s->units[u].first_tensor + i, co, what);
        }
    qsf_source_close(s);
    bench_end(&b);
}

static qsf_context_options options(qsf_kv_type kv)
{
    qsf_context_options co = bench_options();
    co.n_batch = 8;
    co.n_logits = 4;
    co.kv_type = kv;
    return co;
}

TEST(attention_and_feed_forwards_let_no_nan_through)
{
    static const struct { uint8_t act; bool gated; qsf_kv_type kv; } kinds[] = {
        { QSF_ACT_SILU, true, QSF_KV_Q8 }, { QSF_ACT_GELU, true, QSF_KV_Q4 },
        { QSF_ACT_RELU, true, QSF_KV_F16 }, { QSF_ACT_RELU2, false, QSF_KV_Q8 },
        { QSF_ACT_RELU, false, QSF_KV_F32 },
        { QSF_ACT_SWIGLU_OAI, true, QSF_KV_Q8V4 }, { QSF_ACT_SILU, false, QSF_KV_Q2 },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++) {
        const tiny_options o = attends(kinds[i].act, kinds[i].gated);
        const qsf_context_options co = options(kinds[i].kv);
        char what[32];
        snprintf(what, sizeof what, "activation %d, %d", kinds[i].act, kinds[i].gated);
        check_model(&o, &co, what);
    }
    const qsf_context_options co = options(QSF_KV_Q8);
    tiny_options o = learned();
    check_model(&o, &co, "learned positions");
    o = clamped();
    check_model(&o, &co, "clamped");
}

TEST(mixers_let_no_nan_through)
{
    static const uint8_t kinds[] = { QSF_MIXER_SHORT_CONV, QSF_MIXER_MAMBA, QSF_MIXER_MAMBA2,
                                     QSF_MIXER_MAMBA2_BESIDE, QSF_MIXER_DELTA_NET, QSF_MIXER_PLAMO,
                                     QSF_MIXER_RWKV };
    const qsf_context_options co = options(QSF_KV_Q8);
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++) {
        const tiny_options o = mixer(kinds[i]);
        char what[32];
        snprintf(what, sizeof what, "mixer %u", kinds[i]);
        check_model(&o, &co, what);
    }
}

TEST(experts_let_no_nan_through)
{
    const qsf_context_options co = options(QSF_KV_Q8);
    const tiny_options o = experts();
    check_model(&o, &co, "experts");
}

/* The scales of trellises and of tables are single bytes, none of which is NaN. */
TEST(every_type_of_weights_lets_no_nan_through)
{
    static const uint8_t types[] = { QSF_T_2BIT_SYM, QSF_T_2BIT, QSF_T_3BIT, QSF_T_4BIT, QSF_T_TERNARY,
                                     QSF_T_F16, QSF_T_F32, QSF_T_8BIT, QSF_T_4BIT_S, QSF_T_5BIT_S,
                                     QSF_T_6BIT_S, QSF_T_3BIT_S, QSF_T_BF16, QSF_T_2BIT_S };
    for (size_t i = 0; i < QSF_ARRAY_LEN(types); i++)
        for (uint8_t packing = 0; packing < 2; packing++) {
            tiny_options o = tiny_defaults();
            qsf_context_options co = options(QSF_KV_Q8);
            o.type = o.embd_type = o.head_type = types[i];
            o.packing = packing;
            o.hp.n_layers = 1;
            o.hp.tied = false;
            co.f32 = i % 3 == 2;
            check_model(&o, &co, qsf_type_get(types[i])->name);
        }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(attention_and_feed_forwards_let_no_nan_through);
    RUN(mixers_let_no_nan_through);
    RUN(experts_let_no_nan_through);
    RUN(every_type_of_weights_lets_no_nan_through);
    return test_end();
}
