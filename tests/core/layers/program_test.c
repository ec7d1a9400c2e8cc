/* Programs of layers: rows in order, and codes that are there when they are read.
 * SPDX-License-Identifier: MIT */
#include "layers/layer.h"
#include "test.h"

enum { EMBD = 64 };

static const qsf_hparams hparams = { .n_embd = EMBD, .n_layers = 4 };

/* A record with all sizes that lists look at. */
static qsf_layer layer_of(uint8_t mixer, uint8_t feed_forward)
{
    return (qsf_layer){ .mixer = mixer, .feed_forward = feed_forward, .n_heads = 4, .n_kv_heads = 2,
                        .head_dim = 16, .value_dim = 16, .n_ff = 96, .n_experts = 4, .n_used = 2,
                        .n_ff_expert = 32, .n_expert_embd = EMBD, .mix_conv = 4, .mix_state = 16,
                        .mix_heads = 4, .mix_groups = 1, .mix_in = 128, .mix_inner = EMBD,
                        .mix_channels = EMBD, .mix_rank = 8, .mix_rate = 8, .mix_first = 8, .mix_gate = 8 };
}

/* Weights with a matrix of every kind, and with all vectors or with none. */
static qsf_weights weights_of(bool vectors)
{
    static const float number;
    qsf_weights w = { 0 };
    for (uint32_t i = 0; i < QSF_N_KINDS; i++) {
        w.m[i].t = (qsf_tensor){ .kind = (uint8_t)i, .rows = 20 + i, .cols = EMBD };
        if (vectors) w.v[i] = &number;
    }
    return w;
}

static void program_of(qsf_program *g, const qsf_layer *l, bool fetched, bool vectors)
{
    static qsf_weights w;
    w = weights_of(vectors);
    qsf_program_begin(g, &hparams, &w, fetched);
    qsf_layer_list(l, g);
}

static bool same_view(const qsf_view *a, const qsf_view *b)
{
    return a->buffer == b->buffer && a->cols == b->cols && a->first == b->first;
}

static bool is_reader(const qsf_program_row *maker, uint8_t kind)
{
    for (uint32_t i = 0; i < maker->n_readers; i++) if (maker->readers[i] == kind) return true;
    return false;
}

/* Walks through the rows as they run: whatever reads codes finds those of its own input, made for
 * its matrices, and the input has not changed since. */
static void check_codes(const qsf_program *g)
{
    const qsf_program_row *maker = NULL;        /* of the codes in the buffer */
    bool fresh = false;                         /* what they were made of has not changed */
    for (uint32_t i = 0; i < g->n; i++) {
        const qsf_program_row *row = &g->rows[i];
        if (row->work == QSF_WORK_PRODUCT || row->work == QSF_WORK_GATHER) {
            CHECK(maker && fresh && same_view(&maker->ready, &row->in));
            for (uint32_t k = 0; maker && k < row->n; k++) CHECK(is_reader(maker, row->kinds[k]));
        }
        if (fresh && row->writes >> maker->ready.buffer & 1) fresh = false;
        if (!row->n_readers || row->over == QSF_OVER_SLOTS) continue;
        CHECK_EQ(row->over, QSF_OVER_ROWS);
        CHECK(!row->wave);
        maker = row;
        fresh = true;
    }
}

/* Products of experts find rows of slots that were made ready for all of their matrices, and the
 * same ones. */
static void check_slots(const qsf_program *g)
{
    const qsf_program_row *maker = NULL;
    for (uint32_t i = 0; i < g->n; i++) {
        const qsf_program_row *row = &g->rows[i];
        if (row->over == QSF_OVER_SLOTS) maker = row;
        if (row->work != QSF_WORK_EXPERT_PRODUCT) continue;
        CHECK(maker && maker->wave && same_view(&maker->ready, &row->in));
        CHECK_EQ(maker->n_readers, row->n);
        for (uint32_t k = 0; maker && k < row->n; k++) CHECK(is_reader(maker, row->kinds[k]));
        CHECK(maker->to[0].buffer == row->in.buffer && row->in.cols <= maker->to[0].cols);
    }
}

/* Every row has what running it takes. */
static void check_rows(const qsf_program *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const qsf_program_row *row = &g->rows[i];
        CHECK(row->over < QSF_N_OVERS && row->op < QSF_N_OPS && row->when < QSF_N_ROW_WHENS);
        CHECK(row->fn || row->n_readers || row->work == QSF_WORK_WATCH);
        CHECK_EQ(row->wave, i >= g->wave && i < g->wave_end);
        if (row->over == QSF_OVER_COLUMNS) CHECK(row->cols > 0);
        if (row->work == QSF_WORK_PRODUCT) CHECK(row->n > 0 && row->in.buffer && row->in.cols);
        if (row->over == QSF_OVER_NOTHING) CHECK(!row->n_readers);
    }
}

/* Results of a product lie one after another by whole tiles, and what a row writes is known. */
static void check_results(const qsf_program *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const qsf_program_row *row = &g->rows[i];
        uint32_t writes = 0;
        for (uint32_t k = 0; k < QSF_ROW_RESULTS; k++) {
            const qsf_view *to = &row->to[k];
            if (!to->buffer) continue;
            CHECK(k == 0 || row->to[k - 1].buffer);
            CHECK(to->buffer < QSF_N_BUFFERS && to->cols > 0);
            writes |= qsf_bit(to->buffer);
            if (row->work != QSF_WORK_PRODUCT) continue;
            CHECK_EQ(to->cols, (20 + row->kinds[k] + 15u) / 16 * 16);
            if (k && to->buffer == row->to[k - 1].buffer)
                CHECK_EQ(to->first, row->to[k - 1].first + row->to[k - 1].cols);
        }
        CHECK_EQ(row->writes, writes);
        if (row->work != QSF_WORK_WATCH && row->work != QSF_WORK_ROUTE && row->work != QSF_WORK_CODES)
            CHECK(writes);
    }
}

static void check_program(const qsf_layer *l)
{
    static qsf_program g;
    for (int i = 0; i < 4; i++) {
        program_of(&g, l, i & 1, i & 2);
        check_rows(&g);
        check_results(&g);
        check_codes(&g);
        check_slots(&g);
    }
}

/* The names of the operations that threads share, as "a, b". */
static void check_names(const qsf_program *g, const char *expected)
{
    char names[512] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < g->n; i++)
        if (g->rows[i].over != QSF_OVER_NOTHING)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "",
                                  qsf_ops[g->rows[i].op].name);
    CHECK_STR(names, expected);
}

TEST(every_mixer_with_every_feed_forward_finds_its_codes)
{
    for (uint8_t m = 0; m < QSF_N_MIXERS; m++)
        for (uint8_t f = 0; f < QSF_N_FEED_FORWARDS; f++) {
            const qsf_layer l = layer_of(m, f);
            check_program(&l);
        }
}

TEST(variants_of_layers_find_their_codes)
{
    for (uint32_t bits = 0; bits < 1u << 12; bits++) {
        qsf_layer l = layer_of(QSF_MIXER_ATTENTION, bits & 1 ? QSF_FEED_FORWARD_EXPERTS
                                                             : QSF_FEED_FORWARD_GATED);
        l.altup = l.altup_begin = bits & 2;
        l.altup_end = bits & 4 && l.altup;
        l.n_laurel = 8;
        l.n_embd_layer = bits & 8 ? 32 : 0;
        l.kv_from = bits & 16 ? 1 : 0;
        l.kv_latent = bits & 32 ? 24 : 0;
        l.q_latent = bits & 64 ? 24 : 0;
        l.head_value = l.head_plain = 8;
        l.attn_gate = bits & 128 ? 1 : 0;
        l.router_early = bits & 256;
        l.experts_beside = bits & 512;
        l.experts_apart = (bits & 1024) && !l.experts_beside;
        if (l.experts_apart) l.n_expert_embd = EMBD / 2;
        if (bits & 2048 && !l.experts_beside && !l.experts_apart) l.n_ff = bits & 1 ? 0 : 96;
        check_program(&l);
    }
}

/* Codes of the normed rows are made by the norms, those of others by rows of their own. */
TEST(a_dense_layer_has_these_rows)
{
    static qsf_program g;
    const qsf_layer l = layer_of(QSF_MIXER_ATTENTION, QSF_FEED_FORWARD_GATED);
    program_of(&g, &l, false, false);
    check_names(&g, "attention norm, qkv, place keys, attention, attention codes, attention output, "
                    "feed-forward norm, feed-forward up, feed-forward codes, feed-forward down, residual");
    CHECK_EQ(g.rows[0].n_readers, 3);
    CHECK_EQ(g.rows[0].readers[1], QSF_K_ATTN_K);
}

/* What reads the normed rows again after other codes were made gets them again. */
TEST(falcon_h1_makes_the_codes_of_its_normed_rows_twice)
{
    static qsf_program g;
    uint32_t makers = 0;
    const qsf_layer l = layer_of(QSF_MIXER_MAMBA2_BESIDE, QSF_FEED_FORWARD_GATED);
    program_of(&g, &l, false, false);
    for (uint32_t i = 0; i < g.n; i++)
        makers += g.rows[i].n_readers && g.rows[i].ready.buffer == QSF_BUF_XN;
    CHECK_EQ(makers, 3);        /* Mamba-2, attention, feed-forward */
}

/* Vectors that a layer has or lacks decide which rows there are. */
TEST(norms_are_listed_if_the_layer_has_them)
{
    static qsf_program g[2];
    const qsf_layer l = layer_of(QSF_MIXER_ATTENTION, QSF_FEED_FORWARD_GATED);
    for (int i = 0; i < 2; i++) {
        uint32_t norms = 0;
        program_of(&g[i], &l, false, i);
        for (uint32_t k = 0; k < g[i].n; k++) norms += g[i].rows[k].work == QSF_WORK_NORM;
        CHECK_EQ(norms, i ? 4 : 2);         /* of sums of heads, of hidden rows */
    }
}

int main(void)
{
    RUN(every_mixer_with_every_feed_forward_finds_its_codes);
    RUN(variants_of_layers_find_their_codes);
    RUN(a_dense_layer_has_these_rows);
    RUN(norms_are_listed_if_the_layer_has_them);
    RUN(falcon_h1_makes_the_codes_of_its_normed_rows_twice);
    return test_end();
}
