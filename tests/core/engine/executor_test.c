/* The engine sees numbers only through the executor's table: it computes the same with one whose
 * numbers are elsewhere.  That one has the CPU's compute, gives and takes copies, lets the caller
 * wait for logits and hidden states, and spoils what the engine must not look at.
 * SPDX-License-Identifier: MIT */
#include "engine_bench.h"
#include "memfile.h"

enum { N = 40, LAYERS = 6, MOST_BYTES = 1 << 17 };

static struct far {
    const qsf_executor_table *cpu;
    float      *rows[QSF_N_ROWS_KINDS];
    uint8_t    *map, *map_to;           /* what a caller has, and where it belongs; NULL: nothing is mapped */
    size_t      map_bytes;
    uint32_t    waits;                  /* calls until rows are there */
    uint32_t    fail;                   /* the call of stage or rows_out that fails, from 1; 0: none */
    uint32_t    calls, copies, maps, pending;
    uint8_t     bytes[MOST_BYTES];
} far;

/* The end of a mapping: what was written goes where it belongs. */
static void far_unmap(void)
{
    if (far.map_to) memcpy(far.map_to, far.map, far.map_bytes);
    far.map = far.map_to = NULL;
}

static qsf_status far_map(uint8_t **bytes, size_t n, bool write)
{
    far.maps++;
    if (n > MOST_BYTES) return QSF_E_FULL;
    far.map = memcpy(far.bytes, *bytes, n);
    if (write) memset(far.bytes, 0xff, n);
    far.map_to = write ? *bytes : NULL;
    far.map_bytes = n;
    *bytes = far.map;
    return QSF_OK;
}

static qsf_status far_kv_map(qsf_executor *x, uint32_t layer, uint32_t block, bool write, uint8_t **bytes,
                             qsf_error *err)
{
    far_unmap();
    const qsf_status st = far.cpu->kv_map(x, layer, block, write, bytes, err);
    return st ? st : far_map(bytes, x->kv.n_kv_heads * x->kv.record, write);
}

static qsf_status far_state_map(qsf_executor *x, uint32_t slot, bool write, uint8_t **bytes, qsf_error *err)
{
    far_unmap();
    const qsf_status st = far.cpu->state_map(x, slot, write, bytes, err);
    return st ? st : far_map(bytes, x->state_bytes, write);
}

static void far_kv_copy(qsf_executor *x, uint32_t to, uint32_t from)
{
    far_unmap();
    far.copies++;
    far.cpu->kv_copy(x, to, from);
}

static void far_state_copy(qsf_executor *x, uint32_t to, uint32_t from)
{
    far_unmap();
    far.copies++;
    far.cpu->state_copy(x, to, from);
}

static bool far_fails(qsf_error *err)
{
    far.calls++;
    if (far.calls != far.fail) return false;
    (void)qsf_fail(err, QSF_E_IO, "the device is gone");
    return true;
}

/* Between batches these rows are free. */
static void far_spoil(qsf_executor *x)
{
    static const qsf_rows_kind kinds[] = { QSF_ROWS_STATES, QSF_ROWS_STREAMS, QSF_ROWS_HIDDEN,
                                           QSF_ROWS_LOGITS };
    const qsf_hparams *hp = &((qsf_cpu_executor *)(void *)x)->host.source->hp;
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++) {
        qsf_rows at;
        CHECK_EQ(far.cpu->rows_out(x, kinds[i], &at, NULL), QSF_OK);
        const size_t n = kinds[i] == QSF_ROWS_LOGITS ? hp->n_vocab : hp->n_embd;
        for (uint32_t r = 0; r < at.n; r++)
            for (size_t j = 0; j < n; j++) at.x[r * at.ld + j] = NAN;
    }
}

static void far_begin(qsf_executor *x, bool embed)
{
    far_unmap();
    far_spoil(x);
    far.cpu->begin(x, embed);
}

static qsf_status far_stage(qsf_executor *x, const qsf_stage_work *work, qsf_error *err)
{
    return far_fails(err) ? QSF_E_IO : far.cpu->stage(x, work, err);
}

static qsf_status far_rows_out(qsf_executor *x, qsf_rows_kind kind, qsf_rows *out, qsf_error *err)
{
    const bool waits = kind == QSF_ROWS_HIDDEN || kind == QSF_ROWS_LOGITS;
    if (waits && far.pending++ < far.waits) return QSF_PENDING;
    far.pending = 0;
    if (far_fails(err)) return QSF_E_IO;
    const qsf_status st = far.cpu->rows_out(x, kind, out, err);
    if (st || kind == QSF_ROWS_SPARE || !out->n) return st;
    free(far.rows[kind]);
    far.rows[kind] = malloc(out->n * out->ld * sizeof *out->x);
    memcpy(far.rows[kind], out->x, out->n * out->ld * sizeof *out->x);
    out->x = far.rows[kind];
    return QSF_OK;
}

static void far_end(qsf_executor *x, qsf_kv_seq *seqs, bool done)
{
    far.cpu->end(x, seqs, done);
    far_spoil(x);
}

static qsf_executor_table far_table;

/* The context's numbers are elsewhere from now on. */
static void move_away(bench *b, uint32_t waits)
{
    far = (struct far){ .cpu = &qsf_cpu_executor_table, .waits = waits };
    far_table = qsf_cpu_executor_table;
    far_table.kv_copy = far_kv_copy;
    far_table.state_copy = far_state_copy;
    far_table.kv_map = far_kv_map;
    far_table.state_map = far_state_map;
    far_table.begin = far_begin;
    far_table.stage = far_stage;
    far_table.rows_out = far_rows_out;
    far_table.end = far_end;
    b->c->executor->does = &far_table;
}

static void far_done(void)
{
    for (int i = 0; i < QSF_N_ROWS_KINDS; i++) free(far.rows[i]);
    far = (struct far){ 0 };
}

/* ---- models ---- */

typedef enum kind { DENSE, STATEFUL, EXITS, N_KINDS } kind;

static bool kind_begin(bench *b, kind k)
{
    static uint8_t mixers[LAYERS];
    tiny_options o = tiny_defaults();
    qsf_context_options co = bench_options();
    o.hp.n_layers = LAYERS;
    co.n_ctx = 256;
    co.n_seqs = 2;
    if (k == STATEFUL) {
        for (int i = 0; i < LAYERS; i++) mixers[i] = i % 2 ? QSF_MIXER_ATTENTION : QSF_MIXER_SHORT_CONV;
        o.hp.mixers = mixers;
        o.hp.mix_conv = 3;
    }
    if (k == EXITS) {
        o.hp.n_layers = 12;
        co.early_exit = 0.001f;
    }
    return bench_write(b, &o) && bench_open(b) && bench_context(b, &co);
}

/* ---- what a context does ---- */

typedef struct saved { uint8_t bytes[1 << 18]; size_t len; } saved;

static qsf_status save_bytes(void *user, const void *bytes, size_t len)
{
    saved *s = user;
    if (s->len + len > sizeof s->bytes) return QSF_E_FULL;
    memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    return QSF_OK;
}

/* Prompts, single tokens, shared and truncated sequences, a batch that is dropped, a session,
 * hidden states: all numbers that it gives, in order. */
static size_t do_everything(bench *b, float *out, size_t most)
{
    const size_t v = b->n_vocab, e = b->c->hp->n_embd;
    static saved session;
    int32_t ids[N];
    size_t n = 0, n_ids = 0;
    bool waiting;
    CHECK((size_t)(2 * N + 16) * v + 8 * e <= most);
    bench_tokens(ids, N, b->n_vocab, 5);
    CHECK_EQ(bench_feed(b, 0, ids, 20, 7, out), QSF_OK);
    n += 20 * v;
    for (int i = 20; i < 29; i++) {                     /* some of these exit early */
        CHECK_EQ(bench_feed(b, 0, ids + i, 1, 1, out + n), QSF_OK);
        n += v;
    }
    const qsf_row one = { 0, ids[29], true };
    CHECK_EQ(qsf_batch_begin(b->c, &one, 1), QSF_OK);
    for (int i = 0; i < 3; i++) CHECK_EQ(qsf_step(b->c, &waiting), QSF_PENDING);
    CHECK_EQ(qsf_seq_truncate(b->c, 0, 20), QSF_OK);
    const uint32_t back = qsf_seq_length(b->c, 0);      /* state goes back to a checkpoint */
    CHECK_EQ(bench_feed(b, 0, ids + back, 20 - back, 20, NULL), QSF_OK);
    CHECK_EQ(qsf_seq_share(b->c, 1, 0, qsf_seq_length(b->c, 0)), QSF_OK);
    CHECK_EQ(bench_feed(b, 1, ids + 20, 9, 9, out + n), QSF_OK);
    CHECK_EQ(bench_feed(b, 0, ids + 20, 2, 2, out + n + 9 * v), QSF_OK);
    n += 11 * v;

    memfile f;
    session.len = 0;
    const uint32_t length = qsf_seq_length(b->c, 0);
    CHECK(bench_ok(b, qsf_session_save(b->c, 0, ids, length, save_bytes, &session, &b->error)));
    memfile_init(&f, session.bytes, session.len);
    CHECK(bench_ok(b, qsf_session_load(b->c, 1, &f.file, ids, N, &n_ids, &b->error)));
    CHECK_EQ(n_ids, 22);
    CHECK_EQ(bench_feed(b, 1, ids + 22, 8, 3, out + n), QSF_OK);
    n += 8 * v;

    qsf_hidden_ask(b->c, true);
    CHECK_EQ(bench_feed(b, 1, ids + 30, 4, 4, NULL), QSF_OK);
    for (size_t i = 0; i < 4 && qsf_hidden(b->c, i); i++, n += e)
        memcpy(out + n, qsf_hidden(b->c, i), e * sizeof *out);
    qsf_hidden_ask(b->c, false);
    return n;
}

TEST(numbers_may_be_elsewhere)
{
    for (kind k = 0; k < N_KINDS; k++) {
        bench b;
        if (!kind_begin(&b, k)) return;
        const size_t most = (size_t)3 * N * b.n_vocab;
        float *want = calloc(most, sizeof *want), *have = calloc(most, sizeof *have);
        const size_t n = do_everything(&b, want, most);
        const qsf_context_options co = b.c->o;
        if (!bench_context(&b, &co)) return;
        move_away(&b, 2);
        CHECK_EQ(do_everything(&b, have, most), n);
        CHECK(!memcmp(want, have, n * sizeof *want));
        CHECK(far.copies > 0 && far.maps > 0 && far.calls > 0);
        qsf_context_free(b.c);
        b.c = NULL;
        far_done();
        free(want);
        free(have);
        bench_end(&b);
    }
}

/* Whatever call fails: the message is the executor's, lengths are those before the batch, and the
 * next one is computed. */
TEST(a_failure_takes_the_batch_back)
{
    bench b;
    int32_t ids[N];
    if (!kind_begin(&b, STATEFUL)) return;
    bench_tokens(ids, N, b.n_vocab, 6);
    float *want = bench_floats(&b, N), *have = bench_floats(&b, N);
    CHECK_EQ(bench_feed(&b, 0, ids, N, N, want), QSF_OK);
    move_away(&b, 1);
    for (uint32_t at = 1; at <= LAYERS + 3; at++) {
        CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
        CHECK_EQ(bench_feed(&b, 0, ids, 10, 10, NULL), QSF_OK);
        far.calls = 0;
        far.fail = at;
        CHECK_EQ(bench_feed(&b, 0, ids + 10, 5, 5, have), QSF_E_IO);
        CHECK(!strcmp(qsf_last_error(b.c), "the device is gone"));
        far.fail = 0;
        CHECK_EQ(qsf_seq_length(b.c, 0), 10);
        CHECK(!qsf_logits(b.c, 0));
        CHECK_EQ(bench_feed(&b, 0, ids + 10, 5, 5, have), QSF_OK);
        CHECK_NEAR(bench_distance(have, want + (size_t)10 * b.n_vocab, 5 * b.n_vocab), 0, 1e-4);
    }
    free(want);
    free(have);
    qsf_context_free(b.c);
    b.c = NULL;
    far_done();
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(numbers_may_be_elsewhere);
    RUN(a_failure_takes_the_batch_back);
    return test_end();
}
