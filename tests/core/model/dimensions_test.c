/* QSF files with the smallest possible dimensions: each one runs or is refused with a reason.
 * SPDX-License-Identifier: MIT
 *
 * Sanitizers report errors in detail; without them a division by zero still ends the program. */
#include "engine_bench.h"
#include "qsf_repair.h"

enum { LAYERS = 2 };

static uint8_t mixers[LAYERS], feed_forwards[LAYERS];
static int n_ran, n_refused;

/* ---- a file, run ---- */

static void run_tokens(bench *b)
{
    const uint32_t n_vocab = b->m->source->hp.n_vocab;
    const int32_t ids[3] = { 0, (int32_t)n_vocab - 1, 0 };
    const float *logits = NULL;
    qsf_status st = qsf_feed(b->c, 0, ids, 1, &logits);
    if (!st) st = qsf_feed(b->c, 0, ids, 3, &logits);
    /* with a tiny n_ctx_train the context may be full */
    const bool full = st == QSF_E_FULL && b->m->source->hp.n_ctx_train < 5;
    if (st != QSF_E_CORRUPT && !full) CHECK_STR(qsf_status_name(st), "QSF_OK");
    if (!st) CHECK(logits && qsf_all_finite(logits, n_vocab));
    n_ran++;
}

/* Runs the file "m", whatever it contains. */
static void run_file(bench *b, const char *what)
{
    qsf_model_options mo;
    qsf_context_options co = bench_options();
    co.n_ctx = 0;
    co.n_batch = 8;
    co.n_logits = 1;
    qsf_model_defaults(&mo);
    mo.platform = &b->h.m.p;
    b->error.text[0] = 0;
    qsf_status st = qsf_model_open("m", &mo, &b->m, &b->error);
    for (int budget = 0; !st && budget < 2; budget++) {
        qsf_plan plan = { .size = sizeof plan };
        if (!(st = qsf_context_plan(b->m, &co, &plan, &b->error))) {
            co.ram_budget = budget ? plan.least : 0;
            st = bench_try(b, &co);
        }
        if (!st) run_tokens(b);
    }
    if (st) {
        n_refused++;
        CHECK(strlen(b->error.text) > 8 && strchr(b->error.text, ' '));
        CHECK(st == QSF_E_CORRUPT || st == QSF_E_UNSUPPORTED || st == QSF_E_ARGUMENT);
        if (test_failed) printf("      %s: %s\n", what, b->error.text);
    }
    bench_end(b);
}

static void run_options(const tiny_options *o, const char *what)
{
    bench b;
    memset(&b, 0, sizeof b);
    engine_host_init(&b.h);
    if (tiny_write(&b.h.m.p, "m", o, &b.error)) bench_end(&b);         /* such a file cannot exist */
    else run_file(&b, what);
}

/* ---- one dimension after the other ---- */

typedef struct dimension { const char *name; size_t at; } dimension;
#define DIM(name) { #name, offsetof(qsf_hparams, name) }
static const dimension dimensions[] = {
    DIM(n_layers), DIM(n_embd), DIM(n_heads), DIM(n_kv_heads), DIM(head_dim), DIM(n_ff), DIM(n_vocab),
    DIM(n_ctx_train), DIM(rope_dim), DIM(window), DIM(window_pattern), DIM(n_experts), DIM(n_used),
    DIM(n_ff_expert), DIM(n_ff_shared), DIM(n_groups), DIM(n_groups_used), DIM(n_dense), DIM(mix_conv),
    DIM(mix_inner), DIM(mix_state), DIM(mix_heads), DIM(mix_groups), DIM(mix_rate), DIM(mix_first),
    DIM(mix_gate),
};

static void set_dimension(tiny_options *o, const dimension *d, uint32_t v)
{
    memcpy((char *)&o->hp + d->at, &v, sizeof v);
}

static tiny_options plain(void)
{
    tiny_options o = tiny_defaults();
    o.vocab = QSF_VOCAB_NONE;
    o.hp.n_vocab = 40;
    return o;
}

static tiny_options base(int kind)
{
    tiny_options o = plain();
    if (kind == 1) {
        o.hp.n_experts = 4;
        o.hp.n_used = 2;
        o.hp.n_ff_expert = 20;
        o.hp.n_ff_shared = 24;
        snprintf(o.hp.arch, sizeof o.hp.arch, "qwen2moe");
    }
    if (kind == 2) o.hp.tied = false, o.biases = o.qk_norms = true, o.packing = 0;
    if (kind == 3) {
        o.hp.norm = QSF_NORM_LAYER;
        o.hp.rope = QSF_ROPE_NONE;
        o.hp.gated = false;
        o.hp.learned_pos = o.biases = true;
        o.hp.n_kv_heads = 4;
    }
    if (kind < 4) return o;
    memset(mixers, kind - 4 + QSF_MIXER_SHORT_CONV, LAYERS);
    o.hp.mixers = mixers;
    o.hp.attn_gate = mixers[0] == QSF_MIXER_DELTA_NET;
    o.hp.mix_conv = 3;
    o.hp.mix_inner = 24;
    o.hp.mix_state = 6;
    o.hp.mix_heads = 4;
    o.hp.mix_groups = 2;
    if (mixers[0] == QSF_MIXER_PLAMO) o.hp.mix_rate = 5;
    if (mixers[0] != QSF_MIXER_RWKV) return o;
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

enum { BASES = 4 + QSF_MIXER_PLAMO - QSF_MIXER_SHORT_CONV + 1 };

TEST(small_dimensions_run_or_are_refused)
{
    char what[64];
    for (int kind = 0; kind < BASES; kind += TEST_EVERY)
        for (size_t d = 0; d < QSF_ARRAY_LEN(dimensions); d++)
            for (uint32_t v = 0; v < 4; v++) {
                tiny_options o = base(kind);
                set_dimension(&o, &dimensions[d], v);
                if (dimensions[d].at == offsetof(qsf_hparams, n_heads) && v) o.hp.n_kv_heads = 1;
                if (o.hp.n_layers > LAYERS) o.hp.n_layers = LAYERS;
                snprintf(what, sizeof what, "base %d, %s %u", kind, dimensions[d].name, (unsigned)v);
                run_options(&o, what);
                for (uint8_t type = 0; kind == 0 && type < 2; type++) {         /* floats have no blocks */
                    o.type = o.embd_type = o.head_type = type ? QSF_T_F32 : QSF_T_F16;
                    run_options(&o, what);
                }
            }
    CHECK(n_ran > 200 && n_refused > 20);
}

TEST(several_small_dimensions_run_or_are_refused)
{
    uint64_t seed = 5;
    char what[64];
    for (int round = 0; round < 400; round += TEST_EVERY) {
        tiny_options o = base(round % BASES);
        const int n = 1 + (int)(tiny_uniform(&seed) * 6);
        for (int i = 0; i < n; i++) {
            const size_t d = (size_t)(tiny_uniform(&seed) * QSF_ARRAY_LEN(dimensions));
            set_dimension(&o, &dimensions[d], 1 + (uint32_t)(tiny_uniform(&seed) * 3));
        }
        if (o.hp.n_layers > LAYERS) o.hp.n_layers = LAYERS;
        if (round % 2) o.type = o.embd_type = o.head_type = QSF_T_F32;
        o.hp.tied = round % 3 != 0;
        snprintf(what, sizeof what, "round %d", round);
        run_options(&o, what);
    }
}

/* Changes only the header's numbers, whatever the rest of the file is. */
TEST(small_numbers_in_the_header_are_refused_or_run)
{
    char what[64];
    for (int kind = 0; kind < BASES; kind += TEST_EVERY)
        for (uint32_t at = 16; at < 52; at += at < 48 ? 4 : 1)
            for (uint32_t v = 0; v < 5; v++) {
                bench b;
                const tiny_options o = base(kind);
                const uint32_t value = v < 3 ? v : v == 3 ? 0x7fffffff : 0xffffffff;
                if (!bench_write(&b, &o)) return;
                mem_file *f = bench_file(&b);
                if (at < 48) qsf_put32(f->bytes + at, value);
                else f->bytes[at] = (uint8_t)value;
                qsf_repair(f->bytes, f->len);
                snprintf(what, sizeof what, "base %d, byte %u is %u", kind, (unsigned)at, (unsigned)value);
                run_file(&b, what);
            }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(small_dimensions_run_or_are_refused);
    RUN(several_small_dimensions_run_or_are_refused);
    RUN(small_numbers_in_the_header_are_refused_or_run);
    return test_end();
}
