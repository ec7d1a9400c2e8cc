/* Mixers with state: however a sequence comes to a position, its logits are the same.
 * SPDX-License-Identifier: MIT */
#include "engine_bench.h"

enum { LAYERS = 4, N = 48, CONV = 3, INNER = 24, STATE = 6, HEADS = 4, GROUPS = 2 };

#if defined(QSF_TEST_SHORT) || defined(QSF_TEST_SLOW)       /* in one build all of it */
enum { FAR = 20000 };
#else
enum { FAR = 100000 };                  /* a position */
#endif

static uint8_t mixers[LAYERS], feed_forwards[LAYERS];

static qsf_context_options mixer_options(void)
{
    qsf_context_options co = bench_options();
    co.n_ctx = 4 * 64;
    co.n_seqs = 2;
    return co;
}

/* Every layer has that mixer, or every second one. */
static bool mixer_model(bench *b, uint8_t mixer, bool all)
{
    tiny_options o = tiny_defaults();
    for (int i = 0; i < LAYERS; i++) mixers[i] = i % 2 && !all ? QSF_MIXER_ATTENTION : mixer;
    o.hp.n_layers = LAYERS;
    o.hp.mixers = mixers;
    o.hp.attn_gate = mixer == QSF_MIXER_DELTA_NET;
    o.hp.mix_conv = CONV;
    o.hp.mix_inner = INNER;
    o.hp.mix_state = STATE;
    o.hp.mix_heads = HEADS;
    o.hp.mix_groups = GROUPS;
    if (mixer == QSF_MIXER_PLAMO) o.hp.mix_rate = 5;
    for (int i = 0; i < LAYERS && mixer == QSF_MIXER_RWKV; i++) {
        feed_forwards[i] = mixers[i] ? QSF_FEED_FORWARD_SHIFTED : QSF_FEED_FORWARD_GATED;
        o.hp.feed_forwards = feed_forwards;
        o.hp.mix_conv = 2;
        o.hp.mix_inner = o.hp.n_embd;
        o.hp.mix_state = 16;
        o.hp.mix_rate = 3;
        o.hp.mix_first = 5;
        o.hp.mix_gate = 7;
    }
    return bench_write(b, &o) && bench_open(b);
}
static bool mixer_begin(bench *b, uint8_t mixer)
{
    const qsf_context_options co = mixer_options();
    return mixer_model(b, mixer, false) && bench_context(b, &co);
}

static void check_logits(const bench *b, const float *have, const float *want, size_t rows)
{
    float most = 0, worst = 0;
    for (size_t i = 0; i < rows * b->n_vocab; i++) {
        most = QSF_MAX(most, fabsf(want[i]));
        worst = QSF_MAX(worst, fabsf(have[i] - want[i]));
    }
    CHECK(most > 0);
    CHECK_NEAR(worst / most, 0, 1e-4);
}

/* The rows that sequence s lacks, and the logits of all from there on. */
static void check_rest(bench *b, qsf_seq s, const int32_t *ids, const float *want, float *have)
{
    const size_t at = qsf_seq_length(b->c, s);
    CHECK_EQ(bench_feed(b, s, ids + at, N - at, 5, have), QSF_OK);
    check_logits(b, have, want + at * b->n_vocab, N - at);
}

static void check_mixer(uint8_t mixer)
{
    bench b;
    int32_t ids[N];
    if (!mixer_begin(&b, mixer)) return;
    float *want = bench_floats(&b, N), *have = bench_floats(&b, N);
    bench_tokens(ids, N, b.n_vocab, 3);
    CHECK_EQ(bench_feed(&b, 0, ids, N, N, want), QSF_OK);
    for (size_t chunk = 1; chunk < 9; chunk += 3) {     /* token by token, and in batches */
        CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
        CHECK_EQ(bench_feed(&b, 0, ids, N, chunk, have), QSF_OK);
        check_logits(&b, have, want, N);
    }
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);      /* back to a checkpoint, and on in a copy */
    CHECK_EQ(bench_feed(&b, 0, ids, 20, 7, NULL), QSF_OK);
    CHECK_EQ(qsf_seq_checkpoint(b.c, 0), QSF_OK);
    CHECK_EQ(bench_feed(&b, 0, ids + 20, 21, 4, NULL), QSF_OK);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 23), QSF_OK);
    CHECK_EQ(qsf_seq_length(b.c, 0), 20);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, 20), QSF_OK);
    check_rest(&b, 0, ids, want, have);
    check_rest(&b, 1, ids, want, have);
    free(want);
    free(have);
    bench_end(&b);
}

TEST(short_convolutions_go_on_from_their_state) { check_mixer(QSF_MIXER_SHORT_CONV); }
TEST(mamba_goes_on_from_its_state) { check_mixer(QSF_MIXER_MAMBA); }
TEST(mamba2_goes_on_from_its_state) { check_mixer(QSF_MIXER_MAMBA2); }
TEST(mamba2_beside_attention_goes_on_from_its_state) { check_mixer(QSF_MIXER_MAMBA2_BESIDE); }
TEST(delta_nets_go_on_from_their_state) { check_mixer(QSF_MIXER_DELTA_NET); }
TEST(plamo_goes_on_from_its_state) { check_mixer(QSF_MIXER_PLAMO); }
TEST(rwkv_goes_on_from_its_state) { check_mixer(QSF_MIXER_RWKV); }

TEST(only_attention_takes_memory_for_positions)
{
    bench b;
    if (!mixer_begin(&b, QSF_MIXER_MAMBA2)) return;
    qsf_context_options co = mixer_options();
    const size_t channels = INNER + 2 * GROUPS * STATE;
    const size_t part = sizeof(float) * ((CONV - 1) * channels + INNER * STATE);
    CHECK_EQ(b.c->executor->kv.n_layers, LAYERS / 2);
    CHECK_EQ(b.c->executor->state_bytes, 2 * qsf_round_up(part, 64));
    co.n_ctx *= 4;
    if (!bench_context(&b, &co)) return;
    CHECK_EQ(b.c->executor->state_bytes, 2 * qsf_round_up(part, 64));
    bench_end(&b);
}

/* What the engine counts for the token after n positions: how often each operation ran, rows and
 * bytes of weights of each kernel; and the memory in use then. */
typedef struct mixer_cost {
    uint64_t ops[QSF_N_OPS], rows[QSF_N_KERNELS], bytes[QSF_N_KERNELS], memory, allocs, state;
} mixer_cost;
static mixer_cost token_cost(bench *b, uint32_t n)
{
    mixer_cost cost = { .state = b->c->executor->state_bytes };
    const qsf_account *a = &b->c->account;
    const int32_t id = 7;
    int32_t ids[64];
    bench_tokens(ids, 64, b->n_vocab, 11);
    while (qsf_seq_length(b->c, 0) < n && !test_failed)
        CHECK_EQ(bench_feed(b, 0, ids, QSF_MIN(64, n - qsf_seq_length(b->c, 0)), 64, NULL), QSF_OK);
    const uint64_t allocs = b->h.n_allocs;
    qsf_context_reset_stats(b->c);
    CHECK_EQ(bench_feed(b, 0, &id, 1, 1, NULL), QSF_OK);
    for (int i = 0; i < QSF_N_OPS; i++) cost.ops[i] = a->ops[i].times;
    for (int i = 0; i < QSF_N_KERNELS; i++) {
        cost.rows[i] = a->kernels[i][0].rows + a->kernels[i][1].rows;
        cost.bytes[i] = a->kernels[i][0].bytes + a->kernels[i][1].bytes;
    }
    cost.memory = b->h.m.live_bytes;
    cost.allocs = b->h.n_allocs - allocs;
    return cost;
}

static void check_far(uint8_t mixer)
{
    bench b;
    qsf_context_options co = mixer_options();
    co.n_ctx = 2 * FAR;
    co.n_seqs = 1;
    if (!mixer_model(&b, mixer, true) || !bench_context(&b, &co)) return;
    CHECK_EQ(b.c->executor->kv.n_layers, 0);
    const mixer_cost near = token_cost(&b, 100), far = token_cost(&b, FAR);
    CHECK_EQ(qsf_seq_length(b.c, 0), FAR + 1);
    CHECK(near.ops[QSF_OP_MIX] > 0 && near.state > 0);
    CHECK(!memcmp(&near, &far, sizeof near));
    CHECK_EQ(far.allocs, 0);
    bench_end(&b);
}

TEST(a_token_at_position_100000_costs_what_one_at_100_does)
{
    check_far(QSF_MIXER_SHORT_CONV);
    check_far(QSF_MIXER_MAMBA);
    check_far(QSF_MIXER_MAMBA2);
    check_far(QSF_MIXER_DELTA_NET);
    check_far(QSF_MIXER_RWKV);
}

/* A list of feed-forwards that names experts, in a file without any. */
TEST(layers_of_experts_need_experts)
{
    bench b;
    qsf_model_options mo;
    tiny_options o = tiny_defaults();
    memset(feed_forwards, QSF_FEED_FORWARD_GATED, LAYERS);
    feed_forwards[1] = QSF_FEED_FORWARD_EXPERTS;
    o.hp.n_layers = LAYERS;
    o.hp.feed_forwards = feed_forwards;
    if (!bench_write(&b, &o)) return;
    qsf_model_defaults(&mo);
    mo.platform = &b.h.m.p;
    CHECK_EQ(qsf_model_open("m", &mo, &b.m, &b.error), QSF_E_CORRUPT);
    CHECK(strstr(b.error.text, "layer 1 has experts"));
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(short_convolutions_go_on_from_their_state);
    RUN(mamba_goes_on_from_its_state);
    RUN(mamba2_goes_on_from_its_state);
    RUN(mamba2_beside_attention_goes_on_from_its_state);
    RUN(delta_nets_go_on_from_their_state);
    RUN(layers_of_experts_need_experts);
    RUN(plamo_goes_on_from_its_state);
    RUN(rwkv_goes_on_from_its_state);
    RUN(only_attention_takes_memory_for_positions);
    RUN(a_token_at_position_100000_costs_what_one_at_100_does);
    return test_end();
}
