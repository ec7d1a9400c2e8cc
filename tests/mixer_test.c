/* Mixers with state: however a sequence comes to a position, its logits are the same.
 * SPDX-License-Identifier: MIT */
#include "engine_bench.h"

enum { LAYERS = 4, N = 48, CONV = 3, INNER = 24, STATE = 6, HEADS = 4, GROUPS = 2 };

static uint8_t mixers[LAYERS];

static qsf_context_options mixer_options(void)
{
    qsf_context_options co = bench_options();
    co.n_ctx = 4 * 64;
    co.n_seqs = 2;
    return co;
}

/* Every second layer has that mixer. */
static bool mixer_begin(bench *b, uint8_t mixer)
{
    tiny_options o = tiny_defaults();
    const qsf_context_options co = mixer_options();
    for (int i = 0; i < LAYERS; i++) mixers[i] = i % 2 ? QSF_MIXER_ATTENTION : mixer;
    o.hp.n_layers = LAYERS;
    o.hp.mixers = mixers;
    o.hp.attn_gate = mixer == QSF_MIXER_DELTA_NET;
    o.hp.mix_conv = CONV;
    o.hp.mix_inner = INNER;
    o.hp.mix_state = STATE;
    o.hp.mix_heads = HEADS;
    o.hp.mix_groups = GROUPS;
    return bench_write(b, &o) && bench_open(b) && bench_context(b, &co);
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

TEST(only_attention_takes_memory_for_positions)
{
    bench b;
    if (!mixer_begin(&b, QSF_MIXER_MAMBA2)) return;
    qsf_context_options co = mixer_options();
    const size_t channels = INNER + 2 * GROUPS * STATE;
    const size_t part = sizeof(float) * ((CONV - 1) * channels + INNER * STATE);
    CHECK_EQ(b.c->kv.layout.n_layers, LAYERS / 2);
    CHECK_EQ(b.c->state.bytes, 2 * qsf_round_up(part, 64));
    co.n_ctx *= 4;
    if (!bench_context(&b, &co)) return;
    CHECK_EQ(b.c->state.bytes, 2 * qsf_round_up(part, 64));
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
    RUN(only_attention_takes_memory_for_positions);
    return test_end();
}
