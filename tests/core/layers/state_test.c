/* State besides keys and values: whatever a sequence goes through, its state is that of a fresh run
 * over its tokens.  The mixer with state is the test's own: it is attached to the addition of the
 * residual, and the model's records declare that its layers have state.
 * SPDX-License-Identifier: MIT */
#include "engine_bench.h"
#include "memfile.h"

enum { N_CTX = 96, BATCH = 16, LAYERS = 2, WORDS = 7, PART = 64, SEQS = 2, PROMPT = 20, MOST = 30 };

/* ---- a mixer ---- */

/* A layer's state is WORDS sums over layer and tokens; a token's first one is added to its row. */
static struct mixer {
    qsf_context *c;
    void (*vec_add)(float *y, const float *a, const float *b, size_t n);
    uint64_t batch;             /* computed last */
    uint32_t layer;             /* of it, and 1 */
    uint64_t first[BATCH];      /* [rows] */
} mixer;

static void mix(uint64_t w[WORDS], uint32_t layer, int32_t token)
{
    for (uint64_t i = 0; i < WORDS; i++) {
        w[i] = (w[i] + ((uint64_t)token << 8) + 16 * layer + i + 1) * 0x9e3779b97f4a7c15u;
        w[i] ^= w[i] >> 29;
    }
}

static void mix_batch(const qsf_context *c, uint32_t layer)
{
    const size_t place = qsf_state_place(c->model->source, 1, layer);
    for (uint32_t r = 0; r < c->batch.n; r++) {
        const qsf_batch_row *row = &c->batch.rows[r];
        uint64_t w[WORDS];
        memcpy(w, qsf_state_before(&c->on_cpu.state, row->seq, row->pos) + place, sizeof w);
        mix(w, layer, row->token);
        memcpy(qsf_state_after(&c->on_cpu.state, row->seq) + place, w, sizeof w);
        mixer.first[r] = w[0];
    }
}

static void mix_and_add(float *y, const float *a, const float *b, size_t n)
{
    const qsf_context *c = mixer.c;
    const qsf_stage stage = c->now.stage;
    const uint32_t layer = 1 + stage.number;
    mixer.vec_add(y, a, b, n);
    const qsf_buffers *buffers = &c->on_cpu.b;
    if (!c->now.active || stage.kind != QSF_STAGE_LAYER || y != a) return;
    if (y < buffers->x || y >= buffers->xn) return;
    if (mixer.batch != c->fetch.batch || mixer.layer != layer) mix_batch(c, layer - 1);
    mixer.batch = c->fetch.batch;
    mixer.layer = layer;
    y[0] += (float)(mixer.first[(size_t)(y - buffers->x) / buffers->ld_embd] >> 40) * 0x1p-24f;
}

/* The state after ids[0..n). */
static void mix_fresh(const int32_t *ids, size_t n, uint64_t w[LAYERS][WORDS])
{
    memset(w, 0, LAYERS * sizeof *w);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (size_t i = 0; i < n; i++) mix(w[layer], layer, ids[i]);
}

/* ---- a model with it ---- */

static qsf_context_options state_options(void)
{
    qsf_context_options co = bench_options();
    co.n_ctx = SEQS * N_CTX;
    co.n_seqs = SEQS;
    co.n_batch = co.n_logits = BATCH;
    return co;
}

static void state_records(bench *b, uint32_t bytes)
{
    for (uint32_t i = 0; i < LAYERS; i++) b->m->source->layers[i].state_bytes = bytes;
}

static bool state_context(bench *b)
{
    const qsf_context_options co = state_options();
    state_records(b, WORDS * sizeof(uint64_t));
    if (!bench_context(b, &co)) return false;
    mixer = (struct mixer){ .c = b->c, .vec_add = b->c->k.vec_add };
    b->c->k.vec_add = mix_and_add;
    CHECK_EQ(b->c->executor->state_bytes, LAYERS * PART);
    return true;
}

static bool state_begin(bench *b)
{
    const tiny_options o = tiny_defaults();
    return bench_write(b, &o) && bench_open(b) && state_context(b);
}

static void check_state(const bench *b, qsf_seq s, const int32_t *ids, size_t n)
{
    uint64_t w[LAYERS][WORDS];
    mix_fresh(ids, n, w);
    CHECK_EQ(qsf_seq_length(b->c, s), n);
    const uint8_t *have = qsf_state_slot(&b->c->on_cpu.state, qsf_state_saved(&b->c->state, (uint32_t)s));
    for (uint32_t l = 0; l < LAYERS; l++) CHECK(!memcmp(have + l * PART, w[l], sizeof w[l]));
}

/* ---- sessions ---- */

static qsf_status load_bytes(bench *b, qsf_seq s, const memfile_bytes *from, int32_t *ids, size_t *n)
{
    memfile f;
    memfile_init(&f, from->bytes, from->len);
    return qsf_session_load(b->c, s, &f.file, ids, N_CTX, n, &b->error);
}

static bool save(bench *b, qsf_seq s, const int32_t *ids, memfile_bytes *to)
{
    to->len = 0;
    const uint32_t n = qsf_seq_length(b->c, s);
    const bool ok = bench_ok(b, qsf_session_save(b->c, s, ids, n, memfile_write, to, &b->error));
    CHECK_EQ(to->len, qsf_session_bytes(b->c, s));
    return ok;
}

/* ---- tests ---- */

TEST(models_with_attention_alone_have_no_state)
{
    bench b;
    qsf_plan plan = { .size = sizeof plan };
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    CHECK_EQ(b.c->executor->state_bytes, 0);
    CHECK(!b.c->on_cpu.state.data && !b.c->state.seqs);
    CHECK_EQ(qsf_state_memory(0, 4), 0);
    qsf_context_get_plan(b.c, &plan);
    for (size_t i = 0; i < plan.n_items; i++) CHECK(strcmp(plan.items[i].name, "state") != 0);
    CHECK_EQ(qsf_feed(b.c, 0, (const int32_t[]){ 1, 2, 3, 4 }, 4, NULL), QSF_OK);
    CHECK_EQ(qsf_seq_checkpoint(b.c, 0), QSF_OK);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 3), QSF_OK);
    CHECK_EQ(qsf_seq_length(b.c, 0), 3);        /* keys and values can be cut to any length */
    CHECK_EQ(qsf_seq_checkpoint(b.c, 9), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_checkpoint_every(b.c, -1, 5), QSF_E_ARGUMENT);
    bench_end(&b);
}

TEST(a_store_takes_the_memory_that_the_plan_counts)
{
    bench b = { 0 };
    qsf_state st;
    qsf_state_tables t;
    engine_host_init(&b.h);
    for (uint32_t seqs = 1; seqs < 9; seqs += 3) {
        const uint64_t before = b.h.m.live_bytes;
        CHECK_EQ(qsf_state_tables_init(&t, &b.h.m.p, seqs, &b.error), QSF_OK);
        CHECK_EQ(qsf_state_init(&st, &b.h.m.p, 192, t.seqs, seqs, &b.error), QSF_OK);
        CHECK_EQ(b.h.m.live_bytes - before, qsf_state_memory(192, seqs) + qsf_state_tables_bytes(seqs));
        qsf_state_done(&st);
        qsf_state_tables_done(&t);
        b.h.m.calls = 0;
        b.h.m.fail_at = 1;
        CHECK_EQ(qsf_state_tables_init(&t, &b.h.m.p, seqs, &b.error), QSF_E_MEMORY);
        qsf_state_tables_done(&t);
        b.h.m.calls = 0;
        CHECK_EQ(qsf_state_init(&st, &b.h.m.p, 192, NULL, seqs, &b.error), QSF_E_MEMORY);
        qsf_state_done(&st);
        b.h.m.fail_at = 0;
    }
    CHECK_EQ(b.h.m.live, 0);
    engine_host_done(&b.h);

    qsf_context_options co = state_options();
    if (!state_begin(&b)) return;
    for (int budget = 0; budget < 2; budget++) {
        qsf_plan plan = { .size = sizeof plan };
        uint64_t state = 0;
        if (!bench_context(&b, &co)) return;
        qsf_context_get_plan(b.c, &plan);
        for (size_t i = 0; i < plan.n_items; i++)
            if (!strcmp(plan.items[i].name, "state")) state = plan.items[i].bytes;
        CHECK(state >= qsf_state_memory(LAYERS * PART, SEQS));
        co.ram_budget = plan.least;
    }
    co.early_exit = 0.95f;                      /* skips layers, and with them their state */
    CHECK_EQ(bench_try(&b, &co), QSF_E_UNSUPPORTED);
    bench_end(&b);
}

TEST(cutting_goes_back_to_the_nearest_checkpoint)
{
    bench b;
    int32_t ids[N_CTX];
    if (!state_begin(&b)) return;
    bench_tokens(ids, N_CTX, b.n_vocab, 3);
    /* Cut a sequence of 10 + 7 + 9 + 11 + 5 to n, with checkpoints after the first and the third
     * batch. */
    static const uint32_t ends[] = { 10, 17, 26, 37, 42 };
    for (uint32_t n = 0; n <= 43; n++) {
        CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
        for (size_t i = 0, at = 0; i < QSF_ARRAY_LEN(ends); at = ends[i++]) {
            CHECK_EQ(qsf_feed(b.c, 0, ids + at, ends[i] - at, NULL), QSF_OK);
            if (i == 0 || i == 2) CHECK_EQ(qsf_seq_checkpoint(b.c, 0), QSF_OK);
        }
        check_state(&b, 0, ids, 42);
        CHECK_EQ(qsf_seq_truncate(b.c, 0, n), n <= 42 ? QSF_OK : QSF_E_ARGUMENT);
        const uint32_t reached = n >= 42 ? 42 : n >= 37 ? 37 : n >= 26 ? 26 : n >= 10 ? 10 : 0;
        check_state(&b, 0, ids, reached);
        CHECK_EQ(qsf_seq_truncate(b.c, 0, reached), QSF_OK);
        check_state(&b, 0, ids, reached);
        CHECK_EQ(qsf_feed(b.c, 0, ids + reached, 50 - reached, NULL), QSF_OK);
        check_state(&b, 0, ids, 50);
    }
    /* One every 20 positions: where the batches at 32, 64 and 80 begin; the last two are
     * still there. */
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
    CHECK_EQ(qsf_seq_checkpoint_every(b.c, 0, 20), QSF_OK);
    CHECK_EQ(qsf_feed(b.c, 0, ids, N_CTX, NULL), QSF_OK);
    CHECK_EQ(qsf_state_nearest(&b.c->state, 0, N_CTX - 1), N_CTX - BATCH);
    CHECK_EQ(qsf_state_nearest(&b.c->state, 0, 79), 64);
    CHECK_EQ(qsf_state_nearest(&b.c->state, 0, 63), 32);
    CHECK_EQ(qsf_state_nearest(&b.c->state, 0, 31), 0);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 40), QSF_OK);
    check_state(&b, 0, ids, 32);
    bench_end(&b);
}

TEST(a_batch_that_is_dropped_leaves_no_trace)
{
    bench b;
    int32_t ids[N_CTX];
    if (!state_begin(&b)) return;
    bench_tokens(ids, N_CTX, b.n_vocab, 4);
    CHECK_EQ(qsf_feed(b.c, 0, ids, 20, NULL), QSF_OK);
    for (int steps = 0; steps < LAYERS + 2; steps++) {
        const qsf_row rows[] = { { 0, 7, false }, { 0, 8, false }, { 1, 9, false }, { 0, 10, true } };
        CHECK_EQ(qsf_batch_begin(b.c, rows, QSF_ARRAY_LEN(rows)), QSF_OK);
        for (int i = 0; i < steps; i++) CHECK_EQ(qsf_step(b.c, NULL), QSF_PENDING);
        check_state(&b, 0, ids, 20);            /* without the batch under way */
        CHECK_EQ(qsf_seq_checkpoint(b.c, 0), QSF_OK);
        if (steps % 2) CHECK_EQ(qsf_seq_truncate(b.c, 0, 20), QSF_OK);
        else CHECK_EQ(qsf_batch_begin(b.c, rows, 0), QSF_E_ARGUMENT);
        check_state(&b, 0, ids, 20);
        check_state(&b, 1, ids, 0);
    }
    CHECK_EQ(qsf_feed(b.c, 0, ids + 20, 9, NULL), QSF_OK);
    check_state(&b, 0, ids, 29);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 28), QSF_OK);
    check_state(&b, 0, ids, 20);
    bench_end(&b);
}

/* Two sequences and what the test knows of them. */
typedef struct walk {
    bench   b;
    int32_t ids[SEQS][N_CTX];
    size_t  n[SEQS];
    memfile_bytes s;
} walk;

/* Both get rows of one batch, which is done or dropped after some layers. */
static void walk_batch(walk *w, uint64_t *seed)
{
    qsf_row rows[BATCH];
    size_t more[SEQS] = { 0 };
    const size_t n = 1 + (size_t)(tiny_uniform(seed) * BATCH), parts = 1 + (size_t)(tiny_uniform(seed) * 3);
    const int steps = tiny_uniform(seed) < 0.25 ? (int)(tiny_uniform(seed) * (LAYERS + 1)) : INT32_MAX;
    for (size_t i = 0; i < n; i++) {
        const int s = parts == 3 ? tiny_uniform(seed) < 0.5 : parts == 2;
        if (w->n[s] + more[s] == N_CTX) return;
        rows[i] = (qsf_row){ s, (int32_t)(tiny_uniform(seed) * w->b.n_vocab), i % 3 == 0 };
        w->ids[s][w->n[s] + more[s]++] = rows[i].token;
    }
    CHECK_EQ(qsf_batch_begin(w->b.c, rows, n), QSF_OK);
    qsf_status st = QSF_PENDING;
    for (int i = 0; i < steps && st == QSF_PENDING; i++) st = qsf_step(w->b.c, NULL);
    if (st == QSF_OK)
        for (int s = 0; s < SEQS; s++) w->n[s] += more[s];
}

static void walk_share(walk *w, uint64_t *seed)
{
    const int dst = tiny_uniform(seed) < 0.5, src = tiny_uniform(seed) < 0.7 ? !dst : dst;
    const uint32_t n = (uint32_t)(tiny_uniform(seed) * (double)(w->n[src] + 1));
    CHECK_EQ(qsf_seq_share(w->b.c, dst, src, n), QSF_OK);
    CHECK(qsf_seq_length(w->b.c, dst) <= n);
    memcpy(w->ids[dst], w->ids[src], sizeof w->ids[dst]);
    w->n[dst] = qsf_seq_length(w->b.c, dst);
}

static void walk_session(walk *w, uint64_t *seed)
{
    const int from = tiny_uniform(seed) < 0.5, to = tiny_uniform(seed) < 0.5;
    if (!save(&w->b, from, w->ids[from], &w->s)) return;
    CHECK_EQ(load_bytes(&w->b, to, &w->s, w->ids[to], &w->n[to]), QSF_OK);
    CHECK_EQ(w->n[to], w->n[from]);
}

TEST(whatever_happens_the_state_is_that_of_a_fresh_run)
{
    static walk w;
    uint64_t seed = 11;
    if (!state_begin(&w.b)) return;
    CHECK_EQ(qsf_seq_checkpoint_every(w.b.c, 1, 13), QSF_OK);
    for (int i = 0; i < 1500 && !test_failed; i++) {
        const double what = tiny_uniform(&seed);
        const int s = tiny_uniform(&seed) < 0.5;
        if (what < 0.6) walk_batch(&w, &seed);
        else if (what < 0.75) {
            const uint32_t n = (uint32_t)(tiny_uniform(&seed) * (double)(w.n[s] + 1));
            CHECK_EQ(qsf_seq_truncate(w.b.c, s, n), QSF_OK);
            CHECK(qsf_seq_length(w.b.c, s) <= n);
            w.n[s] = qsf_seq_length(w.b.c, s);
        }
        else if (what < 0.85) walk_share(&w, &seed);
        else if (what < 0.9) walk_session(&w, &seed);
        else CHECK_EQ(qsf_seq_checkpoint(w.b.c, s), QSF_OK);
        for (int k = 0; k < SEQS; k++) check_state(&w.b, k, w.ids[k], w.n[k]);
    }
    bench_end(&w.b);
}

TEST(a_session_has_the_state_and_only_a_model_with_state_takes_it)
{
    static memfile_bytes s, plain;
    bench b;
    int32_t ids[N_CTX], got[N_CTX];
    size_t n;
    if (!state_begin(&b)) return;
    float *want = bench_floats(&b, 8), *have = bench_floats(&b, 8);
    bench_tokens(ids, N_CTX, b.n_vocab, 5);
    CHECK_EQ(bench_feed(&b, 0, ids, 45, BATCH, NULL), QSF_OK);
    if (!save(&b, 0, ids, &s)) return;
    CHECK_EQ(qsf_le32(s.bytes + 4), 3);
    CHECK_EQ(qsf_le64(s.bytes + 52), LAYERS * PART);
    CHECK_EQ(bench_feed(&b, 0, ids + 45, 8, 4, want), QSF_OK);

    if (!state_context(&b)) return;             /* in another context */
    CHECK_EQ(load_bytes(&b, 1, &s, got, &n), QSF_OK);
    check_state(&b, 1, ids, 45);
    CHECK_EQ(bench_feed(&b, 1, ids + 45, 8, 4, have), QSF_OK);
    CHECK(!memcmp(have, want, 8 * b.n_vocab * sizeof *want));
    check_state(&b, 1, ids, 53);
    CHECK_EQ(qsf_seq_truncate(b.c, 1, 46), QSF_OK);
    check_state(&b, 1, ids, 45);
    CHECK_EQ(qsf_seq_truncate(b.c, 1, 44), QSF_OK);     /* before it there is no checkpoint */
    check_state(&b, 1, ids, 0);

    for (size_t i = s.len - 4 - LAYERS * PART; i < s.len; i += 9) {     /* damaged */
        s.bytes[i] ^= 4;
        CHECK_EQ(load_bytes(&b, 0, &s, got, &n), QSF_E_CORRUPT);
        s.bytes[i] ^= 4;
    }
    check_state(&b, 0, ids, 0);

    const qsf_context_options co = state_options();     /* the same model without state */
    state_records(&b, 0);
    if (!bench_context(&b, &co)) return;
    CHECK_EQ(load_bytes(&b, 0, &s, got, &n), QSF_E_CORRUPT);
    CHECK_EQ(bench_feed(&b, 0, ids, 45, BATCH, NULL), QSF_OK);
    if (!save(&b, 0, ids, &plain)) return;
    CHECK_EQ(qsf_le64(plain.bytes + 52), 0);
    CHECK_EQ(plain.len + LAYERS * PART, s.len);
    if (!state_context(&b)) return;
    CHECK_EQ(load_bytes(&b, 0, &plain, got, &n), QSF_E_CORRUPT);
    free(want);
    free(have);
    bench_end(&b);
}

/* ---- turns ---- */

/* Guesses from a list of the right tokens, every `wrong`-th of them wrong. */
typedef struct oracle { const int32_t *ids; size_t n, wrong; } oracle;
static size_t oracle_guess(void *user, const int32_t *ids, size_t n, int32_t *out, size_t cap)
{
    const oracle *w = user;
    size_t found = 0;
    CHECK(!memcmp(ids, w->ids, QSF_MIN(n, w->n) * sizeof *ids));
    for (; found < cap && n + found < w->n; found++)
        out[found] = w->ids[n + found] ^ ((n + found) % w->wrong == 0);
    return found;
}

typedef struct talk {
    bench        b;
    qsf_turn    *turn;
    qsf_sampler *sampler;
    int32_t      ids[N_CTX];    /* of the prompt and the answer */
    size_t       n, passes;
} talk;

static bool talk_begin(talk *t)
{
    *t = (talk){ 0 };
    if (!state_begin(&t->b)) return false;
    bench_tokens(t->ids, PROMPT, 256, 7);
    return bench_ok(&t->b, qsf_turn_new(t->b.c, 0, &t->turn, &t->b.error));
}

static void talk_end(talk *t)
{
    qsf_turn_free(t->turn);
    qsf_sampler_free(t->sampler);
    bench_end(&t->b);
}

/* A turn of MOST tokens, or of as many steps; the sequence then holds tokens of prompt
 * and answer. */
static void talk_answer(talk *t, const int32_t *prompt, size_t n, oracle *w, size_t steps)
{
    qsf_sampler_options so;
    qsf_turn_options o;
    qsf_turn_piece p = { .size = sizeof p };
    qsf_sampler_defaults(&so);
    so.seed = 5;
    qsf_turn_defaults(&o);
    o.max_tokens = MOST;
    o.ignore_end = true;
    o.draft = w ? QSF_DRAFT_MOST : 0;
    o.draft_fixed = true;
    o.guess = w ? oracle_guess : NULL;
    o.guess_user = w;
    qsf_sampler_free(t->sampler);
    CHECK_EQ(qsf_sampler_new(t->b.m, &so, &t->sampler, &t->b.error), QSF_OK);
    CHECK_EQ(qsf_turn_begin(t->turn, prompt, n, t->sampler, &o), QSF_OK);
    memmove(t->ids, prompt, n * sizeof *prompt);
    t->n = n;
    t->passes = 0;
    while (!p.end) {
        if (qsf_turn_next(t->turn, &p) == QSF_PENDING) {
            if (!steps--) qsf_turn_cancel(t->turn);
            else t->passes += qsf_turn_step(t->turn, NULL) == QSF_OK;
        } else if (p.token >= 0) {
            t->ids[t->n++] = p.token;
        }
    }
    CHECK(p.end == QSF_TURN_MOST || p.end == QSF_TURN_CANCELLED);
    size_t held;
    const int32_t *ids = qsf_turn_tokens(t->turn, &held);
    CHECK(held <= t->n && !memcmp(ids, t->ids, held * sizeof *ids));
    check_state(&t->b, 0, t->ids, held);
}

static size_t talk_kept(const talk *t)
{
    qsf_turn_state state = { .size = sizeof state };
    qsf_turn_get_state(t->turn, &state);
    return state.n_kept;
}

TEST(guesses_change_no_token_and_no_state)
{
    talk t;
    int32_t want[N_CTX], prompt[PROMPT];
    if (!talk_begin(&t)) return;
    memcpy(prompt, t.ids, sizeof prompt);
    talk_answer(&t, prompt, PROMPT, NULL, SIZE_MAX);
    CHECK_EQ(t.n, PROMPT + MOST);
    const size_t plain = t.passes;
    memcpy(want, t.ids, sizeof want);
    for (size_t wrong = 1; wrong < 12; wrong++) {
        oracle w = { want, PROMPT + MOST, wrong };
        CHECK_EQ(qsf_seq_truncate(t.b.c, 0, 0), QSF_OK);
        talk_answer(&t, prompt, PROMPT, &w, SIZE_MAX);
        CHECK(t.n == PROMPT + MOST && !memcmp(t.ids, want, t.n * sizeof *want));
        CHECK(t.passes <= plain);               /* what a wrong guess takes back comes with the next pass */
        if (wrong > 4) CHECK(2 * t.passes < plain);
    }
    talk_end(&t);
}

TEST(a_prompt_goes_on_from_the_nearest_checkpoint)
{
    talk t;
    int32_t first[N_CTX], longer[N_CTX];
    if (!talk_begin(&t)) return;
    talk_answer(&t, t.ids, PROMPT, NULL, SIZE_MAX);
    memcpy(first, t.ids, sizeof first);
    CHECK_EQ(qsf_seq_length(t.b.c, 0), PROMPT + MOST - 1);

    memcpy(longer, first, sizeof longer);                   /* the answer and more */
    for (size_t i = PROMPT + MOST; i < PROMPT + MOST + 4; i++) longer[i] = (int32_t)i;
    talk_answer(&t, longer, PROMPT + MOST + 4, NULL, SIZE_MAX);
    CHECK_EQ(talk_kept(&t), PROMPT + MOST - 1);

    memcpy(longer, t.ids, sizeof longer);                   /* another end of the second prompt */
    longer[PROMPT + MOST + 3] ^= 1;
    talk_answer(&t, longer, PROMPT + MOST + 4, NULL, SIZE_MAX);
    CHECK_EQ(talk_kept(&t), PROMPT + MOST - 1);             /* where the turn before began */
    longer[PROMPT + MOST] ^= 1;                             /* the same again, and another answer edited */
    talk_answer(&t, longer, PROMPT + MOST + 1, NULL, SIZE_MAX);
    CHECK_EQ(talk_kept(&t), PROMPT + MOST - 1);

    talk_answer(&t, first, PROMPT, NULL, SIZE_MAX);         /* the first again: its last token is needed */
    CHECK_EQ(talk_kept(&t), 0);
    CHECK(!memcmp(t.ids, first, t.n * sizeof *first));
    first[PROMPT + 6] ^= 1;                                 /* its answer cut and changed */
    talk_answer(&t, first, PROMPT + 8, NULL, SIZE_MAX);
    CHECK_EQ(talk_kept(&t), PROMPT);
    talk_end(&t);
}

TEST(a_turn_that_is_cancelled_leaves_its_tokens_state)
{
    talk t;
    int32_t want[N_CTX], prompt[PROMPT];
    if (!talk_begin(&t)) return;
    memcpy(prompt, t.ids, sizeof prompt);
    talk_answer(&t, prompt, PROMPT, NULL, SIZE_MAX);
    memcpy(want, t.ids, sizeof want);
    oracle w = { want, PROMPT + MOST, 3 };
    for (size_t steps = 0; steps < 48; steps++) {
        talk_answer(&t, prompt, PROMPT, &w, steps);         /* checks the state */
        CHECK(!memcmp(t.ids, want, t.n * sizeof *want));
        if (steps % 3 == 0) CHECK_EQ(qsf_seq_truncate(t.b.c, 0, 0), QSF_OK);
    }
    talk_end(&t);
}

/* A caller that takes a few rows at a time, fewer than a rejected pass has lost. */
TEST(rows_that_were_lost_come_again_in_small_batches)
{
    talk t;
    int32_t want[N_CTX], prompt[PROMPT];
    qsf_sampler_options so;
    qsf_turn_options o;
    if (!talk_begin(&t)) return;
    memcpy(prompt, t.ids, sizeof prompt);
    talk_answer(&t, prompt, PROMPT, NULL, SIZE_MAX);
    memcpy(want, t.ids, sizeof want);
    CHECK_EQ(qsf_seq_truncate(t.b.c, 0, 0), QSF_OK);
    oracle w = { want, PROMPT + MOST, 5 };
    qsf_sampler_defaults(&so);
    so.seed = 5;
    qsf_turn_defaults(&o);
    o.max_tokens = MOST;
    o.ignore_end = true;
    o.draft = QSF_DRAFT_MOST;
    o.draft_fixed = true;
    o.guess = oracle_guess;
    o.guess_user = &w;
    qsf_sampler_free(t.sampler);
    CHECK_EQ(qsf_sampler_new(t.b.m, &so, &t.sampler, &t.b.error), QSF_OK);
    CHECK_EQ(qsf_turn_begin(t.turn, prompt, PROMPT, t.sampler, &o), QSF_OK);
    qsf_turn_piece p = { .size = sizeof p };
    size_t n = PROMPT;
    for (size_t cap = 1; !p.end; cap = cap % 8 + 1) {
        qsf_row rows[8];
        const size_t len = qsf_turn_rows(t.turn, rows, cap);
        CHECK(len <= cap);
        if (len) {
            CHECK_EQ(qsf_compute(t.b.c, rows, len), QSF_OK);
            (void)qsf_turn_computed(t.turn, 0);
        }
        while (!p.end && qsf_turn_next(t.turn, &p) == QSF_OK)
            if (p.token >= 0) CHECK_EQ(p.token, want[n++]);
    }
    CHECK_EQ(n, PROMPT + MOST);
    check_state(&t.b, 0, want, qsf_seq_length(t.b.c, 0));
    talk_end(&t);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(models_with_attention_alone_have_no_state);
    RUN(a_store_takes_the_memory_that_the_plan_counts);
    RUN(cutting_goes_back_to_the_nearest_checkpoint);
    RUN(a_batch_that_is_dropped_leaves_no_trace);
    RUN(whatever_happens_the_state_is_that_of_a_fresh_run);
    RUN(a_session_has_the_state_and_only_a_model_with_state_takes_it);
    RUN(guesses_change_no_token_and_no_state);
    RUN(a_prompt_goes_on_from_the_nearest_checkpoint);
    RUN(a_turn_that_is_cancelled_leaves_its_tokens_state);
    RUN(rows_that_were_lost_come_again_in_small_batches);
    return test_end();
}
